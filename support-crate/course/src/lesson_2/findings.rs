//! Ways to find int8 scales, compared in quality; and what the numbers of the lesson say, in words.

use quantlab::error::Result;
use quantlab::generate::PaddingSide::{Left, Right};
use quantlab::measure::{QualityBase, QualityComparison, RunInfo, Statistics, Uncertain};
use quantlab::model::{Fold, LoadOptions, Loaded, calibrate, load_model};
use quantlab::quant::CalibrationMethod::{AbsMax, Percentile};
use quantlab::quant::{Granularity, QuantizationConfig};
use quantlab::report::{Estimate, Summary, Table};

use super::report::runs_of;
use super::{AblationRun, BatchRun, FormatRow};
use crate::tables::told_apart;

/// One way to find scales, and how far the model is from the baseline with them.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalesRow {
    /// The way, in words.
    pub name: String,
    /// Against the baseline.
    pub quality: QualityComparison,
}

impl ScalesRow {
    /// Whether the KL divergence tells the model from the baseline: its interval lies above that of the noise floor.
    fn told_from(&self, floor: &Self) -> bool {
        let [kl, least] = [self, floor].map(|row| Estimate::from(row.quality.kl_divergence));
        kl.low > least.high
    }
}

/// The noise floor (the baseline against itself on another engine), and the baseline's model in int8 by four ways to find
/// the scales of its inputs. Besides the baseline, one model at a time is in memory.
///
/// # Errors
/// As [`calibrate`], [`load_model`] and [`compare_quality`].
pub fn compare_scales(baseline: &Loaded, prompts: &[&str], texts: &[&str]) -> Result<Vec<ScalesRow>> {
    let load = |quantization, fold: Option<Fold>| {
        load_model(&[&baseline.model_id], &LoadOptions { quantization, fold, ..LoadOptions::default() })
    };
    let fixed = |loaded: &Loaded, method| -> Result<Option<QuantizationConfig>> {
        Ok(Some(QuantizationConfig::static_int8(calibrate(loaded, prompts, method, Granularity::PerTensor)?)))
    };
    let smooth = Some(Fold::smooth_quant(baseline, prompts, 0.5)?);
    let after_smoothing = fixed(&load(None, smooth.clone())?, AbsMax)?;
    let ways = [
        ("static, absmax", fixed(baseline, AbsMax)?, None),
        ("static, percentile 99.9", fixed(baseline, Percentile(99.9))?, None),
        ("static, absmax, SmoothQuant", after_smoothing, smooth),
        ("dynamic, per token", Some(QuantizationConfig::llm_int8(0.0)), None),
    ];
    let base = QualityBase::new(baseline, texts).with_greedy_texts();
    let row = |name: &str, quality| ScalesRow { name: name.to_owned(), quality };
    let mut rows = vec![row("float32, another engine", base.noise_floor()?)];
    for (name, quantization, fold) in ways {
        rows.push(row(name, base.compare(&load(quantization, fold)?)?));
    }
    give_back();
    Ok(rows)
}

/// Gives the system back what models that are gone have left of the heap: half a gigabyte here, which no model takes up
/// again, since weights are mapped.
fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it asks nothing of its caller, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Quality against the baseline; the first row is the noise floor.
pub fn scales_table(rows: &[ScalesRow], baseline: &Loaded) -> Table {
    let of = |figure: fn(&QualityComparison) -> Uncertain| rows.iter().map(move |row| figure(&row.quality));
    let differ = |row: &ScalesRow| row.quality.greedy.iter().filter(|text| text.first_difference.is_some()).count();
    let told = rows.iter().enumerate().map(|(place, row)| match (place, row.told_from(&rows[0])) {
        (0, _) => "floor",
        (_, true) => "yes",
        (_, false) => "no",
    });
    let (tokens, texts) = rows.first().map_or((0, 0), |row| (row.quality.tokens, row.quality.greedy.len()));
    Table::new("Scales of int8 inputs: how far from float32 is the model?")
        .column("scales", "", rows.iter().map(|row| &row.name))
        .column("perplexity", "", of(|it| it.perplexity).map(|of| of.value))
        .decimals("perplexity", 2)
        .column("against float32", "times", of(|it| it.perplexity_ratio))
        .plus_minus("against float32")
        .column("KL divergence", "nats", of(|it| it.kl_divergence))
        .plus_minus("KL divergence")
        .column("told apart", "", told)
        .column("same top token", "%", of(|it| it.same_top_token * 100.0))
        .plus_minus("same top token")
        .column("texts differ", format!("of {texts}"), rows.iter().map(differ))
        .note(RunInfo::of(baseline))
        .note(format!(
            "{tokens} tokens predicted | \u{b1}: 95% intervals | told apart: the interval of the KL lies above the floor's"
        ))
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
    let [float, int8, head, dynamic] =
        [named("float32")?, named("static int8")?, named("static int8, head too")?, named("dynamic int8")?];
    let bytes = |row: &FormatRow| float.bytes_per_token as f64 / row.bytes_per_token as f64;
    let times = |row: &FormatRow, other: &FormatRow| row.timing.times_as_fast_as(&other.timing).ok();
    let search = times(int8, dynamic)?;
    Some(format!(
        "Static int8 reads 1/{:.1} of float32's bytes per token and decoded {:.2} times as fast (with its \
         head in int8 too, 1/{:.1} and {:.2}); prefill of {} tokens was {:.1} times as fast (medians). Static decoded {search:.2} \
         times as fast as dynamic ({}).",
        bytes(int8),
        times(int8, float)?,
        bytes(head),
        times(head, float)?,
        float.timing.prompt_tokens,
        float.timing.ttft_ms.median / int8.timing.ttft_ms.median,
        told_apart(search)
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

/// How many times as fast as float32 static int8 decoded; NaN if not measured.
pub fn int8_gain(formats: &[FormatRow]) -> f64 {
    let named = |name: &str| formats.iter().find(|row| row.name == name).map(|row| &row.timing);
    let ratio = named("static int8").zip(named("float32")).and_then(|(int8, float)| int8.times_as_fast_as(float).ok());
    ratio.map_or(f64::NAN, |ratio| ratio.median)
}

/// How many times as long a batch takes without the KV cache as with it, both padded on the left; NaN if not measured.
pub fn cache_gain(ablation: &[AblationRun]) -> f64 {
    cache_ratio(ablation).map_or(f64::NAN, |ratio| ratio.median)
}

/// How many times the throughput of the first batch size the last one reached; NaN if not measured.
pub fn batch_gain(batching: &[BatchRun]) -> f64 {
    batch_ratio(batching).map_or(f64::NAN, |ratio| ratio.median)
}

fn cache_ratio(ablation: &[AblationRun]) -> Option<Statistics> {
    runs_of(ablation, false, Left)?.ratio_to(runs_of(ablation, true, Left)?).ok()
}

fn batch_ratio(batching: &[BatchRun]) -> Option<Statistics> {
    batching.first()?.runs.ratio_to(&batching.last()?.runs).ok()
}

pub(super) fn ablation_point(ablation: &[AblationRun]) -> Option<String> {
    let (cache, left) = (cache_ratio(ablation)?, runs_of(ablation, true, Left)?);
    let side = left.ratio_to(runs_of(ablation, true, Right)?).ok()?;
    Some(format!(
        "Without the KV cache, a batch took {cache:.2} times as long. Padding on the right was {side:.2} times as fast as on \
         the left ({}).",
        told_apart(side)
    ))
}

pub(super) fn batching_point(batching: &[BatchRun]) -> Option<String> {
    let (one, most) = (batching.first()?, batching.last()?);
    Some(format!(
        "Batches of {} reached {:.2} times the throughput of batches of {}; an answer took {:.1} times as long (medians).",
        most.batch_size,
        batch_ratio(batching)?,
        one.batch_size,
        most.batch_latency_s.median / one.batch_latency_s.median,
    ))
}
