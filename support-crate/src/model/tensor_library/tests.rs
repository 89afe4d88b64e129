//! Operations of the libraries on quantized weights against the kernels.

use quantlab_kernels::{Compute, Epilogue, Matrix, Packed4Bit, matmul, thread_scope};

use super::*;
use crate::model::Device;
use crate::model::quantized::Int8Matrix;
use crate::model::test_numbers::numbers;
use crate::quant::{AffineInt4, FourBit, FourBitOptions, Int8Rows, Quantized4Bit};

const N: usize = 7;
const K: usize = 45;

fn dequantized<L: Operations>(library: &L, matrix: Packed4Bit<'_>, shape: [usize; 2]) -> Vec<f32> {
    let tensors = FourBitTensors::new(library, matrix, shape).unwrap();
    library.values(&library.dequantize_4bit(&tensors).unwrap()).unwrap()
}

#[test]
fn every_code_is_found_in_blocks_that_cross_rows() {
    for quant_type in FourBit::ALL {
        for double_quant in [false, true] {
            let options = FourBitOptions { quant_type, blocksize: 32, double_quant };
            let quantized = Quantized4Bit::quantize(&numbers(N * K, 1), &[N, K], options).unwrap();
            let matrix = Packed4Bit {
                packed: quantized.packed(),
                absmax: &quantized.absmax().dequantize(),
                minimum: None,
                code: quant_type.codebook(),
                blocksize: 32,
                columns: None,
                compute: Compute::Float32,
            };
            is_dequantized(matrix, [N, K], &quantized.dequantize::<f32>());
        }
    }
}

#[test]
fn groups_with_zero_points_are_found() {
    let quantized = AffineInt4::quantize(&numbers(N * 64, 5), 64, 32).unwrap();
    let matrix = Packed4Bit {
        packed: quantized.packed(),
        absmax: quantized.scales(),
        minimum: Some(quantized.minima()),
        code: &AffineInt4::CODES,
        blocksize: 32,
        columns: None,
        compute: Compute::Float32,
    };
    is_dequantized(matrix, [N, 64], &quantized.dequantize());
}

fn is_dequantized(matrix: Packed4Bit<'_>, shape: [usize; 2], expected: &[f32]) {
    let candle = Candle::new(Device::Cpu, Precision::Float32).unwrap();
    let torch = Torch::new(Device::Cpu, Precision::Float32).unwrap();
    assert_eq!(dequantized(&candle, matrix, shape), expected);
    assert_eq!(dequantized(&torch, matrix, shape), expected);
}

fn product<L: Operations>(library: &L, x: &[f32], rows: &Int8Rows, threshold: f32, bias: &[f32]) -> Vec<f32> {
    let weight = Int8Tensors::new(library, rows, threshold).unwrap();
    let [x, bias] = [(x, vec![x.len() / K, K]), (bias, vec![N])].map(|(x, shape)| library.numbers(x, &shape).unwrap());
    library.values(&library.linear_int8(&x, &weight, Some(&bias)).unwrap()).unwrap()
}

/// Ordinary rows; rows of zeros; too small for a factor; with an outlier; with NaN or infinity.
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
        let matrix = Int8Matrix::new(rows.clone(), threshold);
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
