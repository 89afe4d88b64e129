//! How much memory there is, as the system counts it.

mod available;

use std::fs;

pub use available::available_memory;
use available::bytes_of;

use crate::error::{Context, Error, Result};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_the_files_says_so() {
        let error = entry("/no/such/status", "VmRSS").unwrap_err();
        assert!(error.to_string().contains("/no/such/status") && error.hint_text().is_some(), "{error}");
    }
}
