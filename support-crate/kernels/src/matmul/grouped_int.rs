//! Products of integer weights, in groups of a row that share a scale, with inputs that are rounded to 8 bits, with a
//! scale for each 32 of a row.
//!
//! 16 rows of weights lie together in a panel, so that a lane of a vector is a row: the integer products of 32 inputs
//! are summed exactly, then scaled and added in float32, without a sum across lanes. The order of these additions is
//! the same whatever the shape of the product.
//!
//! Source: `ggml_vec_dot_q4_1_q8_1` in llama.cpp and its like, which round the scales of inputs to float16; panels:
//! `block_q4_0x8` in its `repack.cpp`.

use std::ops::Range;

use half::f16;

use super::gemm::blocks;
use super::packed4bit::AHEAD;
use super::{Product, Weights};
use crate::isa::Isa;
use crate::rounding::{LARGEST, int8_factor, round_to_int8};
use crate::scratch::{Scratch, reused};
use crate::simd::{Dispatch, Kernel, PanelDots, Simd};
use crate::sizes;
use crate::strided::{Block, Divided};

/// Rows of weights in a panel.
pub const PANEL: usize = 16;

/// Inputs that share a scale.
pub const BLOCK: usize = 32;

/// A matrix (n, k) of integers in panels of [`PANEL`] rows; where the last panel has fewer, the rest of it is not looked
/// at. A weight is `scale * (code - offset)`, and the minimum of its group, if there are minima.
#[derive(Debug, Clone, Copy)]
pub struct GroupedInt<'a> {
    /// As [`pack_codes`] leaves them: (panels, bytes of 16 rows).
    pub codes: &'a [u8],
    /// How codes are stored.
    pub bits: CodeBits,
    /// What is subtracted from codes of 4 bits; those of 8 bits have a sign.
    pub offset: u8,
    /// The scale of each group.
    pub scales: Scales<'a>,
    /// What is added in each group.
    pub minima: Option<Scales<'a>>,
    /// Weights of a row that share a scale: 16, or a multiple of 32.
    pub group: usize,
}

/// How many bits store a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeBits {
    /// From 0 to 15.
    Four,
    /// From -128 to 127.
    Eight,
}

/// A number for each group: (panels, groups of a row, 16).
#[derive(Debug, Clone, Copy)]
pub enum Scales<'a> {
    /// As they are.
    Float32(&'a [f32]),
    /// As they are.
    Float16(&'a [f16]),
    /// Integers, each times the number of its 256 weights: (panels, k / 256, 16).
    Nested(&'a [i8], &'a [f16]),
}

/// Weights that share what [`Scales::Nested`] are multiplied by.
const SUPER_GROUP: usize = 256;

impl CodeBits {
    /// Bytes of a panel.
    pub fn panel_bytes(self, k: usize) -> usize {
        match self {
            Self::Four => PANEL * k / 2,
            Self::Eight => PANEL * k,
        }
    }
}

/// Writes the codes of row `row` of a panel: one code a byte, those of 8 bits with their sign.
///
/// 4 codes of each row lie together. Of 32 codes of a row, the first 16 stand in lower halves and the others in upper
/// halves of the same bytes; or each of them in a byte, increased by 128.
///
/// # Panics
/// A row that is not whole blocks of 32, a panel of another size, a row beyond it, or a code of 4 bits above 15.
pub fn pack_codes(bits: CodeBits, codes: &[u8], row: usize, panel: &mut [u8]) {
    assert!(
        row < PANEL && codes.len().is_multiple_of(BLOCK),
        "row {row} of {} codes does not fit into a panel",
        codes.len()
    );
    sizes::check("panel", panel.len(), &[bits.panel_bytes(codes.len())]);
    let of_block = bits.panel_bytes(BLOCK);
    for (codes, panel) in codes.chunks_exact(BLOCK).zip(panel.chunks_exact_mut(of_block)) {
        let mut fours = panel.chunks_exact_mut(4 * PANEL).map(|cells| &mut cells[4 * row..4 * row + 4]);
        match bits {
            CodeBits::Four => {
                let (firsts, seconds) = codes.split_at(BLOCK / 2);
                for (out, (low, high)) in fours.zip(firsts.chunks_exact(4).zip(seconds.chunks_exact(4))) {
                    for (out, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
                        assert!(*low < 16 && *high < 16, "a code has more than 4 bits");
                        *out = low | high << 4;
                    }
                }
            }
            CodeBits::Eight => codes.chunks_exact(4).for_each(|four| {
                let out = fours.next().expect("as many cells as codes");
                out.iter_mut().zip(four).for_each(|(out, code)| *out = code ^ 0x80);
            }),
        }
    }
}

impl Scales<'_> {
    fn check(&self, what: &str, panels: usize, k: usize, group: usize) {
        let groups = &[panels, k / group, PANEL];
        match self {
            Self::Float32(scales) => sizes::check(what, scales.len(), groups),
            Self::Float16(scales) => sizes::check(what, scales.len(), groups),
            Self::Nested(steps, of_256) => {
                assert!(k.is_multiple_of(SUPER_GROUP), "rows of {k} numbers are not whole groups of {SUPER_GROUP}");
                sizes::check(what, steps.len(), groups);
                sizes::check(what, of_256.len(), &[panels, k / SUPER_GROUP, PANEL]);
            }
        }
    }

    /// Those of a panel as float32: (groups, 16).
    #[inline(always)]
    fn widen<S: Simd>(&self, simd: S, panel: usize, group: usize, out: &mut [f32]) {
        let len = out.len();
        match self {
            Self::Float32(scales) => out.copy_from_slice(&scales[panel * len..][..len]),
            Self::Float16(scales) => widen_f16(simd, &scales[panel * len..][..len], out),
            Self::Nested(steps, of_256) => {
                let together = SUPER_GROUP / group * PANEL;
                let of_panel = len / together * PANEL;
                let steps = steps[panel * len..][..len].chunks_exact(together);
                let of_256 = of_256[panel * of_panel..][..of_panel].chunks_exact(PANEL);
                for ((out, steps), of_256) in out.chunks_exact_mut(together).zip(steps).zip(of_256) {
                    let mut factors = [0.0; PANEL];
                    widen_f16(simd, of_256, &mut factors);
                    for (out, steps) in out.chunks_exact_mut(PANEL).zip(steps.chunks_exact(PANEL)) {
                        for at in (0..PANEL).step_by(S::LANES) {
                            // SAFETY: all three have 16 numbers, which are whole vectors.
                            unsafe {
                                let steps = simd.load_i8(steps.as_ptr().add(at));
                                let numbers = simd.mul_add(steps, simd.load(factors.as_ptr().add(at)), simd.zero());
                                simd.store(numbers, out.as_mut_ptr().add(at));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Both are whole panels.
#[inline(always)]
fn widen_f16<S: Simd>(simd: S, numbers: &[f16], out: &mut [f32]) {
    const { assert!(PANEL.is_multiple_of(S::LANES)) };
    assert!(numbers.len() == out.len() && out.len().is_multiple_of(PANEL));
    for at in (0..out.len()).step_by(S::LANES) {
        // SAFETY: both slices have a whole vector from `at` on, as was asserted.
        unsafe { simd.store(simd.load_f16(numbers.as_ptr().add(at)), out.as_mut_ptr().add(at)) }
    }
}

impl GroupedInt<'_> {
    /// Panics unless this is a matrix (n, k).
    fn check(&self, n: usize, k: usize) {
        let Self { codes, bits, offset, scales, minima, group } = *self;
        assert!(group == 16 || group > 0 && group.is_multiple_of(BLOCK), "groups cannot have {group} numbers");
        assert!(k.is_multiple_of(group.max(BLOCK)), "rows of {k} numbers are not whole groups of {group}");
        assert!(offset == 0 || bits == CodeBits::Four, "codes that have a sign cannot have an offset");
        assert!(offset < 16, "the offset {offset} is larger than codes of 4 bits");
        let panels = n.div_ceil(PANEL);
        let codes_of_byte = if bits == CodeBits::Four { 2 } else { 1 };
        sizes::check("weights", codes.len() * codes_of_byte, &[panels, PANEL, k]);
        scales.check("scales", panels, k, group);
        if let Some(minima) = minima {
            minima.check("minima", panels, k, group);
        }
    }
}

impl Weights for GroupedInt<'_> {
    fn multiply(&self, mut product: Product<'_>) {
        self.check(product.n, product.k);
        let isa = product.isa.without_tiles();
        product.parts().for_each(|product| {
            let (m, k) = (product.m(), product.k);
            let inputs = &round(isa, *self, &product);
            Product { together: PANEL, ..product }.divide(m * k / 4, &|rows, out| {
                isa.dispatch_bytes(Part { weights: *self, inputs, m, k, rows, out });
            });
        });
    }
}

/// Rows of inputs in 8 bits.
struct Rounded {
    /// (m, k)
    values: Scratch<i8>,
    /// (m, k / 32)
    blocks: Scratch<InputBlock>,
}

/// What there is to know about 32 inputs, besides their values.
#[derive(Debug, Clone, Copy, Default)]
struct InputBlock {
    /// What 1 stands for; NaN for inputs that 8 bits cannot represent.
    step: f32,
    /// The sum of each half's inputs; of all 32 in the first, where a group has as many.
    sums: [f32; 2],
    /// What the sums of each half's products with codes begin with: codes are larger than what they stand for.
    begins: [i32; 2],
}

reused!(InputBlock);

fn round(isa: Isa, weights: GroupedInt<'_>, product: &Product<'_>) -> Rounded {
    let Product { scope, x, .. } = *product;
    let excess = match weights.bits {
        CodeBits::Four => i32::from(weights.offset),
        CodeBits::Eight if isa.takes_unsigned_bytes() => 128,
        CodeBits::Eight => 0,
    };
    let halved = weights.group < BLOCK;
    let (mut values, mut blocks) = (Scratch::uninit(x.len()), Scratch::uninit(x.len() / BLOCK));
    let parts = &Divided::new(&mut values, x.len().max(1));
    scope.split_mut(&mut blocks, 1, 8 * BLOCK, &|first, blocks| {
        let numbers = first * BLOCK..(first + blocks.len()) * BLOCK;
        // SAFETY: the ranges of different calls do not overlap.
        let mut values = unsafe { parts.block(0..1, numbers.clone()) };
        isa.dispatch(Round { x: &x[numbers], excess, halved, values: values.row(0), blocks });
    });
    Rounded { values, blocks }
}

/// Rounds whole blocks of inputs.
struct Round<'a> {
    x: &'a [f32],
    /// How much larger codes are than what they stand for.
    excess: i32,
    /// Whether groups have 16 numbers.
    halved: bool,
    values: &'a mut [i8],
    blocks: &'a mut [InputBlock],
}

impl<S: Simd> Kernel<S> for Round<'_> {
    #[inline(always)]
    fn run(self, _: S) {
        let Self { x, excess, halved, values, blocks } = self;
        for ((x, values), block) in x.chunks_exact(BLOCK).zip(values.chunks_exact_mut(BLOCK)).zip(blocks) {
            // As integers, infinity and NaN rank above all numbers.
            let bits = x.iter().fold(0, |largest, x| largest.max(x.abs().to_bits().cast_signed()));
            let largest = f32::from_bits(bits.cast_unsigned());
            let factor = int8_factor(largest);
            for (value, x) in values.iter_mut().zip(x) {
                *value = round_to_int8((x * factor).clamp(-LARGEST, LARGEST));
            }
            let (firsts, seconds) = values.split_at(BLOCK / 2);
            let sum = |half: &[i8]| half.iter().fold(0, |sum, &value| sum + i32::from(value));
            let (first, second) = (sum(firsts), sum(seconds));
            let step = if largest.is_finite() { largest / LARGEST } else { f32::NAN };
            let sums = if halved { [first, second] } else { [first + second, 0] };
            let sums = [sums[0] as f32 * step, sums[1] as f32 * step];
            *block = InputBlock { step, sums, begins: [-excess * first, -excess * second] };
        }
    }
}

/// A thread's rows of weights.
struct Part<'a> {
    weights: GroupedInt<'a>,
    inputs: &'a Rounded,
    m: usize,
    k: usize,
    /// Whole panels, but for the end of the matrix.
    rows: Range<usize>,
    out: Block<'a, f32>,
}

/// A panel of weights, with its scales and minima in float32: (groups, 16).
#[derive(Clone, Copy)]
struct Panel<'a> {
    codes: &'a [u8],
    scales: &'a [f32],
    /// None of them if there are no minima.
    minima: &'a [f32],
    group: usize,
}

impl<S: PanelDots> Kernel<S> for Part<'_> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        let Self { weights, k, ref rows, .. } = self;
        let of_scales = k / weights.group * PANEL;
        let mut scales = Scratch::<f32>::uninit(of_scales);
        let mut minima = Scratch::<f32>::uninit(if weights.minima.is_some() { of_scales } else { 0 });
        for row in rows.clone().step_by(PANEL) {
            let (number, bytes) = (row / PANEL, weights.bits.panel_bytes(k));
            weights.scales.widen(simd, number, weights.group, &mut scales);
            if let Some(of_groups) = weights.minima {
                of_groups.widen(simd, number, weights.group, &mut minima);
            }
            let codes = &weights.codes[number * bytes..][..bytes];
            let panel = Panel { codes, scales: &scales, minima: &minima, group: weights.group };
            match weights.bits {
                CodeBits::Four => self.panel::<S, 4>(simd, panel, row),
                CodeBits::Eight => self.panel::<S, 8>(simd, panel, row),
            }
        }
    }
}

impl Part<'_> {
    /// Multiplies all inputs with the panel that begins with row `row`.
    #[inline(always)]
    fn panel<S: PanelDots, const BITS: usize>(&mut self, simd: S, panel: Panel<'_>, row: usize) {
        let most = if const { S::TILE.0 == 4 } { 8 } else { 4 };
        for inputs in blocks(0..self.m, most) {
            let m = inputs.start;
            match inputs.len() {
                1 => self.tile::<S, BITS, 1>(simd, panel, m, row),
                2 => self.tile::<S, BITS, 2>(simd, panel, m, row),
                3 => self.tile::<S, BITS, 3>(simd, panel, m, row),
                8 if const { S::TILE.0 == 4 } => self.tile::<S, BITS, 8>(simd, panel, m, row),
                len => {
                    self.tile::<S, BITS, 4>(simd, panel, m, row);
                    for m in m + 4..m + len {
                        self.tile::<S, BITS, 1>(simd, panel, m, row);
                    }
                }
            }
        }
    }

    /// Adds the products of `M` inputs from `m` on with a panel to the outputs.
    #[expect(clippy::needless_range_loop, reason = "inputs and parts of a block read best by their numbers")]
    #[inline(always)]
    fn tile<S: PanelDots, const BITS: usize, const M: usize>(
        &mut self,
        simd: S,
        panel: Panel<'_>,
        m: usize,
        row: usize,
    ) {
        let Self { inputs, k, .. } = *self;
        let Panel { codes, scales, minima, group } = panel;
        let (of_row, of_block) = (k / BLOCK, 2 * BITS * BLOCK);
        let values = &inputs.values[m * k..(m + M) * k];
        let heads = &inputs.blocks[m * of_row..(m + M) * of_row];
        let halved = group < BLOCK;
        let (of_group, of_block_or_group) = (group.max(BLOCK) / BLOCK, BLOCK.div_ceil(group) * PANEL);
        assert!(codes.len() == of_row * of_block && scales.len() == k / group * PANEL);
        assert!(minima.is_empty() || minima.len() == scales.len());
        const { assert!(PANEL.is_multiple_of(S::LANES)) };
        for lane in (0..PANEL).step_by(S::LANES) {
            let mut sums = [simd.zero(); M];
            // Where the group's scales are, and how many of its blocks are left: a division would take longer.
            let (mut at, mut left) = (lane, of_group);
            for block in 0..of_row {
                // SAFETY: there are as many blocks of codes and inputs, and as many groups, as was asserted above; a
                // vector of cells, or of scales, from `lane` on lies within the panel's 16 rows.
                unsafe {
                    let from = codes.as_ptr().add(block * of_block + 4 * lane);
                    if lane == 0 {
                        (0..of_block).step_by(64).for_each(|line| simd.prefetch(from.wrapping_add(line + AHEAD)));
                    }
                    let mut halves = [[simd.no_codes(); 4]; 2];
                    for part in 0..4 {
                        let first = simd.load_codes(from.add(part * 4 * PANEL));
                        (halves[0][part], halves[1][part]) = if BITS == 4 {
                            simd.split(first)
                        } else {
                            (first, simd.load_codes(from.add((part + 4) * 4 * PANEL)))
                        };
                    }
                    let scale = simd.load(scales.as_ptr().add(at));
                    for i in 0..M {
                        let head = heads.get_unchecked(i * of_row + block);
                        let x = values.as_ptr().add(i * k + block * BLOCK);
                        let mut dots = [simd.splat_i32(head.begins[0]), simd.splat_i32(head.begins[1])];
                        for half in 0..2 {
                            let x = x.add(half * BLOCK / 2);
                            if BITS == 4 {
                                dots[half] = simd.small_dots(halves[half], x, dots[half]);
                            } else {
                                for part in 0..4 {
                                    dots[half] =
                                        simd.code_dot(halves[half][part], simd.four(x.add(4 * part)), dots[half]);
                                }
                            }
                        }
                        let step = simd.splat(head.step);
                        let factor = simd.mul_add(scale, step, simd.zero());
                        if halved {
                            let second = simd.load(scales.as_ptr().add(at + PANEL));
                            let second = simd.mul_add(second, step, simd.zero());
                            sums[i] = simd.mul_add(simd.to_f32(dots[0]), factor, sums[i]);
                            sums[i] = simd.mul_add(simd.to_f32(dots[1]), second, sums[i]);
                        } else {
                            let dot = simd.add_i32(dots[0], dots[1]);
                            sums[i] = simd.mul_add(simd.to_f32(dot), factor, sums[i]);
                        }
                        if !minima.is_empty() {
                            let minimum = simd.load(minima.as_ptr().add(at));
                            sums[i] = simd.mul_add(minimum, simd.splat(head.sums[0]), sums[i]);
                            if halved {
                                let minimum = simd.load(minima.as_ptr().add(at + PANEL));
                                sums[i] = simd.mul_add(minimum, simd.splat(head.sums[1]), sums[i]);
                            }
                        }
                    }
                }
                left -= 1;
                if left == 0 {
                    (at, left) = (at + of_block_or_group, of_group);
                }
            }
            let first = row - self.rows.start + lane;
            let columns = first.min(self.rows.len())..(first + S::LANES).min(self.rows.len());
            for i in 0..M {
                let mut lanes = [0.0; PANEL];
                // SAFETY: no vector has more lanes.
                unsafe { simd.store(sums[i], lanes.as_mut_ptr()) };
                let out = &mut self.out.row(m + i)[columns.clone()];
                out.iter_mut().zip(lanes).for_each(|(out, sum)| *out += sum);
            }
        }
    }
}

#[cfg(test)]
#[path = "grouped_int_tests.rs"]
mod tests;
