use proptest::prelude::*;
use quantlab_kernels::{LARGEST, round_to_int8};

use super::*;
use crate::quant::{Int8Rows, int8_matmul_reference};

fn quantized(scale: &ActivationScale, weights: &[f32], columns: usize) -> Result<Int8Rows> {
    let (mut values, mut scb) = (vec![0; weights.len()], vec![0.0; weights.len() / columns]);
    scale.quantize_weights(weights, columns, &mut values, &mut scb)?;
    Int8Rows::new(values, scb, columns)
}

#[test]
fn a_channel_that_was_always_zero_stays_zero() {
    let scale = ActivationScale::PerChannel(vec![1.0, 0.0]);
    assert_eq!(scale.factors(2), [1.0, 0.0]);
    assert_eq!(scale.range(), (0.0, 1.0));
    let weights = quantized(&scale, &[2.0, 100.0], 2).unwrap();
    assert_eq!((weights.values(), weights.scb()), (&[127, 0][..], &[2.0][..]));
}

#[test]
fn scales_that_do_not_fit_are_refused() {
    let refused = |scale: ActivationScale| quantized(&scale, &[1.0; 6], 3).unwrap_err().to_string();
    assert!(refused(ActivationScale::PerChannel(vec![1.0; 2])).contains("2 scales per channel for 3 channels"));
    assert!(refused(ActivationScale::PerTensor(f32::NAN)).contains("scale 0 of the inputs is NaN"));
    assert!(refused(ActivationScale::PerChannel(vec![1.0, -2.0, 1.0])).contains("scale 1 of the inputs is -2"));
    for scale in [ActivationScale::PerTensor(1.0), ActivationScale::PerChannel(vec![1.0; 2])] {
        assert!(quantized(&scale, &[1.0, f32::NAN], 2).unwrap_err().to_string().contains("weight 1 is NaN"));
    }
}

proptest! {
    #[test]
    fn both_granularities_err_by_the_steps_of_inputs_and_weights(
        inputs in prop::collection::vec(-1.0..1.0_f32, 3 * 16),
        weights in prop::collection::vec(-1.0..1.0_f32, 5 * 16),
    ) {
        let channels = (0..16).map(|channel| {
            inputs[channel..].iter().step_by(16).fold(0.0_f32, |largest, input| largest.max(input.abs())) / LARGEST
        });
        for scale in [ActivationScale::PerTensor(1.0 / LARGEST), ActivationScale::PerChannel(channels.collect())] {
            let rows = quantized(&scale, &weights, 16).unwrap();
            let factors = scale.factors(16);
            let value = |(input, factor): (&f32, &f32)| round_to_int8((input * factor).clamp(-LARGEST, LARGEST));
            let values: Vec<i8> = inputs.iter().zip(factors.iter().cycle()).map(value).collect();
            let products = int8_matmul_reference(&values, rows.values(), 16).unwrap();
            for (i, &product) in products.iter().enumerate() {
                let found = product as f32 * (rows.scb()[i % 5] / LARGEST * scale.of_products());
                let (input, row) = (&inputs[i / 5 * 16..][..16], &weights[i % 5 * 16..][..16]);
                let exact: f32 = input.iter().zip(row).map(|(a, b)| a * b).sum();
                // Inputs and weights err by half a step of at most 1 / 127 each, in 16 products.
                prop_assert!((found - exact).abs() <= 16.0 * (0.51 / 127.0) * 2.0, "{} {}", found, exact);
            }
        }
    }
}
