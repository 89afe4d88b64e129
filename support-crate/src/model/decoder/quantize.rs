//! Quantized layers: made from full precision while they are read, or read as bitsandbytes saved them.

use std::sync::Mutex;

use quantlab_kernels::thread_scope;

use super::checkpoint;
use crate::error::{Error, Result};
use crate::model::weights::UnreadTensor;
use crate::model::{Precision, Weights};
use crate::quant::{
    Absmax, FourBitOptions, Int8Rows, LayerCalibration, LayerFormat, NestedAbsmax, Quantized4Bit, StaticInt8,
    quantize_4bit_blocks,
};

/// A layer's weights before an engine takes them.
pub(super) enum Quantized {
    /// To be multiplied in this format.
    FourBit(Quantized4Bit, Precision),
    Int8(Int8Rows, Int8Activations),
}

/// How the inputs of an int8 layer become 8 bits.
#[derive(Debug)]
pub(in crate::model) enum Int8Activations {
    /// By each token's largest magnitude; columns that reach the threshold are kept out, unless it is 0.
    Dynamic { threshold: f32 },
    /// By a factor for each channel; the products of bytes stand for that many times `scale`.
    Static { factors: Vec<f32>, scale: f32 },
}

/// A layer of `n` outputs and `k` inputs whose weight is called `name`; in full precision it may be stored
/// `transposed`, as (k, n). A layer that was `saved` quantized is always (n, k). `numbers` is memory for the weights
/// in float32: where each layer gave back its own, the system's allocator would keep several.
///
/// # Errors
/// As [`UnreadTensor::read`]; weights that are not finite; a saved state that contradicts itself.
pub(super) fn load(
    weights: &Weights,
    name: &str,
    [n, k]: [usize; 2],
    transposed: bool,
    format: LayerFormat<'_>,
    (dtype, saved): (Precision, bool),
    numbers: &mut Vec<f32>,
) -> Result<Quantized> {
    if saved {
        let found = match format {
            LayerFormat::FourBit { compute_dtype, .. } => checkpoint::four_bit(weights, name, (n, k))
                .map(|quantized| Quantized::FourBit(quantized, compute_dtype)),
            LayerFormat::Int8 { threshold } => checkpoint::int8(weights, name, (n, k))
                .map(|rows| Quantized::Int8(rows, Int8Activations::Dynamic { threshold })),
            LayerFormat::StaticInt8(_) => Err(Error::input("a checkpoint cannot hold static int8")),
        };
        return found.map_err(Error::in_file);
    }
    read(weights, name, (n, k), transposed, dtype, numbers)?;
    match format {
        LayerFormat::FourBit { options, compute_dtype } => quantize_4bit(numbers, name, (n, k), options, dtype)
            .map(|quantized| Quantized::FourBit(quantized, compute_dtype)),
        LayerFormat::Int8 { threshold } => {
            quantize_int8(numbers, name, k).map(|rows| Quantized::Int8(rows, Int8Activations::Dynamic { threshold }))
        }
        LayerFormat::StaticInt8(LayerCalibration { channels, scale, .. }) => {
            if *channels != k {
                return Err(Error::input(format!("`calibration` has {channels} inputs for each token, the layer {k}"))
                    .hint("calibrate the model that is to be quantized"));
            }
            let quantize = |rows: &[f32]| Ok(StaticInt8::quantize(rows, k, scale.clone())?.into_weight());
            let rows = int8(numbers, k, quantize).map_err(|error| place(numbers, name, k, error))?;
            let (factors, scale) = (scale.factors(k), scale.of_products());
            Ok(Quantized::Int8(rows, Int8Activations::Static { factors, scale }))
        }
    }
}

/// The weights of a layer in float32, for as long as it takes to quantize them: rounded to the precision of
/// the model first, as transformers does.
fn read(
    weights: &Weights,
    name: &str,
    shape: (usize, usize),
    transposed: bool,
    dtype: Precision,
    numbers: &mut Vec<f32>,
) -> Result<()> {
    UnreadTensor { weights, name, shape: &[shape.0, shape.1], transposed }.read_into(numbers)?;
    let round: fn(f32) -> f32 = match dtype {
        Precision::Float32 => return Ok(()),
        Precision::BFloat16 => |number| half::bf16::from_f32(number).to_f32(),
        Precision::Float16 => |number| half::f16::from_f32(number).to_f32(),
    };
    thread_scope().split_mut(numbers, 1, 4, &|_, part| {
        part.iter_mut().for_each(|number| *number = round(*number));
    });
    Ok(())
}

/// Says where in the tensor the number that cannot be quantized is: the parts that threads quantize count
/// from where they begin.
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

/// The weights of `n` outputs and `k` inputs to 4 bits each; `name` is for messages.
///
/// # Errors
/// A weight that is NaN or infinite, by output and input. The caller has checked the block size.
pub(in crate::model) fn quantize_4bit(
    numbers: &[f32],
    name: &str,
    (n, k): (usize, usize),
    options: FourBitOptions,
    dtype: Precision,
) -> Result<Quantized4Bit> {
    four_bit(numbers, (n, k), options, dtype).map_err(|error| place(numbers, name, k, error))
}

/// The weights of `k` inputs to 8 bits each; `name` is for messages.
///
/// # Errors
/// A weight that is NaN or infinite, or would be in float16, by output and input; too many inputs.
pub(in crate::model) fn quantize_int8(numbers: &[f32], name: &str, k: usize) -> Result<Int8Rows> {
    // As bitsandbytes does: float16 first.
    let quantize = |rows: &[f32]| {
        let narrow: Vec<f32> = rows.iter().map(|&number| half::f16::from_f32(number).to_f32()).collect();
        Int8Rows::quantize(&narrow, k)
    };
    int8(numbers, k, quantize).map_err(|error| place(numbers, name, k, error))
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
    let absmax = if double_quant { Absmax::Nested(NestedAbsmax::quantize(&absmax)?) } else { Absmax::Float32(absmax) };
    Quantized4Bit::new(quant_type, blocksize, &[n, k], dtype, packed, absmax)
}

/// Rows of `k` numbers in 8 bits; `quantize` makes them of some rows.
fn int8(numbers: &[f32], k: usize, quantize: impl Fn(&[f32]) -> Result<Int8Rows> + Sync) -> Result<Int8Rows> {
    let rows = (PART / k).max(1);
    let mut values = vec![0_i8; numbers.len()];
    let mut scb = vec![0.0_f32; numbers.len() / k];
    let outputs = values.chunks_mut(rows * k).zip(scb.chunks_mut(rows));
    in_parts(numbers.chunks(rows * k).zip(outputs), |(numbers, (values, scb))| {
        let part = quantize(numbers)?;
        values.copy_from_slice(part.values());
        scb.copy_from_slice(part.scb());
        Ok(())
    })?;
    Int8Rows::new(values, scb, k)
}

/// Runs `run` on every part, shared among the threads; the first error in order is returned.
fn in_parts<P: Send>(parts: impl Iterator<Item = P>, run: impl Fn(P) -> Result<()> + Sync) -> Result<()> {
    let parts: Vec<Mutex<Option<P>>> = parts.map(|part| Mutex::new(Some(part))).collect();
    let mut results: Vec<Result<()>> = parts.iter().map(|_| Ok(())).collect();
    thread_scope().split_mut(&mut results, 1, PART, &|first, results| {
        for (index, result) in (first..).zip(results) {
            // Each part is taken once; the lock only proves that to rustc.
            if let Some(part) = parts[index].lock().ok().and_then(|mut part| part.take()) {
                *result = run(part);
            }
        }
    });
    results.into_iter().collect()
}
