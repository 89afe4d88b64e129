//! The tensors of a GGUF file, by the names that transformers has for them.
//!
//! Source: `convert_hf_to_gguf.py` of llama.cpp.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use quantlab_kernels::thread_scope;

use super::convert::Wanted;
use super::entry::{Entry, Numbers};
use super::gguf_names::{Difference, difference, name_in_transformers};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::quant::{ggml_factors, restore_ggml};
use crate::source::{DIVISORS, GgmlType, Gguf};

/// Reads the list of tensors.
///
/// # Errors
/// Those of [`Gguf::read`]; a tensor that the model has no use for, or whose rows are not those of its heads.
pub(super) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Entry>> {
    let header = Gguf::read(bytes)?;
    let family = header.family()?;
    let blocks = header.size(&format!("{family}.block_count"))?;
    let heads = || header.size(&format!("{family}.attention.head_count"));
    let heads_of_keys =
        || header.optional(&format!("{family}.attention.head_count_kv"), Gguf::size)?.map_or_else(heads, Ok);
    let mut entries = BTreeMap::new();
    // The config has what the divisors of rotary frequencies say.
    for (name, tensor) in header.tensors().iter().filter(|(name, _)| !DIVISORS.contains(&name.as_str())) {
        let difference = difference(family, name.rsplit('.').nth(1).unwrap_or(""));
        let heads = match difference {
            Some(Difference::HalvesInTurns { of_keys: false }) => Some(heads()?),
            Some(Difference::HalvesInTurns { of_keys: true }) => Some(heads_of_keys()?),
            _ => None,
        };
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let paired = match heads {
            None => None,
            Some(heads) if heads > 0 && rows > 0 && rows.is_multiple_of(heads) && (rows / heads).is_multiple_of(2) => {
                Some(rows / heads)
            }
            Some(heads) => return Err(Error::format(format!("tensor `{name}` has {rows} rows for {heads} heads"))),
        };
        if paired.is_some() && tensor.shape.len() == 1 && tensor.kind.block_len() > 1 {
            return Err(Error::format(format!("tensor `{name}` is a bias in {}", tensor.kind.name())));
        }
        let numbers = match (tensor.kind, paired) {
            (kind, _) if difference == Some(Difference::PlusOne) => Numbers::PlusOne(kind),
            (GgmlType::F32, None) => Numbers::Plain(safetensors::Dtype::F32),
            (GgmlType::F16, None) => Numbers::Plain(safetensors::Dtype::F16),
            (GgmlType::Bf16, None) => Numbers::Plain(safetensors::Dtype::BF16),
            (kind, paired) => Numbers::Blocks { kind, paired },
        };
        let entry = Entry { numbers, shape: tensor.shape.clone(), range: tensor.range.clone() };
        // One that nobody would ask for may be a damaged name of one that then seems not to be there, or a part of a
        // larger model.
        let known = name_in_transformers(name, family, blocks).ok_or_else(|| {
            Error::format(format!("its tensor `{name}` does not belong to a {family} model of {blocks} blocks"))
        })?;
        entries.insert(known, entry);
    }
    Ok(entries)
}

/// A matrix in blocks, as the file has it.
#[derive(Debug)]
pub(in crate::model) struct BlockRows {
    bytes: Buffer<u8>,
    kind: GgmlType,
    /// As of [`Numbers::Blocks`].
    paired: Option<usize>,
    shape: [usize; 2],
}

impl BlockRows {
    /// # Panics
    /// Bytes that are not as many blocks, or rows that are not whole blocks.
    pub fn new(bytes: Buffer<u8>, (kind, paired): (GgmlType, Option<usize>), shape: [usize; 2]) -> Self {
        let this = Self { bytes, kind, paired, shape };
        assert!(shape[1].is_multiple_of(kind.block_len()) && this.bytes.len() == shape[0] * this.row_bytes());
        this
    }

    fn row_bytes(&self) -> usize {
        self.shape[1] / self.kind.block_len() * self.kind.block_bytes()
    }

    pub fn kind(&self) -> GgmlType {
        self.kind
    }

    /// (rows, columns)
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The blocks of a row, in the order that transformers has rows in.
    pub fn row(&self, row: usize) -> &[u8] {
        let (row, len) = (row_in_file(row, self.paired), self.row_bytes());
        &self.bytes[row * len..(row + 1) * len]
    }

    /// All of them, in the order of the file.
    pub fn in_file(&self) -> &[u8] {
        &self.bytes
    }

    /// Which row of the file is each row, if they have another order there.
    pub fn order(&self) -> Option<Vec<u32>> {
        self.paired.map(|_| (0..self.shape[0]).map(|row| row_in_file(row, self.paired) as u32).collect())
    }

    /// Gives the pages that hold these rows back to the system, where they are mapped and in the order of the file; to read
    /// them again fetches them from there. Paired rows, those of queries and keys, lie elsewhere and stay.
    pub fn forget(&self, rows: Range<usize>) {
        if let (Buffer::Mapped(bytes), None) = (&self.bytes, self.paired) {
            let len = self.row_bytes();
            bytes.forget(rows.start * len..rows.end * len);
        }
    }

    /// Reads all scales.
    ///
    /// # Errors
    /// One is NaN or infinite.
    pub fn check_finite(&self) -> Result<()> {
        // Rows whose pages are resident at once.
        const AT_ONCE: usize = 1024;
        let (finite, size) = (AtomicBool::new(true), self.kind.block_bytes());
        for first in (0..self.shape[0]).step_by(AT_ONCE) {
            let rows = first..self.shape[0].min(first + AT_ONCE);
            thread_scope().split(rows.len(), 1, self.row_bytes(), &|some| {
                let blocks = some.flat_map(|row| self.row(first + row).chunks_exact(size));
                let all = blocks.flat_map(|block| ggml_factors(self.kind, block)).all(|factor| factor.is_finite());
                finite.fetch_and(all, Ordering::Relaxed);
            });
            self.forget(rows);
        }
        if !finite.into_inner() {
            return Err(Error::format("a scale of its blocks is NaN or infinite"));
        }
        Ok(())
    }

    /// Bytes in all, and those of them that are read from a mapped file.
    pub fn bytes(&self) -> (usize, usize) {
        (self.bytes.len(), self.bytes.mapped_bytes())
    }
}

/// The row of the file that holds row `row` of a matrix whose heads have `paired` rows each: first halves of heads are
/// their even rows there.
fn row_in_file(row: usize, paired: Option<usize>) -> usize {
    let Some(of_head) = paired else { return row };
    let (head, within) = (row / of_head, row % of_head);
    head * of_head + within % (of_head / 2) * 2 + within / (of_head / 2)
}

/// The way back: the row of a matrix that row `row` of a file is.
pub(in crate::model) fn row_in_transformers(row: usize, paired: Option<usize>) -> usize {
    let Some(of_head) = paired else { return row };
    let (head, within) = (row / of_head, row % of_head);
    head * of_head + within / 2 + within % 2 * (of_head / 2)
}

/// Restores numbers from `start` on of a matrix with so many columns, less `shift`; says whether all of them are finite.
pub(super) fn restore<T: Wanted>(
    bytes: &[u8],
    (kind, paired, shift): (GgmlType, Option<usize>, f32),
    columns: usize,
    start: usize,
    to: &mut [T],
) -> bool {
    if to.is_empty() {
        return true;
    }
    let bytes_of_row = columns / kind.block_len() * kind.block_bytes();
    let finite = AtomicBool::new(true);
    // Whole rows, where a part begins and ends with one.
    let whole = start.is_multiple_of(columns) && to.len().is_multiple_of(columns);
    let together = if whole { columns } else { to.len().max(1) };
    thread_scope().split_mut(to, together, 16 * together, &|first, mut part| {
        let (mut at, mut row) = (start + first * together, vec![0.0; columns]);
        let mut all_finite = true;
        while !part.is_empty() {
            let from = row_in_file(at / columns, paired) * bytes_of_row;
            restore_ggml(kind, &bytes[from..from + bytes_of_row], &mut row);
            let wanted = &row[at % columns..];
            let (now, rest) = part.split_at_mut(wanted.len().min(part.len()));
            for (to, &number) in now.iter_mut().zip(wanted) {
                all_finite &= number.is_finite();
                *to = T::from_f32(number - shift);
            }
            at += now.len();
            part = rest;
        }
        finite.fetch_and(all_finite, Ordering::Relaxed);
    });
    finite.into_inner()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_part_is_that_part_of_the_whole(
            (heads, half) in (1..5_usize, 1..40_usize),
            blocks in 1..5_usize,
            (start, len) in (0.0..1.0_f64, 0.0..=1.0_f64),
            (in_pairs, whole_rows) in any::<(bool, bool)>(),
            seed in any::<u8>(),
        ) {
            let (rows, columns, kind) = (2 * heads * half, 32 * blocks, GgmlType::Q8_0);
            let scale = half::f16::from_f32(0.5).to_le_bytes();
            let byte = |i: usize| (i.wrapping_mul(97).wrapping_add(usize::from(seed)) >> 3) as u8;
            let block = |block: usize| scale.into_iter().chain((0..32).map(move |i| byte(32 * block + i)));
            let bytes: Vec<u8> = (0..rows * blocks).flat_map(block).collect();
            let mut in_file = vec![0.0; rows * columns];
            restore_ggml(kind, &bytes, &mut in_file);
            let paired = in_pairs.then_some(2 * half);
            let row = |row| &in_file[row_in_file(row, paired) * columns..][..columns];
            let expected: Vec<f32> = (0..rows).flat_map(row).copied().collect();
            let mut start = (start * expected.len() as f64) as usize;
            let mut end = start + (len * (expected.len() - start) as f64) as usize;
            if whole_rows {
                (start, end) = (start / columns * columns, end / columns * columns);
            }
            let mut part = vec![f32::NAN; end - start];
            prop_assert!(restore(&bytes, (kind, paired, 0.0), columns, start, &mut part));
            prop_assert_eq!(&part[..], &expected[start..end]);
        }
    }

    #[test]
    fn rows_of_a_head_come_back_in_halves() {
        // Two heads of 6 rows: the file has rows 0, 3, 1, 4, 2, 5 of each.
        let rows: Vec<usize> = (0..12).map(|row| row_in_file(row, Some(6))).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
        assert_eq!(row_in_file(7, None), 7);
        let again: Vec<usize> = rows.iter().map(|&row| row_in_transformers(row, Some(6))).collect();
        assert_eq!(again, (0..12).collect::<Vec<_>>());
        assert_eq!(row_in_transformers(7, None), 7);
    }
}
