//! Blocks of weights to 4 bits each, and back.

use super::codebook::{Ascending, FourBit};
use super::float::{Float, absolute_maximum, check_finite};
use crate::error::{Error, Result};

/// The largest block, in weights.
const MAX_BLOCKSIZE: usize = 4096;

/// Weights that are compared with the thresholds side by side: as many as fit into the registers.
const GROUP: usize = 16;

/// The lower limit that bitsandbytes sets for `absmax` when it divides by it.
const MIN_DIVISOR: f32 = 1e-38;

/// Checks that blocks can have this size: a power of two from 32 to 4096.
///
/// # Errors
/// Any other size.
pub fn check_blocksize(blocksize: usize) -> Result<()> {
    if blocksize.is_power_of_two() && (32..=MAX_BLOCKSIZE).contains(&blocksize) {
        return Ok(());
    }
    Err(Error::input(format!("the blocksize cannot be {blocksize}"))
        .hint("use a power of two from 32 to 4096; 64 is usual"))
}

/// Quantizes weights, block after block, to codes of 4 bits.
///
/// `weights` are n numbers of a flattened matrix. `packed`, of ceil(n / 2) bytes, receives two codes a byte, the first
/// in the high half; for an odd n, the remaining half byte is the code of 0. `absmax`, of ceil(n / `blocksize`)
/// numbers, receives the largest magnitude of each block, in the unit of the weights. A last block may be shorter.
///
/// Blocks do not depend on each other: several threads may each quantize some whole blocks.
///
/// Source: QLoRA (Dettmers et al. 2023, arXiv:2305.14314), section 3; equal in every bit to `quantize_4bit`
/// of bitsandbytes on a CPU (`backends/default/ops.py`), which multiplies whole blocks by 1 / `absmax`, but
/// divides a shorter one by it, and takes 1e-38 for the `absmax` of a shorter one of zeros.
///
/// # Errors
/// A `blocksize` that [`check_blocksize`] refuses, lengths that do not match, a weight that is NaN or infinite. What
/// was written before the error stays.
pub fn quantize_4bit_blocks<T: Float>(
    quant_type: FourBit,
    blocksize: usize,
    weights: &[T],
    packed: &mut [u8],
    absmax: &mut [f32],
) -> Result<()> {
    check_lengths(blocksize, weights.len(), packed.len(), absmax.len())?;
    let ascending = quant_type.ascending();
    let mut buffer = [0.0; MAX_BLOCKSIZE];
    for ((block, packed), absmax) in weights.chunks(blocksize).zip(packed.chunks_mut(blocksize / 2)).zip(absmax) {
        let block = T::widen(block, &mut buffer);
        let Some(largest) = absolute_maximum(block) else {
            return check_finite("weight", weights);
        };
        let divisor = largest.max(MIN_DIVISOR);
        if block.len() == blocksize {
            let factor = 1.0 / divisor;
            quantize_block(ascending, block, |weight| weight * factor, packed);
            *absmax = largest;
        } else {
            quantize_block(ascending, block, |weight| weight / divisor, packed);
            *absmax = divisor;
        }
    }
    Ok(())
}

#[inline(always)]
fn quantize_block(ascending: &Ascending, block: &[f32], scale: impl Fn(f32) -> f32, packed: &mut [u8]) {
    let Ascending { codes, thresholds } = ascending;
    for (weights, bytes) in block.chunks(GROUP).zip(packed.chunks_mut(GROUP / 2)) {
        let mut scaled = [0.0; GROUP];
        scaled.iter_mut().zip(weights).for_each(|(scaled, &weight)| *scaled = scale(weight));
        // Counting the thresholds below each number needs no branch and no table, so it is done for
        // many numbers at a time, and faster than searching for each.
        let mut below = [0_i32; GROUP];
        for threshold in thresholds {
            below.iter_mut().zip(&scaled).for_each(|(below, scaled)| *below += i32::from(scaled > threshold));
        }
        let (pairs, _) = below.as_chunks::<2>();
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = codes[*high as usize & 15] << 4 | codes[*low as usize & 15];
        }
    }
}

/// Computes weights from codes of 4 bits, block after block: each is the number its code stands for, times
/// the `absmax` of its block, in float32, then rounded to the format of `weights`.
///
/// The arguments are those of [`quantize_4bit_blocks`].
///
/// # Errors
/// A `blocksize` that [`check_blocksize`] refuses, lengths that do not match.
pub fn dequantize_4bit_blocks<T: Float>(
    quant_type: FourBit,
    blocksize: usize,
    packed: &[u8],
    absmax: &[f32],
    weights: &mut [T],
) -> Result<()> {
    check_lengths(blocksize, weights.len(), packed.len(), absmax.len())?;
    for ((weights, packed), absmax) in weights.chunks_mut(blocksize).zip(packed.chunks(blocksize / 2)).zip(absmax) {
        let numbers = quant_type.codebook().map(|number| T::from_f32(number * absmax));
        let (pairs, last) = weights.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(packed) {
            *pair = [numbers[usize::from(byte >> 4)], numbers[usize::from(byte & 15)]];
        }
        if let ([weight], Some(byte)) = (last, packed.last()) {
            *weight = numbers[usize::from(byte >> 4)];
        }
    }
    Ok(())
}

/// Checks the parts of `count` quantized weights against each other.
pub(super) fn check_lengths(blocksize: usize, count: usize, packed: usize, absmax: usize) -> Result<()> {
    check_blocksize(blocksize)?;
    let bytes = count.div_ceil(2);
    if packed != bytes {
        return Err(Error::input(format!("{packed} packed bytes for {count} weights of 4 bits; they take {bytes}")));
    }
    let blocks = count.div_ceil(blocksize);
    if absmax != blocks {
        return Err(Error::input(format!(
            "{absmax} absmax values for {count} weights in blocks of {blocksize}; there are {blocks} blocks"
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "blockwise_tests.rs"]
mod tests;
