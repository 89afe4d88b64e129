//! `matvec`, `rms_norm` and `mlp`.

use super::reference::{self, Slip};
use super::trials::{Trial, block, in_each, numbers, scale, shapes, wide};
use super::{Block, Shape};
use crate::cases::{random, size};
use crate::{Complaint, Score, ask};

const MATVEC_HINTS: [&str; 3] = [
    "How many numbers has a row of the matrix, and how many numbers has the result?",
    "`weights.chunks_exact(x.len())` gives the rows. Each number of the result is the sum of the products of a row with `x`.",
    "`weights.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()`",
];

/// Checks `matvec(weights, x)`.
pub fn check_matvec(yours: fn(&[f32], &[f32]) -> Vec<f32>) -> Score {
    let trials = |square: bool| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(1);
        let mut trial = |index: usize| {
            let (out, width) = (size(&mut rng, 40), if index < 2 { 1 + index } else { size(&mut rng, 600) });
            let out = if square { width } else { out + usize::from(out == width) };
            let (weights, x) = (numbers(&mut rng, out * width, 1.0), numbers(&mut rng, width, 2.0));
            let got = ask(|| Ok(yours(&weights, &x)))?;
            let wide_x = wide(&x);
            let transposed = (0..out).map(|o| {
                (0..width).map(|i| f64::from(weights[(i * out + o) % weights.len()]) * wide_x[i]).sum::<f64>()
            });
            let why = "the matrix is (out, in) row by row: a row is `x.len()` numbers that lie together";
            let what = format!("matvec of a ({out}, {width}) matrix");
            Ok(Trial::new(what, &got, reference::matvec(&weights, &wide_x)).mistakes([(transposed.collect(), why)]))
        };
        (0..12).map(&mut trial).collect()
    };
    let if_nan = "there is nothing to divide here";
    Score::new("matvec", MATVEC_HINTS)
        .point("square matrices", in_each(trials(true), if_nan))
        .point("matrices of any shape: a number for each row", in_each(trials(false), if_nan))
}

const NORM_HINTS: [&str; 3] = [
    "What is the mean of the squares of three numbers, and what do you divide the numbers by?",
    "Three steps: the mean square (divide the sum by the number of elements); add epsilon to it and take the root; each \
     number over that root times its own scale.",
    "`let square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32; let root = (square + epsilon).sqrt(); \
     x.iter().zip(scale).map(|(x, scale)| x / root * scale).collect()`",
];

const NORM_SLIPS: [(Slip, &str); 7] = [
    (Slip::SumOfSquares, "that divides by the root of the *sum* of squares; RMS is the root of their *mean*"),
    (Slip::MeanTakenOff, "the mean is not taken off: that is layer norm; RMS norm leaves it"),
    (Slip::EpsilonOutside, "epsilon is added to the mean square, inside the root, not to the root"),
    (Slip::NoEpsilon, "epsilon is missing: it is added to the mean square, inside the root"),
    (Slip::NoRoot, "that divides by the mean square; take its root"),
    (Slip::NoScale, "the scales are missing: each number is multiplied by its own"),
    (Slip::ScaledByOneMore, "the scale is not scale + 1 (Gemma has that)"),
];

/// Checks `rms_norm(x, scale, epsilon)`.
pub fn check_rms_norm(yours: fn(&[f32], &[f32], f32) -> Vec<f32>) -> Score {
    // The largest number of x, and epsilon.
    let trials = |kinds: &[(f32, f32)]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(2);
        let mut trials = Vec::new();
        // Small ones later: of one number, many mistakes make the same.
        for n in [7, 1, 2, 64, 577] {
            for &(most, epsilon) in kinds {
                // Not around 0, so that a mean that is taken off shows.
                let mut x: Vec<f32> = numbers(&mut rng, n, most).iter().map(|x| x + 0.4 * most).collect();
                if n == 577 {
                    // One number far above the rest, as hidden states have them.
                    x[n / 2] = 30.0 * most;
                }
                let scale = scale(&mut rng, n);
                let got = ask(|| Ok(yours(&x, &scale, epsilon)))?;
                let of = |slip| reference::rms_norm(&wide(&x), &scale, epsilon.into(), slip);
                let what = format!("rms_norm of {n} numbers up to {most:e}, epsilon {epsilon:e}");
                trials.push(
                    Trial::new(what, &got, of(Slip::None)).mistakes(NORM_SLIPS.map(|(slip, why)| (of(slip), why))),
                );
            }
        }
        Ok(trials)
    };
    let zeros = || -> Result<Vec<Trial>, Complaint> {
        let got = ask(|| Ok(yours(&[0.0; 6], &[1.5; 6], 1e-5)))?;
        Ok(vec![Trial::new("rms_norm of six zeros", &got, vec![0.0; 6])])
    };
    let if_nan = "epsilon is what keeps 0 from being divided by 0; add it inside the root";
    let of = |kinds: &[(f32, f32)]| in_each(trials(kinds), if_nan);
    Score::new("rms_norm", NORM_HINTS)
        .point("each number over the root of the mean square, times its scale", of(&[(1.0, 1e-6), (300.0, 1e-5)]))
        .point("epsilon counts where the numbers are small", of(&[(1e-3, 1e-5), (0.1, 1e-2)]))
        .point("zeros stay zeros", in_each(zeros(), if_nan))
}

const MLP_HINTS: [&str; 3] = [
    "Which of the two vectors goes through SiLU, and what happens to the other one?",
    "`gate` and `up` both read `x`. SiLU of a number g is g / (1 + e^-g); multiply it by the number of `up` in the same place, \
     and only then go through `down`.",
    "`let (gate, up) = (matvec(&block.gate, x), matvec(&block.up, x)); let hidden: Vec<f32> = gate.iter().zip(&up).map(|(g, \
     u)| g / (1.0 + (-g).exp()) * u).collect(); matvec(&block.down, &hidden)`",
];

const MLP_SLIPS: [(Slip, &str); 4] = [
    (Slip::GateAndUpSwapped, "`gate` goes through SiLU and `up` does not, not the other way round"),
    (Slip::Sigmoid, "SiLU of g is g times the sigmoid of g, not the sigmoid alone"),
    (Slip::NoActivation, "SiLU is missing: without it, the part is a product of two linear layers"),
    (Slip::ActivatedAfter, "SiLU comes before the product of `gate` and `up`, on `gate` alone"),
];

/// Checks `mlp(x, block)`.
pub fn check_mlp(yours: fn(&[f32], &Block) -> Vec<f32>) -> Score {
    let trials = |most: f32| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(3);
        let mut trial = |shape: Shape| {
            let (weights, x) = (block(&mut rng, &shape), numbers(&mut rng, shape.hidden_size, most));
            let got = ask(|| Ok(yours(&x, &weights)))?;
            let of = |slip| reference::mlp(&wide(&x), &weights, slip);
            let what = format!("mlp of {} numbers up to {most}", x.len());
            Ok(Trial::new(what, &got, of(Slip::None)).mistakes(MLP_SLIPS.map(|(slip, why)| (of(slip), why))))
        };
        shapes().into_iter().map(&mut trial).collect()
    };
    let if_nan = "e^x is infinite beyond x = 88; g / (1 + e^-g) stays finite for any g, and e^g / (1 + e^g) does not";
    let of = |most: f32| in_each(trials(most), if_nan);
    Score::new("mlp", MLP_HINTS)
        .point("SiLU of the gate times up, then down", of(1.0).and_then(|()| of(6.0)))
        .point("large numbers stay finite", of(400.0))
}
