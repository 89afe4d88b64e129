//! What lesson 5 draws.

use quantlab::error::Result;
use quantlab::measure::Statistics;
use quantlab::model::{Site, SiteNumbers};
use quantlab::report::{BarPlot, Estimate, HeatMap, LinePlot, Table};

use super::layers::{FourBits, Split, attention_in};
use super::{Cure, Format, Per};
use crate::Claims;
use crate::formats::{FormatRow, measured_on};
use crate::tables::{BY_ROUND, intervals_of, median, milliseconds, told_apart};

/// The largest magnitude of each channel of what goes into attention, block by block.
pub fn channels(all: &[SiteNumbers], largest_by_channel: fn(&[f32], usize) -> Vec<f32>) -> Vec<Vec<f32>> {
    attention_in(all).map(|site| largest_by_channel(&site.inputs, site.channel_of_input.len())).collect()
}

/// Channels by blocks, as a picture.
///
/// # Errors
/// As [`HeatMap::row`].
pub fn heat_map(title: &str, rows: &[Vec<f32>]) -> Result<HeatMap> {
    let empty = HeatMap::new(title).x("channel of what goes into attention", "").y("block", "");
    let mut numbered = rows.iter().enumerate();
    numbered.try_fold(empty, |map, (block, row)| map.row(block.to_string(), row.iter().copied()))
}

/// The largest channel over the median of its block, of the block where that is most.
pub fn channel_ratio(rows: &[Vec<f32>]) -> f64 {
    let of = |row: &Vec<f32>| {
        let largest = row.iter().copied().max_by(f32::total_cmp)?;
        Some(f64::from(largest) / median(row.iter().map(|&x| f64::from(x))))
    };
    rows.iter().filter_map(of).fold(f64::NAN, f64::max)
}

/// What goes into which layers, and the peak over the root of the mean square of each block's inputs.
pub type Peaks = (&'static str, Vec<f64>);

/// How far inputs' peaks are above the root of their mean square, in all blocks.
pub fn peaks(all: &[SiteNumbers], peak_to_rms: fn(&[f32]) -> f64) -> Vec<Peaks> {
    let of = |(site, name)| {
        (name, all.iter().filter(|one| one.site == site).map(|one| peak_to_rms(&one.inputs)).collect::<Vec<f64>>())
    };
    SITES.map(of).into_iter().filter(|(_, peaks)| !peaks.is_empty()).collect()
}

/// The median over all blocks, the largest, and where that is.
pub fn peaks_table(peaks: &[Peaks]) -> Table {
    let worst = |all: &[f64]| (0..all.len()).max_by(|a, b| all[*a].total_cmp(&all[*b])).unwrap_or(0);
    Table::new("Peak over root of the mean square")
        .column("what goes into", "", peaks.iter().map(|(name, _)| *name))
        .column("median of all blocks", "", peaks.iter().map(|(_, all)| median(all.iter().copied())))
        .column("largest", "", peaks.iter().map(|(_, all)| all[worst(all)]))
        .column("in block", "", peaks.iter().map(|(_, all)| worst(all)))
}

const SITES: [(Site, &str); 4] = [
    (Site::AttentionIn, "queries, keys and values"),
    (Site::AttentionOut, "attention's output matrix"),
    (Site::MlpIn, "feed-forward part"),
    (Site::MlpOut, "its last matrix"),
];

fn per_words(per: Per) -> &'static str {
    match per {
        Per::Tensor => "tensor",
        Per::Row => "token",
        Per::Column => "channel",
    }
}

/// Roundings of one layer in two models: errors of inputs and of outputs.
pub fn roundings_table(own: &[(Per, f64, f64)], with: &[(Per, f64, f64)]) -> Table {
    Table::new("Inputs in 8 bits: what rounding changes")
        .column("a step for each", "", own.iter().map(|row| per_words(row.0)))
        .column("inputs", "%", own.iter().map(|row| row.1))
        .column("what comes out", "%", own.iter().map(|row| row.2))
        .column("inputs, with outliers", "%", with.iter().map(|row| row.1))
        .column("what comes out, with outliers", "%", with.iter().map(|row| row.2))
}

/// What holds of them.
pub fn roundings_claims(own: &[(Per, f64, f64)], with: &[(Per, f64, f64)]) -> Claims {
    let out = |rows: &[(Per, f64, f64)], per| rows.iter().find(|row| row.0 == per).map(|row| row.2);
    let pair = |per| out(own, per).zip(out(with, per));
    let is_worse = |per| pair(per).map(|(own, with)| with > own);
    Claims::new("Of this layer")
        .that("With a step for the whole tensor, outliers make what comes out worse.", is_worse(Per::Tensor))
        .that("With a step for each token, they do, too.", is_worse(Per::Row))
        .that("With a step for each channel, they change next to nothing.", {
            pair(Per::Column).map(|(own, with)| with < 1.1 * own)
        })
}

/// What comes out of a layer with columns kept apart.
pub fn split_table(rows: &[Split]) -> Table {
    Table::new("LLM.int8(): some columns of inputs as they are, all else in 8 bits")
        .column("threshold", "", rows.iter().map(|row| f64::from(row.0)))
        .column("columns apart", "", rows.iter().map(|row| row.1))
        .column("error of what comes out", "%", rows.iter().map(|row| row.2))
}

/// The error of what comes out over alpha, smoothed and folded, beside that without scales.
///
/// # Errors
/// A number that is not finite.
pub fn smoothed_plot(rows: &[(f32, f64, f64)], without: f64) -> Result<LinePlot> {
    let kept = rows.iter().fold(0.0_f64, |most, row| most.max(row.2));
    let plot = LinePlot::new("How much of the difficulty should move into the weights?")
        .x("alpha", "")
        .y("error of what comes out, in 8 bits", "%")
        .log_y()
        .series("smoothed and folded", rows.iter().map(|row| (f64::from(row.0), row.1)))?;
    if rows.is_empty() || without <= 0.0 {
        return Ok(plot);
    }
    Ok(plot
        .reference_line(without, "no scales")?
        .note(format!("without rounding, what comes out is off by {kept:.0e} % at most")))
}

/// What holds of them.
pub fn smoothed_claims(rows: &[(f32, f64, f64)], without: f64) -> Claims {
    let error = |alpha: f32| rows.iter().find(|row| row.0 == alpha).map(|row| row.1);
    Claims::new("Of this layer, with outliers")
        .that("Without rounding, folded scales change nothing but the last digits.", {
            (!rows.is_empty()).then(|| rows.iter().all(|row| row.2 < 0.01))
        })
        .that("An alpha of 0.5 is better than no scales.", error(0.5).map(|half| half < without))
}

/// The error of int4 over AWQ's power, as a part of that without scales; a line for each layer.
///
/// # Errors
/// A number that is not finite.
pub fn awq_plot(curves: &[(&str, Vec<(f32, f64)>)]) -> Result<LinePlot> {
    let empty = LinePlot::new("AWQ: which power of the mean?")
        .x("power", "")
        .y("error of what comes out, relative to plain int4", "");
    curves.iter().try_fold(empty, |plot, (name, curve)| {
        plot.series(*name, curve.iter().map(|(power, error)| (f64::from(*power), *error)))
    })
}

/// The peak over the root of the mean square of a layer's inputs, as they are and turned.
pub fn turned_claims(peaks: &[f64]) -> Claims {
    let (title, holds) = match peaks {
        [before, after] => (format!("Peak over RMS: {before:.1}, turned {after:.1}"), Some(after < before)),
        _ => ("Peak over RMS".to_owned(), None),
    };
    Claims::new(title).that("Turned inputs stand out less.", holds)
}

/// Inputs and weights in 4 bits, block by block.
///
/// # Errors
/// A number that is not finite.
pub fn four_bit_plot(rows: &[FourBits]) -> Result<LinePlot> {
    LinePlot::new("Inputs and weights in 4 bits, as they are and turned")
        .x("block", "")
        .y("error of what comes out", "%")
        .log_y()
        .series("as they are", rows.iter().map(|row| (row.0 as f64, row.1)))?
        .series("turned", rows.iter().map(|row| (row.0 as f64, row.2)))
}

/// The share of blocks in which turning helps, in percent.
pub fn turned_share(rows: &[FourBits]) -> f64 {
    100.0 * rows.iter().filter(|row| row.2 < row.1).count() as f64 / rows.len() as f64
}

/// What holds of them.
pub fn four_bit_claims(rows: &[FourBits]) -> Claims {
    Claims::new("Of this model's blocks").that(
        "In more than half of the blocks, what comes out of turned inputs and weights is closer.",
        (!rows.is_empty()).then(|| turned_share(rows) > 50.0),
    )
}

/// The cures as a table, in the order that they were measured in.
pub fn cure_table(title: &str, cures: &[Cure]) -> Table {
    let quality = || cures.iter().map(|cure| &cure.quality);
    let table = Table::new(title)
        .column("model", "", cures.iter().map(|cure| cure.name.as_str()))
        .column("KL divergence", "nats", quality().map(|quality| quality.kl_divergence.to_string()))
        .column("perplexity, relative to the base", "", quality().map(|quality| quality.perplexity_ratio.to_string()))
        .column("same top token", "%", quality().map(|quality| (quality.same_top_token * 100.0).to_string()));
    let Some(first) = quality().next() else { return table };
    table
        .note(format!("{} | {} tokens of held-out text", first.base_run, first.tokens))
        .note("\u{b1}: 95% interval, position by position against full precision")
}

/// The KL divergences as a picture, of all that is rounded.
///
/// # Errors
/// A number that is not finite.
pub fn cure_plot(cures: &[Cure]) -> Result<BarPlot> {
    let empty = BarPlot::new("What outliers cost, and what each cure leaves")
        .y("KL divergence from full precision", "nats")
        .log_y()
        .intervals("95% confidence interval");
    let mut rounded = cures.iter().filter(|cure| cure.format != Format::Float32);
    let plot = rounded.try_fold(empty, |plot, cure| plot.bar("", &cure.name, cure.divergence()))?;
    Ok(match cures.first() {
        None => plot,
        Some(first) => plot.note(format!(
            "{} | {} tokens of held-out text | hollow: the second of its colour; names say which have outliers",
            first.quality.base_run, first.quality.tokens
        )),
    })
}

/// The KL divergence of a model, in nats.
pub fn kl_divergence_of(name: &str, cures: &[Cure]) -> Option<f64> {
    cures.iter().find(|cure| cure.name == name).map(|cure| cure.divergence().value)
}

/// The KL divergence of one model as a multiple of another's.
pub fn times(cures: &[Cure], one: &str, other: &str) -> f64 {
    kl_divergence_of(one, cures).zip(kl_divergence_of(other, cures)).map_or(f64::NAN, |(one, other)| one / other)
}

const APART: &str = "On this run, by intervals that lie apart";

/// What outliers cost.
pub fn collapse_claims(cures: &[Cure]) -> Claims {
    let less = |one, other| is_less(cures, one, other);
    let (full, dynamic, fixed) = ("float32, outliers", "dynamic int8, outliers", "static int8, outliers");
    Claims::new(APART)
        .that("In full precision, the outliers cost less than rounding to dynamic int8.", less(full, "dynamic int8"))
        .that("Static int8 is worse with them.", less("static int8", fixed))
        .that("So is dynamic int8.", less("dynamic int8", dynamic))
        .that("A step for each token loses less than one for a tensor.", less(dynamic, fixed))
}

/// What each cure takes back of it.
pub fn cured_claims(cures: &[Cure]) -> Claims {
    let less = |one, other| is_less(cures, one, other);
    let (dynamic, fixed, turned) = ("dynamic int8, outliers", "static int8, outliers", "turned static int8, outliers");
    Claims::new(APART)
        .that("With outliers, LLM.int8() costs less than dynamic int8.", less("LLM.int8(), outliers", dynamic))
        .that("SmoothQuant makes static int8 better.", less("SmoothQuant static int8, outliers", fixed))
        .that("So does the rotation.", less(turned, fixed))
        .that("AWQ makes int4 better.", less("AWQ int4, outliers", "int4, outliers"))
        .that("Turning alone costs less than rounding what was turned.", less("turned float32, outliers", turned))
}

/// Whether one model's interval lies below another's.
fn is_less(cures: &[Cure], one: &str, other: &str) -> Option<bool> {
    let of = |name: &str| cures.iter().find(|cure| cure.name == name).map(Cure::divergence);
    of(one).zip(of(other)).map(|(one, other)| one.high < other.low)
}

/// What reading a prompt takes in each format, and how it compares with the first one, round by round.
///
/// # Errors
/// Rows that were not timed in turn.
pub fn cost_table(rows: &[FormatRow]) -> Result<Table> {
    let ratio =
        |(i, row): (usize, &FormatRow)| (i > 0).then(|| rows[0].timing.runs.ratio_to(&row.timing.runs)).transpose();
    let ratios: Vec<Option<Statistics>> = rows.iter().enumerate().map(ratio).collect::<Result<_>>()?;
    let mib = |row: &FormatRow| row.footprint.mib_with_scales();
    let first = rows.first().map(|row| &row.timing);
    let (tokens, intervals) =
        (first.map_or(0, |timing| timing.prompt_tokens), intervals_of(first.map(|one| &one.runs)));
    Ok(Table::new(format!("Reading a prompt of {tokens} tokens"))
        .column("format", "", rows.iter().map(|row| row.name.as_str()))
        .column("memory", "MiB", rows.iter().map(mib))
        .column("time", "ms", rows.iter().map(|row| milliseconds(row.timing.runs.latency_s)))
        .column("times as fast as the first", "", ratios.iter().map(|ratio| ratio.map(Estimate::from)))
        .column("so it is", "", ratios.iter().map(|ratio| ratio.map_or("", told_apart)))
        .note(measured_on(rows))
        .note(format!("{intervals}, formats in turn; times as fast: {BY_ROUND}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson_5::{Format, Study, Try};
    use quantlab::model::{Fold, LoadOptions, load_model};

    #[test]
    fn channels_stand_out_from_the_median_one() {
        let rows = vec![vec![1.0, 2.0, 8.0], vec![1.0, 1.0, 3.0]];
        assert_eq!(channel_ratio(&rows), 4.0);
        assert!(channel_ratio(&[]).is_nan());
        assert_eq!(heat_map("t", &rows).unwrap().table().rows(), 2);
        let text = peaks_table(&[("a", vec![3.0, 9.0, 4.0])]).to_text();
        assert!(text.contains('4') && text.contains('9') && text.trim_end().ends_with('1'), "{text}");
    }

    #[test]
    fn roundings_alphas_and_blocks_are_compared() {
        let own = Per::ALL.map(|per| (per, 1.0, 1.0));
        let with = [(Per::Tensor, 0.5, 9.0), (Per::Row, 0.5, 4.0), (Per::Column, 0.5, 1.01)];
        assert!(roundings_claims(&own, &with).hold() && !roundings_claims(&with, &own).hold());
        assert!(roundings_claims(&[], &[]).to_string().contains("not measured yet"));
        assert_eq!((roundings_table(&own, &with).rows(), split_table(&[(6.0, 3, 0.5)]).rows()), (3, 1));
        let rows = [(0.0, 3.0, 1e-5), (0.5, 1.0, 1e-5)];
        assert!(smoothed_claims(&rows, 2.0).hold() && !smoothed_claims(&rows, 0.5).hold());
        assert!(smoothed_plot(&rows, 2.0).unwrap().to_svg().unwrap().contains("no scales"));
        assert!(smoothed_plot(&[], 0.0).is_ok());
        assert_eq!(awq_plot(&[("a", vec![(0.0, 1.0), (0.5, 0.7)])]).unwrap().table().rows(), 2);
        let blocks = [(0, 30.0, 10.0), (1, 20.0, 15.0), (2, 9.0, 12.0)];
        assert!((turned_share(&blocks) - 200.0 / 3.0).abs() < 1e-9 && four_bit_claims(&blocks).hold());
        assert!(turned_claims(&[9.0, 4.0]).hold() && !turned_claims(&[4.0, 9.0]).hold() && turned_claims(&[]).hold());
        assert!(four_bit_plot(&blocks).unwrap().to_svg().is_ok() && four_bit_claims(&[]).hold());
    }

    #[test]
    fn models_are_compared_by_intervals_that_lie_apart() {
        let base = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let text = "Once upon a time there lived a fisher who had a small boat. Nobody knew why.";
        let study = Study { calibration: vec![text], texts: vec![text] };
        let tries = [Try::new("int8", Format::DynamicInt8), Try::new("int4", Format::Int4)];
        let cures = study.measured(&base, &tries).unwrap();
        assert!(times(&cures, "int4", "int8") > 1.0 && times(&cures, "int4", "none").is_nan());
        assert_eq!(is_less(&cures, "int8", "int4"), Some(true));
        assert_eq!((is_less(&cures, "int4", "int8"), is_less(&cures, "int8", "none")), (Some(false), None));
        let named = |name: &str, cure: &Cure| Cure { name: name.to_owned(), ..cure.clone() };
        let [little, much] = ["turned static int8, outliers", "static int8, outliers"];
        let cured = |all: [&Cure; 2]| cured_claims(&[named(little, all[0]), named(much, all[1])]).to_string();
        assert!(cured([&cures[0], &cures[1]]).contains("+ So does the rotation"));
        assert!(cured([&cures[1], &cures[0]]).contains("- not so here: So does the rotation"));
        let collapsed = collapse_claims(&[named("static int8", &cures[0]), named(much, &cures[1])]).to_string();
        assert!(collapsed.contains("+ Static int8 is worse") && collapsed.contains("not measured yet: So is"));
        assert_eq!((cure_table("t", &cures).rows(), cure_plot(&cures).unwrap().table().rows()), (2, 2));
        let speed = study.timed(&base, &Fold::outliers(2, 5.0, 1).unwrap(), 3).unwrap();
        let text = cost_table(&speed).unwrap().to_text();
        assert!(text.contains("times as fast") && cost_table(&[]).unwrap().rows() == 0, "{text}");
    }
}
