//! How many threads compute, and a scope in which they do.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::isa::Isa;
use crate::pool::{ThreadPool, Turn};
use crate::strided::Divided;

static POOL: ThreadPool = ThreadPool::new();

/// What was asked for; 0 until somebody asks.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// More threads than this are a mistake.
pub const MAX_THREADS: usize = 1024;

/// More parts than threads: the last ones are small, so that nobody waits long for another's.
const PARTS_PER_THREAD: usize = 8;

/// A part with fewer multiplications than this is done before another thread could take it over.
const WORTH_HANDING_OVER: usize = 32 * 1024;

/// The number of threads that computations use: [`default_threads`] until [`set_threads`] says otherwise.
pub fn threads() -> usize {
    match WANTED.load(Ordering::Relaxed) {
        0 => default_threads(),
        wanted => wanted,
    }
}

/// One thread for each physical core of the machine, or for each processor that this process may use if these are fewer;
/// or what `RAYON_NUM_THREADS` says.
pub fn default_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let told = std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok());
        let told = told.filter(|&count: &usize| count > 0);
        // The machine's cores; a container, or `taskset`, may allow fewer.
        let allowed = std::thread::available_parallelism().map_or(MAX_THREADS, usize::from);
        told.unwrap_or_else(|| num_cpus::get_physical().min(allowed)).clamp(1, MAX_THREADS)
    })
}

/// Makes computations use `count` threads, between 1 and [`MAX_THREADS`], from the next scope on.
///
/// # Panics
/// A count outside of these limits.
pub fn set_threads(count: usize) {
    assert!((1..=MAX_THREADS).contains(&count), "cannot use {count} threads");
    WANTED.store(count, Ordering::Relaxed);
}

/// The threads for one step of a model.
pub fn thread_scope() -> ThreadScope {
    let scope = scope_of(threads(), Isa::best());
    FEWEST.set(FEWEST.get().min(scope.threads()));
    scope
}

/// A scope of at most this many threads, with an instruction set.
pub(crate) fn scope_of(threads: usize, isa: Isa) -> ThreadScope {
    ThreadScope::of(&POOL, threads, isa)
}

thread_local! {
    /// The fewest threads that a scope of this thread was granted within [`threads_granted`].
    static FEWEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `work`, and returns with its result the fewest threads that any [`ThreadScope`] in it was granted on the
/// calling thread: [`threads`], or 1 if another caller computed meanwhile.
pub fn threads_granted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let outside = FEWEST.replace(usize::MAX);
    let result = work();
    let inside = FEWEST.get();
    FEWEST.set(inside.min(outside));
    (result, inside.min(threads()))
}

/// The right to use the pool's threads for a while, or none of them if another caller has it; and the instruction set
/// that they use.
///
/// While another caller computes, this one works alone rather than wait.
pub struct ThreadScope {
    turn: Option<Turn>,
    threads: usize,
    isa: Isa,
}

impl ThreadScope {
    /// At most `threads` threads, the caller's included.
    pub(crate) fn of(pool: &'static ThreadPool, threads: usize, isa: Isa) -> Self {
        let turn = if threads > 1 { pool.take_turn(threads - 1) } else { None };
        let threads = if turn.is_some() { threads } else { 1 };
        Self { turn, threads, isa }
    }

    /// The same threads with another instruction set, to measure it.
    pub fn with_isa(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }

    /// The instruction set that computes.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Threads that compute: 1 where another caller has the others.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `run` for ranges that together make up `0..count`, on several threads if it is worth it; returns when all
    /// calls have. A range's length is a multiple of `multiple`, except for the last; `work` is the number of
    /// multiplications for each of `count`.
    ///
    /// # Panics
    /// `run` panics, on any thread; `run` splits through this same scope, which it can reach by a `thread_local!`,
    /// while helpers share its calls; a `multiple` of 0.
    pub fn split(&self, count: usize, multiple: usize, work: usize, run: &(dyn Fn(Range<usize>) + Sync)) {
        assert!(multiple > 0, "ranges cannot be multiples of 0");
        let parts = (count.saturating_mul(work) / WORTH_HANDING_OVER).min(self.threads * PARTS_PER_THREAD);
        let Some(turn) = self.turn.as_ref().filter(|_| parts > 1) else {
            return run(0..count);
        };
        let size = count.div_ceil(parts).next_multiple_of(multiple);
        let run = |parts: Range<usize>| run(parts.start * size..count.min(parts.end.saturating_mul(size)));
        turn.run(count.div_ceil(size), self.threads, &run);
    }

    /// As [`split`](Self::split), for several counts at once: calls `run(index, range)` for ranges that together make up
    /// `0..counts[index]`, for each index.
    ///
    /// # Panics
    /// As [`split`](Self::split).
    pub(crate) fn split_several(&self, counts: &[usize], work: usize, run: &(dyn Fn(usize, Range<usize>) + Sync)) {
        self.split(counts.iter().sum(), 1, work, &|range| {
            let mut start = 0;
            for (index, &count) in counts.iter().enumerate() {
                let part = range.start.max(start)..range.end.min(start + count);
                if !part.is_empty() {
                    run(index, part.start - start..part.end - start);
                }
                start += count;
            }
        });
    }

    /// As [`split`](Self::split), for parts of `out` that are whole numbers of units: calls
    /// `run(first, part)`, where `first` is the number of the part's first unit.
    ///
    /// # Panics
    /// As [`split`](Self::split); a slice that is not whole units.
    pub fn split_mut<T: Send>(&self, out: &mut [T], unit: usize, work: usize, run: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let len = out.len();
        assert!(unit > 0 && len.is_multiple_of(unit), "{len} numbers are not whole units of {unit}");
        if len == 0 {
            return;
        }
        let (count, out) = (len / unit, Divided::new(out, len));
        self.split(count, 1, work, &|units| {
            // SAFETY: the ranges of different calls do not overlap.
            let mut part = unsafe { out.block(0..1, units.start * unit..units.end * unit) };
            run(units.start, part.row(0));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_caller_is_granted_one_thread_and_knows() {
        // Other tests may have the helpers for a moment.
        let first = std::iter::repeat_with(thread_scope).find(|scope| scope.threads() == threads());
        let second = std::thread::spawn(|| threads_granted(|| drop(thread_scope())).1);
        assert_eq!(second.join().unwrap(), 1);
        drop(first);
        assert_eq!(threads_granted(|| ()).1, threads(), "nothing was asked for");
    }
}
