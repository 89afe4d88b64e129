//! Tables, plots and findings of the lesson, made from the numbers of a run.

use quantlab::error::Result;
use quantlab::measure::{BUILD, Bandwidth, DecodeLimit, Runs, Statistics, Timing};
use quantlab::model::{Engine, Loaded, threads};
use quantlab::report::{BarPlot, Estimate, Summary, Table};

use super::{CacheRun, LengthRun, PrecisionRun, SweepConfig};
use crate::tables::{WithRuns, intervals_of, milliseconds, new_tokens_of, small_print, tokens_computed, tokens_saved};

/// New tokens of the runs of a table, in its title.
fn new_tokens(runs: Option<&Runs>) -> String {
    let run = runs.and_then(|runs| runs.runs.first());
    run.map_or_else(String::new, |run| format!(": {} new tokens", run.tokens_generated))
}

/// The prompt-length sweep: latency, throughput, and time per token of each row.
pub fn lengths_table(rows: &[LengthRun], loaded: &Loaded) -> Table {
    let first = rows.first().map(|row| &row.runs);
    Table::new(format!("Prompt-length sweep{}", new_tokens(first)))
        .column("prompt", "tokens", rows.iter().map(|row| row.prompt_tokens))
        .with_runs(rows.iter().map(|row| &row.runs), loaded)
        .column("per new token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
}

/// t(n, m) = prefill + (m - 1) decode steps, beside the measurement: the formula takes every step to cost what the
/// first one did.
pub fn latency_formula_table(timings: &[Timing]) -> Table {
    let mut table = Table::new("The formula against the measurement").headings([
        ("prompt", "tokens"),
        ("new", "tokens"),
        ("prefill", "ms"),
        ("first decode step", "ms"),
        ("formula", "ms"),
        ("measured", "ms"),
        ("measured / formula", ""),
    ]);
    for timing in timings {
        let [prefill, step, ..] = timing.token_ms[..] else { continue };
        let new_tokens = timing.token_ms.len();
        let formula = prefill + (new_tokens - 1) as f64 * step;
        let measured = milliseconds(timing.runs.latency_s);
        let ratio = measured * formula.recip();
        table = table.row((timing.prompt_tokens, new_tokens, prefill, step, formula, measured, ratio));
    }
    match timings.first() {
        Some(timing) => table.note(timing.note()),
        None => table,
    }
}

/// What the cache saves: tokens computed by the formula, times as measured, and both ratios.
pub fn cache_table(rows: &[CacheRun], loaded: &Loaded) -> Result<Table> {
    let first = rows.first().map(|row| &row.with_cache);
    let lengths = || rows.iter().map(|row| (row.prompt_tokens, new_tokens_of(&row.with_cache)));
    let measured = rows.iter().map(|row| row.without_cache.ratio_to(&row.with_cache)).collect::<Result<Vec<_>>>()?;
    Ok(Table::new(format!("What the KV cache saves{}", new_tokens(first)))
        .column("prompt", "tokens", rows.iter().map(|row| row.prompt_tokens))
        .column("computed with cache", "tokens", lengths().map(|(n, m)| tokens_computed(n, m).0))
        .column("without", "tokens", lengths().map(|(n, m)| tokens_computed(n, m).1))
        .column("formula", "times", lengths().map(|(n, m)| tokens_saved(n, m)))
        .decimals("formula", 1)
        .column("with cache", "ms", rows.iter().map(|row| milliseconds(row.with_cache.latency_s)))
        .column("without cache", "ms", rows.iter().map(|row| milliseconds(row.without_cache.latency_s)))
        .column("measured", "times", measured)
        .note(small_print(loaded, first)))
}

/// The precision sweep of several models, with the limit that memory sets to each row.
///
/// # Errors
/// A model's rows did not take turns.
pub fn precision_table(
    models: &[(&str, &[PrecisionRun])],
    config: &SweepConfig,
    bandwidth: &Bandwidth,
) -> Result<Table> {
    let first = models.iter().find_map(|(_, rows)| rows.first()).map(|row| &row.runs);
    let mut table = Table::new(format!("Precision sweep{}", new_tokens(first))).headings([
        ("model", ""),
        ("requested", ""),
        ("used", ""),
        ("read per token", "MB"),
        ("throughput", "tokens/s"),
        ("against the first row", "times"),
        ("memory's limit", "tokens/s"),
        ("of the limit", "%"),
    ]);
    for (model, rows) in models {
        for (index, (row, requested)) in rows.iter().zip(&config.precisions).enumerate() {
            let limit = DecodeLimit::on(config.device, row.bytes_per_token, bandwidth);
            let against = if index == 0 { None } else { Some(row.speed_up_over(&rows[0])?) };
            table = table.row((
                *model,
                *requested,
                &row.label,
                row.bytes_per_token as f64 / 1e6,
                row.runs.tokens_per_s,
                against,
                limit.map(|limit| limit.tokens_per_s()),
                limit.map(|limit| 100.0 * limit.fraction(row.runs.tokens_per_s.median)),
            ));
        }
    }
    Ok(table.decimals("of the limit", 0).decimals("memory's limit", 0).note(format!(
        "{} | {} | {} threads | {BUILD} build | {} | {bandwidth}",
        Engine::for_device(config.device),
        config.device,
        threads(),
        intervals_of(first),
    )))
}

/// Throughput by precision, with the limits that memory sets.
pub fn precision_plot(
    size: &str,
    rows: &[PrecisionRun],
    config: &SweepConfig,
    bandwidth: &Bandwidth,
) -> Result<BarPlot> {
    let named = || {
        rows.iter().zip(&config.precisions).map(|(row, requested)| match row.label == **requested {
            true => (row.label.clone(), row),
            false => (format!("{requested}: {}", row.label), row),
        })
    };
    let limit = |row: &PrecisionRun| DecodeLimit::on(config.device, row.bytes_per_token, bandwidth);
    let limits = named().filter_map(|(name, row)| Some((name, limit(row)?.tokens_per_s())));
    let plot = BarPlot::new(format!("{size}: throughput by precision"))
        .y("throughput", "tokens/s")
        .bars(named().map(|(name, row)| (name, row.runs.tokens_per_s)))?
        .limits("memory bandwidth", limits)?;
    let intervals = Statistics::interval_names(rows.iter().map(|row| &row.runs.tokens_per_s));
    let (engine, device) = (Engine::for_device(config.device), config.device);
    Ok(plot.intervals(intervals).note(format!("{engine} | {device} | {} threads | {BUILD} build", threads())))
}

/// The same generation on several engines.
pub fn engines_table(engines: &[Loaded], timings: &[Timing], bandwidth: &Bandwidth) -> Table {
    let rows = || engines.iter().zip(timings);
    let reached = |(loaded, timing): (&Loaded, &Timing)| {
        let info = loaded.model.info();
        let limit = DecodeLimit::on(info.device, info.bytes_per_token, bandwidth)?;
        Some(100.0 * limit.fraction(timing.decode_tokens_per_s.median))
    };
    let table = Table::new("The same model on each engine")
        .column("engine", "", rows().map(|(loaded, _)| loaded.model.info().engine.name()))
        .column("device", "", rows().map(|(loaded, _)| loaded.model.info().device.to_string()))
        .column("used", "", rows().map(|(loaded, _)| &loaded.dtype_label))
        .column("prefill (TTFT)", "ms", rows().map(|(_, timing)| timing.ttft_ms))
        .column("decode", "tokens/s", rows().map(|(_, timing)| timing.decode_tokens_per_s))
        .column("of memory's limit", "%", rows().map(reached));
    let Some(timing) = timings.first() else { return table };
    table.decimals("of memory's limit", 0).note(format!(
        "{} | {} threads | {BUILD} build | prompt of {} tokens, {} new | {} | {bandwidth}",
        timing.run.model,
        threads(),
        timing.prompt_tokens,
        timing.token_ms.len(),
        intervals_of(Some(&timing.runs)),
    ))
}

/// Two measurements of the same thing at two times: a drift that the interval of neither one shows.
pub fn drift_summary(early: Option<&Runs>, late: Option<&Runs>) -> Summary {
    let summary = Summary::new("The same measurement at two times");
    let (Some(early), Some(late)) = (early, late) else { return summary.point("not measured yet") };
    let (early, late) = (early.latency_s, late.latency_s);
    let range = |seconds: Statistics| {
        let Estimate { value, low, high } = milliseconds(seconds);
        format!("{value:.2} ms [{low:.2}, {high:.2}]")
    };
    let verdict = if early.overlaps(&late) {
        "The intervals overlap: this time, no drift can be seen"
    } else {
        "The intervals do not overlap, although nothing was changed: neither covers what the machine did in between"
    };
    summary
        .point(format!("First {}, now {}: {:.2} times as long.", range(early), range(late), late.median / early.median))
        .point(format!(
            "{verdict}. Between numbers from different times, only a difference far beyond both intervals would be a \
             finding."
        ))
}

/// What the lesson's experiments showed, in words made from their numbers.
///
/// # Errors
/// The rows of the precision sweep did not take turns.
pub fn latency_summary(
    sweep: &[LengthRun],
    phases: &[Timing],
    cache: &[CacheRun],
    rows: &[PrecisionRun],
) -> Result<Summary> {
    let mut summary = Summary::new("What this run shows");
    if let [first, .., last] = sweep {
        summary = summary.point(format!(
            "From {} to {} prompt tokens, {} new tokens took about {:.1} times as long; throughput went from {:.0} to {:.0} \
             tokens/s.",
            first.prompt_tokens,
            last.prompt_tokens,
            new_tokens_of(&first.runs),
            last.runs.latency_s.median / first.runs.latency_s.median,
            first.runs.tokens_per_s.median,
            last.runs.tokens_per_s.median,
        ));
    }
    for timing in phases {
        summary = summary.point(format!(
            "After a prompt of {} tokens, prefill took {:.0}% of the time of {} new tokens.",
            timing.prompt_tokens,
            0.1 * timing.ttft_ms.median / timing.runs.latency_s.median, // ms to s, in percent
            timing.token_ms.len(),
        ));
    }
    if let Some(CacheRun { prompt_tokens, with_cache, without_cache }) = cache.last() {
        summary = summary.point(format!(
            "After a prompt of {prompt_tokens} tokens, generating without the cache took {:.1} times as long, where {:.1} \
             times as many tokens were computed.",
            without_cache.ratio_to(with_cache)?.median,
            tokens_saved(*prompt_tokens, new_tokens_of(with_cache)),
        ));
    }
    if let [base, others @ ..] = rows {
        for row in others {
            let ratio = row.speed_up_over(base)?;
            let verdict = match (ratio.low > 1.0, ratio.high < 1.0) {
                (true, _) => "faster",
                (_, true) => "slower",
                _ => "not told apart, since the interval contains 1",
            };
            summary = summary.point(format!(
                "{} against {}, reading {:.2} times the bytes: {ratio:.2} times the throughput ({verdict}).",
                row.label,
                base.label,
                row.bytes_per_token as f64 / base.bytes_per_token as f64,
            ));
        }
    }
    if sweep.is_empty() && rows.is_empty() { Ok(summary.point("not measured yet")) } else { Ok(summary) }
}
