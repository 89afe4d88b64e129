//! The numbers that weights and inputs come in.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::error::{Error, Result};
use crate::precision::Precision;

/// A number that weights and inputs of layers come in: float32, bfloat16 or float16.
///
/// Everything is computed in float32, as bitsandbytes does.
pub trait Float: Copy + private::Sealed {
    /// The format's name.
    const PRECISION: Precision;

    /// The number, rounded to this format.
    fn from_f32(value: f32) -> Self;

    /// The number, exactly.
    fn to_f32(self) -> f32;

    /// Converts many numbers, exactly; `buffer` is at least as long, and used only if they are not float32 already.
    #[doc(hidden)]
    fn widen<'a>(values: &'a [Self], buffer: &'a mut [f32]) -> &'a [f32];
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

impl Float for f32 {
    const PRECISION: Precision = Precision::Float32;

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn widen<'a>(values: &'a [Self], _: &'a mut [f32]) -> &'a [f32] {
        values
    }
}

macro_rules! half_precision {
    ($type:ty, $precision:ident) => {
        impl Float for $type {
            const PRECISION: Precision = Precision::$precision;

            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                Self::from_f32(value)
            }

            fn to_f32(self) -> f32 {
                self.to_f32()
            }

            fn widen<'a>(values: &'a [Self], buffer: &'a mut [f32]) -> &'a [f32] {
                let wide = &mut buffer[..values.len()];
                values.convert_to_f32_slice(wide);
                wide
            }
        }
    };
}

half_precision!(bf16, BFloat16);
half_precision!(f16, Float16);

/// The largest magnitude, or nothing if a number is NaN or infinite.
pub(super) fn absolute_maximum(values: &[f32]) -> Option<f32> {
    // Without their sign, float32 numbers are ordered like their bits, with infinity and NaN above all others: one pass
    // over integers, of which processors handle many at a time, answers both questions.
    let bits = values.iter().fold(0, |largest, value| largest.max(value.abs().to_bits().cast_signed()));
    Some(f32::from_bits(bits.cast_unsigned())).filter(|largest| largest.is_finite())
}

/// Returns an error that names a number that is not finite, if there is one.
pub(super) fn check_finite<T: Float>(what: &str, values: &[T]) -> Result<()> {
    match values.iter().position(|value| !value.to_f32().is_finite()) {
        None => Ok(()),
        Some(index) => Err(Error::input(format!("{what} {index} is {}", values[index].to_f32()))
            .hint("NaN and infinity have no int8 or 4-bit form; were the weights damaged, or did float16 overflow?")),
    }
}

/// How many rows of `columns` numbers there are.
pub(super) fn count_rows(what: &str, count: usize, columns: usize) -> Result<usize> {
    if columns == 0 || count == 0 || !count.is_multiple_of(columns) {
        return Err(Error::input(format!("{count} {what} in rows of {columns}: not a matrix")));
    }
    Ok(count / columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_absolute_maximum_of_numbers_only() {
        assert_eq!(absolute_maximum(&[0.5, -2.0, 1.0]), Some(2.0));
        assert_eq!(absolute_maximum(&[-0.0]), Some(0.0));
        assert_eq!(absolute_maximum(&[f32::MAX, 1e-45]), Some(f32::MAX));
        for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(absolute_maximum(&[1.0, value, 2.0]), None, "{value}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_named() {
        let error = check_finite("weight", &[f16::ONE, f16::INFINITY]).unwrap_err();
        assert!(error.message().contains("weight 1 is inf"), "{error}");
        assert!(check_finite("weight", &[bf16::ONE]).is_ok());
    }
}
