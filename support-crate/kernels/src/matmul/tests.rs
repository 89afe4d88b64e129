//! Products against a plain double-precision loop, with every instruction set that this processor has.

use half::bf16;
use proptest::prelude::*;

use super::*;
use crate::test_numbers::{assert_close, cases, numbers};
use crate::threads::thread_scope;

/// The product alone.
pub fn product(isa: Isa, x: &[f32], weights: &dyn Weights, n: usize, k: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len() / k * n];
    matmul(&thread_scope().with_isa(isa), x, Matrix { weights, n, k }, Epilogue::default(), &mut out);
    out
}

fn naive(weights: &[f32], x: &[f32], bias: &[f32], k: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let row = |x: &[f32]| -> Vec<f64> {
        weights.chunks_exact(k).zip(bias).map(|(weights, bias)| dot(weights, x) + f64::from(*bias)).collect()
    };
    x.chunks_exact(k).flat_map(row).collect()
}

fn rounded(x: &[f32]) -> Vec<bf16> {
    x.iter().map(|&x| bf16::from_f32(x)).collect()
}

fn as_float(values: &[bf16]) -> Vec<f32> {
    values.iter().map(|value| value.to_f32()).collect()
}

/// Sizes around those of tiles and blocks.
fn shape() -> impl Strategy<Value = (usize, usize, usize)> {
    let k = prop_oneof![1..70_usize, 1000..1100_usize, 2040..2060_usize, Just(1024), Just(2048)];
    (prop_oneof![1..12_usize, 126..134_usize], 1..80_usize, k)
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn products_of_any_shape((m, n, k) in shape(), seed: u32) {
        let (weights, x, bias) = (numbers(n * k, seed), numbers(m * k, seed ^ 1), numbers(n, seed ^ 2));
        let (narrow, narrow_x) = (rounded(&weights), rounded(&x));
        let expected = naive(&weights, &x, &bias, k);
        let expected_narrow = naive(&as_float(&narrow), &as_float(&narrow_x), &bias, k);
        // One number at a time, each of k additions rounds a sum of about sqrt(k).
        let tolerance = 1e-6 + 5e-8 * k as f64;
        for isa in Isa::available() {
            let mut out = vec![f32::NAN; m * n];
            let epilogue = Epilogue { bias: Some(&bias), ..Epilogue::default() };
            let scope = thread_scope().with_isa(isa);
            matmul(&scope, &x, Matrix { weights: &&weights[..], n, k }, epilogue, &mut out);
            assert_close(&out, &expected, tolerance);
            matmul(&scope, &x, Matrix { weights: &&narrow[..], n, k }, epilogue, &mut out);
            assert_close(&out, &expected_narrow, tolerance);
        }
    }

    #[test]
    fn a_row_does_not_depend_on_the_others((m, n, k) in shape(), seed: u32) {
        let (weights, x) = (numbers(n * k, seed), numbers(m * k, seed ^ 1));
        let narrow = rounded(&weights);
        for isa in Isa::available() {
            for weights in [&&weights[..] as &dyn Weights, &&narrow[..]] {
                let together = product(isa, &x, weights, n, k);
                let alone: Vec<f32> = x.chunks_exact(k).flat_map(|x| product(isa, x, weights, n, k)).collect();
                prop_assert!(together == alone, "{isa}: not the same to the bit");
            }
        }
    }
}

#[test]
fn what_comes_after_the_product() {
    let (m, n, k) = (5, 50, 33);
    let (weights, x, bias) = (numbers(n * k, 1), numbers(m * k, 2), numbers(n, 3));
    let matrix = Matrix { weights: &&weights[..], n, k };
    let expected = naive(&weights, &x, &bias, k);
    let added: Vec<f64> = expected.iter().map(|value| value + 10.0).collect();
    let relu: Vec<f64> = expected.iter().map(|value| value.max(0.0)).collect();
    for isa in Isa::available() {
        let product = |epilogue: Epilogue<'_>| {
            let mut out = vec![10.0; m * n];
            matmul(&thread_scope().with_isa(isa), &x, matrix, epilogue, &mut out);
            out
        };
        assert_close(&product(Epilogue { bias: Some(&bias), accumulate: true, activation: None }), &added, 1e-5);
        let epilogue = Epilogue { bias: Some(&bias), accumulate: false, activation: Some(Activation::Relu) };
        assert_close(&product(epilogue), &relu, 1e-5);
    }
}

#[test]
fn what_is_no_number_stays_visible_and_in_its_row() {
    let (m, n, k) = (6, 30, 40);
    let (weights, mut x) = (numbers(n * k, 1), numbers(m * k, 2));
    x[3 * k + 7] = f32::NAN;
    let narrow = rounded(&weights);
    for isa in Isa::available() {
        for weights in [&&weights[..] as &dyn Weights, &&narrow[..]] {
            let out = product(isa, &x, weights, n, k);
            assert!(out.chunks_exact(n).enumerate().all(|(row, out)| out.iter().all(|y| y.is_nan() == (row == 3))));
        }
    }
}
