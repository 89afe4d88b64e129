//! What tables and plots accept as numbers: plain values, and values with an interval.

use std::ops::Mul;

/// A value with the interval it lies in, for example a mean and its 95% confidence interval.
///
/// Plain numbers convert to an estimate without an interval, so that every plot takes either.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value itself.
    pub value: f64,
    /// The lower end of the interval; equal to `value` when there is none.
    pub low: f64,
    /// The upper end of the interval; equal to `value` when there is none.
    pub high: f64,
}

impl Estimate {
    /// A value with the ends of its interval.
    pub fn new(value: f64, low: f64, high: f64) -> Self {
        Self { value, low, high }
    }

    /// A value known without error.
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// A value with the same error on both sides.
    pub fn plus_minus(value: f64, error: f64) -> Self {
        Self { value, low: value - error.abs(), high: value + error.abs() }
    }

    /// Whether the interval has any width.
    pub fn has_interval(&self) -> bool {
        self.low < self.value || self.high > self.value
    }

    /// Half of the interval's width: the error, if it is the same on both sides.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// One point of a line: where it stands and what was measured there.
///
/// Made from a pair: `(128, 0.5)` or `(128, Estimate::new(0.5, 0.4, 0.6))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Position along the horizontal axis.
    pub x: f64,
    /// The value there, with its interval if it has one.
    pub y: Estimate,
}

/// A primitive number; implemented for the integer and floating-point types that measurements use.
pub trait Number: Copy {
    /// The number as `f64`.
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            fn to_f64(self) -> f64 {
                self as f64
            }
        }

        impl From<$kind> for Estimate {
            fn from(value: $kind) -> Self {
                Estimate::exact(value as f64)
            }
        }

        impl From<&$kind> for Estimate {
            fn from(value: &$kind) -> Self {
                Estimate::exact(*value as f64)
            }
        }
    )*};
}

number!(f64, f32, usize, u64, u32, u16, u8, i64, i32, isize);

/// Converts to another unit.
impl Mul<f64> for Estimate {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        let (low, high) = (self.low * factor, self.high * factor);
        Self { value: self.value * factor, low: low.min(high), high: low.max(high) }
    }
}

impl From<&Estimate> for Estimate {
    fn from(value: &Estimate) -> Self {
        *value
    }
}

impl<X: Number, Y: Into<Estimate>> From<(X, Y)> for Point {
    fn from((x, y): (X, Y)) -> Self {
        Self { x: x.to_f64(), y: y.into() }
    }
}

impl<X: Number, Y: Into<Estimate> + Copy> From<&(X, Y)> for Point {
    fn from(&(x, y): &(X, Y)) -> Self {
        Self { x: x.to_f64(), y: y.into() }
    }
}

impl From<&Point> for Point {
    fn from(point: &Point) -> Self {
        *point
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Statistics;

    #[test]
    fn repeated_measurements_become_their_median_and_interval() {
        let statistics = Statistics::of(&[1.0, 2.0, 4.0]).unwrap();
        assert_eq!(Estimate::from(statistics), Estimate::new(2.0, 1.0, 4.0));
        assert_eq!(Point::from((8, &statistics)).y.value, 2.0);
    }

    #[test]
    fn pairs_of_any_numbers_become_points() {
        let points: Vec<Point> = [(8usize, 0.5f64), (16, 0.75)].iter().map(Into::into).collect();
        assert_eq!(points[1], Point { x: 16.0, y: Estimate::exact(0.75) });
        let point: Point = (3, Estimate::plus_minus(2.0, 0.5)).into();
        assert_eq!((point.y.low, point.y.high), (1.5, 2.5));
        assert!(point.y.has_interval() && !Estimate::exact(1.0).has_interval());
    }
}
