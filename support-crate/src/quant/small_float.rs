//! Floating-point numbers of 8 and 4 bits, as files have them: each code's number, exactly.
//!
//! Source: OCP 8-bit Floating Point Specification 1.0, table 1 (E4M3); OCP Microscaling Formats (MX) Specification 1.0,
//! sections 5.3.3 (E2M1) and 5.4.1 (E8M0).

use super::E2M1;

/// The number of an E4M3 code: a sign, 4 bits of exponent, 3 of fraction. There is no infinity; all ones are NaN.
///
/// ```
/// use quantlab::quant::e4m3;
///
/// assert_eq!([0x00, 0x01, 0x38, 0x7E, 0xC4].map(e4m3), [0.0, 1.0 / 512.0, 1.0, 448.0, -3.0]);
/// assert!(e4m3(0x7F).is_nan() && e4m3(0xFF).is_nan());
/// ```
pub fn e4m3(code: u8) -> f32 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f32::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f32::NAN,
        // Below the smallest exponent there is no leading 1.
        (0, _) => fraction / 8.0 * 2.0_f32.powi(-6),
        _ => (1.0 + fraction / 8.0) * 2.0_f32.powi(exponent - 7),
    };
    if code >> 7 == 1 { -magnitude } else { magnitude }
}

/// The number of an E8M0 code, a power of two: the scale of a block of a microscaling format. The last code is NaN.
///
/// ```
/// use quantlab::quant::e8m0;
///
/// assert_eq!([0, 126, 127, 128].map(e8m0), [2.0_f32.powi(-127), 0.5, 1.0, 2.0]);
/// assert!(e8m0(255).is_nan());
/// ```
pub fn e8m0(code: u8) -> f32 {
    match code {
        255 => f32::NAN,
        // 2^-127 is half of what the bits of an exponent alone can say.
        0 => f32::from_bits(1 << 22),
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

/// The number of an E2M1 code (its lower 4 bits), from -6 to 6.
///
/// ```
/// use quantlab::quant::e2m1;
///
/// assert_eq!((0..8).map(e2m1).collect::<Vec<_>>(), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
/// assert_eq!(e2m1(15), -6.0);
/// ```
pub fn e2m1(code: u8) -> f32 {
    // The table has parts of the largest number; halves are whole again once they are doubled and rounded.
    (12.0 * E2M1[usize::from(code & 15)]).round() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By shifting the bits to where float32 has them: exponents then differ by 120.
    #[test]
    fn every_e4m3_code() {
        for code in 0..=u8::MAX {
            let magnitude = f32::from_bits(u32::from(code & 0x7F) << 20) * 2.0_f32.powi(120);
            let expected = if code >> 7 == 1 { -magnitude } else { magnitude };
            match code & 0x7F {
                0x7F => assert!(e4m3(code).is_nan()),
                _ => assert_eq!(e4m3(code).to_bits(), expected.to_bits(), "{code:#x}"),
            }
        }
    }

    #[test]
    fn every_e8m0_and_e2m1_code() {
        for code in 0..255 {
            assert_eq!(f64::from(e8m0(code)), 2.0_f64.powi(i32::from(code) - 127), "{code}");
        }
        // As an E4M3 whose exponent and fraction have fewer bits: 2 of 4, biased by 1 and not 7, and 1 of 3.
        for code in 2..8 {
            assert_eq!(e2m1(code), e4m3((code << 2) + (6 << 3)), "{code}");
            assert_eq!(e2m1(code + 8), -e2m1(code));
        }
        assert_eq!([0, 1, 8, 9].map(e2m1), [0.0, 0.5, 0.0, -0.5]);
    }
}
