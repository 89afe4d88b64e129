//! What must hold of the lesson's own measurements.

use quantlab::measure::{QualityComparison, Runs};
use quantlab::report::Estimate;

use super::{AblationRun, BatchRun, FormatRow, ModelPpl};
use crate::Claims;

/// Whether all runs made the same number of tokens.
fn same_tokens<'a>(runs: impl IntoIterator<Item = &'a Runs>) -> bool {
    let mut counts = runs.into_iter().flat_map(|runs| &runs.runs).map(|run| run.tokens_generated);
    let first = counts.next();
    counts.all(|count| Some(count) == first)
}

/// Facts about formats of one model; the first is the one that reads the most.
pub fn self_check_int8(rows: &[FormatRow]) -> Claims {
    let check = Claims::new("Self-check: formats");
    let Some((first, others)) = rows.split_first() else { return check };
    let same_work = |row: &FormatRow| {
        let (a, b) = (&row.timing, &first.timing);
        (a.prompt_tokens, a.token_ms.len(), a.use_cache) == (b.prompt_tokens, b.token_ms.len(), b.use_cache)
    };
    check
        .that("every format had the same prompt, new tokens and cache setting", others.iter().all(same_work))
        .that(
            format!("nothing reads more per token than {}", first.name),
            others.iter().all(|row| row.bytes_per_token <= first.bytes_per_token),
        )
        .that(
            "no format gains more in decode than it saves in bytes (by more than a fifth)",
            others.iter().all(|row| {
                let bytes = first.bytes_per_token as f64 / row.bytes_per_token.max(1) as f64;
                row.decode_speed_up(first) <= 1.2 * bytes
            }),
        )
}

/// Facts about the four settings of cache and padding.
pub fn self_check_ablation(rows: &[AblationRun]) -> Claims {
    let check = Claims::new("Self-check: cache and padding");
    let throughput = |use_cache: bool| {
        let of = rows.iter().filter(|row| row.use_cache == use_cache).map(|row| row.runs.tokens_per_s.median);
        of.collect::<Vec<_>>()
    };
    let (with, without) = (throughput(true), throughput(false));
    if with.is_empty() || without.is_empty() {
        return check;
    }
    let slowest = with.iter().copied().fold(f64::INFINITY, f64::min);
    check
        .that("every setting made the same number of tokens", same_tokens(rows.iter().map(|row| &row.runs)))
        .that("with the cache is faster than without, on either side", without.iter().all(|&rate| rate < slowest))
}

/// Facts about batch sizes, smallest first, each for this many prompts.
pub fn self_check_batching(rows: &[BatchRun], prompts: usize) -> Claims {
    let check = Claims::new("Self-check: batching");
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return check };
    let shares = rows.iter().all(|row| {
        let share = row.runs.latency_s.median / prompts as f64;
        (row.time_per_sample_s.median - share).abs() <= 1e-6 * share
    });
    check
        .that("every batch size made the same number of tokens", same_tokens(rows.iter().map(|row| &row.runs)))
        .that("the time per sample is the run's time divided by the number of prompts", shares)
        .that(
            format!("a prompt waits longer in a batch of {} than in one of {}", last.batch_size, first.batch_size),
            last.batch_latency_s.median > first.batch_latency_s.median,
        )
        .that(
            format!("a batch of {} makes more tokens per second than one of {}", last.batch_size, first.batch_size),
            last.runs.tokens_per_s.median > first.runs.tokens_per_s.median,
        )
}

/// Facts about the same prompts cut into batches in two ways, the one with more padding first.
pub fn self_check_padding(rows: &[(&str, usize, Runs)]) -> Claims {
    let check = Claims::new("Self-check: padding");
    let [(_, padded, slow), (_, packed, fast)] = rows else { return check };
    let told = if slow.latency_s.overlaps(&fast.latency_s) { "not told apart" } else { "told apart" };
    check
        .that("both made the same number of tokens", same_tokens([slow, fast]))
        .that(format!("sorting saves tokens of prefill: {padded} to {packed}"), packed < padded)
        .that(
            format!("and time: {:.2} times as fast ({told})", slow.latency_s.median / fast.latency_s.median),
            fast.latency_s.median < slow.latency_s.median,
        )
}

/// A learner's perplexities of baseline and quantized model against the paired report on the same texts.
pub fn self_check_quality(rows: &[ModelPpl], quality: &QualityComparison) -> Claims {
    let check = Claims::new("Self-check: perplexity");
    let [plain, quantized] = rows else { return check };
    let agree = |row: &ModelPpl, ours: f64| (row.ppl / ours - 1.0).abs() < 1e-4;
    let kl = quality.kl_divergence;
    check
        .that("your perplexity of the baseline matches the report's", agree(plain, quality.base_perplexity.value))
        .that("and so does that of the quantized model", agree(quantized, quality.perplexity.value))
        .that("the KL divergence tells the two models apart", Estimate::from(kl).low > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::measure::{Metrics, Statistics};

    #[test]
    fn facts_are_looked_up_in_the_numbers() {
        let runs = |seconds: f64| Runs::of(vec![Metrics::of(12, seconds), Metrics::of(12, 1.1 * seconds)]).unwrap();
        let row = |batch_size, seconds: f64, wait: f64| BatchRun {
            batch_size,
            runs: runs(seconds),
            batch_latency_s: Statistics::of(&[wait]).unwrap(),
            time_per_sample_s: Statistics::of(&[1.05 * seconds / 4.0]).unwrap(),
        };
        assert!(self_check_batching(&[row(1, 4.0, 1.0), row(4, 2.0, 2.0)], 4).hold());
        assert!(!self_check_batching(&[row(1, 4.0, 1.0), row(4, 2.0, 0.5)], 4).hold());
        assert!(self_check_padding(&[("a", 80, runs(4.0)), ("b", 40, runs(2.0))]).hold());
        assert!(!self_check_padding(&[("a", 80, runs(2.0)), ("b", 40, runs(4.0))]).hold());
        assert!(self_check_padding(&[]).to_string().contains("nothing measured yet"));
    }
}
