//! `quantize_symmetric`: a grid with a line at 0 that reaches equally far to both sides.

use quantlab::error::Result;

use super::{
    Int8Vector, Trial, answers, near, range, refuses_what_is_no_number, rounds_to_nearest, zeros_are_no_problem,
};
use crate::figure::largest_magnitude;
use crate::{Complaint, Point, Score, Verdict};

const HINTS: [&str; 3] = [
    "Which number must land on 127 or -127, and what then is the distance between two lines?",
    "`numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()))` is the largest magnitude; a value is \
     `(x / scale).round()`, put into an `i8` with `as i8`. `max` ignores NaN, so look for it first: `x.is_finite()`.",
    "`let largest = ...; let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };`, then `values: \
     numbers.iter().map(|x| (x / scale).round() as i8).collect()` and `zero_point: 0`.",
];

/// Checks `quantize_symmetric(numbers)`.
pub fn check_quantize_symmetric(yours: fn(&[f32]) -> Result<Int8Vector>) -> Score {
    let vectors = answers(&yours);
    let points: [Point<Trial>; 3] = [
        ("the scale is the largest magnitude / 127", has_scale),
        ("the zero point is 0", has_no_zero_point),
        ("every number goes to the nearest line of the grid", rounds_to_nearest),
    ];
    Score::new("quantize_symmetric", HINTS)
        .each(&vectors, &points)
        .about(&vectors, "zeros and an empty row have a scale, too", |_| zeros_are_no_problem(&yours, 0..=0))
        .about(&vectors, "NaN and infinity are errors", |_| refuses_what_is_no_number(&yours))
}

fn has_no_zero_point((_, Int8Vector { zero_point, .. }): &Trial) -> Verdict {
    Complaint::unless(*zero_point == 0, || {
        format!("symmetric means that the value 0 stands for 0; your zero point is {zero_point}")
    })
}

fn has_scale((numbers, vector): &Trial) -> Verdict {
    let largest = largest_magnitude(numbers);
    let (scale, expected) = (vector.scale, largest / 127.0);
    if near(scale, expected) {
        return Ok(());
    }
    let [low, high] = range(numbers);
    let signed = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let why = if near(scale, largest / 128.0) {
        ": that divides by 128, but the largest value is 127"
    } else if near(scale, 127.0 / largest) || near(scale, 1.0 / expected) {
        ": that is its inverse; a value is x / scale"
    } else if near(scale, (high - low) / 255.0) || near(scale, (high - low) / 254.0) {
        ": that is the affine grid's, from the smallest number to the largest"
    } else if near(scale, signed / 127.0) {
        ": that is the largest number's, but the largest magnitude may be a negative number's"
    } else if near(scale, largest / 255.0) {
        ": 255 steps are for both sides together, 127 for one"
    } else {
        ""
    };
    wrong!("the largest magnitude is {largest}, so the scale is {expected:e}; yours is {scale:e}{why}")
}
