//! What each family calls its tensors.

use crate::model::Architecture;

/// The names of a family's tensors, as transformers has them. Each stands before `.weight` and `.bias`.
pub(super) struct Names {
    /// What precedes all names but the head's in most checkpoints; some are saved without the head around the model.
    pub prefix: &'static str,
    pub token_embedding: &'static str,
    /// For families that learn positions.
    pub position_embedding: &'static str,
    /// What precedes the names of a block's parts, with the number of the block in between.
    pub blocks: &'static str,
    pub attention_norm: &'static str,
    /// One joint layer, or several whose outputs are joined.
    pub attention_in: &'static [&'static str],
    pub attention_out: &'static str,
    pub mlp_norm: &'static str,
    pub mlp_in: &'static str,
    /// For a gated feed-forward part.
    pub mlp_up: Option<&'static str>,
    pub mlp_out: &'static str,
    pub final_norm: &'static str,
    /// Whether the weights of linear layers are stored as (in, out).
    pub transposed: bool,
}

/// The head's module, whatever the family.
pub(in crate::model) const HEAD: &str = "lm_head";

impl Names {
    pub fn of(architecture: Architecture) -> &'static Self {
        match architecture {
            Architecture::Gpt2 => &GPT2,
            // A `DecoderConfig` is otherwise of the Llama family.
            _ => &LLAMA,
        }
    }
}

/// Source: `modeling_gpt2.py` in transformers.
const GPT2: Names = Names {
    prefix: "transformer.",
    token_embedding: "wte",
    position_embedding: "wpe",
    blocks: "h.",
    attention_norm: "ln_1",
    attention_in: &["attn.c_attn"],
    attention_out: "attn.c_proj",
    mlp_norm: "ln_2",
    mlp_in: "mlp.c_fc",
    mlp_up: None,
    mlp_out: "mlp.c_proj",
    final_norm: "ln_f",
    transposed: true,
};

/// Source: `modeling_llama.py` in transformers.
const LLAMA: Names = Names {
    prefix: "model.",
    token_embedding: "embed_tokens",
    position_embedding: "",
    blocks: "layers.",
    attention_norm: "input_layernorm",
    attention_in: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    attention_out: "self_attn.o_proj",
    mlp_norm: "post_attention_layernorm",
    mlp_in: "mlp.gate_proj",
    mlp_up: Some("mlp.up_proj"),
    mlp_out: "mlp.down_proj",
    final_norm: "norm",
    transposed: false,
};
