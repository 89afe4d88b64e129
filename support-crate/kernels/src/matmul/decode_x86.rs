//! [`Decoded`] for x86 processors.

use std::arch::x86_64::*;

use half::bf16;

use super::decode::{Decoded, Target};
use crate::elementwise::nearest_bf16;
use crate::simd::{Avx2, Avx512, Avx512Bf16};

impl Decoded<Avx2> for f32 {
    /// Numbers 0 to 7 and 8 to 15.
    type Table = (__m256, __m256);

    #[inline(always)]
    fn table(_: Avx2, code: &[f32; 16], [scale, _]: [f32; 2], [minimum, _]: [f32; 2]) -> (__m256, __m256) {
        // SAFETY: the value of the instruction set proves that it is there; both halves lie in `code`.
        unsafe {
            let (scale, minimum) = (_mm256_set1_ps(scale), _mm256_set1_ps(minimum));
            let half = |start: usize| _mm256_fmadd_ps(_mm256_loadu_ps(code.as_ptr().add(start)), scale, minimum);
            (half(0), half(8))
        }
    }
    #[inline(always)]
    unsafe fn decode(_: Avx2, table: (__m256, __m256), group: *const u8, pair: usize) -> (__m256, __m256) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's bytes.
        unsafe {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(group.add(pair / 2).cast()));
            (lookup(table, _mm256_srli_epi32::<4>(bytes)), lookup(table, bytes))
        }
    }
}

/// The numbers at the indices in the lowest 4 bits of each lane: a permutation looks at 3 bits, the 4th chooses
/// between the halves.
///
/// # Safety
/// The processor has AVX2. (Without the attribute that would say so to the compiler, which may not be combined with
/// inlining in every case.)
#[inline(always)]
unsafe fn lookup((low, high): (__m256, __m256), indices: __m256i) -> __m256 {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        let choose_high = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(indices));
        let low = _mm256_permutevar8x32_ps(low, indices);
        _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(high, indices), choose_high)
    }
}

impl Decoded<Avx512> for f32 {
    type Table = __m512;

    #[inline(always)]
    fn table(_: Avx512, code: &[f32; 16], [scale, _]: [f32; 2], [minimum, _]: [f32; 2]) -> __m512 {
        // SAFETY: the value of the instruction set proves that it is there; `code` is a vector.
        unsafe { _mm512_fmadd_ps(_mm512_loadu_ps(code.as_ptr()), _mm512_set1_ps(scale), _mm512_set1_ps(minimum)) }
    }
    #[inline(always)]
    unsafe fn decode(_: Avx512, table: __m512, group: *const u8, pair: usize) -> (__m512, __m512) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's bytes.
        // A permutation looks at the lowest 4 bits only.
        unsafe {
            let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(group.add(pair / 2).cast()));
            let upper = _mm512_srli_epi32::<4>(bytes);
            (_mm512_permutexvar_ps(upper, table), _mm512_permutexvar_ps(bytes, table))
        }
    }
}

/// Indices are brought into the lower half of 16 bits each; the next bit says in which half of the group they
/// are, which has 16 numbers of its own in the table.
impl Decoded<Avx512Bf16> for bf16 {
    type Table = __m512i;

    #[inline(always)]
    fn table(_: Avx512Bf16, code: &[f32; 16], scales: [f32; 2], minima: [f32; 2]) -> __m512i {
        // SAFETY: the value of the instruction set proves that it is there; `code` is a vector. The types of the
        // result differ in name only.
        unsafe {
            let code = _mm512_loadu_ps(code.as_ptr());
            let half = |i: usize| _mm512_fmadd_ps(code, _mm512_set1_ps(scales[i]), _mm512_set1_ps(minima[i]));
            let (first, second) = (half(0), half(1));
            std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first))
        }
    }
    #[inline(always)]
    unsafe fn decode(_: Avx512Bf16, table: __m512i, group: *const u8, pair: usize) -> (__m512i, __m512i) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's bytes.
        unsafe {
            let bytes = _mm512_cvtepu8_epi16(_mm256_loadu_si256(group.add(pair / 2).cast()));
            (lookup_bf16(table, _mm512_srli_epi16::<4>(bytes)), lookup_bf16(table, bytes))
        }
    }
}

/// A bfloat16 number of inputs that are in the order of words: numbers 0, 4, 8 ... of a group come first, then 1, 5, 9 ...
#[derive(Debug, Clone, Copy, Default)]
#[repr(transparent)]
pub struct InWords(bf16);

impl Target for InWords {
    #[inline(always)]
    fn nearest(x: f32) -> InWords {
        InWords(nearest_bf16(x))
    }
}

impl InWords {
    /// Whether rows of `k` numbers are whole groups, and each half of one belongs to one block.
    pub fn fits(k: usize, blocksize: usize) -> bool {
        let group = <Self as Decoded<Avx512Bf16>>::GROUP;
        k.is_multiple_of(group) && blocksize.is_multiple_of(group / 2)
    }
}

/// As of bfloat16, of twice as many numbers: the bytes of a word need not be taken apart, and there is half as often a
/// table to be made. (0.82 of the time where memory is no limit.)
impl Decoded<Avx512Bf16> for InWords {
    const LANE_STRIDE: usize = 4;
    const GROUP: usize = 128;
    type Table = __m512i;

    #[inline(always)]
    fn table(simd: Avx512Bf16, code: &[f32; 16], scales: [f32; 2], minima: [f32; 2]) -> __m512i {
        <bf16 as Decoded<Avx512Bf16>>::table(simd, code, scales, minima)
    }
    #[inline(always)]
    unsafe fn decode(_: Avx512Bf16, table: __m512i, group: *const u8, pair: usize) -> (__m512i, __m512i) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's 64 bytes.
        unsafe {
            let words = _mm512_loadu_si512(group.cast());
            // The first byte is the lower half of its word.
            let (first, second) = match pair {
                0 => (_mm512_srli_epi16::<4>(words), words),
                _ => (_mm512_srli_epi16::<12>(words), _mm512_srli_epi16::<8>(words)),
            };
            (lookup_bf16(table, first), lookup_bf16(table, second))
        }
    }
}

/// The numbers at the indices in the lowest 4 bits of each lane, in the half of the table that is the half of the vector.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn lookup_bf16(table: __m512i, indices: __m512i) -> __m512i {
    // SAFETY: the caller vouches for AVX-512.
    unsafe {
        let half = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi16(16));
        let indices = _mm512_or_si512(_mm512_and_si512(indices, _mm512_set1_epi16(15)), half);
        _mm512_permutexvar_epi16(indices, table)
    }
}
