//! How many threads compute.

use super::pool::pool;

/// The number of threads that computations on the CPU use.
///
/// One for each physical core, or what `RAYON_NUM_THREADS` says. The threads are started at the first
/// computation and their number is fixed from then on; set the variable before starting the notebook.
pub fn threads() -> usize {
    pool().threads()
}
