//! Functions of rows of numbers.

use half::f16;
use proptest::prelude::*;
use quantlab_kernels::*;

use super::{apply, assert_close, cases, change, floats, length, outcome};

fn nll(logits: &[f32], token: u32) -> f64 {
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    sum.ln() - f64::from(logits[token as usize])
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn norms(rows in 0..4_usize, width in 0..80_usize, change in change(4), seed: u32) {
        let mut lengths = [rows * width, width, width, rows * width];
        apply(&mut lengths, change);
        let [x, scale, shift, out] = lengths.map(length);
        let is_whole = scale > 0 && x % scale == 0 && out == x;
        let (x, scale, shift, mut out) = (floats(x, seed), floats(scale, 1), floats(shift, 2), vec![f32::NAN; out]);
        let width = scale.len();
        let norm = |x: &[f32], centred: bool| -> Vec<f64> {
            let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let mean = if centred { x.iter().sum::<f64>() / width as f64 } else { 0.0 };
            let spread = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64 + 0.5).sqrt();
            // The other norm is asked for scales that are stored less 1.
            let offset = if centred { 0.0 } else { 1.0 };
            x.iter().zip(&scale).map(|(x, scale)| (x - mean) / spread * (f64::from(*scale) + offset)).collect()
        };
        let reasons = ["inputs: ", "outputs: ", "shifts: "];
        if outcome(is_whole, &reasons, || rms_norm(&x, &scale, 1.0, 0.5, &mut out)).is_some() {
            let expected: Vec<f64> = x.chunks_exact(width).flat_map(|x| norm(x, false)).collect();
            assert_close(&out, &expected, 1e-5);
        }
        let valid = is_whole && shift.len() == width;
        if outcome(valid, &reasons, || layer_norm(&x, &scale, &shift, 0.5, &mut out)).is_some() {
            let shifted = |(i, y): (usize, f64)| y + f64::from(shift[i % width]);
            let expected = x.chunks_exact(width).flat_map(|x| norm(x, true)).enumerate().map(shifted);
            assert_close(&out, &expected.collect::<Vec<_>>(), 1e-5);
        }
    }

    #[test]
    fn one_by_one(len in 0..200_usize, change in change(2), seed: u32) {
        let mut lengths = [len, len];
        apply(&mut lengths, change);
        let [a, b] = lengths.map(length);
        let (x, y) = (floats(a, seed), floats(b, seed ^ 1));
        let mut gate = x.clone();
        if outcome(a == b, &["factors: "], || multiply(&mut gate, &y)).is_some() {
            prop_assert!(gate.iter().zip(&x).zip(&y).all(|((found, x), y)| *found == x * y));
        }
        let mut rounded = vec![f32::NAN; b];
        if outcome(a == b, &["outputs: "], || round_to_f16(&x, &mut rounded)).is_some() {
            prop_assert_eq!(&rounded, &x, "float16 has them all");
        }
        let mut narrow = vec![f16::NAN; b];
        if outcome(a == b, &["outputs: "], || to_f16(&x, &mut narrow)).is_some() {
            prop_assert!(narrow.iter().zip(&x).all(|(narrow, x)| narrow.to_f32() == *x));
        }
    }

    #[test]
    fn rotations(half in 0..70_usize, change in change(3), seed: u32) {
        let mut lengths = [2 * half, half, half];
        apply(&mut lengths, change);
        let [head, cos, sin] = lengths.map(length);
        let valid = cos == sin && head == 2 * cos;
        let (mut head, cos, sin) = (floats(head, seed), floats(cos, 1), floats(sin, 2));
        let before = head.clone();
        if outcome(valid, &["sines: ", "head: "], || rotate(&mut head, &cos, &sin)).is_some() {
            for i in 0..cos.len() {
                let (a, b) = (before[i], before[i + cos.len()]);
                prop_assert_eq!(head[i], a * cos[i] - b * sin[i]);
                prop_assert_eq!(head[i + cos.len()], b * cos[i] + a * sin[i]);
            }
        }
    }

    #[test]
    fn likelihoods(len in 0..100_usize, token in prop_oneof![0..100_u32, Just(u32::MAX), Just(1 << 31)], seed: u32) {
        let logits = floats(len, seed);
        let found = outcome((token as usize) < len, &["token "], || negative_log_likelihood(&logits, token));
        if let Some(found) = found {
            prop_assert!((found - nll(&logits, token)).abs() < 1e-6);
        }
    }

    #[test]
    fn any_number_becomes_a_byte(bits: u32) {
        let x = f32::from_bits(bits);
        let factor = int8_factor(x);
        prop_assert!(factor == 0.0 || factor.is_finite());
        let byte = round_to_int8(x);
        if x.abs() < 127.5 {
            prop_assert_eq!(f32::from(byte), x.round_ties_even());
        }
    }
}
