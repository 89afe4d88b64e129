//! What each family calls its tensors.

use crate::error::{Error, Result};
use crate::model::{Architecture, DecoderConfig, Weights};

/// The names of a family's tensors, as transformers has them. Each stands before `.weight` and `.bias`.
pub(in crate::model) struct Names {
    /// What precedes all names but the head's in most checkpoints; some are saved without the head around the model.
    pub prefix: &'static str,
    pub token_embedding: &'static str,
    /// For families that learn positions.
    pub position_embedding: &'static str,
    /// What precedes the names of a block's parts, with the number of the block in between.
    pub blocks: &'static str,
    /// For families that norm what attention reads.
    pub attention_norm: Option<&'static str>,
    /// One joint layer, or several whose outputs are joined.
    pub attention_in: &'static [&'static str],
    /// Those of queries and of keys, for models that have them. A norm for each head adds `.norms.` and its number.
    pub qk_norms: [&'static str; 2],
    pub attention_out: &'static str,
    /// For families that norm what attention adds.
    pub attention_post_norm: Option<&'static str>,
    /// For families that norm what the feed-forward part reads.
    pub mlp_norm: Option<&'static str>,
    /// One layer; for a gated part the gate and what it multiplies, as two layers or a joint one.
    pub mlp_in: &'static [&'static str],
    pub mlp_out: &'static str,
    pub mlp_post_norm: Option<&'static str>,
    pub final_norm: &'static str,
    /// Whether transformers has the weights of linear layers as (in, out).
    pub transposed: bool,
}

/// The head's module, whatever the family.
pub(in crate::model) const HEAD: &str = "lm_head";

/// What transformers calls the head's weight.
pub(super) const HEAD_WEIGHT: &str = "lm_head.weight";

/// Makes sure that files whose config says that the head is the token embedding have no other one.
///
/// # Errors
/// They have: one of the two is wrong, and which of them a model was trained with cannot be known.
pub(in crate::model) fn check_tied(config: &DecoderConfig, weights: &Weights) -> Result<()> {
    let names = Names::of(config.architecture);
    let embedding = format!("{}{}.weight", names.prefix_in(weights), names.token_embedding);
    let has_both = weights.contains(HEAD_WEIGHT) && weights.contains(&embedding);
    if !config.tie_word_embeddings || !has_both || weights.are_same(&embedding, HEAD_WEIGHT)? {
        return Ok(());
    }
    Err(Error::format(format!(
        "the files have a `{HEAD_WEIGHT}` that is not `{embedding}`, though `tie_word_embeddings` of config.json is \
         true, or left out"
    ))
    .hint("with `\"tie_word_embeddings\": false` there, the files' head is used, as transformers 5 does; 4 uses the embedding"))
}

impl Names {
    pub fn of(architecture: Architecture) -> &'static Self {
        match architecture {
            Architecture::Gpt2 => &GPT2,
            Architecture::Phi3 => &PHI3,
            Architecture::Gemma2 | Architecture::Gemma3Text => &GEMMA,
            Architecture::Olmo2 => &OLMO2,
            Architecture::StableLm => &STABLELM,
            // All others have Llama's names.
            _ => &LLAMA,
        }
    }

    /// What precedes the tensors' names in these files.
    pub fn prefix_in(&self, weights: &Weights) -> &'static str {
        let first = format!("{}{}.weight", self.prefix, self.token_embedding);
        if weights.contains(&first) { self.prefix } else { "" }
    }

    /// Whether these files have the weights of linear layers as (in, out).
    pub fn transposed_in(&self, weights: &Weights) -> bool {
        self.transposed && !weights.is_gguf()
    }
}

/// Source: `modeling_gpt2.py` in transformers.
const GPT2: Names = Names {
    prefix: "transformer.",
    token_embedding: "wte",
    position_embedding: "wpe",
    blocks: "h.",
    attention_norm: Some("ln_1"),
    attention_in: &["attn.c_attn"],
    qk_norms: ["", ""],
    attention_out: "attn.c_proj",
    attention_post_norm: None,
    mlp_norm: Some("ln_2"),
    mlp_in: &["mlp.c_fc"],
    mlp_out: "mlp.c_proj",
    mlp_post_norm: None,
    final_norm: "ln_f",
    transposed: true,
};

/// Source: `modeling_llama.py` in transformers.
const LLAMA: Names = Names {
    prefix: "model.",
    token_embedding: "embed_tokens",
    position_embedding: "",
    blocks: "layers.",
    attention_norm: Some("input_layernorm"),
    attention_in: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    qk_norms: ["self_attn.q_norm", "self_attn.k_norm"],
    attention_out: "self_attn.o_proj",
    attention_post_norm: None,
    mlp_norm: Some("post_attention_layernorm"),
    mlp_in: &["mlp.gate_proj", "mlp.up_proj"],
    mlp_out: "mlp.down_proj",
    mlp_post_norm: None,
    final_norm: "norm",
    transposed: false,
};

/// Source: `modeling_phi3.py` in transformers.
const PHI3: Names = Names { attention_in: &["self_attn.qkv_proj"], mlp_in: &["mlp.gate_up_proj"], ..LLAMA };

/// Source: `modeling_gemma2.py` and `modeling_gemma3.py` in transformers.
const GEMMA: Names = Names {
    attention_post_norm: Some("post_attention_layernorm"),
    mlp_norm: Some("pre_feedforward_layernorm"),
    mlp_post_norm: Some("post_feedforward_layernorm"),
    ..LLAMA
};

/// Source: `modeling_olmo2.py` in transformers.
const OLMO2: Names = Names { attention_norm: None, mlp_norm: None, ..GEMMA };

/// Source: `modeling_stablelm.py` in transformers.
const STABLELM: Names = Names { qk_norms: ["self_attn.q_layernorm", "self_attn.k_layernorm"], ..LLAMA };
