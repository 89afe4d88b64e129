//! Weights to codes and scales, in parts.

use std::ops::Range;

use half::{bf16, f16};
use quantlab_kernels::thread_scope;

use crate::buffer::{Buffer, Plain, Pooled};
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::weights::UnreadTensor;

/// Weights in full precision that are to be quantized: read some rows at a time, into `numbers`, and rounded to the
/// precision of the model first, as transformers does.
pub(in crate::model) struct FullPrecision<'a> {
    pub tensor: UnreadTensor<'a>,
    pub dtype: Precision,
    pub numbers: &'a mut Vec<f32>,
}

/// How many rows are read and quantized before the next are read: as many as the largest block has numbers, so that no
/// block continues into the next rows.
const ROWS: usize = 4096;

/// About how many numbers a thread quantizes at once, a multiple of every block size.
const PART: usize = 1 << 16;

/// Quantizes weights (n, k) in parts, shared among threads: `quantize` makes bytes, each of `in_byte` numbers, and
/// scales, each for `in_block` numbers. `can_be` says of a weight whether the format has a form for it.
///
/// # Errors
/// What `quantize` reports, by output and input where a weight cannot be quantized.
pub(super) fn in_parts<B: Plain + Send, S: Clone + Default + Send>(
    weights: FullPrecision<'_>,
    (in_byte, in_block): (usize, usize),
    can_be: fn(f32) -> bool,
    quantize: impl Fn(&[f32], &mut [B], &mut [S]) -> Result<()> + Sync,
) -> Result<(Buffer<B>, Vec<S>)> {
    in_parts_of(weights, (in_byte, in_block), (PART / in_block).max(1) * in_block, can_be, quantize)
}

/// The same in parts of so many numbers, which are whole bytes and blocks.
///
/// # Errors
/// As [`in_parts`].
pub(super) fn in_parts_of<B: Plain + Send, S: Clone + Default + Send>(
    mut weights: FullPrecision<'_>,
    (in_byte, in_block): (usize, usize),
    part: usize,
    can_be: fn(f32) -> bool,
    quantize: impl Fn(&[f32], &mut [B], &mut [S]) -> Result<()> + Sync,
) -> Result<(Buffer<B>, Vec<S>)> {
    let UnreadTensor { name, shape, .. } = weights.tensor;
    let (n, k) = (shape[0], shape[1]);
    let mut bytes = Pooled::zeroed((n * k).div_ceil(in_byte))?;
    let mut scales = vec![S::default(); (n * k).div_ceil(in_block)];
    let outputs = bytes.chunks_mut(ROWS * k / in_byte).zip(scales.chunks_mut(ROWS * k / in_block));
    for (first, (bytes, scales)) in (0..n).step_by(ROWS).zip(outputs) {
        let numbers = weights.rows(first..n.min(first + ROWS))?;
        let outputs = bytes.chunks_mut(part / in_byte).zip(scales.chunks_mut(part / in_block));
        for_each(numbers.chunks(part).zip(outputs), |(numbers, (bytes, scales))| quantize(numbers, bytes, scales))
            .map_err(|error| place(numbers, name, (first, k), can_be, error))?;
    }
    Ok((Buffer::Pooled(bytes), scales))
}

impl FullPrecision<'_> {
    /// Some rows.
    fn rows(&mut self, rows: Range<usize>) -> Result<&[f32]> {
        let Self { tensor, dtype, numbers } = self;
        tensor.read_rows(rows, numbers)?;
        match dtype {
            Precision::Float32 => (),
            // Rounded already.
            _ if tensor.is_stored_in(*dtype)? => (),
            Precision::BFloat16 => round(numbers, |number| bf16::from_f32(number).to_f32()),
            Precision::Float16 => round(numbers, |number| f16::from_f32(number).to_f32()),
        }
        Ok(numbers)
    }
}

/// (Generic rather than a function pointer: inlined, `nearest` becomes vector code.)
fn round(numbers: &mut [f32], nearest: impl Fn(f32) -> f32 + Sync) {
    thread_scope().split_mut(numbers, 1, 4, &|_, part| part.iter_mut().for_each(|number| *number = nearest(*number)));
}

/// Says where in the tensor the number that cannot be quantized is: `numbers` are rows of `k` from the row `first` on,
/// whereas the parts that threads quantize count from their own beginning.
fn place(numbers: &[f32], name: &str, (first, k): (usize, usize), can_be: fn(f32) -> bool, error: Error) -> Error {
    match numbers.iter().position(|&number| !can_be(number)) {
        Some(index) => {
            let (row, column, number) = (first + index / k, index % k, numbers[index]);
            Error::format(format!("tensor `{name}`: the weight of output {row} and input {column} is {number}")).hint(
                "NaN and infinity have no int8 or 4-bit form, and int8 has none for numbers beyond float16's 65,504",
            )
        }
        None => error,
    }
}

/// Runs `run` on every part, shared among the threads; the first error in order is returned.
fn for_each<P: Send>(parts: impl Iterator<Item = P>, run: impl Fn(P) -> Result<()> + Sync) -> Result<()> {
    let mut parts: Vec<(Option<P>, Result<()>)> = parts.map(|part| (Some(part), Ok(()))).collect();
    thread_scope().split_mut(&mut parts, 1, PART, &|_, parts| {
        for (part, result) in parts {
            if let Some(part) = part.take() {
                *result = run(part);
            }
        }
    });
    parts.into_iter().try_for_each(|(_, result)| result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Weights;
    use crate::model::fold::Change;
    use crate::quant::{FourBit, quantize_4bit_blocks, quantize_rows_int8};
    use crate::source::{ModelFile, WeightSource};

    /// More rows than are read at once, and blocks that go on in the next row.
    const SHAPE: [usize; 2] = [ROWS + 100, 33];

    /// Bytes and scales of a matrix that is read in parts, and of one that is quantized at once, must be the same.
    fn check<B, S>(
        (in_byte, in_block): (usize, usize),
        dtype: Precision,
        quantize: impl Fn(&[f32], &mut [B], &mut [S]) -> Result<()> + Sync,
    ) where
        B: Plain + Send + PartialEq + Default + std::fmt::Debug,
        S: Clone + Default + Send + PartialEq + std::fmt::Debug,
    {
        let weights = Weights::open(&WeightSource::Random { seed: 1 }, true).unwrap();
        let tensor = UnreadTensor { weights: &weights, name: "lm", shape: &SHAPE, transposed: false };
        let mut all = tensor.read::<f32>().unwrap().into_vec();
        if dtype == Precision::BFloat16 {
            round(&mut all, |number| bf16::from_f32(number).to_f32());
        }
        let made = in_parts(
            FullPrecision { tensor, dtype, numbers: &mut Vec::new() },
            (in_byte, in_block),
            f32::is_finite,
            &quantize,
        );
        let (mut bytes, mut scales) =
            (vec![B::default(); all.len().div_ceil(in_byte)], vec![S::default(); all.len().div_ceil(in_block)]);
        quantize(&all, &mut bytes, &mut scales).unwrap();
        let (made_bytes, made_scales) = made.unwrap();
        assert!(*made_bytes == bytes && made_scales == scales, "{in_block} {dtype}");
    }

    #[test]
    fn rows_that_are_read_in_parts_make_the_same() {
        let [_, k] = SHAPE;
        for dtype in [Precision::Float32, Precision::BFloat16] {
            for blocksize in [64, 4096] {
                check((2, blocksize), dtype, |numbers, packed: &mut [u8], absmax: &mut [f32]| {
                    quantize_4bit_blocks(FourBit::Nf4, blocksize, numbers, packed, absmax)
                });
            }
            check((1, k), dtype, |rows, values: &mut [i8], scb: &mut [f32]| quantize_rows_int8(rows, k, values, scb));
        }
    }

    #[test]
    fn what_is_stored_in_the_models_precision_is_not_rounded_and_what_is_changed_is() {
        let stored: Vec<bf16> = (0..6_u8).map(|i| bf16::from_f32(0.1 * f32::from(i) - 0.3)).collect();
        let bytes: Vec<u8> = stored.iter().flat_map(|number| number.to_le_bytes()).collect();
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::BF16, vec![2, 3], &bytes).unwrap();
        let bytes = safetensors::serialize([("lm", view)], None).unwrap().into();
        let source = WeightSource::Safetensors(vec![ModelFile::Bytes { name: "lm.safetensors", bytes }]);
        let mut weights = Weights::open(&source, true).unwrap();
        let read = |weights: &Weights, dtype| {
            let tensor = UnreadTensor { weights, name: "lm", shape: &[2, 3], transposed: false };
            let is_stored = tensor.is_stored_in(dtype).unwrap();
            (is_stored, FullPrecision { tensor, dtype, numbers: &mut Vec::new() }.rows(0..2).unwrap().to_vec())
        };
        let wide: Vec<f32> = stored.iter().map(|number| number.to_f32()).collect();
        assert_eq!(read(&weights, Precision::BFloat16), (true, wide.clone()));
        let (is_stored, numbers) = read(&weights, Precision::Float16);
        assert!(!is_stored && numbers.iter().all(|&number| f16::from_f32(number).to_f32() == number));
        let factors = [1.1, 0.3, 2.0];
        weights.change("lm", Change::ScaleColumns(factors.into()));
        let scaled = wide.iter().enumerate().map(|(i, number)| bf16::from_f32(number * factors[i % 3]).to_f32());
        assert_eq!(read(&weights, Precision::BFloat16), (false, scaled.collect()));
    }

    #[test]
    fn what_cannot_be_quantized_is_told_by_its_place_in_the_whole() {
        let [n, k] = SHAPE;
        let mut numbers = vec![0.5; n * k];
        numbers[(n - 3) * k + 7] = f32::NAN;
        let expected = format!("tensor `lm`: the weight of output {} and input 7 is NaN", n - 3);
        let at = |first: usize, can_be: fn(f32) -> bool| {
            place(&numbers[first * k..], "lm", (first, k), can_be, Error::input("?")).to_string()
        };
        let error = at(0, f32::is_finite);
        assert!(error.contains(&expected), "{error}");
        let error = at(100, f32::is_finite);
        assert!(error.contains(&expected), "{error}");
        // No number is to blame for what has other reasons.
        assert_eq!(at(n - 2, f32::is_finite), Error::input("?").to_string());
        let error = at(n - 2, |number| number.abs() < 0.5);
        assert!(error.contains(&format!("output {} and input 0 is 0.5", n - 2)), "{error}");
    }
}
