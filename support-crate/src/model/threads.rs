//! How many threads compute.

use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::utils::get_num_threads;

use super::pool::pool;
use crate::error::{Error, Result};

/// The limit that `set_threads` set; 0 for none.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that computations on the CPU use.
///
/// By default one for each physical core, or what `RAYON_NUM_THREADS` says. The threads are started at
/// the first computation and their number is fixed from then on.
pub fn threads() -> usize {
    let started = pool().threads();
    match LIMIT.load(Ordering::Relaxed) {
        0 => started,
        limit => limit.min(started),
    }
}

/// Uses `count` threads from now on, at most as many as there are.
///
/// # Errors
/// Zero, or more than there are: the number of threads that exist is fixed when the first computation
/// starts them. Set `RAYON_NUM_THREADS` before starting the notebook to have more.
pub fn set_threads(count: usize) -> Result<()> {
    let started = pool().threads();
    if count == 0 || count > started {
        return Err(Error::input(format!("cannot compute on {count} threads; there are {started}"))
            .hint("set RAYON_NUM_THREADS before starting the notebook to change how many there are"));
    }
    LIMIT.store(count, Ordering::Relaxed);
    // candle asks for RAYON_NUM_THREADS anew at each product of matrices.
    if count != get_num_threads() {
        // SAFETY: on the systems this library supports, changing the environment is only a race with
        // threads that read it behind the back of `std::env`. candle and rayon read it through
        // `std::env`, which locks; C libraries in this process read theirs when they are loaded.
        unsafe { std::env::set_var("RAYON_NUM_THREADS", count.to_string()) };
    }
    Ok(())
}
