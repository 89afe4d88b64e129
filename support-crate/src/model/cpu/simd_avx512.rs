//! [`Simd`] for x86 processors with vectors of 512 bits.
//!
//! Every function here only forwards to instructions; the safety of each call is the caller's promise
//! in [`Simd`].

use std::arch::x86_64::*;

use half::bf16;

use super::Simd;

/// Vectors of 16 float32.
#[derive(Clone, Copy)]
pub(in crate::model::cpu) struct Avx512;

/// The same, and products of 64 bytes.
#[derive(Clone, Copy)]
pub(in crate::model::cpu) struct Avx512Vnni;

/// The same, and products of 32 bfloat16.
#[derive(Clone, Copy)]
pub(in crate::model::cpu) struct Avx512Bf16;

#[inline(always)]
fn mask16(count: usize) -> __mmask16 {
    (1_u16 << count) - 1
}

macro_rules! avx512_float32 {
    () => {
        const LANES: usize = 16;
        const TILE: (usize, usize) = (4, 6);
        type F32 = __m512;

        #[inline(always)]
        fn prefetch<T>(from: *const T) {
            // SAFETY: a hint, which reads nothing; every x86-64 processor has it.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
        }

        #[inline(always)]
        unsafe fn zero() -> __m512 {
            // SAFETY: the caller's promise.
            unsafe { _mm512_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> __m512 {
            // SAFETY: as above; masked lanes are not read.
            unsafe { _mm512_maskz_loadu_ps(mask16(count), from) }
        }
        #[inline(always)]
        unsafe fn store(value: __m512, to: *mut f32) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(to, value) }
        }
        #[inline(always)]
        unsafe fn store_part(value: __m512, to: *mut f32, count: usize) {
            // SAFETY: as above; masked lanes are not written.
            unsafe { _mm512_mask_storeu_ps(to, mask16(count), value) }
        }
        #[inline(always)]
        unsafe fn multiply(a: __m512, b: __m512) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn nearest_bf16(value: __m512) -> __m512 {
            // SAFETY: as above. Half a step is added, a little less if the last bit that stays is even.
            unsafe {
                let bits = _mm512_castps_si512(value);
                let last = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
                let more = _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7FFF)));
                let nearest = _mm512_castsi512_ps(_mm512_and_si512(more, _mm512_set1_epi32(!0xFFFF)));
                _mm512_mask_mov_ps(nearest, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value), value)
            }
        }
        #[inline(always)]
        unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
            let mut sums = [0.0; 4];
            // SAFETY: as above. Each step adds halves of what is left, of two or four vectors at once.
            unsafe {
                let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
                let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
                let abcd = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
                let eight = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps::<1>(abcd));
                let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                _mm_storeu_ps(sums.as_mut_ptr(), four);
            }
            sums
        }

        type I32 = __m512i;
        #[inline(always)]
        unsafe fn zero_i32() -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_setzero_si512() }
        }
        #[inline(always)]
        unsafe fn sums_i32([a, b, c, d]: [__m512i; 4]) -> [i32; 4] {
            let mut sums = [0; 4];
            // SAFETY: as above.
            unsafe {
                let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                let abcd = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
                let eight = _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64::<1>(abcd));
                let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
                _mm_storeu_si128(sums.as_mut_ptr().cast(), four);
            }
            sums
        }

        #[inline(always)]
        unsafe fn first(value: __m512) -> f32 {
            // SAFETY: as above.
            unsafe { _mm512_cvtss_f32(value) }
        }
    };
}

/// Bytes without sign by bytes with one, added to int32 in one instruction.
macro_rules! avx512_vnni {
    () => {
        const BYTES: usize = 64;
        const UNSIGNED: bool = true;
        type Bytes = __m512i;
        #[inline(always)]
        unsafe fn load_bytes(from: *const i8) -> __m512i {
            // SAFETY: the caller's promise.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }
        #[inline(always)]
        unsafe fn load_bytes_part(from: *const i8, count: usize) -> __m512i {
            // SAFETY: as above; masked bytes are not read.
            unsafe { _mm512_maskz_loadu_epi8((1 << count) - 1, from) }
        }
        #[inline(always)]
        unsafe fn byte_dot(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_dpbusd_epi32(c, a, b) }
        }
    };
}

/// Without an instruction for them, bfloat16 numbers are multiplied in float32.
macro_rules! avx512_widened_bfloat16 {
    () => {
        const BF16_LANES: usize = 16;
        type Bf16 = __m512;

        #[inline(always)]
        unsafe fn load_bf16(from: *const bf16) -> __m512 {
            // SAFETY: the caller's promise.
            unsafe { widen(_mm256_loadu_si256(from.cast())) }
        }
        #[inline(always)]
        unsafe fn load_bf16_part(from: *const bf16, count: usize) -> __m512 {
            // SAFETY: as above; masked lanes are not read.
            unsafe { widen(_mm256_maskz_loadu_epi16(mask16(count), from.cast())) }
        }
        #[inline(always)]
        unsafe fn bf16_dot(a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
    };
}

impl Simd for Avx512 {
    avx512_float32!();

    const BYTES: usize = 32;
    const UNSIGNED: bool = false;
    /// Widened to 16 bits.
    type Bytes = __m512i;
    #[inline(always)]
    unsafe fn load_bytes(from: *const i8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_bytes_part(from: *const i8, count: usize) -> __m512i {
        // SAFETY: as above; masked bytes are not read.
        unsafe { _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((1 << count) - 1, from)) }
    }
    #[inline(always)]
    unsafe fn byte_dot(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(_mm512_madd_epi16(a, b), c) }
    }

    avx512_widened_bfloat16!();
}

/// A bfloat16 is the upper half of a float32.
#[inline(always)]
unsafe fn widen(narrow: __m256i) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(narrow))) }
}

impl Simd for Avx512Vnni {
    avx512_float32!();
    avx512_vnni!();
    avx512_widened_bfloat16!();
}

impl Simd for Avx512Bf16 {
    avx512_float32!();

    avx512_vnni!();

    const BF16_LANES: usize = 32;
    type Bf16 = __m512i;

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_bf16_part(from: *const bf16, count: usize) -> __m512i {
        // SAFETY: as above; masked lanes are not read.
        unsafe { _mm512_maskz_loadu_epi16((1_u32 << count) - 1, from.cast()) }
    }
    #[inline(always)]
    unsafe fn bf16_dot(a: __m512i, b: __m512i, c: __m512) -> __m512 {
        // SAFETY: as above. The types differ in name only.
        unsafe {
            _mm512_dpbf16_ps(
                c,
                std::mem::transmute::<__m512i, __m512bh>(a),
                std::mem::transmute::<__m512i, __m512bh>(b),
            )
        }
    }
}
