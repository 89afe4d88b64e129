//! Tables of the lesson, made from the numbers of a run.

use quantlab::error::Result;
use quantlab::measure::{BUILD, RunInfo, Runs, Statistics, Timing};
use quantlab::model::{Device, Engine, Loaded, ResolvedDtype, threads};
use quantlab::report::{Estimate, Table};

use super::{CacheRun, LengthRun, PrecisionRun, SweepConfig};
use crate::tables::{WithRuns, intervals_of, milliseconds, new_tokens_of};
use crate::{Claims, Complaint, ask, claim};

/// New tokens of the runs of a table, in its title.
fn new_tokens(runs: Option<&Runs>) -> String {
    let run = runs.and_then(|runs| runs.runs.first());
    run.map_or_else(String::new, |run| format!(": {} new tokens", run.tokens_generated))
}

/// What the learner's function makes of requests on this device.
pub fn dtype_table(resolve_dtype: fn(&str, Device) -> Result<ResolvedDtype>, device: Device) -> Table {
    let label = |name: &str| match ask(|| resolve_dtype(name, device)) {
        Ok(resolved) => resolved.label,
        Err(Complaint::Failed(error)) => format!("refused: {error}"),
        Err(complaint) => complaint.to_string(),
    };
    let names = ["float32", "Float16", "bfloat16", "float7"];
    Table::new("What you ask for, and what you get here")
        .column("requested", "", names)
        .column("label", "", names.map(label))
        .note(format!("on this device: {device}"))
}

/// The prompt-length sweep: latency, throughput, and how many times as long each row took as the one before it.
///
/// # Errors
/// Rows of different numbers of runs.
pub fn lengths_table(rows: &[LengthRun], loaded: &Loaded) -> Result<Table> {
    let first = rows.first().map(|row| &row.runs);
    let before = rows.windows(2).map(|pair| pair[1].runs.ratio_to(&pair[0].runs).map(Some));
    let before = rows.first().map(|_| Ok(None)).into_iter().chain(before).collect::<Result<Vec<_>>>()?;
    Ok(Table::new(format!("Prompt-length sweep{}", new_tokens(first)))
        .column("prompt", "tokens", rows.iter().map(|row| row.prompt_tokens))
        .with_runs(rows.iter().map(|row| &row.runs), loaded)
        .column("latency against the row before", "times", before))
}

/// t(n, m) = prefill + (m - 1) decode steps, beside the measurement. All rows take a step to cost what it cost after the
/// shortest prompt, so that what it costs more after a long one shows.
pub fn latency_formula_table(timings: &[Timing]) -> Table {
    let mut table = Table::new("The formula against the measurement").headings([
        ("prompt", "tokens"),
        ("new", "tokens"),
        ("prefill", "ms"),
        ("decode step", "ms"),
        ("formula", "ms"),
        ("measured", "ms"),
        ("measured / formula", ""),
    ]);
    let step = |timing: &Timing| 1e3 / timing.decode_tokens_per_s.median;
    let Some(shortest) = timings.iter().min_by_key(|timing| timing.prompt_tokens) else { return table };
    for timing in timings {
        let (prefill, new_tokens) = (timing.ttft_ms.median, timing.token_ms.len());
        let formula = prefill + (new_tokens - 1) as f64 * step(shortest);
        let measured = milliseconds(timing.runs.latency_s);
        let ratio = measured * formula.recip();
        table = table.row((timing.prompt_tokens, new_tokens, prefill, step(timing), formula, measured, ratio));
    }
    table.note(shortest.note()).note(format!(
        "formula: every step as after {} tokens; decode step: median of the runs' mean steps; measured: median of \
         whole runs",
        shortest.prompt_tokens
    ))
}

/// What the cache saves: tokens computed (with and without it) as the learner counts them, times as measured, and both
/// ratios.
///
/// # Errors
/// A row has more runs of one kind than of the other.
pub fn cache_table(rows: &[CacheRun], loaded: &Loaded, count: fn(usize, usize) -> (usize, usize)) -> Result<Table> {
    let first = rows.first().map(|row| &row.with_cache);
    let counts: Vec<Option<(usize, usize)>> =
        rows.iter().map(|row| ask(|| Ok(count(row.prompt_tokens, new_tokens_of(&row.with_cache)))).ok()).collect();
    let counts = || counts.iter().copied();
    let measured = rows.iter().map(|row| row.without_cache.ratio_to(&row.with_cache)).collect::<Result<Vec<_>>>()?;
    Ok(Table::new(format!("What the KV cache saves{}", new_tokens(first)))
        .column("prompt", "tokens", rows.iter().map(|row| row.prompt_tokens))
        .column("computed with cache", "tokens", counts().map(|count| Some(count?.0)))
        .column("without", "tokens", counts().map(|count| Some(count?.1)))
        .column("counted", "times", counts().map(|count| count.map(|(with, without)| without as f64 / with as f64)))
        .decimals("counted", 1)
        .column("with cache", "ms", rows.iter().map(|row| milliseconds(row.with_cache.latency_s)))
        .column("without cache", "ms", rows.iter().map(|row| milliseconds(row.without_cache.latency_s)))
        .column("measured", "times", measured)
        .note(RunInfo::of(loaded))
        .note(intervals_of(first)))
}

/// The decode sweep of several models, with the limit that memory sets to each row, and the part of it that the row
/// reached by the learner's count.
///
/// # Errors
/// A model's rows did not take turns.
pub fn precision_table(
    models: &[(&str, &[PrecisionRun])],
    config: &SweepConfig,
    part_of_limit: fn(&PrecisionRun) -> Result<Statistics>,
) -> Result<Table> {
    let first = models.iter().find_map(|(_, rows)| rows.first());
    let mut table =
        Table::new(format!("Decode in each precision{}", new_tokens(first.map(|row| &row.runs)))).headings([
            ("model", ""),
            ("requested", ""),
            ("used", ""),
            ("read per token", "MB"),
            ("decode", "tokens/s"),
            ("against the first row", "times"),
            ("of memory's limit", "%"),
        ]);
    let mut bandwidths = Vec::new();
    for (model, rows) in models {
        bandwidths.extend(rows.first().into_iter().flat_map(|row| row.gb_per_s.clone()));
        for (index, (row, requested)) in rows.iter().zip(&config.precisions).enumerate() {
            let against = if index == 0 { None } else { Some(row.speed_up_over(&rows[0])?) };
            let part = ask(|| part_of_limit(row)).ok();
            table = table.row((
                *model,
                *requested,
                &row.label,
                row.bytes_per_token as f64 / 1e6,
                row.runs.tokens_per_s,
                against,
                part.map(|part| Estimate::from(part) * 100.0),
            ));
        }
    }
    let ends = |(low, high): (f64, f64), rate: &f64| (low.min(*rate), high.max(*rate));
    let (low, high) = bandwidths.iter().fold((f64::INFINITY, 0.0), ends);
    let memory = match bandwidths.is_empty() {
        true => String::new(),
        false => format!(" | memory, over all rounds: {low:.1} to {high:.1} GB/s"),
    };
    let note = format!("{} | {}{memory}", machine(config), intervals_of(first.map(|row| &row.runs)));
    Ok(table.decimals("of memory's limit", 0).note(note))
}

/// The prefill sweep: the time to the first token in each precision.
///
/// # Errors
/// The rows did not take turns.
pub fn prefill_table(prompt_tokens: usize, rows: &[PrecisionRun], config: &SweepConfig) -> Result<Table> {
    let mut table = Table::new(format!("Prefill of {prompt_tokens} tokens in each precision")).headings([
        ("requested", ""),
        ("used", ""),
        ("time to first token", "ms"),
        ("against the first row", "times as fast"),
    ]);
    for (index, (row, requested)) in rows.iter().zip(&config.precisions).enumerate() {
        let against = if index == 0 { None } else { Some(row.speed_up_over(&rows[0])?) };
        table = table.row((*requested, &row.label, milliseconds(row.runs.latency_s), against));
    }
    Ok(table.note(format!("{} | {}", machine(config), intervals_of(rows.first().map(|row| &row.runs)))))
}

/// What a sweep ran on.
pub(super) fn machine(config: &SweepConfig) -> String {
    let engine = Engine::for_device(config.device);
    format!("{engine} | {} | {} threads | {BUILD} build", config.device, threads())
}

/// What the comparison of engines takes for granted.
pub fn engines_claim(engines: &[Loaded]) -> Claims {
    let on_cpu = engines.iter().map(|loaded| loaded.model.info()).filter(|info| info.device.is_cpu());
    let mut bytes = on_cpu.map(|info| info.bytes_per_token);
    let first = bytes.next();
    let same = first.map(|first| bytes.all(|bytes| bytes == first));
    claim("On the CPU, every engine reads the same bytes for each token", same)
}

/// The same generation on several engines, timed with [`bandwidth`](quantlab::measure::TimingOptions::bandwidth).
///
/// # Errors
/// The engines did not take turns.
pub fn engines_table(engines: &[Loaded], timings: &[Timing]) -> Result<Table> {
    let rows = || engines.iter().zip(timings);
    let against = timings.iter().map(|timing| timing.times_as_fast_as(&timings[0])).collect::<Result<Vec<_>>>()?;
    let table = Table::new("The same model on each engine")
        .column("engine", "", rows().map(|(loaded, _)| loaded.model.info().engine.name()))
        .column("device", "", rows().map(|(loaded, _)| loaded.model.info().device.to_string()))
        .column("used", "", rows().map(|(loaded, _)| &loaded.dtype_label))
        .column("read per token", "MB", rows().map(|(loaded, _)| loaded.model.info().bytes_per_token as f64 / 1e6))
        .column("prefill (TTFT)", "ms", timings.iter().map(|timing| timing.ttft_ms))
        .column("decode", "tokens/s", timings.iter().map(|timing| timing.decode_tokens_per_s))
        .column("of memory's limit", "%", timings.iter().map(|timing| Some(Estimate::from(timing.of_limit?) * 100.0)))
        .column("decode against the first row", "times as fast", (0..).zip(against).map(|(i, x)| (i > 0).then_some(x)));
    let Some(timing) = timings.first() else { return Ok(table) };
    Ok(table.decimals("of memory's limit", 0).note(format!(
        "{} | {} threads | {BUILD} build | prompt of {} tokens, {} new | {}",
        timing.run.model,
        threads(),
        timing.prompt_tokens,
        timing.token_ms.len(),
        intervals_of(Some(&timing.runs)),
    )))
}
