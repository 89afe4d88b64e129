//! Quantized layers: made from full precision while they are read, or read as bitsandbytes saved them.

use std::sync::Mutex;

use super::checkpoint;
use super::stored::{FourBitMatrix, Int8Matrix, Stored};
use crate::error::{Error, Result};
use crate::model::cpu;
use crate::model::{Precision, Weights};
use crate::quant::{
    Absmax, FourBitOptions, Int8Rows, LayerFormat, NestedAbsmax, Quantized4Bit, quantize_4bit_blocks,
    quantize_rows_int8,
};

/// A layer of `n` outputs and `k` inputs whose weight is called `name`; in full precision it may be stored
/// `transposed`, as (k, n). A layer that was `saved` quantized is always (n, k).
///
/// # Errors
/// As [`Weights::read`]; weights that are not finite; a saved state that contradicts itself.
pub(super) fn load<T>(
    weights: &Weights,
    name: &str,
    (n, k): (usize, usize),
    transposed: bool,
    format: LayerFormat,
    (dtype, saved): (Precision, bool),
) -> Result<Stored<T>> {
    if saved {
        return match format {
            LayerFormat::FourBit(_) => checkpoint::four_bit(weights, name, (n, k)),
            LayerFormat::Int8 { threshold } => checkpoint::int8(weights, name, (n, k), threshold),
        };
    }
    match format {
        LayerFormat::FourBit(options) => {
            let numbers = read(weights, name, (n, k), transposed, dtype)?;
            let quantized =
                four_bit(&numbers, (n, k), options, dtype).map_err(|error| place(&numbers, name, k, error))?;
            Ok(Stored::FourBit(FourBitMatrix::new(quantized)))
        }
        LayerFormat::Int8 { threshold } => {
            let numbers = read(weights, name, (n, k), transposed, dtype)?;
            let rows = int8(&numbers, k).map_err(|error| place(&numbers, name, k, error))?;
            Ok(Stored::Int8(Int8Matrix::new(rows, threshold)))
        }
    }
}

/// The weights of a layer in float32, for as long as it takes to quantize them; rounded to the precision of
/// the model first, as transformers does.
fn read(weights: &Weights, name: &str, (n, k): (usize, usize), transposed: bool, dtype: Precision) -> Result<Vec<f32>> {
    let mut numbers = weights.matrix(name, (n, k), transposed)?;
    if dtype == Precision::BFloat16 {
        cpu::shares().split_mut(&mut numbers, 1, 4, &|_, part| {
            part.iter_mut().for_each(|number| *number = half::bf16::from_f32(*number).to_f32());
        });
    }
    Ok(numbers)
}

/// Says where in the tensor the number is that cannot be quantized: the parts that threads quantize count
/// from their own beginnings.
fn place(numbers: &[f32], name: &str, k: usize, error: Error) -> Error {
    let unfit = |number: &f32| !number.is_finite() || number.abs() > f32::from(half::f16::MAX);
    match numbers.iter().position(unfit) {
        Some(index) => {
            let (row, column, number) = (index / k, index % k, numbers[index]);
            Error::format(format!("tensor `{name}`: the weight of output {row} and input {column} is {number}"))
                .hint("NaN and infinity have no int8 or 4-bit form, and int8 has none beyond float16's 65,504")
        }
        None => error,
    }
}

/// Weights that a thread quantizes at once: a multiple of every block size.
const PART: usize = 1 << 16;

fn four_bit(
    numbers: &[f32],
    (n, k): (usize, usize),
    options: FourBitOptions,
    dtype: Precision,
) -> Result<Quantized4Bit> {
    let FourBitOptions { quant_type, blocksize, double_quant } = options;
    let mut packed = vec![0_u8; numbers.len().div_ceil(2)];
    let mut absmax = vec![0.0_f32; numbers.len().div_ceil(blocksize)];
    let outputs = packed.chunks_mut(PART / 2).zip(absmax.chunks_mut(PART / blocksize));
    in_parts(numbers.chunks(PART).zip(outputs), |(numbers, (packed, absmax))| {
        quantize_4bit_blocks(quant_type, blocksize, numbers, packed, absmax)
    })?;
    let absmax = match double_quant {
        true => Absmax::Nested(NestedAbsmax::quantize(&absmax)?),
        false => Absmax::Float32(absmax),
    };
    Quantized4Bit::new(quant_type, blocksize, &[n, k], dtype, packed, absmax)
}

fn int8(numbers: &[f32], k: usize) -> Result<Int8Rows> {
    let rows = (PART / k).max(1);
    let mut values = vec![0_i8; numbers.len()];
    let mut scb = vec![0.0_f32; numbers.len() / k];
    let outputs = values.chunks_mut(rows * k).zip(scb.chunks_mut(rows));
    in_parts(numbers.chunks(rows * k).zip(outputs), |(numbers, (values, scb))| {
        // As bitsandbytes does: float16 first.
        let narrow: Vec<f32> = numbers.iter().map(|&number| half::f16::from_f32(number).to_f32()).collect();
        quantize_rows_int8(&narrow, k, values, scb)
    })?;
    Int8Rows::new(values, scb, k)
}

/// Runs `run` on every part, shared among the threads; the first error in order is returned.
fn in_parts<P: Send>(parts: impl Iterator<Item = P>, run: impl Fn(P) -> Result<()> + Sync) -> Result<()> {
    let parts: Vec<Mutex<Option<P>>> = parts.map(|part| Mutex::new(Some(part))).collect();
    let mut results: Vec<Result<()>> = parts.iter().map(|_| Ok(())).collect();
    cpu::shares().split_mut(&mut results, 1, PART, &|first, results| {
        for (index, result) in (first..).zip(results) {
            // Each part is taken once; the lock only proves that to rustc.
            if let Some(part) = parts[index].lock().ok().and_then(|mut part| part.take()) {
                *result = run(part);
            }
        }
    });
    results.into_iter().collect()
}
