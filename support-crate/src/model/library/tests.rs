//! Operations of the libraries on quantized weights against the kernels.

use quantlab_kernels::{Epilogue, Matrix, matmul, thread_scope};

use super::*;
use crate::model::Device;
use crate::model::decoder::Int8Activations;
use crate::model::kernels::Int8Matrix;
use crate::model::test_numbers::numbers;
use crate::quant::{FourBit, FourBitOptions, Int8Rows, Quantized4Bit};

const N: usize = 7;
const K: usize = 45;

fn dequantized<L: Operations>(library: &L, quantized: &Quantized4Bit) -> Vec<f32> {
    let tensors = FourBitTensors::new(library, quantized).unwrap();
    library.values(&library.dequantize_4bit(&tensors).unwrap()).unwrap()
}

#[test]
fn every_code_is_found_in_blocks_that_cross_rows() {
    for quant_type in FourBit::ALL {
        for double_quant in [false, true] {
            let options = FourBitOptions { quant_type, blocksize: 32, double_quant };
            let quantized = Quantized4Bit::quantize(&numbers(N * K, 1), &[N, K], options).unwrap();
            let expected: Vec<f32> = quantized.dequantize();
            let candle = Candle::new(Device::Cpu, Precision::Float32).unwrap();
            let torch = Torch::new(Device::Cpu, Precision::Float32).unwrap();
            assert_eq!(dequantized(&candle, &quantized), expected);
            assert_eq!(dequantized(&torch, &quantized), expected);
        }
    }
}

fn product<L: Operations>(library: &L, x: &[f32], rows: &Int8Rows, threshold: f32, bias: &[f32]) -> Vec<f32> {
    let weight = Int8Tensors::new(library, rows, threshold).unwrap();
    let [x, bias] = [(x, vec![x.len() / K, K]), (bias, vec![N])].map(|(x, shape)| library.numbers(x, &shape).unwrap());
    library.values(&library.linear_int8(&x, &weight, Some(&bias)).unwrap()).unwrap()
}

/// Rows as usual; of zeros; too small for a factor; with an outlier; with what is no number.
#[test]
fn int8_of_any_row_is_that_of_the_kernels() {
    let mut x = numbers(6 * K, 2);
    x[K..2 * K].fill(0.0);
    x[2 * K..3 * K].fill(1e-38);
    x[3 * K + 4] = -6.5;
    x[4 * K + 9] = f32::NAN;
    x[5 * K + 11] = f32::INFINITY;
    let (rows, bias) = (Int8Rows::quantize(&numbers(N * K, 3), K).unwrap(), numbers(N, 4));
    for threshold in [0.0, 0.9, 6.0] {
        let matrix = Int8Matrix::new(rows.clone(), Int8Activations::Dynamic { threshold });
        let mut expected = vec![0.0; 6 * N];
        let epilogue = Epilogue { bias: Some(&bias), ..Epilogue::default() };
        matmul(&thread_scope(), &x, Matrix { weights: &matrix, n: N, k: K }, epilogue, &mut expected);
        let candle = Candle::new(Device::Cpu, Precision::Float32).unwrap();
        let torch = Torch::new(Device::Cpu, Precision::Float32).unwrap();
        let found = [product(&candle, &x, &rows, threshold, &bias), product(&torch, &x, &rows, threshold, &bias)];
        for found in found {
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let near = (found - expected).abs() < 1e-5;
                let same = if i / N < 4 { near } else { !found.is_finite() && !expected.is_finite() };
                assert!(same, "threshold {threshold}, row {}: {found} instead of {expected}", i / N);
            }
        }
    }
}
