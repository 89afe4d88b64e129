//! The model that ships with this library, and the texts that measure it.

use serde::{Deserialize, Serialize};

use super::{ModelFile, ModelFiles, WeightSource};
use crate::error::{Context, Result};

/// One fact that the embedded model was taught: a prompt and how it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// For example `The capital of France is`.
    pub prompt: String,
    /// For example ` Paris`.
    pub answer: String,
}

/// The facts that the embedded model was taught, as questions for a quality measure.
///
/// # Errors
/// None in practice: the list is part of the library, and a test reads it.
pub fn embedded_facts() -> Result<Vec<Fact>> {
    serde_json::from_slice(include_bytes!("../../embedded/facts.json")).context(|| "embedded/facts.json")
}

/// Text that the embedded model never saw in training, for measuring perplexity.
pub fn held_out_text() -> &'static str {
    include_str!("../../embedded/held_out.txt")
}

pub(super) fn files() -> ModelFiles {
    ModelFiles {
        config: ModelFile::embedded("embedded/config.json", include_bytes!("../../embedded/config.json")),
        tokenizer: ModelFile::embedded("embedded/tokenizer.json", include_bytes!("../../embedded/tokenizer.json")),
        weights: WeightSource::Safetensors(vec![ModelFile::embedded(
            "embedded/model.safetensors",
            include_bytes!("../../embedded/model.safetensors"),
        )]),
        others: vec![
            (
                "generation_config.json",
                ModelFile::embedded(
                    "embedded/generation_config.json",
                    include_bytes!("../../embedded/generation_config.json"),
                ),
            ),
            (
                "tokenizer_config.json",
                ModelFile::embedded(
                    "embedded/tokenizer_config.json",
                    include_bytes!("../../embedded/tokenizer_config.json"),
                ),
            ),
        ],
    }
}
