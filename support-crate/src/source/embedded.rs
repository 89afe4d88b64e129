//! The models that ship with this library, and the texts that measure them.

use super::{ModelFile, ModelFiles, WeightSource};

/// Text that the embedded model never saw in training, for measuring perplexity.
pub fn held_out_text() -> &'static str {
    include_str!("../../embedded/held_out.txt")
}

/// A file that is compiled into the library.
macro_rules! embedded {
    ($name:literal) => {
        ModelFile::embedded(concat!("embedded/", $name), include_bytes!(concat!("../../embedded/", $name)))
    };
}

/// The files of `embedded`.
pub(super) fn plain() -> ModelFiles {
    with_weights(embedded!("model.safetensors"))
}

/// The files of `embedded:qat`: only the weights differ.
pub(super) fn qat() -> ModelFiles {
    with_weights(embedded!("model-qat.safetensors"))
}

/// The files of `embedded:control`, which differs as little.
pub(super) fn control() -> ModelFiles {
    with_weights(embedded!("model-control.safetensors"))
}

fn with_weights(weights: ModelFile) -> ModelFiles {
    ModelFiles {
        config: embedded!("config.json"),
        tokenizer: embedded!("tokenizer.json"),
        weights: WeightSource::Safetensors(vec![weights]),
        others: vec![
            ("generation_config.json", embedded!("generation_config.json")),
            ("tokenizer_config.json", embedded!("tokenizer_config.json")),
        ],
    }
}
