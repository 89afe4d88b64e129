use proptest::prelude::*;

use super::*;

#[test]
fn inputs_beyond_the_range_are_clipped_and_halves_round_to_even() {
    let scale = ActivationScale::PerTensor(0.5);
    let values = scale.quantize(&[0.25_f32, 0.75, -0.25, 63.5, 1e30, -1e30], 3).unwrap();
    assert_eq!(values, [0, 2, 0, 127, 127, -127]);
    assert_eq!(scale.dequantize(&values, 3).unwrap(), [0.0, 1.0, 0.0, 63.5, 63.5, -63.5]);
}

#[test]
fn a_channel_that_was_always_zero_stays_zero() {
    let scale = ActivationScale::PerChannel(vec![1.0, 0.0]);
    assert_eq!(scale.quantize(&[5.0_f32, 5.0], 2).unwrap(), [5, 0]);
    assert_eq!(scale.range(), (0.0, 1.0));
    let layer = StaticInt8::quantize(&[2.0_f32, 100.0], 2, scale).unwrap();
    assert_eq!(layer.weight().values(), [127, 0]);
    assert_eq!(layer.linear_reference(&[5.0_f32, 5.0], None).unwrap(), [10.0]);
}

#[test]
fn scales_that_do_not_fit_are_refused() {
    let refused = |scale: ActivationScale| scale.quantize(&[1.0_f32; 6], 3).unwrap_err().to_string();
    assert!(refused(ActivationScale::PerChannel(vec![1.0; 2])).contains("2 scales per channel for 3 channels"));
    assert!(refused(ActivationScale::PerTensor(f32::NAN)).contains("scale 0 of the inputs is NaN"));
    assert!(refused(ActivationScale::PerChannel(vec![1.0, -2.0, 1.0])).contains("scale 1 of the inputs is -2"));
    let scale = ActivationScale::PerTensor(1.0);
    assert!(scale.quantize(&[1.0, f32::NAN], 2).unwrap_err().to_string().contains("input 1 is NaN"));
    assert!(StaticInt8::quantize(&[1.0, f32::NAN], 2, ActivationScale::PerChannel(vec![1.0; 2])).is_err());
    let layer = StaticInt8::quantize(&[1.0_f32; 4], 2, scale).unwrap();
    assert!(layer.linear_reference(&[1.0_f32; 2], Some(&[1.0])).is_err());
    assert!(layer.linear_reference(&[1.0_f32; 3], None).is_err());
}

proptest! {
    #[test]
    fn within_the_range_the_error_is_at_most_half_a_step(
        inputs in prop::collection::vec(-10.0..10.0_f32, 12),
        scales in prop::collection::vec(0.1..1.0_f32, 4),
    ) {
        for scale in [ActivationScale::PerTensor(scales[0]), ActivationScale::PerChannel(scales.clone())] {
            let restored = scale.dequantize(&scale.quantize(&inputs, 4).unwrap(), 4).unwrap();
            for ((input, restored), scale) in inputs.iter().zip(restored).zip(scale.of_columns(4).cycle_to(12)) {
                prop_assert!((input - restored).abs() <= scale * 0.5001 + (input.abs() - 127.0 * scale).max(0.0));
            }
        }
    }

    #[test]
    fn both_granularities_err_by_the_steps_of_inputs_and_weights(
        inputs in prop::collection::vec(-1.0..1.0_f32, 3 * 16),
        weights in prop::collection::vec(-1.0..1.0_f32, 5 * 16),
    ) {
        let channels = (0..16).map(|channel| {
            inputs[channel..].iter().step_by(16).fold(0.0_f32, |largest, input| largest.max(input.abs())) / LARGEST
        });
        for scale in [ActivationScale::PerTensor(1.0 / LARGEST), ActivationScale::PerChannel(channels.collect())] {
            let layer = StaticInt8::quantize(&weights, 16, scale).unwrap();
            let out = layer.linear_reference(&inputs, Some(&[1.0; 5])).unwrap();
            for (i, found) in out.iter().enumerate() {
                let (input, row) = (&inputs[i / 5 * 16..][..16], &weights[i % 5 * 16..][..16]);
                let exact: f32 = 1.0 + input.iter().zip(row).map(|(a, b)| a * b).sum::<f32>();
                // Inputs and weights err by half a step of at most 1 / 127 each, in 16 products.
                prop_assert!((found - exact).abs() <= 16.0 * (0.51 / 127.0) * 2.0, "{} {}", found, exact);
            }
        }
    }
}

trait CycleTo: Iterator<Item = f32> + Sized {
    fn cycle_to(self, count: usize) -> impl Iterator<Item = f32> {
        let once: Vec<f32> = self.collect();
        (0..count).map(move |i| once[i % once.len()])
    }
}

impl<I: Iterator<Item = f32>> CycleTo for I {}
