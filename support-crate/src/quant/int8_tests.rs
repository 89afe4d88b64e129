use half::f16;
use proptest::prelude::*;
use quantlab_kernels::LARGEST;

use super::*;

#[test]
fn a_row_of_zeros_and_one_too_small_to_scale() {
    let quantized = Int8Rows::quantize(&[0.0_f32, -0.0, 1e-38, -1e-40, 2.0, -1.0], 2).unwrap();
    assert_eq!(quantized.scb(), [0.0, 1e-38, 2.0]);
    // 2 becomes 127, and -63.5 rounds to the even -64.
    assert_eq!(quantized.values(), [0, 0, 0, 0, 127, -64]);
    assert!(quantized.dequantize::<f16>().iter().all(|weight| weight.is_finite()));
}

#[test]
fn weights_and_lengths_that_are_no_matrix_are_refused() {
    let refused = |weights: &[f32], columns| Int8Rows::quantize(weights, columns).unwrap_err().to_string();
    assert!(refused(&[1.0; 5], 2).contains("5 weights in rows of 2"));
    assert!(refused(&[1.0; 5], 0).contains("rows of 0"));
    assert!(refused(&[], 4).contains("0 weights"));
    assert!(refused(&[1.0, 2.0, f32::NAN, 1.0], 2).contains("weight 2 is NaN"));
    assert!(quantize_rows_int8(&[1.0_f32; 4], 2, &mut [0; 4], &mut [0.0; 3]).is_err());
    assert!(quantize_rows_int8(&[1.0_f32; 4], 2, &mut [0; 3], &mut [0.0; 2]).is_err());
}

#[test]
fn scales_that_are_missing_or_wrong_are_refused() {
    let refused = |scb: &[f32]| Int8Rows::new(vec![1; 6], scb.to_vec(), 3).unwrap_err().to_string();
    assert!(refused(&[]).contains("have no scales (SCB) for their 2 rows"));
    assert!(refused(&[1.0]).contains("1 scales (SCB) for int8 weights of 2 rows"));
    assert!(refused(&[1.0; 3]).contains("3 scales (SCB)"));
    assert!(refused(&[1.0, f32::INFINITY]).contains("the scale (SCB) of row 1 is inf"));
    assert!(refused(&[-1.0, 1.0]).contains("the scale (SCB) of row 0 is -1"));
    let weights = Int8Rows::new(vec![127, -127, 0, 1, 2, 3], vec![1.0, 127.0], 3).unwrap();
    assert_eq!((weights.rows(), weights.columns(), weights.size_in_bytes()), (2, 3, 14));
}

#[test]
fn rows_that_might_overflow_are_refused() {
    let longest = vec![-128_i8; MAX_COLUMNS];
    assert_eq!(int8_matmul_reference(&longest, &longest, MAX_COLUMNS).unwrap(), [128 * 128 * MAX_COLUMNS as i32]);
    let longer = vec![1_i8; MAX_COLUMNS + 1];
    assert!(int8_matmul_reference(&longer, &longer, longer.len()).is_err());
    assert!(int8_matmul_reference(&[1; 4], &[1; 6], 4).is_err());
    assert!(int8_matmul_reference(&[1; 4], &[1; 6], 0).is_err());
}

#[test]
fn products_of_a_matrix_worked_by_hand() {
    assert_eq!(int8_matmul_reference(&[1, 2, -3, 4], &[5, 6, 7, -8, 0, 1], 2).unwrap(), [17, -9, 2, 9, -53, 4]);
}

proptest! {
    #[test]
    fn the_error_is_at_most_half_a_step(
        weights in prop::collection::vec(prop_oneof![-1.0..1.0_f32, -1e4..1e4_f32], 1..200),
        columns in 1..40_usize,
    ) {
        let weights = &weights[..weights.len() / columns * columns];
        prop_assume!(!weights.is_empty());
        let quantized = Int8Rows::quantize(weights, columns).unwrap();
        for (i, (weight, restored)) in weights.iter().zip(quantized.dequantize::<f32>()).enumerate() {
            let step = quantized.scb()[i / columns] / LARGEST;
            prop_assert!((weight - restored).abs() <= step * 0.5001, "{} {}", weight, restored);
        }
        prop_assert!(quantized.values().iter().all(|&value| value != i8::MIN));
    }

    #[test]
    fn rows_do_not_depend_on_each_other(weights in prop::collection::vec(-1.0..1.0_f32, 60), at in 0..12_usize) {
        let whole = Int8Rows::quantize(&weights, 5).unwrap();
        let (mut values, mut scb) = (vec![0; 60], vec![0.0; 12]);
        for (from, to) in [(0, at), (at, 12)].into_iter().filter(|(from, to)| from < to) {
            let part = from * 5..to * 5;
            quantize_rows_int8(&weights[part.clone()], 5, &mut values[part], &mut scb[from..to]).unwrap();
        }
        prop_assert_eq!(Int8Rows::new(values, scb, 5).unwrap(), whole);
    }

    #[test]
    fn products_are_exact(inputs in prop::collection::vec(any::<i8>(), 48), weights in prop::collection::vec(any::<i8>(), 64)) {
        let products = int8_matmul_reference(&inputs, &weights, 16).unwrap();
        for (i, product) in products.iter().enumerate() {
            let (token, row) = (i / 4, i % 4);
            let exact: f64 = (0..16).map(|k| f64::from(inputs[token * 16 + k]) * f64::from(weights[row * 16 + k])).sum();
            prop_assert_eq!(f64::from(*product), exact);
        }
    }
}
