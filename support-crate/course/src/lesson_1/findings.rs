//! What the lesson's experiments showed, in words made from their numbers.

use std::cmp::Ordering;

use quantlab::error::Result;
use quantlab::measure::{Runs, Statistics, Timing};
use quantlab::report::{Estimate, Summary};

use super::{CacheRun, LengthRun, PrecisionRun};
use crate::tables::{milliseconds, new_tokens_of, tokens_saved, told_apart};

/// What a paired ratio of speeds says.
fn verdict(ratio: Statistics) -> &'static str {
    match told_apart(ratio) {
        "not told apart" if ratio.low <= 1.0 && ratio.high >= 1.0 => "not told apart, since the interval contains 1",
        told => told,
    }
}

/// Neighbours in a sweep of which the longer prompt did not take longer by the paired ratio.
pub(super) fn not_longer(rows: &[LengthRun]) -> Vec<String> {
    let in_words = |pair: &[LengthRun]| {
        let [shorter, longer] = [0, 1].map(|i| pair[i].prompt_tokens);
        match pair[1].runs.ratio_to(&pair[0].runs).ok().and_then(|ratio| ratio.side_of(1.0)) {
            Some(Ordering::Greater) => None,
            Some(_) => Some(format!("{longer} took less time than {shorter}")),
            None => Some(format!("{shorter} and {longer} not told apart")),
        }
    };
    rows.windows(2).filter_map(in_words).collect()
}

/// Two measurements of the same thing at two times.
///
/// They did not take turns, so nothing pairs them: their ratio lies between the extremes that both intervals allow, which
/// is wider than an interval of the same confidence.
pub fn drift_summary(early: Option<&Runs>, late: Option<&Runs>) -> Summary {
    let summary = Summary::new("The same measurement at two times");
    let (Some(early), Some(late)) = (early, late) else { return summary.point("not measured yet") };
    let (early, late) = (early.latency_s, late.latency_s);
    let range = |seconds: Statistics| {
        let Estimate { value, low, high } = milliseconds(seconds);
        format!("{value:.1} ms [{low:.1}, {high:.1}]")
    };
    let (ratio, low, high) = (late.median / early.median, late.low / early.high, late.high / early.low);
    let all = Statistics { median: ratio, low, high, confidence: early.confidence.min(late.confidence), ..late };
    let drift = match all.side_of(1.0) {
        Some(Ordering::Greater) => "The same measurement took longer than at the start",
        Some(_) => "The same measurement took less time than at the start",
        None if low <= 1.0 && high >= 1.0 => {
            "The range contains 1: these runs do not show whether the machine drifted, and exclude no drift within it"
        }
        None => "These runs are too few to show whether the machine drifted",
    };
    summary
        .point(format!(
            "First {}, now {}: {ratio:.2} times as long, and anything from {low:.2} to {high:.2} would fit both intervals.",
            range(early),
            range(late)
        ))
        .point(format!("{drift}."))
}

/// How many times as long the longest prompt of a sweep took as the shortest, round by round; NaN without a sweep.
pub fn longest_to_shortest(sweep: &[LengthRun]) -> f64 {
    let [first, .., last] = sweep else { return f64::NAN };
    last.runs.ratio_to(&first.runs).map_or(f64::NAN, |ratio| ratio.median)
}

/// How many times as fast as the first row the one of a label is, round by round; NaN without such a row.
pub fn times_as_fast(rows: &[PrecisionRun], label: &str) -> f64 {
    let row = rows.iter().find(|row| row.label == label);
    let ratio = row.and_then(|row| row.speed_up_over(rows.first()?).ok());
    ratio.map_or(f64::NAN, |ratio| ratio.median)
}

/// The decode rate of the first row, in tokens per second, if there is one.
pub fn decode_rate(rows: &[PrecisionRun]) -> Option<f64> {
    Some(rows.first()?.runs.tokens_per_s.median)
}

/// How many times as long the longest prompt took without the cache, round by round; NaN without rows.
pub fn cache_saves(rows: &[CacheRun]) -> f64 {
    let ratio = rows.last().and_then(|row| row.without_cache.ratio_to(&row.with_cache).ok());
    ratio.map_or(f64::NAN, |ratio| ratio.median)
}

/// What the lesson's experiments showed, in words made from their numbers.
///
/// # Errors
/// The rows of a sweep did not take turns.
pub fn latency_summary(
    sweep: &[LengthRun],
    phases: &[Timing],
    cache: &[CacheRun],
    precisions: &[(String, &Vec<PrecisionRun>)],
) -> Result<Summary> {
    let mut summary = Summary::new("What this run shows");
    if let [first, .., last] = sweep {
        summary = summary.point(format!(
            "Prompt length: after {} tokens, {} new ones took {:.1} times as long as after {}.",
            last.prompt_tokens,
            new_tokens_of(&first.runs),
            last.runs.ratio_to(&first.runs)?,
            first.prompt_tokens,
        ));
        summary = summary.point(match not_longer(sweep) {
            none if none.is_empty() => "Each length took longer than the one before it.".to_owned(),
            pairs => format!("Each length took longer than the one before it, but for these: {}.", pairs.join("; ")),
        });
    }
    if let [long, short] = phases {
        summary = summary.point(format!(
            "A decode step after {} tokens took {:.2} times as long as one after {}.",
            long.prompt_tokens,
            short.times_as_fast_as(long)?,
            short.prompt_tokens,
        ));
    }
    for timing in phases {
        summary = summary.point(format!(
            "After a prompt of {} tokens, prefill took {:.0}% of the time of {} new tokens.",
            timing.prompt_tokens,
            0.1 * timing.ttft_ms.median / timing.runs.latency_s.median, // ms to s, in percent
            timing.token_ms.len(),
        ));
    }
    if let Some(CacheRun { prompt_tokens, with_cache, without_cache }) = cache.last() {
        summary = summary.point(format!(
            "KV cache: after {prompt_tokens} tokens, generating without it took {:.1} times as long, where {:.1} times as \
             many tokens were computed.",
            without_cache.ratio_to(with_cache)?,
            tokens_saved(*prompt_tokens, new_tokens_of(with_cache)),
        ));
    }
    for (what, rows) in precisions {
        let Some((base, others)) = rows.split_first() else { continue };
        for row in others {
            let ratio = row.speed_up_over(base)?;
            // On a CPU, `float16` runs as the first row does: what sets them apart is no speed.
            let (control, verdict) = match row.label != base.label && row.label.starts_with(&base.label) {
                true => (", asked for as float16 and so the control,", "the same thing, measured twice"),
                false => ("", verdict(ratio)),
            };
            summary = summary.point(format!(
                "{what}: {}{control} against {}, {:.2} times the bytes: {ratio:.2} times as fast ({}).",
                row.label,
                base.label,
                row.bytes_per_token as f64 / base.bytes_per_token as f64,
                verdict,
            ));
        }
    }
    if sweep.is_empty() && precisions.iter().all(|(_, rows)| rows.is_empty()) {
        Ok(summary.point("not measured yet"))
    } else {
        Ok(summary)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use quantlab::measure::Metrics;

    use super::*;

    pub fn runs(seconds: &[f64]) -> Runs {
        Runs::of(seconds.iter().map(|seconds| Metrics::of(10, *seconds)).collect()).unwrap()
    }

    #[test]
    fn a_drift_is_found_where_no_ratio_of_both_intervals_is_one() {
        let six = |first: f64| runs(&[first, 1.1 * first].repeat(3));
        let summary = |late: f64| drift_summary(Some(&six(1.0)), Some(&six(late))).to_string();
        assert!(summary(1.05).contains("The range contains 1") && summary(1.2).contains("took longer"));
        assert!(summary(0.8).contains("took less time"), "{}", summary(0.8));
        let few = drift_summary(Some(&runs(&[1.0])), Some(&runs(&[1.2]))).to_string();
        assert!(few.contains("These runs are too few"), "{few}");
        assert!(drift_summary(None, Some(&runs(&[1.0]))).to_string().contains("not measured yet"));
    }

    #[test]
    fn neighbours_are_told_apart_by_the_paired_ratio() {
        let row = |prompt_tokens, seconds: &[f64]| LengthRun { prompt_tokens, runs: runs(&seconds.repeat(3)) };
        // The intervals overlap, but the second took longer in each round; the third did not.
        let rows = [row(16, &[1.0, 2.0]), row(64, &[1.1, 2.2]), row(128, &[1.0, 2.3])];
        assert_eq!(not_longer(&rows), ["64 and 128 not told apart"]);
        assert!((longest_to_shortest(&rows) - 1.075).abs() < 1e-12 && longest_to_shortest(&[]).is_nan());
    }

    #[test]
    fn a_row_is_found_by_its_label_and_paired_with_the_first() {
        let row = |label: &str, seconds: &[f64]| PrecisionRun {
            label: label.to_owned(),
            bytes_per_token: 4,
            runs: runs(&seconds.repeat(3)),
            gb_per_s: vec![30.0; 3 * seconds.len()],
        };
        let rows = vec![row("float32", &[1.0, 3.0]), row("bfloat16", &[0.5, 1.5])];
        let forced = vec![row("float32", &[1.0, 3.0]), row("float32 (forced on CPU)", &[1.0, 3.0])];
        let summary = latency_summary(&[], &[], &[], &[("decode".to_owned(), &forced)]).unwrap().to_string();
        assert!(
            summary.contains("(forced on CPU), asked for as float16 and so the control, against float32"),
            "{summary}"
        );
        assert!(decode_rate(&rows) == Some(rows[0].runs.tokens_per_s.median) && decode_rate(&[]).is_none());
        assert!(rows[0].bandwidth() == 30.0 && cache_saves(&[]).is_nan());
        assert!((times_as_fast(&rows, "bfloat16") - 2.0).abs() < 1e-12 && times_as_fast(&rows, "int8").is_nan());
        let summary = latency_summary(&[], &[], &[], &[("decode".to_owned(), &rows)]).unwrap().to_string();
        assert!(
            summary.contains(
                "decode: bfloat16 against float32, 1.00 times the bytes: 2.00 [2.00, 2.00] times as fast (faster)"
            ),
            "{summary}"
        );
        assert_eq!(verdict(Statistics::of(&[0.9, 1.1]).unwrap()), "not told apart, since the interval contains 1");
        assert_eq!(verdict(Statistics::of(&[1.1]).unwrap()), "not told apart");
    }
}
