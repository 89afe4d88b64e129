//! Products with 4-bit weights against those with the same weights in full.

use proptest::prelude::*;

use super::super::tests::product;
use super::super::{Epilogue, Matrix, matmul};
use super::*;
use crate::elementwise::Activation;
use crate::simd::Scalar;
use crate::test_numbers::{assert_close, cases, numbers};
use crate::threads::thread_scope;

/// Any 16 numbers will do: the kernels do not know the codes.
fn code() -> [f32; 16] {
    let mut code = [0.0; 16];
    code.copy_from_slice(&numbers(16, 99));
    code
}

struct Packed {
    bytes: Vec<u8>,
    absmax: Vec<f32>,
    /// What the bytes stand for.
    plain: Vec<f32>,
}

fn packed(len: usize, blocksize: usize, seed: u32) -> Packed {
    let absmax: Vec<f32> = numbers(len.div_ceil(blocksize), seed).iter().map(|x| x.abs()).collect();
    let bytes: Vec<u8> = numbers(len.div_ceil(2), seed ^ 1).iter().map(|x| (x * 127.0) as i8 as u8).collect();
    let index = |i: usize| usize::from(if i.is_multiple_of(2) { bytes[i / 2] >> 4 } else { bytes[i / 2] & 15 });
    let plain = (0..len).map(|i| code()[index(i)] * absmax[i / blocksize]).collect();
    Packed { bytes, absmax, plain }
}

/// Widths with whole vectors, and widths whose blocks cross rows.
fn shape() -> impl Strategy<Value = (usize, usize, usize)> {
    let k = prop_oneof![1..200_usize, (1..40_usize).prop_map(|k| 32 * k), Just(1056), Just(2048)];
    (prop_oneof![1..10_usize, Just(130)], 1..40_usize, k)
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn products_of_any_shape((m, n, k) in shape(), log_block in 5..13_u32, rounded: bool, seed: u32) {
        let (blocksize, code) = (1 << log_block, code());
        let Packed { bytes, absmax, plain } = packed(n * k, blocksize, seed);
        let x = numbers(m * k, seed ^ 2);
        let nearest: Vec<bf16> = plain.iter().copied().map(bf16::from_f32).collect();
        let (compute, plain): (_, &dyn Weights) =
            if rounded { (Compute::BFloat16, &&nearest[..]) } else { (Compute::Float32, &&plain[..]) };
        let weights = Packed4Bit { packed: &bytes, absmax: &absmax, minimum: None, code: &code, blocksize, columns: None, compute };
        let full = product(Isa::Scalar(Scalar), &x, plain, n, k);
        let expected: Vec<f64> = full.iter().map(|&value| f64::from(value)).collect();
        for isa in Isa::available() {
            let together = product(isa, &x, &weights, n, k);
            assert_close(&together, &expected, 1e-6 + 1e-7 * k as f64);
            let alone: Vec<f32> = x.chunks_exact(k).flat_map(|x| product(isa, x, &weights, n, k)).collect();
            prop_assert!(together == alone, "{isa}: not the same to the bit");
        }
    }
}

/// A minimum for each block, blocks of any multiple of 32, and columns in another order: affine int4.
fn affine_shape() -> impl Strategy<Value = (usize, usize, usize)> {
    let k = prop_oneof![1..200_usize, (1..30_usize).prop_map(|k| 32 * k), (1..8_usize).prop_map(|k| 128 * k)];
    (prop_oneof![1..10_usize, Just(130)], 1..30_usize, k)
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn products_with_minima_and_columns_in_another_order(
        (m, n, k) in affine_shape(),
        units in 1..9_usize,
        rounded: bool,
        permuted: bool,
        seed: u32,
    ) {
        let (blocksize, code) = (32 * units, std::array::from_fn(|i| i as f32));
        let Packed { bytes, absmax, .. } = packed(n * k, blocksize, seed);
        let minimum = numbers(absmax.len(), seed ^ 7);
        let index = |i: usize| if i.is_multiple_of(2) { bytes[i / 2] >> 4 } else { bytes[i / 2] & 15 };
        let number = |i: usize| f32::from(index(i)).mul_add(absmax[i / blocksize], minimum[i / blocksize]);
        let plain: Vec<f32> = (0..n * k).map(number).collect();
        let nearest: Vec<bf16> = plain.iter().copied().map(bf16::from_f32).collect();
        let (compute, plain): (_, &dyn Weights) =
            if rounded { (Compute::BFloat16, &&nearest[..]) } else { (Compute::Float32, &&plain[..]) };
        // Some order: every column comes once.
        let mut columns: Vec<u32> = (0..k as u32).collect();
        columns.sort_by_key(|&column| column.wrapping_mul(2_654_435_761) ^ seed);
        let x = numbers(m * k, seed ^ 2);
        let in_order: Vec<f32> = match permuted {
            true => x.chunks_exact(k).flat_map(|x| columns.iter().map(|&column| x[column as usize])).collect(),
            false => x.clone(),
        };
        let weights = Packed4Bit {
            packed: &bytes,
            absmax: &absmax,
            minimum: Some(&minimum),
            code: &code,
            blocksize,
            columns: permuted.then_some(&columns[..]),
            compute,
        };
        let expected: Vec<f64> =
            product(Isa::Scalar(Scalar), &in_order, plain, n, k).into_iter().map(f64::from).collect();
        for isa in Isa::available() {
            let together = product(isa, &x, &weights, n, k);
            assert_close(&together, &expected, 1e-6 + 2e-6 * k as f64);
            let alone: Vec<f32> = x.chunks_exact(k).flat_map(|x| product(isa, x, &weights, n, k)).collect();
            prop_assert!(together == alone, "{isa}: not the same to the bit");
        }
    }
}

/// A weight is rounded once. Rounding `code * scale` before adding the minimum would give a different bfloat16 for a
/// few.
#[test]
fn a_weight_with_a_minimum_is_rounded_once() {
    let thirds = |seed| numbers(1_000_000, seed).into_iter().map(|x| x / 3.0);
    let nearest = |x: f32| bf16::from_f32(x).to_f32();
    let once = |index: f32, scale: f32, minimum: f32| nearest(index.mul_add(scale, minimum));
    let (absmax, minimum): (Vec<f32>, Vec<f32>) = thirds(11)
        .zip(thirds(12))
        .filter(|&(scale, minimum)| once(13.0, scale, minimum) != nearest(13.0 * scale + minimum))
        .unzip();
    assert!(absmax.len() > 1, "no number that tells them apart");
    // A row for each block: 32 weights with index 13.
    let (n, k, code) = (absmax.len(), 32, std::array::from_fn(|i| i as f32));
    let bytes = vec![13 << 4 | 13; n * k / 2];
    let compute = Compute::BFloat16;
    let (absmax, minimum) = (&absmax[..], Some(&minimum[..]));
    let weights = Packed4Bit { packed: &bytes, absmax, minimum, code: &code, blocksize: k, columns: None, compute };
    let one = |place: usize| (0..k).map(move |i| f32::from(i == place));
    for m in [1, 6] {
        let x: Vec<f32> = (0..m).flat_map(one).collect();
        let expected: Vec<f32> = absmax.iter().zip(minimum.unwrap()).map(|(&a, &b)| once(13.0, a, b)).collect();
        for isa in Isa::available() {
            assert_eq!(product(isa, &x, &weights, n, k), expected.repeat(m), "{isa}, {m} rows");
        }
    }
}

/// Two blocks, and two scales, in what the widest vectors decode at once, and in twice as much.
#[test]
fn small_blocks_have_scales_of_their_own() {
    let (n, code) = (9, code());
    for (k, blocksize) in [(64, 32), (128, 32), (128, 64)] {
        let Packed { bytes, absmax, plain } = packed(n * k, blocksize, 3);
        let plain: Vec<bf16> = plain.into_iter().map(bf16::from_f32).collect();
        let compute = Compute::BFloat16;
        let weights = Packed4Bit {
            packed: &bytes,
            absmax: &absmax,
            minimum: None,
            code: &code,
            blocksize,
            columns: None,
            compute,
        };
        for m in [1, 8, 9] {
            let x = numbers(m * k, 4);
            let full = product(Isa::Scalar(Scalar), &x, &&plain[..], n, k);
            let expected: Vec<f64> = full.into_iter().map(f64::from).collect();
            for isa in Isa::available() {
                assert_close(&product(isa, &x, &weights, n, k), &expected, 1e-5);
            }
        }
    }
}

/// More rows than are converted at once: each is as it would be alone, with everything that follows the product.
#[test]
fn rows_of_a_long_prompt_are_those_of_short_ones() {
    let (m, n, k, code) = (1030, 5, 64, code());
    let Packed { bytes, absmax, plain } = packed(n * k, 64, 7);
    let plain: Vec<bf16> = plain.into_iter().map(bf16::from_f32).collect();
    let (x, bias, before) = (numbers(m * k, 8), numbers(n, 9), numbers(m * n, 10));
    let epilogue = Epilogue { bias: Some(&bias), accumulate: true, activation: Some(Activation::GeluNew) };
    let four_bit = |compute| Packed4Bit {
        packed: &bytes,
        absmax: &absmax,
        minimum: None,
        code: &code,
        blocksize: 64,
        columns: None,
        compute,
    };
    let formats: [(&str, &dyn Weights); 3] = [
        ("bfloat16", &&plain[..]),
        ("4 bits in bfloat16", &four_bit(Compute::BFloat16)),
        ("4 bits in float32", &four_bit(Compute::Float32)),
    ];
    let sets = Isa::available();
    for ((name, weights), isa) in formats.into_iter().flat_map(|format| sets.iter().map(move |isa| (format, *isa))) {
        let run = |x: &[f32], out: &mut [f32]| {
            matmul(&thread_scope().with_isa(isa), x, Matrix { weights, n, k }, epilogue, out);
        };
        let mut together = before.clone();
        run(&x, &mut together);
        let mut alone = before.clone();
        x.chunks_exact(k).zip(alone.chunks_exact_mut(n)).for_each(|(x, out)| run(x, out));
        assert!(together == alone, "{name}, {isa}");
    }
}

#[test]
fn what_is_no_number_stays_visible() {
    let (n, k) = (9, 64);
    let Packed { bytes, mut absmax, .. } = packed(n * k, 64, 5);
    absmax[4] = f32::NAN;
    let code = code();
    let compute = Compute::Float32;
    let four_bit = Packed4Bit {
        packed: &bytes,
        absmax: &absmax,
        minimum: None,
        code: &code,
        blocksize: 64,
        columns: None,
        compute,
    };
    for isa in Isa::available() {
        for (m, compute) in [1, 6].into_iter().flat_map(|m| [(m, Compute::Float32), (m, Compute::BFloat16)]) {
            let weights = Packed4Bit { compute, ..four_bit };
            let out = product(isa, &numbers(m * k, 6), &weights, n, k);
            assert!(out.iter().enumerate().all(|(i, value)| value.is_nan() == (i % n == 4)), "{isa}, {compute:?}");
        }
    }
}
