//! Pictures of the lesson, made from the numbers of a run.

use quantlab::error::Result;
use quantlab::measure::{RunInfo, Runs, Statistics};
use quantlab::model::Loaded;
use quantlab::report::{BarPlot, LinePlot};

use super::report::machine;
use super::{CacheRun, LengthRun, PrecisionRun, SweepConfig};
use crate::tables::new_tokens_of;

fn latency_of(runs: Option<&Runs>) -> String {
    format!("latency of {} new tokens", runs.map_or(0, new_tokens_of))
}

/// Runs of the same thing, each as a point, at one or several times; those that were not made yet are left out.
///
/// # Errors
/// None in practice: times are finite.
pub fn runs_plot(title: &str, times: &[(&str, Option<&Runs>)], loaded: &Loaded) -> Result<LinePlot> {
    let made = || times.iter().filter_map(|(name, runs)| Some((*name, (*runs)?)));
    let plot = LinePlot::new(title)
        .x("run", "")
        .y(latency_of(made().next().map(|(_, runs)| runs)), "s")
        .y_from_zero(false)
        .note(format!("{} | the axis does not start at 0", RunInfo::of(loaded)));
    made().try_fold(plot, |plot, (name, runs)| plot.runs(name, runs.runs.iter().map(|run| run.total_latency_s)))
}

/// Latency by prompt length.
///
/// # Errors
/// None in practice: times are finite.
pub fn latency_plot(rows: &[LengthRun], loaded: &Loaded) -> Result<LinePlot> {
    let of = latency_of(rows.first().map(|row| &row.runs));
    length_plot("Latency by prompt length", &of, "s", rows, |runs| runs.latency_s, loaded)
}

/// Throughput by prompt length.
///
/// # Errors
/// None in practice: rates are finite.
pub fn throughput_plot(rows: &[LengthRun], loaded: &Loaded) -> Result<LinePlot> {
    length_plot("Throughput by prompt length", "throughput", "tokens/s", rows, |runs| runs.tokens_per_s, loaded)
}

fn length_plot(
    title: &str,
    y: &str,
    unit: &str,
    rows: &[LengthRun],
    figure: fn(&Runs) -> Statistics,
    loaded: &Loaded,
) -> Result<LinePlot> {
    let points: Vec<(usize, Statistics)> = rows.iter().map(|row| (row.prompt_tokens, figure(&row.runs))).collect();
    Ok(LinePlot::new(title)
        .x("prompt length", "tokens")
        .y(y, unit)
        .intervals(Statistics::interval_names(points.iter().map(|(_, statistics)| statistics)))
        .points("", points)?
        .note(RunInfo::of(loaded)))
}

/// Latency by prompt length with and without the KV cache.
///
/// # Errors
/// None in practice: times are finite.
pub fn cache_savings_plot(rows: &[CacheRun], loaded: &Loaded) -> Result<LinePlot> {
    let points = |runs: fn(&CacheRun) -> &Runs| rows.iter().map(move |row| (row.prompt_tokens, runs(row).latency_s));
    Ok(LinePlot::new("What the KV cache saves")
        .x("prompt length", "tokens")
        .y(latency_of(rows.first().map(|row| &row.with_cache)), "s")
        .series("with KV cache", points(|row| &row.with_cache))?
        .series("without", points(|row| &row.without_cache))?
        .log_y()
        .intervals(Statistics::interval_names(rows.iter().map(|row| &row.with_cache.latency_s)))
        .note(format!("{} | the vertical axis is logarithmic", RunInfo::of(loaded))))
}

/// Decode in each precision, with the limit that memory set to it: its bytes at the median of the rounds' bandwidth.
///
/// # Errors
/// None in practice: rates are finite.
pub fn precision_plot(model: &str, rows: &[PrecisionRun], config: &SweepConfig) -> Result<BarPlot> {
    let named = || {
        rows.iter().zip(&config.precisions).map(|(row, requested)| match row.label == **requested {
            true => (row.label.clone(), row),
            false => (format!("{requested}: {}", row.label), row),
        })
    };
    let limit = |row: &PrecisionRun| {
        let memory = Statistics::of(&row.gb_per_s).ok()?;
        Some(1e9 * memory.median / row.bytes_per_token as f64)
    };
    let limits = named().filter_map(|(name, row)| Some((name, limit(row)?)));
    Ok(BarPlot::new(format!("{model}: decode by precision"))
        .y("decode", "tokens/s")
        .bars(named().map(|(name, row)| (name, row.runs.tokens_per_s)))?
        .limits("memory's limit", limits)?
        .intervals(Statistics::interval_names(rows.iter().map(|row| &row.runs.tokens_per_s)))
        .note(machine(config)))
}
