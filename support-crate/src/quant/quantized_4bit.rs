//! A tensor of 4-bit weights, with everything that is needed to read it.

use super::blockwise::{check_blocksize, check_lengths, dequantize_4bit_blocks, quantize_4bit_blocks};
use super::codebook::FourBit;
use super::float::{Float, check_finite};
use super::nested::{Absmax, NestedAbsmax};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::precision::Precision;

/// How to quantize to 4 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FourBitOptions {
    /// The data type (`bnb_4bit_quant_type`).
    pub quant_type: FourBit,
    /// Weights that share a scale: a power of two from 32 to 4096.
    pub blocksize: usize,
    /// Whether the scales are quantized too (`bnb_4bit_use_double_quant`).
    pub double_quant: bool,
}

/// NF4 in blocks of 64, without double quantization.
impl Default for FourBitOptions {
    fn default() -> Self {
        Self { quant_type: FourBit::Nf4, blocksize: 64, double_quant: false }
    }
}

/// A tensor of 4-bit weights. Blocks run over the flattened tensor, whatever the length of its rows.
///
/// ```
/// use quantlab::quant::{FourBitOptions, Quantized4Bit};
///
/// let weights: Vec<f32> = (0..128).map(|i| (i as f32 / 20.0).sin()).collect();
/// let quantized = Quantized4Bit::quantize(&weights, &[2, 64], FourBitOptions::default())?;
/// assert_eq!(quantized.size_in_bytes(), 64 + 2 * 4);
///
/// let restored: Vec<f32> = quantized.dequantize();
/// let worst = weights.iter().zip(&restored).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
/// assert!(worst < 0.152);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Quantized4Bit {
    quant_type: FourBit,
    blocksize: usize,
    shape: Vec<usize>,
    dtype: Precision,
    packed: Buffer<u8>,
    absmax: Absmax,
}

impl Quantized4Bit {
    /// Quantizes a tensor of this shape, row by row, on the caller's thread.
    ///
    /// # Errors
    /// A shape that does not fit or has no elements, a `blocksize` that
    /// [`check_blocksize`] refuses, a weight that is NaN or infinite.
    pub fn quantize<T: Float>(weights: &[T], shape: &[usize], options: FourBitOptions) -> Result<Self> {
        let FourBitOptions { quant_type, blocksize, double_quant } = options;
        check_blocksize(blocksize)?;
        let count = count_elements(shape)?;
        if count != weights.len() {
            return Err(Error::input(format!("{} weights for the shape {shape:?}", weights.len())));
        }
        let mut packed = vec![0; count.div_ceil(2)];
        let mut absmax = vec![0.0; count.div_ceil(blocksize)];
        quantize_4bit_blocks(quant_type, blocksize, weights, &mut packed, &mut absmax)?;
        let absmax =
            if double_quant { Absmax::Nested(NestedAbsmax::quantize(&absmax)?) } else { Absmax::Float32(absmax) };
        let (shape, dtype, packed) = (shape.to_vec(), T::PRECISION, Buffer::Owned(packed));
        Ok(Self { quant_type, blocksize, shape, dtype, packed, absmax })
    }

    /// Puts together what a file holds, or what several threads quantized. `dtype` is the format that the
    /// weights had, and that bitsandbytes dequantizes them to.
    ///
    /// # Errors
    /// A shape without elements, a `blocksize` that [`check_blocksize`] refuses, more or fewer packed bytes or `absmax`
    /// values than the shape asks for, a value that is NaN or infinite.
    pub fn new(
        quant_type: FourBit,
        blocksize: usize,
        shape: &[usize],
        dtype: Precision,
        packed: Vec<u8>,
        absmax: Absmax,
    ) -> Result<Self> {
        Self::with_packed(quant_type, blocksize, shape, dtype, Buffer::Owned(packed), absmax)
    }

    /// As [`new`](Self::new), wherever the packed bytes lie.
    pub(crate) fn with_packed(
        quant_type: FourBit,
        blocksize: usize,
        shape: &[usize],
        dtype: Precision,
        packed: Buffer<u8>,
        absmax: Absmax,
    ) -> Result<Self> {
        check_lengths(blocksize, count_elements(shape)?, packed.len(), absmax.len())?;
        if let Absmax::Float32(values) = &absmax {
            check_finite("absmax", values)?;
        }
        Ok(Self { quant_type, blocksize, shape: shape.to_vec(), dtype, packed, absmax })
    }

    /// The dequantized weights, in the order of the shape: float32, or rounded to a format of 2 bytes.
    pub fn dequantize<T: Float>(&self) -> Vec<T> {
        let mut weights = vec![T::from_f32(0.0); self.num_weights()];
        let absmax = self.absmax.dequantize();
        dequantize_4bit_blocks(self.quant_type, self.blocksize, &self.packed, &absmax, &mut weights)
            .expect("the lengths were checked when this was made");
        weights
    }

    /// The data type.
    pub fn quant_type(&self) -> FourBit {
        self.quant_type
    }

    /// Weights that share a scale.
    pub fn blocksize(&self) -> usize {
        self.blocksize
    }

    /// The shape before quantizing, for a linear layer `[out_features, in_features]`.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The format of the weights before quantizing.
    pub fn dtype(&self) -> Precision {
        self.dtype
    }

    /// How many weights there are.
    pub fn num_weights(&self) -> usize {
        self.shape.iter().product()
    }

    /// Two codes a byte, the first in the high half.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Forgets the codes.
    pub(crate) fn forget_packed(&mut self) {
        self.packed = Buffer::Owned(Vec::new());
    }

    /// The scale of each block.
    pub fn absmax(&self) -> &Absmax {
        &self.absmax
    }

    /// Bytes of codes and scales.
    pub fn size_in_bytes(&self) -> usize {
        self.packed.len() + self.absmax.size_in_bytes()
    }
}

fn count_elements(shape: &[usize]) -> Result<usize> {
    let count = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    match count {
        Some(count) if count > 0 => Ok(count),
        _ => Err(Error::input(format!("weights of the shape {shape:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn parts(packed: usize, absmax: usize) -> Result<Quantized4Bit> {
        let absmax = Absmax::Float32(vec![1.0; absmax]);
        Quantized4Bit::new(FourBit::Nf4, 64, &[3, 43], Precision::Float32, vec![0x7F; packed], absmax)
    }

    #[test]
    fn parts_that_do_not_fit_the_shape_are_refused() {
        assert_eq!(parts(65, 3).unwrap().dequantize::<f32>()[..3], [0.0, 1.0, 0.0]);
        assert!(parts(64, 3).unwrap_err().to_string().contains("64 packed bytes for 129 weights"));
        assert!(parts(65, 2).unwrap_err().to_string().contains("there are 3 blocks"));
        let not_finite = Absmax::Float32(vec![f32::NAN]);
        let error = Quantized4Bit::new(FourBit::Fp4, 64, &[2], Precision::Float32, vec![0], not_finite).unwrap_err();
        assert!(error.to_string().contains("absmax 0 is NaN"), "{error}");
    }

    #[test]
    fn shapes_that_hold_nothing_or_too_much_are_refused() {
        let quantize = |shape: &[usize]| Quantized4Bit::quantize(&[1.0_f32; 6], shape, FourBitOptions::default());
        for shape in [[0, 6], [2, 2], [usize::MAX, 2]] {
            assert!(quantize(&shape).unwrap_err().to_string().contains(&format!("{shape:?}")));
        }
        assert_eq!(quantize(&[2, 3]).unwrap().num_weights(), 6);
    }

    #[test]
    fn every_format_of_weights_is_remembered() {
        let options = FourBitOptions::default();
        let dtype = |quantized: Result<Quantized4Bit>| quantized.unwrap().dtype();
        assert_eq!(dtype(Quantized4Bit::quantize(&[0.5_f32], &[1], options)), Precision::Float32);
        assert_eq!(dtype(Quantized4Bit::quantize(&[f16::ONE], &[1], options)), Precision::Float16);
        assert_eq!(dtype(Quantized4Bit::quantize(&[bf16::ONE], &[1], options)), Precision::BFloat16);
    }

    #[test]
    fn double_quantization_saves_three_bytes_of_four_a_block() {
        let weights: Vec<f32> = (0..65_536).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
        let size = |double_quant| {
            let options = FourBitOptions { double_quant, ..FourBitOptions::default() };
            Quantized4Bit::quantize(&weights, &[256, 256], options).unwrap().size_in_bytes()
        };
        assert_eq!(size(false), 32_768 + 1024 * 4);
        assert_eq!(size(true), 32_768 + 1024 + 4 * 4 + 256 * 4 + 4);
    }
}
