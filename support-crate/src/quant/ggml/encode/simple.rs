//! Blocks of 32 numbers that share a scale, or a scale and a minimum, in float16.
//!
//! Source: `quantize_row_q4_0_ref`, `quantize_row_q4_0_impl` and the same of the other formats in llama.cpp's
//! `ggml-quants.c`.

use super::search::{affine, largest_magnitude, symmetric};
use super::{WEIGHTED, write_half};
use crate::source::GgmlType;

/// Numbers of a block.
const LEN: usize = 32;

/// One block. `weights` say how much each number's error weighs.
pub(super) fn encode(kind: GgmlType, numbers: &[f32], weights: Option<&[f32]>, out: &mut [u8]) {
    let mut codes = [0; LEN];
    match kind {
        GgmlType::Q8_0 => {
            let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
            let scale = largest / 127.0;
            let inverse = inverse(scale);
            write_half(out, 0, scale);
            for (to, &number) in out[2..].iter_mut().zip(numbers) {
                *to = ((number * inverse).round() as i8).cast_unsigned();
            }
        }
        GgmlType::Q4_0 | GgmlType::Q5_0 => {
            let levels = if kind == GgmlType::Q4_0 { 8 } else { 16 };
            let scale = match weights {
                Some(weights) => symmetric(numbers, Some(weights), levels, &mut codes),
                None => with_largest_at_the_end(numbers, levels, &mut codes),
            };
            write_half(out, 0, scale);
            pack(&codes, &mut out[2..]);
        }
        GgmlType::Q4_1 | GgmlType::Q5_1 => {
            let levels = if kind == GgmlType::Q4_1 { 15 } else { 31 };
            let (scale, minimum) = match weights {
                Some(weights) => {
                    let (scale, below_zero) = affine(numbers, weights, levels, WEIGHTED, &mut codes);
                    (scale, -below_zero)
                }
                None => from_least_to_largest(numbers, levels, &mut codes),
            };
            write_half(out, 0, scale);
            write_half(out, 2, minimum);
            pack(&codes, &mut out[4..]);
        }
        _ => unreachable!("{} has other blocks", kind.name()),
    }
}

/// How much each number's error weighs: by its importance, and more where the number is large for its row, whose mean
/// square is `mean_square`.
pub(super) fn weights(numbers: &[f32], importance: &[f32], mean_square: f32) -> [f32; LEN] {
    let mut weights = [0.0; LEN];
    for ((to, &number), &importance) in weights.iter_mut().zip(numbers).zip(importance) {
        *to = importance * (mean_square + number * number).sqrt();
    }
    weights
}

/// The number of largest magnitude becomes code 0, whatever its sign.
fn with_largest_at_the_end(numbers: &[f32], levels: u8, codes: &mut [u8]) -> f32 {
    let scale = largest_magnitude(numbers) / -f32::from(levels);
    let inverse = inverse(scale);
    for (to, &number) in codes.iter_mut().zip(numbers) {
        *to = ((number * inverse + (f32::from(levels) + 0.5)) as u8).min(2 * levels - 1);
    }
    scale
}

/// Code 0 is the least number, and the last code the largest.
fn from_least_to_largest(numbers: &[f32], levels: u8, codes: &mut [u8]) -> (f32, f32) {
    let (mut min, mut max) = (f32::MAX, -f32::MAX);
    for &number in numbers {
        if number < min {
            min = number;
        }
        if number > max {
            max = number;
        }
    }
    let scale = (max - min) / f32::from(levels);
    let inverse = inverse(scale);
    for (to, &number) in codes.iter_mut().zip(numbers) {
        *to = (((number - min) * inverse + 0.5) as u8).min(levels);
    }
    (scale, min)
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The lower four bits of codes, the first 16 in the lower halves of bytes, after the fifth bits if there is room for
/// these.
fn pack(codes: &[u8; LEN], out: &mut [u8]) {
    let halves = match out.len() - LEN / 2 {
        0 => out,
        fifths => {
            let bits = codes.iter().enumerate().fold(0_u32, |bits, (i, &code)| bits | u32::from(code >> 4 & 1) << i);
            let (high, halves) = out.split_at_mut(fifths);
            high.copy_from_slice(&bits.to_le_bytes());
            halves
        }
    };
    for (i, byte) in halves.iter_mut().enumerate() {
        *byte = codes[i] & 15 | codes[i + LEN / 2] << 4;
    }
}
