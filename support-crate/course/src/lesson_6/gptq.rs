//! `gptq_row`: each column makes up for the errors of those before it.

use rand::Rng;

use super::Grid;
use super::grid::between;
use super::hessian::inverse_factor;
use super::trials::{Close, Trial, in_each, weights};
use crate::cases::random;
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "When a column is rounded, which weights may still change, and by how much for each unit of the error?",
    "Keep a copy of the row that changes. For column i: round what is in the copy, `error` is what rounding took away, divided \
     by factor (i, i); then each column j after i loses `error` times factor (i, j).",
    "`for (i, u) in factor.chunks_exact(n).enumerate() { let code = code_of(left[i] as f32, &grids[i]); let error = (left[i] - \
     f64::from(grids[i].number(code))) / u[i]; for j in i + 1..n { left[j] -= error * u[j]; } codes.push(code); }`",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    NoFeedback,
    OtherSign,
    NotDivided,
    DividedTwice,
    ErrorOfOriginal,
    NextOnly,
    FirstGrid,
    NotHeld,
}

const SLIPS: [(Slip, &str); 8] = [
    (
        Slip::NoFeedback,
        "the columns after it must make up for the error of a column, by row i of the factor: below its diagonal it is 0",
    ),
    (Slip::OtherSign, "the columns after it *lose* the error times the factor"),
    (Slip::NotDivided, "the error is divided by the factor's number on the diagonal, (i, i)"),
    (Slip::DividedTwice, "the error is divided by the factor's number on the diagonal, not by its square"),
    (Slip::ErrorOfOriginal, "the error is that of the weight as it was just rounded, not of the one that was given"),
    (Slip::NextOnly, "all columns after it change, not only the next one"),
    (Slip::FirstGrid, "each column has a grid of its own: `grids[i]`"),
    (Slip::NotHeld, "codes stay between 0 and the largest one, however far a weight has moved"),
];

/// The codes, and how close any column came to the edge between two codes, in steps.
///
/// Source: Frantar et al. 2022, arXiv:2210.17323, algorithm 1.
fn reference(row: &[f32], grids: &[Grid], factor: &[f64], slip: Slip) -> (Vec<f64>, f64) {
    let n = row.len();
    let mut left: Vec<f64> = row.iter().map(|w| f64::from(*w)).collect();
    let mut margin = f64::INFINITY;
    let mut codes = Vec::new();
    for i in 0..n {
        let grid = &grids[if slip == Slip::FirstGrid { 0 } else { i }];
        let [step, zero, last] = [grid.step, grid.zero, grid.last].map(f64::from);
        let steps = left[i] / step;
        margin = margin.min(((steps - steps.floor()) - 0.5).abs());
        let most = if slip == Slip::NotHeld { 255.0 } else { last };
        let code = (steps.round() + zero).clamp(0.0, most);
        let number = (code - zero) * step;
        let from = if slip == Slip::ErrorOfOriginal { f64::from(row[i]) } else { left[i] };
        let u = &factor[i * n..(i + 1) * n];
        let error = match slip {
            Slip::NoFeedback => 0.0,
            Slip::OtherSign => (number - from) / u[i],
            Slip::NotDivided => from - number,
            Slip::DividedTwice => (from - number) / u[i] / u[i],
            _ => (from - number) / u[i],
        };
        let end = if slip == Slip::NextOnly { n.min(i + 2) } else { n };
        (i + 1..end).for_each(|j| left[j] -= error * u[j]);
        codes.push(code);
    }
    (codes, margin)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inputs {
    /// Inputs that have nothing to do with each other: there is nothing to make up with.
    Apart,
    /// Inputs that go together.
    Together,
}

type Yours<'a> = dyn Fn(&[f32], &[Grid], &[f64]) -> Vec<u8> + 'a;

/// Checks `gptq_row(row, grids, factor)`.
pub fn check_gptq_row(yours: fn(&[f32], &[Grid], &[f64]) -> Vec<u8>) -> Score {
    let name = |i: usize| format!("column {i} is the first that departs: its code");
    let of = |inputs: Inputs, sizes: &[usize], alike: bool, most: f32| {
        in_each(trials(&yours, inputs, sizes, alike, most), Close::Exactly, name)
    };
    Score::new("gptq_row", HINTS)
        .point(
            "inputs that have nothing in common: each column to its nearest code",
            of(Inputs::Apart, &[1, 2, 7, 16], true, 1.0),
        )
        .point("two and three columns", of(Inputs::Together, &[2, 2, 3, 3], true, 1.0))
        .point(
            "any number of columns, each with its own grid",
            of(Inputs::Together, &[5, 12, 24, 130], false, 1.0).and_then(|()| there_and_back(&yours)),
        )
        .point("weights beyond their grids", of(Inputs::Together, &[2, 6, 12], false, 3.0))
}

/// Two errors of the same size move the third column far, and back to where it was.
fn there_and_back(yours: &Yours<'_>) -> Verdict {
    let grid = Grid { step: 1.0, zero: 3.0, last: 7.0 };
    let factor = [1.0, 0.0, 1e8, 0.0, 1.0, 1e8, 0.0, 0.0, 1.0];
    let codes = ask(|| Ok(yours(&[0.3, -0.3, 0.7], &[grid; 3], &factor)))?;
    Complaint::unless(codes == [3, 3, 4], || {
        let what = "two errors that cancel out on a third column, after which it is 0.7 again";
        format!("{what}: your codes are {codes:?}, not [3, 3, 4]; keep what changes in `f64`")
    })
}

/// Each size with codes of 4, 3 and 2 bits; `alike`: all columns have one grid. Weights reach `most` times as far as their
/// grids.
fn trials(yours: &Yours<'_>, inputs: Inputs, sizes: &[usize], alike: bool, most: f32) -> Result<Vec<Trial>, Complaint> {
    let mut rng = random(66);
    let mut trials = Vec::new();
    for (&n, bits) in sizes.iter().flat_map(|n| [4, 3, 2].map(|bits| (n, bits))) {
        loop {
            let limits: Vec<f64> = (0..n).map(|_| rng.random_range(0.3..1.5)).collect();
            let grid = |i: usize| {
                let [step, zero, last] = between(-limits[if alike { 0 } else { i }], 0.8, bits).map(|x| x as f32);
                Grid { step, zero, last }
            };
            let grids: Vec<Grid> = (0..n).map(grid).collect();
            let row = weights(&mut rng, n, most);
            let factor = factor(&mut rng, n, inputs)?;
            let (expected, margin) = reference(&row, &grids, &factor, Slip::None);
            // Where a weight lies between two codes, float32 may choose either.
            if margin < 2e-3 {
                continue;
            }
            let got: Vec<f64> = ask(|| Ok(yours(&row, &grids, &factor)))?.into_iter().map(f64::from).collect();
            let mistakes = SLIPS.map(|(slip, why)| (reference(&row, &grids, &factor, slip).0, why)).to_vec();
            trials.push(Trial { what: format!("gptq_row of {n} columns, {bits} bits"), got, expected, mistakes });
            break;
        }
    }
    Ok(trials)
}

fn factor(rng: &mut rand::rngs::StdRng, n: usize, inputs: Inputs) -> Result<Vec<f64>, Complaint> {
    let mut hessian = vec![0.0; n * n];
    if inputs == Inputs::Apart {
        (0..n).for_each(|i| hessian[i * n + i] = rng.random_range(0.5..8.0));
        return Ok(inverse_factor(&hessian, n)?);
    }
    for _ in 0..4 * n {
        let common = rng.random_range(-1.0..1.0_f64);
        let x: Vec<f64> = (0..n).map(|i| (1.0 + i as f64 / n as f64) * common + rng.random_range(-0.6..0.6)).collect();
        (0..n).for_each(|i| (0..n).for_each(|j| hessian[i * n + j] += 2.0 * x[i] * x[j]));
    }
    let mean = (0..n).map(|i| hessian[i * n + i]).sum::<f64>() / n as f64;
    (0..n).for_each(|i| hessian[i * n + i] += 0.01 * mean);
    Ok(inverse_factor(&hessian, n)?)
}
