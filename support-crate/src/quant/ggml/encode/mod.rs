//! Numbers to the blocks of GGUF files, each byte as llama.cpp's own reference quantizers make it.
//!
//! Source: `ggml_quantize_chunk` and what it calls in llama.cpp's `ggml-quants.c`.

mod nested;
mod search;
mod simple;

use half::{bf16, f16};

use super::codes::factors;
use crate::error::{Error, Result};
use crate::source::GgmlType;
use search::Steps;

/// The scales that are tried where errors are weighted by importance.
const WEIGHTED: Steps = Steps { first: -0.9, step: 0.05, last: 36 };

/// Quantizes a row of whole blocks to a format of GGUF files, to the bit as llama.cpp does.
///
/// `importance` says for each column how much an error in it matters, as an importance matrix does: the mean square of
/// what the column is multiplied by. Q8_0 and formats without blocks have no use for it.
///
/// ```
/// use quantlab::quant::{encode_ggml, restore_ggml};
/// use quantlab::source::GgmlType;
///
/// let row: Vec<f32> = (0..32).map(|i| i as f32 / 10.0 - 1.6).collect();
/// let mut bytes = vec![0; GgmlType::Q4_0.block_bytes()];
/// encode_ggml(GgmlType::Q4_0, &row, None, &mut bytes)?;
/// let mut restored = vec![0.0; 32];
/// restore_ggml(GgmlType::Q4_0, &bytes, &mut restored);
/// assert!(row.iter().zip(&restored).all(|(number, restored)| (number - restored).abs() <= 0.2));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// A number that is NaN or infinite, by its column; numbers so large that their scale is beyond float16; Q2_K, Q3_K, IQ4_NL
/// or IQ4_XS, which are only read.
///
/// # Panics
/// `row` is not whole blocks, `out` not as large as these, or `importance` not as long as `row`.
pub fn encode_ggml(kind: GgmlType, row: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<()> {
    let (len, size) = (kind.block_len(), kind.block_bytes());
    assert!(row.len().is_multiple_of(len), "{} numbers are not whole blocks of {}", row.len(), kind.name());
    assert!(out.len() == row.len() / len * size, "{} bytes for {} numbers", out.len(), row.len());
    assert!(importance.is_none_or(|importance| importance.len() == row.len()), "importance of other columns");
    if let Some(column) = row.iter().position(|number| !number.is_finite()) {
        return Err(Error::format(format!("the weight of input {column} is {}", row[column]))
            .hint("NaN and infinity have no form in a GGUF file; is the model damaged?"));
    }
    // Q8_0 has no choice that importance could make.
    let importance = importance.filter(|_| kind != GgmlType::Q8_0);
    let mean_square = row.iter().fold(0.0, |sum, number| sum + number * number) / row.len() as f32;
    for (block, (numbers, out)) in row.chunks_exact(len).zip(out.chunks_exact_mut(size)).enumerate() {
        let importance = importance.map(|importance| &importance[block * len..][..len]);
        let is_finite = match kind {
            GgmlType::F32 => {
                out.copy_from_slice(&numbers[0].to_le_bytes());
                true
            }
            GgmlType::F16 => {
                out.copy_from_slice(&f16::from_f32(numbers[0]).to_le_bytes());
                f16::from_f32(numbers[0]).is_finite()
            }
            GgmlType::Bf16 => {
                out.copy_from_slice(&bf16::from_f32(numbers[0]).to_le_bytes());
                bf16::from_f32(numbers[0]).is_finite()
            }
            GgmlType::Q4K | GgmlType::Q5K => {
                nested::encode_affine(kind, numbers, importance, out);
                has_finite_factors(kind, out)
            }
            GgmlType::Q6K => {
                nested::encode_q6(numbers, importance, out);
                has_finite_factors(kind, out)
            }
            GgmlType::Q2K | GgmlType::Q3K | GgmlType::Iq4Nl | GgmlType::Iq4Xs => {
                return Err(Error::input(format!("{} is only read, not written", kind.name())));
            }
            GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::Q5_0 | GgmlType::Q5_1 | GgmlType::Q8_0 => {
                let weights = importance.map(|importance| simple::weights(numbers, importance, mean_square));
                simple::encode(kind, numbers, weights.as_ref().map(|weights| &weights[..]), out);
                has_finite_factors(kind, out)
            }
        };
        if !is_finite {
            let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
            let first = block * len;
            return Err(Error::format(format!("a weight from input {first} on is as large as {largest:e}"))
                .hint(format!("{} has no form for such numbers; is the model damaged?", kind.name())));
        }
    }
    Ok(())
}

fn has_finite_factors(kind: GgmlType, block: &[u8]) -> bool {
    let [scale, minimum] = factors(kind, block);
    scale.is_finite() && minimum.is_finite()
}

/// A number in float16 at byte `at`.
fn write_half(out: &mut [u8], at: usize, number: f32) {
    out[at..at + 2].copy_from_slice(&f16::from_f32(number).to_le_bytes());
}
