//! Vectors, as each instruction set has them.
//!
//! A type that implements [`Simd`] has no public constructor but `detect`, which asks the processor. Its value
//! therefore proves that the instructions are there, and only operations that touch memory remain unsafe.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

#[cfg(target_arch = "aarch64")]
pub(crate) use std::arch::is_aarch64_feature_detected as is_feature_detected;
#[cfg(target_arch = "x86_64")]
pub(crate) use std::arch::is_x86_feature_detected as is_feature_detected;

use half::{bf16, f16};

#[cfg(target_arch = "x86_64")]
pub use {
    avx2::{Avx2, Avx2Vnni},
    avx512::{Avx512, Avx512Bf16, Avx512Vnni},
};

#[cfg(target_arch = "aarch64")]
pub use neon::{Neon, NeonBf16, NeonDotprod};
pub use scalar::Scalar;

/// Something to compute with the vectors `S`.
///
/// `run` and what it calls must be `#[inline(always)]`: it is compiled inside of a function that has the instructions
/// enabled.
pub trait Kernel<S> {
    fn run(self, simd: S);
}

/// What runs a kernel: an instruction set, which finds out its vectors, or vectors that are known already.
pub trait Dispatch<K> {
    fn dispatch(self, kernel: K);
}

impl<S: Simd, K: Kernel<S>> Dispatch<K> for S {
    #[inline(always)]
    fn dispatch(self, kernel: K) {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { self.enabled(kernel) }
    }
}

/// What has instructions to enable.
pub trait Enable: Sized {
    /// Runs a kernel, compiled with these instructions.
    ///
    /// # Safety
    /// The processor has them.
    unsafe fn enabled<K: Kernel<Self>>(self, kernel: K);
}

/// Defines the traits of kernels that are compiled separately for some instruction sets: those that differ in what the
/// kernel uses. The others run the code of the set that they contain.
macro_rules! kernels_for {
    (floats: $($float:ty),+; bf16: $($bf16:ty),+; bytes: $($bytes:ty),+) => {
        /// A kernel for all sets that differ in their vectors of float32.
        pub trait FloatKernel: $(Kernel<$float> +)+ {}
        impl<K: $(Kernel<$float> +)+> FloatKernel for K {}

        /// A kernel for all sets that differ in their products of bfloat16.
        pub trait Bf16Kernel: $(Kernel<$bf16> +)+ {}
        impl<K: $(Kernel<$bf16> +)+> Bf16Kernel for K {}

        /// A kernel for all sets that differ in their products of bytes.
        pub trait ByteKernel: $(Kernel<$bytes> +)+ {}
        impl<K: $(Kernel<$bytes> +)+> ByteKernel for K {}
    };
}
#[cfg(target_arch = "x86_64")]
kernels_for!(
    floats: Scalar, Avx2, Avx512;
    bf16: Scalar, Avx2, Avx512, Avx512Bf16;
    bytes: Scalar, Avx2, Avx2Vnni, Avx512, Avx512Vnni
);
#[cfg(target_arch = "aarch64")]
kernels_for!(
    floats: Scalar, Neon;
    bf16: Scalar, Neon, NeonBf16;
    bytes: Scalar, Neon, NeonDotprod, NeonBf16
);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
kernels_for!(floats: Scalar; bf16: Scalar; bytes: Scalar);

/// Vectors of float32, of bfloat16 and of bytes, and what products need of them.
///
/// # Safety
/// A value of the type exists only on a processor that has the instructions.
pub unsafe trait Simd: Enable + Copy + Send + Sync {
    /// Whether multiply-add is one instruction. (Else it would be a slow call.)
    const FMA: bool;
    /// Rows of inputs, and of weights, that the micro-kernel takes at once: as many sums as there are registers for.
    const TILE: (usize, usize);

    /// Prefetches the memory at an address, which need not exist, into the second-level cache. The first level has room
    /// for only a few requests at a time, which the loads themselves need; prefetched there, weights arrived at 0.6 to
    /// 0.8 of the speed on a Zen 4.
    #[inline(always)]
    fn prefetch<T>(self, _: *const T) {}

    /// A vector of [`LANES`](Self::LANES) float32.
    type F32: Copy;
    const LANES: usize;
    fn splat(self, value: f32) -> Self::F32;
    #[inline(always)]
    fn zero(self) -> Self::F32 {
        self.splat(0.0)
    }
    /// `a + b`
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a * b`
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a * b + c`
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The nearest bfloat16 numbers, ties to even; NaN stays NaN.
    fn nearest_bf16(self, value: Self::F32) -> Self::F32;
    /// The sum of the lanes of each vector, added in the same order whatever the vector's place.
    fn sums(self, values: [Self::F32; 4]) -> [f32; 4];
    /// # Safety
    /// [`LANES`](Self::LANES) numbers can be read.
    unsafe fn load(self, from: *const f32) -> Self::F32;
    /// The first `count` numbers, and zeros; `count` is less than [`LANES`](Self::LANES).
    ///
    /// # Safety
    /// `count` numbers can be read.
    unsafe fn load_part(self, from: *const f32, count: usize) -> Self::F32;
    /// As [`load`](Self::load), of float16.
    ///
    /// # Safety
    /// [`LANES`](Self::LANES) numbers can be read.
    unsafe fn load_f16(self, from: *const f16) -> Self::F32;
    /// As [`load_part`](Self::load_part), of float16.
    ///
    /// # Safety
    /// `count` numbers can be read.
    unsafe fn load_f16_part(self, from: *const f16, count: usize) -> Self::F32;
    /// As [`load`](Self::load), of bytes.
    ///
    /// # Safety
    /// [`LANES`](Self::LANES) bytes can be read.
    unsafe fn load_i8(self, from: *const i8) -> Self::F32;
    /// As [`load`](Self::load), of the lower 4 bits of each byte, a number from 0 to 15.
    ///
    /// # Safety
    /// [`LANES`](Self::LANES) bytes can be read.
    unsafe fn load_low4(self, from: *const u8) -> Self::F32;
    /// As [`load_low4`](Self::load_low4), of the upper 4 bits.
    ///
    /// # Safety
    /// [`LANES`](Self::LANES) bytes can be read.
    unsafe fn load_high4(self, from: *const u8) -> Self::F32;
    /// # Safety
    /// [`LANES`](Self::LANES) numbers can be written.
    unsafe fn store(self, value: Self::F32, to: *mut f32);
    /// The first `count` numbers only; `count` is less than [`LANES`](Self::LANES).
    ///
    /// # Safety
    /// `count` numbers can be written.
    unsafe fn store_part(self, value: Self::F32, to: *mut f32, count: usize);
    /// Stores as many numbers as there is room for: at most [`LANES`](Self::LANES).
    #[inline(always)]
    fn store_in(self, value: Self::F32, out: &mut [f32]) {
        assert!(out.len() <= Self::LANES, "more numbers than a vector has");
        // SAFETY: there is room for as many numbers as `out` has, a whole vector or less.
        unsafe {
            if out.len() < Self::LANES {
                self.store_part(value, out.as_mut_ptr(), out.len());
            } else {
                self.store(value, out.as_mut_ptr());
            }
        }
    }

    /// A vector of [`BF16_LANES`](Self::BF16_LANES) bfloat16, in whatever form they are multiplied.
    type Bf16: Copy;
    const BF16_LANES: usize;
    /// Adds the products of `a` and `b` to the sums in `c`, in float32.
    fn bf16_dot(self, a: Self::Bf16, b: Self::Bf16, c: Self::F32) -> Self::F32;
    /// # Safety
    /// [`BF16_LANES`](Self::BF16_LANES) numbers can be read.
    unsafe fn load_bf16(self, from: *const bf16) -> Self::Bf16;
    /// The first `count` numbers, and zeros; `count` is less than [`BF16_LANES`](Self::BF16_LANES).
    ///
    /// # Safety
    /// `count` numbers can be read.
    unsafe fn load_bf16_part(self, from: *const bf16, count: usize) -> Self::Bf16;

    /// [`BYTES`](Self::BYTES) bytes, in whatever form they are multiplied.
    type Bytes: Copy;
    const BYTES: usize;
    /// [`TILE`](Self::TILE) of products of bytes.
    const BYTE_TILE: (usize, usize) = Self::TILE;
    /// Whether the first factor of [`byte_dot`](Self::byte_dot) is taken as a number from 0 to 255.
    const UNSIGNED: bool;
    /// Whether [`byte_dot`](Self::byte_dot) inverts `b` where `a` is negative, which makes it -`b` - 1: the products
    /// that it adds there are too small by the magnitude of `a`.
    const INVERTS: bool = false;
    /// Sums of products of bytes, in int32.
    type I32: Copy;
    fn zero_i32(self) -> Self::I32;
    /// Adds the products of `a`, which is unsigned where [`UNSIGNED`](Self::UNSIGNED) says so, and `b` to the sums in
    /// `c`, exactly (modulo 2^32) except for what [`INVERTS`](Self::INVERTS) says. A signed `a` is at least -127, as
    /// rounding leaves it.
    fn byte_dot(self, a: Self::Bytes, b: Self::Bytes, c: Self::I32) -> Self::I32;
    /// The sum of the lanes of each.
    fn sums_i32(self, values: [Self::I32; 4]) -> [i32; 4];
    /// # Safety
    /// [`BYTES`](Self::BYTES) bytes can be read.
    unsafe fn load_bytes(self, from: *const i8) -> Self::Bytes;
    /// The first `count` bytes, and zeros; `count` is less than [`BYTES`](Self::BYTES).
    ///
    /// # Safety
    /// `count` bytes can be read.
    unsafe fn load_bytes_part(self, from: *const i8, count: usize) -> Self::Bytes;
    /// Converts sums to float32; there are [`LANES`](Self::LANES) of them.
    fn to_f32(self, sums: Self::I32) -> Self::F32;
}

/// How far behind an input its mask is, see [`PanelDots::SPLITS`].
pub const MASKS_AFTER: usize = 32;

/// Products of a vector of cells, a lane for each row, with inputs that are the same for all rows. A cell is 4 codes.
pub trait PanelDots: Simd {
    /// A vector of cells.
    type Cells: Copy;
    /// # Safety
    /// 4 times [`LANES`](Simd::LANES) bytes can be read.
    unsafe fn load_codes(self, from: *const u8) -> Self::Cells;
    /// The lower and the upper halves of codes, each as a number from 0 to 15.
    fn split(self, codes: Self::Cells) -> (Self::Cells, Self::Cells);
    /// Whether [`dots`](Self::dots) of 8 bits takes inputs as magnitudes and, [`MASKS_AFTER`] bytes later, masks.
    const SPLITS: bool = false;
    /// Codes from 0 to 15, plus 16 times the two bits at place `part`, from 0 to 3, of the same byte of `upper`.
    fn with_upper(self, codes: Self::Cells, upper: Self::Cells, part: usize) -> Self::Cells;
    /// Adds the products of 16 codes of 4, 6 or 8 bits for each lane and of as many inputs, which are at least -127, to the
    /// sums in `c`, exactly.
    ///
    /// Codes of 8 bits are stored increased by 128, and remain so where [`UNSIGNED`](Simd::UNSIGNED) says so. Where
    /// [`SPLITS`](Self::SPLITS) holds, the magnitude of each of their inputs has a mask: 0x80, which gives a code its sign
    /// back, or 0x7F for a negative input, which makes -`code` - 1 of it. That product is too small by the magnitude.
    ///
    /// # Safety
    /// 16 bytes can be read, and another 16 that begin [`MASKS_AFTER`] bytes later where there are masks.
    unsafe fn dots<const BITS: usize>(self, codes: [Self::Cells; 4], inputs: *const i8, c: Self::I32) -> Self::I32;
    /// Writes 32 codes of 8 bits of each of 16 rows as a block of a panel: (8, 16, 4), increased by 128.
    ///
    /// # Safety
    /// 32 bytes can be read from each row, and 512 written.
    #[inline(always)]
    unsafe fn gather_block(self, rows: &[*const u8; 16], to: *mut u8) {
        for (lane, row) in rows.iter().enumerate() {
            for part in 0..8 {
                // SAFETY: the caller vouches for the memory.
                unsafe {
                    let cell = row.add(4 * part).cast::<[u8; 4]>().read();
                    to.add(4 * (16 * part + lane)).cast::<[u8; 4]>().write(cell.map(|code| code ^ 0x80));
                }
            }
        }
    }
    /// Writes a number in float16, the lower byte first, of each of 16 rows as float32.
    ///
    /// # Safety
    /// 2 bytes can be read from each row, and 16 numbers written.
    #[inline(always)]
    unsafe fn gather_f16(self, rows: &[*const u8; 16], to: *mut f32) {
        for (lane, row) in rows.iter().enumerate() {
            // SAFETY: the caller vouches for the memory.
            unsafe { to.add(lane).write(f16::from_le_bytes(row.cast::<[u8; 2]>().read()).to_f32()) };
        }
    }
    /// Codes of 0.
    #[inline(always)]
    fn no_codes(self) -> Self::Cells {
        // SAFETY: a vector of zeros is as long as the longest of `Cells`.
        unsafe { self.load_codes([0; 64].as_ptr()) }
    }
    fn splat_i32(self, value: i32) -> Self::I32;
}

/// The same address, in a register of its own. Where several addresses advance together, the compiler makes one index of
/// them, and Intel's processors split an instruction in two that multiplies what it reads at an address and an index.
#[cfg_attr(
    target_arch = "x86_64",
    expect(clippy::pointers_in_nomem_asm_block, reason = "the address itself is all that passes through")
)]
#[inline(always)]
pub fn in_register<T>(address: *const T) -> *const T {
    #[cfg(target_arch = "x86_64")]
    {
        let mut address = address;
        // SAFETY: there is no instruction.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) address, options(pure, nomem, nostack, preserves_flags)) };
        address
    }
    #[cfg(not(target_arch = "x86_64"))]
    address
}

/// Writes float16 as float32.
#[inline(always)]
pub fn widen<S: Simd>(simd: S, from: &[f16], to: &mut [f32]) {
    assert_eq!(from.len(), to.len(), "float16 and float32");
    let (mut vectors, mut room) = (from.chunks_exact(S::LANES), to.chunks_exact_mut(S::LANES));
    for (from, to) in vectors.by_ref().zip(room.by_ref()) {
        // SAFETY: both have a vector.
        unsafe { simd.store(simd.load_f16(from.as_ptr()), to.as_mut_ptr()) };
    }
    for (from, to) in vectors.remainder().iter().zip(room.into_remainder()) {
        *to = from.to_f32();
    }
}

/// A table of trait functions that are one expression each, mostly of intrinsics.
///
/// It is used inside an `impl Simd`, whose `self` proves that the instructions are there; the functions that are marked
/// `unsafe` read or write the memory that their contract in [`Simd`] names, and no other.
macro_rules! intrinsics {
    () => {};
    (fn $name:ident($($arg:tt: $ty:ty),*) -> $result:ty = $body:expr; $($rest:tt)*) => {
        #[allow(unused_unsafe, reason = "one number at a time takes no intrinsics")]
        #[inline(always)]
        fn $name(self, $($arg: $ty),*) -> $result {
            // SAFETY: `self` exists, so the processor has these instructions; nothing here touches memory.
            unsafe { $body }
        }
        intrinsics!($($rest)*);
    };
    (unsafe fn $name:ident($($arg:tt: $ty:ty),*) $(-> $result:ty)? = $body:expr; $($rest:tt)*) => {
        #[allow(unused_unsafe, reason = "part of a vector of one number is none of it")]
        #[inline(always)]
        unsafe fn $name(self, $($arg: $ty),*) $(-> $result)? {
            // SAFETY: `self` exists, so the processor has these instructions; the caller vouches for the memory.
            unsafe { $body }
        }
        intrinsics!($($rest)*);
    };
}
use intrinsics;

/// The first `count` of `N` numbers, and zeros, for instruction sets that cannot leave lanes out.
///
/// # Safety
/// `count` numbers can be read; `count` is at most `N`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
unsafe fn padded<T: Copy + Default, const N: usize>(from: *const T, count: usize) -> [T; N] {
    let mut padded = [T::default(); N];
    // SAFETY: the caller's promise; `padded` has room for `N`.
    unsafe { std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count) };
    padded
}

/// A type of vectors, and the features that it stands for: `detect` is its only constructor.
macro_rules! vectors_of {
    ($(#[$doc:meta])* $name:ident, $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// The instruction set, if this processor has it.
            pub fn detect() -> Option<Self> {
                ($($crate::simd::is_feature_detected!($feature))&&+).then_some(Self(()))
            }
        }

        impl Enable for $name {
            $(#[target_feature(enable = $feature)])+
            unsafe fn enabled<K: Kernel<Self>>(self, kernel: K) {
                kernel.run(self);
            }
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use vectors_of;
