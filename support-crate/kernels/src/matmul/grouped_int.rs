//! Products of integer weights, in groups of a row that share a scale, with inputs that are rounded to 8 bits, with a
//! scale for each 32 of a row.
//!
//! 16 rows of weights lie together in a panel, so that a lane of a vector is a row: the integer products of 32 inputs
//! are summed exactly, then scaled and added in float32, without a sum across lanes. The order of these additions is
//! the same whatever the shape of the product.
//!
//! Source: `ggml_vec_dot_q4_1_q8_1` in llama.cpp and its like, which round the scales of inputs to float16; panels:
//! `block_q4_0x8` in its `repack.cpp`.

use std::cell::RefCell;
use std::ops::Range;

use super::code_bits::{CodeBits, PANEL};
use super::gemm::{INPUTS_IN_CACHE, blocks};
use super::input_blocks::{BLOCK, Form, InputBlock, RoundedBlocks, TOGETHER};
use super::packed4bit::AHEAD;
use super::q8_0_rows::{Q8_0Rows, Rows};
use super::scales::Scales;
use super::{Product, Weights};
use crate::scratch::{Aligned, Scratch};
use crate::simd::{Kernel, MASKS_AFTER, PanelDots, Simd, in_register};
use crate::sizes;
use crate::strided::Block;

/// A matrix (n, k) of integers in panels of [`PANEL`] rows; where the last panel has fewer, the rest of it is not looked
/// at. A weight is `scale * (code - offset)`, and the minimum of its group, if there are minima.
#[derive(Debug, Clone, Copy)]
pub struct GroupedInt<'a> {
    /// As [`pack_codes`](super::pack_codes) leaves them: (panels, bytes of 16 rows).
    pub codes: &'a [u8],
    /// How codes are stored.
    pub bits: CodeBits,
    /// What is subtracted from codes, but not from those of 8 bits, which have a sign.
    pub offset: u8,
    /// The scale of each group.
    pub scales: Scales<'a>,
    /// What is added in each group.
    pub minima: Option<Scales<'a>>,
    /// Weights of a row that share a scale: 16, or a multiple of 32.
    pub group: usize,
}

impl GroupedInt<'_> {
    /// Panics unless this is a matrix (n, k).
    fn check(&self, n: usize, k: usize) {
        let Self { codes, bits, offset, scales, minima, group } = *self;
        assert!(group == 16 || group > 0 && group.is_multiple_of(BLOCK), "groups cannot have {group} numbers");
        assert!(k.is_multiple_of(group.max(BLOCK)), "rows of {k} numbers are not whole groups of {group}");
        assert!(offset == 0 || bits != CodeBits::Eight, "codes that have a sign cannot have an offset");
        assert!(
            usize::from(offset) < 1 << bits.count(),
            "the offset {offset} is larger than codes of {} bits",
            bits.count()
        );
        let panels = n.div_ceil(PANEL);
        sizes::check("weights", codes.len(), &[panels, k / BLOCK, bits.panel_bytes(BLOCK)]);
        scales.check("scales", panels, k, group);
        if let Some(minima) = minima {
            minima.check("minima", panels, k, group);
        }
    }
}

impl Weights for GroupedInt<'_> {
    fn multiply(&self, product: Product<'_>) {
        self.check(product.n, product.k);
        multiply(Panels::Packed(*self), product);
    }
}

/// What panels are made of.
#[derive(Clone, Copy)]
pub(super) enum Panels<'a> {
    /// They are there.
    Packed(GroupedInt<'a>),
    /// Rows, which are brought into panels as these are multiplied.
    Q8_0(Q8_0Rows<'a>),
}

/// Computes a product of weights whose sizes were checked.
pub(super) fn multiply(panels: Panels<'_>, mut product: Product<'_>) {
    let (bits, offset, group) = match panels {
        Panels::Packed(weights) => (weights.bits, weights.offset, weights.group),
        Panels::Q8_0(_) => (CodeBits::Eight, 0, BLOCK),
    };
    let isa = product.isa.without_tiles();
    let bytes = isa.byte_form();
    let (excess, splits) = match bits {
        CodeBits::Eight => (if bytes.unsigned { 128 } else { 0 }, bytes.splits),
        CodeBits::Four | CodeBits::Six => (i32::from(offset), false),
    };
    let form = Form { excess, splits, halved: group < BLOCK };
    product.parts().for_each(|product| {
        let (m, n, k) = (product.m(), product.n, product.k);
        let (mut kept, mut own) = (product.rounded.map(RefCell::borrow_mut), None);
        let kept = kept.as_deref_mut().unwrap_or(&mut own);
        let inputs = RoundedBlocks::keep(kept, isa, product.x, k, form, product.scope);
        let product = Product { together: PANEL, ..product };
        match panels {
            // Inputs of one tile.
            Panels::Q8_0(_) if m <= 4 || m == TOGETHER => product.divide(m * k / 4, &|rows, out| {
                isa.dispatch_bytes(Part::<true> { panels, inputs, m, n, k, rows, out });
            }),
            _ => product.divide(m * k / 4, &|rows, out| {
                isa.dispatch_bytes(Part::<false> { panels, inputs, m, n, k, rows, out });
            }),
        }
    });
}

/// A thread's rows of weights. `ROWS`: a block of a panel is made as it is multiplied, and stays in the first-level cache;
/// else a panel as a whole, if it has to be made.
struct Part<'a, const ROWS: bool> {
    panels: Panels<'a>,
    inputs: &'a RoundedBlocks,
    m: usize,
    n: usize,
    k: usize,
    /// Whole panels, but for the end of the matrix.
    rows: Range<usize>,
    out: Block<'a, f32>,
}

/// A panel of weights, with its scales and minima in float32: (groups, 16).
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    pub codes: &'a [u8],
    pub scales: &'a [f32],
    /// None of them if there are no minima.
    pub minima: &'a [f32],
    pub group: usize,
}

impl<S: PanelDots> Kernel<S> for Part<'_, true> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        let Self { panels, inputs, m, n, k, .. } = self;
        let Panels::Q8_0(weights) = panels else { unreachable!("panels that are there") };
        let rows = self.rows.clone();
        if const { S::LANES < 8 } {
            // A panel is read several times.
            let Self { out, .. } = self;
            return Part::<false> { panels, inputs, m, n, k, rows, out }.run(simd);
        }
        for row in rows.step_by(PANEL) {
            let panel = Panel { codes: &[], scales: &[], minima: &[], group: BLOCK };
            self.panel::<S, 8, 1>(simd, 0..m, panel, Some(&weights.rows(row, n, k)), row);
        }
    }
}

impl<S: PanelDots> Kernel<S> for Part<'_, false> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        let Self { panels, inputs, m, n, k, .. } = self;
        let rows = self.rows.clone();
        let (groups, has_minima, bytes) = match panels {
            Panels::Packed(weights) => (k / weights.group, weights.minima.is_some(), 0),
            Panels::Q8_0(_) => (k / BLOCK, false, CodeBits::Eight.panel_bytes(k)),
        };
        let mut scales = Scratch::<f32>::uninit(groups * PANEL);
        let mut minima = Scratch::<f32>::uninit(if has_minima { groups * PANEL } else { 0 });
        let mut codes = Scratch::<u8>::uninit(bytes);
        // Inputs that stay in the second-level cache while the panels go by.
        let of_row = inputs.values.len() / m + inputs.blocks.len() / m * size_of::<InputBlock>();
        let in_cache = (INPUTS_IN_CACHE / of_row / TOGETHER).max(1) * TOGETHER;
        for some in blocks(0..m, in_cache) {
            for row in rows.clone().step_by(PANEL) {
                let (bits, panel) = match panels {
                    Panels::Packed(weights) => {
                        (weights.bits, weights.panel(simd, row / PANEL, k, &mut scales, &mut minima))
                    }
                    Panels::Q8_0(weights) => {
                        let rows = weights.rows(row, n, k);
                        (CodeBits::Eight, rows.panel(simd, &mut codes, &mut scales))
                    }
                };
                match (bits, panel.group < BLOCK) {
                    (CodeBits::Four, false) => self.panel::<S, 4, 1>(simd, some.clone(), panel, None, row),
                    (CodeBits::Four, true) => self.panel::<S, 4, 2>(simd, some.clone(), panel, None, row),
                    (CodeBits::Six, false) => self.panel::<S, 6, 1>(simd, some.clone(), panel, None, row),
                    (CodeBits::Six, true) => self.panel::<S, 6, 2>(simd, some.clone(), panel, None, row),
                    (CodeBits::Eight, false) => self.panel::<S, 8, 1>(simd, some.clone(), panel, None, row),
                    (CodeBits::Eight, true) => self.panel::<S, 8, 2>(simd, some.clone(), panel, None, row),
                }
            }
        }
    }
}

impl<'a> GroupedInt<'a> {
    /// A panel, with room for its scales and minima.
    #[inline(always)]
    fn panel<'p, S: Simd>(
        &self,
        simd: S,
        number: usize,
        k: usize,
        scales: &'p mut [f32],
        minima: &'p mut [f32],
    ) -> Panel<'p>
    where
        'a: 'p,
    {
        self.scales.widen(simd, number, self.group, scales);
        if let Some(of_groups) = self.minima {
            of_groups.widen(simd, number, self.group, minima);
        }
        let bytes = self.bits.panel_bytes(k);
        let codes = &self.codes[number * bytes..][..bytes];
        Panel { codes, scales, minima, group: self.group }
    }
}

impl<const ROWS: bool> Part<'_, ROWS> {
    /// Multiplies some inputs with the panel that begins with row `row`, whose blocks are of `GROUPS` groups.
    #[inline(always)]
    fn panel<S: PanelDots, const BITS: usize, const GROUPS: usize>(
        &mut self,
        simd: S,
        some: Range<usize>,
        panel: Panel<'_>,
        rows: Option<&Rows<'_>>,
        row: usize,
    ) {
        for inputs in blocks(some, TOGETHER) {
            let Range { start: mut m, end } = inputs;
            while m < end {
                // Few formats have two groups in a block: for these, fewer tiles are compiled.
                m += match end - m {
                    TOGETHER if const { (S::TILE.0 == 4 || ROWS) && GROUPS == 1 } => {
                        self.tile::<S, BITS, GROUPS, 8>(simd, (panel, rows), m, row)
                    }
                    4.. => self.tile::<S, BITS, GROUPS, 4>(simd, (panel, rows), m, row),
                    3 if const { GROUPS == 1 } => self.tile::<S, BITS, GROUPS, 3>(simd, (panel, rows), m, row),
                    2 if const { GROUPS == 1 } => self.tile::<S, BITS, GROUPS, 2>(simd, (panel, rows), m, row),
                    _ => self.tile::<S, BITS, GROUPS, 1>(simd, (panel, rows), m, row),
                }
            }
        }
    }

    /// Adds the products of `M` inputs from `m` on with a panel to the outputs; returns `M`.
    #[inline(always)]
    fn tile<S: PanelDots, const BITS: usize, const GROUPS: usize, const M: usize>(
        &mut self,
        simd: S,
        (panel, rows): (Panel<'_>, Option<&Rows<'_>>),
        m: usize,
        row: usize,
    ) -> usize {
        // 8 lanes: both vectors at once, so that a panel is read once, in the order of memory, and inputs are loaded for
        // both. Sums of 4 rows then leave the registers, and it is still faster. 4 lanes: all for one row, which waits
        // for memory; for more of them one vector after the other.
        match const { (S::LANES, M) } {
            (8, _) => self.vectors::<S, BITS, GROUPS, M, 2>(simd, (panel, rows), m, row),
            (4, 1) => self.vectors::<S, BITS, GROUPS, M, 4>(simd, (panel, rows), m, row),
            _ => self.vectors::<S, BITS, GROUPS, M, 1>(simd, (panel, rows), m, row),
        }
        M
    }

    /// The same, `V` vectors of the panel at a time.
    #[expect(clippy::needless_range_loop, reason = "inputs and parts of a block read best by their numbers")]
    #[inline(always)]
    fn vectors<S: PanelDots, const BITS: usize, const GROUPS: usize, const M: usize, const V: usize>(
        &mut self,
        simd: S,
        (panel, rows): (Panel<'_>, Option<&Rows<'_>>),
        m: usize,
        row: usize,
    ) {
        let Self { inputs, k, .. } = *self;
        let Panel { codes, scales, minima, group } = panel;
        let (of_row, of_block) = (k / BLOCK, 2 * BITS * BLOCK);
        let of_input = if BITS == 8 && S::SPLITS { MASKS_AFTER + BLOCK } else { BLOCK };
        // The first of the rows that lie together, how many these are, and where the first block of row `m` is.
        let base = m / TOGETHER * TOGETHER;
        let together = TOGETHER.min(self.m - base);
        let start = base * of_row + m - base;
        assert!(m - base + M <= together && (base + together) * of_row <= inputs.blocks.len());
        assert!(inputs.values.len() == inputs.blocks.len() * of_input);
        let of_group = group.max(BLOCK) / BLOCK;
        assert!(!ROWS || V * S::LANES == PANEL && rows.is_some_and(|rows| rows.blocks() == of_row));
        assert!(ROWS || codes.len() == of_row * of_block && scales.len() == k / group * PANEL);
        let (mut block_codes, mut block_scales) = (Aligned([0; PANEL * BLOCK]), Aligned([0.0; PANEL]));
        assert!(GROUPS == BLOCK.div_ceil(group) && (minima.is_empty() || minima.len() == scales.len()));
        assert!(PANEL.is_multiple_of(V * S::LANES));
        for lane in (0..PANEL).step_by(V * S::LANES) {
            let mut sums = [[simd.zero(); V]; M];
            // Where the group's scales are, and how many of its blocks are left: a division would take longer.
            let (mut at, mut left) = (lane, of_group);
            for block in 0..of_row {
                // SAFETY: there are as many blocks of codes and inputs, with masks where they are asked for, and as many
                // groups, as was asserted above, and all `M` rows are among those that lie together; `V` vectors of cells, or
                // of scales, from `lane` on lie within the panel's 16 rows.
                unsafe {
                    let (from, at_scale) = match rows {
                        Some(rows) if ROWS => {
                            rows.gather(simd, block, &mut block_codes.0, &mut block_scales.0);
                            (block_codes.0.as_ptr(), block_scales.0.as_ptr())
                        }
                        _ => (codes.as_ptr().add(block * of_block + 4 * lane), scales.as_ptr().add(at)),
                    };
                    if !ROWS && lane == 0 && m < TOGETHER {
                        (0..of_block).step_by(64).for_each(|line| simd.prefetch(from.wrapping_add(line + AHEAD)));
                    }
                    let heads = inputs.blocks.as_ptr().add(start + block * together);
                    let values = in_register(inputs.values.as_ptr().add((start + block * together) * of_input));
                    let mut dots = [[[simd.zero_i32(); GROUPS]; V]; M];
                    for i in 0..M {
                        for part in 0..GROUPS {
                            let begin = simd.splat_i32((*heads.add(i)).begins[part]);
                            (0..V).for_each(|v| dots[i][v][part] = begin);
                        }
                    }
                    for half in 0..2 {
                        let mut cells = [[simd.no_codes(); 4]; V];
                        for v in 0..V {
                            let from = from.add(4 * v * S::LANES);
                            let upper = if BITS == 6 {
                                simd.load_codes(from.add((4 + half) * 4 * PANEL))
                            } else {
                                simd.no_codes()
                            };
                            for part in 0..4 {
                                cells[v][part] = if BITS == 8 {
                                    simd.load_codes(from.add((4 * half + part) * 4 * PANEL))
                                } else {
                                    let (low, high) = simd.split(simd.load_codes(from.add(part * 4 * PANEL)));
                                    let cell = if half == 0 { low } else { high };
                                    if BITS == 6 { simd.with_upper(cell, upper, part) } else { cell }
                                };
                            }
                        }
                        for i in 0..M {
                            let x = values.add(i * of_input + half * BLOCK / 2);
                            for v in 0..V {
                                let dot = &mut dots[i][v][half * (GROUPS - 1)];
                                *dot = simd.dots::<BITS>(cells[v], x, *dot);
                            }
                        }
                    }
                    for part in 0..GROUPS {
                        for v in 0..V {
                            let of_vector = v * S::LANES + part * PANEL;
                            let scale = simd.load(at_scale.add(of_vector));
                            for i in 0..M {
                                let step = simd.splat((*heads.add(i)).step);
                                let factor = simd.mul(scale, step);
                                sums[i][v] = simd.mul_add(simd.to_f32(dots[i][v][part]), factor, sums[i][v]);
                            }
                            if !minima.is_empty() {
                                let minimum = simd.load(minima.as_ptr().add(at + of_vector));
                                for i in 0..M {
                                    let sum = simd.splat((*heads.add(i)).sums[part]);
                                    sums[i][v] = simd.mul_add(minimum, sum, sums[i][v]);
                                }
                            }
                        }
                    }
                }
                left -= 1;
                if left == 0 {
                    (at, left) = (at + GROUPS * PANEL, of_group);
                }
            }
            for v in 0..V {
                let first = row - self.rows.start + lane + v * S::LANES;
                let columns = first.min(self.rows.len())..(first + S::LANES).min(self.rows.len());
                for i in 0..M {
                    let out = self.out.row(m + i);
                    if columns.len() == S::LANES {
                        // SAFETY: the output has a vector there.
                        unsafe {
                            let to = out[columns.clone()].as_mut_ptr();
                            simd.store(simd.add(simd.load(to), sums[i][v]), to);
                        }
                        continue;
                    }
                    let mut lanes = [0.0; PANEL];
                    // SAFETY: no vector has more lanes.
                    unsafe { simd.store(sums[i][v], lanes.as_mut_ptr()) };
                    let out = &mut out[columns.clone()];
                    out.iter_mut().zip(lanes).for_each(|(out, sum)| *out += sum);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "grouped_int_tests.rs"]
mod tests;
