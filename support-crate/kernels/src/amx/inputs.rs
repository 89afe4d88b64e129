//! Inputs of products in the order in which tiles are multiplied.

use std::arch::x86_64::*;

use super::{Amx, BLOCK, TILE_ROWS, TileNumber};
use crate::scratch::{Reused, Scratch};
use crate::sizes;
use crate::threads::ThreadScope;

/// Rows of inputs (m, k), arranged in tiles: in groups of 32, and for each 64 bytes along K, a tile of the first 16
/// inputs and, if there are more than these, one of the others. A tile's columns are inputs, its rows are groups of 4
/// bytes: pairs of bfloat16, or four bytes. Unused parts of a tile are 0.
pub struct TileInputs<T: Reused> {
    numbers: Scratch<T>,
    m: usize,
    /// Rows of tiles along K.
    steps: usize,
}

/// A group of up to 32 inputs.
#[derive(Clone, Copy)]
pub struct Group<'a, T> {
    numbers: &'a [T],
    /// 1 or 2.
    pub tiles: usize,
}

impl<T: TileNumber + Reused> TileInputs<T> {
    const TILE: usize = TILE_ROWS * T::PER_ROW;

    /// Arranges `x` (m, k) in tiles, once per product.
    pub fn new(_: Amx, scope: &ThreadScope, x: &[T], k: usize) -> Self {
        let (m, steps) = (x.len() / k, k.div_ceil(T::PER_ROW));
        let group = 2 * steps * Self::TILE;
        let mut numbers = Scratch::uninit(sizes::product("tiles", &[m.div_ceil(BLOCK), group]));
        scope.split_mut(&mut numbers, group, 4 * BLOCK * k, &|first, out| {
            for (x, out) in x[first * BLOCK * k..].chunks(BLOCK * k).zip(out.chunks_exact_mut(group)) {
                // SAFETY: the processor has AVX-512, which the value of `Amx` proves.
                unsafe { pack(x, k, out) };
            }
        });
        Self { numbers, m, steps }
    }

    pub fn groups(&self) -> usize {
        self.m.div_ceil(BLOCK)
    }

    /// Inputs `32 * group..`
    #[inline(always)]
    pub fn group(&self, group: usize) -> Group<'_, T> {
        let len = 2 * self.steps * Self::TILE;
        let tiles = (self.m - group * BLOCK).div_ceil(TILE_ROWS).min(2);
        Group { numbers: &self.numbers[group * len..(group + 1) * len], tiles }
    }
}

impl<'a, T: TileNumber> Group<'a, T> {
    /// The tiles from a column on, which is a multiple of [`TileNumber::PER_ROW`].
    #[inline(always)]
    pub fn tiles_at(self, column: usize) -> &'a [T] {
        &self.numbers[column * TILE_ROWS * self.tiles..]
    }
}

/// Brings up to 32 rows of `x` (m, k) into the order of [`TileInputs`].
#[target_feature(enable = "avx512f")]
fn pack<T: TileNumber>(x: &[T], k: usize, out: &mut [T]) {
    let mut tiles = out.chunks_exact_mut(TILE_ROWS * T::PER_ROW);
    for start in (0..k).step_by(T::PER_ROW) {
        let columns = start..k.min(start + T::PER_ROW);
        for (rows, out) in x.chunks(TILE_ROWS * k).zip(&mut tiles) {
            let mut tile = [[0; TILE_ROWS]; TILE_ROWS];
            for (row, to) in rows.chunks_exact(k).zip(&mut tile) {
                let row = &row[columns.clone()];
                // SAFETY: a row of a tile has room for `PER_ROW` numbers, and takes any bits.
                unsafe { row.as_ptr().copy_to_nonoverlapping(to.as_mut_ptr().cast(), row.len()) };
            }
            transpose(&mut tile);
            // SAFETY: a tile is as many numbers as a chunk of `out`, and any bits are a number.
            unsafe { tile.as_ptr().cast::<T>().copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        }
    }
}

/// Transposes 16 x 16 numbers of 4 bytes: exchanges each bit of a number's row with the same bit of its column.
#[target_feature(enable = "avx512f")]
pub fn transpose(tile: &mut [[u32; TILE_ROWS]; TILE_ROWS]) {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn exchange<const BIT: usize>(rows: &mut [__m512i; TILE_ROWS]) {
        let (low, high) = const { (from_two(BIT, 0), from_two(BIT, BIT)) };
        let (low, high) = (load(&low), load(&high));
        for row in 0..TILE_ROWS {
            if row & BIT == 0 {
                let (a, b) = (rows[row], rows[row + BIT]);
                rows[row] = _mm512_permutex2var_epi32(a, low, b);
                rows[row + BIT] = _mm512_permutex2var_epi32(a, high, b);
            }
        }
    }
    let mut rows = [_mm512_setzero_si512(); TILE_ROWS];
    for (row, from) in rows.iter_mut().zip(&*tile) {
        *row = load(from);
    }
    exchange::<8>(&mut rows);
    exchange::<4>(&mut rows);
    exchange::<2>(&mut rows);
    exchange::<1>(&mut rows);
    for (to, row) in tile.iter_mut().zip(rows) {
        // SAFETY: a row is 16 numbers of 4 bytes.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), row) };
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load(row: &[u32; TILE_ROWS]) -> __m512i {
    // SAFETY: a row is 16 numbers of 4 bytes.
    unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
}

/// Selects columns of two rows whose numbers differ in `bit`: from the first row, the columns in whose number this bit
/// is 0; from the second, whose columns count from 16 on, those in which it is 1. `kept` is this bit of the number of
/// the resulting row.
const fn from_two(bit: usize, kept: usize) -> [u32; TILE_ROWS] {
    let mut columns = [0; TILE_ROWS];
    let mut column = 0;
    while column < TILE_ROWS {
        let row = if column & bit == 0 { 0 } else { TILE_ROWS };
        columns[column] = (row + (column & !bit | kept)) as u32;
        column += 1;
    }
    columns
}
