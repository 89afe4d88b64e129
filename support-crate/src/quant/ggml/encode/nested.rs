//! Blocks of 256 numbers, whose groups have integers for scales, times what the block has in float16.
//!
//! Source: `quantize_row_q4_K_ref`, `quantize_row_q4_K_impl` and the same of Q5_K and Q6_K in llama.cpp's
//! `ggml-quants.c`.

use super::search::{Steps, affine, largest_magnitude, nearest, positive, symmetric};
use super::{WEIGHTED, write_half};
use crate::quant::ggml::codes::{factors, steps};
use crate::source::GgmlType;

/// Numbers of a block.
const LEN: usize = 256;
/// Blocks with scales that are all smaller are zero.
const SMALLEST: f32 = 1e-15;
/// The largest integer for a scale, or a minimum, of 6 bits.
const SIX_BITS: u8 = 63;

/// One block of Q4_K or Q5_K: 8 groups of 32, with a minimum each.
pub(super) fn encode_affine(kind: GgmlType, numbers: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
    const GROUP: usize = 32;
    const GROUPS: usize = LEN / GROUP;
    let (levels, unweighted) = match kind {
        GgmlType::Q4K => (15, Steps { first: -1.0, step: 0.1, last: 20 }),
        _ => (31, Steps { first: -0.5, step: 0.1, last: 15 }),
    };
    let mean_square = |numbers: &[f32]| sum_of_squares(numbers) / numbers.len() as f32;
    let of_block = 2.0 * sum_of_squares(numbers) / LEN as f32;
    let mut codes = [0; LEN];
    let (mut scales, mut minima, mut group_weights) = ([0.0; GROUPS], [0.0; GROUPS], [0.0; GROUPS]);
    for (i, (numbers, codes)) in numbers.chunks_exact(GROUP).zip(codes.chunks_exact_mut(GROUP)).enumerate() {
        let mut weights = [0.0; GROUP];
        let steps = match importance {
            Some(importance) => {
                let of_group = &importance[i * GROUP..];
                for ((weight, &number), &importance) in weights.iter_mut().zip(numbers).zip(of_group) {
                    *weight = importance * (of_block + number * number).sqrt();
                }
                WEIGHTED
            }
            None => {
                let size = mean_square(numbers).sqrt();
                weights.iter_mut().zip(numbers).for_each(|(weight, number)| *weight = size + number.abs());
                unweighted
            }
        };
        group_weights[i] = weights.iter().fold(0.0, |sum, weight| sum + weight);
        (scales[i], minima[i]) = affine(numbers, &weights, levels, steps, codes);
    }
    let round = |numbers: &[f32; GROUPS]| match importance {
        Some(_) => {
            let mut integers = [0; GROUPS];
            let factor = positive(numbers, &group_weights, SIX_BITS, &mut integers);
            (factor, integers)
        }
        None => {
            let largest = numbers.iter().fold(0.0, |largest, &number| if number > largest { number } else { largest });
            let inverse = if largest > 0.0 { f32::from(SIX_BITS) / largest } else { 0.0 };
            (largest / f32::from(SIX_BITS), numbers.map(|number| nearest(inverse * number) as u8))
        }
    };
    let ((scale, scales), (minimum, minima)) = (round(&scales), round(&minima));
    write_half(out, 0, scale);
    write_half(out, 2, minimum);
    pack_six_bits(&scales, &minima, &mut out[4..16]);
    let [scale, minimum] = factors(kind, out);
    for (i, (numbers, codes)) in numbers.chunks_exact(GROUP).zip(codes.chunks_exact_mut(GROUP)).enumerate() {
        let [of_scale, of_minimum] = steps(kind, out, i);
        let scale = scale.to_f32() * f32::from(of_scale);
        // Minima are added, and have been made negative.
        let minimum = -minimum.to_f32() * f32::from(of_minimum);
        if scale != 0.0 {
            for (code, &number) in codes.iter_mut().zip(numbers) {
                *code = nearest((number + minimum) / scale).clamp(0, i32::from(levels)) as u8;
            }
        }
    }
    let packed = &mut out[16..];
    let (fifths, halves) = packed.split_at_mut(packed.len() - LEN / 2);
    fifths.fill(0);
    // Q4_K has none.
    if !fifths.is_empty() {
        for (i, code) in codes.iter().enumerate() {
            fifths[i % GROUP] |= (code >> 4) << (i / GROUP);
        }
    }
    for (codes, halves) in codes.chunks_exact(2 * GROUP).zip(halves.chunks_exact_mut(GROUP)) {
        let (firsts, seconds) = codes.split_at(GROUP);
        for ((byte, first), second) in halves.iter_mut().zip(firsts).zip(seconds) {
            *byte = first & 15 | second << 4;
        }
    }
}

/// One block of Q6_K: 16 groups of 16.
pub(super) fn encode_q6(numbers: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
    const GROUP: usize = 16;
    const LEVELS: i32 = 32;
    let (mut codes, mut scales) = ([0; LEN], [0.0_f32; LEN / GROUP]);
    for (i, (numbers, codes)) in numbers.chunks_exact(GROUP).zip(codes.chunks_exact_mut(GROUP)).enumerate() {
        let weights = importance.map(|importance| &importance[i * GROUP..][..GROUP]);
        scales[i] = symmetric(numbers, weights, LEVELS as u8, codes);
    }
    let largest = largest_magnitude(&scales);
    out.fill(0);
    if largest.abs() < SMALLEST {
        return;
    }
    let inverse = -128.0 / largest;
    write_half(out, 208, 1.0 / inverse);
    for (to, scale) in out[192..208].iter_mut().zip(scales) {
        *to = (nearest(inverse * scale).min(127) as i8).cast_unsigned();
    }
    let [scale, _] = factors(GgmlType::Q6K, out);
    for (i, (numbers, codes)) in numbers.chunks_exact(GROUP).zip(codes.chunks_exact_mut(GROUP)).enumerate() {
        let scale = scale.to_f32() * f32::from(steps(GgmlType::Q6K, out, i)[0]);
        if scale != 0.0 {
            for (code, &number) in codes.iter_mut().zip(numbers) {
                *code = (nearest(number / scale).clamp(-LEVELS, LEVELS - 1) + LEVELS) as u8;
            }
        }
    }
    for (i, code) in codes.into_iter().enumerate() {
        let (part, within) = (i / 128, i % 128);
        out[part * 64 + within % 64] |= (code & 15) << (within / 64 * 4);
        out[128 + part * 32 + within % 32] |= (code >> 4) << (within / 32 * 2);
    }
}

/// Eight scales and eight minima of 6 bits each.
fn pack_six_bits(scales: &[u8; 8], minima: &[u8; 8], out: &mut [u8]) {
    for i in 0..8 {
        let (scale, minimum) = (scales[i].min(SIX_BITS), minima[i].min(SIX_BITS));
        if i < 4 {
            (out[i], out[i + 4]) = (scale, minimum);
        } else {
            out[i + 4] = scale & 15 | (minimum & 15) << 4;
            out[i - 4] |= scale >> 4 << 6;
            out[i] |= minimum >> 4 << 6;
        }
    }
}

fn sum_of_squares(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |sum, number| sum + number * number)
}
