use proptest::prelude::*;

use super::*;

#[test]
fn a_column_with_an_outlier_is_kept_apart_for_every_token() {
    let tokens = Int8Tokens::quantize(&[1.0_f32, -6.0, 2.0, 4.0, 5.0, -1.0], 3, 6.0).unwrap();
    assert_eq!(tokens.outlier_columns, [1]);
    // The 5 of the second token is no outlier itself and counts as its largest magnitude, as in bitsandbytes.
    assert_eq!(tokens.scales, [2.0, 5.0]);
    assert_eq!(tokens.values, [64, 0, 127, 102, 0, -25]);
}

#[test]
fn a_threshold_of_zero_means_dynamic_int8() {
    let tokens = Int8Tokens::quantize(&[1.0_f32, -100.0, 0.0, 0.0], 2, 0.0).unwrap();
    assert_eq!((tokens.outlier_columns, tokens.scales), (vec![], vec![100.0, 0.0]));
    assert_eq!(tokens.values, [1, -127, 0, 0]);
}

#[test]
fn outliers_only() {
    let weight = Int8Rows::quantize(&[0.5_f32, -1.0, 1.0, 0.25], 2).unwrap();
    let out = llm_int8_linear_reference(&[8.0_f32, -16.0], &weight, Some(&[1.0, 2.0]), 6.0).unwrap();
    let [first, second] = [1.0 + 4.0 + 16.0, 2.0 + 8.0 - 4.0];
    assert!((out[0] - first).abs() < 0.05 && (out[1] - second).abs() < 0.05, "{out:?}");
}

#[test]
fn bad_arguments_are_named() {
    let weight = Int8Rows::quantize(&[0.5_f32; 6], 3).unwrap();
    let refused = |inputs: &[f32], bias: Option<&[f32]>, threshold| {
        llm_int8_linear_reference(inputs, &weight, bias, threshold).unwrap_err().to_string()
    };
    assert!(refused(&[1.0; 4], None, 6.0).contains("4 inputs in rows of 3"));
    assert!(refused(&[1.0; 3], Some(&[1.0; 3]), 6.0).contains("a bias of 3 numbers for weights of 2 rows"));
    assert!(refused(&[1.0; 3], None, -1.0).contains("threshold cannot be -1"));
    assert!(refused(&[1.0; 3], None, f32::NAN).contains("threshold cannot be NaN"));
    assert!(refused(&[1.0, 1.0, f32::INFINITY], None, 6.0).contains("input 2 is inf"));
}

/// The product in float64.
fn exact(inputs: &[f32], weights: &[f32], columns: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
    inputs.chunks(columns).flat_map(|input| weights.chunks(columns).map(move |row| dot(input, row))).collect()
}

proptest! {
    #[test]
    fn no_threshold_has_no_outliers(inputs in prop::collection::vec(-1e5..1e5_f32, 1..100)) {
        let tokens = Int8Tokens::quantize(&inputs, inputs.len(), 0.0).unwrap();
        prop_assert!(tokens.outlier_columns.is_empty());
        for (input, value) in inputs.iter().zip(tokens.values) {
            let step = tokens.scales[0] / 127.0;
            prop_assert!((input - f32::from(value) * step).abs() <= step * 0.5001);
        }
    }

    #[test]
    fn the_output_errs_by_the_steps_of_inputs_and_weights(
        inputs in prop::collection::vec(prop_oneof![9 => -3.0..3.0_f32, 1 => -60.0..60.0_f32], 4 * 24),
        weights in prop::collection::vec(-1.0..1.0_f32, 5 * 24),
        threshold in prop::sample::select(vec![0.0_f32, 6.0]),
    ) {
        let weight = Int8Rows::quantize(&weights, 24).unwrap();
        let tokens = Int8Tokens::quantize(&inputs, 24, threshold).unwrap();
        let out = llm_int8_linear_reference(&inputs, &weight, None, threshold).unwrap();
        for (i, (found, exact)) in out.iter().zip(exact(&inputs, &weights, 24)).enumerate() {
            let (token, row) = (i / 5, i % 5);
            let magnitude: f32 = inputs[token * 24..][..24].iter().map(|input| input.abs()).sum();
            // Half a step of the weights for each input, and half a step of the inputs for each weight.
            let [of_weights, of_inputs] = [weight.scb()[row], tokens.scales[token]].map(|scale| scale / 127.0 * 0.51);
            let limit = of_weights * magnitude + of_inputs * 24.0 + 1e-4;
            prop_assert!((f64::from(*found) - exact).abs() <= f64::from(limit), "{} {}", found, exact);
        }
    }

    #[test]
    fn tokens_alone_do_not_depend_on_each_other(inputs in prop::collection::vec(-9.0..9.0_f32, 3 * 8)) {
        let together = Int8Tokens::quantize(&inputs, 8, 0.0).unwrap();
        for (token, inputs) in inputs.chunks(8).enumerate() {
            let alone = Int8Tokens::quantize(inputs, 8, 0.0).unwrap();
            prop_assert_eq!(&alone.values, &together.values[token * 8..][..8]);
            prop_assert_eq!(alone.scales[0], together.scales[token]);
        }
    }
}
