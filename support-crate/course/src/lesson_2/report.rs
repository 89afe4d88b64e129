//! Tables and plots of the lesson, made from the numbers of a run.

use quantlab::error::{Error, Result};
use quantlab::generate::PaddingSide::{self, Left};
use quantlab::measure::{Bandwidth, RunInfo, Runs, Statistics};
use quantlab::model::Loaded;
use quantlab::report::{BarPlot, LinePlot, Table};

use super::{AblationRun, BatchRun, EdgeRun, FormatRow, Int8Vector};
use crate::formats::{decode_intervals, measured_on};
use crate::tables::{WithRuns, intervals_of, milliseconds, new_tokens_of, small_print, tokens_saved};

/// Numbers and their int8 forms: how far the grids are from them, and what a dot product with `weights` gives.
///
/// # Errors
/// The vectors' lengths differ.
pub fn int8_table(
    numbers: &[f32],
    weights: (&[f32], &Int8Vector),
    inputs: &[(&str, &Int8Vector)],
    dot: impl Fn(&Int8Vector, &Int8Vector) -> Result<f32>,
) -> Result<Table> {
    let exact: f64 = numbers.iter().zip(weights.0).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
    let vectors = || inputs.iter().map(|(_, vector)| *vector);
    let products = vectors().map(|vector| Ok(f64::from(dot(vector, weights.1)?))).collect::<Result<Vec<_>>>()?;
    let errors = vectors().map(|vector| Ok(100.0 * vector.relative_error(numbers)?)).collect::<Result<Vec<_>>>()?;
    let n = numbers.len();
    Ok(Table::new("One row of inputs and one of weights in int8")
        .column("inputs", "", inputs.iter().map(|(name, _)| *name))
        .column("scale", "", vectors().map(|vector| vector.scale))
        .column("zero point", "", vectors().map(|vector| i64::from(vector.zero_point)))
        .column("rounding error", "%", errors)
        .column("dot product", "", products.iter().copied())
        .column("off by", "%", products.iter().map(|product| 100.0 * (product / exact - 1.0)))
        .note(format!(
            "{n} numbers | in float: {exact:.4} | rounding error: root mean square, as a share of the numbers'"
        )))
}

/// Formats of one model that were timed in turn: what each takes and reads, its speed, and its share of what memory
/// allows.
pub fn formats_table(title: &str, rows: &[FormatRow], bandwidth: &Bandwidth) -> Table {
    let reached = |row: &FormatRow| Some(100.0 * row.limit(bandwidth)?.fraction(row.timing.decode_tokens_per_s.median));
    Table::new(title)
        .column("format", "", rows.iter().map(|row| &row.name))
        .column("memory", "MiB", rows.iter().map(|row| row.footprint.mib_with_scales()))
        .decimals("memory", 1)
        .column("read per token", "MB", rows.iter().map(|row| row.bytes_per_token as f64 / 1e6))
        .decimals("read per token", 1)
        .column("prefill", "ms", rows.iter().map(|row| row.timing.ttft_ms))
        .column("decode", "tokens/s", rows.iter().map(|row| row.timing.decode_tokens_per_s))
        .column("memory's limit", "tokens/s", rows.iter().map(|row| Some(row.limit(bandwidth)?.tokens_per_s())))
        .decimals("memory's limit", 1)
        .column("of the limit", "%", rows.iter().map(reached))
        .decimals("of the limit", 0)
        .note(format!(
            "{} | {} | memory with scales | {bandwidth}",
            measured_on(rows),
            intervals_of(rows.first().map(|row| &row.timing.runs))
        ))
}

/// Decode by format, with the limit that memory sets to the first one, which reads the most.
pub fn formats_plot(title: &str, rows: &[FormatRow], bandwidth: &Bandwidth) -> Result<BarPlot> {
    let limits = rows.iter().filter_map(|row| Some((row.name.clone(), row.limit(bandwidth)?.tokens_per_s())));
    Ok(BarPlot::new(title)
        .x("format")
        .y("decode", "tokens/s")
        .bars(rows.iter().map(|row| (row.name.clone(), row.timing.decode_tokens_per_s)))?
        .limits("memory bandwidth", limits)?
        .intervals(decode_intervals(rows))
        .note(measured_on(rows)))
}

/// The four settings of cache and padding.
pub fn ablation_table(rows: &[AblationRun], loaded: &Loaded) -> Table {
    Table::new("Cache and padding: all prompts as one batch")
        .column("setting", "", rows.iter().map(AblationRun::setting))
        .with_runs(rows.iter().map(|row| &row.runs), loaded)
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
}

/// The runs of a setting of cache and padding.
pub(super) fn runs_of(rows: &[AblationRun], use_cache: bool, padding_side: PaddingSide) -> Option<&Runs> {
    rows.iter().find(|row| (row.use_cache, row.padding_side) == (use_cache, padding_side)).map(|row| &row.runs)
}

/// Prompt lengths, each with its runs with the cache and without.
fn with_and_without(rows: &[(usize, Vec<AblationRun>)]) -> Vec<(usize, &Runs, &Runs)> {
    rows.iter()
        .filter_map(|(tokens, rows)| Some((*tokens, runs_of(rows, true, Left)?, runs_of(rows, false, Left)?)))
        .collect()
}

/// What the cache saves at each prompt length: by counting tokens, and as measured.
pub fn cache_savings_table(rows: &[(usize, Vec<AblationRun>)], loaded: &Loaded) -> Result<Table> {
    let rows = with_and_without(rows);
    let times = rows.iter().map(|(_, with, without)| without.ratio_to(with)).collect::<Result<Vec<_>>>()?;
    Ok(Table::new("What the KV cache saves")
        .column("prompt", "tokens", rows.iter().map(|(tokens, _, _)| *tokens))
        .column("with cache", "ms", rows.iter().map(|(_, with, _)| milliseconds(with.latency_s)))
        .column("without", "ms", rows.iter().map(|(_, _, without)| milliseconds(without.latency_s)))
        .column("tokens saved", "times", rows.iter().map(|(n, with, _)| tokens_saved(*n, new_tokens_of(with))))
        .decimals("tokens saved", 1)
        .column("time saved", "times", times)
        .note(small_print(loaded, rows.first().map(|(_, with, _)| *with))))
}

/// Latency by prompt length, with the cache and without, on logarithmic axes.
pub fn cache_plot(rows: &[(usize, Vec<AblationRun>)], loaded: &Loaded) -> Result<LinePlot> {
    let rows = with_and_without(rows);
    let new_tokens = rows.first().map_or_else(|| "the".to_owned(), |(_, with, _)| new_tokens_of(with).to_string());
    Ok(LinePlot::new("What the KV cache saves")
        .x("prompt length", "tokens")
        .y(format!("latency of {new_tokens} new tokens"), "ms")
        .series("with KV cache", rows.iter().map(|(tokens, with, _)| (*tokens, milliseconds(with.latency_s))))?
        .series("without", rows.iter().map(|(tokens, _, without)| (*tokens, milliseconds(without.latency_s))))?
        .intervals(Statistics::interval_names(
            rows.iter().flat_map(|(_, with, without)| [&with.latency_s, &without.latency_s]),
        ))
        .log_x()
        .log_y()
        .note(RunInfo::of(loaded)))
}

/// Batch sizes of one model or several: throughput, what a prompt waits, and what it costs.
pub fn batching_table(models: &[(&str, &[BatchRun])], info: &RunInfo) -> Table {
    let named = || models.iter().flat_map(|(model, rows)| rows.iter().map(|row| (*model, row)));
    let rows = || named().map(|(_, row)| row);
    let of_runs = Statistics::interval_names(rows().map(|row| &row.runs.latency_s));
    let of_batches = Statistics::interval_names(rows().map(|row| &row.batch_latency_s));
    Table::new("Batching")
        .column("model", "", named().map(|(model, _)| model))
        .column("batch size", "", rows().map(|row| row.batch_size))
        .column("throughput", "tokens/s", rows().map(|row| row.runs.tokens_per_s))
        .column("batch latency", "ms", rows().map(|row| milliseconds(row.batch_latency_s)))
        .column("time per sample", "ms", rows().map(|row| milliseconds(row.time_per_sample_s)))
        .note(with_models(info, models))
        .note(format!("batch latency: {of_batches} batches; throughput and time per sample: {of_runs} runs"))
}

/// The small print for batches whose models were all run alike.
fn with_models(info: &RunInfo, models: &[(&str, &[BatchRun])]) -> RunInfo {
    RunInfo { model: models.iter().map(|(model, _)| *model).collect::<Vec<_>>().join(", "), ..info.clone() }
}

/// Throughput by batch size as a multiple of that of the smallest one, round by round, and what it would be if a step
/// took the same time however many sequences it has. Both axes are logarithmic.
pub fn batching_plot(models: &[(&str, &[BatchRun])], info: &RunInfo) -> Result<LinePlot> {
    let mut plot =
        LinePlot::new("Throughput by batch size").x("batch size", "prompts").y("throughput", "times that of one");
    let (mut sizes, mut ratios) = (Vec::new(), Vec::new());
    for (model, rows) in models {
        let Some(one) = rows.first() else { continue };
        let times = rows.iter().map(|row| one.runs.ratio_to(&row.runs)).collect::<Result<Vec<_>>>()?;
        plot = plot.series(*model, rows.iter().map(|row| row.batch_size).zip(times.iter().copied()))?;
        sizes.extend(rows.iter().map(|row| row.batch_size));
        ratios.extend(times);
    }
    if let (Some(&smallest), Some(&largest)) = (sizes.iter().min(), sizes.iter().max()) {
        let ideal = [smallest, largest].map(|size| (size, size as f64 / smallest as f64));
        plot = plot.theory("if only reading counted", ideal)?;
    }
    Ok(plot.intervals(Statistics::interval_names(&ratios)).log_x().log_y().note(with_models(info, models)))
}

/// What a prompt waits and what it costs, by batch size.
pub fn waiting_plot(rows: &[BatchRun], info: &RunInfo) -> Result<LinePlot> {
    Ok(LinePlot::new("How long a prompt waits, and what it costs")
        .x("batch size", "prompts")
        .y("time", "ms")
        .series("waits: batch latency", rows.iter().map(|row| (row.batch_size, milliseconds(row.batch_latency_s))))?
        .series("costs: time per sample", rows.iter().map(|row| (row.batch_size, milliseconds(row.time_per_sample_s))))?
        .intervals(Statistics::interval_names(
            rows.iter().flat_map(|row| [&row.batch_latency_s, &row.time_per_sample_s]),
        ))
        .log_x()
        .log_y()
        .note(info))
}

/// Tokens that go through the model in prefill, padding included, if prompts are cut into batches of this size in the
/// order given.
///
/// # Errors
/// A batch size of 0; a prompt that cannot be encoded.
pub fn padded_tokens(loaded: &Loaded, prompts: &[&str], batch_size: usize) -> Result<usize> {
    if batch_size == 0 {
        return Err(Error::input("the batch size is 0").hint("give a batch size of at least 1"));
    }
    let lengths =
        prompts.iter().map(|prompt| Ok(loaded.tokenizer.encode(prompt)?.len())).collect::<Result<Vec<_>>>()?;
    Ok(lengths.chunks(batch_size).map(|batch| batch.len() * batch.iter().max().copied().unwrap_or(0)).sum())
}

/// The same prompts, cut into batches in two ways: tokens that go through the model in prefill, and what that takes.
pub fn padding_table(rows: &[(&str, usize, Runs)], loaded: &Loaded) -> Table {
    Table::new("Uneven prompts: as they come, and sorted by length")
        .column("batches", "", rows.iter().map(|(name, _, _)| *name))
        .column("prefill, padding included", "tokens", rows.iter().map(|(_, tokens, _)| *tokens))
        .with_runs(rows.iter().map(|(_, _, runs)| runs), loaded)
}

/// Prompts at the edge, with what stands out.
pub fn edge_table(rows: &[EdgeRun], loaded: &Loaded) -> Table {
    Table::new("Prompts at the edge")
        .column("prompt", "", rows.iter().map(|row| &row.name))
        .column("length", "tokens", rows.iter().map(|row| row.prompt_tokens))
        .with_runs(rows.iter().map(|row| &row.runs), loaded)
        .column("speed", "", rows.iter().map(|row| &row.speed_note))
        .column("text", "", rows.iter().map(|row| &row.text_note))
}
