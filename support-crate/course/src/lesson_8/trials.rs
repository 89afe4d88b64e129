//! What an answer gave, against what is right and what well-known mistakes give: values of any kind.

use std::fmt::Debug;

use crate::figure::{Given, first_wrong};
use crate::trial::{Close, Trial, all_close};
use crate::{Complaint, Verdict};

/// The mistakes of a second implementation: what each gives, and what to say about it.
pub(super) fn slips<S: Copy, V>(all: &[(S, &'static str)], of: impl Fn(S) -> V) -> Vec<(V, &'static str)> {
    all.iter().map(|&(slip, why)| (of(slip), why)).collect()
}

/// # Errors
/// The first value that is not the same, with the mistake that gives it.
pub(super) fn all_same<V: PartialEq + Debug>(trials: Result<Vec<Given<V>>, Complaint>) -> Verdict {
    let trials = trials?;
    let Some((wrong, why)) = first_wrong(&trials, |a, b| a == b) else { return Ok(()) };
    wrong!("{} is {:?}, expected {:?}{why}", wrong.what, wrong.got, wrong.expected)
}

/// # Errors
/// The first list of numbers of which one is further off than `within`, with the mistake that gives it. NaN always is:
/// `if_nan` says where it comes from.
pub(super) fn all_within(trials: Result<Vec<Trial>, Complaint>, within: f64, if_nan: &str) -> Verdict {
    all_close(&trials?, Close::Within(within), |i| format!("number {i}"), if_nan)
}
