//! [`Decoded`] for x86 processors.

use std::arch::x86_64::*;

use half::bf16;

use super::decode::{Decoded, Target, Widened, strided};
use super::gemm::{Factor, factor};
use crate::rounding::nearest_bf16;
use crate::scratch::reused;
use crate::simd::{Avx2, Avx512, Avx512Bf16, Simd};

/// No register of AVX2 holds 16 float32, but half of one holds the 16 bytes at one position in each of them. A shuffle
/// looks up 32 bytes at once: those of each position in turn, which are then interleaved.
impl Decoded<Avx2> for f32 {
    const GROUP: usize = 64;
    /// The bytes of 16 numbers, beginning with the lowest; those of the group's second half in the upper half.
    type Table = [__m256i; 4];

    #[inline(always)]
    fn number_at(place: usize) -> usize {
        // Even numbers come first; of each half of the group, 4 at a time.
        let (vector, lane) = (place / 8, place % 8);
        lane / 4 * 32 + vector % 4 * 8 + lane % 4 * 2 + vector / 4
    }
    #[inline(always)]
    fn table(_: Avx2, code: &[f32; 16], scales: [f32; 2], minima: [f32; 2]) -> [__m256i; 4] {
        // SAFETY: the value of the instruction set proves that it is there.
        unsafe {
            let first = bytes_of_float32(numbers_of(code, scales[0], minima[0]));
            if one_block(scales, minima) {
                return first;
            }
            let second = bytes_of_float32(numbers_of(code, scales[1], minima[1]));
            [
                _mm256_blend_epi32::<0xF0>(first[0], second[0]),
                _mm256_blend_epi32::<0xF0>(first[1], second[1]),
                _mm256_blend_epi32::<0xF0>(first[2], second[2]),
                _mm256_blend_epi32::<0xF0>(first[3], second[3]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn decode(_: Avx2, table: [__m256i; 4], group: *const u8, pair: usize) -> (__m256, __m256) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's 32 bytes.
        unsafe {
            let indices = half_bytes(group, pair / 32);
            let (a, b) = (_mm256_shuffle_epi8(table[0], indices), _mm256_shuffle_epi8(table[1], indices));
            let (c, d) = (_mm256_shuffle_epi8(table[2], indices), _mm256_shuffle_epi8(table[3], indices));
            let (lower, upper) = match pair % 32 {
                0 => (_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d)),
                _ => (_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d)),
            };
            let (first, second) = (_mm256_unpacklo_epi16(lower, upper), _mm256_unpackhi_epi16(lower, upper));
            (_mm256_castsi256_ps(first), _mm256_castsi256_ps(second))
        }
    }
}

/// Two bytes a number are half the work; of two neighbours, a shift leaves the first and a mask the second.
impl Decoded<Avx2> for Widened {
    const GROUP: usize = 64;
    const TABLES_FIRST: bool = true;
    /// The lower and the upper bytes of 16 bfloat16; those of the group's second half in the upper half.
    type Table = [__m256i; 2];

    #[inline(always)]
    fn number_at(place: usize) -> usize {
        // Even numbers come first; of each half of the group, every other one of 8.
        let (vector, lane) = (place / 8, place % 8);
        lane / 4 * 32 + vector % 4 / 2 * 16 + lane % 4 * 4 + vector % 2 * 2 + vector / 4
    }
    #[inline(always)]
    fn table(_: Avx2, code: &[f32; 16], scales: [f32; 2], minima: [f32; 2]) -> [__m256i; 2] {
        // SAFETY: the value of the instruction set proves that it is there.
        unsafe {
            let first = bytes_of_bfloat16(numbers_of(code, scales[0], minima[0]));
            if one_block(scales, minima) {
                return first;
            }
            let second = bytes_of_bfloat16(numbers_of(code, scales[1], minima[1]));
            [_mm256_blend_epi32::<0xF0>(first[0], second[0]), _mm256_blend_epi32::<0xF0>(first[1], second[1])]
        }
    }
    #[inline(always)]
    unsafe fn decode(_: Avx2, table: [__m256i; 2], group: *const u8, pair: usize) -> (__m256, __m256) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's 32 bytes.
        unsafe {
            let indices = half_bytes(group, pair / 32);
            let (lower, upper) = (_mm256_shuffle_epi8(table[0], indices), _mm256_shuffle_epi8(table[1], indices));
            let numbers = match pair % 32 {
                0 => _mm256_unpacklo_epi8(lower, upper),
                _ => _mm256_unpackhi_epi8(lower, upper),
            };
            let mask = _mm256_set1_epi32(0xFFFF_0000_u32.cast_signed());
            let (even, odd) = (_mm256_slli_epi32::<16>(numbers), _mm256_and_si256(numbers, mask));
            (_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd))
        }
    }
}

/// What 16 indices stand for: numbers 0 to 3 and 8 to 11, 4 to 7 and 12 to 15.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn numbers_of(code: &[f32; 16], scale: f32, minimum: f32) -> (__m256, __m256) {
    // SAFETY: the caller vouches for AVX2; four vectors of 4 lie in `code`.
    unsafe {
        let (scale, minimum, code) = (_mm256_set1_ps(scale), _mm256_set1_ps(minimum), code.as_ptr());
        let (first, second) = (_mm256_loadu2_m128(code.add(8), code), _mm256_loadu2_m128(code.add(12), code.add(4)));
        (_mm256_fmadd_ps(first, scale, minimum), _mm256_fmadd_ps(second, scale, minimum))
    }
}

/// The bytes at each position of the numbers that [`numbers_of`] makes, in both halves.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn bytes_of_float32((a, b): (__m256, __m256)) -> [__m256i; 4] {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        let gather = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        let a = _mm256_shuffle_epi8(_mm256_castps_si256(a), gather);
        let b = _mm256_shuffle_epi8(_mm256_castps_si256(b), gather);
        let (lower, upper) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        [
            _mm256_permute4x64_epi64::<0x88>(lower),
            _mm256_permute4x64_epi64::<0xDD>(lower),
            _mm256_permute4x64_epi64::<0x88>(upper),
            _mm256_permute4x64_epi64::<0xDD>(upper),
        ]
    }
}

/// The same for the nearest bfloat16 numbers.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn bytes_of_bfloat16((a, b): (__m256, __m256)) -> [__m256i; 2] {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        // Of each number's upper half, those of the lower byte and then those of the upper one; a fills one half of each
        // eight bytes, b the other.
        let of_a = _mm_setr_epi8(2, 6, 10, 14, -1, -1, -1, -1, 3, 7, 11, 15, -1, -1, -1, -1);
        let of_b = _mm_setr_epi8(-1, -1, -1, -1, 2, 6, 10, 14, -1, -1, -1, -1, 3, 7, 11, 15);
        let a = _mm256_shuffle_epi8(above_bf16(a), _mm256_broadcastsi128_si256(of_a));
        let b = _mm256_shuffle_epi8(above_bf16(b), _mm256_broadcastsi128_si256(of_b));
        let bytes = _mm256_or_si256(a, b);
        [_mm256_permute4x64_epi64::<0x88>(bytes), _mm256_permute4x64_epi64::<0xDD>(bytes)]
    }
}

/// Numbers whose upper halves are the nearest bfloat16 (as [`Simd::nearest_bf16`] has it, which clears the lower ones too).
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn above_bf16(value: __m256) -> __m256i {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        let bits = _mm256_castps_si256(value);
        let last = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let more = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), last);
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(value, value);
        _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(more), value, is_nan))
    }
}

/// Whether both halves of a group stand for the same numbers, as they mostly do. (By their bits, for the sake of NaN.)
#[inline(always)]
fn one_block(scales: [f32; 2], minima: [f32; 2]) -> bool {
    scales[0].to_bits() == scales[1].to_bits() && minima[0].to_bits() == minima[1].to_bits()
}

/// The upper halves of 32 bytes, or the lower ones.
///
/// # Safety
/// The processor has AVX2, and the bytes can be read.
#[inline(always)]
unsafe fn half_bytes(group: *const u8, lower: usize) -> __m256i {
    // SAFETY: the caller vouches for AVX2 and the bytes.
    unsafe {
        let bytes = _mm256_loadu_si256(group.cast());
        let halves = if lower == 0 { _mm256_srli_epi16::<4>(bytes) } else { bytes };
        _mm256_and_si256(halves, _mm256_set1_epi8(15))
    }
}

impl Decoded<Avx512> for f32 {
    const TABLES_FIRST: bool = true;
    const SHARING: usize = 2;
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

/// The numbers are rounded where the table is made.
impl Decoded<Avx512> for Widened {
    const TABLES_FIRST: bool = true;
    const SHARING: usize = 2;
    type Table = __m512;

    #[inline(always)]
    fn table(simd: Avx512, code: &[f32; 16], scales: [f32; 2], minima: [f32; 2]) -> __m512 {
        simd.nearest_bf16(<f32 as Decoded<Avx512>>::table(simd, code, scales, minima))
    }
    #[inline(always)]
    unsafe fn decode(simd: Avx512, table: __m512, group: *const u8, pair: usize) -> (__m512, __m512) {
        // SAFETY: the caller's promise is the same.
        unsafe { <f32 as Decoded<Avx512>>::decode(simd, table, group, pair) }
    }
}

/// Each index is brought into the lower half of 16 bits; the next bit says which half of the group it belongs to, which
/// has 16 numbers of its own in the table.
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

reused!(InWords);

factor! {
    InWords: BF16_LANES in Bf16, load_bf16, load_bf16_part;
    F32 of f32, zero, bf16_dot, sums;
}

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

/// As for bfloat16, but in groups of twice as many numbers: the bytes of a word need not be taken apart, and a table is
/// made half as often. (0.82 of the time where memory is not the limit.)
impl Decoded<Avx512Bf16> for InWords {
    const GROUP: usize = 128;
    type Table = __m512i;

    #[inline(always)]
    fn number_at(place: usize) -> usize {
        strided::<4>(place, <Self as Factor<Avx512Bf16>>::STEP)
    }

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

/// The numbers at the indices in the lowest 4 bits of each lane; each half of the vector uses its own half of the
/// table.
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
