//! A model in a folder, laid out as `save_pretrained` writes it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use super::open::{cannot_open, open, read};
use super::{LONGEST_CONFIG, ModelFile, ModelFiles, OTHERS, WeightSource};
use crate::error::{Context, Error, Result};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// The files of the model in `folder`.
pub(super) fn files(folder: &Path) -> Result<ModelFiles> {
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(Error::source(format!("{} is not a folder", folder.display())).hint(LAYOUT));
        }
        Err(_) if !is_there(folder) => {
            return Err(Error::source(format!("there is no folder {}", folder.display()))
                .hint("check the path; it is relative to the notebook"));
        }
        Err(cause) => return Err(cannot_open(folder, cause)),
    }
    let find = |name: &str| {
        let path = folder.join(name);
        // Opening says more than `exists`: a file that may not be read is reported as that.
        match open(&path) {
            Ok(_) => Ok(path),
            Err(error) if is_there(&path) => Err(error),
            Err(error) => Err(error.hint(how_to_get(name, folder))),
        }
    };
    let config = find(CONFIG)?;
    let tokenizer = find(TOKENIZER)?;
    let index = folder.join(WEIGHTS_INDEX);
    let names =
        if !folder.join(WEIGHTS).exists() && index.exists() { shard_names(&index)? } else { vec![WEIGHTS.to_owned()] };
    let weights = names.iter().map(|name| find(name)).collect::<Result<Vec<PathBuf>>>()?;
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
    let text = read(index, LONGEST_CONFIG)?;
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

/// Whether there is something of this name, even a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    !fs::symlink_metadata(path).is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

const LAYOUT: &str = "a model is a folder with config.json, tokenizer.json and weights as safetensors, as \
                      `save_pretrained` writes them; or give its id on the Hub";

/// What to do about a file that a folder lacks.
fn how_to_get(name: &str, folder: &Path) -> String {
    match name {
        CONFIG => LAYOUT.to_owned(),
        TOKENIZER => how_to_get_tokenizer(&folder.display().to_string(), |name| folder.join(name).exists()),
        _ if has_pickle(folder) => {
            "the folder holds a pickle; save the model again with safe_serialization=True".to_owned()
        }
        WEIGHTS => LAYOUT.to_owned(),
        _ => format!("{WEIGHTS_INDEX} names it; download or copy it as well"),
    }
}

/// What to do about a tokenizer that `model`, a folder or a repository, lacks.
pub(super) fn how_to_get_tokenizer(model: &str, has: impl Fn(&str) -> bool) -> String {
    let slow: Vec<&str> = SLOW_TOKENIZERS.into_iter().filter(|name| has(name)).collect();
    if slow.is_empty() {
        return "copy it from the model that this one was trained from".to_owned();
    }
    format!(
        "transformers makes it from {}: in Python, \
         `AutoTokenizer.from_pretrained(\"{model}\", use_fast=True).save_pretrained(FOLDER)` \
         writes it; FOLDER is where the model's other files are",
        slow.join(" and ")
    )
}

/// The files of tokenizers that were made without the tokenizers library.
const SLOW_TOKENIZERS: [&str; 6] =
    ["vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"];

fn has_pickle(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| is_pickle(&entry.file_name().to_string_lossy()))
}

/// Whether this is what transformers calls weights that are pickles: whole, in shards, or the shards' index.
pub(super) fn is_pickle(name: &str) -> bool {
    name.starts_with("pytorch_model") && (name.ends_with(".bin") || name.ends_with(".bin.index.json"))
}
