//! Groups of 4-bit weights between two limits: affine int4.

use quantlab_kernels::round_to_int8;

use super::float::{Float, absolute_maximum, check_finite, count_rows};
use super::rounding::{Factor, Fit, GptqOptions, Grid, Hessian, hqq_code, last_code, quantize_gptq_rows};
use crate::buffer::Buffer;
use crate::error::{Error, Result};

/// A matrix of 4-bit weights, `[out_features, in_features]`, in groups of a row that share a scale and a zero point: a
/// weight is `(code - zero) * scale`, with whole codes and zero points from 0 to 15.
///
/// By rounding to nearest, what GPTQ and AWQ start from, the scale divides the range from the smallest to the largest
/// weight of the group, which is extended to include 0 so that 0 stays 0, into 15 steps. It is rounded to float16, as in
/// checkpoints. Codes are those of the nearest steps.
///
/// [`Rounding`](super::Rounding) says what there is besides. HQQ's zero points are no whole numbers. Codes of 3 or 2
/// bits are those up to 7 or 3, and take 4 bits all the same: they show what fewer bits cost, but save no memory.
///
/// Source: `Quantizer.find_params` and `quantize` in `quant.py` of GPTQ (Frantar et al. 2022, arXiv:2210.17323), with
/// `perchannel=True, sym=False`, whose scales stay in float32 until they are packed.
///
/// ```
/// use quantlab::quant::AffineInt4;
///
/// let weights: Vec<f32> = (0..128).map(|i| (i as f32 / 20.0).sin()).collect();
/// let quantized = AffineInt4::quantize(&weights, 64, 32)?;
/// let worst = weights.iter().zip(quantized.dequantize()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
/// assert!(worst < 0.05);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AffineInt4 {
    packed: Buffer<u8>,
    scales: Vec<f32>,
    /// What a code of 0 stands for: `-zero * scale`, exactly.
    minima: Vec<f32>,
    columns: usize,
    group_size: usize,
}

impl AffineInt4 {
    /// What each code stands for, before scale and zero point.
    pub const CODES: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

    /// Quantizes a matrix with rows of `columns` weights to the nearest of 16 steps, on the caller's thread.
    ///
    /// # Errors
    /// As [`check_group`](Self::check_group) and [`quantize_affine_groups`]; rows that are not whole groups.
    pub fn quantize<T: Float>(weights: &[T], columns: usize, group_size: usize) -> Result<Self> {
        Self::fitted(weights, columns, group_size, 4, Fit::Nearest)
    }

    /// Quantizes a matrix with rows of `columns` weights to codes of `bits` bits, 2 to 4, on the caller's thread.
    ///
    /// ```
    /// use quantlab::quant::{AffineInt4, Fit};
    ///
    /// let weights: Vec<f32> = (0..64).map(|i| (i as f32).sin().powi(5)).collect();
    /// let error = |fit| {
    ///     let restored = AffineInt4::fitted(&weights, 64, 32, 3, fit)?.dequantize();
    ///     Ok::<f32, quantlab::error::Error>(weights.iter().zip(restored).map(|(a, b)| (a - b).powi(2)).sum())
    /// };
    /// assert!(error(Fit::Clipping)? <= error(Fit::Nearest)?);
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`quantize`](Self::quantize); codes of another size.
    pub fn fitted<T: Float>(weights: &[T], columns: usize, group_size: usize, bits: u32, fit: Fit) -> Result<Self> {
        count_rows("weights", weights.len(), columns)?;
        let quantize = |packed: &mut [u8], scales: &mut [[f32; 2]]| {
            quantize_affine_groups(weights, group_size, bits, fit, packed, scales)
        };
        Self::made(weights.len(), columns, group_size, quantize)
    }

    /// Quantizes a matrix by GPTQ to codes of `bits` bits, 2 to 4, with rows as long as the Hessian's.
    ///
    /// ```
    /// use quantlab::quant::{AffineInt4, GptqOptions, Hessian};
    ///
    /// // Two inputs are almost the same: what one gets wrong, the other can make up for.
    /// let inputs: Vec<f32> = (0..64 * 32).map(|i| ((i / 2) as f32).sin() + 0.01 * (i as f32).cos()).collect();
    /// let mut hessian = Hessian::new(32)?;
    /// hessian.add(&inputs)?;
    /// let weights: Vec<f32> = (0..32).map(|i| (i as f32 * 0.7).cos()).collect();
    /// let error = |quantized: AffineInt4| -> f32 {
    ///     let changes: Vec<f32> = weights.iter().zip(quantized.dequantize()).map(|(a, b)| a - b).collect();
    ///     let outputs = inputs.chunks(32).map(|x| x.iter().zip(&changes).map(|(x, change)| x * change).sum::<f32>());
    ///     outputs.map(|output| output * output).sum()
    /// };
    /// let gptq = AffineInt4::gptq(&weights, &hessian, 32, 4, GptqOptions::default())?;
    /// assert!(error(gptq) < 0.5 * error(AffineInt4::quantize(&weights, 32, 32)?));
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`fitted`](Self::fitted); inputs whose squares are beyond float32; too little memory; an interruption.
    pub fn gptq(
        weights: &[f32],
        hessian: &Hessian,
        group_size: usize,
        bits: u32,
        options: GptqOptions,
    ) -> Result<Self> {
        let columns = hessian.columns();
        count_rows("weights", weights.len(), columns)?;
        Self::check_group(group_size)?;
        let (last, fit) = (last_code(bits)?, options.fit());
        hessian.check()?;
        let factor = Factor::new(hessian, Factor::tile_for(group_size), options.act_order)?;
        Self::made(weights.len(), columns, group_size, |packed, scales| {
            quantize_gptq_rows(weights, &factor, group_size, last, fit, packed, scales)
        })
    }

    /// A matrix of `len` weights whose codes and scales are made by `quantize`.
    fn made(
        len: usize,
        columns: usize,
        group_size: usize,
        quantize: impl FnOnce(&mut [u8], &mut [[f32; 2]]) -> Result<()>,
    ) -> Result<Self> {
        Self::check_group(group_size)?;
        let (mut packed, mut scales) = (vec![0; len / 2], vec![[0.0; 2]; len / group_size]);
        quantize(&mut packed, &mut scales)?;
        Self::with_packed(Buffer::Owned(packed), &scales, columns, group_size)
    }

    /// Puts together what several threads quantized: two codes a byte, the first in the high half, and a scale and a
    /// minimum for each group.
    pub(crate) fn with_packed(
        packed: Buffer<u8>,
        scales: &[[f32; 2]],
        columns: usize,
        group_size: usize,
    ) -> Result<Self> {
        Self::check_rows(columns, group_size)?;
        let (scales, minima) = scales.iter().map(|&[scale, minimum]| (scale, minimum)).unzip();
        Ok(Self { packed, scales, minima, columns, group_size })
    }

    /// Checks that groups can have this size.
    ///
    /// # Errors
    /// A size that is not a multiple of 32.
    pub fn check_group(group_size: usize) -> Result<()> {
        if group_size > 0 && group_size.is_multiple_of(32) {
            return Ok(());
        }
        Err(Error::input(format!("groups cannot have {group_size} weights"))
            .hint("use a multiple of 32; 128 and 32 are usual"))
    }

    /// Checks that rows of `columns` weights are whole groups.
    ///
    /// # Errors
    /// They are not.
    pub(crate) fn check_rows(columns: usize, group_size: usize) -> Result<()> {
        if columns.is_multiple_of(group_size) {
            return Ok(());
        }
        Err(Error::input(format!("{columns} inputs cannot be divided into groups of {group_size}"))
            .hint("use smaller groups"))
    }

    /// The dequantized weights, row after row.
    pub fn dequantize(&self) -> Vec<f32> {
        let groups = self.packed.chunks(self.group_size / 2).zip(self.scales.iter().zip(&self.minima));
        groups
            .flat_map(|(bytes, (scale, minimum))| {
                let codes = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                // The product is exact: a scale of 11 bits times a number of 4 bits. So is the sum, but for HQQ's minima.
                codes.map(move |code| f32::from(code) * scale + minimum)
            })
            .collect()
    }

    /// Two codes a byte, the first in the high half.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Forgets the codes.
    pub(crate) fn forget_packed(&mut self) {
        self.packed = Buffer::Owned(Vec::new());
    }

    /// The step of each group.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// What a code of 0 stands for in each group: `-zero * scale`.
    pub fn minima(&self) -> &[f32] {
        &self.minima
    }

    /// How many weights a row has (`in_features`).
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Weights that share a scale.
    pub fn group_size(&self) -> usize {
        self.group_size
    }
}

/// Quantizes weights, group after group, to codes of `bits` bits, 2 to 4: two a byte whatever their size, the first in the
/// high half, and for each group its scale and what a code of 0 stands for.
///
/// Groups do not depend on each other: several threads may each quantize some.
///
/// # Errors
/// Weights that are not whole groups, or outputs of another length; codes of another size; a weight that is NaN or
/// infinite; a group whose scale does not fit into float16. What was written before the error stays.
pub fn quantize_affine_groups<T: Float>(
    weights: &[T],
    group_size: usize,
    bits: u32,
    fit: Fit,
    packed: &mut [u8],
    scales: &mut [[f32; 2]],
) -> Result<()> {
    AffineInt4::check_group(group_size)?;
    AffineInt4::check_rows(weights.len(), group_size)?;
    if (packed.len(), scales.len()) != (weights.len() / 2, weights.len() / group_size) {
        return Err(Error::input(format!(
            "there is room for {} bytes and {} groups, for {} weights in groups of {group_size}",
            packed.len(),
            scales.len(),
            weights.len()
        )));
    }
    let last = last_code(bits)?;
    let mut buffer = vec![0.0; group_size];
    let groups = weights.chunks(group_size).zip(packed.chunks_mut(group_size / 2)).zip(scales);
    for ((group, packed), out) in groups {
        let wide = T::widen(group, &mut buffer);
        if absolute_maximum(wide).is_none() {
            return check_finite("weight", weights);
        }
        let grid = Grid::fit(wide, last, fit)?;
        *out = grid.scales();
        if fit == Fit::Hqq {
            pack(wide, packed, |weight| hqq_code(&grid, weight));
        } else {
            pack(wide, packed, |weight| grid.code(weight));
        }
    }
    Ok(())
}

/// Weights that become codes at once: every group is a multiple of these.
const TOGETHER: usize = 32;

/// (Generic, so that `code` becomes vector code.)
fn pack(weights: &[f32], packed: &mut [u8], code: impl Fn(f32) -> f32) {
    for (weights, packed) in weights.chunks_exact(TOGETHER).zip(packed.chunks_exact_mut(TOGETHER / 2)) {
        // Neighbours are joined afterwards: joined at once, they keep the compiler from making vectors of them.
        let mut codes = [0; TOGETHER];
        codes.iter_mut().zip(weights).for_each(|(to, &weight)| *to = round_to_int8(code(weight)).cast_unsigned());
        packed.iter_mut().zip(codes.chunks_exact(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn weights_come_back_within_a_step_and_zero_stays_zero(
            mut weights in prop::collection::vec(-2.0..3.0_f32, 192),
            shift in -3.0..3.0_f32,
            group_size in prop_oneof![Just(32_usize), Just(96)],
        ) {
            weights.iter_mut().for_each(|weight| *weight += shift);
            weights[7] = 0.0;
            let quantized = AffineInt4::quantize(&weights, 96, group_size).unwrap();
            let restored = quantized.dequantize();
            prop_assert_eq!(restored[7], 0.0);
            for (i, (weight, restored)) in weights.iter().zip(&restored).enumerate() {
                let step = quantized.scales()[i / group_size];
                // Half of it for the code, half for the zero point at an end of the range, and a little for the scale.
                prop_assert!((weight - restored).abs() <= 1.01 * step, "{} for {}", restored, weight);
            }
        }
    }

    /// By hand: 15 steps of 0.5 from -2.5 on.
    #[test]
    fn codes_are_those_of_the_nearest_steps() {
        let mut weights = [0.0_f32; 32];
        weights[..6].copy_from_slice(&[-2.5, 5.0, 0.24, 0.26, -0.76, 4.8]);
        let quantized = AffineInt4::quantize(&weights, 32, 32).unwrap();
        assert_eq!((quantized.scales(), quantized.minima()), (&[0.5_f32][..], &[-2.5_f32][..]));
        assert_eq!(quantized.packed()[..3], [0x0F, 0x56, 0x3F]);
        assert_eq!(quantized.dequantize()[..6], [-2.5, 5.0, 0.0, 0.5, -1.0, 5.0]);
        assert_eq!(AffineInt4::quantize(&[0.0_f32; 64], 64, 32).unwrap().dequantize(), [0.0; 64]);
    }

    #[test]
    fn what_cannot_be_quantized_says_so() {
        let error =
            |weights: &[f32], columns, group| AffineInt4::quantize(weights, columns, group).unwrap_err().to_string();
        assert!(error(&[1.0; 64], 32, 48).contains("groups cannot have 48"));
        assert!(error(&[1.0; 96], 48, 32).contains("48 inputs"));
        assert!(error(&[1.0; 64], 48, 32).contains("not a matrix"));
        let mut weights = [1.0; 64];
        weights[40] = f32::NAN;
        assert!(error(&weights, 64, 32).contains("is NaN"));
        weights[40] = 2e6;
        assert!(error(&weights, 64, 32).contains("no scale in float16"));
    }
}
