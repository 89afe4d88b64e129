//! The scales of blocks, themselves quantized to 8 bits: double quantization.

use std::borrow::Cow;

use super::cascade_sum::cascade_sum;
use super::codebook::dynamic_map;
use super::float::{absolute_maximum, check_finite};
use crate::error::{Error, Result};

/// How many `absmax` values share a scale of their own.
pub const NESTED_BLOCKSIZE: usize = 256;

/// The largest magnitude of each block of weights.
#[derive(Debug, Clone, PartialEq)]
pub enum Absmax {
    /// As it is: 32 bits a block.
    Float32(Vec<f32>),
    /// Quantized again: a little over 8 bits a block.
    Nested(NestedAbsmax),
}

/// `absmax` values quantized to 8 bits: `code[quantized] * absmax + offset`.
///
/// Source: QLoRA (Dettmers et al. 2023, arXiv:2305.14314), section 3, "double quantization";
/// `quantize_4bit(compress_statistics=True)` of bitsandbytes.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedAbsmax {
    quantized: Vec<u8>,
    absmax: Vec<f32>,
    code: Box<[f32; 256]>,
    offset: f32,
}

impl Absmax {
    /// For how many blocks there are values.
    pub fn len(&self) -> usize {
        match self {
            Self::Float32(values) => values.len(),
            Self::Nested(nested) => nested.quantized.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values in the unit of the weights, one for each block.
    pub fn dequantize(&self) -> Cow<'_, [f32]> {
        match self {
            Self::Float32(values) => Cow::Borrowed(values),
            Self::Nested(nested) => Cow::Owned(nested.dequantize()),
        }
    }

    /// Bytes that they take, with all that is needed to dequantize them.
    pub fn size_in_bytes(&self) -> usize {
        match self {
            Self::Float32(values) => size_of_val(values.as_slice()),
            Self::Nested(NestedAbsmax { quantized, absmax, code, offset }) => {
                quantized.len() + size_of_val(absmax.as_slice()) + size_of_val(code.as_slice()) + size_of_val(offset)
            }
        }
    }
}

impl NestedAbsmax {
    /// Quantizes `absmax` values, after subtracting their mean, in blocks of 256 to the dynamic 8-bit data type.
    ///
    /// Equal in every bit to bitsandbytes on an x86 CPU, whose kernel does not search for the nearest code itself but
    /// first rounds to one of 65,536 equidistant numbers, and knows the nearest code of each. The mean is that of torch
    /// with one thread; with more, torch adds more than 32,768 values in another order.
    ///
    /// # Errors
    /// No values, one that is NaN or infinite, or some so large that their mean is not finite.
    pub fn quantize(absmax: &[f32]) -> Result<Self> {
        if absmax.is_empty() {
            return Err(Error::input("there are no absmax values to quantize"));
        }
        check_finite("absmax", absmax)?;
        let offset = cascade_sum(absmax) / absmax.len() as f32;
        let centred: Vec<f32> = absmax.iter().map(|value| value - offset).collect();
        let code = dynamic_map();
        let thresholds: Vec<f32> = code.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect();
        let (mut quantized, mut scales) = (Vec::with_capacity(absmax.len()), Vec::new());
        for block in centred.chunks(NESTED_BLOCKSIZE) {
            let Some(largest) = absolute_maximum(block) else {
                return Err(Error::input(format!("the absmax values are so large that their mean is {offset}")));
            };
            scales.push(largest);
            if largest == 0.0 {
                quantized.resize(quantized.len() + block.len(), 0);
                continue;
            }
            let factor = 1.0 / largest;
            quantized.extend(block.iter().map(|value| {
                let on_grid = to_grid(value * factor);
                thresholds.partition_point(|&threshold| threshold < on_grid) as u8
            }));
        }
        Ok(Self { quantized, absmax: scales, code: Box::new(*code), offset })
    }

    /// Puts together what a file holds: `quantized`, a code for each block of weights; `absmax`, a scale
    /// for each [`NESTED_BLOCKSIZE`] of them; `code`, the 256 numbers that codes stand for; and `offset`,
    /// what was subtracted.
    ///
    /// # Errors
    /// A code that is missing or has other than 256 numbers, a number of scales that does not fit, a number
    /// that is NaN or infinite.
    pub fn new(quantized: Vec<u8>, absmax: Vec<f32>, code: &[f32], offset: f32) -> Result<Self> {
        let Ok(code) = <[f32; 256]>::try_from(code) else {
            return Err(Error::format(format!("the nested code has {} numbers; 8 bits stand for 256", code.len())));
        };
        let blocks = quantized.len().div_ceil(NESTED_BLOCKSIZE);
        if absmax.len() != blocks {
            return Err(Error::format(format!(
                "{} nested absmax values for {} in blocks of {NESTED_BLOCKSIZE}; there are {blocks} blocks",
                absmax.len(),
                quantized.len(),
            )));
        }
        check_finite("nested absmax", &absmax)?;
        check_finite("nested code", &code)?;
        check_finite("nested offset", &[offset])?;
        let nested = Self { quantized, absmax, code: Box::new(code), offset };
        check_finite("absmax, dequantized,", &nested.dequantize())?;
        Ok(nested)
    }

    /// The values, one for each block of weights.
    pub fn dequantize(&self) -> Vec<f32> {
        let blocks = self.quantized.chunks(NESTED_BLOCKSIZE).zip(&self.absmax);
        let values = blocks.flat_map(|(block, scale)| block.iter().map(move |&code| self.value(code) * scale));
        values.map(|value| value + self.offset).collect()
    }

    fn value(&self, code: u8) -> f32 {
        self.code[usize::from(code)]
    }

    /// The code of each block of weights.
    pub fn quantized(&self) -> &[u8] {
        &self.quantized
    }

    /// The scale of each [`NESTED_BLOCKSIZE`] codes.
    pub fn absmax(&self) -> &[f32] {
        &self.absmax
    }

    /// What each code stands for.
    pub fn code(&self) -> &[f32; 256] {
        &self.code
    }

    /// The mean that was subtracted.
    pub fn offset(&self) -> f32 {
        self.offset
    }
}

/// The nearest of 65,536 equidistant numbers from -1 to 1.
///
/// Source: `norm_to_lut_index` and `build_quantize_lut` in bitsandbytes `csrc/cpu_ops.cpp`.
fn to_grid(value: f32) -> f32 {
    const LAST: f32 = 65_535.0;
    let from_zero_to_one = (value.clamp(-1.0, 1.0) + 1.0) * 0.5;
    // Compiled for x86, the kernel multiplies and adds with one rounding.
    let index = from_zero_to_one.mul_add(LAST, 0.5).trunc();
    2.0 * index / LAST - 1.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The widest step of the dynamic map is 0.0141 of the scale; half of it, and half a grid step more.
    const HALF_STEP: f32 = 0.5 * 0.01415 + 1.0 / 65_535.0;

    #[test]
    fn equal_values_are_their_mean() {
        for len in [1, 255, 256, 257, 1000] {
            let nested = NestedAbsmax::quantize(&vec![0.75; len]).unwrap();
            assert_eq!((nested.offset(), nested.quantized().len()), (0.75, len));
            assert_eq!(nested.dequantize(), vec![0.75; len]);
        }
    }

    /// As bitsandbytes 0.50 quantizes them on a CPU: on its grid of 65,536 numbers there is no 0, so that the
    /// mean itself takes a code beside that of 0.
    #[test]
    fn codes_are_those_of_the_grid() {
        let nested = NestedAbsmax::quantize(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((nested.quantized(), nested.absmax(), nested.offset()), (&[0, 131, 255][..], &[1.0][..], 2.0));
    }

    #[test]
    fn parts_that_contradict_each_other_are_refused() {
        let code = dynamic_map();
        let refused = |quantized: usize, absmax: &[f32], code: &[f32], offset: f32| {
            NestedAbsmax::new(vec![0; quantized], absmax.to_vec(), code, offset).unwrap_err().to_string()
        };
        assert!(refused(256, &[1.0], &[], 0.0).contains("the nested code has 0 numbers"));
        assert!(refused(256, &[1.0], &code[1..], 0.0).contains("the nested code has 255 numbers"));
        assert!(refused(257, &[1.0], code, 0.0).contains("1 nested absmax values for 257"));
        assert!(refused(256, &[1.0, 1.0], code, 0.0).contains("there are 1 blocks"));
        assert!(refused(256, &[f32::NAN], code, 0.0).contains("nested absmax 0 is NaN"));
        assert!(refused(256, &[1.0], code, f32::INFINITY).contains("nested offset 0 is inf"));
        assert!(NestedAbsmax::new(vec![0; 257], vec![1.0; 2], code, 0.0).is_ok());
    }

    #[test]
    fn nothing_and_values_that_are_no_numbers_are_refused() {
        assert!(NestedAbsmax::quantize(&[]).is_err());
        assert!(NestedAbsmax::quantize(&[1.0, f32::NAN]).unwrap_err().to_string().contains("absmax 1 is NaN"));
        assert!(NestedAbsmax::quantize(&[f32::MAX; 2]).unwrap_err().to_string().contains("mean"));
    }

    proptest! {
        #[test]
        fn the_error_is_half_a_step(values in prop::collection::vec(1e-3..10_f32, 1..1200)) {
            let nested = NestedAbsmax::quantize(&values).unwrap();
            for (i, (value, restored)) in values.iter().zip(nested.dequantize()).enumerate() {
                let scale = nested.absmax()[i / NESTED_BLOCKSIZE];
                prop_assert!((value - restored).abs() <= HALF_STEP * scale + 1e-5, "{} {} {}", value, restored, scale);
            }
        }
    }
}
