//! A quantized layer of a checkpoint, in the one form that all layouts are unpacked to.

use crate::buffer::Buffer;
use crate::error::{Error, Result};

/// A matrix (n, k) as codes in blocks: `weight = (values[code] - zero) * scale`.
#[derive(Debug, Clone)]
pub(crate) struct PackedLayer {
    shape: [usize; 2],
    codes: Codes,
    values: Values,
    /// Of each block, row after row of blocks.
    scales: Vec<f32>,
    /// As many, or none where all are 0.
    zeros: Vec<f32>,
    /// Rows and columns of a block.
    block: [usize; 2],
    belongs: Belongs,
}

/// Which block a weight belongs to.
#[derive(Debug, Clone, PartialEq)]
enum Belongs {
    /// The one that it lies in.
    ByPlace,
    /// One of its row, the same for a whole column (`g_idx`): (k).
    ByColumn(Vec<u32>),
    /// The next one, weight by weight and row after row, and then the first again.
    InTurn,
}

/// What codes stand for.
#[derive(Debug, Clone)]
pub(super) enum Values {
    /// Themselves, in so many bits.
    Whole(u32),
    Table(Vec<f32>),
}

/// Where a layer's codes lie.
#[derive(Debug, Clone)]
pub(super) enum Codes {
    /// A row is a stream of bits, the lowest first, in so many bytes.
    Rows { bytes: Buffer<u8>, bits: u32, row_bytes: usize },
    /// A column of words of 32 bits, of `n` columns, is such a stream (GPTQ).
    Columns { bytes: Buffer<u8>, bits: u32, n: usize },
    /// Eight rows in each word of 32 bits, in AWQ's order; a line of words for each input.
    Interleaved { bytes: Buffer<u8>, n: usize },
    /// The matrix in two halves, which share bytes: the upper four bits have the first (HQQ).
    Halves { bytes: Buffer<u8>, k: usize },
}

/// Which bits of a word have the code of each of eight rows.
///
/// Source: `order_map` in AutoAWQ `modules/linear/gemm.py`, the other way round.
const AWQ_SHIFTS: [u32; 8] = [0, 16, 4, 20, 8, 24, 12, 28];

fn word(bytes: &[u8], index: usize) -> u32 {
    let four = bytes.get(4 * index..4 * index + 4);
    four.and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The code in the word `index` of interleaved ones.
pub(super) fn awq_code(bytes: &[u8], line: usize, n: usize, row: usize) -> u8 {
    (word(bytes, line * (n / 8) + row / 8) >> AWQ_SHIFTS[row % 8] & 15) as u8
}

/// Reads codes of a stream of bits that lies in words.
pub(super) fn from_stream(word: impl Fn(usize) -> u32, bits: u32, codes: &mut [u8]) {
    let mask = (1_u32 << bits) - 1;
    if 32 % bits == 0 {
        for (index, codes) in codes.chunks_mut(32 / bits as usize).enumerate() {
            let word = word(index);
            (0..).zip(codes).for_each(|(place, code)| *code = (word >> (place * bits) & mask) as u8);
        }
        return;
    }
    for (index, code) in codes.iter_mut().enumerate() {
        let (at, from) = (index * bits as usize / 32, (index * bits as usize % 32) as u32);
        let beyond = if from + bits > 32 { word(at + 1) << (32 - from) } else { 0 };
        *code = ((word(at) >> from | beyond) & mask) as u8;
    }
}

impl Codes {
    /// How many rows, from a multiple of it on, have their codes in the same words.
    fn together(&self) -> usize {
        if matches!(self, Self::Interleaved { .. }) { 8 } else { 1 }
    }

    /// The codes of as many rows as lie together, one row after the other.
    fn read(&self, row: usize, codes: &mut [u8]) {
        match self {
            Self::Rows { bytes, bits: 8, row_bytes } => codes.copy_from_slice(&bytes[row * row_bytes..][..codes.len()]),
            Self::Rows { bytes, bits: 4, row_bytes } => {
                for (codes, byte) in codes.chunks_mut(2).zip(&bytes[row * row_bytes..][..*row_bytes]) {
                    codes.iter_mut().zip([byte & 15, byte >> 4]).for_each(|(code, half)| *code = half);
                }
            }
            Self::Rows { bytes, bits, row_bytes } => {
                let bytes = &bytes[row * row_bytes..][..*row_bytes];
                from_stream(|index| word(bytes, index), *bits, codes);
            }
            Self::Columns { bytes, bits, n } => from_stream(|index| word(bytes, index * n + row), *bits, codes),
            Self::Interleaved { bytes, n } => {
                let k = codes.len() / AWQ_SHIFTS.len();
                for line in 0..k {
                    let word = word(bytes, line * (n / 8) + row / 8);
                    (0..).zip(AWQ_SHIFTS).for_each(|(row, shift)| codes[row * k + line] = (word >> shift & 15) as u8);
                }
            }
            Self::Halves { bytes, k } => {
                let start = row * k;
                let (in_upper, start) = if start < bytes.len() { (true, start) } else { (false, start - bytes.len()) };
                for (code, byte) in codes.iter_mut().zip(&bytes[start..][..*k]) {
                    *code = if in_upper { byte >> 4 } else { byte & 15 };
                }
            }
        }
    }
}

impl PackedLayer {
    /// # Errors
    /// Scales or zero points that are not one for each block.
    pub(super) fn new(
        shape: [usize; 2],
        (codes, values): (Codes, Values),
        block: [usize; 2],
        scales: Vec<f32>,
        zeros: Vec<f32>,
    ) -> Result<Self> {
        let blocks = shape[0].div_ceil(block[0].max(1)) * shape[1].div_ceil(block[1].max(1));
        let fits = scales.len() == blocks && (zeros.is_empty() || zeros.len() == blocks);
        if block.contains(&0) || !fits {
            return Err(Error::format(format!(
                "{} scales and {} zero points, for {blocks} blocks of {block:?} in {shape:?}",
                scales.len(),
                zeros.len()
            )));
        }
        Ok(Self { shape, codes, values, scales, zeros, block, belongs: Belongs::ByPlace })
    }

    /// A matrix whose weights belong to the blocks in turn: the first to the first one, and so on, then from there again.
    ///
    /// # Errors
    /// There is no block, or not a zero point for each.
    pub(super) fn in_turn(
        shape: [usize; 2],
        (codes, values): (Codes, Values),
        scales: Vec<f32>,
        zeros: Vec<f32>,
    ) -> Result<Self> {
        if scales.is_empty() || scales.len() != zeros.len() {
            return Err(Error::format(format!("{} scales and {} zero points", scales.len(), zeros.len())));
        }
        Ok(Self { shape, codes, values, scales, zeros, block: [1, shape[1]], belongs: Belongs::InTurn })
    }

    /// Columns in another order than their groups.
    ///
    /// # Errors
    /// A column of a group that there is not.
    pub(super) fn with_groups(mut self, groups: Vec<u32>) -> Result<Self> {
        let [_, k] = self.shape;
        let count = k.div_ceil(self.block[1]);
        if let Some((column, group)) = (0..).zip(&groups).find(|(_, group)| **group as usize >= count) {
            let group = group.cast_signed();
            return Err(Error::format(format!("`g_idx` puts input {column} into group {group}, of {count}"))
                .hint("the checkpoint is damaged, or its group size is another one"));
        }
        let in_order = (0..k).zip(&groups).all(|(column, group)| column / self.block[1] == *group as usize);
        self.belongs = if in_order { Belongs::ByPlace } else { Belongs::ByColumn(groups) };
        Ok(self)
    }

    /// (n, k)
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// What reads its rows.
    pub fn rows(&self) -> Rows<'_> {
        let codes = vec![0; self.codes.together() * self.shape[1]];
        Rows { layer: self, codes, first: None }
    }

    fn value(&self, code: u8) -> f32 {
        match &self.values {
            Values::Whole(_) => f32::from(code),
            Values::Table(numbers) => numbers[usize::from(code) % numbers.len()],
        }
    }

    fn restore(&self, row: usize, codes: &[u8], weights: &mut [f32]) {
        let k = self.shape[1];
        let first = row / self.block[0] * k.div_ceil(self.block[1]);
        let mut restore = |column: usize, block: usize| {
            let zero = self.zeros.get(block).copied().unwrap_or(0.0);
            weights[column] = (self.value(codes[column]) - zero) * self.scales[block];
        };
        let columns = 0..codes.len();
        match &self.belongs {
            Belongs::ByPlace => columns.for_each(|column| restore(column, first + column / self.block[1])),
            Belongs::ByColumn(groups) => columns.for_each(|column| restore(column, first + groups[column] as usize)),
            Belongs::InTurn => columns.for_each(|column| restore(column, (row * k + column) % self.scales.len())),
        }
    }

    /// The order that puts columns of a group next to each other.
    pub fn order(&self) -> Option<Vec<u32>> {
        let Belongs::ByColumn(groups) = &self.belongs else { return None };
        let mut order: Vec<u32> = (0..groups.len() as u32).collect();
        order.sort_by_key(|&column| groups[column as usize]);
        Some(order)
    }

    /// Whether it can be multiplied as affine int4 in groups of `group` weights.
    pub fn is_int4(&self, group: usize) -> bool {
        let ([_, k], [rows, width]) = (self.shape, self.block);
        let is_even = match &self.belongs {
            Belongs::ByPlace => true,
            Belongs::ByColumn(groups) => {
                let mut counts = vec![0; k.div_ceil(width)];
                groups.iter().for_each(|&group| counts[group as usize] += 1);
                counts.iter().all(|&count| count == width)
            }
            Belongs::InTurn => false,
        };
        matches!(self.values, Values::Whole(4))
            && is_even
            && rows == 1
            && group > 0
            && group.is_multiple_of(32)
            && k.is_multiple_of(group)
            && (width.min(k)).is_multiple_of(group)
    }

    /// A scale and what a code of 0 stands for, for each group of `group` weights.
    pub fn scales(&self, group: usize) -> Vec<[f32; 2]> {
        let [n, k] = self.shape;
        let (groups, blocks) = (k / group, k.div_ceil(self.block[1]));
        let of = |index: usize| {
            let block = index / groups * blocks + index % groups * group / self.block[1];
            [self.scales[block], -self.zeros.get(block).copied().unwrap_or(0.0) * self.scales[block]]
        };
        (0..n * groups).map(of).collect()
    }
}

/// Reads the rows of a layer, best one after the other: what lies together is read once.
pub(crate) struct Rows<'a> {
    layer: &'a PackedLayer,
    codes: Vec<u8>,
    /// The first row of those that `codes` has.
    first: Option<usize>,
}

impl Rows<'_> {
    fn codes(&mut self, row: usize) -> &[u8] {
        let (codes, k) = (&self.layer.codes, self.layer.shape[1]);
        let place = row % codes.together();
        if self.first.replace(row - place) != Some(row - place) {
            codes.read(row - place, &mut self.codes);
        }
        &self.codes[place * k..][..k]
    }

    /// Restores a row.
    pub fn restore(&mut self, row: usize, weights: &mut [f32]) {
        let layer = self.layer;
        layer.restore(row, self.codes(row), weights);
    }

    /// The codes of a row in an `order` of columns, two a byte, the first in the high half.
    pub fn pack(&mut self, row: usize, order: Option<&[u32]>, packed: &mut [u8]) {
        let codes = self.codes(row);
        match order {
            None => {
                packed.iter_mut().zip(codes.chunks_exact(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1])
            }
            Some(order) => {
                let code = |column: u32| codes[column as usize];
                let pairs = packed.iter_mut().zip(order.chunks_exact(2));
                pairs.for_each(|(byte, pair)| *byte = code(pair[0]) << 4 | code(pair[1]));
            }
        }
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
