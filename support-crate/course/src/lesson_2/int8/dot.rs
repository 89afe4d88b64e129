//! `int8_dot`: a dot product of whole numbers.

use rand::Rng;

use quantlab::error::Result;

use super::Int8Vector;
use crate::cases::random;
use crate::failures::must_fail;
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "What do two values stand for, and which parts of their product are the same for all i?",
    "Subtract the zero points before you multiply, and do both in `i32`: a product of two int8 does not fit into an \
     int8. `zip` stops at the end of the shorter one, so compare the lengths first.",
    "`let sum: i32 = x.values.iter().zip(&w.values).map(|(&a, &b)| (i32::from(a) - x.zero_point) * (i32::from(b) - \
     w.zero_point)).sum();`, then `Ok(x.scale * w.scale * sum as f32)`.",
];

/// Checks `int8_dot(x, w)`.
pub fn check_int8_dot(yours: fn(&Int8Vector, &Int8Vector) -> Result<f32>) -> Score {
    let dot = |x: &Int8Vector, w: &Int8Vector| ask(|| yours(x, w));
    let first = dot(&vector(&[3, -2, 5], 0.5, 0), &vector(&[4, 6, -1], 0.25, 0));
    let each = |cases: &[(Int8Vector, Int8Vector)]| cases.iter().try_for_each(|(x, w)| fits(x, w, dot(x, w)?));
    Score::new("int8_dot", HINTS)
        .about(&first, "symmetric vectors: the sum of products, times both scales", |_| each(&symmetric()))
        .about(&first, "zero points are subtracted, for either vector and for both", |_| {
            each(&[affine(), any()].concat())
        })
        .about(&first, "products and sums have room: an int8 or an int16 is too small for them", |_| each(&long()))
        .about(&first, "whole numbers are added up, without rounding on the way", |_| each(&[cancelling()]))
        .about(&first, "vectors of different lengths are an error, empty ones are 0", |_| lengths(&dot))
}

fn vector(values: &[i8], scale: f32, zero_point: i32) -> Int8Vector {
    Int8Vector { values: values.to_vec(), scale, zero_point }
}

/// The scales differ, and neither is 1.
fn symmetric() -> Vec<(Int8Vector, Int8Vector)> {
    vec![
        (vector(&[3, -2, 5], 0.5, 0), vector(&[4, 6, -1], 0.25, 0)),
        (vector(&[-7, 11], 0.125, 0), vector(&[9, 2], 3.0, 0)),
    ]
}

fn affine() -> Vec<(Int8Vector, Int8Vector)> {
    vec![
        (vector(&[3, -2, 5], 0.5, -128), vector(&[4, 6, -1], 0.25, 0)),
        (vector(&[3, -2, 5], 0.5, 0), vector(&[4, 6, -1], 0.25, 7)),
        (vector(&[100, -128, 5, 9], 0.5, -121), vector(&[-90, 6, -1, 127], 0.25, 33)),
    ]
}

/// Of any length, scale and zero point: the same ones each time.
fn any() -> Vec<(Int8Vector, Int8Vector)> {
    let mut rng = random(9);
    let mut vector = |n: usize| Int8Vector {
        values: (0..n).map(|_| rng.random()).collect(),
        scale: 10_f32.powf(rng.random_range(-4.0..1.0)),
        zero_point: rng.random_range(-128..=127),
    };
    (1..=20).map(|n| (vector(n * n), vector(n * n))).collect()
}

fn long() -> Vec<(Int8Vector, Int8Vector)> {
    // One product beyond an int8, sums beyond an int16.
    let ends = |n: usize| (vector(&vec![-128; n], 0.5, 0), vector(&vec![127; n], 0.25, 0));
    let one_sided = (vector(&[127; 1000], 0.5, -128), vector(&[-128; 1000], 0.25, 127));
    // Nearly as large as an i32 can be.
    let most = (vector(&[127; 30_000], 0.5, -128), vector(&[-128; 30_000], 0.25, 127));
    vec![ends(1), ends(1000), one_sided, most]
}

/// Large sums that cancel except for the last product: float32, with its 24 bits, loses what is left.
fn cancelling() -> (Int8Vector, Int8Vector) {
    let (x, w): (Vec<i8>, Vec<i8>) = (0..6000).map(|i| ((127 - i * 7 % 11) as i8, (125 - i * 5 % 13) as i8)).unzip();
    let negative: Vec<i8> = w.iter().map(|value| -value).collect();
    (vector(&[&x[..], &x, &[3]].concat(), 0.1, 0), vector(&[&w[..], &negative, &[5]].concat(), 0.3, 0))
}

/// The exact result, and what it is without the zero points.
fn expected(x: &Int8Vector, w: &Int8Vector, zero_points: bool) -> f64 {
    let off = |vector: &Int8Vector| if zero_points { i64::from(vector.zero_point) } else { 0 };
    let (of_x, of_w) = (off(x), off(w));
    let sum: i64 = x.values.iter().zip(&w.values).map(|(&a, &b)| (i64::from(a) - of_x) * (i64::from(b) - of_w)).sum();
    f64::from(x.scale) * f64::from(w.scale) * sum as f64
}

fn fits(x: &Int8Vector, w: &Int8Vector, got: f32) -> Verdict {
    let exact = expected(x, w, true);
    let same = |value: f64| (f64::from(got) - value).abs() <= 1e-6 * value.abs();
    if same(exact) {
        return Ok(());
    }
    let n = x.values.len();
    let scales = f64::from(x.scale) * f64::from(w.scale);
    let gross: f64 = x.dequantize().iter().zip(w.dequantize()).map(|(a, b)| f64::from((a * b).abs())).sum();
    let why = if same(expected(x, w, false)) {
        ": that is the product of the values as if their zero points were 0"
    } else if same(exact / scales) {
        ": that is the sum of whole numbers, without the scales"
    } else if same(exact / f64::from(w.scale)) || same(exact / f64::from(x.scale)) {
        ": one of the two scales is missing"
    } else if n >= 1000 && (f64::from(got) - exact).abs() < 1e-3 * gross {
        ": a sum in float32 rounds at every step; add whole numbers, and multiply by the scales once, at the end"
    } else if n >= 1000 {
        ": did a product or a sum go beyond the type that holds it?"
    } else {
        ""
    };
    wrong!(
        "the product of {n} values, zero points {} and {}, is {exact:.6}; yours is {got:.6}{why}",
        x.zero_point,
        w.zero_point
    )
}

/// Vectors of different lengths are an error, whether the longer one has one value more, is a multiple, or the other is
/// empty.
fn lengths(dot: &dyn Fn(&Int8Vector, &Int8Vector) -> Result<f32, Complaint>) -> Verdict {
    let vectors = [3, 2, 0, 64, 65].map(|n| vector(&vec![3; n], 1.0, 0));
    let pairs = vectors.iter().flat_map(|x| vectors.iter().map(move |w| (x, w)));
    for (x, w) in pairs.filter(|(x, w)| x.values.len() != w.values.len()) {
        must_fail(dot(x, w), |got| {
            let (a, b) = (x.values.len(), w.values.len());
            format!("{a} values times {b} gave {got}: the rest of the longer one was silently dropped; return an `Err`")
        })?;
    }
    let empty = &vectors[2];
    match dot(empty, empty)? {
        0.0 => Ok(()),
        other => wrong!("the sum of no products is 0, yours is {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cancels_is_lost_in_float32() {
        let (x, w) = cancelling();
        let sum: f32 = x.dequantize().iter().zip(w.dequantize()).map(|(a, b)| a * b).sum();
        assert!(fits(&x, &w, sum).unwrap_err().to_string().contains("rounds at every step"));
        assert_eq!(fits(&x, &w, (f64::from(x.scale) * f64::from(w.scale) * 15.0) as f32), Ok(()));
    }
}
