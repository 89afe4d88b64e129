//! How much arithmetic a processor does in a second when it waits for nothing: the flat part of a roofline.

use std::hint::black_box;
use std::ops::Range;

use half::bf16;

#[cfg(target_arch = "x86_64")]
use crate::amx::{Amx, TileNumber};
use crate::isa::Isa;
use crate::scratch::Aligned;
use crate::simd::{Dispatch, Kernel, Simd};
use crate::threads::ThreadScope;

/// What is multiplied; sums are in float32, or in int32 for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factors {
    /// float32
    Float32,
    /// bfloat16: widened to float32 where the processor has no products of them.
    BFloat16,
    /// int8
    Int8,
}

/// Rows of inputs and of weights of a tile: a dozen sums, which hide how long each addition takes.
const TILE: (usize, usize) = (4, 3);
/// Vectors of each row: all of a tile's lie in the first-level cache.
const STEPS: usize = 16;
/// Bytes of all vectors of the longest kind.
const FACTORS: usize = (TILE.0 + TILE.1) * STEPS * 64;

/// Multiplies a tile of factors, which lie in the first-level cache, with each other `passes` times, on all threads of
/// the scope together and with its instruction set; returns how many multiply-adds that took. All that a product of
/// matrices does besides is left out: no memory, no conversion, no last addition.
pub fn multiply_adds(scope: &ThreadScope, factors: Factors, passes: u32) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if let Isa::Amx(amx) = scope.isa() {
        match factors {
            Factors::BFloat16 if amx.ever_takes() => return in_tiles::<bf16>(scope, amx, passes),
            Factors::Int8 if amx.ever_takes_bytes() => return in_tiles::<i8>(scope, amx, passes),
            _ => (),
        }
    }
    let isa = scope.isa().without_tiles();
    let mut lanes = 0;
    run(isa, factors, 0, &mut lanes);
    let work = TILE.0 * TILE.1 * STEPS * lanes;
    scope.split(passes as usize, 1, work, &|passes: Range<usize>| run(isa, factors, passes.len(), &mut 0));
    u64::from(passes) * work as u64
}

/// The same in Intel's tiles, loading which is part of it.
#[cfg(target_arch = "x86_64")]
fn in_tiles<T: TileNumber>(scope: &ThreadScope, amx: Amx, passes: u32) -> u64 {
    let work = amx.multiply_adds::<T>(0);
    scope.split(passes as usize, 1, work, &|passes: Range<usize>| {
        amx.multiply_adds::<T>(passes.len());
    });
    u64::from(passes) * work as u64
}

/// Multiplies on one thread, and says how many factors a vector holds.
fn run(isa: Isa, factors: Factors, passes: usize, lanes: &mut usize) {
    match factors {
        Factors::Float32 => isa.dispatch(Float32 { passes, lanes }),
        Factors::BFloat16 => isa.dispatch_bf16(BFloat16 { passes, lanes }),
        Factors::Int8 => isa.dispatch_bytes(Int8 { passes, lanes }),
    }
}

/// A kernel that multiplies tiles of one kind of number.
macro_rules! tiles {
    ($name:ident, $number:ty, $one:expr, $lanes:ident, $zero:ident, $load:ident, $dot:ident) => {
        struct $name<'a> {
            passes: usize,
            /// Where the factors of a vector are counted.
            lanes: &'a mut usize,
        }

        impl<S: Simd> Kernel<S> for $name<'_> {
            #[inline(always)]
            fn run(self, simd: S) {
                *self.lanes = S::$lanes;
                // Loads of vectors that lie in two cache lines would be the limit.
                let factors = Aligned([$one; FACTORS / size_of::<$number>()]);
                let mut sums = [[simd.$zero(); TILE.1]; TILE.0];
                for _ in 0..self.passes {
                    // What is read here could be anything, as far as the compiler knows.
                    let mut at = black_box(&factors).0.as_ptr();
                    for _ in 0..STEPS {
                        // SAFETY: the vectors of all steps are at most as long as `factors`; `at` stays within.
                        unsafe {
                            // Not by a closure, which would be compiled without the instructions.
                            let mut weights = [simd.$load(at); TILE.1];
                            for weight in &mut weights {
                                *weight = simd.$load(at);
                                at = at.add(S::$lanes);
                            }
                            for sums in &mut sums {
                                let input = simd.$load(at);
                                at = at.add(S::$lanes);
                                for (sum, &weight) in sums.iter_mut().zip(&weights) {
                                    *sum = simd.$dot(input, weight, *sum);
                                }
                            }
                        }
                    }
                }
                black_box(sums);
            }
        }
    };
}
tiles!(Float32, f32, 1.0_f32, LANES, zero, load, mul_add);
tiles!(BFloat16, bf16, bf16::ONE, BF16_LANES, zero, load_bf16, bf16_dot);
tiles!(Int8, i8, 1_i8, BYTES, zero_i32, load_bytes, byte_dot);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, thread_scope};

    #[test]
    fn as_many_are_counted_as_the_vectors_hold() {
        for isa in Isa::available() {
            let scope = thread_scope().with_isa(isa);
            for factors in [Factors::Float32, Factors::BFloat16, Factors::Int8] {
                assert_eq!(multiply_adds(&scope, factors, 0), 0);
                let one = multiply_adds(&scope, factors, 1);
                let size = if factors == Factors::Float32 { 4 } else { 1 };
                if isa.name() == "amx" && size == 1 {
                    // 32 rows with 32, in 16 steps of 64 bytes. Fewer passes, for they may be emulated.
                    let of_step = if factors == Factors::Int8 { 64 } else { 32 };
                    assert_eq!(one, 32 * 32 * 16 * of_step, "{factors:?}");
                    assert_eq!(multiply_adds(&scope, factors, 20), 20 * one);
                    continue;
                }
                assert_eq!(multiply_adds(&scope, factors, 1000), 1000 * one);
                let lanes = one as usize / (TILE.0 * TILE.1 * STEPS);
                assert!(lanes > 0 && lanes * size <= 64, "{isa} {factors:?}: {lanes}");
            }
        }
    }
}
