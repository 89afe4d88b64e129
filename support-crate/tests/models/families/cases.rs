//! The checkpoints, and how they are loaded.

use std::path::{Path, PathBuf};

use quantlab::model::{LoadOptions, Loaded, Precision, load_model};
use serde_json::Value;

use crate::common::Case;
use crate::common::copy::Copy;
use crate::common::place::Place;

/// Every checkpoint.
pub fn cases() -> Vec<Case> {
    let entries = std::fs::read_dir("tests/models/families/golden").unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders.into_iter().map(Case::read).collect()
}

/// Every checkpoint on every engine, and on a GPU if there is one.
pub fn on_engines() -> Vec<(Case, Loaded)> {
    let on = |place| {
        cases().into_iter().map(move |case| {
            let loaded = load(&case, place, Precision::Float32);
            (case, loaded)
        })
    };
    Place::all().flat_map(on).collect()
}

/// The checkpoint of this name.
pub fn folder(name: &str) -> PathBuf {
    Path::new("tests/models/families/golden").join(name)
}

/// A copy of a checkpoint, in as many files as it has.
pub fn copy(name: &str) -> Copy {
    let files = std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    Copy::of_files(&files.collect::<Vec<_>>())
}

pub fn load(case: &Case, place: impl Into<Place>, precision: Precision) -> Loaded {
    let options = LoadOptions { precision, ..place.into().options() };
    load_model(&[case.folder.to_str().unwrap()], &options).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// What transformers says of its model.
pub fn facts(case: &Case) -> Value {
    serde_json::from_slice(&std::fs::read(case.folder.join("facts.json")).unwrap()).unwrap()
}

/// Whether version 4 of transformers made it.
pub fn is_of_version_4(case: &Case) -> bool {
    let config: Value = serde_json::from_slice(&std::fs::read(case.folder.join("config.json")).unwrap()).unwrap();
    config["transformers_version"].as_str().unwrap().starts_with("4.")
}
