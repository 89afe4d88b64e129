use half::f16;
use proptest::prelude::*;

use super::*;

const P99: CalibrationMethod = CalibrationMethod::Percentile(99.0);

/// Scales of one layer after these batches of tokens of `channels` inputs.
fn calibrate(method: CalibrationMethod, granularity: Granularity, batches: &[&[f32]], channels: usize) -> Calibration {
    let mut calibrator = Calibrator::new(method, granularity).unwrap();
    batches.iter().for_each(|batch| calibrator.observe("layer", batch, channels).unwrap());
    calibrator.finish().unwrap()
}

#[test]
fn the_absolute_maximum_per_tensor_and_per_channel() {
    let batches: [&[f32]; 2] = [&[1.0, -254.0, 3.0, 4.0], &[-12.7, 0.0]];
    let tensor = calibrate(CalibrationMethod::AbsMax, Granularity::PerTensor, &batches, 2);
    assert_eq!(*tensor.scale("layer").unwrap(), ActivationScale::PerTensor(2.0));
    let channel = calibrate(CalibrationMethod::AbsMax, Granularity::PerChannel, &batches, 2);
    assert_eq!(*channel.scale("layer").unwrap(), ActivationScale::PerChannel(vec![12.7 / 127.0, 2.0]));
    for layer in [&tensor.layers()[0], &channel.layers()[0]] {
        assert_eq!((layer.tokens, layer.channels, layer.absmax, layer.clipped), (3, 2, 254.0, 0.0));
    }
}

#[test]
fn a_percentile_leaves_rare_outliers_out() {
    let mut inputs: Vec<f32> = (0..1000).map(|i| (i % 100) as f32 / 100.0).collect();
    inputs[500] = 5.0;
    let calibration = calibrate(P99, Granularity::PerTensor, &[&inputs], 10);
    let layer = &calibration.layers()[0];
    let end = layer.scale.range().1 * LARGEST;
    assert!((0.98..=0.995).contains(&end), "{end}");
    assert!(layer.clipped > 0.0 && layer.clipped <= 0.01, "{}", layer.clipped);
    assert_eq!(layer.absmax, 5.0);
    // The channel of the outlier has no more of others than a percent allows.
    let calibration = calibrate(P99, Granularity::PerChannel, &[&inputs], 10);
    let (low, high) = calibration.scale("layer").unwrap().range();
    assert!(high * LARGEST < 1.0 && low > 0.0, "{low} {high}");
}

#[test]
fn few_inputs_are_not_clipped_by_a_percentile() {
    for granularity in [Granularity::PerTensor, Granularity::PerChannel] {
        let calibration = calibrate(P99, granularity, &[&[1.0, 2.0, -3.0, 127.0]], 1);
        assert_eq!(calibration.scale("layer").unwrap().range(), (1.0, 1.0));
    }
}

#[test]
fn silent_layers_have_a_scale_of_zero() {
    for method in [CalibrationMethod::AbsMax, P99] {
        let calibration = calibrate(method, Granularity::PerTensor, &[&[0.0; 8]], 4);
        assert_eq!(*calibration.scale("layer").unwrap(), ActivationScale::PerTensor(0.0));
    }
}

#[test]
fn layers_keep_their_order_and_are_told_apart() {
    let mut calibrator = Calibrator::new(CalibrationMethod::AbsMax, Granularity::PerTensor).unwrap();
    for (layer, input) in [("h.10", 1.0), ("h.2", 2.0), ("h.10", 127.0)] {
        calibrator.observe(layer, &[f16::from_f32(input)], 1).unwrap();
    }
    let calibration = calibrator.finish().unwrap();
    let names: Vec<&str> = calibration.layers().iter().map(|layer| layer.layer.as_str()).collect();
    assert_eq!(names, ["h.10", "h.2"]);
    assert_eq!(calibration.scale("h.10").unwrap().range().0, 1.0);
    let error = calibration.scale("lm_head").unwrap_err();
    assert!(error.to_string().contains("`lm_head`"), "{error}");
}

#[test]
fn what_cannot_be_calibrated_is_refused_and_not_counted() {
    for percent in [0.0, -1.0, 100.1, f64::NAN] {
        assert!(Calibrator::new(CalibrationMethod::Percentile(percent), Granularity::PerTensor).is_err());
    }
    let mut calibrator = Calibrator::new(P99, Granularity::PerChannel).unwrap();
    let refused = |calibrator: &mut Calibrator, inputs: &[f32], channels| {
        calibrator.observe("h.0.c_fc", inputs, channels).unwrap_err().to_string()
    };
    assert!(refused(&mut calibrator, &[], 3).contains("h.0.c_fc: 0 inputs in rows of 3"));
    assert!(refused(&mut calibrator, &[1.0, f32::NAN], 2).contains("h.0.c_fc: input 1 is NaN"));
    assert!(calibrator.clone().finish().unwrap_err().to_string().contains("no layer was observed"));
    calibrator.observe("h.0.c_fc", &[1.0_f32; 4], 2).unwrap();
    assert!(refused(&mut calibrator, &[1.0; 3], 3).contains("3 inputs for each token, but 2 before"));
    assert_eq!(calibrator.finish().unwrap().layers()[0].tokens, 2);
}

proptest! {
    #[test]
    fn batches_give_what_their_inputs_give_at_once(
        inputs in prop::collection::vec(-100.0..100.0_f32, 3..90),
        cut in 0..30_usize,
        percent in 50.0..=100.0_f64,
    ) {
        let inputs = &inputs[..inputs.len() / 3 * 3];
        let (first, second) = inputs.split_at((cut * 3).min(inputs.len() - 3));
        let batches: Vec<&[f32]> = [first, second].into_iter().filter(|batch| !batch.is_empty()).collect();
        for method in [CalibrationMethod::AbsMax, CalibrationMethod::Percentile(percent)] {
            for granularity in [Granularity::PerTensor, Granularity::PerChannel] {
                let whole = calibrate(method, granularity, &[inputs], 3);
                prop_assert_eq!(&whole, &calibrate(method, granularity, &batches, 3));
                prop_assert!(whole.layers()[0].clipped <= (100.0 - percent) / 100.0);
            }
        }
    }
}
