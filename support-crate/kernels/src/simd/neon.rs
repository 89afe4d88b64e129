//! [`Simd`] for ARM64 processors: vectors of 128 bits.
//!
//! Stable Rust lacks the intrinsics of `sdot` and `bfdot`; here they are instructions of `asm!`.

use std::arch::aarch64::*;
use std::arch::asm;

use half::{bf16, f16};

use super::{Enable, Kernel, PanelDots, Simd, intrinsics, padded, vectors_of};

vectors_of!(
    /// Vectors of 4 float32.
    Neon, "neon"
);
vectors_of!(
    /// The same, and products of 16 bytes.
    NeonDotprod, "neon", "dotprod"
);
vectors_of!(
    /// The same, and products of 8 bfloat16, and of two rows of 8 bytes with two.
    NeonBf16, "neon", "dotprod", "bf16", "i8mm"
);

impl NeonDotprod {
    /// The instruction set that this one contains.
    pub fn base(self) -> Neon {
        Neon(())
    }
}

impl NeonBf16 {
    /// The instruction set that this one contains.
    pub fn base(self) -> NeonDotprod {
        NeonDotprod(())
    }
}

/// What all have: float32.
macro_rules! float32 {
    () => {
        const FMA: bool = true;
        // 24 of 32 registers for sums, 4 for inputs, one for a row of weights.
        const TILE: (usize, usize) = (4, 6);

        type F32 = float32x4_t;
        const LANES: usize = 4;
        intrinsics! {
            fn splat(value: f32) -> float32x4_t = vdupq_n_f32(value);
            fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
            fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
            fn mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
            fn nearest_bf16(value: float32x4_t) -> float32x4_t = nearest(value);
            fn sums(values: [float32x4_t; 4]) -> [f32; 4] = sums(values);
            unsafe fn load(from: *const f32) -> float32x4_t = vld1q_f32(from);
            unsafe fn load_part(from: *const f32, count: usize) -> float32x4_t =
                vld1q_f32(padded::<f32, 4>(from, count).as_ptr());
            unsafe fn load_f16(from: *const f16) -> float32x4_t = widen_f16(vld1_u16(from.cast()));
            unsafe fn load_f16_part(from: *const f16, count: usize) -> float32x4_t =
                widen_f16(vld1_u16(padded::<f16, 4>(from, count).as_ptr().cast()));
            unsafe fn load_i8(from: *const i8) -> float32x4_t = widen_i8(vdup_n_s32(from.cast::<i32>().read_unaligned()));
            unsafe fn load_low4(from: *const u8) -> float32x4_t =
                widen_i8(vdup_n_s32(from.cast::<i32>().read_unaligned() & 0x0F0F_0F0F));
            unsafe fn load_high4(from: *const u8) -> float32x4_t =
                widen_i8(vdup_n_s32((from.cast::<i32>().read_unaligned() >> 4) & 0x0F0F_0F0F));
            unsafe fn store(value: float32x4_t, to: *mut f32) = vst1q_f32(to, value);
            unsafe fn store_part(value: float32x4_t, to: *mut f32, count: usize) = store_part(value, to, count);
        }
    };
}

/// Bfloat16 is widened to float32.
macro_rules! widened_bf16 {
    () => {
        type Bf16 = float32x4_t;
        const BF16_LANES: usize = 4;
        intrinsics! {
            fn bf16_dot(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
            unsafe fn load_bf16(from: *const bf16) -> float32x4_t = widen(vld1_u16(from.cast()));
            unsafe fn load_bf16_part(from: *const bf16, count: usize) -> float32x4_t =
                widen(vld1_u16(padded::<bf16, 4>(from, count).as_ptr().cast()));
        }
    };
}

/// Bytes are multiplied 16 at a time, however that is done.
macro_rules! bytes {
    ($dot:ident) => {
        type Bytes = int8x16_t;
        const BYTES: usize = 16;
        const UNSIGNED: bool = false;
        type I32 = int32x4_t;
        intrinsics! {
            fn zero_i32() -> int32x4_t = vdupq_n_s32(0);
            fn byte_dot(a: int8x16_t, b: int8x16_t, c: int32x4_t) -> int32x4_t = $dot(a, b, c);
            fn sums_i32(values: [int32x4_t; 4]) -> [i32; 4] = sums_i32(values);
            unsafe fn load_bytes(from: *const i8) -> int8x16_t = vld1q_s8(from);
            unsafe fn load_bytes_part(from: *const i8, count: usize) -> int8x16_t =
                vld1q_s8(padded::<i8, 16>(from, count).as_ptr());
            fn to_f32(sums: int32x4_t) -> float32x4_t = vcvtq_f32_s32(sums);
        }
    };
}

// SAFETY: `Neon::detect` is the only constructor.
unsafe impl Simd for Neon {
    float32!();
    widened_bf16!();
    bytes!(widening_dot);
}

// SAFETY: `NeonDotprod::detect` is the only constructor.
unsafe impl Simd for NeonDotprod {
    float32!();
    widened_bf16!();
    bytes!(sdot);
}

// SAFETY: `NeonBf16::detect` is the only constructor.
unsafe impl Simd for NeonBf16 {
    float32!();
    bytes!(sdot);

    type Bf16 = uint16x8_t;
    const BF16_LANES: usize = 8;
    intrinsics! {
        fn bf16_dot(a: uint16x8_t, b: uint16x8_t, c: float32x4_t) -> float32x4_t = bfdot(a, b, c);
        unsafe fn load_bf16(from: *const bf16) -> uint16x8_t = vld1q_u16(from.cast());
        unsafe fn load_bf16_part(from: *const bf16, count: usize) -> uint16x8_t =
            vld1q_u16(padded::<bf16, 8>(from, count).as_ptr().cast());
    }
}

macro_rules! panel_dots {
    ($($simd:ty, $dot:ident;)+) => {
        $(impl PanelDots for $simd {
            type Cells = int8x16_t;
            intrinsics! {
                unsafe fn load_codes(from: *const u8) -> int8x16_t = vld1q_s8(from.cast());
                fn split(codes: int8x16_t) -> (int8x16_t, int8x16_t) = halves(vreinterpretq_u8_s8(codes));
                fn with_upper(codes: int8x16_t, upper: int8x16_t, part: usize) -> int8x16_t =
                    with_upper(codes, vreinterpretq_u8_s8(upper), part);
                unsafe fn gather_block(rows: &[*const u8; 16], to: *mut u8) = gather_block(rows, to);
                fn splat_i32(value: i32) -> int32x4_t = vdupq_n_s32(value);
            }

            #[inline(always)]
            unsafe fn dots<const BITS: usize>(
                self,
                codes: [int8x16_t; 4],
                inputs: *const i8,
                mut c: int32x4_t,
            ) -> int32x4_t {
                for (part, codes) in codes.into_iter().enumerate() {
                    // SAFETY: `self` exists, so the processor has the instructions; the caller vouches for the memory.
                    unsafe {
                        let four = vdupq_n_s32(inputs.cast::<i32>().add(part).read_unaligned());
                        let codes = if BITS == 8 { veorq_s8(codes, vdupq_n_s8(i8::MIN)) } else { codes };
                        c = $dot(vreinterpretq_s8_s32(four), codes, c);
                    }
                }
                c
            }
        })+
    };
}
panel_dots!(
    Neon, dot_of_neighbours;
    NeonDotprod, sdot;
    NeonBf16, sdot;
);

/// [`PanelDots::gather_block`]: 4 rows of 4 cells become 4 columns, until all are there.
///
/// # Safety
/// 32 bytes can be read from each row, and 512 written.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn gather_block(rows: &[*const u8; 16], to: *mut u8) {
    for (lane, rows) in (0..16).step_by(4).zip(rows.chunks_exact(4)) {
        for part in [0, 4] {
            // SAFETY: the caller vouches for the memory.
            let row = |i: usize| unsafe { vreinterpretq_s32_u8(vld1q_u8(rows[i].add(4 * part))) };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab, cd) = (vreinterpretq_s64_s32(vtrn1q_s32(a, b)), vreinterpretq_s64_s32(vtrn1q_s32(c, d)));
            let (ab_more, cd_more) = (vreinterpretq_s64_s32(vtrn2q_s32(a, b)), vreinterpretq_s64_s32(vtrn2q_s32(c, d)));
            let columns =
                [vtrn1q_s64(ab, cd), vtrn1q_s64(ab_more, cd_more), vtrn2q_s64(ab, cd), vtrn2q_s64(ab_more, cd_more)];
            for (column, cells) in columns.into_iter().enumerate() {
                let codes = veorq_u8(vreinterpretq_u8_s64(cells), vdupq_n_u8(0x80));
                // SAFETY: the caller vouches for the memory.
                unsafe { vst1q_u8(to.add(4 * (16 * (part + column) + lane)), codes) };
            }
        }
    }
}

#[target_feature(enable = "neon")]
#[inline]
fn halves(bytes: uint8x16_t) -> (int8x16_t, int8x16_t) {
    (vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8::<4>(bytes)))
}

#[target_feature(enable = "neon")]
#[inline]
fn with_upper(codes: int8x16_t, upper: uint8x16_t, part: usize) -> int8x16_t {
    let moved = match part {
        0 => vshlq_n_u8::<4>(upper),
        1 => vshlq_n_u8::<2>(upper),
        2 => upper,
        _ => vshrq_n_u8::<2>(upper),
    };
    vorrq_s8(codes, vreinterpretq_s8_u8(vandq_u8(moved, vdupq_n_u8(0x30))))
}

/// Two products of bytes fit in 16 bits: none exceeds 128 * 127 in magnitude, because `a` is at most 127.
#[target_feature(enable = "neon")]
#[inline]
fn widening_dot(a: int8x16_t, b: int8x16_t, c: int32x4_t) -> int32x4_t {
    let low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    vpadalq_s16(c, vmlal_high_s8(low, a, b))
}

/// As [`sdot`], without the instruction: sums of two products fit in 16 bits, as there.
#[target_feature(enable = "neon")]
#[inline]
fn dot_of_neighbours(a: int8x16_t, b: int8x16_t, c: int32x4_t) -> int32x4_t {
    let (low, high) = (vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
    vpadalq_s16(c, vpaddq_s16(low, high))
}

/// Adds the products of 4 neighbours to each sum.
#[target_feature(enable = "dotprod")]
#[inline]
fn sdot(a: int8x16_t, b: int8x16_t, mut c: int32x4_t) -> int32x4_t {
    // SAFETY: the instruction belongs to the feature, and touches these registers only.
    unsafe {
        asm!(
            "sdot {c:v}.4s, {a:v}.16b, {b:v}.16b",
            c = inout(vreg) c,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    c
}

/// Adds the products of 2 neighbours to each sum. Both additions round to odd (an inexact sum ends in a 1: it is off by
/// less than one unit in the last place, not by half of one), and denormal numbers are taken as 0.
///
/// Source: Arm Architecture Reference Manual for A-profile, DDI 0487, `BFDOT (vector)`, without FEAT_EBF16.
#[target_feature(enable = "bf16")]
#[inline]
fn bfdot(a: uint16x8_t, b: uint16x8_t, mut c: float32x4_t) -> float32x4_t {
    // SAFETY: the instruction belongs to the feature, and touches these registers only.
    unsafe {
        asm!(
            "bfdot {c:v}.4s, {a:v}.8h, {b:v}.8h",
            c = inout(vreg) c,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    c
}

/// Float16 as float32. (The intrinsic needs a vector type that stable Rust lacks.)
#[target_feature(enable = "neon")]
#[inline]
fn widen_f16(narrow: uint16x4_t) -> float32x4_t {
    let wide: float32x4_t;
    // SAFETY: the instruction belongs to the feature, and touches these registers only.
    unsafe {
        asm!(
            "fcvtl {wide:v}.4s, {narrow:v}.4h",
            wide = out(vreg) wide, narrow = in(vreg) narrow,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    wide
}

/// The 4 bytes of the first lane.
#[target_feature(enable = "neon")]
#[inline]
fn widen_i8(narrow: int32x2_t) -> float32x4_t {
    vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(narrow)))))
}

/// A bfloat16 is the upper half of a float32.
#[target_feature(enable = "neon")]
#[inline]
fn widen(narrow: uint16x4_t) -> float32x4_t {
    vreinterpretq_f32_u32(vshll_n_u16::<16>(narrow))
}

/// Adds half a step, or a little less if the last bit that remains is even.
#[target_feature(enable = "neon")]
#[inline]
fn nearest(value: float32x4_t) -> float32x4_t {
    let bits = vreinterpretq_u32_f32(value);
    let last = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    let more = vaddq_u32(bits, vaddq_u32(last, vdupq_n_u32(0x7FFF)));
    let nearest = vreinterpretq_f32_u32(vandq_u32(more, vdupq_n_u32(!0xFFFF)));
    vbslq_f32(vceqq_f32(value, value), nearest, value)
}

/// Each step adds neighbours, of two vectors at once.
#[target_feature(enable = "neon")]
#[inline]
fn sums([a, b, c, d]: [float32x4_t; 4]) -> [f32; 4] {
    let mut sums = [0.0; 4];
    // SAFETY: `sums` has room for a vector of 4.
    unsafe { vst1q_f32(sums.as_mut_ptr(), vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d))) };
    sums
}

/// As [`sums`].
#[target_feature(enable = "neon")]
#[inline]
fn sums_i32([a, b, c, d]: [int32x4_t; 4]) -> [i32; 4] {
    let mut sums = [0; 4];
    // SAFETY: `sums` has room for a vector of 4.
    unsafe { vst1q_s32(sums.as_mut_ptr(), vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d))) };
    sums
}

/// # Safety
/// `count` numbers can be written; it is at most 4.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn store_part(value: float32x4_t, to: *mut f32, count: usize) {
    let mut lanes = [0.0; 4];
    // SAFETY: `lanes` has room for a vector, and `count` of its numbers fit at `to`.
    unsafe {
        vst1q_f32(lanes.as_mut_ptr(), value);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
    }
}
