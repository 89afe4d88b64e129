//! [`Simd`] for x86 processors with vectors of 512 bits.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Enable, Kernel, MASKS_AFTER, PanelDots, Simd, intrinsics, vectors_of};

vectors_of!(
    /// Vectors of 16 float32 (Intel servers since 2017).
    Avx512, "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"
);
vectors_of!(
    /// The same, and products of 64 bytes (Intel since 2019).
    Avx512Vnni, "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"
);
vectors_of!(
    /// The same, and products of 32 bfloat16 (some Intel servers since 2020, AMD since 2022).
    Avx512Bf16, "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"
);

impl Avx512Vnni {
    /// The instruction set that this one contains.
    pub fn base(self) -> Avx512 {
        Avx512(())
    }
}

impl Avx512Bf16 {
    /// The instruction set that this one contains.
    pub fn base(self) -> Avx512Vnni {
        Avx512Vnni(())
    }
}

/// What all three have: float32, and int32 sums.
macro_rules! float32 {
    () => {
        const FMA: bool = true;
        const TILE: (usize, usize) = (4, 6);

        #[inline(always)]
        fn prefetch<T>(self, from: *const T) {
            // SAFETY: a hint, which reads nothing; every x86-64 processor has it.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
        }

        type F32 = __m512;
        const LANES: usize = 16;
        type I32 = __m512i;
        intrinsics! {
            fn splat(value: f32) -> __m512 = _mm512_set1_ps(value);
            fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
            fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
            fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
            fn nearest_bf16(value: __m512) -> __m512 = nearest(value);
            fn sums(values: [__m512; 4]) -> [f32; 4] = sums(values);
            unsafe fn load(from: *const f32) -> __m512 = _mm512_loadu_ps(from);
            unsafe fn load_part(from: *const f32, count: usize) -> __m512 = _mm512_maskz_loadu_ps(mask16(count), from);
            unsafe fn load_f16(from: *const f16) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
            unsafe fn load_f16_part(from: *const f16, count: usize) -> __m512 =
                _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask16(count), from.cast()));
            unsafe fn load_i8(from: *const i8) -> __m512 =
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())));
            unsafe fn load_low4(from: *const u8) -> __m512 =
                _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())), _mm512_set1_epi32(15)));
            unsafe fn load_high4(from: *const u8) -> __m512 =
                _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))));
            unsafe fn store(value: __m512, to: *mut f32) = _mm512_storeu_ps(to, value);
            unsafe fn store_part(value: __m512, to: *mut f32, count: usize) =
                _mm512_mask_storeu_ps(to, mask16(count), value);

            fn zero_i32() -> __m512i = _mm512_setzero_si512();
            fn sums_i32(values: [__m512i; 4]) -> [i32; 4] = sums_i32(values);
            fn to_f32(sums: __m512i) -> __m512 = _mm512_cvtepi32_ps(sums);
        }
    };
}

/// Unsigned bytes by signed bytes, added to int32 in one instruction.
macro_rules! vnni {
    () => {
        type Bytes = __m512i;
        const BYTES: usize = 64;
        const UNSIGNED: bool = true;
        intrinsics! {
            fn byte_dot(a: __m512i, b: __m512i, c: __m512i) -> __m512i = _mm512_dpbusd_epi32(c, a, b);
            unsafe fn load_bytes(from: *const i8) -> __m512i = _mm512_loadu_si512(from.cast());
            unsafe fn load_bytes_part(from: *const i8, count: usize) -> __m512i =
                _mm512_maskz_loadu_epi8((1 << count) - 1, from);
        }
    };
}

/// Without an instruction for them, bfloat16 numbers are multiplied in float32.
macro_rules! widened_bfloat16 {
    () => {
        type Bf16 = __m512;
        const BF16_LANES: usize = 16;
        intrinsics! {
            fn bf16_dot(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
            unsafe fn load_bf16(from: *const bf16) -> __m512 = widen(_mm256_loadu_si256(from.cast()));
            unsafe fn load_bf16_part(from: *const bf16, count: usize) -> __m512 =
                widen(_mm256_maskz_loadu_epi16(mask16(count), from.cast()));
        }
    };
}

// SAFETY: `Avx512::detect` is the only constructor.
unsafe impl Simd for Avx512 {
    float32!();
    widened_bfloat16!();

    /// Widened to 16 bits.
    type Bytes = __m512i;
    const BYTES: usize = 32;
    const UNSIGNED: bool = false;
    intrinsics! {
        fn byte_dot(a: __m512i, b: __m512i, c: __m512i) -> __m512i = _mm512_add_epi32(_mm512_madd_epi16(a, b), c);
        unsafe fn load_bytes(from: *const i8) -> __m512i = _mm512_cvtepi8_epi16(_mm256_loadu_si256(from.cast()));
        unsafe fn load_bytes_part(from: *const i8, count: usize) -> __m512i =
            _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((1 << count) - 1, from));
    }
}

// SAFETY: `Avx512Vnni::detect` is the only constructor.
unsafe impl Simd for Avx512Vnni {
    float32!();
    widened_bfloat16!();
    vnni!();
}

// SAFETY: `Avx512Bf16::detect` is the only constructor.
unsafe impl Simd for Avx512Bf16 {
    float32!();
    vnni!();

    type Bf16 = __m512i;
    const BF16_LANES: usize = 32;
    intrinsics! {
        fn bf16_dot(a: __m512i, b: __m512i, c: __m512) -> __m512 = _mm512_dpbf16_ps(c, bf16s(a), bf16s(b));
        unsafe fn load_bf16(from: *const bf16) -> __m512i = _mm512_loadu_si512(from.cast());
        unsafe fn load_bf16_part(from: *const bf16, count: usize) -> __m512i =
            _mm512_maskz_loadu_epi16((1_u32 << count) - 1, from.cast());
    }
}

/// What all share of [`PanelDots`].
macro_rules! cells {
    () => {
        type Cells = __m512i;
        intrinsics! {
            unsafe fn load_codes(from: *const u8) -> __m512i = _mm512_loadu_si512(from.cast());
            fn split(codes: __m512i) -> (__m512i, __m512i) = halves(codes);
            fn with_upper(codes: __m512i, upper: __m512i, part: usize) -> __m512i = with_upper(codes, upper, part);
            unsafe fn gather_f16(rows: &[*const u8; 16], to: *mut f32) = super::avx2::gather_f16(rows, to);
            unsafe fn gather_block(rows: &[*const u8; 16], to: *mut u8) = super::avx2::gather_block(rows, to);
            fn splat_i32(value: i32) -> __m512i = _mm512_set1_epi32(value);
        }
    };
}

impl PanelDots for Avx512 {
    cells!();

    const SPLITS: bool = true;
    #[inline(always)]
    unsafe fn dots<const BITS: usize>(self, codes: [__m512i; 4], inputs: *const i8, c: __m512i) -> __m512i {
        // SAFETY: `self` exists, so the processor has the instructions; the caller vouches for the memory.
        unsafe {
            let four = |from: *const i8| from.cast::<[i32; 4]>().read_unaligned();
            match BITS {
                4 => small_dots(codes, four(inputs), c),
                6 => medium_dots(codes, four(inputs), c),
                _ => code_dots(codes, four(inputs), four(inputs.add(MASKS_AFTER)), c),
            }
        }
    }
}

impl PanelDots for Avx512Vnni {
    cells!();

    #[inline(always)]
    unsafe fn dots<const BITS: usize>(self, codes: [__m512i; 4], inputs: *const i8, mut c: __m512i) -> __m512i {
        for (part, codes) in codes.into_iter().enumerate() {
            // SAFETY: `self` exists, so the processor has the instructions; four bytes of the 16 are read for each part.
            let four = unsafe { _mm512_set1_epi32(inputs.cast::<i32>().add(part).read_unaligned()) };
            c = self.byte_dot(codes, four, c);
        }
        c
    }
}

/// The sums of eight products, 8 * 15 * 127 at most, fit in 16 bits.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn small_dots(codes: [__m512i; 4], inputs: [i32; 4], c: __m512i) -> __m512i {
    let products = |part: usize| _mm512_maddubs_epi16(codes[part], _mm512_set1_epi32(inputs[part]));
    let firsts = _mm512_add_epi16(products(0), products(1));
    let sums = _mm512_add_epi16(firsts, _mm512_add_epi16(products(2), products(3)));
    _mm512_add_epi32(c, _mm512_madd_epi16(sums, _mm512_set1_epi16(1)))
}

/// The sums of four products, 4 * 63 * 127 at most, fit in 16 bits.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn medium_dots(codes: [__m512i; 4], inputs: [i32; 4], c: __m512i) -> __m512i {
    let products = |part: usize| _mm512_maddubs_epi16(codes[part], _mm512_set1_epi32(inputs[part]));
    let wide = |sums: __m512i| _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
    let (first, second) = (_mm512_add_epi16(products(0), products(1)), _mm512_add_epi16(products(2), products(3)));
    _mm512_add_epi32(c, _mm512_add_epi32(wide(first), wide(second)))
}

/// The sums of two products, 2 * 127 * 128 at most, fit in 16 bits.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn code_dots(codes: [__m512i; 4], inputs: [i32; 4], masks: [i32; 4], mut c: __m512i) -> __m512i {
    for part in 0..4 {
        let codes = _mm512_xor_si512(codes[part], _mm512_set1_epi32(masks[part]));
        let sums = _mm512_maddubs_epi16(_mm512_set1_epi32(inputs[part]), codes);
        c = _mm512_add_epi32(c, _mm512_madd_epi16(sums, _mm512_set1_epi16(1)));
    }
    c
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn halves(bytes: __m512i) -> (__m512i, __m512i) {
    let mask = _mm512_set1_epi8(15);
    (_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask))
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn with_upper(codes: __m512i, upper: __m512i, part: usize) -> __m512i {
    let moved = match part {
        0 => _mm512_slli_epi16::<4>(upper),
        1 => _mm512_slli_epi16::<2>(upper),
        2 => upper,
        _ => _mm512_srli_epi16::<2>(upper),
    };
    _mm512_or_si512(codes, _mm512_and_si512(moved, _mm512_set1_epi8(0x30)))
}

/// A mask of the first `count` lanes, less than 16.
#[inline(always)]
fn mask16(count: usize) -> __mmask16 {
    (1_u16 << count) - 1
}

#[inline(always)]
fn bf16s(bits: __m512i) -> __m512bh {
    // SAFETY: the types differ in name only: both are 512 bits.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}

/// A bfloat16 is the upper half of a float32.
#[target_feature(enable = "avx512f")]
#[inline]
fn widen(narrow: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(narrow)))
}

/// Adds half a step, or a little less if the last bit that remains is even.
#[target_feature(enable = "avx512f")]
#[inline]
fn nearest(value: __m512) -> __m512 {
    let bits = _mm512_castps_si512(value);
    let last = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let more = _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7FFF)));
    let nearest = _mm512_castsi512_ps(_mm512_and_si512(more, _mm512_set1_epi32(!0xFFFF)));
    _mm512_mask_mov_ps(nearest, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value), value)
}

/// Each step adds the two halves of what is left, for two or four vectors at once.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn sums([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
    let abcd = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
    let eight = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps::<1>(abcd));
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let mut sums = [0.0; 4];
    // SAFETY: `sums` has room for a vector of 4.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), four) };
    sums
}

/// As [`sums`].
#[target_feature(enable = "avx512f,avx2")]
#[inline]
fn sums_i32([a, b, c, d]: [__m512i; 4]) -> [i32; 4] {
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    let abcd = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    let eight = _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64::<1>(abcd));
    let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
    let mut sums = [0; 4];
    // SAFETY: `sums` has room for a vector of 4.
    unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), four) };
    sums
}
