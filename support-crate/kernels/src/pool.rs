//! Threads that share the parts of one operation.
//!
//! An operation of decoding takes some ten microseconds, and there are dozens for each token. So the
//! helpers look for work for a moment before they sleep, and take parts as they come to them: a helper that
//! the system is not running (on a busy machine, or in a second notebook) takes no part, and nobody waits
//! for it.
//!
//! Where n threads compute, each takes one of 2 n - 1 equal shares of the parts that are left: many at first and single
//! ones at the end. Whatever starts anew with each range, such as a stream from memory, starts rarely, and yet all
//! threads finish at about the same time, even where one has half the speed of the others.
//!
//! After Polychronopoulos and Kuck 1987, "Guided Self-Scheduling", where the share is one of n.

use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// How often a helper looks for work before it sleeps: some tens of microseconds, and by estimate a few hundred on Intel's
/// processors since Skylake, where the pause between two looks is longer.
const LOOKS: usize = 4000;

/// The right to post jobs to a pool, as long as it is held.
pub struct Turn {
    pool: &'static ThreadPool,
    _held: MutexGuard<'static, ()>,
    /// Whether a job is on offer. As this is not `Sync`, only the caller's thread has it; parts that run there may
    /// reach it, through a `thread_local!`, and must not post a job of their own.
    running: Cell<bool>,
}

impl Turn {
    /// Calls `run` for ranges that together make up `0..parts`, on the caller's thread and at most
    /// `threads - 1` others, and returns when all calls have returned.
    ///
    /// # Panics
    /// `run` panics, on any thread, or posts a job through this same turn; there are more parts than a ticket can
    /// count.
    pub fn run(&self, parts: usize, threads: usize, run: &(dyn Fn(Range<usize>) + Sync)) {
        let pool = self.pool;
        assert!((parts as u64) < CLOSED, "a job cannot have {parts} parts");
        assert!(!self.running.replace(true), "a part of a job must not post a job of its own");
        // SAFETY: only the lifetime changes. Helpers call `run` only while they are inside, and `Open` waits until none
        // is before this function returns or unwinds.
        let run: &'static (dyn Fn(Range<usize>) + Sync) = unsafe { std::mem::transmute(run) };
        // SAFETY: this is the only turn, and it was not running: no job is on offer, the ticket is closed and nobody is
        // inside; `Open` made sure of that for the last job.
        unsafe { *pool.job.get() = Job { run, parts, helpers: threads - 1 } };
        let open = Open::new(self);
        while let Some(some) = pool.claim(open.number, parts, threads) {
            run(some);
        }
        drop(open);
        assert!(!pool.panicked.load(SeqCst), "a part of a computation panicked");
    }
}

/// Threads of this process that help the one that computes.
pub struct ThreadPool {
    /// Held by the caller whose jobs these are.
    turn: Mutex<()>,
    /// The number of the job and, in the lower half, of its next part.
    ticket: AtomicU64,
    job: UnsafeCell<Job>,
    /// Helpers that may be looking at the job.
    inside: AtomicUsize,
    panicked: AtomicBool,
    /// How many helpers sleep, and the helpers that there are.
    asleep: AtomicUsize,
    helpers: Mutex<usize>,
    wake: Condvar,
    /// Helpers with a number from here on have nothing to do until this rises.
    limit: AtomicUsize,
    limit_rose: Condvar,
}

struct Job {
    run: &'static (dyn Fn(Range<usize>) + Sync),
    parts: usize,
    /// Helpers with a number below this may help.
    helpers: usize,
}

/// The lower half of a ticket of a job that takes no more helpers.
const CLOSED: u64 = u32::MAX as u64;

// SAFETY: the job is written only by the caller that has the turn, while the ticket is closed and no
// helper is inside; helpers read it only inside, with the ticket open.
unsafe impl Sync for ThreadPool {}

impl ThreadPool {
    pub const fn new() -> Self {
        Self {
            turn: Mutex::new(()),
            ticket: AtomicU64::new(CLOSED),
            job: UnsafeCell::new(Job { run: &|_| (), parts: 0, helpers: 0 }),
            inside: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            helpers: Mutex::new(0),
            wake: Condvar::new(),
            limit: AtomicUsize::new(usize::MAX),
            limit_rose: Condvar::new(),
        }
    }

    /// Lets helpers with a number from `count` on sleep, so that they do not compete with those that compute.
    fn limit_to(&self, count: usize) {
        if self.limit.load(SeqCst) != count {
            let _helpers = self.lock();
            self.limit.store(count, SeqCst);
            self.limit_rose.notify_all();
        }
    }

    /// The right to post jobs for this many helpers, unless another caller has it; a caller that panicked gave it back.
    pub fn take_turn(&'static self, helpers: usize) -> Option<Turn> {
        let held = match self.turn.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.grow(helpers);
        self.limit_to(helpers);
        Some(Turn { pool: self, _held: held, running: Cell::new(false) })
    }

    /// Starts helpers until there are `wanted`; a system that refuses threads leaves fewer, not an error.
    fn grow(&'static self, wanted: usize) {
        let mut helpers = self.lock();
        while *helpers < wanted {
            let number = *helpers;
            let named = std::thread::Builder::new().name(format!("quantlab-{number}"));
            if named.spawn(move || self.help(number)).is_err() {
                return;
            }
            *helpers += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.helpers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next parts of job `number`, if any are left; `threads` share them.
    fn claim(&self, number: u64, parts: usize, threads: usize) -> Option<Range<usize>> {
        let open = |ticket: u64| ticket >> 32 == number && (ticket & CLOSED) < parts as u64;
        let first = |ticket: u64| (ticket & CLOSED) as usize;
        let count = |ticket: u64| (parts - first(ticket)).div_ceil(2 * threads - 1);
        let taken = |ticket: u64| open(ticket).then(|| ticket + count(ticket) as u64);
        let ticket = self.ticket.fetch_update(SeqCst, SeqCst, taken).ok()?;
        Some(first(ticket)..first(ticket) + count(ticket))
    }

    /// The life of a helper.
    fn help(&self, helper: usize) {
        let mut seen = CLOSED;
        loop {
            self.wait_below_limit(helper);
            let ticket = self.wait_for_job(seen);
            seen = ticket >> 32;
            self.inside.fetch_add(1, SeqCst);
            // Whoever closes a job first closes the ticket and then waits for those inside; this helper
            // first went inside and now looks at the ticket. One of the two sees the other.
            let ticket = self.ticket.load(SeqCst);
            if ticket >> 32 == seen && ticket & CLOSED != CLOSED {
                // SAFETY: the job is not written while a helper is inside and the ticket was open.
                let Job { run, parts, helpers } = unsafe { &*self.job.get() };
                while helper < *helpers
                    && let Some(some) = self.claim(seen, *parts, helpers + 1)
                {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(some))) {
                        self.panicked.store(true, SeqCst);
                        // Dropping the panic's payload may panic again, and this helper would then never leave.
                        std::mem::forget(panic);
                    }
                }
            }
            self.inside.fetch_sub(1, SeqCst);
        }
    }

    fn wait_below_limit(&self, helper: usize) {
        if helper >= self.limit.load(SeqCst) {
            let mut guard = self.lock();
            while helper >= self.limit.load(SeqCst) {
                guard = self.limit_rose.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// The ticket of a job after `seen`, once there is one.
    fn wait_for_job(&self, seen: u64) -> u64 {
        let new = || Some(self.ticket.load(SeqCst)).filter(|ticket| ticket >> 32 != seen && ticket & CLOSED != CLOSED);
        for _ in 0..LOOKS {
            if let Some(ticket) = new() {
                return ticket;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock();
        self.asleep.fetch_add(1, SeqCst);
        let ticket = loop {
            match new() {
                Some(ticket) => break ticket,
                None => guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner),
            }
        };
        self.asleep.fetch_sub(1, SeqCst);
        ticket
    }
}

/// A job that is on offer; dropping it takes it back and waits for the parts in work.
struct Open<'a> {
    turn: &'a Turn,
    number: u64,
}

impl<'a> Open<'a> {
    fn new(turn: &'a Turn) -> Self {
        let pool = turn.pool;
        // Read before it is written: waiting helpers read memory beside it.
        if pool.panicked.load(SeqCst) {
            pool.panicked.store(false, SeqCst);
        }
        // Job numbers repeat after 2^32 jobs; no helper sleeps through that many while it works on a part.
        let number = ((pool.ticket.load(SeqCst) >> 32) + 1) & u64::from(u32::MAX);
        pool.ticket.store(number << 32, SeqCst);
        // A helper that falls asleep counts itself first and then looks at the ticket once more.
        if pool.asleep.load(SeqCst) > 0 {
            let _asleep = pool.lock();
            pool.wake.notify_all();
        }
        Self { turn, number }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let pool = self.turn.pool;
        pool.ticket.store(self.number << 32 | CLOSED, SeqCst);
        let mut looks = 0;
        while pool.inside.load(SeqCst) > 0 {
            looks += 1;
            // The helper may be waiting for this very processor.
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        self.turn.running.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::threads::ThreadScope;

    fn pool() -> &'static ThreadPool {
        Box::leak(Box::new(ThreadPool::new()))
    }

    /// Enough multiplications that each of `count` is a part.
    const WORK: usize = 1 << 20;

    #[test]
    fn every_part_runs_once_whoever_calls() {
        let pool = pool();
        std::thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || {
                    for round in 0..500 {
                        let count = (caller * 7 + round) % 230;
                        let counts: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                        let scope = ThreadScope::of(pool, 1 + round % 5, Isa::best());
                        scope.split(count, 1 + round % 3, WORK, &|part| {
                            counts[part].iter().for_each(|count| {
                                count.fetch_add(1, SeqCst);
                            });
                        });
                        assert!(counts.iter().all(|count| count.load(SeqCst) == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn ranges_shrink_to_single_parts_and_leave_none_out() {
        let pool = pool();
        let turn = pool.take_turn(0).expect("nobody else has this pool");
        for threads in 2..=7 {
            for parts in 0..60 {
                let open = Open::new(&turn);
                let ranges: Vec<_> = std::iter::from_fn(|| pool.claim(open.number, parts, threads))
                    .map(|some| (some.start, some.len()))
                    .collect();
                let mut end = 0;
                for &(start, len) in &ranges {
                    let share = (parts - start).div_ceil(threads);
                    assert!(start == end && (1..=share).contains(&len), "{parts} parts, {threads} threads: {ranges:?}");
                    end = start + len;
                }
                assert_eq!(end, parts);
                assert!(ranges.is_sorted_by_key(|&(_, len)| std::cmp::Reverse(len)));
                assert!(ranges.last().is_none_or(|&(_, len)| len == 1), "{ranges:?}");
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = pool();
        for _ in 0..20 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let scope = ThreadScope::of(pool, 3, Isa::best());
                scope.split(8, 1, WORK, &|part| assert!(!part.contains(&5), "on purpose"));
            }));
            assert!(outcome.is_err());
            pool.take_turn(2).expect("the helpers are free again").run(8, 3, &|_| ());
        }
    }

    #[test]
    fn helpers_beyond_the_limit_take_no_part_until_it_rises() {
        let pool = pool();
        let helped = |threads: usize| {
            let others = Mutex::new(std::collections::HashSet::new());
            for _ in 0..50 {
                ThreadScope::of(pool, threads, Isa::best()).split(64, 1, WORK, &|_| {
                    others.lock().unwrap().insert(std::thread::current().name().map(str::to_owned));
                    std::thread::sleep(std::time::Duration::from_micros(100));
                });
            }
            let others = others.into_inner().unwrap();
            others.into_iter().flatten().filter(|name| name.starts_with("quantlab-")).collect::<Vec<_>>()
        };
        assert!(helped(2).iter().all(|name| name == "quantlab-0"));
        assert!((0..20).any(|_| helped(4).iter().any(|name| name != "quantlab-0")));
        assert!(helped(2).iter().all(|name| name == "quantlab-0"));
    }

    #[test]
    fn helpers_that_sleep_wake_up() {
        let pool = pool();
        let helped = AtomicBool::new(false);
        let caller = std::thread::current().id();
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            ThreadScope::of(pool, 2, Isa::best()).split(16, 1, WORK, &|_| {
                helped.fetch_or(std::thread::current().id() != caller, SeqCst);
                std::thread::sleep(std::time::Duration::from_micros(200));
            });
            if helped.load(SeqCst) {
                return;
            }
        }
        panic!("no helper ever took a part");
    }
}
