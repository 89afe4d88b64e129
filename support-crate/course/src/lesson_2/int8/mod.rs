//! Quantizing to int8 by hand: a grid for numbers, and products of whole numbers.

mod affine;
mod dot;
mod symmetric;

pub use affine::check_quantize_affine;
pub use dot::check_int8_dot;
use rand::Rng;
use rand::rngs::StdRng;
use serde::Serialize;
pub use symmetric::check_quantize_symmetric;

use quantlab::error::{Error, Result};

use crate::cases::{KINDS, random, row, size};
use crate::failures::{must_fail, must_succeed};
use crate::{Complaint, Verdict, ask};

/// Numbers in 8 bits: a value `q` stands for `scale * (q - zero_point)`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Int8Vector {
    /// The whole numbers.
    pub values: Vec<i8>,
    /// The distance between two neighbouring lines of the grid; above 0.
    pub scale: f32,
    /// The value that stands for 0, from -128 to 127; 0 in symmetric quantization.
    pub zero_point: i32,
}

impl Int8Vector {
    /// The numbers that the values stand for.
    ///
    /// ```
    /// use quantlab_course::Int8Vector;
    ///
    /// let three = Int8Vector { values: vec![-128, 0, 127], scale: 0.5, zero_point: -128 };
    /// assert_eq!(three.dequantize(), [0.0, 64.0, 127.5]);
    /// ```
    pub fn dequantize(&self) -> Vec<f32> {
        self.values.iter().map(|&value| self.scale * (i32::from(value) - self.zero_point) as f32).collect()
    }

    /// The root of the mean squared rounding error, as a share of the root of the numbers' mean square; 0 for zeros.
    ///
    /// # Errors
    /// Not as many numbers as values.
    pub fn relative_error(&self, numbers: &[f32]) -> Result<f64> {
        if numbers.len() != self.values.len() {
            let (numbers, values) = (numbers.len(), self.values.len());
            return Err(Error::input(format!("{values} int8 values cannot stand for {numbers} numbers")));
        }
        let square = |x: f32| f64::from(x) * f64::from(x);
        let total: f64 = numbers.iter().map(|&x| square(x)).sum();
        let error: f64 = numbers.iter().zip(self.dequantize()).map(|(&x, y)| square(x - y)).sum();
        Ok(if total > 0.0 { (error / total).sqrt() } else { 0.0 })
    }
}

type Answer<'a> = dyn Fn(&[f32]) -> Result<Int8Vector> + 'a;

/// Of mixed signs, the largest magnitude negative and in the middle.
const MIXED: [f32; 7] = [0.3, 1.9, -0.7, -2.54, 0.014, 1.1, -1.234];
/// As they come out of an activation: hardly anything below 0.
const ONE_SIDED: [f32; 8] = [-0.17, 0.0, 0.9, 4.93, 2.2, -0.04, 1.6, 3.331];
/// Far from 0.
const POSITIVE: [f32; 5] = [6.1, 9.7, 7.35, 8.8, 6.9];
const NEGATIVE: [f32; 5] = [-5.2, -8.3, -6.6, -7.01, -5.9];
/// So small that dividing by anything but the right scale gives zeros only; the ends of the range come first and last.
const TINY: [f32; 4] = [-3.7e-6, 2.1e-6, 0.9e-6, 3.05e-6];
const LARGE: [f32; 4] = [1.3e7, 5.1e6, -0.4e6, -2.2e7];

/// Both ends of its affine grid, whose scale is 1, lie half a step beyond a line: what rounds up has to be clipped.
const HALVES: [f32; 4] = [12.0, -150.5, 104.5, -3.0];

/// One number, again and again.
const CONSTANT: [f32; 4] = [3.3; 4];
/// Each is finite, but their sum is not.
const HUGE: [f32; 4] = [1.5e38, 3.1e38, 2.2e38, 0.9e38];

const CASES: [&[f32]; 9] = [&MIXED, &ONE_SIDED, &POSITIVE, &NEGATIVE, &TINY, &LARGE, &HALVES, &CONSTANT, &HUGE];

/// Numbers of any count, size, order and place, some of them zeros: the same ones each time.
fn any_numbers() -> Vec<Vec<f32>> {
    let mut rng = random(8);
    let numbers = |rng: &mut StdRng, number: usize| {
        let n = size(rng, if number < KINDS { 5000 } else { 200 });
        let (size, place) = (10_f32.powi(rng.random_range(-30..30)), rng.random_range(-2.0..2.0));
        row(rng, number, n).into_iter().map(|x| size * (place + x)).collect::<Vec<f32>>()
    };
    let mut all: Vec<Vec<f32>> = (0..6 * KINDS).map(|number| numbers(&mut rng, number)).collect();
    // Thousands of numbers with one far from the others, in a place that an answer which samples only some of them
    // misses.
    for (place, outlier) in [(4567, 9.75), (1, -8.5), (7_501, 12.0), (9_998, -11.25)] {
        let mut many = row(&mut rng, 1, 10_000);
        many[place] = outlier;
        all.push(many);
    }
    all.extend([vec![-4.2], vec![1e-20], vec![0.0, -0.0, 2.5, 0.0], vec![-7.5; 3]]);
    all
}

/// Numbers, and what the answer made of them: as many values.
type Trial = (Vec<f32>, Int8Vector);

fn answers(yours: &Answer<'_>) -> Result<Vec<Trial>, Complaint> {
    let cases = CASES.into_iter().map(<[f32]>::to_vec).chain(any_numbers());
    let trial = |numbers: Vec<f32>| {
        let vector = must_succeed(answer(yours, &numbers), |message| {
            let [low, high] = [f32::min, f32::max].map(|end| numbers.iter().copied().reduce(end).unwrap_or(0.0));
            format!(
                "{} numbers from {low} to {high}, all finite, made your function return an error: {message}",
                numbers.len()
            )
        })?;
        Ok((numbers, vector))
    };
    cases.map(trial).collect()
}

fn answer(yours: &Answer<'_>, numbers: &[f32]) -> Result<Int8Vector, Complaint> {
    let vector = ask(|| yours(numbers))?;
    let (asked, got) = (numbers.len(), vector.values.len());
    Complaint::unless(asked == got, || format!("{asked} numbers became {got} values"))?;
    Ok(vector)
}

/// Whether two numbers are equal up to the rounding of float32: a scale may be off by this much.
fn near(a: f32, b: f32) -> bool {
    (f64::from(a) - f64::from(b)).abs() <= 1e-6 * f64::from(b).abs()
}

/// The smallest number and the largest, and 0 in any case.
fn range(numbers: &[f32]) -> [f32; 2] {
    [numbers.iter().copied().fold(0.0, f32::min), numbers.iter().copied().fold(0.0, f32::max)]
}

/// Each value is the nearest one on the vector's own grid, and within its ends.
fn rounds_to_nearest((numbers, vector): &Trial) -> Verdict {
    let Int8Vector { values, scale, zero_point } = vector;
    for (&x, &q) in numbers.iter().zip(values) {
        let exact = f64::from(x) / f64::from(*scale) + f64::from(*zero_point);
        let nearest = exact.clamp(-128.0, 127.0);
        // Halves may go either way, and float32 may see a half where there is none.
        if (f64::from(q) - nearest).abs() <= 0.5 + 1e-4 {
            continue;
        }
        let why = if exact > 127.5 && q < 0 || exact < -128.5 && q > 0 {
            ": it went beyond the last value and wrapped around; clip before you convert"
        } else if (f64::from(q) - exact).abs() < 1.0 {
            ": that cuts off the fraction instead of rounding it"
        } else {
            ""
        };
        return wrong!(
            "{x} on a grid of scale {scale:e} with zero point {zero_point} is {exact:.2}, yours is {q}{why}"
        );
    }
    Ok(())
}

/// Zeros only, or no numbers at all: there is no range to divide by, yet an answer is expected.
fn zeros_are_no_problem(yours: &Answer<'_>, zero_points: std::ops::RangeInclusive<i32>) -> Verdict {
    for zeros in [vec![0.0; 3], vec![], vec![-0.0], vec![0.0; 300]] {
        let what = if zeros.is_empty() { "no numbers at all" } else { "zeros only" };
        let vector = must_succeed(answer(yours, &zeros), |message| {
            format!("{what}: your function returned an error ({message}); use the scale 1")
        })?;
        let Int8Vector { scale, zero_point, .. } = vector;
        Complaint::unless(scale.is_finite() && scale > 0.0, || {
            format!("{what} give the scale {scale}: dividing by it gives NaN; use 1 there")
        })?;
        Complaint::unless(vector.dequantize().iter().all(|&x| x == 0.0), || {
            format!("{what} become {:?}, which do not stand for 0", vector.values)
        })?;
        Complaint::unless(zero_points.contains(&zero_point), || {
            format!("{what} give the zero point {zero_point}, which is not one of this grid's")
        })?;
    }
    Ok(())
}

/// NaN and the infinities have no place on a grid, wherever they stand.
fn refuses_what_is_no_number(yours: &Answer<'_>) -> Verdict {
    let bad = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let places: [(usize, usize); 7] = [(1, 0), (3, 0), (3, 1), (3, 2), (100, 71), (1000, 999), (1000, 300)];
    for (bad, (n, place)) in bad.into_iter().flat_map(|bad| places.map(|at| (bad, at))) {
        let mut numbers = [0.5, 0.75, -1.5].repeat(n.div_ceil(3));
        numbers.truncate(n);
        numbers[place] = bad;
        must_fail(ask(|| yours(&numbers)), |Int8Vector { values, scale, .. }| {
            let values = &values[..values.len().min(3)];
            format!(
                "{bad} at position {place} of {n} numbers became {values:?} with scale {scale}, as if all was well: \
                 return an `Err`"
            )
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_cutting_and_wrapping_are_told_apart() {
        let verdict = |values: [i8; 2]| {
            rounds_to_nearest(&(vec![2.7, -300.0], Int8Vector { values: values.to_vec(), scale: 1.0, zero_point: 0 }))
        };
        assert_eq!(verdict([3, -128]), Ok(()));
        assert!(verdict([2, -128]).unwrap_err().to_string().contains("cuts off"));
        assert!(verdict([3, 44]).unwrap_err().to_string().contains("wrapped"));
    }

    #[test]
    fn an_error_is_a_share_of_the_numbers() {
        let vector = Int8Vector { values: vec![3, 4], scale: 1.0, zero_point: 0 };
        assert!((vector.relative_error(&[3.0, 4.5]).unwrap() - 0.5 / 29.25_f64.sqrt()).abs() < 1e-9);
        assert!(vector.relative_error(&[3.0]).is_err());
    }
}
