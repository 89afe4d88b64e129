//! Inputs of [`GroupedInt`](super::GroupedInt), rounded to 8 bits in blocks of 32 that share a scale.

use crate::isa::Isa;
use crate::rounding::{LARGEST, int8_factor, round_to_int8};
use crate::scratch::{Scratch, reused};
use crate::simd::{Dispatch, Kernel, MASKS_AFTER, Simd};
use crate::strided::Divided;
use crate::threads::ThreadScope;

/// Inputs that share a scale.
pub const BLOCK: usize = 32;

/// Rows of inputs whose blocks lie together, in the order of their use: first the first block of each row. If each row lay
/// by itself, there would be more addresses than registers.
pub const TOGETHER: usize = 8;

/// Rows of inputs in 8 bits.
pub(super) struct RoundedBlocks {
    form: Form,
    k: usize,
    /// (m / 8, k / 32, 8, 32), or (m / 8, k / 32, 8, 2, 32) where [`Form::splits`] asks for magnitudes and masks. The last
    /// rows may be fewer than 8, and lie together, too.
    pub(super) values: Scratch<i8>,
    /// (m / 8, k / 32, 8)
    pub(super) blocks: Scratch<InputBlock>,
}

/// What weights, and the instructions that multiply them, ask of their inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// How much larger codes are than what they stand for.
    pub(super) excess: i32,
    /// Whether values are magnitudes and masks: [`PanelDots::SPLITS`](crate::simd::PanelDots::SPLITS).
    pub(super) splits: bool,
    /// Whether groups have 16 numbers.
    pub(super) halved: bool,
}

/// What there is to know about 32 inputs, besides their values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InputBlock {
    /// What 1 stands for; NaN for inputs that 8 bits cannot represent.
    pub(super) step: f32,
    /// The sum of each half's inputs; of all 32 in the first, where a group has as many.
    pub(super) sums: [f32; 2],
    /// What the sums of each half's products with codes begin with: what is missing of them, or too much, because of how
    /// codes are stored. Of all 32 in the first, where a group has as many.
    pub(super) begins: [i32; 2],
}

reused!(InputBlock);

impl RoundedBlocks {
    /// Of rows of `k` inputs.
    pub(super) fn new(isa: Isa, x: &[f32], k: usize, form: Form, scope: &ThreadScope) -> Self {
        let (count, of_block) = (x.len() / BLOCK, form.bytes());
        let (mut values, mut blocks) = (Scratch::uninit(count * of_block), Scratch::uninit(count));
        let parts = &Divided::new(&mut values, (count * of_block).max(1));
        scope.split_mut(&mut blocks, 1, 8 * BLOCK, &|first, blocks| {
            let last = first + blocks.len();
            // SAFETY: the ranges of different calls do not overlap.
            let mut values = unsafe { parts.block(0..1, first * of_block..last * of_block) };
            isa.dispatch(Round { x, k, first, form, values: values.row(0), blocks });
        });
        Self { form, k, values, blocks }
    }

    /// As [`Self::new`], unless that is what was kept of the same inputs.
    pub(super) fn keep<'a>(
        kept: &'a mut Option<Self>,
        isa: Isa,
        x: &[f32],
        k: usize,
        form: Form,
        scope: &ThreadScope,
    ) -> &'a Self {
        if kept.as_ref().is_some_and(|kept| (kept.form, kept.k) != (form, k)) {
            *kept = None;
        }
        kept.get_or_insert_with(|| Self::new(isa, x, k, form, scope))
    }
}

impl Form {
    /// Of a block.
    fn bytes(self) -> usize {
        if self.splits { MASKS_AFTER + BLOCK } else { BLOCK }
    }
}

/// Rounds whole blocks of inputs.
struct Round<'a> {
    /// (m, k)
    x: &'a [f32],
    k: usize,
    /// The place of the first block in the order of [`RoundedBlocks`].
    first: usize,
    form: Form,
    values: &'a mut [i8],
    blocks: &'a mut [InputBlock],
}

impl<S: Simd> Kernel<S> for Round<'_> {
    #[inline(always)]
    fn run(self, _: S) {
        let Self { x, k, first, form, values, blocks } = self;
        let Form { excess, splits, halved } = form;
        let (of_row, m) = (k / BLOCK, x.len() / k);
        // The rows that lie together, which of them is next, and where its block begins.
        let mut rows = first / (TOGETHER * of_row) * TOGETHER;
        let (place, together) = (first - rows * of_row, TOGETHER.min(m - rows));
        let (mut row, mut at) = (place % together, place / together * BLOCK);
        for (values, block) in values.chunks_exact_mut(form.bytes()).zip(blocks) {
            let together = TOGETHER.min(m - rows);
            let x = &x[(rows + row) * k + at..][..BLOCK];
            row += 1;
            if row == together {
                (row, at) = (0, at + BLOCK);
            }
            if at == k {
                (rows, at) = (rows + together, 0);
            }
            let (values, masks) = values.split_at_mut(BLOCK);
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
            let sums = sums.map(|sum| sum as f32 * step);
            let mut begins = [-excess * first, -excess * second];
            if splits {
                let negatives = |half: &[i8]| half.iter().fold(0, |sum, &value| sum + i32::from(value.min(0)));
                begins[0] -= negatives(firsts);
                begins[1] -= negatives(seconds);
                for (value, mask) in values.iter_mut().zip(masks) {
                    *mask = (*value >> 7) ^ i8::MIN;
                    // -128 where the input is no number: its step says so.
                    *value = value.wrapping_abs();
                }
            }
            if !halved {
                begins = [begins[0] + begins[1], 0];
            }
            *block = InputBlock { step, sums, begins };
        }
    }
}
