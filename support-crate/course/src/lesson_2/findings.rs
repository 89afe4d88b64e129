//! Ways to find int8 scales, compared in quality and speed; and what the numbers of the lesson say, in words.

use quantlab::error::Result;
use quantlab::generate::PaddingSide::{Left, Right};
use quantlab::measure::{QualityComparison, Timing, TimingOptions, Uncertain, compare_quality, noise_floor};
use quantlab::model::Loaded;
use quantlab::report::{Estimate, Summary, Table};

use super::report::runs_of;
use super::{AblationRun, BatchRun, FormatRow};
use crate::formats::time_named;
use crate::tables::intervals_of;

/// One way to find scales: how far the model is from the baseline, and how fast.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalesRow {
    /// The way, in words.
    pub name: String,
    /// Against the baseline; of the baseline itself, against itself on another engine: the noise floor.
    pub quality: QualityComparison,
    /// How fast it was.
    pub timing: Timing,
}

impl ScalesRow {
    /// Compares models with the first one, the baseline, on the texts, and times them in turn on a prompt.
    ///
    /// # Errors
    /// As [`compare_quality`], [`noise_floor`] and [`FormatRow::in_turn`].
    pub fn in_turn(
        models: &[(&str, &Loaded)],
        prompt: &str,
        texts: &[&str],
        timing: &TimingOptions,
    ) -> Result<Vec<Self>> {
        let row = |(index, ((name, loaded), timing)): (usize, (&(&str, &Loaded), Timing))| {
            let quality = match index {
                0 => noise_floor(loaded, texts)?,
                _ => compare_quality(models[0].1, loaded, texts)?,
            };
            Ok(Self { name: (*name).to_owned(), quality, timing })
        };
        models.iter().zip(time_named(models, prompt, timing)?).enumerate().map(row).collect()
    }

    /// Whether the KL divergence tells the model from the baseline: its interval lies above that of the noise floor.
    pub fn told_from(&self, floor: &Self) -> bool {
        let [kl, least] = [self, floor].map(|row| Estimate::from(row.quality.kl_divergence));
        kl.low > least.high
    }
}

/// Quality against the baseline, which is the first row, and speed.
///
/// # Errors
/// Models that were not timed in turn.
pub fn scales_table(title: &str, rows: &[ScalesRow]) -> Result<Table> {
    let of = |figure: fn(&QualityComparison) -> Uncertain| rows.iter().map(move |row| figure(&row.quality));
    let times = rows.iter().map(|row| row.timing.times_as_fast_as(&rows[0].timing)).collect::<Result<Vec<_>>>()?;
    let first = rows.first();
    let tokens = first.map_or(0, |row| row.quality.tokens);
    Ok(Table::new(title)
        .column("scales", "", rows.iter().map(|row| &row.name))
        .column("perplexity", "", of(|it| it.perplexity).map(|of| of.value))
        .decimals("perplexity", 2)
        .column("KL divergence", "nats", of(|it| it.kl_divergence))
        .plus_minus("KL divergence")
        .column("same top token", "%", of(|it| it.same_top_token * 100.0))
        .plus_minus("same top token")
        .column("decode", "times as fast", times)
        .note(first.map_or_else(String::new, |row| format!("{} | {}", row.timing.run, intervals_of(Some(&row.timing.runs)))))
        .note(format!(
            "{tokens} tokens predicted; \u{b1}: 95% intervals | first row: the noise floor (the baseline on another engine)"
        )))
}

/// What the ways to find scales cost in quality, and what the search of the last one, dynamic, costs in speed.
///
/// # Errors
/// Models that were not timed in turn.
pub fn scales_summary(rows: &[ScalesRow]) -> Result<Summary> {
    let mut summary = Summary::new("Scales");
    let Some((floor, others)) = rows.split_first() else { return Ok(summary) };
    for row in others {
        let quality = &row.quality;
        let (kl, ratio, texts) = (quality.kl_divergence, quality.perplexity_ratio, quality.greedy.len());
        let differ = quality.greedy.iter().filter(|text| text.first_difference.is_some()).count();
        let told = if row.told_from(floor) { "above the noise floor" } else { "not above the noise floor" };
        let top = 100.0 * (1.0 - quality.same_top_token.value);
        summary = summary.point(format!(
            "{}: perplexity times {ratio}, KL {kl} nats ({told}); another top token at {top:.1}% of the positions; greedy \
             texts that differ: {differ} of {texts}.",
            row.name
        ));
    }
    if let [fixed, .., dynamic] = others {
        let ratio = fixed.timing.times_as_fast_as(&dynamic.timing)?;
        let verdict = match () {
            () if ratio.low > 1.0 => "faster",
            () if ratio.high < 1.0 => "slower",
            () => "not told apart",
        };
        summary = summary.point(format!(
            "The price of dynamic's search: {} decoded {ratio:.2} times as fast ({verdict}).",
            fixed.name
        ));
    }
    Ok(summary)
}

/// How much of the gain that reading alone would allow was reached by each model's largest batch.
pub fn batching_summary(models: &[(&str, &[BatchRun])]) -> Summary {
    let mut summary = Summary::new("Batches against the theory");
    for (name, rows) in models {
        let (Some(one), Some(most)) = (rows.first(), rows.last()) else { continue };
        let Ok(gain) = most.gain_over(one) else { continue };
        let share = 100.0 * gain.median * one.batch_size as f64 / most.batch_size as f64;
        summary = summary.point(format!(
            "{name}: batches of {} reached {gain:.2} times the throughput, {share:.0}% of the theory's.",
            most.batch_size
        ));
    }
    summary
}

/// What the lesson's numbers say, in words that follow from them. What was not measured is left out.
pub fn quantization_summary(
    formats: &[FormatRow],
    scales: &[ScalesRow],
    ablation: &[AblationRun],
    batching: &[BatchRun],
) -> Summary {
    let points = [formats_point(formats), scales_point(scales), ablation_point(ablation), batching_point(batching)];
    points.into_iter().flatten().fold(Summary::new("What this run shows"), Summary::point)
}

fn formats_point(formats: &[FormatRow]) -> Option<String> {
    let named = |name: &str| formats.iter().find(|row| row.name == name);
    let (float, int8, head) = (named("float32")?, named("static int8")?, named("static int8, head too")?);
    let said = |row: &FormatRow| {
        let bytes = float.bytes_per_token as f64 / row.bytes_per_token as f64;
        let times = row.timing.times_as_fast_as(&float.timing).ok()?;
        Some(format!("reads 1/{bytes:.1} of float32's bytes for a token and decoded {times:.2} times as fast"))
    };
    let prefill = float.timing.ttft_ms.median / int8.timing.ttft_ms.median;
    let (tokens, int8, head) = (float.timing.prompt_tokens, said(int8)?, said(head)?);
    Some(format!(
        "At GPT-2 size, static int8 {int8}; its prefill of {tokens} tokens was {prefill:.1} times as fast (medians). With \
         the head in int8 too, it {head}."
    ))
}

fn scales_point(scales: &[ScalesRow]) -> Option<String> {
    let (floor, others) = scales.split_first()?;
    let kl = |row: &ScalesRow| row.quality.kl_divergence.value;
    let best = others.iter().min_by(|a, b| kl(a).total_cmp(&kl(b)))?;
    let worst = others.iter().max_by(|a, b| kl(a).total_cmp(&kl(b)))?;
    let said = |row: &ScalesRow| {
        let (quality, told) = (&row.quality, if row.told_from(floor) { "above" } else { "not above" });
        let (ratio, kl) = (quality.perplexity_ratio, quality.kl_divergence);
        format!("{} (perplexity times {ratio}, KL {kl} nats, {told} the noise floor)", row.name)
    };
    Some(format!("Closest to float32: {}. Farthest: {}.", said(best), said(worst)))
}

pub(super) fn ablation_point(ablation: &[AblationRun]) -> Option<String> {
    let runs = |use_cache, side| runs_of(ablation, use_cache, side);
    let (left, right, uncached) = (runs(true, Left)?, runs(true, Right)?, runs(false, Left)?);
    let (cache, side) = (uncached.ratio_to(left).ok()?, right.ratio_to(left).ok()?);
    let told = if side.low <= 1.0 && side.high >= 1.0 { "not told apart" } else { "told apart" };
    Some(format!(
        "Without the KV cache, a batch took {cache:.2} times as long; padded on the right, {:.2} times as long \
         as on the left ({told}).",
        side.median
    ))
}

pub(super) fn batching_point(batching: &[BatchRun]) -> Option<String> {
    let (one, most) = (batching.first()?, batching.last()?);
    Some(format!(
        "Batches of {} reached {:.2} times the throughput of batches of {}; an answer took {:.1} times as long (medians).",
        most.batch_size,
        most.gain_over(one).ok()?,
        one.batch_size,
        most.batch_latency_s.median / one.batch_latency_s.median,
    ))
}
