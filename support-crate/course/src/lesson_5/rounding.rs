//! `round_to`: numbers to the nearest of a symmetric grid, with one step for the tensor, a row or a column.

use super::reference::Grid;
use crate::cases::{random, row};
use crate::lesson_0::trials::in_each;
use crate::trial::{Trial, wide};
use crate::{Complaint, Score, ask};

/// Which numbers of a matrix share a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// All.
    Tensor,
    /// Those of a row: a token of inputs, an output of weights.
    Row,
    /// Those of a column: a channel.
    Column,
}

impl Per {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tensor, Self::Row, Self::Column];
}

const HINTS: [&str; 3] = [
    "Which numbers share a step with number i, if each row has its own; if each column has?",
    "Two passes: first the largest magnitude of each group (the group of number i is 0, `i / columns` or `i % columns`), then each \
     number over its step, rounded, times the step. The step is the largest magnitude over 2^(bits - 1) - 1.",
    "`let group = |i: usize| match per { Per::Tensor => 0, Per::Row => i / columns, Per::Column => i % columns };`, and in the second \
     pass `if step > 0.0 { (x / step).round() * step } else { 0.0 }`",
];

type Yours<'a> = dyn Fn(&[f32], usize, Per, u32) -> Vec<f32> + 'a;

/// Checks `round_to(x, columns, per, bits)`.
pub fn check_round_to(yours: fn(&[f32], usize, Per, u32) -> Vec<f32>) -> Score {
    let sizes = [(3, 5), (4, 4), (1, 9), (8, 1), (6, 20), (1, 1)];
    let point = |per, bits: &[u32]| in_each(trials(&yours, per, &sizes, bits), IF_NAN);
    Score::new("round_to", HINTS)
        .point("one step for the whole tensor", point(Per::Tensor, &[8]))
        .point("one for each row", point(Per::Row, &[8]))
        .point("one for each column", point(Per::Column, &[8]))
        .point("other numbers of bits", point(Per::Row, &[4, 3]).and_then(|()| point(Per::Tensor, &[4, 2, 10])))
}

const CUT_OFF: &str = "to the nearest whole number of steps (`round`); `trunc`, or a cast, cuts off towards 0";
const IF_NAN: &str = "a group of zeros has a step of 0: they stay 0";

/// Matrices of each size in each number of bits, one of them with a row and a column of zeros, and one of tiny numbers.
fn trials(yours: &Yours<'_>, per: Per, sizes: &[(usize, usize)], bits: &[u32]) -> Result<Vec<Trial>, Complaint> {
    let mut rng = random(53);
    let mut trials = Vec::new();
    for &bits in bits {
        for &(rows, columns) in sizes {
            let grid = Grid::new(per, bits);
            let mut draw = || {
                let mut x = numbers(&mut rng, rows * columns);
                if (rows, columns) == (6, 20) {
                    (80..100).for_each(|i| x[i] = 0.0);
                    (0..6).for_each(|row| x[20 * row + 3] = 0.0);
                }
                if rows == columns {
                    x.iter_mut().for_each(|x| *x *= 1e-12);
                }
                x
            };
            let mut x = draw();
            // Numbers at the edge of two steps may go either way: others are drawn.
            while grid.round(&wide(&x), columns).1 < 1e-4 {
                x = draw();
            }
            let got = ask(|| Ok(yours(&x, columns, per, bits)))?;
            let x = wide(&x);
            let of = |grid: Grid| grid.round(&x, columns).0;
            let mut mistakes = vec![
                (
                    of(Grid { last: grid.last + 1.0, ..grid }),
                    "the largest magnitude is 2^(bits - 1) - 1 steps away: 127 of 8 bits, 7 of 4",
                ),
                (
                    of(Grid { last: 2.0 * grid.last + 1.0, ..grid }),
                    "steps reach to both sides of 0: 2^(bits - 1) - 1 of them",
                ),
                (of(Grid { signed: true, ..grid }), "the step is that of the largest *magnitude*, also below 0"),
                (x.clone(), "nothing was rounded"),
                (grid.whole_steps(&x, columns), "those are the whole numbers of steps; multiply by the step again"),
                (grid.cut_off(&x, columns), CUT_OFF),
            ];
            for (other, why) in [
                (Per::Tensor, "that is one step for all; here each group has its own"),
                (Per::Row, "that is one step for each row"),
                (Per::Column, "that is one step for each column"),
            ] {
                if other != per {
                    mistakes.push((of(Grid { per: other, ..grid }), why));
                }
            }
            if bits != 8 {
                let eight = Grid::new(per, 8);
                let of_eight = [of(eight), eight.cut_off(&x, columns)];
                mistakes.extend(of_eight.map(|x| (x, "`bits` is not always 8")));
            }
            let what = format!("({rows}, {columns}) numbers, {per:?}, {bits} bits");
            trials.push(Trial::new(what, &got, of(grid)).mistakes(mistakes));
        }
    }
    Ok(trials)
}

/// Numbers on both sides of 0, the largest magnitude below it.
fn numbers(rng: &mut rand::rngs::StdRng, n: usize) -> Vec<f32> {
    let mut x = row(rng, 1, n);
    if let Some(x) = x.get_mut(n / 3) {
        *x = -6.5 + *x / 9.0;
    }
    x
}
