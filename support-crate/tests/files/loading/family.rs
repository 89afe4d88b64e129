//! A checkpoint of each family, and what the family calls things.

use std::path::Path;

use crate::common::copy::Copy;

pub struct Family {
    folder: &'static str,
    /// Keys without which there is no model.
    pub needed_keys: &'static [&'static str],
    pub n_layer: &'static str,
    pub intermediate_size: &'static str,
    pub n_head: &'static str,
    pub hidden_size: &'static str,
    pub token_embedding: &'static str,
    /// A matrix of 64 columns, or rows in GPT-2, and the shape that it has.
    pub mlp_in: (&'static str, [usize; 2]),
    /// A vector of the second block.
    pub norm: &'static str,
    /// The first tensor of a block, counted from 0.
    pub first_of_block: fn(usize) -> String,
}

pub const GPT2: Family = Family {
    folder: "gpt2-tiny",
    needed_keys: &["vocab_size", "n_positions", "n_embd", "n_layer", "n_head"],
    n_layer: "n_layer",
    intermediate_size: "n_inner",
    n_head: "n_head",
    hidden_size: "n_embd",
    token_embedding: "transformer.wte.weight",
    mlp_in: ("transformer.h.0.mlp.c_fc.weight", [64, 256]),
    norm: "transformer.h.1.ln_2.weight",
    first_of_block: |layer| format!("transformer.h.{layer}.ln_1.weight"),
};

pub const LLAMA: Family = Family {
    folder: "llama-tiny",
    needed_keys: &[
        "vocab_size",
        "max_position_embeddings",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    ],
    n_layer: "num_hidden_layers",
    intermediate_size: "intermediate_size",
    n_head: "num_attention_heads",
    hidden_size: "hidden_size",
    token_embedding: "model.embed_tokens.weight",
    mlp_in: ("model.layers.0.mlp.gate_proj.weight", [160, 64]),
    norm: "model.layers.1.post_attention_layernorm.weight",
    first_of_block: |layer| format!("model.layers.{layer}.input_layernorm.weight"),
};

pub const FAMILIES: [Family; 2] = [GPT2, LLAMA];

impl Family {
    pub fn copy(&self) -> Copy {
        Copy::of(&Path::new("tests/golden").join(self.folder))
    }
}
