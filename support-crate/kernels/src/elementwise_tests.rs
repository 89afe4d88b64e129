//! Each function against double precision, with every instruction set that this processor has.

use half::f16;
use proptest::prelude::*;

use super::*;
use crate::test_numbers::{assert_close, cases, numbers};

#[test]
fn activations_are_their_formulas() {
    let x: Vec<f32> = (-2000..2000).map(|i| i as f32 / 100.0).collect();
    type Formula = fn(f64) -> f64;
    let cases: [(Activation, Formula); 4] = [
        (Activation::GeluNew, |x| x / 2.0 * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh())),
        (Activation::Gelu, |x| x / 2.0 * (1.0 + libm::erf(x / 2.0_f64.sqrt()))),
        (Activation::Relu, |x| x.max(0.0)),
        (Activation::Silu, |x| x / (1.0 + (-x).exp())),
    ];
    for (function, formula) in cases {
        let expected: Vec<f64> = x.iter().map(|&x| formula(f64::from(x))).collect();
        for isa in Isa::available() {
            let mut found = x.clone();
            activate_with(isa, &mut found, function);
            assert_close(&found, &expected, 1e-6);
        }
    }
}

#[test]
fn activations_keep_what_is_no_number() {
    let functions = [Activation::GeluNew, Activation::Gelu, Activation::Relu, Activation::Silu];
    for (isa, function) in Isa::available().into_iter().flat_map(|isa| functions.map(|function| (isa, function))) {
        let mut x = [f32::INFINITY, f32::NAN, 1e30];
        activate_with(isa, &mut x, function);
        assert_eq!((x[0], x[2]), (f32::INFINITY, 1e30), "{function:?}");
        assert!(x[1].is_nan(), "{function:?}");
    }
}

#[test]
fn soft_caps_are_their_formula_and_hold() {
    let x: Vec<f32> = (-2000..2000).map(|i| i as f32 / 10.0).chain([1e30, -1e30, f32::INFINITY]).collect();
    for cap in [0.5, 3.0, 50.0] {
        let expected: Vec<f64> = x.iter().map(|&x| f64::from(cap) * (f64::from(x) / f64::from(cap)).tanh()).collect();
        for isa in Isa::available() {
            let mut found = x.clone();
            soft_cap_with(isa, &mut found, cap);
            let error = |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs() / f64::from(cap);
            let worst = found.iter().zip(&expected).map(error).fold(0.0, f64::max);
            assert!(worst < 3e-7, "{isa}, cap {cap}: {worst}");
            let mut nan = [f32::NAN];
            soft_cap_with(isa, &mut nan, cap);
            assert!(nan[0].is_nan());
            // A cap that is far away changes next to nothing.
            let mut small = [0.3, -2.5, 40.0];
            soft_cap_with(isa, &mut small, cap * 1e8);
            assert_close(&small, &[0.3, -2.5, 40.0].map(|x: f32| f64::from(x)), 1e-6);
        }
    }
}

#[test]
fn float16_is_rounded_as_its_crate_does() {
    // All float16 numbers, the midpoints between each and the next, and the float32 numbers on both sides of each.
    let all = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32().to_bits());
    let x: Vec<f32> = all
        .flat_map(|bits| [0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF].map(|more| f32::from_bits(bits.wrapping_add(more))))
        .chain((0..1 << 16).map(|bits| f32::from_bits(bits << 16 | 0x8000)))
        .collect();
    for isa in Isa::available() {
        let mut out = vec![0.0; x.len()];
        round_to_f16_with(isa, &x, &mut out);
        let mut narrow = vec![f16::ZERO; x.len()];
        to_f16_with(isa, &x, &mut narrow);
        for ((x, out), narrow) in x.iter().zip(&out).zip(&narrow) {
            let expected = f16::from_f32(*x);
            if expected.is_nan() {
                assert!(out.is_nan() && narrow.is_nan(), "{isa}: {x:e} is {out:e} and {narrow:e}");
            } else {
                let found = (out.to_bits(), narrow.to_bits());
                assert_eq!(found, (expected.to_f32().to_bits(), expected.to_bits()), "{isa}: {x:e}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn norms_of_any_width(width in 1..300_usize, rows in 1..4_usize, seed: u32) {
        let (x, scale, shift) = (numbers(rows * width, seed), numbers(width, seed ^ 1), numbers(width, seed ^ 2));
        let less: Vec<f32> = scale.iter().map(|scale| scale - 0.5).collect();
        let row = |x: &[f32], centred: bool| -> Vec<f64> {
            let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let mean = if centred { x.iter().sum::<f64>() / width as f64 } else { 0.0 };
            let spread = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64 + 1e-2).sqrt();
            let scaled = x.iter().zip(&scale).map(|(x, scale)| (x - mean) / spread * f64::from(*scale));
            scaled.zip(&shift).map(|(x, shift)| if centred { x + f64::from(*shift) } else { x }).collect()
        };
        for centred in [true, false] {
            let expected: Vec<f64> = x.chunks_exact(width).flat_map(|x| row(x, centred)).collect();
            for isa in Isa::available() {
                let mut out = vec![0.0; x.len()];
                if centred {
                    layer_norm_with(isa, &x, &scale, &shift, 1e-2, &mut out);
                } else {
                    rms_norm_with(isa, &x, &less, 0.5, 1e-2, &mut out);
                }
                assert_close(&out, &expected, 1e-5);
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest(x: f32) {
        for isa in Isa::available() {
            let mut rounded = [bf16::ZERO; 17];
            round_to_bf16(isa, &[x; 17], &mut rounded);
            prop_assert!(rounded.iter().all(|rounded| rounded.to_bits() == bf16::from_f32(x).to_bits()));
        }
    }

    #[test]
    fn rotating_keeps_lengths_and_adds_up(half in 1..40_usize, angle in -3.0..3.0_f32, seed: u32) {
        let head = numbers(2 * half, seed);
        let turned = |head: &[f32], angle: f32| {
            let mut head = head.to_vec();
            rotate(&mut head, &vec![angle.cos(); half], &vec![angle.sin(); half]);
            head
        };
        let once: Vec<f64> = turned(&head, 2.0 * angle).into_iter().map(f64::from).collect();
        assert_close(&turned(&turned(&head, angle), angle), &once, 1e-5);
        let length = |head: &[f32]| head.iter().map(|x| x * x).sum::<f32>();
        prop_assert!((length(&turned(&head, angle)) - length(&head)).abs() < 1e-4 * length(&head).max(1.0));
    }
}
