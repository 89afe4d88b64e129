//! 4-bit numbers to vectors of float32 or bfloat16, as each instruction set does it fastest.
//!
//! Two neighbours share a byte, the first in the upper half. A vector of bytes gives one vector of first
//! and one of second numbers: nothing is interleaved, because inputs can be brought into this order once.

use half::bf16;

use super::gemm::{Factor, factor};
use crate::rounding::nearest_bf16;
use crate::scratch::reused;
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
use crate::simd::{Scalar, Simd};

/// A bfloat16 number in the memory of a float32, for processors that can only multiply float32.
#[derive(Debug, Clone, Copy, Default)]
#[repr(transparent)]
pub struct Widened(f32);

reused!(Widened);

factor! {
    /// Float32 in memory, whatever it is rounded to.
    Widened: LANES in F32, load, load_part;
    F32 of f32, zero, mul_add, sums;
}

impl From<bf16> for Widened {
    /// The same number: a bfloat16 is the upper half of a float32.
    #[inline(always)]
    fn from(number: bf16) -> Self {
        Self(f32::from_bits(u32::from(number.to_bits()) << 16))
    }
}

/// What a 4-bit index stands for, rounded once.
#[inline(always)]
pub fn number_of(code: f32, scale: f32, minimum: f32) -> f32 {
    // Without an instruction for it, multiplying and adding at once is a slow call.
    if minimum == 0.0 { code * scale } else { code.mul_add(scale, minimum) }
}

/// A format that 4-bit numbers are decoded to, and inputs are brought into.
pub trait Target: Copy + Default {
    /// The number of this format that is nearest to `x`.
    fn nearest(x: f32) -> Self;
}

impl Target for f32 {
    #[inline(always)]
    fn nearest(x: f32) -> f32 {
        x
    }
}

impl Target for Widened {
    #[inline(always)]
    fn nearest(x: f32) -> Widened {
        Widened(nearest_bf16(x).to_f32())
    }
}

impl Target for bf16 {
    #[inline(always)]
    fn nearest(x: f32) -> bf16 {
        nearest_bf16(x)
    }
}

/// How an instruction set decodes.
pub trait Decoded<S: Simd>: Factor<S, Sums = <S as Simd>::F32, Sum = f32> + Target {
    /// Numbers of two vectors.
    const PAIR: usize = 2 * Self::STEP;
    /// Numbers that share a table. No block is smaller than 32.
    const GROUP: usize = if Self::PAIR < 32 { 32 } else { Self::PAIR };
    /// Whether the tables of all rows of a tile are made before any is used: it takes many steps to make one, and the
    /// processor sees only so far ahead.
    const TABLES_FIRST: bool = false;
    /// Groups that take one table where a block is as long, and inputs are few.
    const SHARING: usize = 1;
    /// What the 16 indices stand for in a group.
    type Table: Copy;

    /// Which number of a group stands at this place of its vectors, taken one after the other. A vector takes one half
    /// of each byte, unless an instruction set has another order.
    #[inline(always)]
    fn number_at(place: usize) -> usize {
        strided::<2>(place, Self::STEP)
    }

    /// `code[index] * scale + minimum`, rounded once, for both halves of a group; a group of 32 numbers takes the first
    /// scale and minimum for all.
    fn table(simd: S, code: &[f32; 16], scales: [f32; 2], minima: [f32; 2]) -> Self::Table;
    /// Two vectors of a group: those that are multiplied with its inputs from number `pair` on.
    ///
    /// # Safety
    /// The `GROUP / 2` bytes of the group can be read; `pair` is a multiple of `PAIR` and less than `GROUP`.
    unsafe fn decode(simd: S, table: Self::Table, group: *const u8, pair: usize) -> (Self::Vector, Self::Vector);
    /// # Safety
    /// `STEP` numbers can be written.
    #[inline(always)]
    unsafe fn store(value: Self::Vector, to: *mut Self) {
        const { assert!(size_of::<Self::Vector>() == Self::STEP * size_of::<Self>()) };
        // SAFETY: a vector consists of its numbers, one after the other, and that many can be written.
        unsafe { to.cast::<Self::Vector>().write_unaligned(value) }
    }
}

/// Vectors of `step` numbers that lie `STRIDE` apart: those from the first on, from the second, ...
#[inline(always)]
pub const fn strided<const STRIDE: usize>(place: usize, step: usize) -> usize {
    let together = STRIDE * step;
    place / together * together + place % together / step + place % step * STRIDE
}

impl Decoded<Scalar> for f32 {
    type Table = [f32; 16];

    #[inline(always)]
    fn table(_: Scalar, code: &[f32; 16], [scale, _]: [f32; 2], [minimum, _]: [f32; 2]) -> [f32; 16] {
        code.map(|number| number_of(number, scale, minimum))
    }
    #[inline(always)]
    unsafe fn decode(_: Scalar, table: [f32; 16], group: *const u8, pair: usize) -> (f32, f32) {
        // SAFETY: the caller can read the group's bytes.
        let byte = usize::from(unsafe { *group.add(pair / 2) });
        (table[byte >> 4], table[byte & 15])
    }
}

/// What 16 indices stand for, in bfloat16.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn rounded_by_vectors<S: Simd>(simd: S, code: &[f32; 16], scale: f32, minimum: f32) -> [f32; 16] {
    const { assert!(16_usize.is_multiple_of(S::LANES)) };
    let mut rounded = [0.0; 16];
    let (scale, minimum) = (simd.splat(scale), simd.splat(minimum));
    for start in (0..16).step_by(S::LANES) {
        // SAFETY: 16 is a multiple of `LANES`, so a whole vector lies in both tables from `start` on.
        unsafe {
            let numbers = simd.mul_add(simd.load(code.as_ptr().add(start)), scale, minimum);
            simd.store(simd.nearest_bf16(numbers), rounded.as_mut_ptr().add(start));
        }
    }
    rounded
}

/// The same, one by one: the `mul_add` of these vectors would round the product too.
#[inline(always)]
fn rounded_one_by_one(_: Scalar, code: &[f32; 16], scale: f32, minimum: f32) -> [f32; 16] {
    code.map(|number| Widened::nearest(number_of(number, scale, minimum)).0)
}

/// Numbers are rounded once, in the table of float32.
macro_rules! widened {
    ($simd:ty, $rounded:ident) => {
        impl Decoded<$simd> for Widened {
            type Table = <f32 as Decoded<$simd>>::Table;

            #[inline(always)]
            fn table(simd: $simd, code: &[f32; 16], [scale, _]: [f32; 2], [minimum, _]: [f32; 2]) -> Self::Table {
                let rounded = $rounded(simd, code, scale, minimum);
                <f32 as Decoded<$simd>>::table(simd, &rounded, [1.0; 2], [0.0; 2])
            }
            #[inline(always)]
            unsafe fn decode(
                simd: $simd,
                table: Self::Table,
                group: *const u8,
                pair: usize,
            ) -> (<$simd as Simd>::F32, <$simd as Simd>::F32) {
                // SAFETY: the caller's promise is the same: a rounded number takes as much memory.
                unsafe { <f32 as Decoded<$simd>>::decode(simd, table, group, pair) }
            }
        }
    };
}
widened!(Scalar, rounded_one_by_one);
#[cfg(target_arch = "aarch64")]
widened!(Neon, rounded_by_vectors);
