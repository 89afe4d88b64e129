//! Integers in groups, in panels as kernels read them: W4A8, and the blocks of GGUF files.

use half::f16;
use quantlab_kernels::{
    CodeBits, GroupedInt, PANEL, Product, Scales, Weights as KernelWeights, pack_codes, thread_scope,
};

use super::{Operands, QuantizedWeight, StateBytes, no_checkpoint};
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

/// A number for each of `of_row` parts of each row, by row and part, in panels.
fn in_panels<T: Plain + Send>(n: usize, of_row: usize, number: impl Fn(usize, usize) -> T + Sync) -> Result<Pooled<T>> {
    let of_panel = of_row * PANEL;
    let mut numbers = Pooled::zeroed(n.div_ceil(PANEL) * of_panel)?;
    thread_scope().split_mut(&mut numbers, of_panel.max(1), 16 * of_panel, &|first, panels| {
        for (panel, out) in (first..).zip(panels.chunks_exact_mut(of_panel)) {
            for row in panel * PANEL..n.min((panel + 1) * PANEL) {
                (0..of_row).for_each(|part| out[part * PANEL + row % PANEL] = number(row, part));
            }
        }
    });
    Ok(numbers)
}

/// Codes in panels: `write` writes those of a row, one a byte.
fn codes_in_panels(bits: CodeBits, [n, k]: [usize; 2], write: impl Fn(usize, &mut [u8]) + Sync) -> Result<Pooled<u8>> {
    let of_panel = bits.panel_bytes(k);
    let mut codes = Pooled::zeroed(n.div_ceil(PANEL) * of_panel)?;
    thread_scope().split_mut(&mut codes, of_panel.max(1), 16 * of_panel, &|first, panels| {
        let mut of_row = vec![0; k];
        for (panel, out) in (first..).zip(panels.chunks_exact_mut(of_panel)) {
            for row in panel * PANEL..n.min((panel + 1) * PANEL) {
                write(row, &mut of_row);
                pack_codes(bits, &of_row, row % PANEL, out);
            }
        }
    });
    Ok(codes)
}

impl GroupedMatrix {
    /// Affine int4, to be multiplied with inputs of 8 bits.
    ///
    /// # Errors
    /// No memory for it.
    pub fn of_int4(quantized: &AffineInt4) -> Result<Self> {
        let (k, group) = (quantized.columns(), quantized.group_size());
        let groups = k / group;
        let n = quantized.scales().len() / groups;
        let codes = codes_in_panels(CodeBits::Four, [n, k], |row, codes| {
            let packed = &quantized.packed()[row * k / 2..][..k / 2];
            for (pair, byte) in codes.chunks_exact_mut(2).zip(packed) {
                pair.copy_from_slice(&[byte >> 4, byte & 15]);
            }
        })?;
        let kept =
            |numbers: &[f32]| in_panels(n, groups, |row, group| numbers[row * groups + group]).map(Kept::Float32);
        let (scales, minima) = (kept(quantized.scales())?, kept(quantized.minima())?);
        let (bits, minima) = (CodeBits::Four, Some(minima));
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
        let block = |row: usize, block: usize| &rows.row(row)[block * size..(block + 1) * size];
        let codes = codes_in_panels(bits, [n, k], |row, codes| {
            for (bytes, codes) in rows.row(row).chunks_exact(size).zip(codes.chunks_exact_mut(len)) {
                ggml_codes(kind, bytes, codes);
            }
        })?;
        let factors = |pick: fn((f16, f16)) -> f16| {
            let factors = in_panels(n, k / len, |row, part| pick(ggml_factors(kind, block(row, part))))?;
            if check_finite && factors.iter().any(|factor| !factor.is_finite()) {
                return Err(Error::format("a scale of its blocks is NaN or infinite"));
            }
            Ok(factors)
        };
        let kept = |factor: fn((f16, f16)) -> f16, step: fn((i8, i8)) -> i8| -> Result<Kept> {
            let factors = factors(factor)?;
            if !nested {
                return Ok(Kept::Float16(factors));
            }
            let of_block = len / group;
            let steps = in_panels(n, k / group, |row, part| {
                step(ggml_steps(kind, block(row, part / of_block), part % of_block))
            })?;
            Ok(Kept::Nested(steps, factors))
        };
        let scales = kept(|both| both.0, |both| both.0)?;
        let minima = if has_minima { Some(kept(|both| both.1, |both| both.1)?) } else { None };
        let unsaved = || {
            Error::input("a checkpoint of transformers has no blocks of GGUF")
                .hint("load the model with `dequantize: true` to save what its weights stand for")
        };
        Ok(Self { shape: [n, k], codes, bits, offset, group, scales, minima, unsaved })
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
    use quantlab_kernels::{Epilogue, Matrix, matmul};

    use super::*;
    use crate::buffer::Buffer;
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

    #[test]
    fn a_scale_that_is_no_number_is_refused_where_that_is_asked_for() {
        let mut bytes = blocks(GgmlType::Q8_0, 4);
        bytes[34..36].copy_from_slice(&f16::NAN.to_le_bytes());
        let rows = BlockRows::new(Buffer::Owned(bytes), (GgmlType::Q8_0, None), [2, 64]);
        let error = GroupedMatrix::of_blocks(&rows, true).unwrap_err().to_string();
        assert!(error.contains("NaN"), "{error}");
        assert!(GroupedMatrix::of_blocks(&rows, false).is_ok());
    }
}
