//! The blocks of GGUF files, restored to float32.
//!
//! Each number is what ggml's own `dequantize_row_*` makes of it, to the bit.
//!
//! Source: `ggml-quants.c` and `ggml-common.h` of ggml; `gguf.quants` in Python.

use half::{bf16, f16};

use crate::source::GgmlType;

/// Restores whole blocks.
///
/// # Panics
/// `bytes` are not the whole blocks of as many numbers as `out` has room for.
pub fn restore_ggml(kind: GgmlType, bytes: &[u8], out: &mut [f32]) {
    let (numbers, size) = (kind.block_len(), kind.block_bytes());
    let fits = out.len().is_multiple_of(numbers) && out.len() / numbers * size == bytes.len();
    assert!(fits, "{} bytes of {} for {} numbers", bytes.len(), kind.name(), out.len());
    let block: fn(&[u8], &mut [f32]) = match kind {
        GgmlType::F32 => |bytes, out| out[0] = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        GgmlType::F16 => |bytes, out| out[0] = half(bytes, 0),
        GgmlType::Bf16 => |bytes, out| out[0] = bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        GgmlType::Q4_0 => q4_0,
        GgmlType::Q4_1 => q4_1,
        GgmlType::Q5_0 => q5_0,
        GgmlType::Q5_1 => q5_1,
        GgmlType::Q8_0 => q8_0,
        GgmlType::Q2K => q2_k,
        GgmlType::Q3K => q3_k,
        GgmlType::Q4K => q4_k,
        GgmlType::Q5K => q5_k,
        GgmlType::Q6K => q6_k,
    };
    for (bytes, out) in bytes.chunks_exact(size).zip(out.chunks_exact_mut(numbers)) {
        block(bytes, out);
    }
}

/// The float16 at a place.
fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Scale; 16 bytes, the first 16 numbers in their lower halves.
fn q4_0(bytes: &[u8], out: &mut [f32]) {
    let (scale, codes) = (half(bytes, 0), &bytes[2..18]);
    for (i, code) in codes.iter().enumerate() {
        out[i] = (f32::from(code & 15) - 8.0) * scale;
        out[i + 16] = (f32::from(code >> 4) - 8.0) * scale;
    }
}

/// Scale, minimum; 16 bytes as in Q4_0.
fn q4_1(bytes: &[u8], out: &mut [f32]) {
    let (scale, minimum, codes) = (half(bytes, 0), half(bytes, 2), &bytes[4..20]);
    for (i, code) in codes.iter().enumerate() {
        out[i] = f32::from(code & 15) * scale + minimum;
        out[i + 16] = f32::from(code >> 4) * scale + minimum;
    }
}

/// The fifth bits of 32 numbers, and their lower four.
fn five_bits(bytes: &[u8], i: usize) -> (u8, u8) {
    let high = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let code = bytes[4 + i];
    let fifth = |number: usize| ((high >> number & 1) as u8) << 4;
    (code & 15 | fifth(i), code >> 4 | fifth(i + 16))
}

/// Scale; fifth bits; 16 bytes.
fn q5_0(bytes: &[u8], out: &mut [f32]) {
    let scale = half(bytes, 0);
    for i in 0..16 {
        let (first, second) = five_bits(&bytes[2..], i);
        out[i] = (f32::from(first) - 16.0) * scale;
        out[i + 16] = (f32::from(second) - 16.0) * scale;
    }
}

/// Scale, minimum; fifth bits; 16 bytes.
fn q5_1(bytes: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (half(bytes, 0), half(bytes, 2));
    for i in 0..16 {
        let (first, second) = five_bits(&bytes[4..], i);
        out[i] = f32::from(first) * scale + minimum;
        out[i + 16] = f32::from(second) * scale + minimum;
    }
}

/// Scale; 32 signed bytes.
fn q8_0(bytes: &[u8], out: &mut [f32]) {
    let scale = half(bytes, 0);
    out.iter_mut().zip(&bytes[2..]).for_each(|(out, code)| *out = f32::from(code.cast_signed()) * scale);
}

/// 16 bytes of a scale (lower half) and a minimum (upper half) for 16 numbers each; 64 bytes of 2-bit numbers; the scale
/// of scales and of minima.
fn q2_k(bytes: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (half(bytes, 80), half(bytes, 82));
    for (i, out) in out.iter_mut().enumerate() {
        // 128 numbers in 32 bytes: four 2-bit numbers of one byte are 32 apart.
        let (part, within) = (i / 128, i % 128);
        let code = bytes[16 + part * 32 + within % 32] >> (within / 32 * 2) & 3;
        let of_16 = bytes[i / 16];
        *out = scale * f32::from(of_16 & 15) * f32::from(code) - minimum * f32::from(of_16 >> 4);
    }
}

/// 32 bytes of third bits; 64 bytes of their lower two; 16 scales of 6 bits in 12 bytes; their scale.
fn q3_k(bytes: &[u8], out: &mut [f32]) {
    let scale = half(bytes, 108);
    let packed = &bytes[96..108];
    let of_16 = |i: usize| {
        let low = if i < 8 { packed[i] & 15 } else { packed[i - 8] >> 4 };
        let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        f32::from(low | high << 4) - 32.0
    };
    for (i, out) in out.iter_mut().enumerate() {
        let (part, within) = (i / 128, i % 128);
        let low = bytes[32 + part * 32 + within % 32] >> (within / 32 * 2) & 3;
        let high = bytes[within % 32] >> (part * 4 + within / 32) & 1;
        *out = scale * of_16(i / 16) * (f32::from(low) - if high == 0 { 4.0 } else { 0.0 });
    }
}

/// Scale and minimum number `i` of 8, of 6 bits each in 12 bytes.
fn scale_and_minimum(packed: &[u8], i: usize) -> (f32, f32) {
    let (scale, minimum) = if i < 4 {
        (packed[i] & 63, packed[i + 4] & 63)
    } else {
        (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4)
    };
    (f32::from(scale), f32::from(minimum))
}

/// The scale of scales and of minima; 8 of each; 128 bytes of 4-bit numbers, the first 32 of 64 in lower halves.
fn q4_k(bytes: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (half(bytes, 0), half(bytes, 2));
    for (i, out) in out.chunks_exact_mut(32).enumerate() {
        let of_32 = scale_and_minimum(&bytes[4..16], i);
        let (scale, minimum) = (scale * of_32.0, minimum * of_32.1);
        for (j, out) in out.iter_mut().enumerate() {
            let code = bytes[16 + i / 2 * 32 + j] >> (i % 2 * 4) & 15;
            *out = scale * f32::from(code) - minimum;
        }
    }
}

/// As Q4_K, with 32 bytes of fifth bits before the others.
fn q5_k(bytes: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (half(bytes, 0), half(bytes, 2));
    for (i, out) in out.chunks_exact_mut(32).enumerate() {
        let of_32 = scale_and_minimum(&bytes[4..16], i);
        let (scale, minimum) = (scale * of_32.0, minimum * of_32.1);
        for (j, out) in out.iter_mut().enumerate() {
            let low = bytes[48 + i / 2 * 32 + j] >> (i % 2 * 4) & 15;
            let high = bytes[16 + j] >> i & 1;
            *out = scale * f32::from(low | high << 4) - minimum;
        }
    }
}

/// 128 bytes of lower and 64 of upper bits; 16 signed scales; their scale.
fn q6_k(bytes: &[u8], out: &mut [f32]) {
    let scale = half(bytes, 208);
    for (i, out) in out.iter_mut().enumerate() {
        let (part, within) = (i / 128, i % 128);
        let low = bytes[part * 64 + within % 64] >> (within / 64 * 4) & 15;
        let high = bytes[128 + part * 32 + within % 32] >> (within / 32 * 2) & 3;
        let of_16 = f32::from(bytes[192 + i / 16].cast_signed());
        *out = scale * of_16 * (f32::from(low | high << 4) - 32.0);
    }
}
