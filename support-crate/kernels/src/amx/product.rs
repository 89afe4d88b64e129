//! Products of many inputs with a matrix of weights, in blocks of 32 by 32.

use std::ops::Range;

use super::inputs::{TileInputs, transpose};
use super::{Amx, BLOCK, Operands, Sums, TILE_ROWS, TileNumber, Tiles};
use crate::matmul::{Product, blocks};
use crate::scratch::{Reused, Scratch};
use crate::simd::{Avx512Bf16, Dispatch, Kernel};
use crate::strided::Block;

/// Rows of tiles along K that are copied, or decoded, at once: 32 rows of weights then take 32 KiB, which stay in the
/// first-level cache.
pub const PANEL_STEPS: usize = 16;

/// Bytes of inputs that stay in the second-level cache (2 MiB where there is AMX) while weights go by. Measured without
/// such a limit, the layout multiplied 768 x 3072 weights with 512 inputs, which are 3 MiB, at two thirds of the speed
/// that it reached with 128.
const INPUT_BYTES: usize = 1 << 20;

/// At least this many groups of 32 inputs are multiplied at once, however many bytes they take: one pass over the
/// weights serves all of them.
const MIN_GROUPS: usize = 4;

/// At most this many are: their sums take 64 KiB.
const MAX_GROUPS: usize = 16;

/// Products of at most this many groups are limited by reading the weights, so these are copied to the panel, one row
/// after the other: loading tiles jumps among 32 rows, which processors do not predict. Measured without copies, with
/// 32 inputs, the layout read 50240 x 768 weights from memory at 5 GB/s, two fifths of what a core can do.
const GROUPS_TO_COPY_FOR: usize = 2;

/// A matrix of weights (n, k) that is multiplied with inputs by tiles.
pub trait TileProduct: Sync {
    /// What is multiplied.
    type Number: TileNumber + Reused;

    /// The matrix, if it is stored in these numbers.
    #[inline(always)]
    fn stored(&self) -> Option<&[Self::Number]> {
        None
    }

    /// Some columns of a row of weights, in the order that the inputs are in.
    fn row(&self, simd: Avx512Bf16, row: usize, columns: Range<usize>, out: &mut [Self::Number]);

    /// Adds the sums of products of input `m` with up to 32 rows of weights, given as bits, to the outputs. By default,
    /// the bits are those of float32, which are added unchanged.
    #[inline(always)]
    fn add_to(&self, _m: usize, _rows: Range<usize>, sums: &[u32; BLOCK], out: &mut [f32]) {
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out += f32::from_bits(*sum));
    }
}

/// Computes a product, whose inputs `x` (m, k) have been converted to the number format of `weights`.
pub fn multiply<P: TileProduct>(amx: Amx, x: &[P::Number], weights: &P, product: Product<'_>) {
    let Product { scope, k, .. } = product;
    let (m, inputs) = (x.len() / k, &TileInputs::new(amx, scope, x, k));
    // In the time of a product of float32, tiles multiply some 8 times as many bfloat16, and 16 times as many bytes.
    let work = m * k / (P::Number::PER_ROW / 4);
    product.divide(work, &|rows, out| {
        amx.vectors().dispatch(Part { amx, weights, inputs, m, k, rows, out });
    });
}

/// A thread's rows of weights.
struct Part<'a, P: TileProduct> {
    amx: Amx,
    weights: &'a P,
    inputs: &'a TileInputs<P::Number>,
    m: usize,
    k: usize,
    rows: Range<usize>,
    out: Block<'a, f32>,
}

impl<P: TileProduct> Kernel<Avx512Bf16> for Part<'_, P> {
    #[inline(always)]
    fn run(mut self, simd: Avx512Bf16) {
        let tiles = self.amx.tiles();
        let groups = self.inputs.groups();
        let in_cache = INPUT_BYTES / (BLOCK * self.k * size_of::<P::Number>());
        let at_once = in_cache.clamp(MIN_GROUPS, MAX_GROUPS);
        let mut sums = vec![Sums::ZERO; at_once.min(groups)];
        let mut panel = Scratch::uninit(BLOCK * PANEL_STEPS * P::Number::PER_ROW);
        for groups in blocks(0..groups, at_once) {
            for rows in blocks(self.rows.clone(), BLOCK) {
                let sums = &mut sums[..groups.len()];
                sums.fill(Sums::ZERO);
                self.multiply(simd, &tiles, rows.clone(), groups.clone(), &mut panel, sums);
                self.finish(rows, groups.start * BLOCK, sums);
            }
        }
    }
}

impl<P: TileProduct> Part<'_, P> {
    /// Adds the products of up to 32 rows of weights with some groups of inputs to `sums`. With many inputs, whole
    /// tiles of weights are read where they are stored; everything else is copied to a panel, padded with zeros.
    #[inline(always)]
    fn multiply(
        &self,
        simd: Avx512Bf16,
        tiles: &Tiles,
        rows: Range<usize>,
        groups: Range<usize>,
        panel: &mut [P::Number],
        sums: &mut [Sums],
    ) {
        let Self { weights: matrix, inputs, k, .. } = *self;
        let mut multiply_add = |weights: &[P::Number], weights_stride: usize, column: usize, steps: usize| {
            for (group, sums) in groups.clone().zip(&mut *sums) {
                let group = inputs.group(group);
                let inputs = group.tiles_at(column);
                tiles.multiply_add(Operands { weights, weights_stride, inputs, input_tiles: group.tiles, steps }, sums);
            }
        };
        let whole = k / P::Number::PER_ROW;
        let many = inputs.groups() > GROUPS_TO_COPY_FOR;
        let stored = matrix.stored().filter(|_| many && rows.len() == BLOCK && whole > 0);
        if let Some(weights) = stored {
            multiply_add(&weights[rows.start * k..rows.end * k], k, 0, whole);
        }
        let rest = if stored.is_some() { whole * P::Number::PER_ROW } else { 0 };
        let stride = PANEL_STEPS * P::Number::PER_ROW;
        for columns in blocks(rest..k, stride) {
            let steps = columns.len().div_ceil(P::Number::PER_ROW);
            // Rows beyond the last have sums that nobody looks at.
            for (row, out) in rows.clone().zip(panel.chunks_exact_mut(stride)) {
                let (out, padding) = out[..steps * P::Number::PER_ROW].split_at_mut(columns.len());
                matrix.row(simd, row, columns.clone(), out);
                padding.fill(P::Number::default());
            }
            multiply_add(panel, stride, columns.start, steps);
        }
    }

    /// Adds sums to the outputs of the inputs from `first` on.
    #[inline(always)]
    fn finish(&mut self, rows: Range<usize>, first: usize, sums: &mut [Sums]) {
        let columns = rows.start - self.rows.start..rows.end - self.rows.start;
        let by_tile = sums.iter_mut().flat_map(|sums| &mut sums.0);
        for (m, weights) in (first..self.m).step_by(TILE_ROWS).zip(by_tile) {
            // SAFETY: the processor has AVX-512, which the value of `Amx` proves.
            weights.iter_mut().for_each(|tile| unsafe { transpose(tile) });
            let [first, second] = weights;
            for (m, (first, second)) in (m..self.m).zip(first.iter().zip(second)) {
                let mut sums = [0; BLOCK];
                sums[..TILE_ROWS].copy_from_slice(first);
                sums[TILE_ROWS..].copy_from_slice(second);
                let out = &mut self.out.row(m)[columns.clone()];
                // The usual length, once the compiler knows it, becomes two vectors.
                if let Ok(out) = <&mut [f32; BLOCK]>::try_from(&mut *out) {
                    self.weights.add_to(m, rows.start..rows.start + BLOCK, &sums, out);
                } else {
                    self.weights.add_to(m, rows.clone(), &sums, out);
                }
            }
        }
    }
}
