//! What the lesson's cells show: tables and figures of what was measured.

use quantlab::polars::prelude::{Column, DataFrame};

use quantlab::error::{Error, Result};
use quantlab::model::{Architecture, Loaded, Weights};
use quantlab::report::{Summary, Table};

use super::{ExperimentResult, ExperimentRow, FormatQuality, FormatSpeed, MIB};
use crate::figure::largest_magnitude;

/// The weights of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleLayer {
    /// As the model calls it.
    pub name: String,
    /// Outputs, inputs.
    pub shape: Vec<usize>,
    /// Row by row.
    pub weights: Vec<f32>,
}

/// The first matrix of the first feed-forward part of a model, in full precision.
///
/// # Errors
/// A model without such a layer, or whose files cannot be read.
pub fn sample_layer(loaded: &Loaded) -> Result<SampleLayer> {
    let is_sample = |name: &str| name.contains(".mlp.");
    let layer = loaded.model.tensors().iter().find(|tensor| is_sample(&tensor.name) && tensor.shape.len() == 2);
    let layer = layer.ok_or_else(|| Error::input(format!("{} has no layer called mlp", loaded.model_id)))?;
    let files = loaded.files.as_ref().ok_or_else(|| Error::input("the model was not loaded from files"))?;
    // GPT-2's files have inputs before outputs.
    let is_transposed = loaded.model.info().architecture == Architecture::Gpt2;
    let shape = (layer.shape[0], layer.shape[1]);
    let weights = Weights::open(&files.weights, true)?.matrix(&layer.name, shape, is_transposed)?;
    Ok(SampleLayer { name: layer.name.clone(), shape: layer.shape.clone(), weights })
}

/// How weights are distributed once each is divided by the largest magnitude in its block: the middle of each of `bins` equal
/// parts from -1 to 1, and the density there.
pub fn scaled_density(weights: &[f32], blocksize: usize, bins: usize) -> Vec<(f64, f64)> {
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
    let mut ratios: Vec<f64> = weights.chunks(blocksize.max(1)).map(ratio).filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
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
    shares
}

/// Where a model's memory goes, in MiB: embeddings and head; matrices of the layers; biases, normalisations and causal masks;
/// scales of quantized weights. The first three are the footprint.
pub fn memory_parts_mib(loaded: &Loaded) -> [f64; 4] {
    let mut bytes = [0, 0, 0, loaded.model.info().quant_state_bytes];
    for tensor in loaded.model.tensors().iter().filter(|tensor| tensor.tied_to.is_none()) {
        let is_table = ["wte", "wpe", "embed", "lm_head"].iter().any(|name| tensor.name.contains(name));
        let part = match (is_table, tensor.shape.len()) {
            (true, _) => 0,
            (false, 2) => 1,
            _ => 2,
        };
        bytes[part] += tensor.numel * tensor.element_size;
    }
    bytes.map(|bytes| bytes as f64 / MIB)
}

/// The results of an experiment: a row for each configuration, with the first `characters` characters of each text. A
/// configuration that failed has its error in place of the texts.
pub fn experiment_table(rows: &[ExperimentRow], characters: usize) -> Table {
    let figure =
        |figure: fn(&ExperimentResult) -> f64| rows.iter().map(move |row| row.outcome.as_ref().ok().map(figure));
    let mut table = Table::new("Experiment results")
        .column("Float Precision", "", rows.iter().map(|row| &row.name))
        .column("Memory", "MiB", figure(|result| result.memory_mib))
        .column("Avg Latency", "s", figure(|result| result.avg_latency_s));
    let prompts = rows.iter().filter_map(|row| row.outcome.as_ref().ok()).map(|result| result.outputs.len()).max();
    for prompt in 0..prompts.unwrap_or(1) {
        let text = |row: &ExperimentRow| row.output(prompt).chars().take(characters).collect::<String>();
        table = table.column(format!("Prompt {} Output", prompt + 1), "", rows.iter().map(text));
    }
    table
}

impl ExperimentRow {
    /// The text after a prompt in one line, or the error.
    pub fn output(&self, prompt: usize) -> String {
        match &self.outcome {
            Ok(result) => result.outputs.get(prompt).map(|text| text.trim().replace('\n', " ")).unwrap_or_default(),
            Err(error) => format!("Error: {error}"),
        }
    }
}

/// Memory with scales, decode throughput and KL divergence of formats as a polars data frame: columns `format`,
/// `memory with scales (MiB)`, `decode (tokens/s)` and `KL divergence (nats)`. The last is missing where a format's
/// quality was not compared; formats are matched by name.
pub fn formats_frame(speed: &[FormatSpeed], quality: &[FormatQuality]) -> Result<DataFrame> {
    let kl = |one: &FormatSpeed| {
        let compared = quality.iter().find(|compared| compared.name == one.name)?;
        Some(compared.comparison.kl_divergence.value)
    };
    let names: Vec<&str> = speed.iter().map(|one| one.name.as_str()).collect();
    let memory: Vec<f64> = speed.iter().map(|one| one.footprint.mib_with_scales()).collect();
    let decode: Vec<f64> = speed.iter().map(|one| one.timing.decode_tokens_per_s.median).collect();
    let kl: Vec<Option<f64>> = speed.iter().map(kl).collect();
    Ok(DataFrame::new(
        speed.len(),
        vec![
            Column::new("format".into(), names),
            Column::new("memory with scales (MiB)".into(), memory),
            Column::new("decode (tokens/s)".into(), decode),
            Column::new("KL divergence (nats)".into(), kl),
        ],
    )?)
}

/// The findings of the lesson in words, from the numbers of this run: memory and decode of the first four formats (baseline,
/// INT8, NF4, FP4), and the quality of the formats that the baseline was compared with.
///
/// # Errors
/// Something was not measured.
pub fn formats_summary(speed: &[FormatSpeed], quality: &[FormatQuality]) -> Result<Summary> {
    let [plain, int8, nf4, fp4, ..] = speed else {
        return Err(Error::input("the four formats have not been timed yet"));
    };
    let percent = |one: &FormatSpeed| 100.0 * one.footprint.mib() / plain.footprint.mib();
    let by_bytes = |one: &FormatSpeed| plain.bytes_per_token as f64 / one.bytes_per_token as f64;
    let overlap = |a: &FormatSpeed, b: &FormatSpeed| {
        let do_overlap = a.timing.decode_tokens_per_s.overlaps(&b.timing.decode_tokens_per_s);
        if do_overlap { "their intervals overlap" } else { "their intervals do not overlap" }
    };
    let summary = Summary::new("What this run shows")
        .point(format!(
            "Footprint at this size: {:.0} MiB in full precision, {:.0} MiB ({:.0} %) in INT8, {:.0} MiB ({:.0} %) in NF4, \
             {:.0} MiB in FP4.",
            plain.footprint.mib(),
            int8.footprint.mib(),
            percent(int8),
            nf4.footprint.mib(),
            percent(nf4),
            fp4.footprint.mib()
        ))
        .point(format!(
            "Decode: {:.2} times the baseline's throughput in INT8 ({}), {:.2} in NF4, {:.2} in FP4 (NF4 against FP4: {}).",
            int8.decode_speed_up(plain),
            overlap(int8, plain),
            nf4.decode_speed_up(plain),
            fp4.decode_speed_up(plain),
            overlap(nf4, fp4)
        ))
        .point(format!(
            "If only the bytes counted, INT8 would decode {:.2} times as fast as the baseline, and NF4 {:.2} times.",
            by_bytes(int8),
            by_bytes(nf4)
        ));
    Ok(quality.iter().fold(summary, |summary, FormatQuality { name, comparison, .. }| {
        summary.point(format!(
            "{name}: KL divergence {} nats, perplexity {:+.2} %, the same top token at {} % of the positions.",
            comparison.kl_divergence,
            100.0 * (comparison.perplexity_ratio.value - 1.0),
            comparison.same_top_token * 100.0
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{LoadOptions, load_model};
    use quantlab::quant::{FourBit, QuantizationConfig};

    #[test]
    fn the_parts_are_the_footprint_and_the_scales() {
        for quantization in [None, Some(QuantizationConfig::nf4())] {
            let loaded = load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap();
            let footprint = loaded.footprint();
            let parts = memory_parts_mib(&loaded);
            assert!((parts[..3].iter().sum::<f64>() - footprint.mib()).abs() < 1e-9);
            assert!((parts.iter().sum::<f64>() - footprint.mib_with_scales()).abs() < 1e-9);
        }
    }

    #[test]
    fn shares_and_densities_add_up() {
        let blocks = [(vec![0x07, 0x7f], 1.0), (vec![0xff], 2.0)];
        let shares = code_shares(&blocks, FourBit::Nf4.codebook());
        let used: Vec<(f32, f64)> = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
        assert_eq!(used.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [-1.0, 0.0, 1.0]);
        assert!((used.iter().map(|(_, share)| share).sum::<f64>() - 100.0).abs() < 1e-9 && used[2].1 == 50.0);
        assert!(code_shares(&[], FourBit::Nf4.codebook()).is_empty());
        let weights: Vec<f32> = (0..640).map(|i| (i as f32 * 0.7).sin()).collect();
        let density = scaled_density(&weights, 64, 50);
        assert!((density.iter().map(|(_, density)| density * 0.04).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((typical_absmax(&weights, 64) - 2_f64.sqrt()).abs() < 0.05);
    }

    #[test]
    fn a_configuration_that_failed_has_its_error_in_the_table() {
        let good =
            ExperimentResult { memory_mib: 2.5, avg_latency_s: 0.5, outputs: vec!["one\ntwo".into(), "b".into()] };
        let rows = [
            ExperimentRow { name: "FP32".into(), outcome: Ok(good) },
            ExperimentRow { name: "INT8".into(), outcome: Err(Error::system("no memory")) },
        ];
        let csv = experiment_table(&rows, 5).to_csv_string().unwrap();
        assert_eq!(csv.lines().nth(1), Some("FP32,2.5,0.5,one t,b"));
        assert_eq!(csv.lines().nth(2), Some("INT8,,,Error,Error"));
        assert_eq!(experiment_table(&[], 5).rows(), 0);
    }
}
