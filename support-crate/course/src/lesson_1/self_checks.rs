//! What must hold of a learner's own measurements in this lesson.

use quantlab::measure::{Bandwidth, DecodeLimit, Runs};

use super::{CacheRun, LengthRun, PrecisionRun, SweepConfig};
use crate::Claims;

/// Bandwidth and decode rate are measured at two times, between which a machine drifts.
const DRIFT: f64 = 1.1;

fn all_made<'a>(runs: impl IntoIterator<Item = &'a Runs>, new_tokens: usize) -> bool {
    runs.into_iter().flat_map(|runs| &runs.runs).all(|run| run.tokens_generated == new_tokens)
}

/// Looks at a prompt-length sweep.
pub fn self_check_lengths(rows: &[LengthRun], config: &SweepConfig) -> Claims {
    let check = Claims::new("Self-check: the prompt-length sweep");
    let [first, .., last] = rows else { return check };
    let (new_tokens, latency) = (config.max_new_tokens, |row: &LengthRun| row.runs.latency_s);
    check
        .that(format!("every run made {new_tokens} new tokens"), all_made(rows.iter().map(|row| &row.runs), new_tokens))
        .that("the x axis is in tokens, and no prompt is shorter than its target", {
            rows.iter().zip(&config.prompt_lengths).all(|(row, target)| row.prompt_tokens >= *target)
        })
        .that("the longest prompt took longer than the shortest: the intervals do not overlap", {
            latency(last).low > latency(first).high
        })
}

/// Looks at a comparison of runs with and without the cache.
pub fn self_check_cache(rows: &[CacheRun]) -> Claims {
    let check = Claims::new("Self-check: with and without the cache");
    let [first, .., last] = rows else { return check };
    let saved = |row: &CacheRun| row.without_cache.ratio_to(&row.with_cache).map_or(f64::NAN, |ratio| ratio.median);
    check
        .that("the cache made every prompt's run faster", rows.iter().all(|row| saved(row) > 1.0))
        .that("it saves more after the longest prompt than after the shortest", saved(last) > saved(first))
}

/// Looks at a precision sweep of a model that does not fit into the cache.
pub fn self_check_precision(rows: &[PrecisionRun], config: &SweepConfig, bandwidth: &Bandwidth) -> Claims {
    let check = Claims::new("Self-check: the precision sweep");
    if rows.is_empty() {
        return check;
    }
    let new_tokens = config.max_new_tokens;
    let below_limit = |row: &PrecisionRun| {
        DecodeLimit::new(row.bytes_per_token, bandwidth)
            .is_ok_and(|limit| limit.fraction(row.runs.tokens_per_s.median) <= DRIFT)
    };
    let check = check
        .that(format!("every run made {new_tokens} new tokens"), all_made(rows.iter().map(|row| &row.runs), new_tokens))
        .that("every precision that was asked for has a row", rows.len() == config.precisions.len());
    if !config.device.is_cpu() {
        return check;
    }
    check
        .that(
            "no row says float16: on a CPU it ran as float32",
            rows.iter().all(|row| !row.label.starts_with("float16")),
        )
        .that("no row is faster than memory can deliver its weights", rows.iter().all(below_limit))
}
