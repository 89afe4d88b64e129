//! What the tensors of a GGUF file are called in transformers, and in what their numbers differ: one table for reading and
//! writing.
//!
//! Source: `constants.py` and `tensor_mapping.py` of llama.cpp's package `gguf`; `LlamaModel.permute` and `norm_shift` of
//! `convert_hf_to_gguf.py`.

use std::fmt;

/// Names in a GGUF file beside those in transformers.
type Pairs = [(&'static str, &'static str)];

/// The names of a family, without what follows them: `.weight` or `.bias`.
struct Names {
    of_model: &'static Pairs,
    /// What precedes the number of a block in transformers; `blk.` in a GGUF file.
    blocks: &'static str,
    /// Parts of a block.
    of_block: [&'static Pairs; 2],
}

const LLAMA: Names = Names {
    of_model: &[("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")],
    blocks: "model.layers.",
    of_block: [SEPARATE, &[("ffn_norm", "post_attention_layernorm")]],
};

/// A layer for each of queries, keys and values, and one for the gate of the feed-forward part.
const SEPARATE: &Pairs = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

const GEMMA: Names = Names {
    of_block: [
        SEPARATE,
        &[
            ("post_attention_norm", "post_attention_layernorm"),
            ("ffn_norm", "pre_feedforward_layernorm"),
            ("post_ffw_norm", "post_feedforward_layernorm"),
        ],
    ],
    ..LLAMA
};

const PHI3: Names = Names {
    of_block: [
        &[
            ("attn_norm", "input_layernorm"),
            ("attn_qkv", "self_attn.qkv_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("ffn_norm", "post_attention_layernorm"),
            ("ffn_up", "mlp.gate_up_proj"),
            ("ffn_down", "mlp.down_proj"),
        ],
        &[],
    ],
    ..LLAMA
};

const GPT2: Names = Names {
    of_model: &[
        ("token_embd", "transformer.wte"),
        (POSITIONS, "transformer.wpe"),
        ("output_norm", "transformer.ln_f"),
        ("output", "lm_head"),
    ],
    blocks: "transformer.h.",
    of_block: [
        &[
            ("attn_norm", "ln_1"),
            ("attn_qkv", "attn.c_attn"),
            ("attn_output", "attn.c_proj"),
            ("ffn_norm", "ln_2"),
            ("ffn_up", "mlp.c_fc"),
            ("ffn_down", "mlp.c_proj"),
        ],
        &[],
    ],
};

/// Learned positions, which are never quantized.
pub(in crate::model) const POSITIONS: &str = "position_embd";

/// In what the numbers of a tensor differ in a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum Difference {
    /// Rows of a head's two halves take turns: llama.cpp rotates neighbours, transformers numbers that are half a head
    /// apart. The heads are those of the keys, or of the queries.
    HalvesInTurns { of_keys: bool },
    /// Each is more by 1: Gemma's norms are multiplied by what exceeds 1 in transformers.
    PlusOne,
}

/// In what the numbers of a part of a family differ from those in transformers.
pub(in crate::model) fn difference(family: &str, part: &str) -> Option<Difference> {
    match (family, part) {
        ("llama" | "smollm3", "attn_q" | "attn_k") => Some(Difference::HalvesInTurns { of_keys: part == "attn_k" }),
        ("gemma2" | "gemma3", _) if part.ends_with("norm") => Some(Difference::PlusOne),
        _ => None,
    }
}

impl Names {
    /// Those of a family, by llama.cpp's name for it.
    fn of(family: &str) -> &'static Self {
        match family {
            "gemma2" | "gemma3" => &GEMMA,
            "gpt2" => &GPT2,
            "phi3" => &PHI3,
            _ => &LLAMA,
        }
    }
}

/// Whether a family has this part of those that stand in its names.
fn has_part(family: &str, part: &str) -> bool {
    !["attn_q_norm", "attn_k_norm"].contains(&part) || ["gemma3", "qwen3"].contains(&family)
}

/// Whether it has it with a bias.
fn has_bias(family: &str, part: &str) -> bool {
    match family {
        "gpt2" => !["token_embd", "position_embd", "output"].contains(&part),
        "llama" | "smollm3" => !part.ends_with("norm") && !["token_embd", "output"].contains(&part),
        "qwen2" => ["attn_q", "attn_k", "attn_v"].contains(&part),
        _ => false,
    }
}

/// The name of a tensor of a model of so many blocks; none if the model has no use for it.
pub(super) fn name_in_transformers(name: &str, family: &str, blocks: usize) -> Option<String> {
    let (part, end) = name.rsplit_once('.')?;
    let names = Names::of(family);
    let of = |pairs: &[&Pairs], part: &str| {
        let is_known = end == "weight" && has_part(family, part) || end == "bias" && has_bias(family, part);
        pairs.iter().copied().flatten().find(|(own, _)| is_known && *own == part).map(|found| found.1)
    };
    let Some(block) = part.strip_prefix("blk.") else { return Some(format!("{}.{end}", of(&[names.of_model], part)?)) };
    let (number, part) = block.split_once('.')?;
    number.parse().ok().filter(|&block: &usize| block < blocks && block.to_string() == number)?;
    Some(format!("{}{number}.{}.{end}", names.blocks, of(&names.of_block, part)?))
}

/// A tensor in a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) struct NameInGguf<'a> {
    /// If it is part of one.
    pub block: Option<usize>,
    pub part: &'static str,
    /// `weight` or `bias`.
    pub end: &'a str,
}

impl fmt::Display for NameInGguf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(block) = self.block {
            write!(f, "blk.{block}.")?;
        }
        write!(f, "{}.{}", self.part, self.end)
    }
}

/// What a GGUF file of a family calls a tensor that transformers calls `name`; none if such a file has no place for it.
pub(in crate::model) fn name_in_gguf<'a>(name: &'a str, family: &str) -> Option<NameInGguf<'a>> {
    let (module, end) = name.rsplit_once('.')?;
    let names = Names::of(family);
    let of = |pairs: &[&Pairs], module: &str| {
        let is_own = |part: &str| if end == "bias" { has_bias(family, part) } else { has_part(family, part) };
        let found = pairs.iter().copied().flatten().find(|(_, known)| *known == module).map(|(own, _)| *own);
        found.filter(|part| is_own(part))
    };
    let (block, part) = match module.strip_prefix(names.blocks) {
        Some(rest) => {
            let (block, module) = rest.split_once('.')?;
            (Some(block.parse().ok()?), of(&names.of_block, module)?)
        }
        None => (None, of(&[names.of_model], module)?),
    };
    Some(NameInGguf { block, part, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_transformers() {
        let name = |name| name_in_transformers(name, "llama", 13);
        assert_eq!(name("blk.12.attn_q.weight").as_deref(), Some("model.layers.12.self_attn.q_proj.weight"));
        assert_eq!(name("blk.0.attn_k.bias").as_deref(), Some("model.layers.0.self_attn.k_proj.bias"));
        assert_eq!(name("blk.0.ffn_up.bias").as_deref(), Some("model.layers.0.mlp.up_proj.bias"));
        assert_eq!(name_in_transformers("blk.0.ffn_up.bias", "qwen2", 13), None);
        assert_eq!(name("output.weight").as_deref(), Some("lm_head.weight"));
        for unused in ["rope_freqs.weight", "blk.13.attn_q.weight", "blk.00.attn_q.weight", "blk.0.ffn_norm.bias"] {
            assert_eq!(name(unused), None, "{unused}");
        }
        for (family, part) in [
            ("llama", "attn_q_norm.weight"),
            ("gemma2", "attn_k_norm.weight"),
            ("gemma3", "attn_q.bias"),
            ("phi3", "attn_q.weight"),
            ("qwen3", "attn_q.bias"),
            ("gpt2", "ffn_gate.weight"),
        ] {
            assert_eq!(name_in_transformers(&format!("blk.0.{part}"), family, 13), None, "{part} of {family}");
        }
        for family in ["llama", "qwen2", "qwen3", "gemma3", "phi3", "smollm3", "gpt2"] {
            let names = Names::of(family);
            let parts = names.of_block.into_iter().flatten().filter(|(part, _)| has_part(family, part));
            let of_block = parts.map(|(part, _)| format!("blk.12.{part}.weight"));
            for own in names.of_model.iter().map(|(part, _)| format!("{part}.weight")).chain(of_block) {
                let known = name_in_transformers(&own, family, 13).unwrap();
                assert_eq!(name_in_gguf(&known, family).unwrap().to_string(), own);
            }
        }
        assert_eq!(name_in_gguf("transformer.h.0.ln_1.weight", "llama"), None);
        assert_eq!(name_in_gguf("model.layers.0.self_attn.q_proj.bias", "qwen3"), None);
    }
}
