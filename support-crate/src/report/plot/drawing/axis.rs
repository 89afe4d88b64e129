//! Axes: the range that shows the data, round numbers along it, and where a value falls.
//!
//! Own ticks rather than plotters', which does not return on some degenerate ranges and labels ticks
//! with all their digits; plotters takes an axis as one of its coordinates.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, KeyPointWeight, NoDefaultFormatting, Ranged, ValueFormatter};

use super::text::text_width;
use crate::report::number::{fixed, magnitude};

/// The largest and smallest magnitude of a number that can be drawn; beyond them, spans overflow.
pub(crate) const LARGEST: f64 = 1e100;
const SMALLEST_SPAN: f64 = 1e-100;

/// A range of values with the ticks to label. It runs from high to low if `low` is the larger number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axis {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<Tick>,
    pub log: bool,
    /// Whether the ticks name slots of width 1 rather than values.
    pub slots: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

impl Axis {
    /// A linear axis without ticks.
    pub fn bare(low: f64, high: f64) -> Self {
        Self { low, high, ..Self::default() }
    }

    /// A slot of width 1 for each name, with the name in its middle.
    pub fn categories(names: &[String]) -> Self {
        let tick = |(index, name): (usize, &String)| Tick { value: index as f64 + 0.5, label: name.clone() };
        let ticks = names.iter().enumerate().map(tick).collect();
        Self { ticks, slots: true, ..Self::bare(0.0, names.len() as f64) }
    }

    /// A linear axis from zero that ends on ticks, with some room beyond the data: for measured values.
    pub fn measured(values: &[f64], most_ticks: usize) -> Self {
        let (low, high) = extent(values);
        let (low, high) = widened(low.min(0.0), high.max(0.0), true);
        let room = (high - low) * 0.04;
        let low = if low == 0.0 { low } else { low - room };
        let high = if high == 0.0 { high } else { high + room };
        let ends = |step: Step| ((low / step.at(1)).floor() as i64, (high / step.at(1)).ceil() as i64);
        let (step, first, last) = Step::narrowest(high - low, most_ticks, false, ends);
        Self { ticks: step.ticks(first, last), ..Self::bare(step.at(first), step.at(last)) }
    }

    /// A linear axis that leaves a margin on both sides of the data: for what was varied, and
    /// for differences between values.
    pub fn varied(values: &[f64], most_ticks: usize) -> Self {
        let (low, high) = extent(values);
        let (wide_low, wide_high) = widened(low, high, false);
        let room = (wide_high - wide_low) * 0.05;
        let (mut start, mut end) = (wide_low - room, wide_high + room);
        // Counts and lengths begin at zero; an axis that begins just above or below it misleads.
        if low >= 0.0 && wide_low <= 0.2 * wide_high {
            start = 0.0;
        } else if high <= 0.0 && wide_high >= 0.2 * wide_low {
            end = 0.0;
        }
        let whole = values.iter().all(|value| value.fract() == 0.0);
        let ends = |step: Step| ((start / step.at(1)).ceil() as i64, (end / step.at(1)).floor() as i64);
        let (step, first, last) = Step::narrowest(end - start, most_ticks, whole, ends);
        Self { ticks: step.ticks(first, last), ..Self::bare(start, end) }
    }

    /// A logarithmic axis that ends on ticks. All values must be above zero.
    pub fn logarithmic(values: &[f64], most_ticks: usize) -> Self {
        let (low, high) = extent(values);
        let (low, high) = if high / low < 1.02 { (low / 1.1, high * 1.1) } else { (low, high) };
        let ticks = decade_ticks(low, high, most_ticks);
        let (low, high) = (ticks.first().map_or(low, |tick| tick.value), ticks.last().map_or(high, |tick| tick.value));
        Self { ticks, log: true, ..Self::bare(low, high) }
    }

    /// The same axis with a tick at each of the values, and some room beyond `all` that is to be seen, if there is room for
    /// their labels within `length` pixels; for values that are powers of two, at every second one, every third...
    pub fn with_ticks_at(self, values: &[f64], all: &[f64], size: f64, length: f64) -> Self {
        let mut distinct = values.to_vec();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        let (low, high) = extent(all);
        let doubling = distinct.iter().all(|value| value.log2().fract() == 0.0);
        for every in 1..=if doubling { distinct.len() } else { 1 } {
            let is_tick = |value: &f64| every == 1 || (value.log2() as i64).rem_euclid(every as i64) == 0;
            let ticks: Vec<Tick> = distinct.iter().copied().filter(is_tick).map(Tick::alone).collect();
            let room = 1.05 * (high / low).powf(0.02);
            let own = Self { ticks, low: low / room, high: high * room, ..self.clone() };
            if own.ticks.len() >= distinct.len().min(2) && own.fits(1, length, |label| text_width(label, size) + 8.0) {
                return own;
            }
        }
        self
    }

    /// Keeps only the labels of every second tick, every third... if there is no room for all of them within `length`
    /// pixels; `space` is how many pixels a label takes.
    pub fn thin(&mut self, length: f64, space: impl Fn(&str) -> f64) {
        let steps = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500];
        let every = steps.into_iter().find(|every| self.fits(*every, length, &space)).unwrap_or(usize::MAX);
        let left_out = self.ticks.iter_mut().enumerate().filter(|(index, _)| index % every != 0);
        left_out.for_each(|(_, tick)| tick.label.clear());
    }

    fn fits(&self, every: usize, length: f64, space: impl Fn(&str) -> f64) -> bool {
        let ticks: Vec<&Tick> = self.ticks.iter().step_by(every).collect();
        ticks.windows(2).all(|pair| {
            let away = (self.position(pair[1].value) - self.position(pair[0].value)).abs() * length;
            away >= (space(&pair[0].label) + space(&pair[1].label)) / 2.0
        })
    }

    /// This axis, whose ticks are already multiplied by a factor, for values that are yet to be multiplied by it.
    pub fn of_unscaled(mut self, factor: f64) -> Self {
        self.ticks.iter_mut().for_each(|tick| tick.value /= factor);
        Self { low: self.low / factor, high: self.high / factor, ..self }
    }

    /// Whether a value falls on the axis: what lies beyond an end is drawn there.
    pub fn has(&self, value: f64) -> bool {
        let (low, high) = (self.low.min(self.high), self.low.max(self.high));
        (low - 1e-9 * low.abs()..=high + 1e-9 * high.abs()).contains(&value)
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

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        start + (self.position(*value) * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let bold = matches!(hint.weight(), KeyPointWeight::Bold);
        self.ticks.iter().filter(|_| bold).map(|tick| tick.value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|tick| tick.value == *value).map_or_else(String::new, |tick| tick.label.clone())
    }
}

impl Tick {
    /// A tick with the fewest digits that still give its value, up to four.
    fn alone(value: f64) -> Self {
        let rounded = |digits: &i32| format!("{value:.*e}", *digits as usize - 1).parse().unwrap_or(value);
        let digits = (1..4).find(|digits| ((rounded(digits) - value) / value).abs() < 1e-9).unwrap_or(4);
        Self { value, label: written(value, value, magnitude(value) + 1 - digits) }
    }
}

/// A number of an axis, all of which are written alike: in the unit that suits the largest, down to the
/// digit of an exponent.
fn written(value: f64, largest: f64, last: i32) -> String {
    let (unit, suffix) = match magnitude(largest) {
        6..=8 => (6, "M".to_owned()),
        9..=11 => (9, "G".to_owned()),
        12..=14 => (12, "T".to_owned()),
        -4..=5 => (0, String::new()),
        other => (other, format!("e{other}")),
    };
    if value == 0.0 {
        return "0".into();
    }
    format!("{}{suffix}", fixed(value / 10f64.powi(unit), (unit - last).max(0) as usize))
}

/// A distance between ticks: 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy)]
struct Step {
    digit: i64,
    exponent: i32,
}

impl Step {
    /// The narrowest step, a whole number if `whole`, that gives at most `most` ticks; with the first and last tick, as
    /// `ends` has them.
    fn narrowest(span: f64, most: usize, whole: bool, ends: impl Fn(Step) -> (i64, i64)) -> (Step, i64, i64) {
        let least = span / most as f64;
        let steps = (magnitude(least)..).flat_map(|exponent| [1, 2, 5].map(|digit| Step { digit, exponent }));
        let wide = steps.filter(|step| step.at(1) >= least && !(whole && step.exponent < 0));
        let mut ended = wide.map(|step| (step, ends(step).0, ends(step).1));
        let fits = |(_, first, last): &(Step, i64, i64)| last - first < most as i64;
        ended.find(fits).unwrap_or((Step { digit: 1, exponent: magnitude(span) }, 0, 1))
    }

    /// The value of a tick. Dividing by a power of ten rounds once: 3 / 10 is 0.3, 3 * 0.1 is not.
    fn at(self, index: i64) -> f64 {
        let digits = (index * self.digit) as f64;
        if self.exponent < 0 { digits / 10f64.powi(-self.exponent) } else { digits * 10f64.powi(self.exponent) }
    }

    fn ticks(self, first: i64, last: i64) -> Vec<Tick> {
        let largest = self.at(first).abs().max(self.at(last).abs());
        let tick = |value| Tick { value, label: written(value, largest, self.exponent) };
        (first..=last).map(|index| tick(self.at(index))).collect()
    }
}

/// Ticks around a range: at 1, 2, 5 of each decade if they fit, else at its ends and the decades between, or every
/// second one... A short range has round numbers at equal distances.
fn decade_ticks(low: f64, high: f64, most: usize) -> Vec<Tick> {
    if high / low < 3.0 {
        let ends = |step: Step| ((low / step.at(1)).floor() as i64, (high / step.at(1)).ceil() as i64);
        let (step, first, last) = Step::narrowest(high - low, most, false, ends);
        if first > 0 {
            return step.ticks(first, last);
        }
    }
    let exponents = magnitude(low)..=magnitude(high) + 1;
    let all: Vec<f64> = exponents.flat_map(|exponent| [1, 2, 5].map(|digit| Step { digit, exponent }.at(1))).collect();
    let first = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
    let last = all.iter().position(|tick| *tick >= high).unwrap_or(all.len() - 1);
    let (around, ends) = (&all[first..=last], [all[first], all[last]]);
    let within = |every: i32| -> Vec<f64> {
        let is_decade = |tick: &f64| *tick == Step { digit: 1, exponent: magnitude(*tick) }.at(1);
        let is_kept = |tick: &f64| ends.contains(tick) || (is_decade(tick) && magnitude(*tick).rem_euclid(every) == 0);
        let kept = around.iter().copied().filter(is_kept);
        // Where the range is long, an end leaves no room for its neighbour.
        let room = (ends[1] / ends[0]).powf(0.06);
        let clear = |tick: &f64| ends.contains(tick) || (*tick / ends[0]).min(ends[1] / *tick) >= room;
        kept.filter(clear).collect()
    };
    let mut all = std::iter::once(around.to_vec()).chain((1..).map(within));
    let fitting = all.find(|ticks| ticks.len() <= most).unwrap_or_default();
    fitting.into_iter().map(Tick::alone).collect()
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
        return if from_zero && low >= 0.0 { (0.0, 1.0) } else { (-1.0, 1.0) };
    }
    let room = if low.fract() == 0.0 && size < 1e6 { (size * 0.1).max(1.0) } else { size * 0.1 };
    (low - room, high + room)
}

#[cfg(test)]
#[path = "axis_tests.rs"]
mod tests;
