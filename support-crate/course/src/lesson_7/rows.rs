//! `in_blocks`: all rows of a matrix.

use super::dots::{IF_NAN, dot, numbers};
use crate::cases::random;
use crate::lesson_0::trials::{Trial, in_each};
use crate::{Complaint, Score, Verdict, changed};

const HINTS: [&str; 3] = [
    "How many rows are left over if there are 4 b + 3 of them?",
    "`y.as_chunks_mut::<4>()` gives blocks of four outputs and the rest; `weights.chunks_exact(4 * k)` the rows of each block, \
     and its `remainder()` those of the rest. Without inputs (k = 0), all outputs are 0, and there is nothing to chunk.",
    "`let (blocks, rest) = y.as_chunks_mut::<4>(); let rows = weights.chunks_exact(4 * k);` then for the rest \
     `for (row, y) in rows.remainder().chunks_exact(k).zip(rest) { *y = dot_vectors(row, x); }`, and for each block `*y = \
     four_dots([&rows[..k], &rows[k..2 * k], &rows[2 * k..3 * k], &rows[3 * k..]], x);`",
];

/// Mistakes that are this function's own.
const OWN: [&str; 5] = [
    "nothing was written into `y`",
    "outputs are written, not added to what was there before",
    "the rows that do not fill a block of four are missing",
    "only the rows that do not fill a block of four are there",
    "the last rows are those behind the blocks, not the first ones again",
];

/// Any other mistake may be one of the functions that this one calls.
fn or_above(verdict: Verdict) -> Verdict {
    verdict.map_err(|complaint| {
        let message = complaint.to_string();
        if complaint == Complaint::NotYet || OWN.iter().any(|why| message.ends_with(why)) {
            return complaint;
        }
        Complaint::wrong(format!("{message}; if `four_dots` or `dot_vectors` lost points above, look there first"))
    })
}

/// What stands in the outputs before, and must not be there afterwards.
const BEFORE: f32 = 1000.0;

/// Checks `in_blocks(weights, x, y)`.
pub fn check_in_blocks(yours: fn(&[f32], &[f32], &mut [f32])) -> Score {
    let of = |shapes: &[(usize, usize)]| -> Verdict {
        let mut rng = random(75);
        let mut trial = |&(n, k): &(usize, usize)| {
            let (weights, x) = (numbers(&mut rng, n * k), numbers(&mut rng, k));
            let y = changed(vec![BEFORE; n], |y| yours(&weights, &x, y))?;
            let row = |r: usize| &weights[r * k..(r + 1) * k];
            let right: Vec<f64> = (0..n).map(|r| dot(row(r), &x)).collect();
            let each = |of: &dyn Fn(usize) -> f64| (0..n).map(of).collect::<Vec<f64>>();
            let before = f64::from(BEFORE);
            let [nothing, added, no_rest, rest_only, rest_again] = OWN;
            let mistakes = [
                (vec![before; n], nothing),
                (each(&|r| right[r] + before), added),
                (each(&|r| if r < n / 4 * 4 { right[r] } else { before }), no_rest),
                (each(&|r| if r < n / 4 * 4 { before } else { right[r] }), rest_only),
                (each(&|r| if r < n / 4 * 4 { right[r] } else { right[r - n / 4 * 4] }), rest_again),
            ];
            Ok(Trial::new(format!("a matrix ({n}, {k})"), &y, right.clone()).mistakes(mistakes))
        };
        in_each(shapes.iter().map(&mut trial).collect(), IF_NAN)
    };
    let of = |shapes: &[(usize, usize)]| or_above(of(shapes));
    Score::new("in_blocks", HINTS)
        .point("whole blocks of four rows", of(&[(4, 8), (8, 33), (64, 100)]))
        .point("any number of rows", of(&[(0, 8), (1, 8), (2, 5), (3, 64), (5, 1), (7, 100), (41, 33), (66, 16)]))
        .point("rows of no numbers are 0", of(&[(4, 0), (3, 0), (9, 0), (0, 0)]))
}
