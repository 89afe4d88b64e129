//! Products of bytes against plain loops, with every instruction set that this processor has.

use proptest::prelude::*;

use super::super::matmul::{Matrix, Weights, multiply_with};
use super::super::shares;
use super::super::test_numbers::{assert_close, numbers};
use super::*;
use crate::quant::{ActivationScale, StaticInt8};

struct Rows {
    values: Vec<i8>,
    absmax: Vec<f32>,
    sums: Vec<i32>,
}

fn rows(n: usize, k: usize, seed: u32) -> Rows {
    let values: Vec<i8> = numbers(n * k, seed).iter().map(|x| (x * 127.0).round() as i8).collect();
    let sums = values.chunks_exact(k).map(|row| row.iter().map(|&value| i32::from(value)).sum()).collect();
    let absmax = numbers(n, seed ^ 1).iter().map(|x| x.abs() + 0.1).collect();
    Rows { values, absmax, sums }
}

fn product(set: InstructionSet, x: &[f32], rows: &Rows, threshold: f32, k: usize) -> Vec<f32> {
    let n = rows.absmax.len();
    let inputs = Inputs::Dynamic { threshold };
    let weights = Weights::Int8(Int8 { values: &rows.values, absmax: &rows.absmax, sums: &rows.sums, inputs });
    let mut out = vec![f32::NAN; x.len() / k * n];
    multiply_with(set, &shares(), x, Matrix { weights, n, k }, Then::default(), &mut out);
    out
}

fn static_product(set: InstructionSet, x: &[f32], layer: &StaticInt8, bias: Option<&[f32]>) -> Vec<f32> {
    let (rows, k) = (layer.weight(), layer.weight().columns());
    let sums: Vec<i32> = rows.values().chunks(k).map(|row| row.iter().map(|&value| i32::from(value)).sum()).collect();
    let factors = layer.input_scale().factors(k);
    let inputs = Inputs::Static { factors: &factors, scale: layer.input_scale().of_products() };
    let weights = Weights::Int8(Int8 { values: rows.values(), absmax: rows.scb(), sums: &sums, inputs });
    let mut out = vec![f32::NAN; x.len() / k * rows.rows()];
    let matrix = Matrix { weights, n: rows.rows(), k };
    multiply_with(set, &shares(), x, matrix, Then { bias, ..Then::default() }, &mut out);
    out
}

/// The products of what the inputs are rounded to.
fn naive(x: &[f32], rows: &Rows, threshold: f32, k: usize) -> Vec<f64> {
    let rounded = round(x, k, threshold, false, &shares());
    let mut out = Vec::new();
    for (m, x) in rounded.values.chunks_exact(k).enumerate() {
        for (weights, absmax) in rows.values.chunks_exact(k).zip(&rows.absmax) {
            let weight = |column: usize| f64::from(weights[column]) * f64::from(*absmax) / 127.0;
            let sum: i64 = x.iter().zip(weights).map(|(x, w)| i64::from(*x) * i64::from(*w)).sum();
            let kept: f64 = (0..rounded.outliers.len())
                .map(|i| f64::from(rounded.kept[m * rounded.outliers.len() + i]) * weight(rounded.outliers[i]))
                .sum();
            out.push(sum as f64 * f64::from(rounded.scales[m] * *absmax) * f64::from(PER_PRODUCT) + kept);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_of_any_shape(
        m in prop_oneof![1..10_usize, Just(33)],
        n in 1..40_usize,
        k in prop_oneof![1..300_usize, Just(3072)],
        threshold in prop_oneof![Just(0.0_f32), Just(0.9), Just(0.99)],
        seed: u32,
    ) {
        let (x, rows) = (numbers(m * k, seed), rows(n, k, seed ^ 5));
        {
            let expected = naive(&x, &rows, threshold, k);
            let scalar = product(InstructionSet::Scalar, &x, &rows, threshold, k);
            // Many kept columns are many additions in float32.
            assert_close(&scalar, &expected, 1e-6 * k as f64);
            for set in InstructionSet::available() {
                prop_assert!(product(set, &x, &rows, threshold, k) == scalar, "{set:?}: sums are exact");
            }
        }
    }

    #[test]
    fn static_products_are_those_of_the_reference_to_the_bit(
        m in prop_oneof![1..10_usize, Just(33), Just(130)],
        n in 1..40_usize,
        k in prop_oneof![1..300_usize, Just(3072)],
        // From nothing clipped to almost everything; and none at all.
        scale in prop_oneof![Just(1.0 / 127.0), Just(1e-3_f32), Just(0.0)],
        per_channel: bool,
        biased: bool,
        seed: u32,
    ) {
        let (x, weights, bias) = (numbers(m * k, seed), numbers(n * k, seed ^ 5), numbers(n, seed ^ 6));
        let scales = || numbers(k, seed ^ 7).iter().map(|number| number.max(0.0) * scale).collect();
        let input_scale = if per_channel { ActivationScale::PerChannel(scales()) } else { ActivationScale::PerTensor(scale) };
        let bias = biased.then_some(&bias[..]);
        let layer = StaticInt8::quantize(&weights, k, input_scale).unwrap();
        let expected = layer.linear_reference(&x, bias).unwrap();
        for set in InstructionSet::available() {
            prop_assert!(static_product(set, &x, &layer, bias) == expected, "{set:?}");
        }
    }
}

#[test]
fn a_static_row_that_is_not_finite_is_nan_and_alone_in_it() {
    let k = 70;
    let layer = StaticInt8::quantize(&numbers(5 * k, 3), k, ActivationScale::PerTensor(1.0 / 127.0)).unwrap();
    for (set, wrong) in InstructionSet::available()
        .into_iter()
        .flat_map(|set| [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|wrong| (set, wrong)))
    {
        let mut x = numbers(3 * k, 4);
        x[k + 69] = wrong;
        let out = static_product(set, &x, &layer, None);
        assert!(out[5..10].iter().all(|value| value.is_nan()), "{set:?} {wrong}");
        let others = [&out[..5], &out[10..]].concat();
        assert_eq!(others, layer.linear_reference(&[&x[..k], &x[2 * k..]].concat(), None).unwrap(), "{set:?}");
    }
}

#[test]
fn sums_of_the_largest_bytes_do_not_overflow() {
    let (n, k) = (8, 4096);
    let rows = Rows { values: vec![-127; n * k], absmax: vec![127.0; n], sums: vec![-127 * k as i32; n] };
    for set in InstructionSet::available() {
        let out = product(set, &vec![1.0; k], &rows, 0.0, k);
        assert_close(&out, &vec![-127.0 * k as f64; n], 2e-5);
    }
}

#[test]
fn rows_of_zeros_and_of_no_numbers() {
    let (k, rows) = (70, rows(5, 70, 3));
    let threshold = 6.0;
    for set in InstructionSet::available() {
        assert!(product(set, &vec![0.0; k], &rows, threshold, k).iter().all(|&value| value == 0.0));
        let infinite: Vec<f32> = (0..k).map(|i| if i == 3 { f32::INFINITY } else { 1.0 }).collect();
        assert!(product(set, &infinite, &rows, 0.0, k).iter().all(|value| value.is_nan()), "{set:?}");
        let mut x = numbers(2 * k, 4);
        x[7] = f32::NAN;
        let out = product(set, &x, &rows, threshold, k);
        assert!(out[..5].iter().all(|value| value.is_nan()) && out[5..].iter().all(|value| value.is_finite()));
    }
}

#[test]
fn columns_that_reach_the_threshold_are_kept_as_they_are() {
    let x = [0.5, -6.0, 1.0, 0.25, 0.0, 2.0];
    let rounded = round(&x, 3, 6.0, false, &shares());
    assert_eq!((rounded.outliers, rounded.kept), (vec![1], vec![-6.0, 0.0]));
    assert_eq!(*rounded.values, [64, 0, 127, 16, 0, 127]);
    assert_eq!(rounded.scales, [1.0, 2.0]);
}
