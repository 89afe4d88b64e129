//! A model in a folder, laid out as `save_pretrained` writes it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::{ModelFile, ModelFiles, OTHERS, WeightSource};
use crate::error::{Context, Error, Result};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// The files of the model in `folder`.
pub(super) fn files(folder: &Path) -> Result<ModelFiles> {
    if !folder.is_dir() {
        return Err(Error::source(format!("there is no folder {}", folder.display()))
            .hint("check the path; it is relative to the notebook"));
    }
    let find = |name: &str| {
        let path = folder.join(name);
        // Opening says more than `exists`: a file that may not be read is reported as that.
        match std::fs::File::open(&path) {
            Ok(_) => Ok(path),
            Err(cause) => Err(Error::from(cause).context(format!("cannot open {}", path.display()))),
        }
    };
    let config = find(CONFIG)?;
    let tokenizer = find(TOKENIZER)?;
    let index = folder.join(WEIGHTS_INDEX);
    let names =
        if !folder.join(WEIGHTS).exists() && index.exists() { shard_names(&index)? } else { vec![WEIGHTS.to_owned()] };
    let weights = names.iter().map(|name| find(name)).collect::<Result<Vec<PathBuf>>>().map_err(|error| {
        if has_pickle(folder) {
            error.hint("the folder holds a pickle; save the model again with safe_serialization=True")
        } else {
            error
        }
    })?;
    let others = OTHERS.into_iter().map(|name| (name, folder.join(name))).filter(|(_, path)| path.is_file());
    Ok(ModelFiles {
        config: ModelFile::Path(config),
        tokenizer: ModelFile::Path(tokenizer),
        weights: WeightSource::Safetensors(weights.into_iter().map(ModelFile::Path).collect()),
        others: others.map(|(name, path)| (name, ModelFile::Path(path))).collect(),
    })
}

/// The names of the weight files that an index lists, each once.
///
/// # Errors
/// The index is not JSON, or names a file outside of its own folder.
pub(super) fn shard_names(index: &Path) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let text = std::fs::read(index).context(|| format!("cannot read {}", index.display()))?;
    let parsed: Index = serde_json::from_slice(&text).context(|| index.display().to_string())?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    for name in &names {
        if !is_inside(name) || !name.ends_with(".safetensors") {
            return Err(Error::format(format!("{}: `{name}` is not the name of a safetensors file", index.display())));
        }
    }
    if names.is_empty() {
        return Err(Error::format(format!("{}: the index names no files", index.display())));
    }
    Ok(names.into_iter().collect())
}

/// Whether a relative path stays in the folder that it is relative to.
pub(super) fn is_inside(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn has_pickle(folder: &Path) -> bool {
    folder.join("pytorch_model.bin").exists()
}
