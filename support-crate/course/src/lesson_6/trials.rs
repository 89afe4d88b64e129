//! Numbers that an answer gave, against the right ones and those that well-known mistakes give.

use rand::Rng;
use rand::rngs::StdRng;

use crate::figure::{Given, first_wrong};
use crate::{Complaint, Verdict};

/// One call of an answer: what was called with what, and the numbers that it gave.
pub(super) type Trial = Given<Vec<f64>>;

/// How close a number must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Close {
    /// The same number.
    Exactly,
    /// To this part of the number itself.
    Each(f64),
    /// To this part of the largest number.
    Largest(f64),
}

impl Close {
    /// The first number that departs from what is expected. NaN always does.
    fn departs(self, got: &[f64], expected: &[f64]) -> Option<usize> {
        let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        let same = |(got, expected): (&f64, &f64)| match self {
            Self::Exactly => got == expected,
            Self::Each(part) => (got - expected).abs() <= part * expected.abs(),
            Self::Largest(part) => (got - expected).abs() <= part * largest,
        };
        let first = got.iter().zip(expected).position(|pair| !same(pair));
        first.or_else(|| (got.len() != expected.len()).then_some(got.len().min(expected.len())))
    }
}

/// # Errors
/// The first trial that is wrong, with the first of its numbers that departs: `name` says what number `i` is called.
pub(super) fn all_close(trials: &[Trial], close: Close, name: impl Fn(usize) -> String) -> Verdict {
    let Some((wrong, found)) = first_wrong(trials, |a, b| close.departs(a, b).is_none()) else { return Ok(()) };
    let why = found.map(|why| format!(": {why}")).unwrap_or_default();
    let Trial { what, got, expected, .. } = wrong;
    if got.len() != expected.len() {
        return wrong!("{what}: you gave {} numbers, and {} are expected{why}", got.len(), expected.len());
    }
    let first = close.departs(got, expected).unwrap_or(0);
    wrong!("{what}: {} is {}, expected {}{why}", name(first), shown(got[first]), shown(expected[first]))
}

/// As [`all_close`], of an answer that may have given none.
pub(super) fn in_each(trials: Result<Vec<Trial>, Complaint>, close: Close, name: impl Fn(usize) -> String) -> Verdict {
    all_close(&trials?, close, name)
}

fn shown(x: f64) -> String {
    match x.abs() {
        _ if x == x.trunc() && x.abs() < 1e6 => format!("{x}"),
        1e-2..1e6 => format!("{x:.6}"),
        _ => format!("{x:.4e}"),
    }
}

pub(super) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// Numbers between -`most` and `most`, more of them near 0.
pub(super) fn weights(rng: &mut StdRng, n: usize, most: f32) -> Vec<f32> {
    (0..n).map(|_| most * rng.random_range(-1.0..1.0_f32) * rng.random_range(0.0..1.0_f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(got: &[f64], expected: &[f64], close: Close) -> String {
        let trial = Trial {
            what: "f".to_owned(),
            got: got.to_vec(),
            expected: expected.to_vec(),
            mistakes: vec![(vec![2.0, 4.0], "twice")],
        };
        let verdict = all_close(&[trial], close, |i| format!("number {i}"));
        verdict.map_or_else(|complaint| complaint.to_string(), |()| "right".to_owned())
    }

    #[test]
    fn the_first_number_that_departs_is_named() {
        assert_eq!(message(&[1.0, 2.00001], &[1.0, 2.0], Close::Each(1e-4)), "right");
        assert_eq!(message(&[1.0001, 2.0], &[1.0, 2.0], Close::Each(1e-5)), "f: number 0 is 1.000100, expected 1");
        assert_eq!(message(&[1.0001, 2.0], &[1.0, 2.0], Close::Largest(1e-4)), "right");
        assert_eq!(message(&[2.0, 4.0], &[1.0, 2.0], Close::Exactly), "f: number 0 is 2, expected 1: twice");
        assert_eq!(message(&[f64::NAN, 2.0], &[1.0, 2.0], Close::Each(1.0)), "f: number 0 is NaN, expected 1");
        assert_eq!(message(&[1.0], &[1.0, 2.0], Close::Exactly), "f: you gave 1 numbers, and 2 are expected");
    }
}
