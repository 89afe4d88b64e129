//! How many threads compute.

use quantlab_kernels::MAX_THREADS;

use crate::error::{Error, Result};

/// Makes computations on the CPU use `count` threads, from the next step of any model on: those of the kernels and
/// libtorch's own, but not candle's, which follow only `RAYON_NUM_THREADS`. Mirrors `torch.set_num_threads`.
///
/// # Errors
/// A count of zero, or above 1024.
pub fn set_threads(count: usize) -> Result<()> {
    if !(1..=MAX_THREADS).contains(&count) {
        return Err(Error::input(format!(
            "cannot use {count} threads; the number must lie between 1 and {MAX_THREADS}"
        ))
        .hint("one for each physical core is usually fastest"));
    }
    quantlab_kernels::set_threads(count);
    tch::set_num_threads(i32::try_from(count).unwrap_or(i32::MAX));
    Ok(())
}
