//! How much memory there is, as the system counts it.
//!
//! Source: proc(5), `/proc/meminfo`.

use std::fs;

use crate::error::{Context, Error, Result};

const MEMINFO: &str = "/proc/meminfo";

/// Memory that this machine could give without swapping, in bytes; `None` where that is not known.
pub fn available_memory() -> Option<usize> {
    entry(MEMINFO, "MemAvailable").ok()
}

/// The amount that a file of `/proc` names `key`, in bytes.
///
/// # Errors
/// A system without the file: anything but Linux.
pub(crate) fn entry(path: &str, key: &str) -> Result<usize> {
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
