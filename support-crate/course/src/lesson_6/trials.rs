//! Numbers that an answer gave, as lesson 6 compares them; and weights to call answers with.

use rand::Rng;
use rand::rngs::StdRng;

pub(super) use crate::trial::{Close, Trial, wide};
use crate::{Complaint, Verdict, trial};

/// As [`trial::all_close`], of an answer that may have given none.
pub(super) fn in_each(trials: Result<Vec<Trial>, Complaint>, close: Close, name: impl Fn(usize) -> String) -> Verdict {
    trial::all_close(&trials?, close, name, "")
}

/// As many numbers as are expected, or a complaint that says how many there are.
pub(super) fn of_length<T>(all: Vec<T>, expected: usize) -> Result<Vec<T>, Complaint> {
    let len = all.len();
    Complaint::unless(len == expected, || format!("you gave {len} numbers, and {expected} are expected"))?;
    Ok(all)
}

/// Numbers between -`most` and `most`, more of them near 0.
pub(super) fn weights(rng: &mut StdRng, n: usize, most: f32) -> Vec<f32> {
    (0..n).map(|_| most * rng.random_range(-1.0..1.0_f32) * rng.random_range(0.0..1.0_f32)).collect()
}
