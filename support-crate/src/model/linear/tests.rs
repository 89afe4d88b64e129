//! Both ways to compute, the kernels' and the operations', against the definition of each format.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use quantlab_kernels::PER_PRODUCT;
use tch::{Device, IndexOp};

use super::*;
use crate::model::test_numbers::numbers;
use crate::quant::{Absmax, FourBit, FourBitOptions, Int8Tokens, int8_matmul_reference};

const KINDS: [Kind; 3] = [Kind::Float, Kind::BFloat16, Kind::Half];

/// Half a step of each dtype, relative to the number.
fn half_step(kind: Kind) -> f64 {
    match kind {
        Kind::Float => 0.0,
        Kind::BFloat16 => 2.0_f64.powi(-8),
        _ => 2.0_f64.powi(-11),
    }
}

/// Numbers from -2 to 2 that repeat for the same seed.
fn random(shape: &[i64], seed: u32) -> Tensor {
    let numbers = numbers(shape.iter().product::<i64>() as usize, seed);
    Tensor::from_slice(&numbers).view(shape) * 2.0
}

fn values(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.to_kind(Kind::Double).flatten(0, -1)).unwrap()
}

fn four_bit(weight: &Tensor, bias: Option<&Tensor>, options: FourBitOptions) -> [Linear4bit; 2] {
    let layer = || Linear4bit::from_float(weight, bias, options).unwrap();
    [layer(), layer().in_tensors().unwrap()]
}

fn int8(weight: &Tensor, bias: Option<&Tensor>, threshold: f32) -> [Linear8bitLt; 2] {
    let layer = || Linear8bitLt::from_float(weight, bias, threshold).unwrap();
    [layer(), layer().in_tensors().unwrap()]
}

/// `found` is near `expected`, relative to the sizes of what was added up, with one rounding to its dtype.
fn assert_near(found: &Tensor, expected: &[f64], sizes: &[f64]) {
    assert_eq!(found.numel(), expected.len());
    let round = half_step(found.kind());
    for ((found, expected), size) in values(found).into_iter().zip(expected).zip(sizes) {
        let tolerance = 1e-6 * size + 1.01 * round * expected.abs() + 1e-7;
        assert!((found - expected).abs() <= tolerance, "{found} instead of {expected}, of {size}");
    }
}

/// Shapes of inputs but for the last dimension.
fn batch() -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![Just(vec![]), prop::collection::vec(1..4_i64, 1..4), Just(vec![40])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn four_bit_is_the_product_with_dequantized_weights(
        batch in batch(),
        (n, k) in (1..24_i64, prop_oneof![1..150_i64, Just(256)]),
        (quant_type, log_block, double_quant) in (prop::sample::select(&FourBit::ALL[..]), 5..9_u32, any::<bool>()),
        (kind, weight_kind) in (prop::sample::select(&KINDS[..]), prop::sample::select(&KINDS[..])),
        seed in 0..1000_u32,
    ) {
        let weight = random(&[n, k], seed).to_kind(weight_kind);
        let bias = (seed % 2 == 0).then(|| random(&[n], seed + 1));
        let input = random(&[&batch[..], &[k]].concat(), seed + 2).to_kind(kind);
        let options = FourBitOptions { quant_type, blocksize: 1 << log_block, double_quant };
        for (layer, by_kernels) in four_bit(&weight, bias.as_ref(), options).into_iter().zip([true, false]) {
            let exact: Vec<f32> = layer.quant_state().dequantize();
            let exact = Tensor::from_slice(&exact).view([n, k]);
            let rounded = by_kernels && kind == Kind::BFloat16;
            let plain = if rounded { exact.to_kind(kind) } else { exact.copy() }.to_kind(Kind::Double);
            let x = input.to_kind(Kind::Double);
            let zero = Tensor::zeros([n], (Kind::Double, Device::Cpu));
            let bias = bias.as_ref().map_or(zero, |bias| bias.to_kind(Kind::Double));
            let expected = x.matmul(&plain.tr()) + &bias;
            let sizes = x.abs().matmul(&plain.abs().tr()) + bias.abs();
            let found = layer.forward(&input).unwrap();
            prop_assert_eq!((found.kind(), found.size()), (kind, expected.size()));
            assert_near(&found, &values(&expected), &values(&sizes));
            let dequantized = layer.dequantize().unwrap();
            prop_assert_eq!((dequantized.kind(), dequantized.size()), (weight_kind, vec![n, k]));
            prop_assert_eq!(values(&dequantized), values(&exact.to_kind(weight_kind)));
        }
    }

    #[test]
    fn int8_is_the_product_of_bytes_and_of_outliers(
        batch in batch(),
        (n, k) in (1..24_i64, prop_oneof![1..150_i64, Just(256)]),
        threshold in prop_oneof![Just(0.0_f32), Just(1.5), Just(1.99), Just(100.0)],
        kind in prop::sample::select(&KINDS[..]),
        seed in 0..1000_u32,
    ) {
        let weight = random(&[n, k], seed);
        let bias = (seed % 2 == 0).then(|| random(&[n], seed + 1));
        let input = random(&[&batch[..], &[k]].concat(), seed + 2).to_kind(kind);
        for layer in int8(&weight, bias.as_ref(), threshold) {
            let outputs = llm_int8(&input, &layer);
            let expected: Vec<f64> = outputs.iter().map(|y| y.product + y.outliers + y.bias).collect();
            let sizes: Vec<f64> = outputs.iter().map(|y| y.product.abs() + y.outlier_size + y.bias.abs()).collect();
            let found = layer.forward(&input).unwrap();
            prop_assert_eq!((found.kind(), found.size()), (kind, [&batch[..], &[n]].concat()));
            assert_near(&found, &expected, &sizes);
        }
    }
}

/// One output of LLM.int8(), in float64.
struct Output {
    product: f64,
    bias: f64,
    outliers: f64,
    /// What the outliers' products are without their signs.
    outlier_size: f64,
}

/// LLM.int8() by its definition.
fn llm_int8(input: &Tensor, layer: &Linear8bitLt) -> Vec<Output> {
    let (n, k) = (layer.out_features(), layer.in_features());
    let x: Vec<f32> = Vec::try_from(input.to_kind(Kind::Float).flatten(0, -1)).unwrap();
    let narrow = |x: &f32| if layer.threshold() > 0.0 { half::f16::from_f32(*x).to_f32() } else { *x };
    let tokens = Int8Tokens::quantize(&x.iter().map(narrow).collect::<Vec<f32>>(), k, layer.threshold()).unwrap();
    let products = int8_matmul_reference(&tokens.values, layer.weight().values(), k).unwrap();
    let bias = layer.bias().unwrap().map_or(vec![0.0; n], |bias| values(&bias));
    let output = |(i, &product): (usize, &i32)| {
        let (token, row) = (i / n, i % n);
        let scb = f64::from(layer.scb()[row]);
        let weight = |column: usize| f64::from(layer.weight().values()[row * k + column]) * scb / 127.0;
        let kept = tokens.outlier_columns.iter().map(|&column| f64::from(x[token * k + column]) * weight(column));
        Output {
            product: f64::from(product) * f64::from(tokens.scales[token]) * scb * f64::from(PER_PRODUCT),
            bias: bias[row],
            outliers: kept.clone().sum(),
            outlier_size: kept.map(f64::abs).sum(),
        }
    };
    products.iter().enumerate().map(output).collect()
}

#[test]
fn a_bias_that_is_handed_out_is_a_copy() {
    let (weight, bias, input) = (random(&[5, 64], 1), random(&[5], 2), random(&[3, 64], 3));
    let spoil = |bias: Result<Option<Tensor>>| bias.unwrap().unwrap().fill_(f64::NAN).resize_([1 << 20]);
    for layer in four_bit(&weight, Some(&bias), FourBitOptions::default()) {
        let before = values(&layer.forward(&input).unwrap());
        let _ = spoil(layer.bias());
        assert_eq!(values(&layer.forward(&input).unwrap()), before);
    }
    for layer in int8(&weight, Some(&bias), 6.0) {
        let before = values(&layer.forward(&input).unwrap());
        let _ = spoil(layer.bias());
        assert_eq!(values(&layer.forward(&input).unwrap()), before);
    }
}

fn golden(file: &str) -> std::collections::HashMap<String, Tensor> {
    let root = std::env::var_os("QUANTLAB_GOLDEN").map_or_else(|| Path::new("tests/golden").to_owned(), PathBuf::from);
    Tensor::read_safetensors(root.join(file)).unwrap().into_iter().collect()
}

#[test]
fn four_bit_layers_of_bitsandbytes() {
    let tensors = golden("bnb_4bit.safetensors");
    let cases: Vec<&str> = tensors.keys().filter_map(|name| name.strip_suffix("/packed")).collect();
    let mut layers = 0;
    for case in cases {
        let mut parts = case.split('/');
        let weight = &tensors[&format!("{}/input", parts.next().unwrap())];
        if weight.dim() != 2 {
            continue;
        }
        let options = FourBitOptions {
            quant_type: parts.next().unwrap().parse().unwrap(),
            blocksize: parts.next().unwrap()[1..].parse().unwrap(),
            double_quant: parts.next() == Some("nested"),
        };
        for layer in four_bit(weight, None, options) {
            let state = layer.quant_state();
            let packed: Vec<u8> = Vec::try_from(&tensors[&format!("{case}/packed")].flatten(0, -1)).unwrap();
            assert!(state.packed() == packed, "{case}");
            let absmax = &tensors[&format!("{case}/absmax")];
            match state.absmax() {
                Absmax::Float32(found) => {
                    assert!(*found == Vec::<f32>::try_from(absmax).unwrap(), "{case}")
                }
                Absmax::Nested(found) => {
                    assert!(found.quantized() == Vec::<u8>::try_from(absmax).unwrap(), "{case}");
                }
            }
            // The rows of the identity bring each weight to light.
            let identity = Tensor::eye(weight.size()[1], (Kind::Float, Device::Cpu));
            let found = layer.forward(&identity).unwrap().tr();
            assert!(values(&found) == values(&Tensor::from_slice(&state.dequantize::<f32>())), "{case}");
            layers += 1;
        }
    }
    assert!(layers > 0);
}

/// Within two steps of float16 of what bitsandbytes rounds to it: the output, that without its outliers, and
/// the weights that outliers are multiplied with.
#[test]
fn int8_layers_of_bitsandbytes() {
    let tensors = golden("bnb_int8.safetensors");
    let cases: Vec<&str> = tensors.keys().filter_map(|name| name.strip_suffix("/weight_int8")).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let tensor = |name: &str| &tensors[&format!("{case}/{name}")];
        for layer in int8(tensor("weight"), Some(tensor("bias")), 6.0) {
            let found: Vec<f64> = layer.weight().values().iter().map(|&value| f64::from(value)).collect();
            assert!(found == values(tensor("weight_int8")), "{case}");
            assert!(layer.scb() == Vec::<f32>::try_from(tensor("weight_scale")).unwrap(), "{case}");
            let output = layer.forward(tensor("input")).unwrap();
            assert_eq!(output.kind(), Kind::Half);
            let exact = llm_int8(tensor("input"), &layer);
            for ((found, expected), exact) in values(&output).into_iter().zip(values(tensor("output"))).zip(exact) {
                let rounded = expected.abs().max((exact.product + exact.bias).abs()).max(exact.outlier_size);
                let step = 2.0_f64.powi(rounded.log2().floor() as i32 - 10);
                assert!((found - expected).abs() <= 2.0 * step, "{case}: {found} instead of {expected}");
            }
        }
    }
}

#[test]
fn views_give_the_same_as_copies() {
    let weight = random(&[64, 10], 1).tr();
    assert!(!weight.is_contiguous());
    let input = random(&[7, 3, 128], 2).i((1.., .., 5..69)).transpose(0, 1);
    for layer in four_bit(&weight, None, FourBitOptions::default()) {
        let copied = Linear4bit::from_float(&weight.contiguous(), None, FourBitOptions::default()).unwrap();
        assert_eq!(layer.quant_state(), copied.quant_state());
        assert_eq!(layer.forward(&input).unwrap(), layer.forward(&input.contiguous()).unwrap());
    }
}

/// A weight that wants a gradient, and one that is written to later, are what they were when they were quantized.
#[test]
fn layers_are_copies_without_gradients() {
    let (mut weight, mut bias) = (random(&[8, 64], 3).set_requires_grad(true), random(&[8], 4));
    let input = random(&[2, 64], 5).set_requires_grad(true);
    let layer = Linear4bit::from_float(&weight, Some(&bias), FourBitOptions::default()).unwrap();
    let before = layer.forward(&input).unwrap();
    assert!(!before.requires_grad());
    tch::no_grad(|| {
        let _ = weight.zero_();
        let _ = bias.zero_();
    });
    assert_eq!(layer.forward(&input).unwrap(), before);
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    let (weight, input) = (random(&[5, 70], 6), random(&[3, 70], 7));
    let _ = input.i((1, 9)).fill_(f64::NAN);
    let outputs = four_bit(&weight, None, FourBitOptions::default()).map(|layer| layer.forward(&input).unwrap());
    let outputs = outputs.into_iter().chain(int8(&weight, None, 6.0).map(|layer| layer.forward(&input).unwrap()));
    for output in outputs.chain(int8(&weight, None, 0.0).map(|layer| layer.forward(&input).unwrap())) {
        let nan: Vec<bool> = values(&output).iter().map(|x| x.is_nan()).collect();
        assert_eq!(nan, [[false; 5], [true; 5], [false; 5]].concat());
    }
}

#[test]
fn debug_is_one_line() {
    let weight = random(&[8, 64], 8);
    let bias = Tensor::zeros([8], (Kind::Half, Device::Cpu));
    let options = FourBitOptions { double_quant: true, ..FourBitOptions::default() };
    let layer = Linear4bit::from_float(&weight, Some(&bias), options).unwrap();
    let expected = "Linear4bit(in_features=64, out_features=8, bias=true, nf4, blocksize=64, double_quant, ";
    assert!(format!("{layer:?}").starts_with(expected), "{layer:?}");
    let layer = Linear8bitLt::from_float(&weight, Some(&bias), 6.0).unwrap();
    let expected = "Linear8bitLt(in_features=64, out_features=8, bias=true, int8, threshold=6, 576 bytes on Cpu)";
    assert_eq!(format!("{layer:?}"), expected);
}

#[test]
fn arguments_that_make_no_layer_are_refused_by_name() {
    let options = FourBitOptions::default();
    let expect = |error: Error, words: &[&str]| {
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    let good = random(&[4, 32], 9);
    let nan = random(&[4, 32], 9);
    let _ = nan.i((2, 5)).fill_(f64::NAN);
    let float = (Kind::Float, Device::Cpu);
    let weights: [(Tensor, &[&str]); 7] = [
        (random(&[32], 9), &["`weight`", "[32]", "not a matrix"]),
        (random(&[2, 4, 32], 9), &["`weight`", "[2, 4, 32]"]),
        (Tensor::zeros([0, 32], float), &["`weight`", "empty", "[0, 32]"]),
        (Tensor::new(), &["`weight`", "empty"]),
        (good.to_kind(Kind::Int64), &["`weight`", "Int64", "to_kind"]),
        (nan, &["`weight`", "output 2 and input 5 is NaN"]),
        (good.to_sparse(None, None::<&[i64]>, None), &["`weight`"]),
    ];
    for (weight, words) in &weights {
        expect(Linear4bit::from_float(weight, None, options).unwrap_err(), words);
        expect(Linear8bitLt::from_float(weight, None, 6.0).unwrap_err(), words);
    }
    let biases: [(Tensor, &[&str]); 3] = [
        (random(&[5], 9), &["`bias`", "[5]", "4 outputs"]),
        (random(&[4, 1], 9), &["`bias`", "[4, 1]"]),
        (Tensor::zeros([4], (Kind::Double, Device::Cpu)), &["`bias`", "Double"]),
    ];
    for (bias, words) in &biases {
        expect(Linear4bit::from_float(&good, Some(bias), options).unwrap_err(), words);
        expect(Linear8bitLt::from_float(&good, Some(bias), 6.0).unwrap_err(), words);
    }
    for blocksize in [0, 16, 48, 8192] {
        let options = FourBitOptions { blocksize, ..options };
        expect(Linear4bit::from_float(&good, None, options).unwrap_err(), &["blocksize", &blocksize.to_string()]);
    }
    for threshold in [-1.0, f32::NAN] {
        let error = Linear8bitLt::from_float(&good, None, threshold).unwrap_err();
        expect(error, &["threshold", &threshold.to_string()]);
    }
    let inputs: [(Tensor, &[&str]); 6] = [
        (random(&[2, 31], 9), &["`input`", "[2, 31]", "in_features, 32"]),
        (random(&[], 9), &["`input`", "[]"]),
        (Tensor::zeros([0, 32], float), &["`input`", "empty"]),
        (Tensor::new(), &["`input`", "empty"]),
        (Tensor::zeros([2, 32], (Kind::Double, Device::Cpu)), &["`input`", "Double"]),
        (Tensor::eye(32, float).to_sparse_csr(None), &["`input`"]),
    ];
    for (input, words) in &inputs {
        for layer in four_bit(&good, None, options) {
            expect(layer.forward(input).unwrap_err(), words);
        }
        for layer in int8(&good, None, 6.0) {
            expect(layer.forward(input).unwrap_err(), words);
        }
    }
}
