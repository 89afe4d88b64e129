//! Vectors as instruction sets have them, and which set this processor offers.
//!
//! Kernels are written once over [`Simd`] and compiled for each instruction set behind
//! [`InstructionSet`]; the choice is made once, when the process first computes.

use std::sync::OnceLock;

use half::bf16;

use super::elementwise::nearest;
use crate::error::{Error, Result};

/// The instruction sets that kernels are compiled for, from the plainest to the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::model) enum InstructionSet {
    /// One number at a time, on any processor: what the others are tested against.
    Scalar,
    /// 8 float32 at a time (x86 since 2013).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same, and products of 32 bytes at a time (Intel since 2021, AMD since 2024).
    #[cfg(target_arch = "x86_64")]
    Avx2Vnni,
    /// 16 float32 at a time (Intel servers since 2017).
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// The same, and products of 64 bytes at a time (Intel since 2019).
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// The same, and products of 32 bfloat16 at a time (Intel servers since 2023, AMD since 2022).
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
}

/// The environment variable that names the instruction set to use instead of the fastest.
const VARIABLE: &str = "QUANTLAB_CPU_ISA";

impl InstructionSet {
    /// As [`chosen`](Self::chosen), and the fastest if the name is wrong.
    pub fn best() -> Self {
        Self::chosen().unwrap_or_else(|_| Self::fastest())
    }

    /// The one that `QUANTLAB_CPU_ISA` names when this is first asked, to see how fast products and attention would
    /// be on another processor; else the fastest of this one.
    ///
    /// # Errors
    /// A name that is none of an instruction set of this processor.
    pub fn chosen() -> Result<Self> {
        /// Of a wrong name, the name.
        static CHOSEN: OnceLock<std::result::Result<InstructionSet, String>> = OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| match std::env::var_os(VARIABLE) {
            None => Ok(Self::fastest()),
            Some(name) => Self::named(&name.to_string_lossy()).map_err(|_| name.to_string_lossy().into_owned()),
        });
        chosen.as_ref().copied().or_else(|name| Self::named(name))
    }

    fn named(name: &str) -> Result<Self> {
        let sets = Self::available();
        sets.iter().find(|set| set.name() == name).copied().ok_or_else(|| {
            let names: Vec<&str> = sets.iter().map(|set| set.name()).collect();
            Error::input(format!("{VARIABLE} is {name:?}, which names no instruction set of this processor"))
                .hint(format!("one of {}, or unset it for the fastest", names.join(", ")))
        })
    }

    fn fastest() -> Self {
        Self::available().last().copied().unwrap_or(Self::Scalar)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni => "avx2-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => "avx512-bf16",
        }
    }

    /// [`Simd::UNSIGNED`]
    pub fn takes_bytes_without_sign(self) -> bool {
        match self {
            Self::Scalar => Scalar::UNSIGNED,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::UNSIGNED,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni => Avx2Vnni::UNSIGNED,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::UNSIGNED,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => Avx512Vnni::UNSIGNED,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => Avx512Bf16::UNSIGNED,
        }
    }

    /// All that this processor has, the fastest last.
    #[cfg(target_arch = "x86_64")]
    pub fn available() -> Vec<Self> {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx2_vnni = avx2 && is_x86_feature_detected!("avxvnni");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let avx512_vnni = avx512 && is_x86_feature_detected!("avx512vnni");
        let avx512_bf16 = avx512_vnni && is_x86_feature_detected!("avx512bf16");
        let sets = [
            (true, Self::Scalar),
            (avx2, Self::Avx2),
            (avx2_vnni, Self::Avx2Vnni),
            (avx512, Self::Avx512),
            (avx512_vnni, Self::Avx512Vnni),
            (avx512_bf16, Self::Avx512Bf16),
        ];
        sets.into_iter().filter(|(there, _)| *there).map(|(_, set)| set).collect()
    }

    /// All that this processor has, the fastest last.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn available() -> Vec<Self> {
        vec![Self::Scalar]
    }
}

/// Compiles a function over `S: Simd` for one instruction set, and calls it.
///
/// `compiled_for!(Set, name::<A, B>(argument: Type, ...))` calls `name::<Vectors, A, B>(argument, ...)`; the caller has
/// seen that the processor has the set.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_for {
    (@ $set:ident, $features:literal, $body:ident $(::<$($generic:ty),+>)? ($($arg:ident: $ty:ty),*)) => {{
        #[target_feature(enable = $features)]
        unsafe fn compiled($($arg: $ty),*) {
            // SAFETY: the caller's promise; the instructions are enabled here.
            unsafe { $body::<$crate::model::cpu::simd::$set $($(, $generic)+)?>($($arg),*) }
        }
        // SAFETY: the caller's promise.
        unsafe { compiled($($arg),*) }
    }};
    (Avx2, $($call:tt)*) => { compiled_for!(@ Avx2, "avx2,fma", $($call)*) };
    (Avx2Vnni, $($call:tt)*) => { compiled_for!(@ Avx2Vnni, "avxvnni,avx2,fma", $($call)*) };
    (Avx512, $($call:tt)*) => {
        compiled_for!(@ Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", $($call)*)
    };
    (Avx512Vnni, $($call:tt)*) => {
        compiled_for!(@ Avx512Vnni, "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", $($call)*)
    };
    (Avx512Bf16, $($call:tt)*) => {
        compiled_for!(
            @ Avx512Bf16, "avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", $($call)*
        )
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use compiled_for;

/// Compiles a function over `S: Simd` for every instruction set, and calls the one that is asked for: one beyond
/// `Scalar` exists only where the processor has it.
///
/// `dispatch!(set, name::<A, B>(argument: Type, ...))` calls `name::<Vectors, A, B>(argument, ...)`.
macro_rules! dispatch {
    ($set:expr, $body:ident $(::<$($generic:ty),+>)? ($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        use $crate::model::cpu::simd::compiled_for;
        use $crate::model::cpu::simd::{InstructionSet, Scalar};
        match $set {
            // SAFETY: the caller's promise.
            InstructionSet::Scalar => unsafe { $body::<Scalar $($(, $generic)+)?>($($arg),*) },
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => compiled_for!(Avx2, $body $(::<$($generic),+>)? ($($arg: $ty),*)),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2Vnni => compiled_for!(Avx2Vnni, $body $(::<$($generic),+>)? ($($arg: $ty),*)),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => compiled_for!(Avx512, $body $(::<$($generic),+>)? ($($arg: $ty),*)),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512Vnni => compiled_for!(Avx512Vnni, $body $(::<$($generic),+>)? ($($arg: $ty),*)),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512Bf16 => compiled_for!(Avx512Bf16, $body $(::<$($generic),+>)? ($($arg: $ty),*)),
        }
    }};
}
pub(super) use dispatch;

/// Vectors of float32, and of bfloat16 for products.
///
/// # Safety
/// Every function may only be called where the processor has the instruction set, and reads or writes
/// exactly the numbers that it says.
pub(super) trait Simd: Copy {
    /// Float32 numbers in a vector.
    const LANES: usize;
    /// Rows of inputs, and of weights, that a tile of a product takes at once: as many sums as there are
    /// registers for.
    const TILE: (usize, usize);
    /// A vector of float32.
    type F32: Copy;
    /// Bfloat16 numbers that [`bf16_dot`](Self::bf16_dot) takes at once.
    const BF16_LANES: usize;
    /// A vector of that many.
    type Bf16: Copy;

    /// Asks for the memory at an address, which need not exist, before it is read.
    #[inline(always)]
    fn prefetch<T>(_: *const T) {}

    unsafe fn zero() -> Self::F32;
    unsafe fn splat(value: f32) -> Self::F32;
    unsafe fn load(from: *const f32) -> Self::F32;
    /// The first `count` numbers, and zeros; `count` is less than `LANES`.
    unsafe fn load_part(from: *const f32, count: usize) -> Self::F32;
    unsafe fn store(value: Self::F32, to: *mut f32);
    /// The first `count` numbers only.
    unsafe fn store_part(value: Self::F32, to: *mut f32, count: usize);
    unsafe fn multiply(a: Self::F32, b: Self::F32) -> Self::F32;
    /// The nearest bfloat16 numbers, ties to even; what is no number stays none.
    unsafe fn nearest_bf16(value: Self::F32) -> Self::F32;
    /// `a * b + c`.
    unsafe fn mul_add(a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The sum of the lanes of each, with additions in the same order wherever it stands.
    unsafe fn sums(values: [Self::F32; 4]) -> [f32; 4];
    /// The first lane.
    unsafe fn first(value: Self::F32) -> f32;

    /// Sums of products of bytes, in int32.
    type I32: Copy;
    /// Bytes that [`byte_dot`](Self::byte_dot) takes at once.
    const BYTES: usize;
    /// Whether the first factor of `byte_dot` is a number from 0 to 255: the instruction has it so.
    const UNSIGNED: bool;
    /// Bytes of inputs, or of weights.
    type Bytes: Copy;
    unsafe fn zero_i32() -> Self::I32;
    unsafe fn load_bytes(from: *const i8) -> Self::Bytes;
    /// The first `count` bytes, and zeros; `count` is less than `BYTES`.
    unsafe fn load_bytes_part(from: *const i8, count: usize) -> Self::Bytes;
    /// Adds the products of `a`, which is without sign where [`UNSIGNED`](Self::UNSIGNED) says so, and `b` to
    /// the sums in `c`, exactly.
    unsafe fn byte_dot(a: Self::Bytes, b: Self::Bytes, c: Self::I32) -> Self::I32;
    /// The sum of the lanes of each.
    unsafe fn sums_i32(values: [Self::I32; 4]) -> [i32; 4];

    unsafe fn load_bf16(from: *const bf16) -> Self::Bf16;
    /// The first `count` numbers, and zeros; `count` is less than `BF16_LANES`.
    unsafe fn load_bf16_part(from: *const bf16, count: usize) -> Self::Bf16;
    /// Adds the products of `a` and `b` to the sums in `c`, in float32.
    unsafe fn bf16_dot(a: Self::Bf16, b: Self::Bf16, c: Self::F32) -> Self::F32;
}

/// One number at a time.
#[derive(Clone, Copy)]
pub(super) struct Scalar;

impl Simd for Scalar {
    const LANES: usize = 1;
    const TILE: (usize, usize) = (2, 2);
    type F32 = f32;
    const BF16_LANES: usize = 1;
    type Bf16 = f32;

    #[inline(always)]
    unsafe fn zero() -> f32 {
        0.0
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> f32 {
        value
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn load_part(_: *const f32, _: usize) -> f32 {
        0.0
    }
    #[inline(always)]
    unsafe fn store(value: f32, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { *to = value }
    }
    #[inline(always)]
    unsafe fn store_part(_: f32, _: *mut f32, _: usize) {}
    #[inline(always)]
    unsafe fn multiply(a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    unsafe fn nearest_bf16(value: f32) -> f32 {
        nearest(value).to_f32()
    }
    #[inline(always)]
    unsafe fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
    #[inline(always)]
    unsafe fn sums(values: [f32; 4]) -> [f32; 4] {
        values
    }
    #[inline(always)]
    unsafe fn first(value: f32) -> f32 {
        value
    }

    type I32 = i32;
    const BYTES: usize = 1;
    const UNSIGNED: bool = false;
    type Bytes = i32;
    #[inline(always)]
    unsafe fn zero_i32() -> i32 {
        0
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const i8) -> i32 {
        // SAFETY: as above.
        i32::from(unsafe { *from })
    }
    #[inline(always)]
    unsafe fn load_bytes_part(_: *const i8, _: usize) -> i32 {
        0
    }
    #[inline(always)]
    unsafe fn byte_dot(a: i32, b: i32, c: i32) -> i32 {
        a * b + c
    }
    #[inline(always)]
    unsafe fn sums_i32(values: [i32; 4]) -> [i32; 4] {
        values
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { (*from).to_f32() }
    }
    #[inline(always)]
    unsafe fn load_bf16_part(_: *const bf16, _: usize) -> f32 {
        0.0
    }
    #[inline(always)]
    unsafe fn bf16_dot(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use {
    avx2::{Avx2, Avx2Vnni},
    avx512::{Avx512, Avx512Bf16, Avx512Vnni},
};

#[cfg(target_arch = "x86_64")]
#[path = "simd_avx2.rs"]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[path = "simd_avx512.rs"]
mod avx512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_sets_are_found_by_their_names() {
        for set in InstructionSet::available() {
            assert_eq!(InstructionSet::named(set.name()).unwrap(), set);
        }
        let error = format!("{:?}", InstructionSet::named("mmx").unwrap_err());
        assert!(error.contains("QUANTLAB_CPU_ISA") && error.contains("\"mmx\"") && error.contains("scalar"), "{error}");
    }
}
