//! Threads that share the parts of one operation.
//!
//! An operation of decoding takes some ten microseconds, and there are dozens for each token. So the
//! helpers look for work for a moment before they sleep, and take parts one by one: a helper that the
//! system is not running (on a busy machine, or in a second notebook) takes no part, and nobody waits
//! for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// How often a helper looks for work before it sleeps: some tens of microseconds.
const LOOKS: usize = 2000;

/// Threads of this process that help the one that computes.
pub(super) struct Pool {
    shared: &'static Shared,
    helpers: usize,
}

struct Shared {
    /// Held by the caller whose job it is.
    turn: Mutex<()>,
    state: Mutex<State>,
    /// How many jobs there have been: to look for a new one without the lock.
    posted: AtomicUsize,
    /// Parts that helpers are working on: to wait for them without the lock.
    running: AtomicUsize,
    wake: Condvar,
}

struct State {
    job: Option<Job>,
    asleep: usize,
}

struct Job {
    run: &'static (dyn Fn(usize) + Sync),
    next: usize,
    parts: usize,
    /// Helpers with a number below this may help.
    helpers: usize,
    panicked: bool,
}

/// The pool of this process; its threads start at the first call.
pub(super) fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::start(candle_core::utils::get_num_threads().saturating_sub(1)))
}

impl Pool {
    fn start(wanted: usize) -> Self {
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            turn: Mutex::new(()),
            state: Mutex::new(State { job: None, asleep: 0 }),
            posted: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            wake: Condvar::new(),
        }));
        let start = |helper: usize| {
            let name = format!("quantlab-{helper}");
            std::thread::Builder::new().name(name).spawn(move || shared.help(helper)).is_ok()
        };
        // A system that refuses threads leaves fewer helpers, not an error.
        let helpers = (0..wanted).take_while(|&helper| start(helper)).count();
        Self { shared, helpers }
    }

    /// The number of threads that can work at once, the caller's included.
    pub fn threads(&self) -> usize {
        self.helpers + 1
    }

    /// Calls `run` once for each number below `parts`, on the caller's thread and at most
    /// `threads - 1` others, and returns when all calls have returned.
    pub fn run(&self, parts: usize, threads: usize, run: &(dyn Fn(usize) + Sync)) {
        let helpers = threads.saturating_sub(1).min(self.helpers);
        // While another caller has the helpers, this one works alone rather than wait.
        let turn = if helpers > 0 && parts > 1 { self.shared.take_turn() } else { None };
        if turn.is_none() {
            return (0..parts).for_each(run);
        }
        // SAFETY: only the lifetime changes. `run` is called by helpers only through the job, and
        // `Posted` takes the job away and waits for the running calls before this function is left,
        // also by a panic.
        let run: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(run) };
        let posted = Posted::new(self.shared, Job { run, next: 0, parts, helpers, panicked: false });
        while let Some((run, part)) = self.shared.claim(None) {
            run(part);
        }
        drop(posted);
    }
}

impl Shared {
    /// The right to post jobs, unless another caller has it. A caller that panicked gave it back.
    fn take_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of the current job, for the caller (`None`) or a helper by its number.
    fn claim(&self, helper: Option<usize>) -> Option<(&'static (dyn Fn(usize) + Sync), usize)> {
        let mut state = self.state();
        let job = state.job.as_mut()?;
        let may_help = helper.is_none_or(|helper| helper < job.helpers);
        if !may_help || job.next >= job.parts {
            return None;
        }
        job.next += 1;
        if helper.is_some() {
            self.running.fetch_add(1, Ordering::Relaxed);
        }
        Some((job.run, job.next - 1))
    }

    /// The life of a helper.
    fn help(&self, helper: usize) {
        let mut seen = 0;
        loop {
            self.wait_for_job(&mut seen);
            while let Some((run, part)) = self.claim(Some(helper)) {
                let outcome = catch_unwind(AssertUnwindSafe(|| run(part)));
                if outcome.is_err()
                    && let Some(job) = &mut self.state().job
                {
                    job.panicked = true;
                }
                // What this part wrote is visible to whoever sees it finished.
                self.running.fetch_sub(1, Ordering::Release);
            }
        }
    }

    fn wait_for_job(&self, seen: &mut usize) {
        let is_new = |seen: usize| self.posted.load(Ordering::Acquire) != seen;
        let mut looks = 0;
        while !is_new(*seen) {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            let mut state = self.state();
            state.asleep += 1;
            while !is_new(*seen) {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.asleep -= 1;
        }
        *seen = self.posted.load(Ordering::Acquire);
    }
}

/// A job that is on offer; dropping it takes it back and waits for the parts in work.
struct Posted<'a> {
    shared: &'a Shared,
}

impl<'a> Posted<'a> {
    fn new(shared: &'a Shared, job: Job) -> Self {
        let mut state = shared.state();
        state.job = Some(job);
        shared.posted.fetch_add(1, Ordering::Release);
        if state.asleep > 0 {
            shared.wake.notify_all();
        }
        Self { shared }
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        // No helper can claim a part from here on.
        if let Some(job) = &mut self.shared.state().job {
            job.next = job.parts;
        }
        let mut looks = 0;
        while self.shared.running.load(Ordering::Acquire) > 0 {
            looks += 1;
            // The helper may be waiting for this very processor.
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let job = self.shared.state().job.take();
        if job.is_some_and(|job| job.panicked) && !std::thread::panicking() {
            panic!("a part of a computation panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once_whoever_calls() {
        let pool = Pool::start(3);
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..200 {
                        let parts = (caller * 7 + round) % 23;
                        let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                        pool.run(parts, 1 + round % 5, &|part| {
                            counts[part].fetch_add(1, Ordering::Relaxed);
                        });
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::start(2);
        for _ in 0..20 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(8, 3, &|part| assert_ne!(part % 4, 1, "on purpose"));
            }));
            assert!(outcome.is_err());
            assert!(pool.shared.take_turn().is_some(), "the helpers are free again");
            pool.run(8, 3, &|_| ());
        }
    }

    #[test]
    fn helpers_that_sleep_wake_up() {
        let pool = Pool::start(1);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let done = AtomicUsize::new(0);
            pool.run(64, 2, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), 64);
        }
    }
}
