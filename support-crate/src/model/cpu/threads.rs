//! How many threads compute.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pool::{Pool, Shares};
use crate::error::{Error, Result};

static POOL: Pool = Pool::new();

/// What was asked for; 0 until somebody asks.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// More threads than this are a mistake.
const MOST: usize = 1024;

/// The number of threads that computations on the CPU use: one for each physical core that this process may
/// use, or what `RAYON_NUM_THREADS` says, until [`set_threads`] says otherwise.
pub fn threads() -> usize {
    match WANTED.load(Ordering::Relaxed) {
        0 => threads_unless_told(),
        wanted => wanted,
    }
}

fn threads_unless_told() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        // Candle counts the machine's cores; a container, or `taskset`, may allow fewer.
        let allowed = std::thread::available_parallelism().map_or(MOST, usize::from);
        let most = if std::env::var_os("RAYON_NUM_THREADS").is_some() { MOST } else { allowed.min(MOST) };
        candle_core::utils::get_num_threads().clamp(1, most)
    })
}

/// Makes computations on the CPU use `count` threads, from the next step of any model on; libtorch's own
/// operations too, but not candle's own (`candle-ops`), which only heed `RAYON_NUM_THREADS`. Mirrors
/// `torch.set_num_threads`.
///
/// # Errors
/// A count of zero, or above 1024.
pub fn set_threads(count: usize) -> Result<()> {
    if count == 0 || count > MOST {
        return Err(Error::input(format!("{count} threads; the number must lie between 1 and {MOST}"))
            .hint("as many as there are physical cores are usually fastest"));
    }
    WANTED.store(count, Ordering::Relaxed);
    tch::set_num_threads(i32::try_from(count).unwrap_or(i32::MAX));
    Ok(())
}

/// The threads for one step of a model.
pub(crate) fn shares() -> Shares {
    let threads = threads();
    POOL.grow(threads - 1);
    let shares = Shares::of(&POOL, threads);
    FEWEST.set(FEWEST.get().min(shares.threads()));
    shares
}

thread_local! {
    /// The fewest threads that a step on this thread was granted within [`threads_granted`].
    static FEWEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `work`, and says the fewest threads that a step of it was granted on the calling thread: [`threads`], or 1 if
/// another caller computed meanwhile.
pub(crate) fn threads_granted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let outside = FEWEST.replace(usize::MAX);
    let result = work();
    let inside = FEWEST.get();
    FEWEST.set(inside.min(outside));
    (result, inside.min(threads()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_caller_is_granted_one_thread_and_knows() {
        // Other tests may have the helpers for a moment.
        let first = std::iter::repeat_with(shares).find(|shares| shares.threads() == threads());
        let second = std::thread::spawn(|| threads_granted(|| drop(shares())).1);
        assert_eq!(second.join().unwrap(), 1);
        drop(first);
        assert_eq!(threads_granted(|| ()).1, threads(), "nothing was asked for");
    }
}
