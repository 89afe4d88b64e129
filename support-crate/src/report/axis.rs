//! Axes: the range that shows the data, round numbers along it, and where a value falls.
//!
//! Own code rather than the plotting crate's, which does not return on some degenerate ranges and
//! labels ticks with all their digits.

use super::number::{decimals_for, fixed, magnitude, significant, whole};

/// The largest and smallest size of a number that can be drawn; beyond, spans overflow.
pub(crate) const LARGEST: f64 = 1e100;
const SMALLEST_SPAN: f64 = 1e-100;

/// A range of values with the ticks to label.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<Tick>,
    pub log: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

impl Axis {
    /// A linear axis that ends on ticks, with some room above the data: for measured values.
    pub fn measured(values: &[f64], from_zero: bool, most_ticks: usize) -> Self {
        let (mut low, mut high) = extent(values);
        if from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let (low, high) = widened(low, high, from_zero);
        let room = (high - low) * 0.04;
        let low = if from_zero && low == 0.0 { low } else { low - room };
        let high = if from_zero && high == 0.0 { high } else { high + room };
        for step in Step::upwards_from((high - low) / most_ticks as f64) {
            let (first, last) = ((low / step.size()).floor(), (high / step.size()).ceil());
            if last - first + 1.0 <= most_ticks as f64 {
                let ticks = step.ticks(first as i64, last as i64);
                return Self { low: step.at(first as i64), high: step.at(last as i64), ticks, log: false };
            }
        }
        unreachable!("the steps grow without end")
    }

    /// A linear axis that leaves a margin on both sides of the data: for what was varied.
    pub fn varied(values: &[f64], most_ticks: usize) -> Self {
        let (low, high) = extent(values);
        let (wide_low, wide_high) = widened(low, high, false);
        let room = (wide_high - wide_low) * 0.04;
        let (mut start, mut end) = (wide_low - room, wide_high + room);
        // Counts and lengths begin at zero; an axis that begins just above or below it misleads.
        if low >= 0.0 && wide_low <= 0.2 * wide_high {
            start = 0.0;
        } else if high <= 0.0 && wide_high >= 0.2 * wide_low {
            end = 0.0;
        }
        let whole_numbers = values.iter().all(|v| v.fract() == 0.0);
        for step in Step::upwards_from((end - start) / most_ticks as f64) {
            let (first, last) = ((start / step.size()).ceil(), (end / step.size()).floor());
            if (whole_numbers && step.exponent < 0) || last - first + 1.0 > most_ticks as f64 {
                continue;
            }
            return Self { low: start, high: end, ticks: step.ticks(first as i64, last as i64), log: false };
        }
        unreachable!("the steps grow without end")
    }

    /// A logarithmic axis. All values must be above zero.
    pub fn logarithmic(values: &[f64], most_ticks: usize) -> Self {
        let (low, high) = extent(values);
        let room = ((high / low).ln() * 0.05).max(0.05).exp();
        let (low, high) = (low / room, high * room);
        let ticks = decade_ticks(low, high, most_ticks);
        Self { low, high, ticks, log: true }
    }

    /// The same axis with a tick at each of the values, where they are few.
    pub fn with_ticks_at(mut self, values: &[f64], most_ticks: usize) -> Self {
        let mut distinct = values.to_vec();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() <= most_ticks {
            self.ticks = distinct.into_iter().map(Tick::alone).collect();
        }
        self
    }

    /// Where a value falls: 0 at the low end, 1 at the high end.
    pub fn position(&self, value: f64) -> f64 {
        let position = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        position.clamp(0.0, 1.0)
    }
}

impl Tick {
    fn alone(value: f64) -> Self {
        let label = if value.fract() == 0.0 && value.abs() < 1e6 { whole(value as i64) } else { shortest(value) };
        Self { value, label }
    }
}

/// A distance between ticks: 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy)]
struct Step {
    digit: i64,
    exponent: i32,
}

impl Step {
    /// The round steps from one that is at least so wide, each wider than the one before.
    fn upwards_from(width: f64) -> impl Iterator<Item = Step> {
        let exponent = magnitude(width);
        (exponent..)
            .flat_map(|exponent| [1, 2, 5].map(|digit| Step { digit, exponent }))
            .skip_while(move |step| step.size() < width)
    }

    fn size(self) -> f64 {
        self.at(1)
    }

    /// The value of a tick. Dividing by a power of ten rounds once: 3 / 10 is 0.3, 3 * 0.1 is not.
    fn at(self, index: i64) -> f64 {
        let digits = (index * self.digit) as f64;
        if self.exponent < 0 { digits / 10f64.powi(-self.exponent) } else { digits * 10f64.powi(self.exponent) }
    }

    fn ticks(self, first: i64, last: i64) -> Vec<Tick> {
        let largest = self.at(first).abs().max(self.at(last).abs());
        let labels = Labels::for_step(largest, self.exponent);
        (first..=last).map(|index| Tick { value: self.at(index), label: labels.label(self.at(index)) }).collect()
    }
}

/// How the numbers of one axis are written: all alike.
struct Labels {
    exponent: i32,
    decimals: usize,
    suffix: String,
}

impl Labels {
    fn for_step(largest: f64, step_exponent: i32) -> Self {
        let (exponent, suffix) = match magnitude(largest) {
            6..=8 => (6, "M".to_string()),
            9..=11 => (9, "G".to_string()),
            12..=14 => (12, "T".to_string()),
            -4..=5 => (0, String::new()),
            other => (other, format!("e{other}")),
        };
        Self { exponent, decimals: (exponent - step_exponent).max(0) as usize, suffix }
    }

    /// The label without zeros at the end of its decimals.
    fn label_short(&self, value: f64) -> String {
        let digits = fixed(value / 10f64.powi(self.exponent), self.decimals);
        let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
        format!("{digits}{}", self.suffix)
    }

    fn label(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        format!("{}{}", fixed(value / 10f64.powi(self.exponent), self.decimals), self.suffix)
    }
}

/// Ticks at 1, 2, 5 of each decade if they fit, else at the decades, else at every second one...
fn decade_ticks(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let decades = magnitude(low)..=magnitude(high);
    let within = |digits: &[i64], every: i32| -> Vec<f64> {
        let exponents = decades.clone().filter(|e| e.rem_euclid(every) == 0);
        exponents
            .flat_map(|exponent| digits.iter().map(move |&digit| Step { digit, exponent }.size()))
            .filter(|value| (low..=high).contains(value))
            .collect()
    };
    let dense = [&[1, 2, 3, 4, 5, 6, 7, 8, 9][..], &[1, 2, 5], &[1]].into_iter().map(|d| within(d, 1));
    let sparse = (2..).map(|every| within(&[1], every));
    let fitting = dense.chain(sparse).find(|ticks| ticks.len() <= most).unwrap_or_default();
    if fitting.len() >= 2 {
        return fitting.into_iter().map(Tick::alone).collect();
    }
    // Less than a decade may hold no round power of ten: then round numbers of a linear axis do.
    let linear = Axis::varied(&[low, high], most).ticks;
    linear.into_iter().filter(|tick| (low..=high).contains(&tick.value)).collect()
}

/// The value with the fewest digits that still give it, up to four.
fn shortest(value: f64) -> String {
    let exponent = magnitude(value);
    if (6..15).contains(&exponent) {
        return Labels::for_step(value.abs(), exponent - 2).label_short(value);
    }
    let enough = |digits: usize| ((significant_value(value, digits) - value) / value).abs() < 1e-9;
    let digits = (1..4).find(|&digits| enough(digits)).unwrap_or(4);
    if (-5..6).contains(&exponent) {
        return fixed(value, decimals_for(value, digits));
    }
    significant(value, digits)
}

fn significant_value(value: f64, digits: usize) -> f64 {
    format!("{:.*e}", digits - 1, value).parse().unwrap_or(value)
}

fn extent(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// A range with some width: values that are all alike, or differ by rounding only, get room.
fn widened(low: f64, high: f64, from_zero: bool) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > (size * 1e-9).max(SMALLEST_SPAN) {
        return (low, high);
    }
    if size <= SMALLEST_SPAN {
        return if from_zero { (0.0, 1.0) } else { (-1.0, 1.0) };
    }
    let room = if low.fract() == 0.0 && size < 1e6 { (size * 0.1).max(1.0) } else { size * 0.1 };
    (low - room, high + room)
}

#[cfg(test)]
#[path = "axis_tests.rs"]
mod tests;
