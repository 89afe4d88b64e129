//! Ways to find int8 scales, compared in quality and speed; and what the numbers of the lesson say, in words.

use quantlab::error::Result;
use quantlab::generate::PaddingSide::{Left, Right};
use quantlab::measure::{QualityComparison, Timing, TimingOptions, Uncertain, compare_quality};
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
    /// Against the baseline; `None` for the baseline itself.
    pub quality: Option<QualityComparison>,
    /// How fast it was.
    pub timing: Timing,
}

impl ScalesRow {
    /// Compares models with the first one, the baseline, on the texts, and times them in turn on a prompt.
    ///
    /// # Errors
    /// As [`compare_quality`] and [`FormatRow::in_turn`].
    pub fn in_turn(
        models: &[(&str, &Loaded)],
        prompt: &str,
        texts: &[&str],
        timing: &TimingOptions,
    ) -> Result<Vec<Self>> {
        let row = |(index, ((name, loaded), timing)): (usize, (&(&str, &Loaded), Timing))| {
            let quality = if index == 0 { None } else { Some(compare_quality(models[0].1, loaded, texts)?) };
            Ok(Self { name: (*name).to_owned(), quality, timing })
        };
        models.iter().zip(time_named(models, prompt, timing)?).enumerate().map(row).collect()
    }
}

/// Quality against the baseline, which is the first row, and speed.
pub fn scales_table(title: &str, rows: &[ScalesRow]) -> Table {
    let qualities = || rows.iter().map(|row| row.quality.as_ref());
    let of = |figure: fn(&QualityComparison) -> Uncertain| qualities().map(move |quality| quality.map(figure));
    let compared = qualities().flatten().next();
    let base = compared.map(|quality| quality.base_perplexity.value);
    let first = rows.first().map(|row| &row.timing);
    let tokens = compared.map_or(0, |quality| quality.tokens);
    Table::new(title)
        .column("scales", "", rows.iter().map(|row| &row.name))
        .column("perplexity", "", qualities().map(|quality| quality.map(|it| it.perplexity.value).or(base)))
        .decimals("perplexity", 3)
        .column("ratio of perplexities", "", of(|it| it.perplexity_ratio))
        .plus_minus("ratio of perplexities")
        .column("KL divergence", "nats", of(|it| it.kl_divergence))
        .plus_minus("KL divergence")
        .column("same top token", "%", of(|it| it.same_top_token * 100.0))
        .plus_minus("same top token")
        .column("throughput", "tokens/s", rows.iter().map(|row| row.timing.runs.tokens_per_s))
        .note(format!(
            "{} | {tokens} tokens predicted, with 95% intervals | throughput: {}",
            first.map_or_else(String::new, |timing| timing.run.to_string()),
            intervals_of(first.map(|timing| &timing.runs))
        ))
}

/// How much of the gain that reading alone would allow was reached by each model's largest batch, and whether the
/// models differ in it.
pub fn batching_summary(models: &[(&str, &[BatchRun])]) -> Summary {
    // The gain of batches of this size over the smallest ones, round by round.
    let gain =
        |rows: &[BatchRun], size: usize| rows.iter().find(|row| row.batch_size == size)?.gain_over(rows.first()?).ok();
    let mut summary = Summary::new("Batches against the theory");
    for (name, rows) in models {
        let (Some(one), Some(most)) = (rows.first(), rows.last()) else { continue };
        let Some(gain) = gain(rows, most.batch_size) else { continue };
        let share = 100.0 * gain.median * one.batch_size as f64 / most.batch_size as f64;
        summary = summary.point(format!(
            "{name}: batches of {} reached {gain:.2} times the throughput, {share:.0}% of the theory's.",
            most.batch_size
        ));
    }
    let common = models.iter().filter_map(|(_, rows)| Some(rows.last()?.batch_size)).min().unwrap_or(0);
    let gains: Vec<_> = models.iter().filter_map(|(name, rows)| Some((*name, gain(rows, common)?))).collect();
    let [(a_name, a), (b_name, b)] = gains[..] else { return summary };
    let verdict = match () {
        () if a.low > b.high => format!("{a_name} gained more"),
        () if b.low > a.high => format!("{b_name} gained more"),
        () => "the intervals overlap, so which gained more is not known".to_owned(),
    };
    summary.point(format!("Batches of {common}: {a_name} {a:.2} times, {b_name} {b:.2} times; {verdict}."))
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
    let bytes = |row: &FormatRow| row.bytes_per_token as f64 / float.bytes_per_token as f64;
    Some(format!(
        "At GPT-2 size, static int8 reads {:.2} of float32's bytes for a token and decoded {:.2} times as fast; its \
         prefill of {} tokens took {:.2} of float32's time. With the head in int8 too, it reads {:.2} of the bytes and \
         decoded {:.2} times as fast.",
        bytes(int8),
        int8.decode_speed_up(float),
        float.timing.prompt_tokens,
        int8.timing.ttft_ms.median / float.timing.ttft_ms.median,
        bytes(head),
        head.decode_speed_up(float),
    ))
}

fn scales_point(scales: &[ScalesRow]) -> Option<String> {
    let row = scales.iter().find(|row| row.name.starts_with("static int8, absmax, per tensor"))?;
    let quality = row.quality.as_ref()?;
    let (ratio, kl) = (quality.perplexity_ratio, quality.kl_divergence);
    let change = Estimate::from(ratio);
    let seen = if change.low <= 1.0 && change.high >= 1.0 { "does not tell" } else { "tells" };
    let by_kl = match (Estimate::from(kl).low > 0.0, seen) {
        (true, "tells") => "does, too",
        (true, _) => "does",
        (false, _) => "does not",
    };
    Some(format!(
        "Perplexity went from {:.3} to {:.3}, a ratio of {ratio} (95% interval): it {seen} int8 from float32; \
         the KL divergence of {kl} nats {by_kl}. Both find the same token the most likely one at {:.1}% of the \
         positions.",
        quality.base_perplexity.value,
        quality.perplexity.value,
        100.0 * quality.same_top_token.value,
    ))
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
        "Batches of {} reached {:.2} times the throughput of batches of {}; each answer took {:.2} times as long.",
        most.batch_size,
        most.runs.tokens_per_s.median / one.runs.tokens_per_s.median,
        one.batch_size,
        most.batch_latency_s.median / one.batch_latency_s.median,
    ))
}
