//! One layer's weights: how they are distributed, and how often codes stand for them.

use quantlab::error::Result;
use quantlab::model::Loaded;
use quantlab::quant::{E2M1, FourBit, FourBitOptions, INT4, Int8Rows, Quantized4Bit, round_to_codebook};
use quantlab::report::{BarPlot, LinePlot, RugPlot, Table};

use crate::attempt;
use crate::figure::largest_magnitude;
use crate::layer;
use crate::tables::median;

/// The weights of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleLayer {
    /// The model's id.
    pub model_id: String,
    /// As the model calls it.
    pub name: String,
    /// Outputs, inputs.
    pub shape: Vec<usize>,
    /// Row by row.
    pub weights: Vec<f32>,
}

/// A learner's function that quantizes a block with a codebook: the packed codes, and absmax.
pub type QuantizeBlock = fn(&[f32], &[f32; 16]) -> (Vec<u8>, f32);

/// Quantized blocks of 64 weights: the packed codes and absmax of each.
pub type Blocks = Vec<(Vec<u8>, f32)>;

/// The first matrix of the first feed-forward part of a model, in full precision.
///
/// # Errors
/// A model without such a layer, or whose files cannot be read.
pub fn sample_layer(loaded: &Loaded) -> Result<SampleLayer> {
    let (name, [rows, columns], weights) = layer::matrix(loaded, ".mlp.")?;
    Ok(SampleLayer { model_id: loaded.model_id.clone(), name, shape: vec![rows, columns], weights })
}

/// How weights are distributed once each is divided by the largest magnitude in its block: the middle of each of `bins` equal
/// parts from -1 to 1, and the density there.
pub(super) fn scaled_density(weights: &[f32], blocksize: usize, bins: usize) -> Vec<(f64, f64)> {
    let width = 2.0 / bins as f64;
    let mut density = vec![0.0; bins];
    for block in weights.chunks(blocksize.max(1)) {
        let absmax = largest_magnitude(block).max(f32::MIN_POSITIVE);
        for weight in block {
            let bin = (f64::from(weight / absmax) + 1.0) / width;
            density[(bin as usize).min(bins - 1)] += 1.0 / (weights.len() as f64 * width);
        }
    }
    density.iter().enumerate().map(|(bin, density)| ((bin as f64 + 0.5) * width - 1.0, *density)).collect()
}

/// The ratio of a block's largest magnitude to the root mean square of its weights: the median over all blocks.
pub fn typical_absmax(weights: &[f32], blocksize: usize) -> f64 {
    let ratio = |block: &[f32]| {
        let square: f64 = block.iter().map(|weight| f64::from(*weight).powi(2)).sum();
        f64::from(largest_magnitude(block)) / (square / block.len() as f64).sqrt()
    };
    median(weights.chunks(blocksize.max(1)).map(ratio).filter(|ratio| ratio.is_finite()))
}

/// The share of each code among the packed codes of blocks, in percent, from the smallest number of the codebook to the
/// largest: the number and its share. Empty if there are no blocks.
pub fn code_shares(blocks: &[(Vec<u8>, f32)], codebook: &[f32; 16]) -> Vec<(f32, f64)> {
    let mut counts = [0_usize; 16];
    let codes = blocks.iter().flat_map(|(packed, _)| packed).flat_map(|byte| [byte >> 4, byte & 15]);
    codes.for_each(|code| counts[usize::from(code)] += 1);
    let total: usize = counts.iter().sum();
    if total == 0 {
        return Vec::new();
    }
    let mut shares: Vec<(f32, f64)> =
        codebook.iter().zip(counts).map(|(number, count)| (*number, 100.0 * count as f64 / total as f64)).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    shares.dedup_by(|next, kept| {
        next.0 == kept.0 && {
            kept.1 += next.1;
            true
        }
    });
    shares
}

impl SampleLayer {
    /// What its pictures and tables are about.
    pub fn note(&self) -> String {
        format!("{}, {}", self.model_id, self.name)
    }

    /// The layer's blocks as the learner's function quantizes them; none as long as it is not written.
    pub fn quantized_by(&self, quantize: QuantizeBlock, format: FourBit) -> Blocks {
        attempt(|| Ok(self.weights.chunks(64).map(|block| quantize(block, format.codebook())).collect()))
    }

    /// The weights as the learner's function restores them from blocks; none as long as there are no blocks, or it is not
    /// written.
    pub fn restored_by(
        &self,
        dequantize: fn(&[u8], f32, &[f32; 16]) -> Vec<f32>,
        blocks: &Blocks,
        format: FourBit,
    ) -> Vec<f32> {
        let restore = |(packed, absmax): &(Vec<u8>, f32)| dequantize(packed, *absmax, format.codebook());
        attempt(|| Ok(blocks.iter().flat_map(restore).collect()))
    }

    /// How many percent of the weights, each divided by the absmax of its block of 64, have a magnitude from `low` to just
    /// below `high`.
    pub fn percent_between(&self, low: f32, high: f32) -> f64 {
        let inside = |block: &[f32]| {
            let absmax = largest_magnitude(block).max(f32::MIN_POSITIVE);
            block.iter().filter(|weight| (low..high).contains(&(weight.abs() / absmax))).count()
        };
        100.0 * self.weights.chunks(64).map(inside).sum::<usize>() as f64 / self.weights.len() as f64
    }

    /// How far the weights are from themselves after rounding, by the learner's function: in INT8, to the nearest number of
    /// four codebooks in blocks of 64, and, unless it is empty, as the learner restored them from NF4.
    ///
    /// # Errors
    /// As [`Int8Rows::quantize`].
    pub fn rounding_errors(
        &self,
        error: impl Fn(&[f32], &[f32]) -> f64,
        restored: &[f32],
    ) -> Result<Vec<(&'static str, f64)>> {
        let of = |restored: &[f32]| error(&self.weights, restored);
        let codebooks =
            [("NF4", FourBit::Nf4.codebook()), ("E2M1", &E2M1), ("int4", &INT4), ("FP4", FourBit::Fp4.codebook())];
        let int8 = Int8Rows::quantize(&self.weights, self.shape[1])?;
        let mut errors = vec![("INT8", of(&int8.dequantize::<f32>()))];
        errors.extend(codebooks.map(|(name, numbers)| (name, of(&round_to_codebook(&self.weights, numbers, 64)))));
        errors.extend((!restored.is_empty()).then(|| ("NF4, by your functions", of(restored))));
        Ok(errors)
    }

    /// How many bits each weight takes in some formats, scales included.
    ///
    /// # Errors
    /// As [`Quantized4Bit::quantize`].
    pub fn bits_table(&self) -> Result<Table> {
        let nested = FourBitOptions { double_quant: true, ..FourBitOptions::default() };
        let four_bit = |options| Quantized4Bit::quantize(&self.weights, &self.shape, options);
        let bits = |bytes: usize| 8.0 * bytes as f64 / self.weights.len() as f64;
        let int8 = Int8Rows::quantize(&self.weights, self.shape[1])?;
        Ok(Table::new("Bits for each weight of this layer, with scales")
            .headings([("format", ""), ("per weight", "bits")])
            .row(("float32", 32.0))
            .row(("INT8, a scale for each row", bits(int8.size_in_bytes())))
            .row(("NF4 or FP4, blocks of 64", bits(four_bit(FourBitOptions::default())?.size_in_bytes())))
            .row(("the same, double quantization", bits(four_bit(nested)?.size_in_bytes())))
            .decimals("per weight", 3)
            .note(format!("{}: {} weights", self.note(), self.weights.len())))
    }

    /// The weights, each divided by the absmax of its block of 64, above four codebooks of sixteen numbers.
    ///
    /// # Errors
    /// Weights that are NaN or infinite.
    pub fn codebooks_plot(&self) -> Result<RugPlot> {
        let plot = RugPlot::new("Where the weights are, and where the sixteen numbers")
            .x("weight / absmax of its block", "")
            .density("weights", scaled_density(&self.weights, 64, 100))?
            .codebook("NF4", FourBit::Nf4.codebook())?
            .codebook("FP4", FourBit::Fp4.codebook())?
            .codebook("E2M1", &E2M1)?
            .codebook("int4", &INT4[1..])?;
        Ok(plot.note(self.note()))
    }
}

/// The errors of [`SampleLayer::rounding_errors`] as bars.
///
/// # Errors
/// An error that is not finite.
pub fn errors_plot(layer: &SampleLayer, errors: &[(&'static str, f64)]) -> Result<BarPlot> {
    Ok(BarPlot::new("How far restored weights are from the original")
        .y("error, as a share of the weights", "%")
        .bars(errors.iter().copied())?
        .note(format!("{}, blocks of 64; INT8: a scale for each row", layer.note())))
}

/// How often the numbers of some codebooks are used, at these numbers: names and what [`code_shares`] gave.
///
/// # Errors
/// Shares that are not finite.
pub fn codes_plot(layer: &SampleLayer, formats: &[(&str, &Vec<(f32, f64)>)]) -> Result<LinePlot> {
    let plot = LinePlot::new("How often each of the sixteen numbers is used")
        .x("number, as a part of absmax", "")
        .y("share of the weights", "%")
        .reference_line(6.25, "equal use")?
        .note(format!("{}, blocks of 64", layer.note()));
    formats.iter().try_fold(plot, |plot, (name, shares)| plot.stems(*name, shares.iter().copied()))
}

/// The same as a table: the least and the most that a number is used, and the entropy of the codes.
pub fn codes_table(layer: &SampleLayer, formats: &[(&str, &Vec<(f32, f64)>)]) -> Table {
    let used = || formats.iter().filter(|(_, shares)| !shares.is_empty());
    let each = |of: fn(&[(f32, f64)]) -> f64| used().map(move |(_, shares)| of(shares));
    Table::new("Sixteen numbers, and how often each is used")
        .column("format", "", used().map(|(name, _)| *name))
        .column("least", "%", each(|shares| shares.iter().map(|(_, share)| *share).fold(100.0, f64::min)))
        .column("most", "%", each(|shares| shares.iter().map(|(_, share)| *share).fold(0.0, f64::max)))
        .column("entropy, of 4", "bits", each(entropy_bits))
        .note(format!("{}, blocks of 64", layer.note()))
}

/// The entropy of shares in percent.
fn entropy_bits(shares: &[(f32, f64)]) -> f64 {
    let shares = shares.iter().map(|(_, percent)| percent / 100.0).filter(|share| *share > 0.0);
    shares.map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_densities_add_up() {
        let blocks = [(vec![0x07, 0x7f], 1.0), (vec![0xff], 2.0)];
        let shares = code_shares(&blocks, FourBit::Nf4.codebook());
        let used: Vec<(f32, f64)> = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
        assert_eq!(used.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [-1.0, 0.0, 1.0]);
        assert!((used.iter().map(|(_, share)| share).sum::<f64>() - 100.0).abs() < 1e-9 && used[2].1 == 50.0);
        assert!(code_shares(&[], FourBit::Nf4.codebook()).is_empty());
        // FP4 has two codes for 0.
        let zeros = code_shares(&[(vec![0x08, 0x00], 1.0)], FourBit::Fp4.codebook());
        assert_eq!(zeros.len(), 15);
        assert!(zeros.contains(&(0.0, 100.0)), "{zeros:?}");
        let weights: Vec<f32> = (0..640).map(|i| (i as f32 * 0.7).sin()).collect();
        let density = scaled_density(&weights, 64, 50);
        assert!((density.iter().map(|(_, density)| density * 0.04).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((typical_absmax(&weights, 64) - 2_f64.sqrt()).abs() < 0.05);
    }

    #[test]
    fn weights_are_counted_beside_the_largest_of_their_block() {
        let mut weights = vec![0.5; 64];
        weights[..2].copy_from_slice(&[2.0, -1.5]);
        let layer = SampleLayer { model_id: "m".into(), name: "l".into(), shape: vec![1, 64], weights };
        assert_eq!(layer.percent_between(0.2, 0.3), 100.0 * 62.0 / 64.0);
        assert_eq!(layer.percent_between(0.75, 1.0), 100.0 / 64.0);
        assert!(codes_table(&layer, &[("NF4", &Vec::new())]).rows() == 0);
    }

    #[test]
    fn entropy_is_4_bits_where_all_are_used_alike() {
        let equal: Vec<(f32, f64)> = (0..16).map(|code| (code as f32, 6.25)).collect();
        assert!((entropy_bits(&equal) - 4.0).abs() < 1e-12);
        assert!((entropy_bits(&[(0.0, 50.0), (0.5, 25.0), (1.0, 25.0), (2.0, 0.0)]) - 1.5).abs() < 1e-12);
    }
}
