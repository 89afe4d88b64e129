//! The families of models that can be loaded.

use std::fmt;

use serde::{Serialize, Serializer};

/// A family of models: which keys its `config.json` has, and how its tensors are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// `gpt2`
    Gpt2,
    /// `llama`
    Llama,
    /// `mistral`: Llama with a sliding window.
    Mistral,
    /// `qwen2`: Llama with biases for queries, keys and values.
    Qwen2,
    /// `gemma2`: norms before and after each part, soft caps, a window in every other layer.
    Gemma2,
    /// `gemma3_text`: Gemma 2 with norms of queries and keys, and with positions of its own in layers with a window.
    Gemma3Text,
    /// `granite`: Llama with factors for embeddings, scores, residuals and logits.
    Granite,
    /// `olmo2`: Llama with norms after each part instead of before it, and of all queries and all keys.
    Olmo2,
    /// `phi3`: Llama with joint layers, and with positions in a part of each head.
    Phi3,
    /// `qwen3`: Llama with norms of queries and keys.
    Qwen3,
    /// `smollm3`: Llama with layers that know no positions.
    SmolLm3,
    /// `stablelm`: Llama with layer norms, and with positions in a part of each head.
    StableLm,
    /// None of these, by a name of its own: a model in a test.
    Other(&'static str),
}

impl Architecture {
    /// Those that can be loaded.
    pub(super) const ALL: [Self; 12] = [
        Self::Gpt2,
        Self::Llama,
        Self::Mistral,
        Self::Qwen2,
        Self::Qwen3,
        Self::SmolLm3,
        Self::Phi3,
        Self::Gemma2,
        Self::Gemma3Text,
        Self::Granite,
        Self::Olmo2,
        Self::StableLm,
    ];

    /// `model_type` in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Gemma2 => "gemma2",
            Self::Gemma3Text => "gemma3_text",
            Self::Granite => "granite",
            Self::Olmo2 => "olmo2",
            Self::Phi3 => "phi3",
            Self::Qwen3 => "qwen3",
            Self::SmolLm3 => "smollm3",
            Self::StableLm => "stablelm",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Architecture {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_these_families() {
        let documented = std::fs::read_to_string("../docs/families.md").unwrap();
        let rows = documented.lines().filter(|line| line.starts_with("| `"));
        let named: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        assert_eq!(named, Architecture::ALL.map(Architecture::name));
    }
}
