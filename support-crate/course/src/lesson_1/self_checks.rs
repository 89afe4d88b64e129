//! What must hold of a learner's own measurements in this lesson.

use quantlab::error::Result;
use quantlab::measure::{Runs, Statistics};

use super::findings::{longest_to_shortest, not_longer};
use super::{CacheRun, LengthRun, PrecisionRun, SweepConfig};
use crate::{Claims, ask};

/// In how many of 100 pairs the longer prompt has to take longer for a sweep to count as rising. Without any relation, it
/// would be 50.
const RISING: usize = 75;

fn all_made<'a>(runs: impl IntoIterator<Item = &'a Runs>, new_tokens: usize) -> bool {
    runs.into_iter().flat_map(|runs| &runs.runs).all(|run| run.tokens_generated == new_tokens)
}

/// A reading of the memory and the run beside it are two moments of a machine that others use too, and a part of the
/// weights may still be in the cache: only a part of the limit beyond this says that the rest did not come from memory.
const ABOVE_LIMIT: f64 = 1.2;

/// Looks at a prompt-length sweep, from the shortest to the longest, with the learner's count of pairs in order.
pub fn self_check_lengths(
    rows: &[LengthRun],
    config: &SweepConfig,
    pairs_in_order: fn(&[LengthRun]) -> (usize, usize),
) -> Claims {
    let check = Claims::new("Self-check: the prompt-length sweep");
    if rows.len() < 2 {
        return check;
    }
    let new_tokens = config.max_new_tokens;
    let pairs = ask(|| Ok(pairs_in_order(rows))).ok();
    let counted =
        pairs.map_or_else(String::new, |(rising, all)| format!(": in {rising} of {all} pairs within a round"));
    let neighbours = match not_longer(rows) {
        none if none.is_empty() => "all neighbours told apart".to_owned(),
        pairs => format!("neighbours: {}", pairs.join("; ")),
    };
    check
        .that(format!("every run made {new_tokens} new tokens"), all_made(rows.iter().map(|row| &row.runs), new_tokens))
        .that("the x axis is in tokens, and no prompt is shorter than its target", {
            rows.iter().zip(&config.prompt_lengths).all(|(row, target)| row.prompt_tokens >= *target)
        })
        .that(
            format!("latency rises with the length of the prompt{counted} ({neighbours})"),
            pairs.and_then(|(rising, all)| (all > 0).then_some(100 * rising >= RISING * all)),
        )
        .that("round by round, the longest prompt took longer than the shortest", longest_to_shortest(rows) > 1.0)
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

/// Looks at a decode sweep of a model that does not fit into the cache.
pub fn self_check_precision(
    rows: &[PrecisionRun],
    config: &SweepConfig,
    part_of_limit: fn(&PrecisionRun) -> Result<Statistics>,
) -> Claims {
    let check = Claims::new("Self-check: the precision sweep");
    let Some(first) = rows.first() else { return check };
    let new_tokens = config.max_new_tokens;
    let mut check = check
        .that(format!("every run made {new_tokens} new tokens"), all_made(rows.iter().map(|row| &row.runs), new_tokens))
        .that("every precision that was asked for has a row", rows.len() == config.precisions.len());
    if config.device.is_cpu() {
        let none = rows.iter().all(|row| !row.label.starts_with("float16"));
        check = check.that("no row says float16: on a CPU it ran as float32", none);
    }
    let parts: Option<Vec<Statistics>> = rows.iter().map(|row| ask(|| part_of_limit(row)).ok()).collect();
    let half = rows.iter().find(|row| row.label == "bfloat16");
    check
        .that("bfloat16 reads about half the bytes of float32", {
            half.map(|half| (0.49..0.52).contains(&(half.bytes_per_token as f64 / first.bytes_per_token as f64)))
        })
        .that("no row's whole interval lies more than a fifth above memory's limit", {
            parts.map(|parts| parts.iter().all(|part| part.low <= ABOVE_LIMIT))
        })
}

#[cfg(test)]
mod tests {
    use quantlab::model::Device;

    use super::super::findings::tests::runs;
    use super::super::trend::in_order;
    use super::*;

    fn config() -> SweepConfig {
        SweepConfig {
            prompt_lengths: vec![16, 64, 128],
            precisions: vec!["float32", "bfloat16"],
            device: Device::Cpu,
            max_new_tokens: 10,
            use_cache: true,
            repeats: 2,
        }
    }

    #[test]
    fn the_trend_counts_all_lengths_not_the_ends() {
        let row = |prompt_tokens, seconds: &[f64]| LengthRun { prompt_tokens, runs: runs(&seconds.repeat(3)) };
        let rising_rows = [row(16, &[1.0, 1.0]), row(64, &[2.0, 0.9]), row(128, &[3.0, 3.0])];
        let self_check_lengths =
            |rows: &[LengthRun], config: &SweepConfig| super::self_check_lengths(rows, config, in_order);
        assert!(self_check_lengths(&rising_rows, &config()).hold());
        // Only the end is longer.
        let flat = [row(16, &[2.0, 2.0]), row(64, &[1.0, 1.0]), row(128, &[2.1, 1.9])];
        let check = self_check_lengths(&flat, &config());
        assert!(!check.hold() && check.to_string().contains("neighbours: 64 took less time than 16"), "{check}");
        let open = super::self_check_lengths(&flat, &config(), |_| todo!()).to_string();
        assert!(open.contains(". not measured yet: latency rises"), "{open}");
        let of_none = super::self_check_lengths(&flat, &config(), |_| (0, 0)).to_string();
        assert!(of_none.contains(". not measured yet: latency rises"), "{of_none}");
        let too_many = SweepConfig { max_new_tokens: 11, ..config() };
        assert!(!self_check_lengths(&rising_rows, &too_many).hold());
    }

    #[test]
    fn a_row_above_memory_is_pointed_at_and_no_part_is_not_measured_yet() {
        let row = |label: &str, bytes_per_token| PrecisionRun {
            label: label.to_owned(),
            bytes_per_token,
            runs: runs(&[1.0, 1.1]),
            gb_per_s: vec![30.0; 2],
        };
        let rows = [row("float32", 400), row("bfloat16", 200)];
        let claims = |part: fn(&PrecisionRun) -> Result<Statistics>| self_check_precision(&rows, &config(), part);
        assert!(claims(|_| Statistics::of(&[1.1, 1.4])).hold() && !claims(|_| Statistics::of(&[1.3, 1.4])).hold());
        assert!(claims(|_| todo!()).to_string().contains(". not measured yet: no row's whole interval"));
        let same = [row("float32", 400), row("bfloat16", 400)];
        assert!(!self_check_precision(&same, &config(), |_| Statistics::of(&[0.9])).hold());
    }

    #[test]
    fn the_cache_must_help_and_more_so_after_long_prompts() {
        let row = |prompt_tokens, without: f64| CacheRun {
            prompt_tokens,
            with_cache: runs(&[1.0, 1.0]),
            without_cache: runs(&[without, without]),
        };
        assert!(self_check_cache(&[row(16, 2.0), row(64, 3.0)]).hold());
        assert!(!self_check_cache(&[row(16, 3.0), row(64, 2.0)]).hold());
        assert!(!self_check_cache(&[row(16, 0.9), row(64, 2.0)]).hold());
    }
}
