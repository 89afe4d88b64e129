//! `rounding_error`: how far restored weights are from the original.

use rand::Rng;

use crate::cases::{KINDS, random, row, size};
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Which two sums does the formula have, and in what order do dividing, the root and the percent come?",
    "Add up `(weight - restored)` squared and `weight` squared in `f64`, divide the first sum by the second, take the root, \
     and multiply by 100.",
    "`let square = |value: f32| f64::from(value).powi(2);`, then `weights.iter().zip(restored).map(|(a, b)| square(a - \
     b)).sum::<f64>()` over `weights.iter().map(|weight| square(*weight)).sum::<f64>()`",
];

/// Checks `rounding_error(weights, restored)`, in percent.
pub fn check_rounding_error(yours: fn(&[f32], &[f32]) -> f64) -> Score {
    let is_right = |cases: Vec<(Vec<f32>, Vec<f32>)>| -> Verdict {
        let figures = cases
            .iter()
            .map(|(weights, restored)| Ok(figure(weights, restored, ask(|| Ok(yours(weights, restored)))?)));
        all_right(&figures.collect::<Result<Vec<_>, Complaint>>()?, |a, b| (a - b).abs() <= 1e-3 * b.abs())
    };
    let plain = is_right(cases(1.0));
    // Squares that float32 has no number for; one that is wrong for plain numbers too has another fault.
    let of_any_size = |factor: f32, size: &str| -> Verdict {
        for (weights, restored) in cases(factor) {
            let (n, got) = (weights.len(), ask(|| Ok(yours(&weights, &restored)))?);
            if plain.is_ok() && !got.is_finite() {
                return wrong!(
                    "the error of {n} weights of up to {:.0e} is {got}: their squares are too {size} for an `f32`; \
                     make each number an `f64` before it is squared",
                    3.0 * factor
                );
            }
        }
        is_right(cases(factor))
    };
    Score::new("rounding_error", HINTS)
        .point("it is the root of the squared error over the squared weights, in percent", plain.clone())
        .point("weights that were restored exactly are 0 % off", is_right(vec![(vec![0.5, -2.0], vec![0.5, -2.0])]))
        .point("the size of the weights makes no difference", {
            of_any_size(1e-25, "small").and_then(|()| of_any_size(1e25, "large"))
        })
}

/// Weights of every kind, and the same after rounding to tenths of the largest, or with an error of their own size.
fn cases(factor: f32) -> Vec<(Vec<f32>, Vec<f32>)> {
    let mut rng = random(44);
    let mut case = |kind: usize| {
        let n = 2 + size(&mut rng, 3000);
        let mut weights = row(&mut rng, kind, n);
        // A zero, by which nothing may be divided, and a large one, in turn in the first place, which may be lost.
        weights[kind % 2] = 0.0;
        weights[1 - kind % 2] = 3.0;
        let rounded = |weight: &f32| (weight * 3.0).round() / 3.0;
        let restored: Vec<f32> = match kind < KINDS {
            true => weights.iter().map(rounded).collect(),
            false => weights.iter().map(|weight| weight + rng.random_range(-1.0..2.0)).collect(),
        };
        [weights, restored].map(|values| values.iter().map(|value| value * factor).collect())
    };
    (0..2 * KINDS).map(|kind| case(kind).into()).collect()
}

fn figure(weights: &[f32], restored: &[f32], got: f64) -> Figure {
    let pairs = || weights.iter().zip(restored).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let sum = |term: fn(f64, f64) -> f64| pairs().map(|(a, b)| term(a, b)).sum::<f64>();
    let (wrong, size) = (sum(|a, b| (a - b).powi(2)), sum(|a, _| a * a));
    let expected = 100.0 * (wrong / size).sqrt();
    let n = weights.len() as f64;
    let mistakes = vec![
        (expected / 100.0, "that is a share; multiply by 100 for percent"),
        (100.0 * wrong / size, "the root is missing"),
        (100.0 * (wrong / n).sqrt(), "divide by the squares of the weights, not by how many there are"),
        (100.0 * wrong.sqrt(), "the squares of the weights are missing"),
        (
            100.0 * (wrong / sum(|_, b| b * b)).sqrt(),
            "the size is that of the original weights, not of the restored ones",
        ),
        (
            100.0 * sum(|a, b| (a - b).abs()) / sum(|a, _| a.abs()),
            "these are magnitudes; square the errors and the weights",
        ),
        (
            100.0 * (sum(|a, b| a - b).powi(2) / size).sqrt(),
            "square each error before adding them up: of opposite signs, they cancel",
        ),
    ];
    Figure { what: format!("the error of {} weights, in percent,", weights.len()), got, expected, mistakes }
}
