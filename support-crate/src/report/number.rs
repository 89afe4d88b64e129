//! Numbers as people read them: thousands separated, no more digits than carry meaning.

/// A number with a fixed count of decimals and commas between thousands: `1,234.50`.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let digits = format!("{:.*}", decimals, value.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    // A value that rounds to zero has no sign: "-0.00" would only raise questions.
    let negative = value < 0.0 && digits.bytes().any(|b| (b'1'..=b'9').contains(&b));
    let sign = if negative { "-" } else { "" };
    let whole = group_thousands(whole);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A whole number with commas between thousands: `124,439,808`.
pub fn whole(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", group_thousands(&value.unsigned_abs().to_string()))
}

/// A number with at least so many significant digits: `0.00123`, `12.3`, `1,234`.
///
/// Digits before the decimal point are never rounded away; very large and very small numbers are
/// written as `1.23e-9`.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    if value == 0.0 {
        return "0".into();
    }
    if needs_exponent(value) {
        return format!("{:.*e}", digits.saturating_sub(1), value);
    }
    fixed(value, decimals_for(value, digits))
}

/// A time in the unit that suits its size: `1.52 s`, `12.3 ms`, and microseconds below.
pub fn duration(seconds: f64) -> String {
    let (unit, name) = time_unit(seconds);
    format!("{} {name}", significant(seconds / unit, 3))
}

/// The unit in which a time reads well: its length in seconds, and its name.
pub(crate) fn time_unit(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        size if size >= 1.0 || size == 0.0 || !size.is_finite() => (1.0, "s"),
        size if size >= 1e-3 => (1e-3, "ms"),
        _ => (1e-6, "\u{b5}s"),
    }
}

/// How many decimals show a value with so many significant digits.
pub(crate) fn decimals_for(value: f64, digits: usize) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    // Computed from the rounded value: three digits of 9.999 are 10.0.
    let rounded = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
    let decimals = digits as i32 - 1 - magnitude(rounded);
    decimals.clamp(0, 12) as usize
}

/// The count of decimals that suits numbers shown together: enough for `digits` digits of the
/// largest and two of the smallest, fewer if none of them needs as many. `None` if they span too
/// much for any one count.
pub(crate) fn common_decimals(values: &[f64], digits: usize) -> Option<usize> {
    let sizes = || values.iter().map(|value| value.abs()).filter(|size| size.is_finite() && *size > 0.0);
    let largest = sizes().fold(0.0, f64::max);
    let smallest = sizes().fold(f64::INFINITY, f64::min);
    if largest == 0.0 {
        return Some(0);
    }
    if magnitude(largest) - magnitude(smallest) > 4 || needs_exponent(largest) || needs_exponent(smallest) {
        return None;
    }
    let most = decimals_for(largest, digits).max(decimals_for(smallest, 2));
    Some(needed_decimals(values, most))
}

/// The fewest decimals that write all the numbers exactly, or `most`.
pub(crate) fn needed_decimals(values: &[f64], most: usize) -> usize {
    let exact = |decimals: usize| {
        let scale = 10f64.powi(decimals as i32);
        let finite = values.iter().filter(|value| value.is_finite());
        finite.into_iter().all(|value| ((value * scale).round() / scale - value).abs() <= value.abs() * 1e-9)
    };
    (0..most).find(|&decimals| exact(decimals)).unwrap_or(most)
}

/// Numbers with so many significant digits each, but no more decimals than write all of them exactly: `0.703` beside
/// `12.3`, `212` beside `305`.
pub(crate) fn rounded(values: &[f64], digits: usize) -> Vec<String> {
    let most = needed_decimals(values, 12);
    let write = |value: &f64| match needs_exponent(*value) {
        true => significant(*value, digits),
        false => fixed(*value, decimals_for(*value, digits).min(most)),
    };
    values.iter().map(write).collect()
}

/// Whether plain notation would be unreadably long.
pub(crate) fn needs_exponent(value: f64) -> bool {
    value != 0.0 && !(1e-5..1e15).contains(&value.abs())
}

/// The exponent of the leading digit: 0 for 1 to 9.99, 3 for 1,234, -2 for 0.05.
pub(crate) fn magnitude(value: f64) -> i32 {
    // Through the formatter rather than log10(), which puts 1000 at 2.9999999999999996.
    let text = format!("{:e}", value.abs());
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

fn group_thousands(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `label (unit)`, or the label alone.
pub(crate) fn labelled(label: &str, unit: &str) -> String {
    match (label.trim(), unit.trim()) {
        (label, "") => label.to_owned(),
        ("", unit) => unit.to_owned(),
        (label, unit) => format!("{label} ({unit})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thousands_are_separated_and_zero_has_no_sign() {
        assert_eq!(fixed(1234.5, 2), "1,234.50");
        assert_eq!(fixed(-1_000_000.0, 0), "-1,000,000");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(999.9, 0), "1,000");
        assert_eq!(whole(124_439_808), "124,439,808");
        assert_eq!(whole(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn significant_digits_keep_the_whole_part() {
        assert_eq!(significant(0.001234, 3), "0.00123");
        assert_eq!(significant(12.345, 3), "12.3");
        assert_eq!(significant(1234.5, 3), "1,234");
        assert_eq!((significant(9.9999, 3), significant(99.96, 3)), ("10.0".into(), "100".into()));
        assert_eq!(significant(1000.0, 3), "1,000");
        assert_eq!(significant(0.0, 3), "0");
        assert_eq!(significant(1.234e-9, 3), "1.23e-9");
        assert_eq!(significant(f64::NAN, 3), "NaN");
        assert_eq!(significant(f64::NEG_INFINITY, 3), "-inf");
    }

    #[test]
    fn numbers_at_bars_have_as_many_digits_as_they_need() {
        assert_eq!(rounded(&[0.7031, 9.22, 486.7, 1234.5, 2.0], 3), ["0.703", "9.22", "487", "1,234", "2.00"]);
        assert_eq!(rounded(&[0.0044, 0.22, 2.0651], 3), ["0.0044", "0.220", "2.07"]);
        assert_eq!(rounded(&[212.0, 305.0, 0.0], 3), ["212", "305", "0"]);
        assert_eq!(rounded(&[2e-7], 3), ["2.00e-7"]);
    }

    #[test]
    fn times_come_in_a_unit_that_suits_them() {
        assert_eq!(duration(1.5234), "1.52 s");
        assert_eq!(duration(0.0123), "12.3 ms");
        assert_eq!(duration(85e-6), "85.0 \u{b5}s");
        assert_eq!(duration(0.0), "0 s");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_as_the_value(value in -1e14f64..1e14) {
            let shown: f64 = fixed(value, 6).replace(',', "").parse().unwrap();
            prop_assert!((shown - value).abs() <= 1e-6 + value.abs() * 1e-14);
        }

        #[test]
        fn any_number_can_be_shown(value in any::<f64>(), digits in 0usize..8) {
            prop_assert!(!significant(value, digits).is_empty());
        }
    }
}
