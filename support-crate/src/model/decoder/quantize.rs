//! Quantized layers: made from full precision while they are read, or read as bitsandbytes saved them.

use std::ops::Range;
use std::sync::Mutex;

use half::{bf16, f16};
use quantlab_kernels::{round_to_f16, thread_scope};

use super::checkpoint;
use crate::buffer::{Buffer, Plain, Pooled};
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::weights::UnreadTensor;
use crate::quant::{
    Absmax, FourBitOptions, Int8Rows, LayerCalibration, LayerFormat, NestedAbsmax, Quantized4Bit, StaticInt8,
    quantize_4bit_blocks, quantize_rows_int8,
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

/// Weights in full precision, row by row, that are to be quantized.
pub(in crate::model) enum FullPrecision<'a> {
    InMemory(&'a [f32]),
    /// Read some rows at a time, into `numbers`, and rounded to the precision of the model first, as transformers does.
    Unread {
        tensor: UnreadTensor<'a>,
        dtype: Precision,
        numbers: &'a mut Vec<f32>,
    },
}

/// A layer of `n` outputs and `k` inputs; in full precision its weight may be stored `transposed`, as (k, n). One that was
/// `saved` quantized is always (n, k). `numbers` is memory for weights in float32: where each layer gave back its own,
/// the system's allocator would keep several.
///
/// # Errors
/// As [`UnreadTensor::read`]; weights that are not finite; a saved state that contradicts itself.
pub(super) fn load(
    tensor: UnreadTensor<'_>,
    format: LayerFormat<'_>,
    (dtype, saved): (Precision, bool),
    numbers: &mut Vec<f32>,
) -> Result<Quantized> {
    let UnreadTensor { weights, name, shape, .. } = tensor;
    let (n, k) = (shape[0], shape[1]);
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
    tensor.check()?;
    let unread = FullPrecision::Unread { tensor, dtype, numbers };
    match format {
        LayerFormat::FourBit { options, compute_dtype } => quantize_4bit(unread, name, (n, k), options, dtype)
            .map(|quantized| Quantized::FourBit(quantized, compute_dtype)),
        LayerFormat::Int8 { threshold } => quantize_int8(unread, name, (n, k))
            .map(|rows| Quantized::Int8(rows, Int8Activations::Dynamic { threshold })),
        LayerFormat::StaticInt8(LayerCalibration { channels, scale, .. }) => {
            if *channels != k {
                return Err(Error::input(format!("`calibration` has {channels} inputs for each token, the layer {k}"))
                    .hint("calibrate the model that is to be quantized"));
            }
            let (values, scb) = in_parts(unread, name, (n, k), (1, k), |rows, values, scb| {
                let part = StaticInt8::quantize(rows, k, scale.clone())?.into_weight();
                values.copy_from_slice(part.values());
                scb.copy_from_slice(part.scb());
                Ok(())
            })?;
            let (factors, scale) = (scale.factors(k), scale.of_products());
            Ok(Quantized::Int8(Int8Rows::with_values(values, scb, k)?, Int8Activations::Static { factors, scale }))
        }
    }
}

/// The weights of `n` outputs and `k` inputs to 4 bits each; `name` is for messages.
///
/// # Errors
/// A weight that is NaN or infinite, by output and input. The caller has checked the block size.
pub(in crate::model) fn quantize_4bit(
    weights: FullPrecision<'_>,
    name: &str,
    (n, k): (usize, usize),
    options: FourBitOptions,
    dtype: Precision,
) -> Result<Quantized4Bit> {
    let FourBitOptions { quant_type, blocksize, double_quant } = options;
    let (packed, absmax) = in_parts(weights, name, (n, k), (2, blocksize), |numbers, packed, absmax| {
        quantize_4bit_blocks(quant_type, blocksize, numbers, packed, absmax)
    })?;
    let absmax = if double_quant { Absmax::Nested(NestedAbsmax::quantize(&absmax)?) } else { Absmax::Float32(absmax) };
    Quantized4Bit::with_packed(quant_type, blocksize, &[n, k], dtype, packed, absmax)
}

/// The weights of `n` outputs and `k` inputs to 8 bits each; `name` is for messages.
///
/// # Errors
/// A weight that is NaN or infinite, or would be in float16, by output and input; too many inputs.
pub(in crate::model) fn quantize_int8(
    weights: FullPrecision<'_>,
    name: &str,
    (n, k): (usize, usize),
) -> Result<Int8Rows> {
    let (values, scb) = in_parts(weights, name, (n, k), (1, k), |rows, values, scb| {
        // As bitsandbytes does: float16 first.
        let mut narrow = vec![0.0; rows.len()];
        round_to_f16(rows, &mut narrow);
        quantize_rows_int8(&narrow, k, values, scb)
    })?;
    Int8Rows::with_values(values, scb, k)
}

/// Rows that are read and quantized before the next are read: as many as the largest block has numbers, so that no
/// block goes on in the next.
const ROWS: usize = 4096;

/// About how many numbers a thread quantizes at once, a multiple of every block size.
const PART: usize = 1 << 16;

/// Quantizes weights (n, k) in parts, shared among threads: `quantize` makes bytes, each of `in_byte` numbers, and
/// scales, each for `in_block` numbers.
fn in_parts<B: Plain + Send>(
    mut weights: FullPrecision<'_>,
    name: &str,
    (n, k): (usize, usize),
    (in_byte, in_block): (usize, usize),
    quantize: impl Fn(&[f32], &mut [B], &mut [f32]) -> Result<()> + Sync,
) -> Result<(Buffer<B>, Vec<f32>)> {
    let part = (PART / in_block).max(1) * in_block;
    let mut bytes = Pooled::zeroed((n * k).div_ceil(in_byte))?;
    let mut scales = vec![0.0; (n * k).div_ceil(in_block)];
    let outputs = bytes.chunks_mut(ROWS * k / in_byte).zip(scales.chunks_mut(ROWS * k / in_block));
    for (first, (bytes, scales)) in (0..n).step_by(ROWS).zip(outputs) {
        let numbers = weights.rows(first..n.min(first + ROWS), k)?;
        let outputs = bytes.chunks_mut(part / in_byte).zip(scales.chunks_mut(part / in_block));
        for_each(numbers.chunks(part).zip(outputs), |(numbers, (bytes, scales))| quantize(numbers, bytes, scales))
            .map_err(|error| place(numbers, name, (first, k), error))?;
    }
    Ok((Buffer::Pooled(bytes), scales))
}

impl FullPrecision<'_> {
    /// Some rows of `k` numbers.
    fn rows(&mut self, rows: Range<usize>, k: usize) -> Result<&[f32]> {
        let (tensor, dtype, numbers) = match self {
            Self::InMemory(numbers) => return Ok(&numbers[rows.start * k..rows.end * k]),
            Self::Unread { tensor, dtype, numbers } => (tensor, dtype, numbers),
        };
        tensor.read_rows(rows, numbers)?;
        match dtype {
            Precision::Float32 => (),
            Precision::BFloat16 => round(numbers, |number| bf16::from_f32(number).to_f32()),
            Precision::Float16 => round(numbers, |number| f16::from_f32(number).to_f32()),
        }
        Ok(numbers)
    }
}

/// (Not by a function pointer: inlined, `nearest` becomes vector code.)
fn round(numbers: &mut [f32], nearest: impl Fn(f32) -> f32 + Sync) {
    thread_scope().split_mut(numbers, 1, 4, &|_, part| part.iter_mut().for_each(|number| *number = nearest(*number)));
}

/// Says where in the tensor the number that cannot be quantized is: `numbers` are rows of `k` from the row `first` on,
/// and the parts that threads quantize count from where they begin.
fn place(numbers: &[f32], name: &str, (first, k): (usize, usize), error: Error) -> Error {
    let unfit = |number: &f32| !number.is_finite() || number.abs() > f32::from(f16::MAX);
    match numbers.iter().position(unfit) {
        Some(index) => {
            let (row, column, number) = (first + index / k, index % k, numbers[index]);
            Error::format(format!("tensor `{name}`: the weight of output {row} and input {column} is {number}"))
                .hint("NaN and infinity have no int8 or 4-bit form, and int8 has none beyond float16's 65,504")
        }
        None => error,
    }
}

/// Runs `run` on every part, shared among the threads; the first error in order is returned.
fn for_each<P: Send>(parts: impl Iterator<Item = P>, run: impl Fn(P) -> Result<()> + Sync) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Weights;
    use crate::source::WeightSource;

    /// More rows than are read at once, and blocks that go on in the next row.
    const SHAPE: [usize; 2] = [ROWS + 100, 33];

    #[test]
    fn rows_that_are_read_in_parts_make_the_same() {
        let [n, k] = SHAPE;
        let weights = Weights::open(&WeightSource::Random { seed: 1 }, true).unwrap();
        let tensor = UnreadTensor { weights: &weights, name: "lm", shape: &SHAPE, transposed: false };
        let all = tensor.read::<f32>().unwrap();
        let narrow: Vec<f32> = all.iter().map(|&number| bf16::from_f32(number).to_f32()).collect();
        let mut memory = Vec::new();
        for (dtype, expected) in [(Precision::Float32, &*all), (Precision::BFloat16, &narrow)] {
            for blocksize in [64, 4096] {
                let options = FourBitOptions { blocksize, ..FourBitOptions::default() };
                let unread = FullPrecision::Unread { tensor, dtype, numbers: &mut memory };
                let made = quantize_4bit(unread, "lm", (n, k), options, dtype).unwrap();
                let mut packed = vec![0; (n * k).div_ceil(2)];
                let mut absmax = vec![0.0; (n * k).div_ceil(blocksize)];
                quantize_4bit_blocks(options.quant_type, blocksize, expected, &mut packed, &mut absmax).unwrap();
                assert_eq!(made.packed(), packed);
                assert_eq!(made.absmax(), &Absmax::Float32(absmax));
            }
            let unread = FullPrecision::Unread { tensor, dtype, numbers: &mut memory };
            let rows = quantize_int8(unread, "lm", (n, k)).unwrap();
            let half: Vec<f32> = expected.iter().map(|&number| f16::from_f32(number).to_f32()).collect();
            assert_eq!(rows, Int8Rows::quantize(&half, k).unwrap());
        }
    }

    #[test]
    fn what_cannot_be_quantized_is_told_by_its_place_in_the_whole() {
        let [n, k] = SHAPE;
        let mut numbers = vec![0.5; n * k];
        numbers[(n - 3) * k + 7] = f32::NAN;
        let expected = format!("tensor `lm`: the weight of output {} and input 7 is NaN", n - 3);
        let whole = || FullPrecision::InMemory(&numbers);
        let int8 = quantize_int8(whole(), "lm", (n, k)).unwrap_err().to_string();
        assert!(int8.contains(&expected), "{int8}");
        let options = FourBitOptions::default();
        let nf4 = quantize_4bit(whole(), "lm", (n, k), options, Precision::Float32).unwrap_err().to_string();
        assert!(nf4.contains(&expected), "{nf4}");
    }
}
