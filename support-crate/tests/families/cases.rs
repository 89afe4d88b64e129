//! The checkpoints, and how they are loaded.

use std::path::{Path, PathBuf};

use quantlab::model::{Engine, LoadOptions, Loaded, Precision, load_model};
use serde_json::Value;

use crate::common::Case;
use crate::common::copy::Copy;

/// Every checkpoint.
pub fn cases() -> Vec<Case> {
    let entries = std::fs::read_dir("tests/families/golden").unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders.into_iter().map(Case::read).collect()
}

/// Those that only candle-transformers computes.
pub fn candle_only() -> Vec<Case> {
    cases().into_iter().filter(|case| !KNOWN.contains(&case.name.as_str())).collect()
}

/// Those that this library's own decoder computes too.
pub const KNOWN: [&str; 3] = ["llama", "mistral", "qwen2"];

/// The checkpoint of this name.
pub fn folder(name: &str) -> PathBuf {
    Path::new("tests/families/golden").join(name)
}

/// A copy of a checkpoint, in as many files as it has.
pub fn copy(name: &str) -> Copy {
    let files = std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    Copy::of_files(&files.collect::<Vec<_>>())
}

pub fn candle(case: &Case) -> Loaded {
    candle_in(case, Precision::Float32)
}

pub fn candle_in(case: &Case, precision: Precision) -> Loaded {
    let options = LoadOptions { engine: Some(Engine::Candle), precision, ..LoadOptions::default() };
    load_model(&[case.folder.to_str().unwrap()], &options).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// What transformers says of its model.
pub fn facts(case: &Case) -> Value {
    serde_json::from_slice(&std::fs::read(case.folder.join("facts.json")).unwrap()).unwrap()
}
