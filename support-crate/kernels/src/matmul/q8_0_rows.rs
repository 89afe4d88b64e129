//! Weights of 8 bits as GGUF files have them, row by row: they are brought into panels while they are multiplied, so
//! that a file can be multiplied where it is mapped.
//!
//! Source: `block_q8_0` in `ggml-common.h` of ggml.

use std::marker::PhantomData;

use super::code_bits::PANEL;
use super::grouped_int::{Panel, Panels, multiply};
use super::input_blocks::BLOCK;
use super::{Product, Weights};
use crate::simd::PanelDots;
use crate::sizes;

/// Bytes of 32 weights: a scale in float16, then a code of 8 bits, with its sign, for each.
const BLOCK_BYTES: usize = 2 + BLOCK;

/// A matrix (n, k) of [`Q8_0`](https://github.com/ggml-org/ggml): a weight is `scale * code`. Products are those of
/// [`GroupedInt`](super::GroupedInt) with the same codes, to the bit.
#[derive(Debug, Clone, Copy)]
pub struct Q8_0Rows<'a> {
    /// The blocks, row by row: (n, k / 32, 34).
    pub bytes: &'a [u8],
    /// Which row of the blocks is each row of the matrix, if they have another order: (n).
    pub order: Option<&'a [u32]>,
}

impl Weights for Q8_0Rows<'_> {
    fn multiply(&self, product: Product<'_>) {
        let (n, k) = (product.n, product.k);
        assert!(k.is_multiple_of(BLOCK), "rows of {k} numbers are not whole blocks of {BLOCK}");
        sizes::check("weights", self.bytes.len(), &[n, k / BLOCK, BLOCK_BYTES]);
        if let Some(order) = self.order {
            sizes::check("order", order.len(), &[n]);
            assert!(order.iter().all(|&row| (row as usize) < n), "order: it names a row beyond the {n} of the matrix");
        }
        multiply(Panels::Q8_0(*self), product);
    }
}

/// The rows of a panel, to be brought into it.
pub(super) struct Rows<'a> {
    /// A panel that has fewer rows repeats the last one, whose sums nobody takes.
    rows: [*const u8; PANEL],
    /// Blocks of each.
    blocks: usize,
    /// The panel that follows in memory, if one does.
    next: Option<*const u8>,
    of: PhantomData<&'a [u8]>,
}

impl<'a> Q8_0Rows<'a> {
    /// Those from row `first` on, of a matrix (n, k).
    #[inline(always)]
    pub(super) fn rows(&self, first: usize, n: usize, k: usize) -> Rows<'a> {
        let len = k / BLOCK * BLOCK_BYTES;
        let rows = std::array::from_fn(|lane| {
            let row = (first + lane).min(n - 1);
            let row = self.order.map_or(row, |order| order[row] as usize);
            self.bytes[row * len..][..len].as_ptr()
        });
        let next = self.order.is_none().then(|| self.bytes.as_ptr().wrapping_add((first + PANEL) * len));
        Rows { rows, blocks: k / BLOCK, next, of: PhantomData }
    }
}

impl Rows<'_> {
    /// Blocks of a row.
    #[inline(always)]
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Writes a block of the panel: codes (8, 16, 4) and scales; as much of the next panel is prefetched.
    #[inline(always)]
    pub(super) fn gather<S: PanelDots>(
        &self,
        simd: S,
        block: usize,
        codes: &mut [u8; PANEL * BLOCK],
        scales: &mut [f32; PANEL],
    ) {
        assert!(block < self.blocks);
        if let Some(next) = self.next {
            let from = next.wrapping_add(block * PANEL * BLOCK_BYTES);
            (0..PANEL * BLOCK_BYTES).step_by(64).for_each(|line| simd.prefetch(from.wrapping_add(line)));
        }
        // SAFETY: each row has this block.
        unsafe {
            let at = self.rows.map(|row| row.add(block * BLOCK_BYTES));
            simd.gather_f16(&at, scales.as_mut_ptr());
            simd.gather_block(&at.map(|at| at.add(2)), codes.as_mut_ptr());
        }
    }

    /// Writes the panel: codes (k / 32, 8, 16, 4) and scales (k / 32, 16).
    #[inline(always)]
    pub(super) fn panel<'p, S: PanelDots>(&self, simd: S, codes: &'p mut [u8], scales: &'p mut [f32]) -> Panel<'p> {
        let each = codes.as_chunks_mut().0.iter_mut().zip(scales.as_chunks_mut().0).enumerate();
        each.for_each(|(block, (codes, scales))| self.gather(simd, block, codes, scales));
        Panel { codes, scales, minima: &[], group: BLOCK }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;
    use proptest::prelude::*;

    use super::super::tests::product;
    use super::super::{CodeBits, GroupedInt, Scales, pack_codes};
    use super::*;
    use crate::isa::Isa;
    use crate::test_numbers::{cases, numbers};

    /// What the blocks are in panels: codes and scales.
    fn packed(bytes: &[u8], order: &[u32], k: usize) -> (Vec<u8>, Vec<f16>) {
        let (n, groups) = (order.len(), k / BLOCK);
        let of_panel = CodeBits::Eight.panel_bytes(k);
        let mut codes = vec![0; n.div_ceil(PANEL) * of_panel];
        let mut scales = vec![f16::ZERO; n.div_ceil(PANEL) * groups * PANEL];
        for (row, &in_file) in order.iter().enumerate() {
            let blocks = bytes[in_file as usize * groups * BLOCK_BYTES..][..groups * BLOCK_BYTES].chunks(BLOCK_BYTES);
            let of_row: Vec<u8> = blocks.clone().flat_map(|block| block[2..].to_vec()).collect();
            pack_codes(CodeBits::Eight, &of_row, row % PANEL, &mut codes[row / PANEL * of_panel..][..of_panel]);
            for (group, block) in blocks.enumerate() {
                let scale = f16::from_le_bytes([block[0], block[1]]);
                scales[(row / PANEL * groups + group) * PANEL + row % PANEL] = scale;
            }
        }
        (codes, scales)
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn products_are_those_of_panels_to_the_bit(
            m in prop_oneof![1..18_usize, Just(23), Just(129)],
            n in prop_oneof![1..50_usize, Just(160), Just(161)],
            groups in 1..20_usize,
            is_ordered: bool,
            seed: u32,
        ) {
            let k = groups * BLOCK;
            let random = numbers(n * groups * BLOCK_BYTES, seed);
            let mut bytes: Vec<u8> = random.iter().map(|x| (x * 127.0) as i8 as u8).collect();
            for block in bytes.chunks_exact_mut(BLOCK_BYTES) {
                let scale = f16::from_f32(f32::from(block[0]) / 64.0 - 1.0);
                block[..2].copy_from_slice(&scale.to_le_bytes());
            }
            let mut order: Vec<u32> = (0..n as u32).collect();
            if is_ordered {
                order.rotate_left(n / 3);
                order.reverse();
            }
            let (codes, scales) = packed(&bytes, &order, k);
            let x = numbers(m * k, seed ^ 1);
            let rows = Q8_0Rows { bytes: &bytes, order: is_ordered.then_some(&order[..]) };
            let (bits, scales) = (CodeBits::Eight, Scales::Float16(&scales));
            let panels = GroupedInt { codes: &codes, bits, offset: 0, scales, minima: None, group: BLOCK };
            for isa in Isa::available() {
                prop_assert!(product(isa, &x, &rows, n, k) == product(isa, &x, &panels, n, k), "{}", isa);
            }
        }
    }
}
