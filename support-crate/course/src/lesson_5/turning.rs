//! `hadamard` and `turn`: what is large in one channel, spread over many.

use super::reference::{block_of, hadamard};
use crate::cases::{random, row};
use crate::lesson_0::trials::in_each;
use crate::trial::{Trial, wide};
use crate::{Complaint, Score, changed};

const HADAMARD_HINTS: [&str; 3] = [
    "Of two numbers a and b, what are the sum and the difference, over the root of 2? What does the same once more give back?",
    "Pairs of halves: numbers 1 apart, then 2 apart, then 4, up to half of the chunk. Of each pair (low, high), low becomes low + high, \
     and high low - high. At the end, all are divided by the root of the chunk's size.",
    "`let mut half = 1; while half < chunk { for pair in x.chunks_exact_mut(2 * half) { let (low, high) = pair.split_at_mut(half); for (l, h) in \
     low.iter_mut().zip(high) { (*l, *h) = (*l + *h, *l - *h); } } half *= 2; }`, on each of `x.chunks_exact_mut(chunk)`",
];

/// Checks `hadamard(x)`, which changes x in place.
pub fn check_hadamard(yours: fn(&mut [f32])) -> Score {
    let trials = |sizes: &[usize]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(59);
        let mut trial = |&n: &usize| {
            let x = row(&mut rng, 1, n);
            let got = changed(x.clone(), |x| yours(x))?;
            let (x, block) = (wide(&x), block_of(n));
            let root = 1.0 / (block as f64).sqrt();
            let of = |block: usize, scale: f64| hadamard(&x, block, scale);
            let mut other_sign = of(block, root);
            other_sign.chunks_mut(2).filter(|pair| pair.len() == 2).for_each(|pair| pair.swap(0, 1));
            let mistakes = [
                (of(block, 1.0), "divide by the root of the chunk's size, or lengths change"),
                (of(block, 1.0 / block as f64), "divide by the *root* of the chunk's size"),
                (of(block, 1.0 / (n as f64).sqrt()), "divide by the root of the size of a *chunk*, not of the whole"),
                (of(2, 0.5_f64.sqrt()), "that is one step, of neighbours; go on with numbers 2 apart, 4 apart..."),
                (x.clone(), "nothing was changed"),
                (other_sign, "the sum comes first, then the difference"),
                (of(block, root).iter().map(|x| -x).collect(), "low - high, not high - low"),
            ];
            Ok(Trial::new(format!("{n} numbers, chunks of {block}"), &got, of(block, root)).mistakes(mistakes))
        };
        sizes.iter().map(&mut trial).collect()
    };
    let point = |sizes| in_each(trials(sizes), "");
    Score::new("hadamard", HADAMARD_HINTS)
        .point("two numbers, and one", point(&[2, 1]))
        .point("powers of two", point(&[8, 4, 64, 2048]))
        .point("other sizes: in chunks of the largest power of two that divides them", point(&[40, 12, 6, 7, 576, 0]))
}

const TURN_HINTS: [&str; 3] = [
    "How many numbers has a row, and what is done to each of them before the transform?",
    "For each row of `signs.len()` numbers: multiply each number by its sign, then call your `hadamard` on the row.",
    "`for row in rows.chunks_exact_mut(signs.len()) { row.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign); hadamard(row); }`",
];

/// Checks `turn(rows, signs)`, which changes rows in place.
pub fn check_turn(yours: fn(&mut [f32], &[f32])) -> Score {
    let trials = |sizes: &[(usize, usize)]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(60);
        let mut trial = |&(rows, n): &(usize, usize)| {
            let x = row(&mut rng, 1, rows * n);
            let signs: Vec<f32> = row(&mut rng, 1, n).iter().map(|x| x.signum()).collect();
            let got = changed(x.clone(), |x| yours(x, &signs))?;
            let (x, signs) = (wide(&x), wide(&signs));
            let turned = |x: &[f64]| hadamard(x, block_of(x.len()), 1.0 / (block_of(x.len()) as f64).sqrt());
            let signed = |x: &[f64]| x.iter().zip(signs.iter().cycle()).map(|(x, sign)| x * sign).collect::<Vec<f64>>();
            let each = |x: &[f64]| x.chunks_exact(n).flat_map(turned).collect::<Vec<f64>>();
            let expected = each(&signed(&x));
            let mut first = x.clone();
            first[..n].copy_from_slice(&expected[..n]);
            let mistakes = [
                (each(&x), "the signs are missing: each number is multiplied by its own, before the transform"),
                (signed(&each(&x)), "the signs come before the transform"),
                (signed(&x), "of each row, the transform is missing: `hadamard(row)`"),
                (first, "every row is turned, not only the first"),
                (turned(&signed(&x)), "each row by itself, not all of them as one"),
            ];
            Ok(Trial::new(format!("{rows} rows of {n}"), &got, expected).mistakes(mistakes))
        };
        sizes.iter().map(&mut trial).collect()
    };
    let point = |sizes| in_each(trials(sizes), "");
    Score::new("turn", TURN_HINTS)
        .point("one row", point(&[(1, 8), (1, 12)]))
        .point("several rows, each by itself", point(&[(4, 8), (3, 20), (2, 1), (6, 64)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_orthogonal_and_their_own_inverse() {
        for n in [1, 2, 6, 32, 576] {
            let x: Vec<f64> = (0..n).map(|i| f64::from(i as u32).sin()).collect();
            let root = 1.0 / (block_of(n) as f64).sqrt();
            let twice = hadamard(&hadamard(&x, block_of(n), root), block_of(n), root);
            assert!(twice.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-9), "{n}");
        }
        assert_eq!([0, 1, 6, 576].map(block_of), [1, 1, 2, 64]);
    }
}
