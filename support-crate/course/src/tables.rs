//! What the tables and plots of several lessons have in common.

use std::cmp::Ordering;

use quantlab::measure::{RunInfo, Runs, Statistics};
use quantlab::model::Loaded;
use quantlab::report::{Estimate, Table};

/// Seconds to milliseconds, with the interval.
pub(crate) fn milliseconds(seconds: Statistics) -> Estimate {
    Estimate::from(seconds) * 1e3
}

/// A share in percent. An interval by the normal distribution goes beyond what a share can be: it ends there.
pub(crate) fn percent(share: Estimate) -> Estimate {
    let Estimate { value, low, high } = share * 100.0;
    Estimate::new(value, low.max(0.0), high.min(100.0))
}

/// What times as fast are, where programs were timed in turn.
pub(crate) const BY_ROUND: &str = "the median of the rounds' ratios, not the ratio of the medians";

/// How many tokens go through the model for m new ones after a prompt of n: n + m - 1 with the cache, and the sum of n,
/// n + 1, ... n + m - 1 without.
pub(crate) fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    let steps = m.saturating_sub(1);
    (n + steps, m * n + m * steps / 2)
}

/// How many times as many tokens go through the model without the cache.
pub(crate) fn tokens_saved(n: usize, m: usize) -> f64 {
    let (with, without) = tokens_computed(n, m);
    without as f64 / with as f64
}

/// What a paired ratio of speeds says, if its interval is all on one side of 1, and there are rounds enough.
pub(crate) fn told_apart(times_as_fast: Statistics) -> &'static str {
    match times_as_fast.side_of(1.0) {
        Some(Ordering::Greater) => "faster",
        Some(_) => "slower",
        None => "not told apart",
    }
}

/// Whether the first is faster, by a paired ratio of speeds.
pub(crate) fn is_faster(times_as_fast: Statistics) -> bool {
    times_as_fast.side_of(1.0) == Some(Ordering::Greater)
}

/// The places of so many in a round: each begins in turn, so that none always follows the same one.
pub(crate) fn places(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (round + place) % count)
}

/// How many new tokens each run made.
pub(crate) fn new_tokens_of(runs: &Runs) -> usize {
    runs.runs.first().map_or(0, |run| run.tokens_generated)
}

/// The middle one; NaN of none, or if one is not finite.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    Statistics::of(&values.collect::<Vec<_>>()).map_or(f64::NAN, |all| all.median)
}

/// What the intervals of a table are whose first row has these runs.
pub(crate) fn intervals_of(first: Option<&Runs>) -> String {
    medians_of(first.map(|runs| runs.latency_s), "run")
}

/// What the intervals of a table are whose first row has these statistics, of runs or of rounds.
pub(crate) fn medians_of(first: Option<Statistics>, what: &str) -> String {
    first.map_or_else(|| format!("no {what}s yet"), |first| first.medians_of(what))
}

/// Columns that several tables have.
pub(crate) trait WithRuns {
    /// What the rows took, which were all measured on one model.
    fn with_runs<'a>(self, rows: impl Iterator<Item = &'a Runs> + Clone, loaded: &Loaded) -> Self;
}

impl WithRuns for Table {
    fn with_runs<'a>(self, rows: impl Iterator<Item = &'a Runs> + Clone, loaded: &Loaded) -> Self {
        let first = rows.clone().next();
        self.column("latency", "ms", rows.clone().map(|runs| milliseconds(runs.latency_s)))
            .column("throughput", "tokens/s", rows.map(|runs| runs.tokens_per_s))
            .note(RunInfo::of(loaded))
            .note(intervals_of(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interval_on_one_side_of_1_tells_speeds_apart() {
        let of = |values: &[f64]| told_apart(Statistics::of(values).unwrap());
        let [faster, slower] = [[1.1, 1.3, 1.2, 1.2, 1.4], [0.7, 0.9, 0.8, 0.8, 0.6]];
        assert_eq!([of(&faster), of(&slower), of(&[0.9, 1.3, 1.2, 1.2, 1.4])], ["faster", "slower", "not told apart"]);
        assert_eq!([of(&faster[..4]), of(&slower[..1])], ["not told apart"; 2], "too few rounds");
    }

    #[test]
    fn everybody_begins_a_round_in_turn() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| places(round, 3).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(places(1, 0).count(), 0);
    }

    #[test]
    fn the_cache_saves_what_counting_says() {
        // With: 4 + 2 tokens. Without: 4 + 5 + 6.
        assert!((tokens_saved(4, 3) - 15.0 / 6.0).abs() < 1e-12);
        assert!((tokens_saved(4, 1) - 1.0).abs() < 1e-12);
    }
}
