//! `in_blocks`: all rows of a matrix.

use super::dots::{IF_NAN, dot, numbers};
use crate::cases::random;
use crate::lesson_0::trials::{Trial, all_close};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "How many rows are left over if there are 4 b + 3 of them?",
    "`y.as_chunks_mut::<4>()` gives blocks of four outputs and the rest; `weights.chunks_exact(4 * k)` the rows of each block, \
     and its `remainder()` those of the rest. Without inputs (k = 0), all outputs are 0, and there is nothing to chunk.",
    "`let (blocks, rest) = y.as_chunks_mut::<4>(); let rows = weights.chunks_exact(4 * k);` then for the rest \
     `for (row, y) in rows.remainder().chunks_exact(k).zip(rest) { *y = dot_vectors(row, x); }`, and for each block `*y = \
     four_dots([&rows[..k], &rows[k..2 * k], &rows[2 * k..3 * k], &rows[3 * k..]], x);`",
];

/// What stands in the outputs before, and must not be there afterwards.
const BEFORE: f32 = 1000.0;

/// Checks `in_blocks(weights, x, y)`.
pub fn check_in_blocks(yours: fn(&[f32], &[f32], &mut [f32])) -> Score {
    let of = |shapes: &[(usize, usize)]| -> Verdict {
        let mut rng = random(75);
        let mut trial = |&(n, k): &(usize, usize)| {
            let (weights, x, mut y) = (numbers(&mut rng, n * k), numbers(&mut rng, k), vec![BEFORE; n]);
            ask(|| {
                yours(&weights, &x, &mut y);
                Ok(())
            })?;
            let row = |r: usize| &weights[r * k..(r + 1) * k];
            let right: Vec<f64> = (0..n).map(|r| dot(row(r), &x)).collect();
            let changed = |of: &dyn Fn(usize) -> f64| (0..n).map(of).collect::<Vec<f64>>();
            let before = f64::from(BEFORE);
            let mistakes = [
                (vec![before; n], "nothing was written into `y`"),
                (changed(&|r| right[r] + before), "outputs are written, not added to what was there before"),
                (
                    changed(&|r| if r < n / 4 * 4 { right[r] } else { before }),
                    "the rows that do not fill a block of four are missing",
                ),
                (
                    changed(&|r| if r < n / 4 * 4 { before } else { right[r] }),
                    "only the rows that do not fill a block of four are there",
                ),
                (
                    changed(&|r| if r < n / 4 * 4 { right[r] } else { right[r - n / 4 * 4] }),
                    "the last rows are those behind the blocks, not the first ones again",
                ),
            ];
            Ok(Trial::new(format!("a matrix ({n}, {k})"), &y, right.clone()).mistakes(mistakes))
        };
        all_close(&shapes.iter().map(&mut trial).collect::<Result<Vec<_>, Complaint>>()?, IF_NAN)
    };
    Score::new("in_blocks", HINTS)
        .point("whole blocks of four rows", of(&[(4, 8), (8, 33), (64, 100)]))
        .point("any number of rows", of(&[(0, 8), (1, 8), (2, 5), (3, 64), (5, 1), (7, 100), (41, 33), (66, 16)]))
        .point("rows of no numbers are 0", of(&[(4, 0), (3, 0), (9, 0), (0, 0)]))
}
