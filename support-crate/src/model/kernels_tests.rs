//! Each kernel against a plain double-precision loop, as compiled for this processor and for any.

use proptest::prelude::*;

use super::*;

/// Numbers between -1 and 1 that repeat for the same seed.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn close(found: &[f32], expected: impl Iterator<Item = f64>, tolerance: f64) {
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let distance = (f64::from(*found) - expected).abs();
        assert!(distance <= tolerance * expected.abs().max(1.0), "element {i}: {found} instead of {expected}");
    }
}

fn naive_product(weight: &[f32], x: &[f32], bias: &[f32], k: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let rows = weight.chunks_exact(k).enumerate();
    rows.flat_map(|(n, row)| {
        x.chunks_exact(k).map(move |x| dot(row, x) + f64::from(bias.get(n).copied().unwrap_or(0.0)))
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn products_of_any_shape(n in 1..70_usize, k in 1..300_usize, m in 1..5_usize, with_bias: bool, seed: u32) {
        let (weight, x) = (numbers(n * k, seed), numbers(m * k, seed ^ 1));
        let bias = numbers(if with_bias { n } else { 0 }, seed ^ 2);
        let mut out = vec![f32::NAN; n * m];
        matvec(&weight, &x, &bias, k, &mut out);
        close(&out, naive_product(&weight, &x, &bias, k).into_iter(), 1e-5);
        rows_times_body::<false, f32>(&weight, &x, &bias, k, &mut out);
        close(&out, naive_product(&weight, &x, &bias, k).into_iter(), 1e-5);

        let half: Vec<bf16> = weight.iter().map(|&value| bf16::from_f32(value)).collect();
        let rounded: Vec<f32> = half.iter().map(|value| value.to_f32()).collect();
        matvec(&half, &x, &bias, k, &mut out);
        close(&out, naive_product(&rounded, &x, &bias, k).into_iter(), 1e-5);
    }

    #[test]
    fn rows_are_added_whatever_part_they_are_in(width in 1..50_usize, rows in 1..600_usize, seed: u32) {
        let (x, y) = (numbers(rows * width, seed), numbers(width, seed ^ 1));
        let mut sum = x.clone();
        add(&mut sum, &y);
        prop_assert!(sum.iter().enumerate().all(|(i, &value)| value == x[i] + y[i % width]));
    }

    #[test]
    fn norms_of_any_width(width in 1..200_usize, rows in 1..5_usize, seed: u32) {
        let (x, scale, shift) = (numbers(rows * width, seed), numbers(width, seed ^ 1), numbers(width, seed ^ 2));
        let expected = x.chunks_exact(width).flat_map(|row| {
            let mean = row.iter().copied().map(f64::from).sum::<f64>() / width as f64;
            let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / width as f64;
            let normed = row.iter().map(move |&x| (f64::from(x) - mean) / (variance + 1e-3).sqrt());
            normed.zip(scale.iter().zip(&shift)).map(|(x, (a, b))| x * f64::from(*a) + f64::from(*b)).collect::<Vec<_>>()
        });
        let mut out = vec![f32::NAN; x.len()];
        layer_norm(&x, &scale, &shift, 1e-3, &mut out);
        close(&out, expected, 1e-4);
    }
}

#[test]
fn exp_is_exact_to_a_few_units() {
    for i in -87_000..=88_000 {
        let x = i as f32 / 1000.0;
        let expected = f64::from(x).exp();
        for found in [exp::<true>(x), exp::<false>(x)] {
            assert!((f64::from(found) / expected - 1.0).abs() < 3e-7, "exp({x}) = {found}");
        }
    }
    assert!(exp::<false>(-1e30) < 1e-37 && exp::<false>(1e30).is_finite() && exp::<false>(f32::NAN).is_nan());
}

#[test]
fn activations_are_their_formulas() {
    let x: Vec<f32> = (-1200..1200).map(|i| i as f32 / 100.0).collect();
    let formula = |f: &dyn Fn(f64) -> f64| x.iter().map(|&x| f(f64::from(x))).collect::<Vec<f64>>();
    let mut found = x.clone();
    gelu_new(&mut found);
    let gelu = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh());
    close(&found, formula(&gelu).into_iter(), 1e-6);
    let mut found = x.clone();
    silu(&mut found);
    close(&found, formula(&|x| x / (1.0 + (-x).exp())).into_iter(), 1e-6);
    let mut found = x.clone();
    map(&mut found, |x| x.max(0.0));
    close(&found, formula(&|x| x.max(0.0)).into_iter(), 0.0);
}

#[test]
fn softmax_sees_the_past_and_no_padding() {
    // Two sequences, one head, two queries after one cached key; the second sequence starts with padding.
    let mask = [true, true, true, false, true, true];
    let visible = Visible { past_len: 1, queries: 2, heads: 1, key_mask: Some(&mask) };
    let mut scores = [1.0, 1.0, 9.0, 0.0, 0.0, 0.0, 5.0, 1.0, 9.0, 5.0, 2.0, 2.0];
    causal_softmax(&mut scores, 3.0, visible);
    let third = 1.0 / 3.0;
    close(&scores, [0.5, 0.5, 0.0, third, third, third, 0.0, 1.0, 0.0, 0.0, 0.5, 0.5].into_iter(), 1e-6);
    // A query that may see nothing gives zeros, not NaN.
    let visible = Visible { past_len: 0, queries: 1, heads: 1, key_mask: Some(&[false]) };
    let mut scores = [4.0];
    causal_softmax(&mut scores, 1.0, visible);
    assert_eq!(scores, [0.0]);
    // What is broken stays visible.
    for mut scores in [[f32::NAN, f32::NAN], [1.0, f32::NAN]] {
        softmax(&mut scores, 1.0, None);
        assert!(scores[0].is_nan() && scores[1].is_nan());
    }
}

#[test]
fn attention_of_one_query_is_softmax_and_sum() {
    let (heads, d, capacity, keys) = (3, 20, 90, 77);
    let (q, k, v) = (numbers(heads * d, 1), numbers(heads * capacity * d, 2), numbers(heads * capacity * d, 3));
    let visible = Visible { past_len: keys - 1, queries: 1, heads, key_mask: None };
    let mut out = vec![f32::NAN; heads * d];
    attend_one(&q, &Cached { k: &k, v: &v, capacity, d }, 0.7, visible, &mut out);
    let expected = (0..heads).flat_map(|head| {
        let at = |s: usize| (head * capacity + s) * d;
        let scores: Vec<f64> = (0..keys)
            .map(|s| (0.7 * naive_product(&k[at(s)..at(s) + d], &q[head * d..(head + 1) * d], &[], d)[0]).exp())
            .collect();
        let total: f64 = scores.iter().sum();
        (0..d).map(|i| (0..keys).map(|s| scores[s] / total * f64::from(v[at(s) + i])).sum()).collect::<Vec<f64>>()
    });
    close(&out, expected, 1e-5);
}
