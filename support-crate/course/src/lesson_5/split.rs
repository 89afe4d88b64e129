//! `llm_int8`: columns of inputs with outliers as they are, all else in 8 bits.

use super::Per;
use super::reference::{Grid, largest, product};
use crate::cases::{random, row};
use crate::trial::{Close, Trial, all_close, wide};
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "Which columns are outliers, and what does a token's step have to reach once these are gone?",
    "`largest_by_channel` finds the columns: outliers are those that reach the threshold in any token. In a copy of the inputs, make \
     these columns 0 and round each row to 8 bits; then put the columns back as they were. All weights are rounded, row by row.",
    "`let is_outlier = |i: usize| largest[i % columns] >= threshold;`, `let rest: Vec<f32> = inputs.iter().enumerate().map(|(i, x)| if \
     is_outlier(i) { 0.0 } else { *x }).collect();`, `round_to(&rest, columns, Per::Row, 8)`, the outliers back in, and `product`",
];

/// How columns are told apart and rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    /// All columns in 8 bits.
    NoSplit,
    /// Nothing in 8 bits.
    NotRounded,
    /// The step of a token reaches its outliers too.
    StepOfAll,
    /// Only numbers that reach the threshold, not their columns.
    ByNumber,
    /// Outliers are left out.
    Dropped,
    /// The weights as they are.
    WeightsWhole,
    /// The weights of columns with outliers as they are.
    WeightsApart,
    PerTensor,
    Above,
}

const SLIPS: [(Slip, &str); 9] = [
    (Slip::NoSplit, "of the inputs, columns that reach the threshold are not rounded"),
    (Slip::NotRounded, "the columns below the threshold are rounded to 8 bits"),
    (Slip::StepOfAll, "a token's step is that of the columns that are left: take the outliers out before you round"),
    (Slip::ByNumber, "whole columns are kept apart: one token that reaches the threshold is enough"),
    (Slip::Dropped, "columns with outliers are not left out: they are multiplied too, as they are"),
    (Slip::WeightsWhole, "the weights are in 8 bits too, a step for each row"),
    (Slip::WeightsApart, "weights are rounded in all columns: it is only the inputs that keep columns as they are"),
    (Slip::PerTensor, "each token has a step of its own"),
    (Slip::Above, "a column that *reaches* the threshold is kept apart: >="),
];

fn reference(x: &[f64], weights: &[f64], columns: usize, threshold: f64, slip: Slip) -> (Vec<f64>, f64) {
    let most = largest(x, columns);
    let apart = |i: usize| match slip {
        Slip::NoSplit => false,
        Slip::NotRounded => true,
        Slip::ByNumber => x[i].abs() >= threshold,
        Slip::Above => most[i % columns] > threshold,
        _ => most[i % columns] >= threshold,
    };
    let only = |keep: bool| -> Vec<f64> {
        x.iter().enumerate().map(|(i, x)| if apart(i) == keep { *x } else { 0.0 }).collect()
    };
    let grid = Grid::new(if slip == Slip::PerTensor { Per::Tensor } else { Per::Row }, 8);
    let (rounded, margin) = match slip {
        Slip::StepOfAll => grid.round(x, columns),
        _ => grid.round(&only(false), columns),
    };
    let outliers = if slip == Slip::Dropped { vec![0.0; x.len()] } else { only(true) };
    let mixed: Vec<f64> = (0..x.len()).map(|i| if apart(i) { outliers[i] } else { rounded[i] }).collect();
    let (mut restored, of_weights) = Grid::new(Per::Row, 8).round(weights, columns);
    if slip == Slip::WeightsApart {
        let pairs = restored.iter_mut().zip(weights).enumerate();
        pairs.filter(|(i, _)| most[i % columns] >= threshold).for_each(|(_, (restored, exact))| *restored = *exact);
    }
    let weights = if slip == Slip::WeightsWhole { weights } else { &restored };
    (product(&mixed, weights, columns), margin.min(of_weights))
}

/// Checks `llm_int8(inputs, weights, columns, threshold)`.
pub fn check_llm_int8(yours: fn(&[f32], &[f32], usize, f32) -> Vec<f32>) -> Score {
    // Tokens, columns, outputs, outliers.
    let trials = |sizes: &[(usize, usize, usize, usize)]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(54);
        let mut trials = Vec::new();
        let thresholds = [6.0, 25.0].into_iter().cycle();
        for (&(tokens, columns, outputs, outliers), threshold) in sizes.iter().zip(thresholds) {
            let mut draw = || {
                let (mut x, mut weights) = (row(&mut rng, 1, tokens * columns), row(&mut rng, 1, outputs * columns));
                // Nothing but outliers above 1.
                if tokens == 4 {
                    x.iter_mut().for_each(|x| *x *= 0.1);
                }
                for outlier in 0..outliers {
                    // In one token only, one at the threshold itself, one below 0; small weights beside large ones.
                    let (token, column) = (outlier % tokens, (7 * outlier + 2) % columns);
                    x[token * columns + column] = [30.0, threshold, -21.0][outlier % 3];
                    (0..outputs).for_each(|o| weights[o * columns + column] *= 0.3);
                }
                (x, weights)
            };
            let margin = |x: &[f32], w: &[f32]| reference(&wide(x), &wide(w), columns, threshold.into(), Slip::None).1;
            let (mut x, mut weights) = draw();
            while margin(&x, &weights) < 1e-4 {
                (x, weights) = draw();
            }
            let got = ask(|| Ok(yours(&x, &weights, columns, threshold)))?;
            let (x, weights) = (wide(&x), wide(&weights));
            let of = |slip| reference(&x, &weights, columns, threshold.into(), slip).0;
            let what =
                format!("{tokens} tokens of {columns}, {outliers} columns with large numbers, threshold {threshold}");
            let mistakes = SLIPS.map(|(slip, why)| (of(slip), why));
            trials.push(Trial::new(what, &got, of(Slip::None)).mistakes(mistakes));
        }
        Ok(trials)
    };
    let point = |sizes| all_close(&trials(sizes)?, Close::FLOAT32, |i| format!("output {i}"), "");
    Score::new("llm_int8", HINTS)
        .point("no outliers: all in 8 bits", point(&[(3, 5, 4, 0), (1, 12, 2, 0)]))
        .point("one column with outliers", point(&[(3, 8, 4, 1), (5, 6, 3, 1)]))
        .point(
            "several of them, some in one token only",
            point(&[(6, 16, 4, 3), (9, 12, 5, 6), (3, 4, 2, 4), (4, 11, 3, 2)]),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::quant::{Int8Rows, llm_int8_linear_reference};

    /// The library takes a token's step from all numbers below the threshold, also those in columns that are kept apart.
    #[test]
    fn it_is_the_librarys_where_outliers_fill_their_columns() {
        let mut rng = random(5);
        let (columns, tokens) = (64, 9);
        let (mut x, weights) = (row(&mut rng, 1, tokens * columns), row(&mut rng, 1, 20 * columns));
        (0..tokens).for_each(|token| x[token * columns + 11] = 8.0 + token as f32);
        let rows = Int8Rows::quantize(&weights, columns).unwrap();
        let theirs = wide(&llm_int8_linear_reference(&x, &rows, None, 6.0).unwrap());
        let (ours, _) = reference(&wide(&x), &wide(&weights), columns, 6.0, Slip::None);
        let largest = theirs.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let off = ours.iter().zip(&theirs).fold(0.0_f64, |off, (a, b)| off.max((a - b).abs()));
        assert!(off < 1e-4 * largest, "{off} of {largest}");
    }
}
