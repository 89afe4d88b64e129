//! A group of tokens becomes codes.

use half::f16;

use super::{GROUP, KvBits, QuantizedKv, Run, Sizes};
use crate::attention::scores::place_of_key;
use crate::scratch::Scratch;
use crate::simd::{Dispatch, Kernel, Simd};
use crate::strided::Divided;
use crate::threads::ThreadScope;

impl QuantizedKv {
    /// Makes codes of the groups that these runs have completed.
    pub(super) fn quantize(&mut self, scope: &ThreadScope, runs: &[Run]) {
        let (sizes, heads, d) = (self.sizes(), self.heads, self.head_dim);
        let completed = |run: &Run| {
            let groups = run.position / GROUP..((run.position + run.count) / GROUP).min(sizes.groups);
            groups.map(|group| (run.sequence, group)).collect::<Vec<_>>()
        };
        let mut groups: Vec<_> = runs.iter().flat_map(completed).collect();
        groups.sort_unstable();
        groups.dedup();
        if groups.is_empty() {
            return;
        }
        let [k, v] = &mut self.codes;
        let (k, v) = (Divided::new(k, sizes.codes), Divided::new(v, sizes.codes));
        let key_scales = Divided::new(&mut self.key_scales, sizes.key_scales);
        let value_scales = Divided::new(&mut self.value_scales, sizes.value_scales);
        let (isa, recent, bits) = (scope.isa(), &self.recent, self.bits);
        scope.split(groups.len() * heads, 1, 16 * GROUP * d, &|units| {
            for index in units {
                let ((sequence, group), head) = (groups[index / heads], index % heads);
                let unit = sequence * heads + head;
                let row = unit * sizes.groups + group;
                // SAFETY: no two of the groups are the same, and each has a row of its own, for each head.
                let (mut k, mut v, mut key_scales, mut value_scales) = unsafe {
                    (
                        k.block(row..row + 1, 0..sizes.codes),
                        v.block(row..row + 1, 0..sizes.codes),
                        key_scales.block(row..row + 1, 0..sizes.key_scales),
                        value_scales.block(row..row + 1, 0..sizes.value_scales),
                    )
                };
                let tile = tile_of(unit, group, sizes, d);
                let keys = Group { bits, d, numbers: &recent[0][tile.clone()], by_token: false };
                isa.dispatch(Quantize { group: keys, codes: k.row(0), scales: key_scales.row(0) });
                let values = Group { bits, d, numbers: &recent[1][tile], by_token: true };
                isa.dispatch(Quantize { group: values, codes: v.row(0), scales: value_scales.row(0) });
            }
        });
    }
}

/// Where the recent numbers of a group are: together, since groups are whole parts of the ring.
fn tile_of(unit: usize, group: usize, sizes: Sizes, d: usize) -> std::ops::Range<usize> {
    let first = unit * sizes.recent + group * GROUP % sizes.recent;
    first * d..(first + GROUP) * d
}

/// What becomes codes.
#[derive(Clone, Copy)]
struct Group<'a> {
    bits: KvBits,
    d: usize,
    /// (32, D)
    numbers: &'a [f16],
    /// Whether 32 channels of a token share a scale, or 32 tokens of a channel.
    by_token: bool,
}

struct Quantize<'a> {
    group: Group<'a>,
    codes: &'a mut [u8],
    scales: &'a mut [f16],
}

impl<S: Simd> Kernel<S> for Quantize<'_> {
    #[inline(always)]
    fn run(self, _: S) {
        let Self { group: Group { bits, d, numbers, by_token }, codes, scales } = self;
        let levels = if bits == KvBits::Eight { 255.0 } else { 15.0 };
        let mut memory = Scratch::<f32>::uninit(3 * GROUP * d);
        let (tile, rest) = memory.split_at_mut(GROUP * d);
        let (lowest, inverse) = rest.split_at_mut(GROUP * d);
        tile.iter_mut().zip(numbers).for_each(|(to, from)| *to = from.to_f32());
        if by_token {
            for (part, scales) in scales.chunks_exact_mut(2 * GROUP).enumerate() {
                let (lows, steps) = scales.split_at_mut(GROUP);
                let first = part * GROUP;
                let count = GROUP.min(d - first);
                for (token, (low, step)) in lows.iter_mut().zip(steps).enumerate() {
                    let channels = token * d + first..token * d + first + count;
                    let inverse_step;
                    (*low, *step, inverse_step) = scale(limits(&tile[channels.clone()]), levels);
                    lowest[channels.clone()].fill(low.to_f32());
                    inverse[channels].fill(inverse_step);
                }
            }
        } else {
            let (lows, steps) = scales.split_at_mut(d);
            let (low, high) = (&mut lowest[..d], &mut inverse[..d]);
            low.fill(f32::INFINITY);
            high.fill(f32::NEG_INFINITY);
            for row in tile.chunks_exact(d) {
                for ((low, high), &x) in low.iter_mut().zip(&mut *high).zip(row) {
                    (*low, *high) = (smaller(*low, x), larger(*high, x));
                }
            }
            for channel in 0..d {
                (lows[channel], steps[channel], high[channel]) = scale((low[channel], high[channel]), levels);
                low[channel] = lows[channel].to_f32();
            }
            for token in 1..GROUP {
                lowest.copy_within(..d, token * d);
                inverse.copy_within(..d, token * d);
            }
        }
        // What does not fit is NaN, whose scales are too.
        let code = |x: f32, low: f32, inverse: f32| ((x - low) * inverse + 0.5).min(levels) as i32 as u8;
        let mut all = Scratch::<i8>::uninit(GROUP * d);
        for (((to, x), low), inverse) in all.iter_mut().zip(&*tile).zip(&*lowest).zip(&*inverse) {
            *to = code(*x, *low, *inverse).cast_signed();
        }
        for (token, row) in all.chunks_exact(d).enumerate() {
            // Two codes of 4 bits share a byte.
            let (place, upper) = match bits {
                KvBits::Eight => (token, false),
                KvBits::Four => (token % (GROUP / 2), token >= GROUP / 2),
            };
            let (first, step) = if by_token { (place * d, 1) } else { place_of_key(place, GROUP, d) };
            for (to, code) in codes[first..].iter_mut().step_by(step).zip(row) {
                let code = code.cast_unsigned();
                *to = match bits {
                    KvBits::Eight => code ^ 0x80,
                    KvBits::Four if upper => *to | code << 4,
                    KvBits::Four => code,
                };
            }
        }
    }
}

/// NaN if one of both is.
#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if b < a || b.is_nan() { b } else { a }
}

/// NaN if one of both is.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

/// The smallest and the largest number.
#[inline(always)]
fn limits(numbers: &[f32]) -> (f32, f32) {
    const LANES: usize = 16;
    let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    for chunk in numbers.chunks(LANES) {
        for ((low, high), &x) in low.iter_mut().zip(&mut high).zip(chunk) {
            (*low, *high) = (smaller(*low, x), larger(*high, x));
        }
    }
    (low.into_iter().fold(f32::INFINITY, smaller), high.into_iter().fold(f32::NEG_INFINITY, larger))
}

/// The lowest number and the step, so that `levels` steps reach the highest, and the inverse of the step. Both are NaN
/// where a number is not finite.
#[inline(always)]
fn scale((low, high): (f32, f32), levels: f32) -> (f16, f16, f32) {
    if !(high - low).is_finite() {
        return (f16::NAN, f16::NAN, f32::NAN);
    }
    // Both limits were float16, so the lowest number is itself.
    let lowest = f16::from_f32(low);
    let wanted = (high - low) / levels;
    let nearest = f16::from_f32(wanted);
    let step = if nearest.to_f32() < wanted { f16::from_bits(nearest.to_bits() + 1) } else { nearest };
    let inverse = if step == f16::ZERO { 0.0 } else { 1.0 / step.to_f32() };
    (lowest, step, inverse)
}
