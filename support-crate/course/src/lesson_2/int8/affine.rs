//! `quantize_affine`: a grid from the smallest number to the largest.

use quantlab::error::Result;

use super::{
    Int8Vector, Trial, answers, near, range, refuses_what_is_no_number, rounds_to_nearest, zeros_are_no_problem,
};
use crate::{Point, Score, Verdict};

const HINTS: [&str; 3] = [
    "Which number must become -128, which one 127, and which value then stands for 0?",
    "The range has to hold 0: `low = min(0, smallest)`, `high = max(0, largest)`. Of its 255 steps, `-low / scale` lie \
     between `low` and 0, and `low` itself is the value -128.",
    "`let scale = if high > low { (high - low) / 255.0 } else { 1.0 }; let zero_point = (-128.0 - low / scale).round() \
     as i32;`, and a value is `((x / scale).round() + zero_point as f32).clamp(-128.0, 127.0) as i8`.",
];

/// Checks `quantize_affine(numbers)`.
pub fn check_quantize_affine(yours: fn(&[f32]) -> Result<Int8Vector>) -> Score {
    let vectors = answers(&yours);
    let points: [Point<Trial>; 3] = [
        ("the scale is the range / 255, and 0 lies in the range", has_scale),
        ("the zero point is a value, and stands for 0", has_zero_point),
        ("every number goes to the nearest line of the grid, clipped at its ends", rounds_to_nearest),
    ];
    Score::new("quantize_affine", HINTS)
        .each(&vectors, &points)
        .about(&vectors, "zeros and an empty row have a scale, too", |_| zeros_are_no_problem(&yours, -128..=127))
        .about(&vectors, "NaN and infinity are errors", |_| refuses_what_is_no_number(&yours))
}

fn has_scale((numbers, vector): &Trial) -> Verdict {
    let [low, high] = range(numbers);
    let (scale, expected) = (vector.scale, (high - low) / 255.0);
    if near(scale, expected) {
        return Ok(());
    }
    let smallest = numbers.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let magnitude = low.abs().max(high);
    let why = if near(scale, (largest - smallest) / 255.0) {
        ": that range does not hold 0, so no int8 value stands for 0"
    } else if near(scale, (high - low) / 256.0) {
        ": 256 values have 255 steps between them"
    } else if near(scale, magnitude / 127.0) || near(scale, magnitude / 128.0) {
        ": that is the symmetric grid's, which leaves values unused where the numbers are one-sided"
    } else {
        ""
    };
    wrong!(
        "numbers from {smallest} to {largest} have a range from {low} to {high}, so the scale is {expected:e}; yours \
         is {scale:e}{why}"
    )
}

fn has_zero_point((numbers, vector): &Trial) -> Verdict {
    let Int8Vector { zero_point, scale, .. } = *vector;
    let [low, high] = range(numbers).map(|end| f64::from(end) / f64::from(scale));
    // Counted from either end.
    let is_near = |exact: f64| (f64::from(zero_point) - exact).abs() <= 0.5 + 1e-4;
    let is_value = (-128..=127).contains(&zero_point);
    if is_value && (is_near(-128.0 - low) || is_near(127.0 - high)) {
        return Ok(());
    }
    let why = if is_near(-low) {
        ": that counts from 0, as for values from 0 to 255; an int8 starts at -128"
    } else if is_near(128.0 + low) {
        ": that has the wrong sign"
    } else if !is_value {
        ": that is not an int8 value, so 0 cannot be written"
    } else if zero_point == 0 {
        ": 0 is the symmetric grid's"
    } else {
        ""
    };
    wrong!(
        "the smallest number of the range has to become -128, {:.0} steps below 0: the zero point is {:.0}, yours is \
         {zero_point}{why}",
        // Not -0.
        0.0 - low,
        -128.0 - low
    )
}
