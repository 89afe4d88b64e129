//! Decode beside what memory allows: formats timed in turns, as tables and pictures.

use super::{Configuration, ExperimentRow, MIB};
use quantlab::error::{Error, Result};
use quantlab::measure::{Bandwidth, DecodeLimit, TimingOptions};
use quantlab::model::Loaded;
use quantlab::report::{LinePlot, Table, TradeOff};

pub use crate::formats::FormatRow as FormatSpeed;
use crate::formats::{decode_intervals, measured_on};
use crate::tables::milliseconds;

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

/// The latency of the experiment beside the one of runs that took turns, for the configurations that both have.
pub fn latency_table(rows: &[ExperimentRow], speed: &[FormatSpeed]) -> Table {
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
    let baseline = speed.first().map_or(f64::NAN, |one| in_turns(one).value);
    let table = Table::new("The same latency, measured twice")
        .column("format", "", speed.iter().map(|one| &one.name))
        .column("in the experiment", "ms", speed.iter().map(once))
        .column("taking turns", "ms", speed.iter().map(in_turns))
        .column("the first in the interval", "", speed.iter().map(is_inside))
        .column("times as fast as the baseline", "", speed.iter().map(|one| baseline / in_turns(one).value))
        .decimals("times as fast as the baseline", 2);
    table.note(note(speed)).note(decode_intervals(speed))
}

/// Decode beside what memory allows: bytes that each token reads, the measured rate, the limit that bandwidth sets, and
/// the time to the first token.
///
/// # Errors
/// A model that reads nothing.
pub fn decode_table(speed: &[FormatSpeed], bandwidth: &Bandwidth) -> Result<Table> {
    let limits = limits(speed, bandwidth)?;
    let rows = || limits.iter().zip(speed.iter().map(|one| &one.timing));
    let table = Table::new("Decode beside what memory allows")
        .column("format", "", speed.iter().map(|one| &one.name))
        .column("read for a token", "MiB", rows().map(|(limit, _)| limit.bytes_per_token as f64 / MIB))
        .column("decode", "tokens/s", rows().map(|(_, timing)| timing.decode_tokens_per_s))
        .column("limit", "tokens/s", rows().map(|(limit, _)| limit.tokens_per_s()))
        .column("reached", "%", rows().map(|(limit, timing)| 100.0 * limit.fraction(timing.decode_tokens_per_s.median)))
        .decimals("reached", 0)
        .column("prompt", "ms", rows().map(|(_, timing)| timing.ttft_ms));
    Ok(table.note(note(speed)).note(decode_intervals(speed)).note(bandwidth))
}

/// The same as a picture: tokens per second over the bytes that each reads, and the line of memory bandwidth.
///
/// # Errors
/// A model that reads nothing.
pub fn decode_plot(speed: &[FormatSpeed], bandwidth: &Bandwidth) -> Result<LinePlot> {
    let limits = limits(speed, bandwidth)?;
    let bytes = limits.iter().map(|limit| limit.bytes_per_token as f64 / MIB);
    let (least, most) = bytes.fold((f64::INFINITY, 0.0_f64), |(least, most), mib| (least.min(mib), most.max(mib)));
    let mut plot = LinePlot::new("Decode, and what memory allows")
        .x("weights and scales for a token", "MiB")
        .y("decode", "tokens/s")
        .log_x()
        .log_y()
        .intervals(decode_intervals(speed));
    if least <= most {
        let limit = |mib: f64| (mib, bandwidth.gb_per_s * 1e9 / (mib * MIB));
        plot = plot.theory("memory bandwidth", [limit(0.8 * least), limit(1.25 * most)])?;
    }
    for (FormatSpeed { name, timing, .. }, limit) in speed.iter().zip(&limits) {
        plot = plot.series(short_name(name), [(limit.bytes_per_token as f64 / MIB, timing.decode_tokens_per_s)])?;
    }
    Ok(plot.note(note(speed)))
}

fn limits(speed: &[FormatSpeed], bandwidth: &Bandwidth) -> Result<Vec<DecodeLimit>> {
    speed.iter().map(|one| DecodeLimit::new(one.bytes_per_token, bandwidth)).collect()
}

/// The same decode rates over the memory that each format takes, with what other formats dominate shaded.
///
/// # Errors
/// A rate that cannot be drawn.
pub fn speed_trade_off(speed: &[FormatSpeed], _: &Bandwidth) -> Result<TradeOff> {
    let empty = TradeOff::new("What memory costs in speed, at GPT-2's size")
        .x("memory with scales", "MiB")
        .y("decode", "tokens/s")
        .log_x()
        .log_y()
        .higher_is_better()
        .intervals(decode_intervals(speed));
    let plot = speed.iter().try_fold(empty, |plot, FormatSpeed { name, footprint, timing, .. }| {
        plot.point(short_name(name), footprint.mib_with_scales(), timing.decode_tokens_per_s)
    })?;
    Ok(plot.note(note(speed)))
}

/// A format's name, short enough for pictures: without what stands in brackets.
pub fn short_name(name: &str) -> String {
    name.split(" (").map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect()
}

/// What the formats were timed on.
fn note(speed: &[FormatSpeed]) -> String {
    format!("{} | taking turns", measured_on(speed))
}

#[cfg(test)]
mod tests {
    use super::super::{ExperimentResult, formats_frame, formats_summary};
    use super::*;
    use quantlab::measure::Statistics;
    use quantlab::model::{LoadOptions, load_model};

    #[test]
    fn short_names_have_no_brackets() {
        assert_eq!(short_name("NF4 (bitsandbytes, 4-bit), by libtorch"), "NF4, by libtorch");
        assert_eq!((short_name("BF16"), short_name("FP32 (Baseline CPU)")), ("BF16".into(), "FP32".into()));
    }

    #[test]
    fn speeds_show_as_tables_and_words() {
        let plain = Configuration::new("FP32", LoadOptions::default());
        let formats = ["INT8", "NF4", "FP4"].map(|name| Configuration { name: name.to_owned(), ..plain.clone() });
        let formats = [vec![plain], formats.to_vec()].concat();
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let options = TimingOptions { max_new_tokens: 2, warmup: 0, repeats: 1, ..TimingOptions::default() };
        assert!(time_formats(&formats, [&loaded], "Sam", &options).is_err());
        let speed = time_formats(&formats, [&loaded; 4], "Sam", &options).unwrap();
        let passes = Statistics::of(&[1.0]).unwrap();
        let bandwidth = Bandwidth { gb_per_s: 20.0, passes, threads: 1, buffer_bytes: 1 };
        assert_eq!(decode_table(&speed, &bandwidth).unwrap().rows(), 4);
        assert!(decode_plot(&speed, &bandwidth).unwrap().to_svg().is_ok());
        let trade_off = speed_trade_off(&speed, &bandwidth).unwrap();
        assert!(trade_off.to_svg().unwrap().contains("dominated by another choice") && trade_off.table().rows() == 4);
        assert!(speed_trade_off(&[], &bandwidth).is_ok());
        assert!(formats_summary(&speed, &[]).unwrap().to_string().contains("(100 %) in INT8"));
        assert!(formats_summary(&[], &[]).is_err());
        let frame = formats_frame(&speed, &[]).unwrap();
        assert_eq!((frame.height(), frame.column("KL divergence (nats)").unwrap().null_count()), (4, 4));
        assert!(formats_frame(&[], &[]).unwrap().column("memory with scales (MiB)").unwrap().f64().is_ok());
        let result = ExperimentResult { memory_mib: 1.0, avg_latency_s: 1e6, outputs: Vec::new() };
        let rows = [ExperimentRow { name: "NF4".into(), outcome: Ok(result) }];
        let text = latency_table(&rows, &speed).to_text();
        assert!(text.contains("outside") && !text.contains("inside"), "{text}");
        assert_eq!(decode_table(&[], &bandwidth).unwrap().rows(), 0);
    }
}
