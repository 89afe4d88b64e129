//! Where the set-up is that tests run on.

use std::path::PathBuf;

/// The home of this user, or that of `cargo lab test`.
pub fn home() -> PathBuf {
    let cache = || std::env::home_dir().unwrap().join(".cache/quantlab");
    std::env::var_os("QUANTLAB_HOME").map_or_else(cache, PathBuf::from)
}
