//! GPTQ: weights to codes, column after column, each of which makes up for the errors of those before.

use std::ops::Range;

use quantlab_kernels::{Epilogue, Matrix, ThreadScope, matmul, thread_scope};

use super::{Factor, Fit, Grid};
use crate::error::Result;
use crate::quant::AffineInt4;
use crate::quant::float::{absolute_maximum, check_finite, count_rows};

/// The columns of a tile are rounded one after the other; those after it then take all of its errors at once.
const TILE: usize = 128;

impl Factor {
    /// The tiles of a factor for groups of this size: no group lies in two.
    pub fn tile_for(group_size: usize) -> usize {
        if group_size < TILE { TILE / group_size * group_size } else { group_size }
    }
}

/// Quantizes rows of weights to codes from 0 to `last`: two a byte, the first in the high half, and for each group its
/// scale and what a code of 0 stands for. Tiles of `factor` are [`Factor::tile_for`] the groups.
///
/// Rows do not depend on each other: several threads may each quantize some.
///
/// Source: Frantar et al. 2022, arXiv:2210.17323, algorithm 1 (by another factor of the Hessian, see [`Factor`]). A
/// group's scale is that of its weights as all columns before have left them. Inputs that were always 0 keep their
/// weights, which GPTQ sets to 0: other texts may have some that are not.
///
/// # Errors
/// Weights that are not whole rows, or of which one is NaN or infinite; a group whose scale does not fit into float16.
pub(crate) fn quantize_rows(
    weights: &[f32],
    factor: &Factor,
    group_size: usize,
    last: f32,
    fit: Fit,
    packed: &mut [u8],
    scales: &mut [[f32; 2]],
) -> Result<()> {
    let k = factor.columns();
    count_rows("weights", weights.len(), k)?;
    AffineInt4::check_rows(k, group_size)?;
    if absolute_maximum(weights).is_none() {
        return check_finite("weight", weights);
    }
    let mut rows = Rows::new(weights, factor, group_size);
    if factor.is_ordered() {
        for (grid, group) in rows.grids.iter_mut().zip(weights.chunks_exact(group_size)) {
            *grid = Grid::fit(group, last, fit)?;
        }
    }
    let scope = thread_scope();
    for tile in 0..k.div_ceil(factor.tile_size()) {
        rows.round_tile(tile, last, fit)?;
        rows.pass_on(&scope, tile);
    }
    scales.iter_mut().zip(&rows.grids).for_each(|(out, grid)| *out = grid.scales());
    packed.iter_mut().zip(rows.codes.chunks_exact(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
    Ok(())
}

/// Rows in the making. Their columns lie in the order of the factor, each with the numbers of all rows side by side.
struct Rows<'a> {
    factor: &'a Factor,
    group_size: usize,
    n: usize,
    /// The weights: (columns of all tiles, n).
    weights: Vec<f32>,
    /// The weights as the errors of the columns before have changed them: the same.
    changed: Vec<f32>,
    /// What rounding has changed in the columns of a tile: (tile, n).
    errors: Vec<f32>,
    /// Of each row and group.
    grids: Vec<Grid>,
    /// Row by row, in the order of the weights.
    codes: Vec<u8>,
}

impl<'a> Rows<'a> {
    fn new(numbers: &[f32], factor: &'a Factor, group_size: usize) -> Self {
        let (k, tile) = (factor.columns(), factor.tile_size());
        let n = numbers.len() / k;
        let mut weights = vec![0.0; k.next_multiple_of(tile) * n];
        for (index, out) in weights.chunks_exact_mut(n).take(k).enumerate() {
            let column = numbers[factor.column(index)..].iter().step_by(k);
            out.iter_mut().zip(column).for_each(|(out, number)| *out = *number);
        }
        let grids = vec![Grid::default(); numbers.len() / group_size];
        let (changed, codes) = (weights.clone(), vec![0; numbers.len()]);
        Self { factor, group_size, n, weights, changed, errors: vec![0.0; tile * n], grids, codes }
    }

    /// Rounds the columns of a tile.
    fn round_tile(&mut self, tile: usize, last: f32, fit: Fit) -> Result<()> {
        let size = self.factor.tile_size();
        let (first, end) = (tile * size, self.factor.columns().min((tile + 1) * size));
        let (ordered, errors) = (self.factor.is_ordered(), &mut self.errors);
        errors.fill(0.0);
        let together = if ordered { size } else { self.group_size };
        for start in (first..end).step_by(together) {
            let columns = start..end.min(start + together);
            if !ordered {
                columns.clone().for_each(|column| self.make_up(column, first..start));
                self.fit_group(start, last, fit)?;
            }
            for column in columns {
                self.make_up(column, start..column);
                self.round(column, first);
            }
        }
        Ok(())
    }

    /// Adds to a column what the errors of some columns before it in its tile ask for.
    fn make_up(&mut self, column: usize, before: Range<usize>) {
        let (n, size) = (self.n, self.factor.tile_size());
        let (tile, row) = (column / size, column % size);
        let changed = &mut self.changed[column * n..(column + 1) * n];
        let factors = &self.factor.tile(tile, tile)[row * size..(row + 1) * size];
        let start = before.start % size;
        let errors = self.errors[start * n..].chunks_exact(n);
        for (factor, errors) in factors[start..start + before.len()].iter().zip(errors) {
            changed.iter_mut().zip(errors).for_each(|(changed, error)| *changed += factor * error);
        }
    }

    /// Finds the grids of the group that begins with a column, to which what comes before it is made up: those of the
    /// weights that would be best if they were not rounded.
    fn fit_group(&mut self, start: usize, last: f32, fit: Fit) -> Result<()> {
        let (n, groups) = (self.n, self.factor.columns() / self.group_size);
        let (columns, size) = (start..start + self.group_size, self.factor.tile_size());
        let before = self.changed[start * n..columns.end * n].to_vec();
        for column in columns.clone() {
            self.make_up(column, start..column);
            let errors = &mut self.errors[column % size * n..][..n];
            let numbers = self.weights[column * n..].iter().zip(&self.changed[column * n..]);
            errors.iter_mut().zip(numbers).for_each(|(error, (weight, changed))| *error = weight - changed);
        }
        let mut group = vec![0.0; self.group_size];
        for row in 0..n {
            let changed = self.changed[start * n + row..].iter().step_by(n);
            group.iter_mut().zip(changed).for_each(|(out, number)| *out = *number);
            self.grids[row * groups + start / self.group_size] = Grid::fit(&group, last, fit)?;
        }
        self.changed[start * n..columns.end * n].copy_from_slice(&before);
        Ok(())
    }

    /// Rounds a column of the tile that begins with `first`.
    fn round(&mut self, index: usize, first: usize) {
        let (n, k, column) = (self.n, self.factor.columns(), self.factor.column(index));
        let (changed, weights) = (&self.changed[index * n..], &self.weights[index * n..]);
        let errors = &mut self.errors[(index - first) * n..(index - first + 1) * n];
        let grids = self.grids[column / self.group_size..].iter().step_by(k / self.group_size);
        let codes = self.codes[column..].iter_mut().step_by(k);
        let numbers = changed.iter().zip(weights);
        for (((error, grid), out), (changed, weight)) in errors.iter_mut().zip(grids).zip(codes).zip(numbers) {
            let code = grid.code(*changed);
            *out = code as u8;
            *error = weight - grid.number(code);
        }
    }

    /// Lets all columns after a tile make up for its errors.
    fn pass_on(&mut self, scope: &ThreadScope, tile: usize) {
        let (n, size) = (self.n, self.factor.tile_size());
        let mut errors = vec![0.0; self.errors.len()]; // (n, tile): products are along rows
        for (column, of_column) in self.errors.chunks_exact(n).enumerate() {
            errors[column..].iter_mut().step_by(size).zip(of_column).for_each(|(out, error)| *out = *error);
        }
        for (after, changed) in self.changed.chunks_exact_mut(size * n).enumerate().skip(tile + 1) {
            let epilogue = Epilogue { accumulate: true, ..Epilogue::default() };
            let matrix = Matrix { weights: &&errors[..], n, k: size };
            matmul(scope, self.factor.tile(after, tile), matrix, epilogue, changed);
        }
    }
}
