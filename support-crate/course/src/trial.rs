//! Vectors that an answer gave, against the right ones and those that well-known mistakes give.

use crate::Verdict;
use crate::figure::{Given, apart, first_wrong};

/// One call of an answer: what was called with what, and the vector that it gave.
pub(crate) type Trial = Given<Vec<f64>>;

impl Trial {
    pub fn new(what: impl Into<String>, got: &[f32], expected: Vec<f64>) -> Self {
        Self { what: what.into(), got: wide(got), expected, mistakes: Vec::new() }
    }

    pub fn mistakes(mut self, mistakes: impl IntoIterator<Item = (Vec<f64>, &'static str)>) -> Self {
        self.mistakes.extend(mistakes);
        self
    }
}

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// How close a number must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Close {
    /// The same number.
    Exactly,
    /// To this part of the number itself.
    Each(f64),
    /// To this part of the largest number.
    Largest(f64),
    /// To this difference.
    Within(f64),
}

impl Close {
    /// As close as float32 allows over a few layers.
    pub const FLOAT32: Self = Self::Largest(1e-4);

    /// The first number that departs from what is expected. NaN always does.
    fn departs(self, got: &[f64], expected: &[f64]) -> Option<usize> {
        // The smaller one of both, or anything would be close to a mistake that gives huge numbers.
        let largest_of = |x: &[f64]| x.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        let largest = largest_of(got).min(largest_of(expected));
        let same = |(got, expected): (&f64, &f64)| match self {
            _ if got == expected => true,
            // Or any number would be within a part of infinity.
            _ if expected.is_infinite() => false,
            Self::Exactly => false,
            Self::Each(part) => (got - expected).abs() <= part * expected.abs(),
            Self::Largest(part) => (got - expected).abs() <= part * largest,
            Self::Within(difference) => (got - expected).abs() <= difference,
        };
        let first = got.iter().zip(expected).position(|pair| !same(pair));
        first.or_else(|| (got.len() != expected.len()).then_some(got.len().min(expected.len())))
    }
}

/// `name` says what number `i` is called, `if_nan` where a NaN comes from, if there is something to say.
///
/// # Errors
/// The first trial that is wrong, with the first of its numbers that departs.
pub(crate) fn all_close(trials: &[Trial], close: Close, name: impl Fn(usize) -> String, if_nan: &str) -> Verdict {
    let Some((wrong, why)) = first_wrong(trials, |a, b| close.departs(a, b).is_none()) else { return Ok(()) };
    let Trial { what, got, expected, .. } = wrong;
    if got.len() != expected.len() {
        return wrong!("{what}: you gave {} numbers, and {} are expected{why}", got.len(), expected.len());
    }
    if let Some(i) = got.iter().position(|x| !x.is_finite()).filter(|_| !if_nan.is_empty()) {
        return wrong!("{what}: {} is {}: {if_nan}", name(i), got[i]);
    }
    let first = close.departs(got, expected).unwrap_or(0);
    let [got, expected] = apart(6, [got[first], expected[first]], shown);
    wrong!("{what}: {} is {got}, expected {expected}{why}", name(first))
}

fn shown(x: f64, digits: usize) -> String {
    match x.abs() {
        _ if x == x.trunc() && x.abs() < 1e6 => format!("{x}"),
        1e-2..1e6 => format!("{x:.digits$}"),
        _ => format!("{x:.*e}", digits - 2),
    }
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
        let verdict = all_close(&[trial], close, |i| format!("number {i}"), "");
        verdict.map_or_else(|complaint| complaint.to_string(), |()| "right".to_owned())
    }

    #[test]
    fn the_first_number_that_departs_is_named() {
        assert_eq!(message(&[1.0, 2.00001], &[1.0, 2.0], Close::Each(1e-4)), "right");
        assert_eq!(message(&[1.0001, 2.0], &[1.0, 2.0], Close::Each(1e-5)), "f: number 0 is 1.000100, expected 1");
        assert_eq!(message(&[1.0001, 2.0], &[1.0, 2.0], Close::FLOAT32), "right");
        let tiny = 1.0 + 2e-9;
        assert_eq!(message(&[tiny, 2.0], &[1.0, 2.0], Close::Exactly), "f: number 0 is 1.000000002, expected 1");
        assert_eq!(message(&[2.0, 4.0], &[1.0, 2.0], Close::Exactly), "f: number 0 is 2, expected 1: twice");
        assert_eq!(message(&[f64::NAN, 2.0], &[1.0, 2.0], Close::Each(1.0)), "f: number 0 is NaN, expected 1");
        assert_eq!(message(&[1.0], &[1.0, 2.0], Close::Exactly), "f: you gave 1 numbers, and 2 are expected");
    }

    #[test]
    fn a_nan_is_explained_and_a_huge_mistake_explains_nothing_else() {
        let of = |got: &[f32]| Trial::new("f", got, vec![1.0, 2.0]).mistakes([(vec![2.0, 1e9], "huge")]);
        let message = |trial| all_close(&[trial], Close::FLOAT32, |i| format!("number {i}"), "divided by 0");
        let message = |got: &[f32]| message(of(got)).map_err(|complaint| complaint.to_string());
        assert_eq!(message(&[1.0, f32::NAN]), Err("f: number 1 is NaN: divided by 0".to_owned()));
        assert_eq!(message(&[1.5, 2.0]), Err("f: number 0 is 1.500000, expected 1".to_owned()));
        assert_eq!(Close::Each(1e-6).departs(&[0.0], &[f64::INFINITY]), Some(0));
    }
}
