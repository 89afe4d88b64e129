//! [`Simd`] for x86 processors with vectors of 256 bits.
//!
//! Every function here only forwards to instructions; the safety of each call is the caller's promise
//! in [`Simd`].

use std::arch::x86_64::*;

use half::bf16;

use super::Simd;

/// Vectors of 8 float32.
#[derive(Clone, Copy)]
pub(in crate::model::cpu) struct Avx2;

/// The same, and products of 32 bytes.
#[derive(Clone, Copy)]
pub(in crate::model::cpu) struct Avx2Vnni;

/// Ones, then zeros: read from the middle, a mask for any count.
static AVX2_MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn avx2_mask(count: usize) -> __m256i {
    // SAFETY: `count` is less than 8, so 8 numbers follow.
    unsafe { _mm256_loadu_si256(AVX2_MASK.as_ptr().add(8 - count).cast()) }
}

macro_rules! avx2 {
    () => {
        const LANES: usize = 8;
        const TILE: (usize, usize) = (3, 4);
        type F32 = __m256;

        #[inline(always)]
        fn prefetch<T>(from: *const T) {
            // SAFETY: a hint, which reads nothing; every x86-64 processor has it.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
        }
        const BF16_LANES: usize = 8;
        type Bf16 = __m256;

        #[inline(always)]
        unsafe fn zero() -> __m256 {
            // SAFETY: the caller's promise.
            unsafe { _mm256_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> __m256 {
            // SAFETY: as above; masked lanes are not read.
            unsafe { _mm256_maskload_ps(from, avx2_mask(count)) }
        }
        #[inline(always)]
        unsafe fn store(value: __m256, to: *mut f32) {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to, value) }
        }
        #[inline(always)]
        unsafe fn store_part(value: __m256, to: *mut f32, count: usize) {
            // SAFETY: as above; masked lanes are not written.
            unsafe { _mm256_maskstore_ps(to, avx2_mask(count), value) }
        }
        #[inline(always)]
        unsafe fn multiply(a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn nearest_bf16(value: __m256) -> __m256 {
            // SAFETY: as above. Half a step is added, a little less if the last bit that stays is even.
            unsafe {
                let bits = _mm256_castps_si256(value);
                let last = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
                let more = _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7FFF)));
                let nearest = _mm256_castsi256_ps(_mm256_and_si256(more, _mm256_set1_epi32(!0xFFFF)));
                _mm256_blendv_ps(nearest, value, _mm256_cmp_ps::<_CMP_UNORD_Q>(value, value))
            }
        }
        #[inline(always)]
        unsafe fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
            let mut sums = [0.0; 4];
            // SAFETY: as above. Each step adds halves of what is left, of two or four vectors at once.
            unsafe {
                let ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let (ab, cd) = (_mm256_castps_pd(ab), _mm256_castps_pd(cd));
                let (low, high) = (_mm256_unpacklo_pd(ab, cd), _mm256_unpackhi_pd(ab, cd));
                let abcd = _mm256_add_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
                let four = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
                _mm_storeu_ps(sums.as_mut_ptr(), four);
            }
            sums
        }
        #[inline(always)]
        unsafe fn first(value: __m256) -> f32 {
            // SAFETY: as above.
            unsafe { _mm256_cvtss_f32(value) }
        }

        type I32 = __m256i;
        #[inline(always)]
        unsafe fn zero_i32() -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_setzero_si256() }
        }
        #[inline(always)]
        unsafe fn sums_i32([a, b, c, d]: [__m256i; 4]) -> [i32; 4] {
            let mut sums = [0; 4];
            // SAFETY: as above.
            unsafe {
                let ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
                let cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
                let abcd = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
                let four = _mm_add_epi32(_mm256_castsi256_si128(abcd), _mm256_extracti128_si256::<1>(abcd));
                _mm_storeu_si128(sums.as_mut_ptr().cast(), four);
            }
            sums
        }

        /// A bfloat16 is the upper half of a float32.
        #[inline(always)]
        unsafe fn load_bf16(from: *const bf16) -> __m256 {
            // SAFETY: as above.
            unsafe {
                let narrow = _mm_loadu_si128(from.cast());
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(narrow)))
            }
        }
        #[inline(always)]
        unsafe fn load_bf16_part(from: *const bf16, count: usize) -> __m256 {
            let mut padded = [bf16::ZERO; 8];
            // SAFETY: as above; `count` is less than 8.
            unsafe {
                std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count);
                Self::load_bf16(padded.as_ptr())
            }
        }
        #[inline(always)]
        unsafe fn bf16_dot(a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
    };
}

impl Simd for Avx2 {
    avx2!();

    const BYTES: usize = 16;
    const UNSIGNED: bool = false;
    /// Widened to 16 bits.
    type Bytes = __m256i;
    #[inline(always)]
    unsafe fn load_bytes(from: *const i8) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_bytes_part(from: *const i8, count: usize) -> __m256i {
        let mut padded = [0_i8; 16];
        // SAFETY: as above; `count` is less than 16.
        unsafe {
            std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count);
            Self::load_bytes(padded.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn byte_dot(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(_mm256_madd_epi16(a, b), c) }
    }
}

impl Simd for Avx2Vnni {
    avx2!();

    const BYTES: usize = 32;
    const UNSIGNED: bool = true;
    type Bytes = __m256i;
    #[inline(always)]
    unsafe fn load_bytes(from: *const i8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_bytes_part(from: *const i8, count: usize) -> __m256i {
        let mut padded = [0_i8; 32];
        // SAFETY: as above; `count` is less than 32.
        unsafe {
            std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count);
            Self::load_bytes(padded.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn byte_dot(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_dpbusd_avx_epi32(c, a, b) }
    }
}
