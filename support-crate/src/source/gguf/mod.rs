//! A model in one GGUF file, as llama.cpp and its like have them.
//!
//! The file's metadata say what other models say in `config.json` and `tokenizer.json`: these two are made of it, and
//! all that comes after reads the model as any other. `write` and `vocabulary` are the way back.

mod config;
mod header;
mod sentencepiece;
mod tokenizer;
mod types;
mod vocabulary;
mod write;

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;

use super::open::map;
use super::{ModelFile, ModelFiles, WeightSource};
use crate::error::{Context, Result};

pub(crate) use config::{DIVISORS, NO_ROPE_INTERVAL, gemma_scalar, has_window, window_period};
pub(crate) use header::FAMILIES;
pub use header::{Gguf, GgufTensor, GgufValue};
pub use types::GgmlType;
pub(crate) use vocabulary::vocabulary;
pub(crate) use write::{ALIGNMENT, TensorPlan, header};

/// The files that a GGUF file stands for.
pub(super) fn files(path: &Path) -> Result<ModelFiles> {
    let bytes = map(path)?;
    let of_file = || path.display().to_string();
    let header = Gguf::read(&bytes).context(of_file)?;
    let made = |name, value: &Value| ModelFile::Bytes { name, bytes: Cow::Owned(value.to_string().into_bytes()) };
    Ok(ModelFiles {
        config: made("the GGUF file's metadata", &config::of(&header, &bytes).context(of_file)?),
        tokenizer: made("the GGUF file's tokenizer", &tokenizer::of(&header).context(of_file)?),
        weights: WeightSource::Gguf(ModelFile::Path(path.to_owned())),
        others: match tokenizer::chat(&header).context(of_file)? {
            None => Vec::new(),
            Some(config) => {
                let generation = tokenizer::generation(&header).context(of_file)?;
                vec![
                    ("tokenizer_config.json", made("the GGUF file's chat template", &config)),
                    ("generation_config.json", made("the GGUF file's ends of replies", &generation)),
                ]
            }
        },
    })
}
