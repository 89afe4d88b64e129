//! Threads that share the parts of one operation.
//!
//! An operation of decoding takes some ten microseconds, and there are dozens for each token. So the
//! helpers look for work for a moment before they sleep, and take parts one by one: a helper that the
//! system is not running (on a busy machine, or in a second notebook) takes no part, and nobody waits
//! for it.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// How often a helper looks for work before it sleeps: some tens of microseconds.
const LOOKS: usize = 4000;

/// More parts than threads, so that a thread that is held up is not waited for long.
const PARTS_PER_THREAD: usize = 8;

/// A part with fewer multiplications than this is done before another thread could take it over.
const WORTH_HANDING_OVER: usize = 32 * 1024;

/// The right to use the helpers for a while, or none of them if another caller has it.
///
/// While another caller computes, this one works alone rather than wait.
pub(crate) struct Shares {
    pool: &'static Pool,
    turn: Option<MutexGuard<'static, ()>>,
    threads: usize,
    /// A part must not post a job of its own: without `Sync`, no part can hold this.
    _alone: PhantomData<Cell<()>>,
}

impl Shares {
    /// At most `threads` threads, the caller's included.
    pub(super) fn of(pool: &'static Pool, threads: usize) -> Self {
        let turn = if threads > 1 { pool.take_turn() } else { None };
        if turn.is_some() {
            pool.limit_to(threads - 1);
        }
        Self { pool, turn, threads, _alone: PhantomData }
    }

    /// How many threads compute, the caller's included: 1 if another caller has the helpers.
    pub fn threads(&self) -> usize {
        if self.turn.is_some() { self.threads } else { 1 }
    }

    /// Calls `run` for ranges that together make up `0..count`, on several threads if it is worth it;
    /// returns when all calls have. A range's length is a multiple of `together`, but for the last;
    /// `work` is the number of multiplications for each of `count`.
    pub fn split(&self, count: usize, together: usize, work: usize, run: &(dyn Fn(Range<usize>) + Sync)) {
        let parts = (count.saturating_mul(work) / WORTH_HANDING_OVER).min(self.threads * PARTS_PER_THREAD);
        if self.turn.is_none() || parts <= 1 {
            return run(0..count);
        }
        let size = count.div_ceil(parts).next_multiple_of(together);
        self.pool.run(count.div_ceil(size), self.threads, &|part| run(part * size..count.min((part + 1) * size)));
    }

    /// As [`split`](Self::split), for parts of `out` that are whole numbers of units: calls
    /// `run(first, part)`, where `first` is the number of the part's first unit.
    pub fn split_mut<T: Send>(&self, out: &mut [T], unit: usize, work: usize, run: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let start = Start(out.as_mut_ptr());
        self.split(out.len() / unit, 1, work, &|units| {
            let start = &start;
            // SAFETY: the ranges lie within the slice and do not overlap, and `out` is borrowed until all
            // calls have returned.
            let part = unsafe { std::slice::from_raw_parts_mut(start.0.add(units.start * unit), units.len() * unit) };
            run(units.start, part);
        });
    }
}

/// Where a slice begins that threads write parts of.
struct Start<T>(*mut T);

// SAFETY: each thread gets a part of its own.
unsafe impl<T: Send> Sync for Start<T> {}

/// Threads of this process that help the one that computes.
pub(in crate::model) struct Pool {
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
    run: &'static (dyn Fn(usize) + Sync),
    parts: usize,
    /// Helpers with a number below this may help.
    helpers: usize,
}

/// The lower half of a ticket of a job that takes no more helpers.
const CLOSED: u64 = u32::MAX as u64;

// SAFETY: the job is written only by the caller that has the turn, while the ticket is closed and no
// helper is inside; helpers read it only inside, with the ticket open.
unsafe impl Sync for Pool {}

impl Pool {
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

    /// The right to post jobs, unless another caller has it; a caller that panicked gave it back.
    fn take_turn(&'static self) -> Option<MutexGuard<'static, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Starts helpers until there are `wanted`; a system that refuses threads leaves fewer, not an error.
    pub fn grow(&'static self, wanted: usize) {
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

    /// Calls `run` once for each number below `parts`, on the caller's thread and at most
    /// `threads - 1` others, and returns when all calls have returned. The caller has the turn.
    fn run(&self, parts: usize, threads: usize, run: &(dyn Fn(usize) + Sync)) {
        // SAFETY: only the lifetime changes. Helpers call `run` only while they are inside, and `Open`
        // waits until none is before this function is left, also by a panic.
        let run: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(run) };
        // SAFETY: the ticket is closed and nobody is inside: `Open` saw to it for the last job.
        unsafe { *self.job.get() = Job { run, parts, helpers: threads - 1 } };
        let open = Open::new(self);
        while let Some(part) = self.claim(open.number, parts) {
            run(part);
        }
        drop(open);
    }

    /// The next part of job `number`, if there is one.
    fn claim(&self, number: u64, parts: usize) -> Option<usize> {
        let open = |ticket: u64| ticket >> 32 == number && (ticket & CLOSED) < parts as u64;
        let claimed = self.ticket.fetch_update(SeqCst, SeqCst, |ticket| open(ticket).then_some(ticket + 1));
        claimed.ok().map(|ticket| (ticket & CLOSED) as usize)
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
                    && let Some(part) = self.claim(seen, *parts)
                {
                    if catch_unwind(AssertUnwindSafe(|| run(part))).is_err() {
                        self.panicked.store(true, SeqCst);
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
    pool: &'a Pool,
    number: u64,
}

impl<'a> Open<'a> {
    fn new(pool: &'a Pool) -> Self {
        // Job numbers return after 2^32 jobs; no helper sleeps through so many with a part in hand.
        let number = ((pool.ticket.load(SeqCst) >> 32) + 1) & u64::from(u32::MAX);
        pool.ticket.store(number << 32, SeqCst);
        // A helper that falls asleep counts itself first and then looks at the ticket once more.
        if pool.asleep.load(SeqCst) > 0 {
            let _asleep = pool.lock();
            pool.wake.notify_all();
        }
        Self { pool, number }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.pool.ticket.store(self.number << 32 | CLOSED, SeqCst);
        let mut looks = 0;
        while self.pool.inside.load(SeqCst) > 0 {
            looks += 1;
            // The helper may be waiting for this very processor.
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        if self.pool.panicked.swap(false, SeqCst) && !std::thread::panicking() {
            panic!("a part of a computation panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(helpers: usize) -> &'static Pool {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
        pool.grow(helpers);
        pool
    }

    #[test]
    fn every_part_runs_once_whoever_calls() {
        let pool = pool(3);
        std::thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || {
                    for round in 0..500 {
                        let count = (caller * 7 + round) % 230;
                        let counts: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                        let shares = Shares::of(pool, 1 + round % 5);
                        shares.split(count, 1 + round % 3, WORTH_HANDING_OVER, &|part| {
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
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = pool(2);
        for _ in 0..20 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let shares = Shares::of(pool, 3);
                shares.split(8, 1, WORTH_HANDING_OVER, &|part| assert!(!part.contains(&5), "on purpose"));
            }));
            assert!(outcome.is_err());
            let turn = pool.take_turn().expect("the helpers are free again");
            pool.run(8, 3, &|_| ());
            drop(turn);
        }
    }

    #[test]
    fn helpers_beyond_the_limit_take_no_part_until_it_rises() {
        let pool = pool(3);
        let helped = |threads: usize| {
            let others = Mutex::new(std::collections::HashSet::new());
            for _ in 0..50 {
                Shares::of(pool, threads).split(64, 1, WORTH_HANDING_OVER, &|_| {
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
        let pool = pool(1);
        let helped = AtomicBool::new(false);
        let caller = std::thread::current().id();
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            Shares::of(pool, 2).split(16, 1, WORTH_HANDING_OVER, &|_| {
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
