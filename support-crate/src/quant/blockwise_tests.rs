use half::{bf16, f16};
use proptest::prelude::*;

use super::*;

/// Half of the widest gap between neighbours of a codebook, as a share of `absmax`.
fn half_step(quant_type: FourBit) -> f32 {
    let mut numbers = *quant_type.codebook();
    numbers.sort_by(f32::total_cmp);
    numbers.windows(2).map(|pair| (pair[1] - pair[0]) / 2.0).fold(0.0, f32::max)
}

fn quantize<T: Float>(quant_type: FourBit, blocksize: usize, weights: &[T]) -> (Vec<u8>, Vec<f32>) {
    let mut packed = vec![0xAA; weights.len().div_ceil(2)];
    let mut absmax = vec![-1.0; weights.len().div_ceil(blocksize)];
    quantize_4bit_blocks(quant_type, blocksize, weights, &mut packed, &mut absmax).unwrap();
    (packed, absmax)
}

fn dequantize<T: Float>(quant_type: FourBit, blocksize: usize, packed: &[u8], absmax: &[f32], count: usize) -> Vec<T> {
    let mut weights = vec![T::from_f32(f32::NAN); count];
    dequantize_4bit_blocks(quant_type, blocksize, packed, absmax, &mut weights).unwrap();
    weights
}

#[test]
fn blocksizes_are_powers_of_two_from_32_to_4096() {
    let allowed: Vec<usize> = (0..10_000).filter(|&size| check_blocksize(size).is_ok()).collect();
    assert_eq!(allowed, [32, 64, 128, 256, 512, 1024, 2048, 4096]);
    assert!(check_blocksize(100).unwrap_err().to_string().contains("the blocksize cannot be 100"));
}

#[test]
fn the_numbers_of_a_codebook_are_their_codes() {
    for quant_type in FourBit::ALL {
        let codebook = quant_type.codebook();
        let weights: Vec<f32> = codebook.iter().chain(codebook).map(|number| number * 3.0).collect();
        let (packed, absmax) = quantize(quant_type, 32, &weights);
        assert_eq!(absmax, [3.0]);
        let codes = packed.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        for (code, expected) in codes.zip((0..16).chain(0..16)) {
            assert_eq!(codebook[usize::from(code)], codebook[expected], "{quant_type}");
        }
    }
}

#[test]
fn an_odd_last_weight_takes_a_byte_with_the_code_of_zero() {
    for quant_type in FourBit::ALL {
        let (packed, absmax) = quantize(quant_type, 32, &[1.0_f32; 33]);
        assert_eq!(absmax, [1.0, 1.0]);
        let [one, zero] = [1.0, 0.0].map(|x| quant_type.codebook().iter().position(|&number| number == x).unwrap());
        assert_eq!(usize::from(packed[16]), one << 4 | zero);
    }
}

#[test]
fn zeros_stay_zeros() {
    for quant_type in FourBit::ALL {
        let (packed, absmax) = quantize(quant_type, 64, &[0.0_f32; 100]);
        assert_eq!(absmax, [0.0, MIN_DIVISOR]);
        assert!(dequantize::<f32>(quant_type, 64, &packed, &absmax, 100).iter().all(|&weight| weight == 0.0));
    }
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 63, 64, 99] {
            let mut weights = vec![1.0; 100];
            weights[at] = value;
            let error = quantize_4bit_blocks(FourBit::Nf4, 64, &weights, &mut [0; 50], &mut [0.0; 2]).unwrap_err();
            assert!(error.to_string().contains(&format!("weight {at} is {value}")), "{error}");
        }
    }
}

#[test]
fn lengths_that_do_not_belong_together_are_refused() {
    let weights = [1.0_f32; 65];
    let refused = |packed: usize, absmax: usize| {
        let (mut packed, mut absmax) = (vec![0; packed], vec![0.0; absmax]);
        let quantizing = quantize_4bit_blocks(FourBit::Nf4, 64, &weights, &mut packed, &mut absmax).unwrap_err();
        let back = dequantize_4bit_blocks(FourBit::Nf4, 64, &packed, &absmax, &mut weights.clone()).unwrap_err();
        assert_eq!(quantizing.to_string(), back.to_string());
        back.to_string()
    };
    assert!(refused(32, 2).contains("32 packed bytes for 65 weights of 4 bits; they take 33"));
    assert!(refused(33, 1).contains("1 absmax values for 65 weights in blocks of 64; there are 2 blocks"));
    assert!(refused(33, 3).contains("there are 2 blocks"));
}

fn a_type() -> impl Strategy<Value = FourBit> {
    prop::sample::select(&FourBit::ALL[..])
}

fn a_blocksize() -> impl Strategy<Value = usize> {
    (5..=12_u32).prop_map(|power| 1 << power)
}

fn some_weights() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(prop_oneof![-2.0..2.0_f32, -1e-3..1e-3_f32, Just(0.0), -1e30..1e30_f32], 1..500)
}

proptest! {
    #[test]
    fn the_error_is_at_most_half_a_step(quant_type in a_type(), blocksize in a_blocksize(), weights in some_weights()) {
        let (packed, absmax) = quantize(quant_type, blocksize, &weights);
        let restored: Vec<f32> = dequantize(quant_type, blocksize, &packed, &absmax, weights.len());
        for (i, (weight, restored)) in weights.iter().zip(restored).enumerate() {
            let limit = absmax[i / blocksize] * (half_step(quant_type) + 1e-6);
            prop_assert!((weight - restored).abs() <= limit, "{} {} {}", i, weight, restored);
        }
    }

    #[test]
    fn dequantized_weights_quantize_to_themselves(
        quant_type in a_type(),
        blocksize in a_blocksize(),
        weights in some_weights(),
    ) {
        let (packed, absmax) = quantize(quant_type, blocksize, &weights);
        let once: Vec<f32> = dequantize(quant_type, blocksize, &packed, &absmax, weights.len());
        // 1 and -1 stand in both codebooks, so that absmax comes back exactly.
        let (packed, absmax_again) = quantize(quant_type, blocksize, &once);
        let twice: Vec<f32> = dequantize(quant_type, blocksize, &packed, &absmax_again, weights.len());
        prop_assert_eq!(absmax_again, absmax);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn blocks_do_not_depend_on_each_other(quant_type in a_type(), weights in some_weights(), at in 0..500_usize) {
        let whole = quantize(quant_type, 32, &weights);
        let (first, second) = weights.split_at((at / 32 * 32).min(weights.len() / 32 * 32));
        let [first, second] = [first, second].map(|part| quantize(quant_type, 32, part));
        prop_assert_eq!((&[first.0, second.0].concat(), &[first.1, second.1].concat()), (&whole.0, &whole.1));
    }

    #[test]
    fn half_precision_is_what_it_is_in_float32(quant_type in a_type(), weights in prop::collection::vec(-9.0..9.0_f32, 1..200)) {
        let halves: Vec<f16> = weights.iter().map(|&weight| f16::from_f32(weight)).collect();
        let wide: Vec<f32> = halves.iter().map(|weight| weight.to_f32()).collect();
        let (packed, absmax) = quantize(quant_type, 64, &halves);
        prop_assert_eq!((&packed, &absmax), (&quantize(quant_type, 64, &wide).0, &quantize(quant_type, 64, &wide).1));
        let restored: Vec<f32> = dequantize(quant_type, 64, &packed, &absmax, weights.len());
        let rounded: Vec<bf16> = dequantize(quant_type, 64, &packed, &absmax, weights.len());
        prop_assert_eq!(rounded, restored.iter().map(|&weight| bf16::from_f32(weight)).collect::<Vec<_>>());
    }
}
