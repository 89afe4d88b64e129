//! [`Simd`] for x86 processors with vectors of 256 bits.

use std::arch::asm;
use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Enable, Kernel, MASKS_AFTER, PanelDots, Simd, intrinsics, padded, vectors_of};

vectors_of!(
    /// Vectors of 8 float32 (x86 since 2013).
    Avx2, "avx2", "fma", "f16c"
);
vectors_of!(
    /// The same, and products of 32 bytes (Intel since 2021, AMD since 2024).
    Avx2Vnni, "avx2", "fma", "f16c", "avxvnni"
);

impl Avx2Vnni {
    /// The instruction set that this one contains.
    pub fn base(self) -> Avx2 {
        Avx2(())
    }

    /// This set where the processor lacks it, but has the one instruction of it that kernels use in AVX-512's encoding,
    /// which [`byte_dot`](Simd::byte_dot) then takes. Not sound, and for tests only: kernels are still compiled for
    /// AVX-VNNI, and should the compiler choose one of its instructions on its own, the processor ends the tests.
    #[cfg(test)]
    pub fn encoded_as_avx512() -> Option<Self> {
        let encoded = is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl");
        (encoded && Self::detect().is_none()).then_some(Self(()))
    }
}

/// What both share: float32, bfloat16 widened to it, and bytes except for their products.
macro_rules! avx2 {
    () => {
        const FMA: bool = true;
        const TILE: (usize, usize) = (3, 4);

        #[inline(always)]
        fn prefetch<T>(self, from: *const T) {
            // SAFETY: a hint, which reads nothing; every x86-64 processor has it.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
        }

        type F32 = __m256;
        const LANES: usize = 8;
        type Bf16 = __m256;
        const BF16_LANES: usize = 8;
        type Bytes = __m256i;
        const BYTES: usize = 32;
        type I32 = __m256i;
        intrinsics! {
            fn splat(value: f32) -> __m256 = _mm256_set1_ps(value);
            fn add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
            fn mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
            fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
            fn nearest_bf16(value: __m256) -> __m256 = nearest(value);
            fn sums(values: [__m256; 4]) -> [f32; 4] = sums(values);
            unsafe fn load(from: *const f32) -> __m256 = _mm256_loadu_ps(from);
            unsafe fn load_part(from: *const f32, count: usize) -> __m256 = _mm256_maskload_ps(from, mask(count));
            unsafe fn load_f16(from: *const f16) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
            unsafe fn load_f16_part(from: *const f16, count: usize) -> __m256 =
                _mm256_cvtph_ps(_mm_loadu_si128(padded::<f16, 8>(from, count).as_ptr().cast()));
            unsafe fn load_i8(from: *const i8) -> __m256 =
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())));
            unsafe fn load_low4(from: *const u8) -> __m256 =
                _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())), _mm256_set1_epi32(15)));
            unsafe fn load_high4(from: *const u8) -> __m256 =
                _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))));
            unsafe fn store(value: __m256, to: *mut f32) = _mm256_storeu_ps(to, value);
            unsafe fn store_part(value: __m256, to: *mut f32, count: usize) =
                _mm256_maskstore_ps(to, mask(count), value);

            fn bf16_dot(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
            unsafe fn load_bf16(from: *const bf16) -> __m256 = widen(_mm_loadu_si128(from.cast()));
            unsafe fn load_bf16_part(from: *const bf16, count: usize) -> __m256 =
                widen(_mm_loadu_si128(padded::<bf16, 8>(from, count).as_ptr().cast()));

            fn zero_i32() -> __m256i = _mm256_setzero_si256();
            fn sums_i32(values: [__m256i; 4]) -> [i32; 4] = sums_i32(values);
            unsafe fn load_bytes(from: *const i8) -> __m256i = _mm256_loadu_si256(from.cast());
            unsafe fn load_bytes_part(from: *const i8, count: usize) -> __m256i =
                _mm256_loadu_si256(padded::<i8, 32>(from, count).as_ptr().cast());
            fn to_f32(sums: __m256i) -> __m256 = _mm256_cvtepi32_ps(sums);
        }
    };
}

// SAFETY: `Avx2::detect` is the only constructor.
unsafe impl Simd for Avx2 {
    avx2!();

    const BYTE_TILE: (usize, usize) = (2, 4);
    const UNSIGNED: bool = false;
    const INVERTS: bool = true;
    intrinsics! {
        fn byte_dot(a: __m256i, b: __m256i, c: __m256i) -> __m256i = byte_dot(a, b, c);
    }
}

// SAFETY: `Avx2Vnni::detect` is the only constructor, except in tests.
unsafe impl Simd for Avx2Vnni {
    avx2!();

    const UNSIGNED: bool = true;
    intrinsics! {
        fn byte_dot(a: __m256i, b: __m256i, c: __m256i) -> __m256i = {
            #[cfg(test)]
            if !is_x86_feature_detected!("avxvnni") {
                return byte_dot_encoded_as_avx512(a, b, c);
            }
            _mm256_dpbusd_avx_epi32(c, a, b)
        };
    }
}

/// What both share of [`PanelDots`].
macro_rules! cells {
    () => {
        type Cells = __m256i;
        intrinsics! {
            unsafe fn load_codes(from: *const u8) -> __m256i = _mm256_loadu_si256(from.cast());
            fn split(codes: __m256i) -> (__m256i, __m256i) = halves(codes);
            fn with_upper(codes: __m256i, upper: __m256i, part: usize) -> __m256i = with_upper(codes, upper, part);
            unsafe fn gather_f16(rows: &[*const u8; 16], to: *mut f32) = gather_f16(rows, to);
            unsafe fn gather_block(rows: &[*const u8; 16], to: *mut u8) = gather_block(rows, to);
            fn splat_i32(value: i32) -> __m256i = _mm256_set1_epi32(value);
        }
    };
}

impl PanelDots for Avx2 {
    cells!();

    const SPLITS: bool = true;
    #[inline(always)]
    unsafe fn dots<const BITS: usize>(self, codes: [__m256i; 4], inputs: *const i8, c: __m256i) -> __m256i {
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

impl PanelDots for Avx2Vnni {
    cells!();

    #[inline(always)]
    unsafe fn dots<const BITS: usize>(self, codes: [__m256i; 4], inputs: *const i8, mut c: __m256i) -> __m256i {
        for (part, codes) in codes.into_iter().enumerate() {
            // SAFETY: `self` exists, so the processor has the instructions; four bytes of the 16 are read for each part.
            let four = unsafe { _mm256_set1_epi32(inputs.cast::<i32>().add(part).read_unaligned()) };
            c = self.byte_dot(codes, four, c);
        }
        c
    }
}

/// The sums of eight products, 8 * 15 * 127 at most, fit in 16 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn small_dots(codes: [__m256i; 4], inputs: [i32; 4], c: __m256i) -> __m256i {
    let products = |part: usize| _mm256_maddubs_epi16(codes[part], _mm256_set1_epi32(inputs[part]));
    let firsts = _mm256_add_epi16(products(0), products(1));
    let sums = _mm256_add_epi16(firsts, _mm256_add_epi16(products(2), products(3)));
    _mm256_add_epi32(c, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)))
}

/// The sums of four products, 4 * 63 * 127 at most, fit in 16 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn medium_dots(codes: [__m256i; 4], inputs: [i32; 4], c: __m256i) -> __m256i {
    let products = |part: usize| _mm256_maddubs_epi16(codes[part], _mm256_set1_epi32(inputs[part]));
    let wide = |sums: __m256i| _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    let (first, second) = (_mm256_add_epi16(products(0), products(1)), _mm256_add_epi16(products(2), products(3)));
    _mm256_add_epi32(c, _mm256_add_epi32(wide(first), wide(second)))
}

/// The sums of two products, 2 * 127 * 128 at most, fit in 16 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn code_dots(codes: [__m256i; 4], inputs: [i32; 4], masks: [i32; 4], mut c: __m256i) -> __m256i {
    for part in 0..4 {
        let codes = _mm256_xor_si256(codes[part], _mm256_set1_epi32(masks[part]));
        let sums = _mm256_maddubs_epi16(_mm256_set1_epi32(inputs[part]), codes);
        c = _mm256_add_epi32(c, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
    }
    c
}

/// For [`Avx2Vnni::encoded_as_avx512`].
#[cfg(test)]
#[target_feature(enable = "avx2")]
fn byte_dot_encoded_as_avx512(a: __m256i, b: __m256i, mut c: __m256i) -> __m256i {
    // SAFETY: the only caller's instruction set is there in this encoding if not in its own.
    unsafe {
        asm!(
            "{{evex}} vpdpbusd {c}, {a}, {b}",
            a = in(ymm_reg) a, b = in(ymm_reg) b, c = inout(ymm_reg) c,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    c
}

/// A mask of the first `count` lanes, at most 8.
#[target_feature(enable = "avx2")]
#[inline]
fn mask(count: usize) -> __m256i {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
}

/// The instruction for bytes takes an unsigned one and a signed one, and saturates sums of two products to 16 bits. The
/// magnitude of `a` times `b`, inverted where `a` is negative, is exact: two of these products are at most 2 * 127 *
/// 128, as `a` is not -128. (Changing the sign of `b` would occupy one of the two execution units that multiply.)
///
/// Not written with intrinsics: the compiler would multiply all of a tile first, for which it has too few registers.
#[target_feature(enable = "avx2")]
#[inline]
fn byte_dot(a: __m256i, b: __m256i, mut c: __m256i) -> __m256i {
    // SAFETY: the instructions belong to the feature, and touch these registers only.
    unsafe {
        asm!(
            "vpxor {t}, {b}, {negative}",
            "vpmaddubsw {t}, {size}, {t}",
            "vpmaddwd {t}, {t}, {ones}",
            "vpaddd {c}, {c}, {t}",
            b = in(ymm_reg) b,
            negative = in(ymm_reg) _mm256_cmpgt_epi8(_mm256_setzero_si256(), a),
            size = in(ymm_reg) _mm256_abs_epi8(a),
            ones = in(ymm_reg) _mm256_set1_epi16(1),
            c = inout(ymm_reg) c,
            t = out(ymm_reg) _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    c
}

#[target_feature(enable = "avx2")]
#[inline]
fn halves(bytes: __m256i) -> (__m256i, __m256i) {
    let mask = _mm256_set1_epi8(15);
    (_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask))
}

#[target_feature(enable = "avx2")]
#[inline]
fn with_upper(codes: __m256i, upper: __m256i, part: usize) -> __m256i {
    let moved = match part {
        0 => _mm256_slli_epi16::<4>(upper),
        1 => _mm256_slli_epi16::<2>(upper),
        2 => upper,
        _ => _mm256_srli_epi16::<2>(upper),
    };
    _mm256_or_si256(codes, _mm256_and_si256(moved, _mm256_set1_epi8(0x30)))
}

/// A bfloat16 is the upper half of a float32.
#[target_feature(enable = "avx2")]
#[inline]
fn widen(narrow: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(narrow)))
}

/// Adds half a step, or a little less if the last bit that remains is even.
#[target_feature(enable = "avx2")]
#[inline]
fn nearest(value: __m256) -> __m256 {
    let bits = _mm256_castps_si256(value);
    let last = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let more = _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7FFF)));
    let nearest = _mm256_castsi256_ps(_mm256_and_si256(more, _mm256_set1_epi32(!0xFFFF)));
    _mm256_blendv_ps(nearest, value, _mm256_cmp_ps::<_CMP_UNORD_Q>(value, value))
}

/// Each step adds the two halves of what is left, for two or four vectors at once.
#[target_feature(enable = "avx2")]
#[inline]
fn sums([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
    let ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    let (ab, cd) = (_mm256_castps_pd(ab), _mm256_castps_pd(cd));
    let (low, high) = (_mm256_unpacklo_pd(ab, cd), _mm256_unpackhi_pd(ab, cd));
    let abcd = _mm256_add_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
    let four = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
    let mut sums = [0.0; 4];
    // SAFETY: `sums` has room for a vector of 4.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), four) };
    sums
}

/// As [`sums`].
#[target_feature(enable = "avx2")]
#[inline]
fn sums_i32([a, b, c, d]: [__m256i; 4]) -> [i32; 4] {
    let ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    let abcd = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    let four = _mm_add_epi32(_mm256_castsi256_si128(abcd), _mm256_extracti128_si256::<1>(abcd));
    let mut sums = [0; 4];
    // SAFETY: `sums` has room for a vector of 4.
    unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), four) };
    sums
}

/// [`PanelDots::gather_block`]: four times, 4 cells of 8 rows become 4 columns.
///
/// # Safety
/// 32 bytes can be read from each row, and 512 written.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn gather_block(rows: &[*const u8; 16], to: *mut u8) {
    for half in [0, 8] {
        for part in [0, 4] {
            // 4 cells of a row, and of the one that lies 4 rows after it.
            let two = |i: usize| {
                // SAFETY: the caller vouches for the memory.
                let [first, second] =
                    [0, 4].map(|after| unsafe { _mm_loadu_si128(rows[half + i + after].add(4 * part).cast()) });
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second)
            };
            let [a, b, c, d] = [two(0), two(1), two(2), two(3)];
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (ab_more, cd_more) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            let columns = [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ab_more, cd_more),
                _mm256_unpackhi_epi64(ab_more, cd_more),
            ];
            for (column, cells) in columns.into_iter().enumerate() {
                let codes = _mm256_xor_si256(cells, _mm256_set1_epi8(i8::MIN));
                // SAFETY: the caller vouches for the memory.
                unsafe { _mm256_storeu_si256(to.add(64 * (part + column) + 4 * half).cast(), codes) };
            }
        }
    }
}

/// [`PanelDots::gather_f16`]
///
/// # Safety
/// 2 bytes can be read from each row, and 16 numbers written.
#[target_feature(enable = "avx2,f16c")]
#[inline]
pub(super) unsafe fn gather_f16(rows: &[*const u8; 16], to: *mut f32) {
    for half in [0, 8] {
        // SAFETY: the caller vouches for the memory.
        let bits = |i: usize| i32::from(unsafe { rows[half + i].cast::<u16>().read_unaligned() });
        // Put together in registers: what is stored in parts has to wait to be loaded whole.
        let halves = _mm_setzero_si128();
        let halves = _mm_insert_epi16::<0>(halves, bits(0));
        let halves = _mm_insert_epi16::<1>(halves, bits(1));
        let halves = _mm_insert_epi16::<2>(halves, bits(2));
        let halves = _mm_insert_epi16::<3>(halves, bits(3));
        let halves = _mm_insert_epi16::<4>(halves, bits(4));
        let halves = _mm_insert_epi16::<5>(halves, bits(5));
        let halves = _mm_insert_epi16::<6>(halves, bits(6));
        let halves = _mm_insert_epi16::<7>(halves, bits(7));
        // SAFETY: the caller vouches for the memory.
        unsafe { _mm256_storeu_ps(to.add(half), _mm256_cvtph_ps(halves)) };
    }
}
