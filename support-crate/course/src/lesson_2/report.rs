//! Tables and plots of the lesson, made from the numbers of a run.

use quantlab::error::Result;
use quantlab::generate::PaddingSide;
use quantlab::measure::{RunInfo, Runs, Statistics};
use quantlab::model::{Loaded, calibrate};
use quantlab::quant::{CalibrationMethod, Granularity, LayerCalibration};
use quantlab::report::{BarPlot, Estimate, LinePlot, Table, show_together};

use super::findings::{batch_gain, int8_gain};
use super::self_checks::{ablation_claims, batching_claims, edge_claims, formats_claims};
use super::{AblationRun, BatchRun, EdgeRun, FormatRow, Int8Vector, ModelPpl, Prediction, ScenarioRun};
use crate::formats::{decode_intervals, measured_on};
use crate::tables::{BY_ROUND, WithRuns, intervals_of, milliseconds};

/// 1,024 one-sided numbers on both grids, and what a dot product of each with a row of weights, on a symmetric grid, gives.
///
/// # Errors
/// Those of the functions.
pub fn int8_table(
    symmetric: impl Fn(&[f32]) -> Result<Int8Vector>,
    affine: impl Fn(&[f32]) -> Result<Int8Vector>,
    dot: impl Fn(&Int8Vector, &Int8Vector) -> Result<f32>,
) -> Result<Table> {
    // From -2 to 2, in another order for each step.
    let spread = |i: usize, step: usize| (i * step % 1021) as f32 / 1021.0 * 4.0 - 2.0;
    let gelu = |x: f32| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x.powi(3))).tanh());
    let numbers: Vec<f32> = (0..1024).map(|i| gelu(spread(i, 577))).collect();
    let weights: Vec<f32> = (0..1024).map(|i| 0.05 * spread(i, 313) + 0.01).collect();
    let row = symmetric(&weights)?;
    let vectors = [symmetric(&numbers)?, affine(&numbers)?];
    let exact: f64 = numbers.iter().zip(&weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
    let products = vectors.iter().map(|vector| Ok(f64::from(dot(vector, &row)?))).collect::<Result<Vec<_>>>()?;
    let errors =
        vectors.iter().map(|vector| Ok(100.0 * vector.relative_error(&numbers)?)).collect::<Result<Vec<_>>>()?;
    Ok(Table::new("One row of inputs and one of weights in int8")
        .column("inputs", "", ["symmetric", "affine"])
        .column("scale", "", vectors.iter().map(|vector| vector.scale))
        .column("zero point", "", vectors.iter().map(|vector| i64::from(vector.zero_point)))
        .column("rounding error", "%", errors)
        .column("dot product", "", products.iter().copied())
        .column("off by", "%", products.iter().map(|product| 100.0 * (product / exact - 1.0)))
        .note(format!(
            "1,024 numbers | in float: {exact:.4} | rounding error: root mean square (RMS), relative to that of the numbers"
        )))
}

/// Layers whose inputs have the most extreme outliers on these prompts: `most` of them, by the largest magnitude as a
/// multiple of what 99.9 % of the inputs lie within.
///
/// # Errors
/// As [`calibrate`].
pub fn outliers_table(baseline: &Loaded, prompts: &[&str], most: usize) -> Result<Table> {
    let by = |method| calibrate(baseline, prompts, method, Granularity::PerTensor);
    let (absmax, percentile) = (by(CalibrationMethod::AbsMax)?, by(CalibrationMethod::Percentile(99.9))?);
    let mut layers = Vec::new();
    for layer in absmax.layers() {
        layers.push((layer, percentile.layer(&layer.layer)?.largest_unclipped()));
    }
    let times = |&(layer, end): &(&LayerCalibration, f32)| layer.absmax / end;
    layers.sort_by(|a, b| times(b).total_cmp(&times(a)));
    layers.truncate(most);
    Ok(Table::new(format!("Outliers among the inputs: the worst {} of {} layers", layers.len(), absmax.layers().len()))
        .column("layer", "", layers.iter().map(|(layer, _)| &layer.layer))
        .column("largest input", "", layers.iter().map(|(layer, _)| layer.absmax))
        .column("99.9 % within", "", layers.iter().map(|(_, end)| *end))
        .column("ratio", "times", layers.iter().map(times))
        .decimals("ratio", 1)
        .column("steps left for 99.9 %", "of 127", layers.iter().map(|layer| 127.0 / times(layer)))
        .decimals("steps left for 99.9 %", 0))
}

/// Shows formats of one model that were timed in turn: a table, a plot, what must hold of them, and a prediction of how many
/// times as fast as float32 static int8 decodes.
///
/// # Errors
/// Formats that were not timed in turn; a value that cannot be drawn.
pub fn show_formats(rows: &[FormatRow], prediction: &Prediction) -> Result<()> {
    show_together(|| {
        formats_table(rows)?.evcxr_display();
        formats_plot(rows)?.evcxr_display();
        formats_claims(rows).evcxr_display();
        prediction.against(int8_gain(rows)).evcxr_display();
        Ok(())
    })
}

/// Shows the four settings of cache and padding, and what must hold of them.
///
/// # Errors
/// As [`generate_batch`](quantlab::generate::generate_batch).
pub fn show_ablation(rows: &[AblationRun], loaded: &Loaded, prompts: &[&str], max_new_tokens: usize) -> Result<()> {
    let claims = ablation_claims(rows, loaded, prompts, max_new_tokens)?;
    show_together(|| {
        ablation_table(rows, loaded).evcxr_display();
        claims.evcxr_display();
        Ok(())
    })
}

/// Shows batch sizes of one model or several: a table, a plot, what must hold of the first model's, and a prediction of
/// how many times the throughput its largest batches reach.
///
/// # Errors
/// A value that cannot be drawn.
pub fn show_batching(models: &[(&Loaded, &[BatchRun])], prompts: usize, prediction: &Prediction) -> Result<()> {
    let named: Vec<(&str, &[BatchRun])> = models.iter().map(|(model, rows)| (model.model_id.as_str(), *rows)).collect();
    let Some(&(first, rows)) = models.first() else { return Ok(()) };
    let info = RunInfo::of(first);
    show_together(|| {
        if !rows.is_empty() {
            batching_table(&named, &info).evcxr_display();
            batching_plot(&named, &info)?.evcxr_display();
        }
        batching_claims(rows, prompts).evcxr_display();
        prediction.against(batch_gain(rows)).evcxr_display();
        Ok(())
    })
}

/// Shows prompts at the edge, and what must hold of them.
///
/// # Errors
/// Prompts that were not timed in turn.
pub fn show_edge(rows: &[EdgeRun], loaded: &Loaded) -> Result<()> {
    show_together(|| {
        edge_table(rows, loaded)?.evcxr_display();
        edge_claims(rows).evcxr_display();
        Ok(())
    })
}

/// Formats of one model that were timed in turn, and memory with them: what each takes and reads, its speed, and how much
/// of memory's limit it reached.
///
/// # Errors
/// Formats that were not timed in turn.
fn formats_table(rows: &[FormatRow]) -> Result<Table> {
    let speed_ups = rows.iter().map(|row| row.timing.times_as_fast_as(&rows[0].timing)).collect::<Result<Vec<_>>>()?;
    let reached = rows.iter().map(|row| row.timing.of_limit.map(|part| Estimate::from(part) * 100.0));
    let memory = rows.first().and_then(|row| row.timing.gb_per_s);
    Ok(Table::new("Speed by format")
        .column("format", "", rows.iter().map(|row| &row.name))
        .column("memory", "MiB", rows.iter().map(|row| row.footprint.mib_with_scales()))
        .decimals("memory", 1)
        .column("read", "MB/token", rows.iter().map(|row| row.bytes_per_token as f64 / 1e6))
        .decimals("read", 1)
        .column("prefill", "ms", rows.iter().map(|row| row.timing.ttft_ms))
        .column("decode", "tokens/s", rows.iter().map(|row| row.timing.decode_tokens_per_s))
        .column("times as fast", "", speed_ups)
        .column("of the limit", "%", reached)
        .decimals("of the limit", 0)
        .note(format!("{} | {}", measured_on(rows), intervals_of(rows.first().map(|row| &row.timing.runs))))
        .note(
            memory.map_or_else(String::new, |rate| {
                format!("the limit: memory, read in turn with decode, at {rate:.1} GB/s")
            }),
        )
        .note(format!("times as fast: {BY_ROUND} | 1 MiB is 1.0486 MB")))
}

/// Decode by format, with the limit that memory, measured in the same rounds, sets to each.
///
/// # Errors
/// A value that cannot be drawn.
pub fn formats_plot(rows: &[FormatRow]) -> Result<BarPlot> {
    let limit =
        |row: &FormatRow| Some((row.name.clone(), 1e9 * row.timing.gb_per_s?.median / row.bytes_per_token as f64));
    Ok(BarPlot::new("Decode by format")
        .x("format")
        .y("decode", "tokens/s")
        .bars(rows.iter().map(|row| (row.name.clone(), row.timing.decode_tokens_per_s)))?
        .limits("memory bandwidth", rows.iter().filter_map(limit))?
        .intervals(decode_intervals(rows))
        .note(measured_on(rows)))
}

/// The four settings of cache and padding.
fn ablation_table(rows: &[AblationRun], loaded: &Loaded) -> Table {
    Table::new("Cache and padding: all prompts as one batch")
        .column("setting", "", rows.iter().map(AblationRun::setting))
        .with_runs(rows.iter().map(|row| &row.runs), loaded)
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
}

/// The runs of a setting of cache and padding.
pub(super) fn runs_of(rows: &[AblationRun], use_cache: bool, padding_side: PaddingSide) -> Option<&Runs> {
    rows.iter().find(|row| (row.use_cache, row.padding_side) == (use_cache, padding_side)).map(|row| &row.runs)
}

/// Batch sizes of one model or several: throughput, what a prompt waits, and what it costs.
fn batching_table(models: &[(&str, &[BatchRun])], info: &RunInfo) -> Table {
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
        .note(format!("batch latency: {of_batches} batches, taken as independent"))
        .note(format!("throughput and time per sample: {of_runs} runs"))
}

/// The small print for batches whose models were all run alike. What the weights of one were restored from is not said of
/// all.
fn with_models(info: &RunInfo, models: &[(&str, &[BatchRun])]) -> RunInfo {
    let dtype = info.dtype.split(", restored from").next().unwrap_or_default().to_owned();
    RunInfo { model: models.iter().map(|(model, _)| *model).collect::<Vec<_>>().join(", "), dtype, ..info.clone() }
}

/// Throughput by batch size as a multiple of that of the smallest one, round by round, and what it would be if a step
/// took the same time however many sequences it has. Both axes are logarithmic.
fn batching_plot(models: &[(&str, &[BatchRun])], info: &RunInfo) -> Result<LinePlot> {
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

/// Prompts at the edge: how long each took, beside the first one, and how its text begins.
///
/// # Errors
/// Prompts that were not timed in turn.
fn edge_table(rows: &[EdgeRun], loaded: &Loaded) -> Result<Table> {
    let times = rows.iter().map(|row| row.runs.ratio_to(&rows[0].runs)).collect::<Result<Vec<_>>>()?;
    Ok(Table::new("Prompts at the edge")
        .column("prompt", "", rows.iter().map(|row| &row.name))
        .column("length", "tokens", rows.iter().map(|row| row.prompt_tokens))
        .with_runs(rows.iter().map(|row| &row.runs), loaded)
        .column("against the first row", "times as long", times)
        .note(format!("against the first row: {BY_ROUND}"))
        .column("text", "", rows.iter().map(|row| row.text.escape_debug().take(24).collect::<String>())))
}

/// What was timed, for one table: the same prompts in each format, with its perplexity, a GPU's row if there is one, then
/// cache and padding, then batch sizes.
pub fn scenarios(
    formats: &[ScenarioRun],
    ppl: &[ModelPpl],
    gpu: Option<ScenarioRun>,
    ablation: &[AblationRun],
    batching: &[BatchRun],
) -> Vec<ScenarioRun> {
    let of_model = |row: &ScenarioRun| ppl.iter().find(|ppl| ppl.label == row.dtype).map(|ppl| ppl.ppl);
    let mut rows: Vec<ScenarioRun> =
        formats.iter().map(|row| ScenarioRun { ppl: of_model(row), ..row.clone() }).collect();
    rows.extend(gpu);
    let ablation = ablation.iter().map(|row| (row.setting(), &row.runs));
    let batching = batching.iter().map(|row| (format!("batches of {}", row.batch_size), &row.runs));
    rows.extend(ablation.chain(batching).map(|(scenario, runs)| ScenarioRun::of(scenario, "float32", runs)));
    rows
}
