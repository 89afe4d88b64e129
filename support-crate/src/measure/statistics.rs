//! Summarises repeated measurements as one value and the interval it lies in.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

use crate::error::{Error, Result};

/// What repeated measurements of the same thing say about it.
///
/// The interval is for the median, and its ends are two of the measured values: with probability `confidence` it holds
/// the true median, whatever the distribution, as long as each value is drawn independently from it. Times on a shared
/// machine have a long tail to one side, which an interval for the mean (Student's t) would have to ignore; and they
/// drift, which no interval made of one stretch of time shows.
///
/// 95% needs six values or more. With fewer, the interval is the whole range, and `confidence` says how
/// much that is worth: 94% for five, 75% for three, nothing for one.
///
/// Source: Le Boudec 2010, "Performance Evaluation of Computer and Communication Systems", theorem 2.1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Statistics {
    /// The middle value; of an even number of values, the mean of the two in the middle.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation (n - 1); 0 for a single value.
    pub sd: f64,
    /// Lower end of the interval for the median.
    pub low: f64,
    /// Upper end of the interval for the median.
    pub high: f64,
    /// Probability that the interval holds the true median.
    pub confidence: f64,
    /// How many values there are.
    pub n: usize,
}

/// The confidence that an interval has if there are enough values.
const CONFIDENCE: f64 = 0.95;

/// The confidence from which on an interval tells its median apart from a value: that of five values and more.
const TELLS_APART: f64 = 0.9;

impl Statistics {
    /// The statistics of some values.
    ///
    /// # Errors
    /// No values, or one that is not a finite number.
    pub fn of(values: &[f64]) -> Result<Self> {
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(Error::input(format!("{value} among the measured values")));
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (Some(&smallest), Some(&largest)) = (sorted.first(), sorted.last()) else {
            return Err(Error::input("there are no measured values").hint("measure at least once"));
        };
        let mean = (sorted.iter().sum::<f64>() / n as f64).clamp(smallest, largest);
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let (rank, confidence) = interval_rank(n);
        Ok(Self {
            median: f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
            mean,
            sd: if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 },
            low: sorted[rank],
            high: sorted[n - 1 - rank],
            confidence,
            n,
        })
    }

    /// On which side of a value the true median lies: the whole interval does, and holds it with a confidence of 90% or
    /// more, which takes five values. `None`: they are not told apart.
    ///
    /// ```
    /// use std::cmp::Ordering;
    ///
    /// use quantlab::measure::Statistics;
    ///
    /// let times_as_fast = Statistics::of(&[1.2, 1.1, 1.3, 1.2, 1.4])?;
    /// assert_eq!(times_as_fast.side_of(1.0), Some(Ordering::Greater));
    /// assert_eq!(Statistics::of(&[1.2])?.side_of(1.0), None);
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    pub fn side_of(&self, value: f64) -> Option<Ordering> {
        match self.confidence >= TELLS_APART {
            true if self.low > value => Some(Ordering::Greater),
            true if self.high < value => Some(Ordering::Less),
            _ => None,
        }
    }

    /// What a table has of these and of others like them, for its small print: `medians of 7 runs with their 98%
    /// intervals`, where `what` is `run`; of single ones, `1 run each`.
    pub fn medians_of(&self, what: &str) -> String {
        match self.n {
            1 => format!("1 {what} each"),
            n => format!("medians of {n} {what}s with their {:.0}% intervals", 100.0 * self.confidence),
        }
    }

    /// What the error bars of a plot mean, for its legend: `98% interval of the median of 7`, or, where they differ,
    /// with the least and the most of each number. Empty without statistics; a single value has no bar.
    pub fn interval_names<'a>(all: impl IntoIterator<Item = &'a Self>) -> String {
        let several = all.into_iter().filter(|one| one.n > 1);
        let (mut levels, mut counts): (Vec<i64>, Vec<usize>) =
            several.map(|one| ((100.0 * one.confidence).round() as i64, one.n)).unzip();
        levels.sort_unstable();
        counts.sort_unstable();
        let (&[least, ..], &[.., most]) = (&levels[..], &levels[..]) else { return String::new() };
        let (&[fewest, ..], &[.., largest]) = (&counts[..], &counts[..]) else { return String::new() };
        let level = if least == most { format!("{most}%") } else { format!("{least}% to {most}%") };
        let count = if fewest == largest { largest.to_string() } else { format!("{fewest} to {largest}") };
        format!("{level} interval of the median of {count}")
    }
}

/// How many values to leave out on each side, and the confidence of what is left.
///
/// The true median lies below the (r+1)-th smallest of n values if at most r of them are smaller than
/// it: as likely as at most r heads in n throws of a coin.
fn interval_rank(n: usize) -> (usize, f64) {
    let throws = n as i32;
    // In logarithms, so that hundreds of throws do not vanish.
    let mut log_probability = -f64::from(throws) * std::f64::consts::LN_2;
    let mut outside = 2.0 * log_probability.exp();
    let mut best = (0, (1.0 - outside).max(0.0));
    for rank in 1..n / 2 {
        log_probability += (((n - rank + 1) as f64) / rank as f64).ln();
        outside += 2.0 * log_probability.exp();
        if 1.0 - outside < CONFIDENCE {
            break;
        }
        best = (rank, 1.0 - outside);
    }
    best
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$} [{:.digits$}, {:.digits$}]", self.median, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_values_give_their_range_and_say_what_it_is_worth() {
        let one = Statistics::of(&[2.0]).unwrap();
        assert_eq!((one.median, one.low, one.high, one.confidence, one.sd), (2.0, 2.0, 2.0, 0.0, 0.0));
        let five = Statistics::of(&[5.0, 1.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!((five.median, five.mean, five.low, five.high), (3.0, 3.0, 1.0, 5.0));
        assert!((five.confidence - 0.9375).abs() < 1e-12);
    }

    #[test]
    fn intervals_are_named_with_their_level_and_count() {
        let of = |n: usize| Statistics::of(&vec![1.0; n]).unwrap();
        assert_eq!(Statistics::interval_names(&[of(7), of(7)]), "98% interval of the median of 7");
        assert_eq!(Statistics::interval_names(&[of(7), of(5)]), "94% to 98% interval of the median of 5 to 7");
        assert_eq!(Statistics::interval_names(&[of(7), of(1)]), "98% interval of the median of 7");
        assert_eq!([Statistics::interval_names([]), Statistics::interval_names(&[of(1)])], [""; 2]);
        let words = [1, 3, 12].map(|n| of(n).medians_of("round"));
        assert_eq!(words[..2], ["1 round each", "medians of 3 rounds with their 75% intervals"]);
        assert_eq!(words[2], "medians of 12 rounds with their 96% intervals");
    }

    #[test]
    fn a_side_takes_the_whole_interval_and_five_values() {
        let side = |values: &[f64]| Statistics::of(values).unwrap().side_of(1.0);
        assert_eq!(side(&[1.1, 1.2, 1.3, 1.4, 1.5]), Some(Ordering::Greater));
        assert_eq!(side(&[0.5, 0.6, 0.7, 0.8, 0.9]), Some(Ordering::Less));
        assert_eq!([side(&[0.9, 1.2, 1.3, 1.4, 1.5]), side(&[1.0; 6])], [None; 2]);
        assert_eq!([side(&[1.1]), side(&[1.1, 1.2, 1.3, 1.4]), side(&[0.5; 4])], [None; 3]);
    }

    /// Le Boudec, table A.1: ranks of the 95% interval for the median.
    #[test]
    fn ranks_are_those_of_the_table() {
        for (n, first) in [(6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (30, 10), (50, 18), (70, 27)] {
            assert_eq!(interval_rank(n).0 + 1, first, "n = {n}");
            assert!(interval_rank(n).1 >= CONFIDENCE);
        }
        assert!(interval_rank(5000).1 >= CONFIDENCE);
    }

    #[test]
    fn nothing_and_not_a_number_are_errors() {
        assert!(Statistics::of(&[]).is_err());
        assert!(Statistics::of(&[1.0, f64::NAN]).is_err());
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_and_lies_within_the_range(values in prop::collection::vec(-1e6..1e6_f64, 1..200)) {
            let statistics = Statistics::of(&values).unwrap();
            let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(smallest <= statistics.low && statistics.low <= statistics.median);
            prop_assert!(statistics.median <= statistics.high && statistics.high <= largest);
            prop_assert!(smallest <= statistics.mean && statistics.mean <= largest);
        }
    }
}
