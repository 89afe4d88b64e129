//! Integers in groups, in panels as kernels read them: W4A8, and the blocks of GGUF files.

use std::ops::Range;

use half::f16;
use quantlab_kernels::{
    CodeBits, GroupedInt, PANEL, Product, Scales, Weights as KernelWeights, pack_codes, thread_scope,
};

use super::{Operands, QuantizedWeight, StateBytes, no_checkpoint, not_of_blocks};
use crate::buffer::{Plain, Pooled};
use crate::error::{Error, Result};
use crate::model::weights::{BlockRows, StateTensor};
use crate::quant::{AffineInt4, GgmlLayout, ggml_codes, ggml_factors, ggml_steps};

/// A matrix of integers in groups, multiplied with inputs of 8 bits.
#[derive(Debug)]
pub(in crate::model) struct GroupedMatrix {
    shape: [usize; 2],
    codes: Pooled<u8>,
    bits: CodeBits,
    offset: u8,
    group: usize,
    scales: Kept,
    minima: Option<Kept>,
    /// What its format says to somebody who wants to save it.
    unsaved: fn() -> Error,
}

/// A number for each group of a row, as [`Scales`] has them.
#[derive(Debug)]
enum Kept {
    Float32(Pooled<f32>),
    Float16(Pooled<f16>),
    Nested(Pooled<i8>, Pooled<f16>),
}

impl Kept {
    fn view(&self) -> Scales<'_> {
        match self {
            Self::Float32(numbers) => Scales::Float32(numbers),
            Self::Float16(numbers) => Scales::Float16(numbers),
            Self::Nested(steps, of_256) => Scales::Nested(steps, of_256),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Float32(numbers) => size_of_val(&numbers[..]),
            Self::Float16(numbers) => size_of_val(&numbers[..]),
            Self::Nested(steps, of_256) => size_of_val(&steps[..]) + size_of_val(&of_256[..]),
        }
    }
}

/// The parts of a matrix that belong to each of so many panels; nothing, of an empty one.
fn by_panel<T>(mut matrix: &mut [T], panels: usize) -> impl Iterator<Item = &mut [T]> {
    let of_panel = matrix.len() / panels.max(1);
    (0..panels).map(move |_| matrix.split_off_mut(..of_panel).unwrap_or_default())
}

/// Calls `write` for each of `panels`, with the rows that it has and room for the codes of one. The first of them is panel
/// `first` of a matrix (n, k).
fn write_panels<P: Send>(
    panels: &mut [P],
    (first, [n, k]): (usize, [usize; 2]),
    write: impl Fn(Range<usize>, &mut P, &mut [u8]) + Sync,
) {
    thread_scope().split_mut(panels, 1, PANEL * k, &|at, some| {
        let mut of_row = vec![0; k];
        for (panel, out) in (first + at..).zip(some) {
            write(panel * PANEL..n.min((panel + 1) * PANEL), out, &mut of_row);
        }
    });
}

/// Zeros for `of_row` numbers of each of `n` rows in panels.
fn zeros<T: Plain>(n: usize, of_row: usize) -> Result<Pooled<T>> {
    Pooled::zeroed(n.div_ceil(PANEL) * PANEL * of_row)
}

/// What is made of the blocks of a panel: its codes, and first for scales and then for minima what is in float16, and the
/// integers.
struct OfBlocks<'a> {
    codes: &'a mut [u8],
    factors: [&'a mut [f16]; 2],
    steps: [&'a mut [i8]; 2],
}

/// Panels whose blocks are resident at once, where they are those of a mapped file.
const AT_ONCE: usize = 64;

impl GroupedMatrix {
    /// Affine int4, to be multiplied with inputs of 8 bits.
    ///
    /// # Errors
    /// No memory for it.
    pub fn of_int4(quantized: &AffineInt4) -> Result<Self> {
        let (k, group) = (quantized.columns(), quantized.group_size());
        let groups = k / group;
        let n = quantized.scales().len() / groups;
        let (bits, panels) = (CodeBits::Four, n.div_ceil(PANEL));
        let mut codes = Pooled::zeroed(panels * bits.panel_bytes(k))?;
        let (mut scales, mut minima) = (zeros(n, groups)?, zeros(n, groups)?);
        let parts = by_panel(&mut scales, panels).zip(by_panel(&mut minima, panels));
        let mut parts: Vec<_> = by_panel(&mut codes, panels).zip(parts).collect();
        write_panels(&mut parts, (0, [n, k]), |rows, (codes, (scales, minima)), of_row| {
            for (lane, row) in rows.enumerate() {
                let packed = &quantized.packed()[row * k / 2..][..k / 2];
                for (pair, byte) in of_row.chunks_exact_mut(2).zip(packed) {
                    pair.copy_from_slice(&[byte >> 4, byte & 15]);
                }
                pack_codes(bits, of_row, lane, codes);
                for group in 0..groups {
                    scales[group * PANEL + lane] = quantized.scales()[row * groups + group];
                    minima[group * PANEL + lane] = quantized.minima()[row * groups + group];
                }
            }
        });
        let (scales, minima) = (Kept::Float32(scales), Some(Kept::Float32(minima)));
        Ok(Self { shape: [n, k], codes, bits, offset: 0, group, scales, minima, unsaved: no_checkpoint })
    }

    /// The blocks of a GGUF file.
    ///
    /// # Errors
    /// No memory for them; a scale that is NaN or infinite, if that is not allowed; numbers that stand for themselves.
    pub fn of_blocks(rows: &BlockRows, check_finite: bool) -> Result<Self> {
        let (kind, [n, k]) = (rows.kind(), rows.shape());
        let layout = GgmlLayout::of(kind).ok_or_else(|| Error::format(format!("{} has no scales", kind.name())))?;
        let GgmlLayout { bits, offset, group, has_minima, nested } = layout;
        let (len, size) = (kind.block_len(), kind.block_bytes());
        let (panels, of_block, numbers) = (n.div_ceil(PANEL), len / group, if has_minima { 2 } else { 1 });
        let mut codes = Pooled::zeroed(panels * bits.panel_bytes(k))?;
        let of_minima = |of_row: usize| if has_minima { of_row } else { 0 };
        let [mut scales, mut minima] = [zeros(n, k / len)?, zeros(n, of_minima(k / len))?];
        let groups = if nested { k / group } else { 0 };
        let [mut scale_steps, mut minimum_steps] = [zeros(n, groups)?, zeros(n, of_minima(groups))?];
        let factors = by_panel(&mut scales, panels).zip(by_panel(&mut minima, panels));
        let steps = by_panel(&mut scale_steps, panels).zip(by_panel(&mut minimum_steps, panels));
        let parts = by_panel(&mut codes, panels).zip(factors.zip(steps));
        let mut parts: Vec<_> = parts
            .map(|(codes, (factors, steps))| OfBlocks { codes, factors: factors.into(), steps: steps.into() })
            .collect();
        for (chunk, parts) in parts.chunks_mut(AT_ONCE).enumerate() {
            let first = chunk * AT_ONCE;
            write_panels(parts, (first, [n, k]), |of_panel, out, of_row| {
                for (lane, row) in of_panel.enumerate() {
                    for (at, block) in rows.row(row).chunks_exact(size).enumerate() {
                        ggml_codes(kind, block, &mut of_row[at * len..][..len]);
                        let factors = ggml_factors(kind, block);
                        (0..numbers).for_each(|which| out.factors[which][at * PANEL + lane] = factors[which]);
                        for part in 0..if nested { of_block } else { 0 } {
                            let (steps, to) = (ggml_steps(kind, block, part), (at * of_block + part) * PANEL + lane);
                            (0..numbers).for_each(|which| out.steps[which][to] = steps[which]);
                        }
                    }
                    pack_codes(bits, of_row, lane, out.codes);
                }
            });
            rows.forget(first * PANEL..n.min((first + AT_ONCE) * PANEL));
        }
        if check_finite && scales.iter().chain(&minima[..]).any(|factor| !factor.is_finite()) {
            return Err(Error::format("a scale of its blocks is NaN or infinite"));
        }
        let kept = |factors, steps| if nested { Kept::Nested(steps, factors) } else { Kept::Float16(factors) };
        let scales = kept(scales, scale_steps);
        let minima = has_minima.then(|| kept(minima, minimum_steps));
        Ok(Self { shape: [n, k], codes, bits, offset, group, scales, minima, unsaved: not_of_blocks })
    }
}

impl KernelWeights for GroupedMatrix {
    fn multiply(&self, product: Product<'_>) {
        let Self { codes, bits, offset, group, scales, minima, .. } = self;
        let (scales, minima) = (scales.view(), minima.as_ref().map(Kept::view));
        GroupedInt { codes, bits: *bits, offset: *offset, scales, minima, group: *group }.multiply(product);
    }
}

impl QuantizedWeight for GroupedMatrix {
    fn shape(&self) -> [usize; 2] {
        self.shape
    }

    fn code_bytes(&self) -> usize {
        self.codes.len()
    }

    fn state_bytes(&self) -> StateBytes {
        let all = self.scales.bytes() + self.minima.as_ref().map_or(0, Kept::bytes);
        StateBytes { all, unread: 0 }
    }

    fn operands(&self) -> Option<Operands<'_>> {
        None
    }

    fn forget_codes(&mut self) {}

    fn state_dict<'a>(&'a self, _: &str) -> Result<Vec<StateTensor<'a>>> {
        Err((self.unsaved)())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quantlab_kernels::{Epilogue, Matrix, matmul};

    use super::super::of_blocks;
    use super::*;
    use crate::buffer::{Buffer, Mapped};
    use crate::quant::restore_ggml;
    use crate::source::GgmlType;

    /// Bytes that are pseudo-random but for the scales, which are numbers.
    fn blocks(kind: GgmlType, count: usize) -> Vec<u8> {
        let mut seed = 1_u32;
        let mut bytes: Vec<u8> = (0..count * kind.block_bytes())
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        let places: &[usize] = match kind {
            GgmlType::Q2K => &[80, 82],
            GgmlType::Q3K => &[108],
            GgmlType::Q6K => &[208],
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4K | GgmlType::Q5K => &[0, 2],
            _ => &[0],
        };
        for (i, block) in bytes.chunks_exact_mut(kind.block_bytes()).enumerate() {
            for &at in places {
                let number = f16::from_f32(0.01 + (i % 7) as f32 / 64.0 - if at % 4 == 2 { 0.05 } else { 0.0 });
                block[at..at + 2].copy_from_slice(&number.to_le_bytes());
            }
        }
        bytes
    }

    /// An input that is 127 in one place and 0 elsewhere, which 8 bits have exactly, shows a column of weights.
    #[test]
    fn every_format_is_multiplied_as_what_it_is_restored_to() {
        for &kind in GgmlType::ALL.iter().filter(|kind| kind.block_len() > 1) {
            for paired in [None, Some(6)] {
                let (n, k) = (18, 512);
                let bytes = blocks(kind, n * k / kind.block_len());
                let rows = BlockRows::new(Buffer::Owned(bytes), (kind, paired), [n, k]);
                let matrix = GroupedMatrix::of_blocks(&rows, true).unwrap();
                let mut restored = vec![0.0; n * k];
                for (row, out) in restored.chunks_exact_mut(k).enumerate() {
                    restore_ggml(kind, rows.row(row), out);
                }
                for column in [0, 15, 16, 31, 32, 100, 255, 256, 300, 511] {
                    let mut x = vec![0.0; k];
                    x[column] = 127.0;
                    let mut out = vec![0.0; n];
                    let matrix = Matrix { weights: &matrix, n, k };
                    matmul(&thread_scope(), &x, matrix, Epilogue::default(), &mut out);
                    for (row, found) in out.into_iter().enumerate() {
                        let expected = 127.0 * restored[row * k + column];
                        let near = (found - expected).abs() <= 1e-5 * (1.0 + expected.abs());
                        assert!(near, "{} {paired:?} ({row}, {column}): {found}, not {expected}", kind.name());
                    }
                }
            }
        }
    }

    /// More panels than are resident at once, in a file in which they begin anywhere.
    #[test]
    fn rows_of_a_mapped_file_are_multiplied_as_what_they_are_restored_to() {
        let (kind, n, k) = (GgmlType::Q6K, 2 * AT_ONCE * PANEL + 37, 256);
        let bytes = blocks(kind, n);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [&[0; 4099][..], &bytes].concat()).unwrap();
        // SAFETY: nothing else knows of the file.
        let map = Arc::new(unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap());
        let mapped = Mapped::new(&map, 4099..map.len()).unwrap();
        let matrix =
            GroupedMatrix::of_blocks(&BlockRows::new(Buffer::Mapped(mapped), (kind, None), [n, k]), true).unwrap();
        let (mut x, mut out, mut restored) = (vec![0.0; k], vec![0.0; n], vec![0.0; n * k]);
        x[200] = 127.0;
        restore_ggml(kind, &bytes, &mut restored);
        matmul(&thread_scope(), &x, Matrix { weights: &matrix, n, k }, Epilogue::default(), &mut out);
        for (row, (found, numbers)) in out.into_iter().zip(restored.chunks_exact(k)).enumerate() {
            let expected = 127.0 * numbers[200];
            assert!((found - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "row {row}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_scale_that_is_no_number_is_refused_where_that_is_asked_for() {
        for kind in [GgmlType::Q4_0, GgmlType::Q8_0] {
            // More rows than are looked at together.
            for (row, check_finite) in [(0, true), (1500, true), (1500, false)] {
                let mut bytes = blocks(kind, 2000);
                let at = row * kind.block_bytes();
                bytes[at..at + 2].copy_from_slice(&f16::NAN.to_le_bytes());
                let rows = BlockRows::new(Buffer::Owned(bytes), (kind, None), [2000, 32]);
                let made = of_blocks(rows, check_finite);
                assert_eq!(made.is_ok(), !check_finite);
                made.err().into_iter().for_each(|error| assert!(error.to_string().contains("NaN"), "{error}"));
            }
        }
    }
}
