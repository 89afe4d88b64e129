//! Eight numbers in one register: AVX2's on x86-64, elsewhere an array, of which the compiler makes what there is.
//!
//! On x86-64, a function that is not compiled for AVX2 and FMA itself needs `unsafe` to call these: it must have asked
//! [`has_vectors`] first.

#[cfg(target_arch = "x86_64")]
#[allow(clippy::missing_safety_doc, reason = "the module says when they may be called")]
mod avx2 {
    use std::arch::x86_64::*;

    /// Eight numbers in one register.
    pub type Vector = __m256;

    /// Whether the processor has AVX2 and FMA.
    pub fn has_vectors() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }

    /// The same number eight times.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn all(number: f32) -> Vector {
        _mm256_set1_ps(number)
    }

    /// The first eight of some numbers.
    ///
    /// # Panics
    /// There are fewer.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn load(numbers: &[f32]) -> Vector {
        let eight: [f32; 8] = *numbers.first_chunk().expect("eight numbers");
        // SAFETY: both are eight floats, and nothing else. (`_mm256_loadu_ps` is the instruction that this becomes; in a cell,
        // which is compiled with checks, it would look each time whether source and register overlap.)
        unsafe { std::mem::transmute(eight) }
    }

    /// a * b + c, rounded once.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn mul_add(a: Vector, b: Vector, c: Vector) -> Vector {
        _mm256_fmadd_ps(a, b, c)
    }

    /// The sum of the eight numbers.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn sum(vector: Vector) -> f32 {
        // SAFETY: both are eight floats, and nothing else.
        let eight: [f32; 8] = unsafe { std::mem::transmute(vector) };
        eight.iter().sum()
    }

    /// What eight codes of 4 bits stand for in a codebook: the first four bytes, the upper half of each first.
    ///
    /// # Panics
    /// There are fewer than four bytes.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn look_up(book: &[f32; 16], bytes: &[u8]) -> Vector {
        let bytes = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let codes = _mm256_srlv_epi32(_mm256_set1_epi32(bytes), _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24));
        // Both look at the lowest three bits of a code; the fourth, moved up to the sign, says which of them counts.
        let low = _mm256_permutevar8x32_ps(load(&book[..8]), codes);
        let high = _mm256_permutevar8x32_ps(load(&book[8..]), codes);
        _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes)))
    }
}

#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "what other processors have"))]
mod array {
    use std::array::from_fn;

    /// Eight numbers.
    pub type Vector = [f32; 8];

    /// Whether the functions here can be used: they are plain code.
    pub fn has_vectors() -> bool {
        true
    }

    /// The same number eight times.
    #[inline]
    pub fn all(number: f32) -> Vector {
        [number; 8]
    }

    /// The first eight of some numbers.
    ///
    /// # Panics
    /// There are fewer.
    #[inline]
    pub fn load(numbers: &[f32]) -> Vector {
        from_fn(|i| numbers[i])
    }

    /// a * b + c.
    #[inline]
    pub fn mul_add(a: Vector, b: Vector, c: Vector) -> Vector {
        from_fn(|i| a[i] * b[i] + c[i])
    }

    /// The sum of the eight numbers.
    #[inline]
    pub fn sum(vector: Vector) -> f32 {
        vector.iter().sum()
    }

    /// What eight codes of 4 bits stand for in a codebook: the first four bytes, the upper half of each first.
    ///
    /// # Panics
    /// There are fewer than four bytes.
    #[inline]
    pub fn look_up(book: &[f32; 16], bytes: &[u8]) -> Vector {
        from_fn(|i| book[usize::from((bytes[i / 2] >> (4 - 4 * (i % 2))) & 15)])
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub use array::*;
#[cfg(target_arch = "x86_64")]
pub use avx2::*;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{array, avx2};

    #[test]
    fn the_array_computes_what_registers_do() {
        if !avx2::has_vectors() {
            return;
        }
        // SAFETY: the processor has the instructions.
        unsafe { compare() };
    }

    #[target_feature(enable = "avx2,fma")]
    fn compare() {
        let numbers: Vec<f32> = (0..24).map(|i| (i as f32 * 0.7).sin()).collect();
        let [a, b, c] = [0, 8, 16].map(|at| &numbers[at..]);
        let both = |registers: avx2::Vector, array: array::Vector| {
            let (sum, expected) = (avx2::sum(registers), array::sum(array));
            assert!((sum - expected).abs() < 1e-6, "{sum}, expected {expected}");
        };
        both(avx2::load(b), array::load(b));
        both(avx2::all(0.3), array::all(0.3));
        both(
            avx2::mul_add(avx2::load(a), avx2::load(b), avx2::load(c)),
            array::mul_add(array::load(a), array::load(b), array::load(c)),
        );
        let book: [f32; 16] = std::array::from_fn(|i| (i as f32 * 1.3).cos());
        for bytes in [[0x01, 0x23, 0x45, 0x67], [0x89, 0xab, 0xcd, 0xef], [0xf7, 0x08, 0x5a, 0xc3]] {
            // Powers of two tell the places apart.
            let places: Vec<f32> = (0..8).map(|i| f32::from(1_u16 << i)).collect();
            both(
                avx2::mul_add(avx2::look_up(&book, &bytes), avx2::load(&places), avx2::all(0.0)),
                array::mul_add(array::look_up(&book, &bytes), array::load(&places), array::all(0.0)),
            );
        }
    }
}
