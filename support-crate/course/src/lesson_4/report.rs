//! What the lesson's cells show: tables and figures of what was measured.

use quantlab::polars::prelude::{Column, DataFrame};

use quantlab::error::{Error, Result};
use quantlab::measure::{Runs, Statistics, Timing};
use quantlab::model::{Engine, Loaded, TensorInfo, threads};
use quantlab::report::{StackedBar, Summary, Table, harmless, significant};

use super::{
    Configuration, ExperimentResult, ExperimentRow, ExperimentSettings, FormatQuality, FormatSpeed, MIB, short_name,
};
use crate::tables::told_apart;
use crate::{ask, attempt};

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

/// The parts of each model's memory as bars, under the names of their configurations.
///
/// # Errors
/// As [`StackedBar::bar`].
pub fn memory_plot(all: &[Configuration], models: &[Loaded]) -> Result<StackedBar> {
    let parts = ["embeddings and head", "layers", "the rest", "scales"];
    let note = models.first().map_or("", |loaded| &loaded.model_id);
    let empty = StackedBar::new("Where the memory goes, at GPT-2's size", parts)
        .y("memory", "MiB")
        .note(format!("{note} | the rest: causal masks, biases, normalisations"));
    let mut bars = all.iter().zip(models);
    bars.try_fold(empty, |plot, (one, loaded)| plot.bar(short_name(&one.name), memory_parts_mib(loaded)))
}

/// Some tensors of a model: its tables, and those of the first layer's feed-forward part.
pub fn tensors_table(title: &str, loaded: &Loaded) -> Table {
    let shown = ["wte", "wpe", "embed_tokens", "lm_head", "h.0.mlp", "layers.0.mlp", "h.0.attn.bias"];
    let is_shown = |name: &str| shown.iter().any(|part| name.contains(part));
    let some = || loaded.model.tensors().iter().filter(|tensor| is_shown(&tensor.name));
    Table::new(title)
        .column("name", "", some().map(|tensor| &tensor.name))
        .column("kind", "", some().map(|tensor| format!("{:?}", tensor.kind)))
        .column("shape", "", some().map(|tensor| format!("{:?}", tensor.shape)))
        .column("numel", "", some().map(|tensor| tensor.numel))
        .column("element_size", "bytes", some().map(|tensor| tensor.element_size))
        .column("tied to", "", some().map(|tensor| tensor.tied_to.clone().unwrap_or_default()))
        .note(&loaded.model_id)
}

/// A model's footprint by the learner's count, beside the library's.
pub fn footprint_table(loaded: &Loaded, count: fn(&[TensorInfo]) -> f64) -> Table {
    let yours = ask(|| Ok(count(loaded.model.tensors()))).ok();
    Table::new("The footprint, counted twice")
        .column("counted by", "", ["your function", "the library"])
        .column("footprint", "MiB", [yours, Some(loaded.footprint().mib())])
        .decimals("footprint", 2)
        .note(&loaded.model_id)
        .note(loaded.footprint())
}

/// The footprint of each model by the learner's count, in MiB; none as long as there is no function.
pub fn footprints(models: &[Loaded], count: fn(&[TensorInfo]) -> f64) -> Vec<f64> {
    attempt(|| Ok(models.iter().map(|loaded| count(loaded.model.tensors())).collect()))
}

/// The footprint of NF4 in percent of the baseline's, where they are the third and the first of four; else NaN.
pub fn nf4_percent(footprints: &[f64]) -> f64 {
    let [plain, _, nf4, _] = footprints else { return f64::NAN };
    100.0 * nf4 / plain
}

/// Prints each prompt with the texts of all rows.
pub fn print_texts(rows: &[ExperimentRow], settings: &ExperimentSettings) {
    for (number, prompt) in settings.prompts.iter().enumerate() {
        println!("[{prompt}]");
        rows.iter().for_each(|row| println!("  {:26} {}", row.name, harmless(&row.output(number))));
    }
    let (computed, all) = (rows.iter().filter(|row| row.outcome.is_ok()).count(), rows.len());
    let failed = if computed < all { format!("; {} failed", all - computed) } else { String::new() };
    println!("{computed} configurations, {} new tokens each{failed}", settings.max_new_tokens);
}

/// The results of an experiment: a row for each configuration, with the first `characters` characters of each text. A
/// configuration that failed has its error in place of the texts.
pub fn experiment_table(rows: &[ExperimentRow], characters: usize, settings: &ExperimentSettings) -> Table {
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
    table.note(format!(
        "{} | {} threads | {} new tokens, mean of {} runs of prompt 1, one row after the other",
        settings.model_id,
        threads(),
        settings.max_new_tokens,
        settings.num_timing_runs
    ))
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
/// INT8, NF4, FP4), decode of the rows by libtorch, and the quality of the formats that the baseline was compared with.
/// Speeds are compared round by round.
///
/// # Errors
/// Something was not measured; rows that did not take turns.
pub fn formats_summary(speed: &[FormatSpeed], quality: &[FormatQuality]) -> Result<Summary> {
    let [plain, int8, nf4, fp4, ..] = speed else {
        return Err(Error::input("the four formats have not been timed yet"));
    };
    let mib = |one: &FormatSpeed| {
        let share = 100.0 * one.footprint.mib() / plain.footprint.mib();
        format!("{:.0} MiB ({share:.0} %)", one.footprint.mib())
    };
    let by_bytes = |one: &FormatSpeed| plain.bytes_per_token as f64 / one.bytes_per_token as f64;
    let decode = |one: &FormatSpeed, other: &FormatSpeed| one.timing.times_as_fast_as(&other.timing);
    let mut summary = Summary::new("What this run shows").point(format!(
        "Footprint at GPT-2's size: {:.0} MiB in full precision, {} in INT8, {} in NF4, {} in FP4.",
        plain.footprint.mib(),
        mib(int8),
        mib(nf4),
        mib(fp4)
    ));
    for one in [int8, nf4, fp4] {
        summary = summary.point(format!(
            "{} decodes {} the baseline; if only the bytes counted, it would be {:.2} times.",
            short_name(&one.name),
            times(decode(one, plain)?),
            by_bytes(one)
        ));
    }
    summary = summary
        .point(format!("NF4 decodes {} INT8, and {} FP4.", times(decode(nf4, int8)?), times(decode(nf4, fp4)?)))
        .point(format!(
            "The prompt: INT8 reads it {} the baseline, NF4 {} the baseline.",
            times(prompt_ratio(&int8.timing, &plain.timing)?),
            times(prompt_ratio(&nf4.timing, &plain.timing)?)
        ));
    let by_libtorch: Vec<&FormatSpeed> = speed
        .iter()
        .filter(|one| one.timing.run.engine == Engine::Tch.name() && one.timing.run.device.is_cpu())
        .collect();
    if let Some((first, others)) = by_libtorch.split_first().filter(|_| plain.timing.run.engine != Engine::Tch.name()) {
        for one in others {
            summary = summary.point(format!(
                "{} decodes {} {}.",
                short_name(&one.name),
                times(decode(one, first)?),
                short_name(&first.name)
            ));
        }
    }
    Ok(quality.iter().filter(|one| !one.is_noise_floor()).fold(summary, |summary, one| {
        let comparison = &one.comparison;
        summary.point(format!(
            "{}: KL divergence {} nats, perplexity {}, the same top token at {} % of the positions.",
            one.name,
            comparison.kl_divergence,
            change(comparison.perplexity_ratio.value),
            comparison.same_top_token * 100.0
        ))
    }))
}

/// How many times as fast as `other` the first new token came, round by round.
fn prompt_ratio(one: &Timing, other: &Timing) -> Result<Statistics> {
    let seconds = |timing: &Timing| -> Vec<f64> {
        let decode: &[_] = timing.decode_runs.as_ref().map_or(&[], |Runs { runs, .. }| runs);
        timing.runs.runs.iter().zip(decode).map(|(run, decode)| run.total_latency_s - decode.total_latency_s).collect()
    };
    Statistics::of(&seconds(one).iter().zip(seconds(other)).map(|(one, other)| other / one).collect::<Vec<_>>())
}

/// A ratio as a change in percent, or as a factor where it is large.
fn change(ratio: f64) -> String {
    match ratio {
        small if small < 2.0 => format!("{:+.2} %", 100.0 * (small - 1.0)),
        large => format!("{} times the baseline's", significant(large, 3)),
    }
}

fn times(ratio: Statistics) -> String {
    format!("{ratio:.2} times as fast ({}) as", told_apart(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{LoadOptions, load_model};
    use quantlab::quant::QuantizationConfig;

    #[test]
    fn the_parts_are_the_footprint_and_the_scales() {
        for quantization in [None, Some(QuantizationConfig::nf4())] {
            let loaded = load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap();
            let footprint = loaded.footprint();
            let parts = memory_parts_mib(&loaded);
            assert!((parts[..3].iter().sum::<f64>() - footprint.mib()).abs() < 1e-9);
            assert!((parts.iter().sum::<f64>() - footprint.mib_with_scales()).abs() < 1e-9);
            let table = footprint_table(&loaded, |tensors| tensors.len() as f64);
            let counted = [loaded.model.tensors().len() as f64, footprint.mib()];
            let csv = table.to_csv_string().unwrap();
            let shown = csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap());
            assert_eq!(shown.collect::<Vec<_>>(), counted, "{csv}");
        }
    }

    #[test]
    fn a_large_change_is_a_factor() {
        assert_eq!([1.02, 0.9999, 35_035.4].map(change), ["+2.00 %", "-0.01 %", "35,035 times the baseline's"]);
    }

    #[test]
    fn a_configuration_that_failed_has_its_error_in_the_table() {
        let good =
            ExperimentResult { memory_mib: 2.5, avg_latency_s: 0.5, outputs: vec!["one\ntwo".into(), "b".into()] };
        let rows = [
            ExperimentRow { name: "FP32".into(), outcome: Ok(good) },
            ExperimentRow { name: "INT8".into(), outcome: Err(Error::system("no memory")) },
        ];
        let settings = ExperimentSettings {
            model_id: "m".into(),
            prompts: vec!["p".into(); 2],
            max_new_tokens: 5,
            num_timing_runs: 3,
        };
        let table = experiment_table(&rows, 5, &settings);
        assert!(table.to_text().contains("5 new tokens, mean of 3 runs"));
        let csv = table.to_csv_string().unwrap();
        assert_eq!(csv.lines().nth(1), Some("FP32,2.5,0.5,one t,b"));
        assert_eq!(csv.lines().nth(2), Some("INT8,,,Error,Error"));
        assert_eq!(experiment_table(&[], 5, &settings).rows(), 0);
    }
}
