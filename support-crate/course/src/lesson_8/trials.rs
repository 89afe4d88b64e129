//! What an answer gave, against what is right and what well-known mistakes give: values of any kind.

use std::fmt::Debug;

use crate::figure::{Given, first_wrong};
use crate::{Complaint, Verdict};

/// The mistakes of a second implementation: what each gives, and what to say about it.
pub(super) fn slips<S: Copy, V>(all: &[(S, &'static str)], of: impl Fn(S) -> V) -> Vec<(V, &'static str)> {
    all.iter().map(|&(slip, why)| (of(slip), why)).collect()
}

/// # Errors
/// The first value that is not the same, with the mistake that gives it.
pub(super) fn all_same<V: PartialEq + Debug>(trials: Result<Vec<Given<V>>, Complaint>) -> Verdict {
    let trials = trials?;
    let Some((wrong, found)) = first_wrong(&trials, |a, b| a == b) else { return Ok(()) };
    let why = found.map(|why| format!(": {why}")).unwrap_or_default();
    wrong!("{} is {:?}, expected {:?}{why}", wrong.what, wrong.got, wrong.expected)
}

/// # Errors
/// The first list of numbers of which one is further off than `within`, with the mistake that gives it. NaN always is.
pub(super) fn all_within(trials: Result<Vec<Given<Vec<f64>>>, Complaint>, within: f64) -> Verdict {
    let trials = trials?;
    let is_close = |a: &f64, b: &f64| (a - b).abs() <= within;
    let all_close = |a: &Vec<f64>, b: &Vec<f64>| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_close(a, b));
    let Some((wrong, found)) = first_wrong(&trials, all_close) else { return Ok(()) };
    let why = found.map(|why| format!(": {why}")).unwrap_or_default();
    let Given { what, got, expected, .. } = wrong;
    if got.len() != expected.len() {
        return wrong!("{what}: you gave {} numbers, and {} are expected{why}", got.len(), expected.len());
    }
    let first = got.iter().zip(expected).position(|(a, b)| !is_close(a, b)).unwrap_or(0);
    wrong!("{what}: number {first} is {:.4}, expected {:.4}{why}", got[first], expected[first])
}
