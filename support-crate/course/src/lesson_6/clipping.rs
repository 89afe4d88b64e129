//! `clipped_grid`: the limits outside of which weights are clipped.

use quantlab::error::Result as Outcome;

use super::Grid;
use super::grid::between;
use super::layer::parts;
use super::trials::{Close, Trial, in_each, weights};
use crate::cases::random;
use crate::figure::counted;
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "For each part: from where to where does the grid reach, and what does rounding to it change in all weights together?",
    "The limits are the smallest and the largest weight (and 0), both times the part. Round every weight to the grid, also \
     those outside: the error of a part is the sum of squares over all of them. Keep the grid of the least.",
    "`let error = |grid: &Grid| -> f32 { weights.iter().map(|w| (grid.number(code_of(*w, grid)) - w).powi(2)).sum() };`, then \
     `parts.iter().map(|part| grid_between(part * low, part * high, bits)).min_by(|a, b| error(a).total_cmp(&error(b)))`",
];

/// By which error a grid is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Squares,
    Magnitudes,
    Worst,
    Inside,
    Most,
}

const CHOSEN_BY: [(By, &str); 4] = [
    (By::Magnitudes, "the error is the sum of squares, not of magnitudes"),
    (By::Worst, "the error is the sum over all weights, not the largest"),
    (By::Inside, "weights that are clipped count too: their errors are the largest"),
    (By::Most, "keep the grid with the least error"),
];

const QUOTIENTS: &str = "another grid has a smaller squared error: codes are those of the weights, not of weights over \
                         the part";

fn grid_of(weights: &[f32], bits: u32, low: f64, high: f64) -> [f64; 3] {
    let limit = |of: fn(f64, f64) -> f64| weights.iter().map(|w| f64::from(*w)).fold(0.0, of);
    between(low * limit(f64::min), high * limit(f64::max), bits)
}

fn error(weights: &[f32], [step, zero, last]: [f64; 3], by: By) -> f64 {
    let off = |weight: &f32| {
        let code = (f64::from(*weight) / step).round() + zero;
        let is_inside = (-0.5..=last + 0.5).contains(&code);
        ((code.clamp(0.0, last) - zero) * step - f64::from(*weight), is_inside)
    };
    let all = weights.iter().map(off);
    match by {
        By::Squares => all.map(|(off, _)| off * off).sum(),
        By::Magnitudes => all.map(|(off, _)| off.abs()).sum(),
        By::Worst => all.map(|(off, _)| off.abs()).fold(0.0, f64::max),
        By::Inside => all.filter(|(_, inside)| *inside).map(|(off, _)| off * off).sum(),
        By::Most => -error(weights, [step, zero, last], By::Squares),
    }
}

/// The grid of the part with the least error.
fn best(weights: &[f32], bits: u32, parts: &[f32], by: By) -> [f64; 3] {
    let grids = parts.iter().map(|part| grid_of(weights, bits, f64::from(*part), f64::from(*part)));
    grids.min_by(|a, b| error(weights, *a, by).total_cmp(&error(weights, *b, by))).unwrap_or_default()
}

type Yours<'a> = dyn Fn(&[f32], u32, &[f32]) -> Grid + 'a;

/// Checks `clipped_grid(weights, bits, parts)`.
pub fn check_clipped_grid(yours: fn(&[f32], u32, &[f32]) -> Grid) -> Score {
    let mut rng = random(64);
    let mut around = |n: usize| weights(&mut rng, n, 0.3);
    let plain = [around(32), around(64), around(7), around(100).iter().map(|w| 100.0 * w).collect()];
    let far = [(11, 0.8), (11, -1.4), (11, 5.0), (0, 1.4), (63, 1.6), (0, -1.2), (63, -0.9)].map(|(at, outlier)| {
        let mut weights = around(64);
        weights[at] = outlier;
        weights
    });
    let one_side = [around(64).iter().map(|w| w.abs() + 0.1).collect(), around(32).iter().map(|w| -w.abs()).collect()];
    let odd = [vec![0.0; 16], vec![0.7; 8], vec![-0.02]];
    let (whole, few, all) = ([1.0], [0.3, 0.85, 0.5, 0.6], parts());
    let name = |i: usize| ["the step", "the zero point", "the largest code"][i.min(2)].to_owned();
    let of = |cases: &[Vec<f32>], parts: &[f32]| in_each(trials(&yours, cases, parts), Close::Each(1e-6), name);
    Score::new("clipped_grid", HINTS)
        .point("of one part, its grid", of(&plain, &whole).and_then(|()| of(&one_side, &[0.5])))
        .point("of several parts, the one with the least squared error", of(&plain, &all).and_then(|()| of(&far, &all)))
        .point("parts in any order", of(&far, &few).and_then(|()| of(&plain, &few)))
        .point("weights on one side of 0, alike, or all 0", of(&one_side, &all).and_then(|()| of(&odd, &all)))
}

fn trials(yours: &Yours<'_>, cases: &[Vec<f32>], parts: &[f32]) -> Result<Vec<Trial>, Complaint> {
    let mut trials = Vec::new();
    for (weights, bits) in cases.iter().flat_map(|weights| [4, 3, 2].map(|bits| (weights, bits))) {
        let Grid { step, zero, last } = ask(|| Outcome::Ok(yours(weights, bits, parts)))?;
        let given = [step, zero, last].map(f64::from);
        let expected = best(weights, bits, parts, By::Squares);
        let of_part = |part: f32| grid_of(weights, bits, part.into(), part.into());
        let squares = |grid: &[f64; 3]| error(weights, *grid, By::Squares);
        let of_parts: Vec<[f64; 3]> = parts.iter().copied().map(of_part).collect();
        let is_one = of_parts.iter().any(|grid| same(given, *grid));
        // Another grid of the list that is as good, but for how sums are rounded, is as right.
        let [least, reached] = [squares(&expected), squares(&given)];
        let got = if is_one && reached <= least * (1.0 + 1e-4) + 1e-14 { expected } else { given };
        let (first, wide, narrow) =
            (parts[0], parts.iter().copied().fold(0.0, f32::max), parts.iter().copied().fold(1.0, f32::min));
        let errors: Vec<f64> = of_parts.iter().map(squares).collect();
        let rise = errors.windows(2).position(|pair| pair[1] > pair[0]).unwrap_or(errors.len() - 1);
        let one_sided = |low: bool| {
            let grids = parts.iter().map(|&part| {
                let part = f64::from(part);
                if low { grid_of(weights, bits, part, 1.0) } else { grid_of(weights, bits, 1.0, part) }
            });
            grids.min_by(|a, b| squares(a).total_cmp(&squares(b))).unwrap_or_default()
        };
        // On the grid of a part, the codes of weights that were divided by it.
        let of_quotients = |part: f32| -> f64 {
            let [step, zero, last] = of_part(part);
            let off = |weight: f64| {
                ((weight / f64::from(part) / step).round() + zero).clamp(0.0, last) * step - zero * step - weight
            };
            weights.iter().map(|weight| off(f64::from(*weight)).powi(2)).sum()
        };
        let by_quotients = parts.iter().copied().min_by(|a, b| of_quotients(*a).total_cmp(&of_quotients(*b)));
        let mistakes = CHOSEN_BY.map(|(by, why)| (best(weights, bits, parts, by), why)).into_iter().chain([
            (of_parts[rise], "try all parts: an error that rises may fall again"),
            (of_part(first), "that is the grid of the first part; another has a smaller squared error"),
            (of_part(wide), "that is the grid of the largest part; another has a smaller squared error"),
            (of_part(narrow), "that is the grid of the smallest part; another has a smaller squared error"),
            (of_part(1.0), "that is the whole range: multiply both limits by the part"),
            (one_sided(true), "`high` is multiplied by the part too"),
            (one_sided(false), "`low` is multiplied by the part too"),
            (of_part(by_quotients.unwrap_or(first)), QUOTIENTS),
        ]);
        let what = format!("clipped_grid of {} weights, {bits} bits, {}", weights.len(), counted(parts.len(), "part"));
        let mistakes = mistakes.map(|(grid, why)| (grid.to_vec(), why)).collect();
        trials.push(Trial { what, got: got.to_vec(), expected: expected.to_vec(), mistakes });
    }
    Ok(trials)
}

fn same(a: [f64; 3], b: [f64; 3]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs())
}

/// The grid of the part with the least error, as the reference has it.
#[cfg(test)]
pub(super) fn clipping_of(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    let [step, zero, last] = best(weights, bits, parts, By::Squares).map(|x| x as f32);
    Grid { step, zero, last }
}
