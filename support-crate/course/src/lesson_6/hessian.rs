//! `hessian`, and the factor of its inverse that GPTQ takes.

use quantlab::error::{Error, Result as Outcome};
use quantlab::interrupt;

use super::trials::{Close, Trial, in_each, of_length, wide};
use crate::cases::{random, row};
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "How many numbers has the Hessian of a layer with 3 inputs, whatever the number of tokens?",
    "For each token x, add 2 x_i x_j to entry (i, j). At the end add a hundredth of the mean of the diagonal to each number on \
     the diagonal.",
    "`for x in inputs.chunks_exact(columns) { for i in 0..columns { for j in 0..columns { h[i * columns + j] += 2.0 * \
     f64::from(x[i]) * f64::from(x[j]); } } }`; then `damping` is 0.01 times the sum of `h[i * columns + i]` over `columns`.",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    Once,
    Mean,
    NoDamping,
    SumDamps,
    LargestDamps,
    AllDamped,
    WithoutSquares,
    LastToken,
    InFloat32,
}

const SLIPS: [(Slip, &str); 9] = [
    (Slip::Once, "the factor of 2 is missing"),
    (Slip::Mean, "the tokens are added up, not averaged"),
    (Slip::NoDamping, "the damping is missing: a hundredth of the mean of the diagonal, on the diagonal"),
    (Slip::SumDamps, "the damping is a hundredth of the *mean* of the diagonal, not of its sum"),
    (Slip::LargestDamps, "the damping is a hundredth of the *mean* of the diagonal, not of its largest number"),
    (Slip::AllDamped, "only the diagonal is damped"),
    (Slip::WithoutSquares, "each input belongs with every other one, not only with itself"),
    (Slip::LastToken, "only the last token counts; add up all of them"),
    (Slip::InFloat32, "add up in `f64`: beside one large product, float32 loses all small ones"),
];

fn reference(inputs: &[f32], columns: usize, slip: Slip) -> Vec<f64> {
    let (inputs, tokens) = (wide(inputs), inputs.len() / columns);
    let first = if slip == Slip::LastToken { tokens - 1 } else { 0 };
    let factor = match slip {
        Slip::Once => 1.0,
        Slip::Mean => 2.0 / tokens as f64,
        _ => 2.0,
    };
    let entry = |i: usize, j: usize| -> f64 {
        let products = (first..tokens).map(|t| inputs[t * columns + i] * inputs[t * columns + j]);
        match slip {
            Slip::InFloat32 => products.fold(0.0_f32, |sum, product| sum + (2.0 * product) as f32).into(),
            _ => factor * products.sum::<f64>(),
        }
    };
    let diagonal: Vec<f64> = (0..columns).map(|i| entry(i, i)).collect();
    let (sum, largest) = (diagonal.iter().sum::<f64>(), diagonal.iter().copied().fold(0.0, f64::max));
    let damping = 0.01
        * match slip {
            Slip::NoDamping => 0.0,
            Slip::SumDamps => sum,
            Slip::LargestDamps => largest,
            _ => sum / columns as f64,
        };
    let all = (0..columns).flat_map(|i| (0..columns).map(move |j| (i, j)));
    all.map(|(i, j)| match (i == j, slip) {
        (true, _) => entry(i, i) + damping,
        (false, Slip::WithoutSquares) => 0.0,
        (false, Slip::AllDamped) => entry(i, j) + damping,
        (false, _) => entry(i, j),
    })
    .collect()
}

/// Checks `hessian(inputs, columns)`.
pub fn check_hessian(yours: fn(&[f32], usize) -> Vec<f64>) -> Score {
    // Of each matrix, the numbers that `part` keeps, by row and column.
    let trials = |sizes: &[(usize, usize)], part: fn(usize, usize) -> bool| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(65);
        let mut trial = |(index, &(tokens, columns)): (usize, &(usize, usize))| {
            let mut inputs: Vec<f32> = row(&mut rng, index, tokens * columns).iter().map(|x| x - 0.2).collect();
            match index {
                5 => inputs.iter_mut().skip(1).step_by(columns).for_each(|x| *x = 0.0),
                6 => inputs[..columns].iter_mut().for_each(|x| *x *= 8000.0),
                7 => inputs.iter_mut().for_each(|x| *x *= 1e-6),
                _ => {}
            }
            let got = of_length(ask(|| Ok(yours(&inputs, columns)))?, columns * columns)?;
            let kept = |matrix: Vec<f64>| -> Vec<f64> {
                let places = (0..columns).flat_map(|i| (0..columns).map(move |j| (i, j)));
                places.zip(matrix).filter(|((i, j), _)| part(*i, *j)).map(|(_, x)| x).collect()
            };
            let what = format!("hessian of {tokens} tokens of {columns} inputs, damped");
            let mistakes = SLIPS.map(|(slip, why)| (kept(reference(&inputs, columns, slip)), why)).to_vec();
            Ok(Trial { what, got: kept(got), expected: kept(reference(&inputs, columns, Slip::None)), mistakes })
        };
        sizes.iter().enumerate().map(&mut trial).collect()
    };
    // The last three: an input that is always 0, one token far above the others, and nothing but small inputs.
    let sizes = [(3, 2), (1, 1), (1, 4), (5, 9), (60, 6), (40, 33), (400, 3), (7, 4)];
    let of = |part: fn(usize, usize) -> bool, place: &str| {
        in_each(trials(&sizes, part), Close::Largest(1e-6), |i| format!("number {i} {place}"))
    };
    Score::new("hessian", HINTS)
        .point("off the diagonal, 2 x_i x_j of all tokens", of(|i, j| i != j, "off the diagonal"))
        .point("on the diagonal, 2 x_i x_i and a hundredth of their mean", of(|i, j| i == j, "on the diagonal"))
}

/// U, row by row, with ones and zeros for nothing but the upper triangle: the inverse of a symmetric positive matrix is
/// `U^T U`. Row i says how the columns after i make up for a change of column i.
///
/// It is found from the last column to the first, as `H = R R^T` with an upper triangle R, whose inverse is U.
///
/// # Errors
/// A matrix that is not square, or not positive; an interrupt.
pub fn inverse_factor(matrix: &[f64], columns: usize) -> Outcome<Vec<f64>> {
    let n = columns;
    if n == 0 || matrix.len() != n * n {
        return Err(Error::input(format!("{} numbers are no matrix of {n} columns", matrix.len())));
    }
    // R: column by column from the last one on, each row against the rows after it.
    let mut r = vec![0.0; n * n];
    for i in (0..n).rev() {
        interrupt::check()?;
        let (before, after) = r.split_at_mut((i + 1) * n);
        let row = &mut before[i * n..];
        for j in (i..n).rev() {
            let dot = |other: &[f64], row: &[f64]| -> f64 {
                other[j + 1..].iter().zip(&row[j + 1..]).map(|(a, b)| a * b).sum()
            };
            let left = if j == i {
                matrix[i * n + i] - dot(row, row)
            } else {
                matrix[i * n + j] - dot(&after[(j - i - 1) * n..][..n], row)
            };
            row[j] = if j > i {
                left / after[(j - i - 1) * n + j]
            } else if left > 0.0 {
                left.sqrt()
            } else {
                return Err(Error::input(format!("the matrix is not positive at column {i}")).hint("is it damped?"));
            };
        }
    }
    // Its inverse, row by row from the last one on: u_i = (e_i - sum_(k > i) r_ik u_k) / r_ii.
    let mut u = vec![0.0; n * n];
    for i in (0..n).rev() {
        let (before, after) = u.split_at_mut((i + 1) * n);
        let row = &mut before[i * n..];
        let diagonal = r[i * n + i];
        row[i] = 1.0 / diagonal;
        for (k, below) in (i + 1..n).zip(after.chunks_exact(n)) {
            let factor = r[i * n + k] / diagonal;
            row[k..].iter_mut().zip(&below[k..]).for_each(|(u, below)| *u -= factor * below);
        }
    }
    Ok(u)
}

#[cfg(test)]
pub(super) fn damped(inputs: &[f32], columns: usize) -> Vec<f64> {
    reference(inputs, columns, Slip::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_times_itself_and_the_matrix_is_one() {
        let (n, mut rng) = (23, random(1));
        let matrix = damped(&row(&mut rng, 1, 40 * n), n);
        let u = inverse_factor(&matrix, n).unwrap();
        assert!((0..n).all(|i| (0..i).all(|j| u[i * n + j] == 0.0)));
        let inverse = |i: usize, j: usize| -> f64 { (0..n).map(|k| u[k * n + i] * u[k * n + j]).sum() };
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let product: f64 = (0..n).map(|k| inverse(i, k) * matrix[k * n + j]).sum();
            assert!((product - f64::from(u8::from(i == j))).abs() < 1e-8, "{i} {j}: {product}");
        }
        assert!(inverse_factor(&[0.0; 4], 2).unwrap_err().to_string().contains("not positive"));
        assert!(inverse_factor(&[1.0; 3], 2).is_err());
    }
}
