//! The distribution of a quantity over the tokens of a text.

use serde::{Serialize, Serializer};

/// The percentiles that llama.cpp prints, and that are serialised.
const PRINTED: [f64; 13] = [0.0, 0.1, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// Percentiles of a quantity that each predicted token has, or each request that was served, interpolated linearly
/// between the measured values. Serialised as a map from those percentages that llama.cpp prints: `{"0": ..., "0.1":
/// ..., ..., "50": ..., ..., "100": ...}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles {
    /// In ascending order.
    values: Box<[f32]>,
}

impl Percentiles {
    /// The percentiles of these values, of which none may be NaN.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Box<[f32]> = values.map(|value| value as f32).collect();
        values.sort_unstable_by(f32::total_cmp);
        Self { values }
    }

    /// The value at place `(n - 1) * percent / 100` of the n sorted ones, counted from 0; between two places it is
    /// interpolated linearly. 0 gives the smallest value, 100 the largest. `None` if `percent` is not from 0 to 100, or
    /// there are no values.
    pub fn at(&self, percent: f64) -> Option<f64> {
        if !(0.0..=100.0).contains(&percent) || self.values.is_empty() {
            return None;
        }
        Some(self.interpolated(percent / 100.0))
    }

    /// The value that half of the values are at or below; NaN if there are none.
    pub fn median(&self) -> f64 {
        self.interpolated(0.5)
    }

    fn interpolated(&self, share: f64) -> f64 {
        let Some(last) = self.values.len().checked_sub(1) else { return f64::NAN };
        let rank = share * last as f64;
        let [low, high] = [rank.floor(), rank.ceil()].map(|rank| f64::from(self.values[rank as usize]));
        low + (high - low) * rank.fract()
    }
}

impl Serialize for Percentiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(PRINTED.iter().map(|percent| (percent.to_string(), self.at(*percent))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[f64]) -> Percentiles {
        Percentiles::of(values.iter().copied())
    }

    #[test]
    fn between_two_values_they_are_interpolated() {
        let percentiles = of(&[8.0, 1.0, 2.0, 4.0, -1.0]);
        for (percent, expected) in [(0.0, -1.0), (10.0, -0.2), (25.0, 1.0), (87.5, 6.0), (100.0, 8.0)] {
            assert!((percentiles.at(percent).unwrap() - expected).abs() < 1e-12, "{percent}");
        }
        assert_eq!((of(&[1.0, 2.0]).median(), of(&[7.0]).median(), of(&[7.0]).at(99.9)), (1.5, 7.0, Some(7.0)));
        assert!(of(&[]).median().is_nan() && of(&[]).at(50.0).is_none());
        for outside in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
            assert_eq!(percentiles.at(outside), None);
        }
    }

    #[test]
    fn they_are_serialised_by_percentage() {
        let json = serde_json::to_value(of(&[0.0, 1000.0])).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 13);
        for (percent, expected) in [("0", 0.0), ("0.1", 1.0), ("50", 500.0), ("99.9", 999.0)] {
            assert!((json[percent].as_f64().unwrap() - expected).abs() < 1e-9, "{percent}: {json}");
        }
    }

    proptest! {
        #[test]
        fn they_rise_and_half_of_the_values_are_below_the_median(
            values in prop::collection::vec(-1e3..1e3_f32, 1..100),
            percents in (0.0..100.0_f64, 0.0..100.0_f64),
        ) {
            let percentiles = of(&values.iter().copied().map(f64::from).collect::<Vec<_>>());
            let (low, high) = (percents.0.min(percents.1), percents.0.max(percents.1));
            prop_assert!(percentiles.at(low) <= percentiles.at(high));
            prop_assert_eq!(percentiles.at(50.0), Some(percentiles.median()));
            let below = values.iter().filter(|&&value| f64::from(value) <= percentiles.median()).count();
            prop_assert!(2 * below >= values.len());
        }
    }
}
