//! What must hold of the lesson's own measurements.

use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, PaddingSide, generate_batch};
use quantlab::measure::Runs;
use quantlab::model::Loaded;

use super::findings::cache_gain;
use super::{AblationRun, BatchRun, EdgeRun, FormatRow, SETTINGS};
use crate::Claims;

/// Whether all runs made the same number of tokens.
fn same_tokens<'a>(runs: impl IntoIterator<Item = &'a Runs>) -> bool {
    let mut counts = runs.into_iter().flat_map(|runs| &runs.runs).map(|run| run.tokens_generated);
    let first = counts.next();
    counts.all(|count| Some(count) == first)
}

/// What must hold of formats of one model; the first is the one that reads the most.
pub fn formats_claims(rows: &[FormatRow]) -> Claims {
    let claims = Claims::new("Formats");
    let Some((first, others)) = rows.split_first() else { return claims };
    let same_work = |row: &FormatRow| {
        let (a, b) = (&row.timing, &first.timing);
        (a.prompt_tokens, a.token_ms.len(), a.use_cache) == (b.prompt_tokens, b.token_ms.len(), b.use_cache)
    };
    let less = others.iter().all(|row| row.bytes_per_token < first.bytes_per_token);
    let claims = claims
        .that("every format had the same prompt, new tokens and cache setting", others.iter().all(same_work))
        .that(format!("every format reads less per token than {}", first.name), less);
    let [.., int8, all_int8] = others else { return claims };
    claims.that(
        format!("{} reads less per token than {}, and keeps more", all_int8.name, int8.name),
        all_int8.bytes_per_token < int8.bytes_per_token
            && all_int8.footprint.mib_with_scales() > int8.footprint.mib_with_scales(),
    )
}

/// What must hold of the four settings of cache and padding, and of the tokens that each prompt gets in them and alone.
///
/// # Errors
/// As [`generate_batch`].
pub fn ablation_claims(
    rows: &[AblationRun],
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
) -> Result<Claims> {
    let tokens = |prompts: &[&str], use_cache, padding_side| -> Result<Vec<Vec<u32>>> {
        let options = GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() };
        Ok(generate_batch(loaded, prompts, &options)?.into_iter().map(|one| one.tokens).collect())
    };
    let alone =
        prompts.iter().map(|prompt| tokens(&[prompt], true, PaddingSide::Left)).collect::<Result<Vec<_>>>()?.concat();
    let together = SETTINGS.iter().map(|&(cache, side)| tokens(prompts, cache, side)).collect::<Result<Vec<_>>>()?;
    let claims = Claims::new("Cache and padding").that(
        "every prompt gets the same tokens alone and in each setting",
        together.iter().all(|texts| *texts == alone),
    );
    if rows.is_empty() {
        return Ok(claims);
    }
    Ok(claims
        .that("every setting made the same number of tokens", same_tokens(rows.iter().map(|row| &row.runs)))
        .that("the cache saves time", cache_gain(rows) > 1.0))
}

/// What must hold of batch sizes, smallest first, each for this many prompts.
pub fn batching_claims(rows: &[BatchRun], prompts: usize) -> Claims {
    let claims = Claims::new("Batches");
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return claims };
    let shares = rows.iter().all(|row| {
        let share = row.runs.latency_s.median / prompts as f64;
        (row.time_per_sample_s.median - share).abs() <= 1e-6 * share
    });
    let (small, large) = (first.batch_size, last.batch_size);
    claims
        .that("every batch size made the same number of tokens", same_tokens(rows.iter().map(|row| &row.runs)))
        .that("the time per sample is the run's time divided by the number of prompts", shares)
        .that(
            format!("from the start of its batch, a prompt waits longer in a batch of {large} than in one of {small}"),
            last.batch_latency_s.median > first.batch_latency_s.median,
        )
        .that(
            format!("batches of {large} make more tokens per second than batches of {small}"),
            first.runs.ratio_to(&last.runs).is_ok_and(|times| times.median > 1.0),
        )
}

/// What must hold of prompts at the edge.
pub fn edge_claims(rows: &[EdgeRun]) -> Claims {
    let claims = Claims::new("Prompts at the edge");
    let (Some(short), Some(long)) =
        (rows.iter().min_by_key(|row| row.prompt_tokens), rows.iter().max_by_key(|row| row.prompt_tokens))
    else {
        return claims;
    };
    claims.that("every prompt got the same number of new tokens", same_tokens(rows.iter().map(|row| &row.runs))).that(
        format!("the longest prompt ({}) took longer than the shortest ({})", long.name, short.name),
        long.runs.ratio_to(&short.runs).is_ok_and(|times| times.median > 1.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::measure::{Metrics, Statistics};

    fn runs(seconds: f64) -> Runs {
        Runs::of(vec![Metrics::of(12, seconds), Metrics::of(12, 1.1 * seconds)]).unwrap()
    }

    #[test]
    fn claims_are_looked_up_in_the_numbers() {
        let row = |batch_size, seconds: f64, wait: f64| BatchRun {
            batch_size,
            runs: runs(seconds),
            batch_latency_s: Statistics::of(&[wait]).unwrap(),
            time_per_sample_s: Statistics::of(&[1.05 * seconds / 4.0]).unwrap(),
        };
        assert!(batching_claims(&[row(1, 4.0, 1.0), row(4, 2.0, 2.0)], 4).hold());
        assert!(!batching_claims(&[row(1, 4.0, 1.0), row(4, 2.0, 0.5)], 4).hold());
        let edge = |name: &str, prompt_tokens, seconds| EdgeRun {
            name: name.to_owned(),
            prompt_tokens,
            runs: runs(seconds),
            text: String::new(),
        };
        assert!(edge_claims(&[edge("long", 80, 4.0), edge("short", 1, 2.0)]).hold());
        assert!(!edge_claims(&[edge("long", 80, 2.0), edge("short", 1, 4.0)]).hold());
        assert!(edge_claims(&[]).to_string().contains("nothing measured yet"));
    }
}
