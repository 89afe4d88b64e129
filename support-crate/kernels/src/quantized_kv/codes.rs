//! How codes lie in memory, and how they are multiplied.
//!
//! The codes of a group are 32 tokens of D numbers: of values a row for each token, of keys panels of 16 tokens, as
//! [those of numbers](crate::put_key). Of 8 bits, they are a signed byte each. Of 4 bits, those of the first 16 tokens are
//! the lower halves of 16 D bytes, and those of the other 16 the upper halves. So bytes lie as numbers do, and only
//! another function loads them.

use crate::matmul::Stored;
use crate::simd::Simd;

/// A byte as a number.
///
/// # Safety
/// The type is a byte, whose bits may be any.
pub unsafe trait Code: Copy {
    /// Bytes as numbers.
    fn of(bytes: &[u8]) -> &[Self] {
        // SAFETY: a byte of any bits is one of these.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
    }
}

/// Codes of some number of bits.
pub trait Packing<S: Simd> {
    /// The number that a code of 0 means, less the lowest one, in steps.
    const OFFSET: f32;
    /// Rows of bytes of a group: 32, or 16 that are read first as one type and then as the other.
    const ROWS: usize;
    type First: Code + Stored<S, f32>;
    type Second: Code + Stored<S, f32>;
}

/// 8 bits.
#[derive(Debug)]
pub struct Eight;

/// 4 bits.
#[derive(Debug)]
pub struct Four;

impl<S: Simd> Packing<S> for Eight {
    const OFFSET: f32 = 128.0;
    const ROWS: usize = 32;
    type First = Signed;
    type Second = Signed;
}

impl<S: Simd> Packing<S> for Four {
    const OFFSET: f32 = 0.0;
    const ROWS: usize = 16;
    type First = Low;
    type Second = High;
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $load:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            #[repr(transparent)]
            pub struct $name(u8);

            // SAFETY: it is one.
            unsafe impl Code for $name {}

            impl<S: Simd> Stored<S, f32> for $name {
                #[inline(always)]
                unsafe fn load(simd: S, from: *const Self) -> S::F32 {
                    // SAFETY: the caller can read a vector of bytes.
                    unsafe { simd.$load(from.cast()) }
                }
                #[inline(always)]
                unsafe fn load_part(simd: S, from: *const Self, count: usize) -> S::F32 {
                    let mut bytes = [0_u8; 16];
                    assert!(count <= bytes.len() && S::LANES <= bytes.len(), "more than a vector");
                    // SAFETY: the caller can read so many, and there is room for them, and for a vector.
                    unsafe {
                        std::ptr::copy_nonoverlapping(from.cast::<u8>(), bytes.as_mut_ptr(), count);
                        simd.$load(bytes.as_ptr().cast())
                    }
                }
            }
        )*
    };
}
codes! {
    /// From -128 to 127.
    Signed: load_i8;
    /// The lower half of a byte, from 0 to 15.
    Low: load_low4;
    /// The upper half.
    High: load_high4;
}
