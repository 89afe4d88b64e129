//! The tensors of a GGUF file, by the names that transformers has for them.
//!
//! Source: `constants.py` and `tensor_mapping.py` of llama.cpp's package `gguf`; `LlamaModel.permute` in its
//! `convert_hf_to_gguf.py`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use quantlab_kernels::thread_scope;

use super::convert::Wanted;
use super::entry::{Entry, Numbers};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::quant::restore_ggml;
use crate::source::{DIVISORS, GgmlType, Gguf};

/// Parts of a block of the Llama family, as a GGUF file calls them and as transformers does.
const OF_BLOCK: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];
const OF_MODEL: [(&str, &str); 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

/// Reads the list of tensors.
///
/// # Errors
/// Those of [`Gguf::read`]; a tensor that the model has no use for, or whose rows are not those of its heads.
pub(super) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Entry>> {
    let header = Gguf::read(bytes)?;
    // llama.cpp turns pairs of neighbours where transformers turns a head's halves, and has the rows in that order.
    let family = header.family()?;
    let is_turned = family == "llama";
    let blocks = header.size(&format!("{family}.block_count"))?;
    let heads = || header.size("llama.attention.head_count");
    let heads_of_keys = || header.optional("llama.attention.head_count_kv", Gguf::size)?.map_or_else(heads, Ok);
    let mut entries = BTreeMap::new();
    // The config has what the divisors of rotary frequencies say.
    for (name, tensor) in header.tensors().iter().filter(|(name, _)| *name != DIVISORS) {
        let heads = match name.rsplit('.').nth(1) {
            Some("attn_q") if is_turned => Some(heads()?),
            Some("attn_k") if is_turned => Some(heads_of_keys()?),
            _ => None,
        };
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let paired = match heads {
            None => None,
            Some(heads) if heads > 0 && rows > 0 && rows.is_multiple_of(heads) && (rows / heads).is_multiple_of(2) => {
                Some(rows / heads)
            }
            Some(heads) => return Err(Error::format(format!("tensor `{name}` has {rows} rows for {heads} heads"))),
        };
        if paired.is_some() && tensor.shape.len() == 1 && tensor.kind.block_len() > 1 {
            return Err(Error::format(format!("tensor `{name}` is a bias in {}", tensor.kind.name())));
        }
        let numbers = match (tensor.kind, paired) {
            (GgmlType::F32, None) => Numbers::Plain(safetensors::Dtype::F32),
            (GgmlType::F16, None) => Numbers::Plain(safetensors::Dtype::F16),
            (GgmlType::Bf16, None) => Numbers::Plain(safetensors::Dtype::BF16),
            (kind, paired) => Numbers::Blocks { kind, paired },
        };
        let entry = Entry { numbers, shape: tensor.shape.clone(), range: tensor.range.clone() };
        // One that nobody would ask for may be a damaged name of one that then seems not to be there, or a part of a
        // larger model.
        let known = name_in_transformers(name, family, blocks).ok_or_else(|| {
            Error::format(format!("its tensor `{name}` does not belong to a {family} model of {blocks} blocks"))
        })?;
        entries.insert(known, entry);
    }
    Ok(entries)
}

/// The name of a tensor of a model of so many blocks; none if the model has no use for it.
fn name_in_transformers(name: &str, family: &str, blocks: usize) -> Option<String> {
    let (part, end) = name.rsplit_once('.')?;
    let of =
        |names: &[(&str, &'static str)], part: &str| names.iter().find(|(own, _)| *own == part).map(|found| found.1);
    match part.strip_prefix("blk.") {
        Some(block) => {
            let (number, part) = block.split_once('.')?;
            number.parse().ok().filter(|&block: &usize| block < blocks && block.to_string() == number)?;
            let is_norm_of_heads = ["attn_q_norm", "attn_k_norm"].contains(&part);
            let has_bias = match part {
                "attn_q" | "attn_k" | "attn_v" => family != "qwen3",
                "attn_output" | "ffn_gate" | "ffn_up" | "ffn_down" => family == "llama",
                _ => false,
            };
            let is_used = end == "weight" && (!is_norm_of_heads || family == "qwen3") || end == "bias" && has_bias;
            is_used.then_some(format!("model.layers.{number}.{}.{end}", of(&OF_BLOCK, part)?))
        }
        None => (end == "weight").then_some(format!("{}.weight", of(&OF_MODEL, part)?)),
    }
}

/// What a GGUF file calls a tensor that transformers calls `name`: block, if it is part of one, part, and what follows.
pub(in crate::model) fn name_in_gguf(name: &str) -> Option<(Option<usize>, &'static str, &str)> {
    let (module, end) = name.rsplit_once('.')?;
    let of = |names: &[(&'static str, &str)], module: &str| {
        names.iter().find(|(_, known)| *known == module).map(|(own, _)| *own)
    };
    match module.strip_prefix("model.layers.") {
        Some(rest) => {
            let (block, module) = rest.split_once('.')?;
            Some((Some(block.parse().ok()?), of(&OF_BLOCK, module)?, end))
        }
        None => Some((None, of(&OF_MODEL, module)?, end)),
    }
}

/// A matrix in blocks, as the file has it.
#[derive(Debug)]
pub(in crate::model) struct BlockRows {
    bytes: Buffer<u8>,
    kind: GgmlType,
    /// As of [`Numbers::Blocks`].
    paired: Option<usize>,
    shape: [usize; 2],
}

impl BlockRows {
    /// # Panics
    /// Bytes that are not as many blocks, or rows that are not whole blocks.
    pub fn new(bytes: Buffer<u8>, (kind, paired): (GgmlType, Option<usize>), shape: [usize; 2]) -> Self {
        let this = Self { bytes, kind, paired, shape };
        assert!(shape[1].is_multiple_of(kind.block_len()) && this.bytes.len() == shape[0] * this.row_bytes());
        this
    }

    fn row_bytes(&self) -> usize {
        self.shape[1] / self.kind.block_len() * self.kind.block_bytes()
    }

    pub fn kind(&self) -> GgmlType {
        self.kind
    }

    /// (rows, columns)
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The blocks of a row, in the order that transformers has rows in.
    pub fn row(&self, row: usize) -> &[u8] {
        let (row, len) = (row_in_file(row, self.paired), self.row_bytes());
        &self.bytes[row * len..(row + 1) * len]
    }

    /// Bytes in all, and those of them that are read from a mapped file.
    pub fn bytes(&self) -> (usize, usize) {
        (self.bytes.len(), self.bytes.mapped_bytes())
    }
}

/// The row of the file that holds row `row` of a matrix whose heads have `paired` rows each: first halves of heads are
/// their even rows there.
fn row_in_file(row: usize, paired: Option<usize>) -> usize {
    let Some(of_head) = paired else { return row };
    let (head, within) = (row / of_head, row % of_head);
    head * of_head + within % (of_head / 2) * 2 + within / (of_head / 2)
}

/// The way back: the row of a matrix that row `row` of a file is.
pub(in crate::model) fn row_in_transformers(row: usize, paired: Option<usize>) -> usize {
    let Some(of_head) = paired else { return row };
    let (head, within) = (row / of_head, row % of_head);
    head * of_head + within / 2 + within % 2 * (of_head / 2)
}

/// Restores numbers from `start` on of a matrix with so many columns; says whether all of them are finite.
pub(super) fn restore<T: Wanted>(
    bytes: &[u8],
    (kind, paired): (GgmlType, Option<usize>),
    columns: usize,
    start: usize,
    to: &mut [T],
) -> bool {
    if to.is_empty() {
        return true;
    }
    let bytes_of_row = columns / kind.block_len() * kind.block_bytes();
    let finite = AtomicBool::new(true);
    // Whole rows, where a part begins and ends with one.
    let whole = start.is_multiple_of(columns) && to.len().is_multiple_of(columns);
    let together = if whole { columns } else { to.len().max(1) };
    thread_scope().split_mut(to, together, 16 * together, &|first, mut part| {
        let (mut at, mut row) = (start + first * together, vec![0.0; columns]);
        let mut all_finite = true;
        while !part.is_empty() {
            let from = row_in_file(at / columns, paired) * bytes_of_row;
            restore_ggml(kind, &bytes[from..from + bytes_of_row], &mut row);
            let wanted = &row[at % columns..];
            let (now, rest) = part.split_at_mut(wanted.len().min(part.len()));
            for (to, &number) in now.iter_mut().zip(wanted) {
                all_finite &= number.is_finite();
                *to = T::from_f32(number);
            }
            at += now.len();
            part = rest;
        }
        finite.fetch_and(all_finite, Ordering::Relaxed);
    });
    finite.into_inner()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_part_is_that_part_of_the_whole(
            (heads, half) in (1..5_usize, 1..40_usize),
            blocks in 1..5_usize,
            (start, len) in (0.0..1.0_f64, 0.0..=1.0_f64),
            (in_pairs, whole_rows) in any::<(bool, bool)>(),
            seed in any::<u8>(),
        ) {
            let (rows, columns, kind) = (2 * heads * half, 32 * blocks, GgmlType::Q8_0);
            let scale = half::f16::from_f32(0.5).to_le_bytes();
            let byte = |i: usize| (i.wrapping_mul(97).wrapping_add(usize::from(seed)) >> 3) as u8;
            let block = |block: usize| scale.into_iter().chain((0..32).map(move |i| byte(32 * block + i)));
            let bytes: Vec<u8> = (0..rows * blocks).flat_map(block).collect();
            let mut in_file = vec![0.0; rows * columns];
            restore_ggml(kind, &bytes, &mut in_file);
            let paired = in_pairs.then_some(2 * half);
            let row = |row| &in_file[row_in_file(row, paired) * columns..][..columns];
            let expected: Vec<f32> = (0..rows).flat_map(row).copied().collect();
            let mut start = (start * expected.len() as f64) as usize;
            let mut end = start + (len * (expected.len() - start) as f64) as usize;
            if whole_rows {
                (start, end) = (start / columns * columns, end / columns * columns);
            }
            let mut part = vec![f32::NAN; end - start];
            prop_assert!(restore(&bytes, (kind, paired), columns, start, &mut part));
            prop_assert_eq!(&part[..], &expected[start..end]);
        }
    }

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
        for own in ["blk.12.attn_q.weight", "blk.0.ffn_up.bias", "output.weight", "token_embd.weight"] {
            let known = name(own).unwrap();
            let (block, part, end) = name_in_gguf(&known).unwrap();
            assert_eq!(block.map_or(format!("{part}.{end}"), |block| format!("blk.{block}.{part}.{end}")), own);
        }
        assert_eq!(name_in_gguf("transformer.h.0.ln_1.weight"), None);
    }

    #[test]
    fn rows_of_a_head_come_back_in_halves() {
        // Two heads of 6 rows: the file has rows 0, 3, 1, 4, 2, 5 of each.
        let rows: Vec<usize> = (0..12).map(|row| row_in_file(row, Some(6))).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
        assert_eq!(row_in_file(7, None), 7);
        let again: Vec<usize> = rows.iter().map(|&row| row_in_transformers(row, Some(6))).collect();
        assert_eq!(again, (0..12).collect::<Vec<_>>());
        assert_eq!(row_in_transformers(7, None), 7);
    }
}
