//! How much memory this process takes, as the system counts it.
//!
//! Resident memory is everything of the process that is in RAM: the models of all cells, the libraries,
//! pages of files that are mapped, and what the allocator has not given back. Linux counts pages, for
//! each processor, and adds them up only now and then, so a figure may be off by a few hundred KiB.
//!
//! Source: proc(5), `/proc/pid/status` and `/proc/pid/clear_refs`.

use std::fs;

use crate::error::{Context, Result};
use crate::model::memory::entry;

const STATUS: &str = "/proc/self/status";
const CLEAR_REFS: &str = "/proc/self/clear_refs";

/// Memory of this process that is in RAM now, in bytes.
///
/// # Errors
/// A system without `/proc`: anything but Linux.
pub fn resident_memory() -> Result<usize> {
    entry(STATUS, "VmRSS")
}

/// The most memory of this process that was in RAM at once since it started, or since
/// [`reset_peak_memory`], in bytes.
///
/// # Errors
/// A system without `/proc`: anything but Linux.
pub fn peak_memory() -> Result<usize> {
    entry(STATUS, "VmHWM")
}

/// Makes [`peak_memory`] start again from what is resident now.
///
/// # Errors
/// A system that cannot, or does not allow it: anything but Linux, and some containers.
pub fn reset_peak_memory() -> Result<()> {
    fs::write(CLEAR_REFS, "5")
        .context(|| format!("peak memory cannot be reset through {CLEAR_REFS}"))
        .map_err(|error| error.hint("this needs Linux; elsewhere, start a new process for each measurement"))
}

/// What `run` returns, and by how many bytes the process grew at its peak meanwhile.
///
/// Memory that the allocator kept from earlier work is resident already and does not count again, and
/// what other threads allocate counts too. The first run of something is the one to measure.
///
/// ```
/// use quantlab::measure::peak_memory_of;
///
/// # #[cfg(target_os = "linux")] {
/// let (sum, growth) = peak_memory_of(|| vec![1_u8; 64 << 20].iter().map(|&byte| u64::from(byte)).sum::<u64>())?;
/// assert_eq!(sum, 64 << 20);
/// assert!(growth > 60 << 20);
/// # }
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`reset_peak_memory`]; `run` is not called then.
pub fn peak_memory_of<T>(run: impl FnOnce() -> T) -> Result<(T, usize)> {
    reset_peak_memory()?;
    let before = resident_memory()?;
    let result = run();
    Ok((result, peak_memory()?.saturating_sub(before)))
}
