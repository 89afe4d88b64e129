//! A Hessian in the form that error feedback takes.
//!
//! H = F^T D F, with a diagonal D and an F whose entries are 1 on the diagonal and 0 above. The error of a row of weights,
//! `e H e^T` for its change `e`, is then a sum of squares: column i's is `D_i (e_i + sum_(j < i) F_ij e_j)^2`. Whoever
//! rounds the columns in order makes each of them smallest by rounding `w_i + sum_(j < i) F_ij e_j`.
//!
//! GPTQ does the same with the Cholesky factor of the inverse of H, which is `D^(-1/2) F^(-T)`. This one takes a quarter
//! of the operations and no inverse, which in float32 would lose digits. That both choose the same: Chee et al. 2023
//! (QuIP, arXiv:2307.13304), theorem 6, where F is called LDL.

use quantlab_kernels::{Epilogue, Matrix, matmul, thread_scope};

use super::Hessian;
use crate::error::{Error, Result};
use crate::interrupt;

/// This part of the mean of the diagonal is added to the diagonal, as GPTQ does: without it, inputs that always go
/// together would let errors grow without bounds.
const DAMPING: f64 = 0.01;

/// F, in square tiles of its lower half, row by row.
pub(crate) struct Factor {
    columns: usize,
    tile: usize,
    tiles: Vec<f32>,
    /// Which column of the weights each of these is, where they are in another order.
    order: Option<Vec<u32>>,
}

impl Factor {
    /// # Errors
    /// There is no memory for it; interrupted.
    pub fn new(hessian: &Hessian, tile: usize, act_order: bool) -> Result<Self> {
        let columns = hessian.columns();
        let count = columns.div_ceil(tile);
        let len = (tile * tile).saturating_mul(count * (count + 1) / 2);
        let mut tiles = Vec::new();
        tiles
            .try_reserve_exact(len)
            .map_err(|_| Error::system(format!("no memory for the factor of a Hessian of {columns} inputs")))?;
        tiles.resize(len, 0.0_f32);
        let diagonal = hessian.diagonal();
        let order = act_order.then(|| {
            let mut order: Vec<u32> = (0..columns as u32).collect();
            order.sort_by(|&a, &b| diagonal[b as usize].total_cmp(&diagonal[a as usize]));
            order
        });
        let mean = diagonal.iter().map(|&square| f64::from(square)).sum::<f64>() / columns as f64;
        // Where all inputs were 0, any factor will do.
        let damping = if mean > 0.0 { DAMPING * mean } else { 1.0 };
        let mut factor = Self { columns, tile, tiles, order };
        factor.fill(hessian, damping as f32);
        for last in (0..count).rev() {
            interrupt::check()?;
            factor.eliminate(last, damping);
        }
        Ok(factor)
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows and columns of a tile.
    pub fn tile_size(&self) -> usize {
        self.tile
    }

    /// A tile below the diagonal or on it.
    pub fn tile(&self, row: usize, column: usize) -> &[f32] {
        &self.tiles[(row * (row + 1) / 2 + column) * self.tile * self.tile..][..self.tile * self.tile]
    }

    /// Whether columns are in an order of their own.
    pub fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// Which column of the weights this is.
    pub fn column(&self, index: usize) -> usize {
        self.order.as_ref().map_or(index, |order| order[index] as usize)
    }

    /// Copies the Hessian into the tiles, with what is added to its diagonal. The last tiles may go beyond it, as a
    /// diagonal matrix.
    fn fill(&mut self, hessian: &Hessian, damping: f32) {
        let mut tiles = std::mem::take(&mut self.tiles);
        let (size, k, of) = (self.tile, self.columns, |index| self.column(index));
        thread_scope().split_mut(&mut tiles, size * size, size * size, &|first, tiles| {
            for (index, tile) in (first..).zip(tiles.chunks_exact_mut(size * size)) {
                let (row, column) = place(index);
                for (i, out) in (row * size..).zip(tile.chunks_exact_mut(size)) {
                    for (j, out) in (column * size..).zip(out) {
                        *out = if i < k && j < k {
                            let (i, j) = (of(i), of(j));
                            hessian.row(i.max(j))[i.min(j)]
                        } else {
                            0.0
                        };
                        *out += if i == j { damping } else { 0.0 };
                    }
                }
            }
        });
        self.tiles = tiles;
    }

    /// Makes a row of tiles, which holds what is left of H, one of F, and takes what it explains from the rows before.
    fn eliminate(&mut self, last: usize, damping: f64) {
        let (size, square) = (self.tile, self.tile * self.tile);
        let (before, row) = self.tiles.split_at_mut(last * (last + 1) / 2 * square);
        let (row, diagonal) = row[..(last + 1) * square].split_at_mut(last * square);
        let pivots = &eliminate_tile(diagonal, size, damping);
        let (diagonal, work) = (&*diagonal, size * square);
        let scope = &thread_scope();
        scope.split_mut(row, square, work, &|_, tiles| {
            tiles.chunks_exact_mut(square).for_each(|tile| solve(tile, size, diagonal, pivots));
        });
        // Products are along rows: F^T, negated, and (D F)^T.
        let row = &*row;
        let turned = |factor: &(dyn Fn(usize) -> f32 + Sync)| {
            let mut turned = vec![0.0; row.len()];
            scope.split_mut(&mut turned, square, square, &|first, tiles| {
                for (out, tile) in tiles.chunks_exact_mut(square).zip(row[first * square..].chunks_exact(square)) {
                    for (i, tile) in tile.chunks_exact(size).enumerate() {
                        out[i..].iter_mut().step_by(size).zip(tile).for_each(|(out, number)| *out = factor(i) * number);
                    }
                }
            });
            turned
        };
        let (negated, scaled) = (&turned(&|_| -1.0), &turned(&|i| pivots[i]));
        scope.split_mut(before, square, work, &|first, tiles| {
            // As others compute meanwhile, this one has no threads but the one that it runs on.
            let alone = thread_scope();
            for (index, tile) in (first..).zip(tiles.chunks_exact_mut(square)) {
                let (row, column) = place(index);
                let weights = &&scaled[column * square..(column + 1) * square];
                let epilogue = Epilogue { accumulate: true, ..Epilogue::default() };
                let x = &negated[row * square..(row + 1) * square];
                matmul(&alone, x, Matrix { weights, n: size, k: size }, epilogue, tile);
            }
        });
    }
}

/// The row and the column of a tile.
fn place(index: usize) -> (usize, usize) {
    let row = ((8 * index + 1).isqrt() - 1) / 2;
    (row, index - row * (row + 1) / 2)
}

/// Makes a tile of H on the diagonal one of F, and returns its part of D.
fn eliminate_tile(tile: &mut [f32], size: usize, damping: f64) -> Vec<f32> {
    let mut numbers: Vec<f64> = tile.iter().map(|&number| f64::from(number)).collect();
    let mut pivots = vec![0.0; size];
    for m in (0..size).rev() {
        let (before, row) = numbers.split_at_mut(m * size);
        let row = &mut row[..size];
        // What damping adds is left, whatever the other columns explain; rounding must not take it away.
        let pivot = row[m].max(damping);
        for (i, out) in before.chunks_exact_mut(size).enumerate() {
            let factor = row[i] / pivot;
            out[..=i].iter_mut().zip(&row[..=i]).for_each(|(out, number)| *out -= factor * number);
        }
        row[..m].iter_mut().for_each(|number| *number /= pivot);
        row[m] = 1.0;
        row[m + 1..].fill(0.0);
        pivots[m] = pivot as f32;
    }
    tile.iter_mut().zip(&numbers).for_each(|(out, &number)| *out = number as f32);
    pivots
}

/// Makes a tile of H left of the diagonal one of F, by F and D on the diagonal of the same row.
fn solve(tile: &mut [f32], size: usize, diagonal: &[f32], pivots: &[f32]) {
    for m in (0..size).rev() {
        let (row, after) = tile[m * size..].split_at_mut(size);
        let factors = diagonal[m..].iter().step_by(size).skip(m + 1);
        for (factor, other) in factors.zip(after.chunks_exact(size)) {
            row.iter_mut().zip(other).for_each(|(number, other)| *number -= factor * other);
        }
    }
    for (row, pivot) in tile.chunks_exact_mut(size).zip(pivots) {
        row.iter_mut().for_each(|number| *number /= pivot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F^T D F, with D from the quadratic forms of F's rows, is H again, whatever the tiles.
    #[test]
    fn the_factor_makes_the_hessian_again() {
        let (columns, tokens) = (150, 400);
        let inputs: Vec<f32> = (0..tokens * columns).map(|i| ((i * i % 1009) as f32 / 500.0 - 1.0) * 0.1).collect();
        let mut hessian = Hessian::new(columns).unwrap();
        hessian.add(&inputs).unwrap();
        let diagonal = hessian.diagonal();
        let damping = 0.01 * diagonal.iter().sum::<f32>() / columns as f32;
        for (tile, act_order) in [(32, false), (64, true), (128, false), (192, true)] {
            let factor = Factor::new(&hessian, tile, act_order).unwrap();
            let f = |i: usize, j: usize| f64::from(factor.tile(i / tile, j / tile)[i % tile * tile + j % tile]);
            let h = |i: usize, j: usize| {
                let (i, j) = (factor.column(i), factor.column(j));
                let number = hessian.row(i.max(j))[i.min(j)] + if i == j { damping } else { 0.0 };
                f64::from(number)
            };
            // From the last row on: D_m = H_mm - sum_(l > m) F_lm^2 D_l.
            let mut d = vec![0.0; columns];
            for m in (0..columns).rev() {
                d[m] = h(m, m) - (m + 1..columns).map(|l| f(l, m).powi(2) * d[l]).sum::<f64>();
                assert!(d[m] > 0.0 && f(m, m) == 1.0);
            }
            for i in 0..columns {
                for j in 0..=i {
                    let made: f64 = (i..columns).map(|l| f(l, i) * d[l] * f(l, j)).sum();
                    assert!((made - h(i, j)).abs() < 2e-5 * h(0, 0).max(h(i, i)), "{tile} {i} {j}: {made} {}", h(i, j));
                }
            }
        }
    }
}
