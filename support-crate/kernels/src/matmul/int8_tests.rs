//! Products of bytes against plain loops, with every instruction set that this processor has.

use proptest::prelude::*;

use super::super::tests::product as product_of;
use super::super::{Epilogue, Matrix, matmul};
use super::*;
use crate::simd::Scalar;
use crate::test_numbers::{assert_close, cases, numbers};
use crate::threads::thread_scope;

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

impl Rows {
    fn weights<'a>(&'a self, activations: ActivationQuant<'a>) -> PackedInt8<'a> {
        let Self { values, absmax, sums } = self;
        PackedInt8 { values, absmax, sums, activations }
    }
}

fn product(isa: Isa, x: &[f32], rows: &Rows, threshold: f32, k: usize) -> Vec<f32> {
    product_of(isa, x, &rows.weights(ActivationQuant::Dynamic { threshold }), rows.absmax.len(), k)
}

/// A layer whose inputs have fixed scales.
struct Static {
    rows: Rows,
    factors: Vec<f32>,
    scale: f32,
}

impl Static {
    fn product(&self, isa: Isa, x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let (n, k) = (self.rows.absmax.len(), self.factors.len());
        let weights = &self.rows.weights(ActivationQuant::Static { factors: &self.factors, scale: self.scale });
        let mut out = vec![f32::NAN; x.len() / k * n];
        let epilogue = Epilogue { bias, ..Epilogue::default() };
        matmul(&thread_scope().with_isa(isa), x, Matrix { weights, n, k }, epilogue, &mut out);
        out
    }

    /// The same, one number at a time.
    fn naive(&self, x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let (k, mut out) = (self.factors.len(), Vec::new());
        for x in x.chunks_exact(k) {
            let byte = |(x, factor): (&f32, &f32)| (x * factor).round_ties_even().clamp(-127.0, 127.0) as i64;
            let bytes: Vec<i64> = x.iter().zip(&self.factors).map(byte).collect();
            for (row, (weights, absmax)) in self.rows.values.chunks_exact(k).zip(&self.rows.absmax).enumerate() {
                let sum: i64 = bytes.iter().zip(weights).map(|(x, w)| x * i64::from(*w)).sum();
                out.push(bias.map_or(0.0, |bias| bias[row]) + sum as f32 * (absmax / 127.0 * self.scale));
            }
        }
        out
    }
}

/// The products of the rounded inputs.
fn naive(x: &[f32], rows: &Rows, threshold: f32, k: usize) -> Vec<f64> {
    let rounded = round(Isa::Scalar(Scalar), x, k, threshold, &thread_scope());
    let mut out = Vec::new();
    for (m, x) in rounded.values.chunks_exact(rounded.stride).enumerate() {
        for (weights, absmax) in rows.values.chunks_exact(k).zip(&rows.absmax) {
            let weight = |column: usize| f64::from(weights[column]) * f64::from(*absmax) / 127.0;
            let sum: i64 = x.iter().zip(weights).map(|(x, w)| i64::from(*x) * i64::from(*w)).sum();
            let kept: f64 = (0..rounded.outliers.len())
                .map(|i| f64::from(rounded.kept[m * rounded.outliers.len() + i]) * weight(rounded.outliers[i] as usize))
                .sum();
            out.push(sum as f64 * f64::from(rounded.scales[m] * *absmax) * f64::from(PER_PRODUCT) + kept);
        }
    }
    out
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn products_of_any_shape(
        m in prop_oneof![1..10_usize, Just(33)],
        n in 1..40_usize,
        k in prop_oneof![1..300_usize, Just(3072), Just(4096)],
        threshold in prop_oneof![Just(0.0_f32), Just(0.9), Just(0.99)],
        seed: u32,
    ) {
        let (x, rows) = (numbers(m * k, seed), rows(n, k, seed ^ 5));
        {
            let expected = naive(&x, &rows, threshold, k);
            let scalar = product(Isa::Scalar(Scalar), &x, &rows, threshold, k);
            // Many kept columns are many additions in float32.
            assert_close(&scalar, &expected, 1e-6 * k as f64);
            for isa in Isa::available() {
                prop_assert!(product(isa, &x, &rows, threshold, k) == scalar, "{isa}: sums are exact");
            }
        }
    }

    #[test]
    fn static_products_are_those_of_the_reference_to_the_bit(
        m in prop_oneof![1..10_usize, Just(33), Just(130)],
        n in 1..40_usize,
        k in prop_oneof![1..300_usize, Just(3072), Just(4096), Just(5000)],
        // From nothing clipped to almost everything; and none at all.
        factor in prop_oneof![Just(127.0), Just(1e3_f32), Just(0.0)],
        per_channel: bool,
        biased: bool,
        seed: u32,
    ) {
        let (x, rows, bias) = (numbers(m * k, seed), rows(n, k, seed ^ 5), numbers(n, seed ^ 6));
        let channels = numbers(k, seed ^ 7);
        let factors = channels.iter().map(|number| if per_channel { factor * number.max(0.0) } else { factor }).collect();
        let layer = Static { rows, factors, scale: 0.01 };
        let bias = biased.then_some(&bias[..]);
        let expected = layer.naive(&x, bias);
        for isa in Isa::available() {
            prop_assert!(layer.product(isa, &x, bias) == expected, "{isa}");
        }
    }
}

#[test]
fn a_static_row_that_is_not_finite_is_nan_and_alone_in_it() {
    let k = 70;
    let layer = Static { rows: rows(5, k, 3), factors: vec![127.0; k], scale: 1.0 / 127.0 };
    for (isa, wrong) in Isa::available()
        .into_iter()
        .flat_map(|isa| [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|wrong| (isa, wrong)))
    {
        let mut x = numbers(3 * k, 4);
        x[k + 69] = wrong;
        let out = layer.product(isa, &x, None);
        assert!(out[5..10].iter().all(|value| value.is_nan()), "{isa} {wrong}");
        let others = [&out[..5], &out[10..]].concat();
        assert_eq!(others, layer.naive(&[&x[..k], &x[2 * k..]].concat(), None), "{isa}");
    }
}

#[test]
fn sums_of_the_largest_bytes_do_not_overflow() {
    let (m, n, k) = (3, 8, 4096);
    // Rounding never makes a -128, but a file may hold one.
    for (value, x) in [(-127, 1.0), (-128, 1.0), (-128, -1.0), (127, 1.0), (127, -1.0)] {
        let rows =
            Rows { values: vec![value; n * k], absmax: vec![127.0; n], sums: vec![i32::from(value) * k as i32; n] };
        for isa in Isa::available() {
            let out = product(isa, &vec![x; m * k], &rows, 0.0, k);
            assert_close(&out, &vec![f64::from(value) * f64::from(x) * k as f64; m * n], 2e-5);
        }
    }
}

#[test]
fn rows_of_zeros_and_of_no_numbers() {
    let (k, rows) = (70, rows(5, 70, 3));
    let threshold = 6.0;
    for isa in Isa::available() {
        assert!(product(isa, &vec![0.0; k], &rows, threshold, k).iter().all(|&value| value == 0.0));
        let infinite: Vec<f32> = (0..k).map(|i| if i == 3 { f32::INFINITY } else { 1.0 }).collect();
        assert!(product(isa, &infinite, &rows, 0.0, k).iter().all(|value| value.is_nan()), "{isa}");
        let mut x = numbers(2 * k, 4);
        x[7] = f32::NAN;
        let out = product(isa, &x, &rows, threshold, k);
        assert!(out[..5].iter().all(|value| value.is_nan()) && out[5..].iter().all(|value| value.is_finite()));
    }
}

#[test]
fn columns_that_reach_the_threshold_are_kept_as_they_are() {
    let x = [0.5, -6.0, 1.0, 0.25, 0.0, 2.0];
    let rounded = round(Isa::Scalar(Scalar), &x, 3, 6.0, &thread_scope());
    assert_eq!((&*rounded.outliers, &*rounded.kept), (&[1][..], &[-6.0, 0.0][..]));
    assert_eq!(*rounded.values, [64, 0, 127, 16, 0, 127]);
    assert_eq!(*rounded.scales, [1.0, 2.0]);
}
