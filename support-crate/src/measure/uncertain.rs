//! A mean over many tokens, and how far it may lie from what more tokens would give.

use std::ops::Mul;

use serde::Serialize;

/// A value with its standard error. As far as the tokens that it comes from are independent, value ± 1.96 standard errors
/// holds what an endless text of the same kind would give in 95% of cases. A share of all or of none has a standard error of
/// 0, which says only that the tokens were too few to show an exception.
///
/// It displays itself as this interval, `0.0123 ± 0.0021`: two digits of what stands behind ±, and the value to the same
/// decimal place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Uncertain {
    /// The value.
    pub value: f64,
    /// Its standard error, in the same unit.
    pub standard_error: f64,
}

impl Uncertain {
    /// The mean of at least two values with its standard error `s / sqrt(n)`, where `s` is their standard deviation
    /// (n - 1). It assumes that the values are independent.
    pub(super) fn mean_of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count() as f64;
        let value = values.clone().sum::<f64>() / n;
        let squares: f64 = values.map(|x| (x - value).powi(2)).sum();
        Self { value, standard_error: (squares / (n - 1.0) / n).sqrt() }
    }

    /// `exp` of the value; the error grows by the slope there.
    pub(super) fn exp(self) -> Self {
        let value = self.value.exp();
        Self { value, standard_error: value * self.standard_error }
    }
}

/// In another unit: `share * 100.0` is in percent.
impl Mul<f64> for Uncertain {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { value: self.value * factor, standard_error: self.standard_error * factor.abs() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_error_of_a_mean_is_the_deviation_over_the_root_of_the_count() {
        // Deviations -3, -1, 1, 3: variance 20 / 3.
        let mean = Uncertain::mean_of([1.0, 3.0, 5.0, 7.0].into_iter());
        assert!((mean.value - 4.0).abs() < 1e-15 && (mean.standard_error - (20.0_f64 / 12.0).sqrt()).abs() < 1e-15);
        let exp = Uncertain { value: 0.0, standard_error: 0.5 }.exp() * -100.0;
        assert_eq!(exp, Uncertain { value: -100.0, standard_error: 50.0 });
    }

    proptest! {
        /// s^2 = n / (n - 1) * (mean(x^2) - mean(x)^2), as it is computed where a text is read only once.
        #[test]
        fn it_is_what_sums_of_squares_give(values in prop::collection::vec(-10.0..10.0_f64, 2..200)) {
            let n = values.len() as f64;
            let mean = |of: fn(f64) -> f64| values.iter().copied().map(of).sum::<f64>() / n;
            let variance = (mean(|x| x * x) - mean(|x| x).powi(2)) / (n - 1.0);
            let found = Uncertain::mean_of(values.iter().copied());
            prop_assert!((found.value - mean(|x| x)).abs() < 1e-12);
            prop_assert!((found.standard_error.powi(2) - variance).abs() < 1e-11);
        }
    }
}
