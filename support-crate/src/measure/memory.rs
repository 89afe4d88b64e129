//! How much memory this process takes, as the system counts it.
//!
//! Resident memory is everything of the process that is in RAM: the models of all cells, the libraries,
//! pages of files that are mapped, and what the allocator has not given back. The kernel counts in pages
//! and sums up by processor only now and then, so a figure may be off by some hundred KiB.
//!
//! Source: proc(5), `/proc/pid/status` and `/proc/pid/clear_refs`.

use std::fs;

use crate::error::{Context, Error, Result};

const STATUS: &str = "/proc/self/status";
const MEMINFO: &str = "/proc/meminfo";
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

/// Lets [`peak_memory`] begin anew from what is resident now.
///
/// # Errors
/// A system that cannot, or does not allow it: anything but Linux, and some containers.
pub fn reset_peak_memory() -> Result<()> {
    fs::write(CLEAR_REFS, "5")
        .context(|| format!("the peak of memory cannot be reset through {CLEAR_REFS}"))
        .map_err(|error| error.hint("this needs Linux; without it, start a new process for each measurement"))
}

/// What `run` returns, and by how many bytes the process was larger at its largest meanwhile than
/// before.
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

/// Memory that this machine could give without swapping, in bytes; `None` where that is not known.
pub fn available_memory() -> Option<usize> {
    entry(MEMINFO, "MemAvailable").ok()
}

fn entry(path: &str, key: &str) -> Result<usize> {
    let text = fs::read_to_string(path)
        .context(|| format!("cannot read {path}"))
        .map_err(|error| error.hint("memory is measured on Linux only"))?;
    bytes_of(&text, key).ok_or_else(|| Error::system(format!("{path} does not say what `{key}` is")))
}

/// The value of a line such as `VmRSS:     1234 kB`, in bytes. The kernel's kB are 1024 bytes.
fn bytes_of(text: &str, key: &str) -> Option<usize> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(':').map(str::to_owned);
    let value = text.lines().find_map(value)?;
    value.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_whole_name() {
        let text = "Name:\tVmRSS\nVmRSSx:\t  1 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nThreads:\t3\n";
        assert_eq!(bytes_of(text, "VmRSS"), Some(1 << 20));
        assert_eq!(bytes_of(text, "VmHWM"), Some(2 << 20));
        assert_eq!(bytes_of(text, "Threads"), None);
        assert_eq!(bytes_of(text, "VmSwap"), None);
    }

    #[test]
    fn a_system_without_the_files_says_so() {
        let error = entry("/no/such/status", "VmRSS").unwrap_err();
        assert!(error.to_string().contains("/no/such/status") && error.hint_text().is_some(), "{error}");
    }
}
