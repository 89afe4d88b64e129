//! The randomised Hadamard transform that turns the residual stream.

use std::f64::consts::TAU;

use quantlab_kernels::{Epilogue, Matrix, matmul, thread_scope};

use crate::error::{Error, Result};
use crate::model::weights::split_mix;

/// The largest odd factor of a width: the transform of it takes as many multiplications for each number.
const LARGEST_ODD: usize = 4096;

/// An orthogonal matrix Q (C, C), by which rows are multiplied: `x Q`.
///
/// `Q = D S`, where D has a random sign for each channel, and S is symmetric and its own inverse: Sylvester's Hadamard
/// matrix for the largest power of two that divides C, times (as Kronecker's product) the Hartley matrix for the odd
/// rest. That one, `(cos t + sin t) / sqrt(m)` with `t = 2 pi i j / m`, is orthogonal for every m, and no number of it
/// is more than sqrt(2) times that of a Hadamard matrix, of which there is none for most widths. For widths that are
/// powers of two, Q is the randomised Hadamard matrix of QuaRot.
///
/// A layer norm subtracts the mean of the channels, so that it commutes only with a Q that leaves means as they are. For
/// it, `Q = S D S` with a first sign of 1: the first row of S is all alike, so that `1 S` is a multiple of the first unit
/// vector, which D keeps and the second S turns back into 1.
///
/// Source: Ashkboos et al. 2024, "QuaRot", arXiv:2404.00456, section 3; Bracewell 1983, "Discrete Hartley transform".
#[derive(Debug)]
pub(in crate::model) struct Rotation {
    signs: Vec<f32>,
    /// The odd part of the width, and its Hartley matrix row by row.
    odd: usize,
    hartley: Vec<f32>,
    keeps_mean: bool,
    /// Another orthogonal matrix in place of all this, column by column; usually empty.
    columns: Vec<f32>,
}

/// # Errors
/// A matrix that is not square, or whose rows are not orthogonal and of length 1.
pub(super) fn check_orthogonal(matrix: &[f32]) -> Result<()> {
    let width = matrix.len().isqrt();
    if width == 0 || width * width != matrix.len() {
        return Err(Error::input(format!("{} numbers are no square matrix", matrix.len())));
    }
    let mut dots = vec![0.0; width * width];
    matmul(&thread_scope(), matrix, Matrix { weights: &matrix, n: width, k: width }, Epilogue::default(), &mut dots);
    let off = |(i, dot): (usize, &f32)| {
        let far = (dot - if i / width == i % width { 1.0 } else { 0.0 }).abs();
        far.is_nan() || far > 1e-3
    };
    match dots.iter().enumerate().position(off) {
        None => Ok(()),
        Some(i) => Err(Error::input(format!(
            "the matrix is not orthogonal: its rows {} and {} have a dot product of {}",
            i / width,
            i % width,
            dots[i]
        ))
        .hint("a rotation keeps lengths: each row has length 1, and is orthogonal to all others")),
    }
}

impl Rotation {
    /// For vectors of `width` numbers.
    ///
    /// # Errors
    /// A width whose odd part is beyond any model's.
    pub fn new(width: usize, seed: u64, keeps_mean: bool) -> Result<Self> {
        let odd = width.checked_shr(width.trailing_zeros()).unwrap_or(0);
        if odd == 0 || odd > LARGEST_ODD {
            return Err(Error::input(format!("a width of {width} has no fast Hadamard transform")).hint(format!(
                "the largest odd number that divides it must be at most {LARGEST_ODD}; do without the rotation"
            )));
        }
        let sign = |channel: usize| {
            let is_kept = split_mix(seed, channel as u64) >> 63 == 0 || keeps_mean && channel == 0;
            if is_kept { 1.0 } else { -1.0 }
        };
        let angle = |index: usize| TAU * ((index / odd) * (index % odd) % odd) as f64 / odd as f64;
        let root = (odd as f64).sqrt();
        let hartley = (0..odd * odd).map(angle).map(|angle| ((angle.cos() + angle.sin()) / root) as f32);
        let columns = Vec::new();
        Ok(Self { signs: (0..width).map(sign).collect(), odd, hartley: hartley.collect(), keeps_mean, columns })
    }

    /// An orthogonal matrix (C, C), row by row.
    pub fn of_matrix(matrix: &[f32], width: usize) -> Self {
        let columns: Vec<f32> = (0..matrix.len()).map(|i| matrix[i % width * width + i / width]).collect();
        let sums: Vec<f32> = columns.chunks_exact(width).map(|column| column.iter().sum()).collect();
        let keeps_mean = sums.iter().all(|sum| (sum - sums[0].signum()).abs() < 1e-2);
        Self { signs: vec![1.0; width], odd: 1, hartley: Vec::new(), keeps_mean, columns }
    }

    /// Whether a row that is all alike stays so, up to its sign.
    pub fn keeps_mean(&self) -> bool {
        self.keeps_mean
    }

    /// Multiplies each row of a matrix (n, C) by Q.
    pub fn rows(&self, numbers: &mut [f32]) {
        let width = self.signs.len();
        if !self.columns.is_empty() {
            let original = numbers.to_vec();
            let matrix = Matrix { weights: &&*self.columns, n: width, k: width };
            return matmul(&thread_scope(), &original, matrix, Epilogue::default(), numbers);
        }
        thread_scope().split_mut(numbers, width, self.work(), &|_, rows| {
            let mut buffer = vec![0.0; width];
            rows.chunks_exact_mut(width).for_each(|row| self.rotate(row, &mut buffer));
        });
    }

    /// Multiplies each column of a matrix (C, `columns`) by Q's transpose: the layer that it belongs to then computes
    /// what it did, times Q.
    pub fn columns(&self, numbers: &mut [f32], columns: usize) {
        let width = self.signs.len();
        let mut turned = vec![0.0; numbers.len()]; // (columns, C)
        let original = &*numbers;
        thread_scope().split_mut(&mut turned, width, 8 * width, &|first, rows| {
            for (column, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                row.iter_mut().zip(original[column..].iter().step_by(columns)).for_each(|(to, from)| *to = *from);
            }
        });
        self.rows(&mut turned);
        thread_scope().split_mut(numbers, columns, 8 * columns, &|first, rows| {
            for (channel, row) in (first..).zip(rows.chunks_exact_mut(columns)) {
                row.iter_mut().zip(turned[channel..].iter().step_by(width)).for_each(|(to, from)| *to = *from);
            }
        });
    }

    /// Multiplications for a vector.
    fn work(&self) -> usize {
        self.signs.len() * (self.odd + (self.signs.len() / self.odd).ilog2() as usize + 1)
    }

    fn rotate(&self, row: &mut [f32], buffer: &mut [f32]) {
        if self.keeps_mean {
            self.transform(row, buffer);
        }
        row.iter_mut().zip(&self.signs).for_each(|(number, sign)| *number *= sign);
        self.transform(row, buffer);
    }

    /// Multiplies by S, in as many steps as there are factors of two, and one for the odd factor.
    fn transform(&self, row: &mut [f32], buffer: &mut [f32]) {
        let mut half = self.odd;
        while half < row.len() {
            for pair in row.chunks_exact_mut(2 * half) {
                let (low, high) = pair.split_at_mut(half);
                for (low, high) in low.iter_mut().zip(high) {
                    (*low, *high) = (*low + *high, *low - *high);
                }
            }
            half *= 2;
        }
        let scale = ((self.odd as f64 / row.len() as f64).sqrt()) as f32;
        if self.odd == 1 {
            return row.iter_mut().for_each(|number| *number *= scale);
        }
        for (numbers, sums) in row.chunks_exact(self.odd).zip(buffer.chunks_exact_mut(self.odd)) {
            for (sum, factors) in sums.iter_mut().zip(self.hartley.chunks_exact(self.odd)) {
                *sum = scale * numbers.iter().zip(factors).map(|(number, factor)| number * factor).sum::<f32>();
            }
        }
        row.copy_from_slice(buffer);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Q, row by row: what it makes of the unit vectors.
    fn matrix(rotation: &Rotation) -> Vec<f32> {
        let width = rotation.signs.len();
        let mut rows: Vec<f32> = (0..width * width).map(|i| f32::from(u8::from(i / width == i % width))).collect();
        rotation.rows(&mut rows);
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_orthogonal_whatever_its_size(
            width in prop_oneof![1..100_usize, Just(128), Just(192), Just(576)],
            seed in any::<u64>(),
            keeps_mean in any::<bool>(),
        ) {
            let q = matrix(&Rotation::new(width, seed, keeps_mean).unwrap());
            let dot = |a: usize, b: usize| -> f64 {
                let [a, b] = [a, b].map(|row| &q[row * width..(row + 1) * width]);
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            for a in 0..width {
                for b in [a, (a + 1) % width, (7 * a + 3) % width] {
                    let expected = if a == b { 1.0 } else { 0.0 };
                    prop_assert!((dot(a, b) - expected).abs() < 1e-5, "rows {} and {}: {}", a, b, dot(a, b));
                }
            }
        }

        #[test]
        fn columns_are_turned_as_rows_are(width in 1..40_usize, columns in 1..9_usize, seed in any::<u64>()) {
            let rotation = Rotation::new(width, seed, seed % 2 == 0).unwrap();
            let rows: Vec<f32> = (0..width * columns).map(|i| (i as f32 * 0.7).sin()).collect();
            let transposed = |rows: &[f32], width: usize| -> Vec<f32> {
                (0..rows.len()).map(|i| rows[i % (rows.len() / width) * width + i / (rows.len() / width)]).collect()
            };
            let (mut by_rows, mut by_columns) = (rows.clone(), transposed(&rows, width));
            rotation.rows(&mut by_rows);
            rotation.columns(&mut by_columns, columns);
            prop_assert_eq!(transposed(&by_columns, columns), by_rows);
        }
    }

    #[test]
    fn a_power_of_two_has_numbers_of_one_size_and_others_almost() {
        for (width, most) in [(64, 1.0), (576, 2.0_f32.sqrt())] {
            let q = matrix(&Rotation::new(width, 3, false).unwrap());
            let largest = q.iter().map(|number| number.abs()).fold(0.0, f32::max);
            assert!(largest <= 1.0001 * most / (width as f32).sqrt(), "{width}: {largest}");
        }
        // Both signs, and not the same ones for another seed.
        let [one, other] = [1, 2].map(|seed| Rotation::new(64, seed, false).unwrap().signs);
        assert!(one != other && one.contains(&1.0) && one.contains(&-1.0));
    }

    #[test]
    fn for_layer_norms_means_stay() {
        for width in [1, 12, 36, 64, 256] {
            let mut row: Vec<f32> = (0..width).map(|i| 1.0 + (i as f32).sin()).collect();
            let mean = |row: &[f32]| row.iter().sum::<f32>() / width as f32;
            let before = (mean(&row), row.clone());
            Rotation::new(width, 5, true).unwrap().rows(&mut row);
            assert!((mean(&row) - before.0).abs() < 1e-5, "{width}");
            assert!(width == 1 || row != before.1);
        }
    }

    #[test]
    fn widths_without_a_fast_transform_are_refused() {
        for width in [0, 4097, 2 * 10_007] {
            let error = Rotation::new(width, 1, false).unwrap_err().to_string();
            assert!(error.contains(&format!("width of {width}")), "{error}");
        }
    }
}
