//! Decode beside what memory allows: formats timed in turns, as tables and pictures.

use super::configurations::{names_a_format, row_of};
use super::{Configuration, ExperimentRow, FormatQuality, MIB};
use quantlab::error::{Error, Result};
use quantlab::measure::{RunInfo, Statistics, Timing, TimingOptions};
use quantlab::model::{Loaded, load_model};
use quantlab::report::{Estimate, LinePlot, Summary, Table, TradeOff};

use crate::attempt;
pub use crate::formats::FormatRow as FormatSpeed;
use crate::formats::{decode_intervals, measured_on};
use crate::tables::{milliseconds, told_apart};

/// A model in each configuration; none, and a line that says why, where one cannot be loaded.
pub fn load_all(model_id: &str, all: &[Configuration]) -> Vec<Loaded> {
    attempt(|| all.iter().map(|one| load_model(&[model_id], &one.options)).collect())
}

/// Times models that take turns, each under the name of its configuration.
///
/// # Errors
/// Not as many models as configurations; as [`FormatSpeed::in_turn`].
pub fn time_formats<'a>(
    formats: &[Configuration],
    models: impl IntoIterator<Item = &'a Loaded>,
    prompt: &str,
    options: &TimingOptions,
) -> Result<Vec<FormatSpeed>> {
    let models: Vec<&Loaded> = models.into_iter().collect();
    if models.len() != formats.len() {
        return Err(Error::input(format!("{} models for {} configurations", models.len(), formats.len()))
            .hint("load one model for each configuration"));
    }
    let named: Vec<(&str, &Loaded)> = formats.iter().map(|one| one.name.as_str()).zip(models).collect();
    FormatSpeed::in_turn(&named, prompt, options)
}

/// The latency of the experiment beside the one of runs that took turns, for the configurations that both have, and how many
/// times as fast as the first of them each was, round by round.
///
/// # Errors
/// Rows that did not take turns.
pub fn latency_table(rows: &[ExperimentRow], speed: &[FormatSpeed]) -> Result<Table> {
    let once = |one: &FormatSpeed| {
        let row = rows.iter().find(|row| row.name == one.name)?;
        Some(1e3 * row.outcome.as_ref().ok()?.avg_latency_s)
    };
    let in_turns = |one: &FormatSpeed| milliseconds(one.timing.runs.latency_s);
    let is_inside = |one: &FormatSpeed| match once(one) {
        Some(once) if (in_turns(one).low..=in_turns(one).high).contains(&once) => "inside",
        Some(_) => "outside",
        None => "",
    };
    let ratios = ratios(speed, |one, first| first.runs.ratio_to(&one.runs))?;
    let table = Table::new("The same latency, measured twice")
        .column("format", "", speed.iter().map(|one| &one.name))
        .column("in the experiment", "ms", speed.iter().map(once))
        .column("taking turns", "ms", speed.iter().map(in_turns))
        .column("the first in the interval", "", speed.iter().map(is_inside))
        .column("times as fast as the baseline", "", ratios.iter().map(|ratio| ratio.map(Estimate::from)))
        .column("so it is", "", ratios.iter().map(|ratio| ratio.map_or("", told_apart)));
    Ok(table.note(note(speed)).note(intervals(speed)))
}

/// Decode beside what memory allows: bytes that each token reads, the measured rate, the part of memory's limit that it
/// reached, how many times as fast as the first row it was, both round by round, and the time to the first token.
///
/// # Errors
/// Rows that did not take turns.
pub fn decode_table(speed: &[FormatSpeed]) -> Result<Table> {
    let each = || speed.iter().map(|one| &one.timing);
    let ratios = ratios(speed, |one, first| one.times_as_fast_as(first))?;
    let table = Table::new("Decode beside what memory allows")
        .column("format", "", speed.iter().map(|one| &one.name))
        .column("read for a token", "MiB", speed.iter().map(|one| one.bytes_per_token as f64 / MIB))
        .column("decode", "tokens/s", each().map(|timing| timing.decode_tokens_per_s))
        .column("of memory's limit", "%", each().map(|timing| timing.of_limit.map(|part| Estimate::from(part) * 100.0)))
        .decimals("of memory's limit", 0)
        .column("times the first row", "", ratios.iter().map(|ratio| ratio.map(Estimate::from)))
        .decimals("times the first row", 2)
        .column("so it is", "", ratios.iter().map(|ratio| ratio.map_or("", told_apart)))
        .column("prompt", "ms", each().map(|timing| timing.ttft_ms));
    Ok(table.note(note(speed)).note(intervals(speed)).note(memory(speed)))
}

/// The same as a picture: tokens per second over the bytes that each reads, and the line of memory bandwidth.
///
/// # Errors
/// A model that reads nothing.
pub fn decode_plot(speed: &[FormatSpeed]) -> Result<LinePlot> {
    let mib = |one: &FormatSpeed| one.bytes_per_token as f64 / MIB;
    let mut plot = LinePlot::new("Decode, and what memory allows")
        .x("weights and scales for a token", "MiB")
        .y("decode", "tokens/s")
        .log_x()
        .log_y()
        .intervals(decode_intervals(speed));
    let ends = speed.iter().map(mib).fold((f64::INFINITY, 0.0_f64), |(low, high), mib| (low.min(mib), high.max(mib)));
    if let Some(gb_per_s) = speed.first().and_then(|one| one.timing.gb_per_s) {
        let limit = |mib: f64| (mib, gb_per_s.median * 1e9 / (mib * MIB));
        plot = plot.theory("memory bandwidth", [limit(0.8 * ends.0), limit(1.25 * ends.1)])?;
    }
    for one in speed {
        plot = plot.series(short_name(&one.name), [(mib(one), one.timing.decode_tokens_per_s)])?;
    }
    Ok(plot.note(note(speed)).note(memory(speed)))
}

/// The decode rates of the first row's engine over the memory that each format takes, with the formats that no other one
/// beats. (Another engine computes the same numbers from the same memory: its points would stand below their twins.)
///
/// # Errors
/// As [`TradeOff::point`].
pub fn speed_trade_off(speed: &[FormatSpeed]) -> Result<TradeOff> {
    let empty = TradeOff::new("What memory costs in speed, at GPT-2's size")
        .x("memory with scales", "MiB")
        .y("decode", "tokens/s")
        .higher_is_better()
        .intervals(decode_intervals(speed));
    let same_engine = by_the_first_engine(speed);
    let plot = same_engine.iter().try_fold(empty, |plot, FormatSpeed { name, footprint, timing, .. }| {
        plot.point(short_name(name), footprint.mib_with_scales(), timing.decode_tokens_per_s)
    })?;
    let note = RunInfo::of_all(same_engine.iter().map(|one| &one.timing.run));
    Ok(plot.note(format!("{note} | taking turns")))
}

fn by_the_first_engine(speed: &[FormatSpeed]) -> Vec<&FormatSpeed> {
    let first = speed.first().map(|one| &one.timing.run.engine);
    speed.iter().filter(|one| Some(&one.timing.run.engine) == first).collect()
}

/// How many times as fast as the first row the one of this name, or with it in its name, decoded, round by round; NaN
/// without such a row.
pub fn speed_up_of(name: &str, speed: &[FormatSpeed]) -> f64 {
    let row = row_of(speed, |one| one.name.as_str(), name);
    let ratio = row.zip(speed.first()).and_then(|(one, first)| one.timing.times_as_fast_as(&first.timing).ok());
    ratio.map_or(f64::NAN, |ratio| ratio.median)
}

/// The decode rate of the row of this name, or with it in its name, in tokens per second, if there is one.
pub fn decode_rate_of(name: &str, speed: &[FormatSpeed]) -> Option<f64> {
    Some(row_of(speed, |one| one.name.as_str(), name)?.timing.decode_tokens_per_s.median)
}

/// A ratio of each row to the first one; none for that itself.
fn ratios(
    speed: &[FormatSpeed],
    ratio: impl Fn(&Timing, &Timing) -> Result<Statistics>,
) -> Result<Vec<Option<Statistics>>> {
    let Some((first, others)) = speed.split_first() else { return Ok(Vec::new()) };
    let others = others.iter().map(|one| ratio(&one.timing, &first.timing).map(Some));
    std::iter::once(Ok(None)).chain(others).collect()
}

fn intervals(speed: &[FormatSpeed]) -> String {
    let name = decode_intervals(speed);
    if name.is_empty() { name } else { format!("[]: {name}; ratios are made round by round") }
}

/// The bandwidth of the same rounds.
fn memory(speed: &[FormatSpeed]) -> String {
    let rate = speed.first().and_then(|one| one.timing.gb_per_s);
    rate.map_or_else(String::new, |rate| format!("memory bandwidth in the same rounds, GB/s: {rate:.1}"))
}

/// The formats that no other one beats, in memory and quality and in memory and decode (of the first row's engine), by the
/// learner's function.
pub fn fronts(
    quality: &[FormatQuality],
    speed: &[FormatSpeed],
    pareto_front: impl Fn(&[(f64, f64)]) -> Vec<usize>,
) -> Summary {
    let names = |points: Vec<(&String, (f64, f64))>| {
        let values: Vec<(f64, f64)> = points.iter().map(|(_, point)| *point).collect();
        let front = pareto_front(&values).into_iter().filter_map(|index| points.get(index));
        front.map(|(name, _)| short_name(name)).collect::<Vec<_>>().join("; ")
    };
    let of_quality = quality
        .iter()
        .filter(|one| one.is_pictured())
        .map(|one| (&one.name, (one.footprint.mib_with_scales(), one.comparison.kl_divergence.value)))
        .collect();
    let seconds = |one: &FormatSpeed| 1.0 / one.timing.decode_tokens_per_s.median;
    let point = |one: &FormatSpeed| (one.footprint.mib_with_scales(), seconds(one));
    let of_speed = by_the_first_engine(speed).into_iter().map(|one| (&one.name, point(one))).collect();
    Summary::new("What no other format beats")
        .point(format!("in memory and KL divergence: {}", names(of_quality)))
        .point(format!("in memory and decode: {}", names(of_speed)))
}

/// A format's name, short enough for pictures: without what stands in brackets, unless that is the format.
pub fn short_name(name: &str) -> String {
    let short: String = name.split(" (").map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
    if names_a_format(name) && !names_a_format(&short) { name.to_owned() } else { short }
}

/// What the formats were timed on.
fn note(speed: &[FormatSpeed]) -> String {
    format!("{} | taking turns", measured_on(speed))
}

#[cfg(test)]
mod tests {
    use super::super::{ExperimentResult, formats_frame, formats_summary};
    use super::*;
    use quantlab::model::{LoadOptions, load_model};

    #[test]
    fn short_names_have_no_brackets() {
        assert_eq!(short_name("NF4 (bitsandbytes, 4-bit), by libtorch"), "NF4, by libtorch");
        assert_eq!((short_name("BF16"), short_name("FP32 (Baseline CPU)")), ("BF16".into(), "FP32".into()));
        assert_eq!(short_name("bitsandbytes (NF4)"), "bitsandbytes (NF4)");
    }

    #[test]
    fn speeds_show_as_tables_and_words() {
        let plain = Configuration::new("FP32", LoadOptions::default());
        let formats = ["INT8", "NF4", "FP4"].map(|name| Configuration { name: name.to_owned(), ..plain.clone() });
        let formats = [vec![plain], formats.to_vec()].concat();
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let options =
            TimingOptions { max_new_tokens: 2, warmup: 0, repeats: 2, bandwidth: true, ..TimingOptions::default() };
        assert!(time_formats(&formats, [&loaded], "Sam", &options).is_err());
        let mut speed = time_formats(&formats, [&loaded; 4], "Sam", &options).unwrap();
        let table = decode_table(&speed).unwrap();
        assert!(table.rows() == 4 && table.to_text().contains("memory bandwidth in the same rounds"));
        assert!(decode_plot(&speed).unwrap().to_svg().unwrap().contains("memory bandwidth"));
        let summary = formats_summary(&speed, &[]).unwrap().to_string();
        assert!(summary.contains("(100 %) in INT8") && !summary.contains("By libtorch"), "{summary}");
        assert_eq!(speed_up_of("FP32", &speed), 1.0);
        assert!(speed_up_of("FP16", &speed).is_nan() && decode_rate_of("NF4", &speed).is_some_and(|rate| rate > 0.0));
        // Names that the check of `configurations` takes.
        let names = ["Baseline, 32 bits", "bitsandbytes int-8", "4-bit NF4 (no INT8)", "FP4 (not NF4)"];
        speed.iter_mut().zip(names).for_each(|(one, name)| one.name = name.to_owned());
        for (format, at) in [("FP32", 0), ("INT8", 1), ("NF4", 2), ("FP4", 3)] {
            assert_eq!(decode_rate_of(format, &speed), Some(speed[at].timing.decode_tokens_per_s.median));
            assert_eq!(row_of(&speed, |one| one.name.as_str(), format).unwrap().name, names[at]);
        }
        speed.iter_mut().zip(&formats).for_each(|(one, format)| one.name = format.name.clone());
        assert!(formats_summary(&[], &[]).is_err());
        let frame = formats_frame(&speed, &[]).unwrap();
        assert_eq!((frame.height(), frame.column("KL divergence (nats)").unwrap().null_count()), (4, 4));
        assert!(formats_frame(&[], &[]).unwrap().column("memory with scales (MiB)").unwrap().f64().is_ok());
        let result = ExperimentResult { memory_mib: 1.0, avg_latency_s: 1e6, outputs: Vec::new() };
        let rows = [ExperimentRow { name: "NF4".into(), outcome: Ok(result) }];
        let text = latency_table(&rows, &speed).unwrap().to_text();
        assert!(text.contains("outside") && !text.contains("inside"), "{text}");
        // A row by another engine has no place among memory and speed.
        speed[3].timing.run.engine = "tch".to_owned();
        assert_eq!(speed_trade_off(&speed).unwrap().table().rows(), 3);
        let front = fronts(&[], &speed, |points| vec![points.len() - points.len().min(1)]).to_string();
        assert!(front.ends_with("in memory and decode: NF4"), "{front}");
        assert!(speed_trade_off(&[]).is_ok() && latency_table(&[], &[]).is_ok());
        assert_eq!(decode_table(&[]).unwrap().rows(), 0);
    }
}
