//! The blocks of GGUF files: integers in groups that share a scale.
//!
//! Each number is what ggml's own `dequantize_row_*` makes of it, to the bit.
//!
//! Source: `ggml-quants.c` and `ggml-common.h` of ggml; `gguf.quants` in Python.

mod codes;
mod encode;
mod gguf_type;

use half::{bf16, f16};
use quantlab_kernels::CodeBits;

use crate::source::GgmlType;
pub(crate) use codes::{codes, factors, steps};
pub use encode::encode_ggml;
pub use gguf_type::GgufType;
pub(crate) use gguf_type::TensorPlace;

/// How the numbers of a format are made of integers: `scale * (code - offset) + minimum`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GgmlLayout {
    pub bits: CodeBits,
    /// What is subtracted from a code, but not from one of 8 bits, which has a sign.
    pub offset: u8,
    /// Numbers that share a scale.
    pub group: usize,
    pub has_minima: bool,
    /// Whether scales and minima are integers, times what a block has in float16.
    pub nested: bool,
}

impl GgmlLayout {
    /// `None` for numbers that stand for themselves.
    pub fn of(kind: GgmlType) -> Option<Self> {
        let (bits, offset, group, has_minima) = match kind {
            GgmlType::F32 | GgmlType::F16 | GgmlType::Bf16 => return None,
            GgmlType::Q4_0 => (CodeBits::Four, 8, 32, false),
            GgmlType::Q4_1 | GgmlType::Q4K => (CodeBits::Four, 0, 32, true),
            GgmlType::Q5_0 => (CodeBits::Six, 16, 32, false),
            GgmlType::Q5_1 | GgmlType::Q5K => (CodeBits::Six, 0, 32, true),
            // What a code of 4 bits stands for in `IQ4` is no multiple of it, and is kept instead.
            GgmlType::Q8_0 | GgmlType::Iq4Nl | GgmlType::Iq4Xs => (CodeBits::Eight, 0, 32, false),
            GgmlType::Q2K => (CodeBits::Four, 0, 16, true),
            GgmlType::Q3K => (CodeBits::Four, 4, 16, false),
            GgmlType::Q6K => (CodeBits::Six, 32, 16, false),
        };
        Some(Self { bits, offset, group, has_minima, nested: kind.block_len() == MAX_BLOCK })
    }
}

/// The most numbers in a block.
const MAX_BLOCK: usize = 256;

/// Restores whole blocks to float32.
///
/// # Panics
/// `bytes` are not the whole blocks of as many numbers as `out` has room for.
pub fn restore_ggml(kind: GgmlType, bytes: &[u8], out: &mut [f32]) {
    let (numbers, size) = (kind.block_len(), kind.block_bytes());
    let fits = out.len().is_multiple_of(numbers) && out.len() / numbers * size == bytes.len();
    assert!(fits, "{} bytes of {} for {} numbers", bytes.len(), kind.name(), out.len());
    let blocks = bytes.chunks_exact(size).zip(out.chunks_exact_mut(numbers));
    let Some(layout) = GgmlLayout::of(kind) else {
        return blocks.for_each(|(bytes, out)| {
            out[0] = match kind {
                GgmlType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
                GgmlType::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
                _ => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            };
        });
    };
    for (bytes, out) in blocks {
        restore_block(kind, layout, bytes, out);
    }
}

fn restore_block(kind: GgmlType, layout: GgmlLayout, bytes: &[u8], out: &mut [f32]) {
    let GgmlLayout { bits, offset, group, has_minima, nested } = layout;
    let mut stored = [0; MAX_BLOCK];
    codes(kind, bytes, &mut stored[..out.len()]);
    let [scale, minimum] = factors(kind, bytes);
    let (scale, minimum) = (scale.to_f32(), minimum.to_f32());
    for (i, (out, codes)) in out.chunks_exact_mut(group).zip(stored.chunks_exact(group)).enumerate() {
        let [of_scale, of_minimum] = if nested { steps(kind, bytes, i) } else { [1, 1] };
        let (scale, minimum) = (scale * f32::from(of_scale), minimum * f32::from(of_minimum));
        for (out, &code) in out.iter_mut().zip(codes) {
            let code = match bits {
                CodeBits::Four | CodeBits::Six => f32::from(code) - f32::from(offset),
                CodeBits::Eight => f32::from(code.cast_signed()),
            };
            *out = if has_minima { scale * code + minimum } else { scale * code };
        }
    }
}
