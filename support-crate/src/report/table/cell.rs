//! The values a table holds, and how a column of them is written.

use super::super::estimate::Estimate;
use super::super::number::{common_decimals, decimals_for, fixed, needed_decimals, needs_exponent, significant, whole};
use crate::measure::{Statistics, Uncertain};

/// One value of a table. Strings, integers, floating-point numbers, estimates and options convert to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing was measured: shown empty.
    Missing,
    /// Words.
    Text(String),
    /// A whole number, shown with all its digits.
    Whole(i64),
    /// A number, rounded when shown.
    Number(f64),
    /// A number with an interval.
    Estimate(Estimate),
}

/// What the cells of a column have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Text,
    Whole,
    Number,
    Estimate,
}

/// How many digits a column shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Digits {
    Auto,
    Decimals(usize),
    Significant(usize),
}

impl Cell {
    /// A number that is shown whole if it is.
    pub(crate) fn plain(value: f64) -> Self {
        if value.fract() == 0.0 && value.abs() < 1e15 { Cell::Whole(value as i64) } else { Cell::Number(value) }
    }

    /// A measured number, with its interval if it has one.
    pub(crate) fn measured(estimate: Estimate) -> Self {
        if estimate.has_interval() { Cell::Estimate(estimate) } else { Cell::Number(estimate.value) }
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Cell::Missing => None,
            Cell::Text(_) => Some(Kind::Text),
            Cell::Whole(_) => Some(Kind::Whole),
            Cell::Number(_) => Some(Kind::Number),
            Cell::Estimate(_) => Some(Kind::Estimate),
        }
    }

    /// The cell's number with its interval, if it is a number.
    pub fn estimate(&self) -> Option<Estimate> {
        match self {
            Cell::Missing | Cell::Text(_) => None,
            Cell::Whole(value) => Some(Estimate::exact(*value as f64)),
            Cell::Number(value) => Some(Estimate::exact(*value)),
            Cell::Estimate(estimate) => Some(*estimate),
        }
    }
}

/// The kind that holds all the cells, if there is one: words and numbers do not mix.
pub(crate) fn common_kind<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Option<Kind> {
    let mut common = None;
    for kind in cells.into_iter().filter_map(Cell::kind) {
        common = match (common, kind) {
            (None, kind) => Some(kind),
            (Some(a), b) if a == b => Some(a),
            (Some(Kind::Text), _) | (_, Kind::Text) => return None,
            (Some(Kind::Estimate), _) | (_, Kind::Estimate) => Some(Kind::Estimate),
            _ => Some(Kind::Number),
        };
    }
    Some(common.unwrap_or(Kind::Text))
}

/// Writes the cells of one column so that their decimal points line up.
pub(crate) fn written(cells: &[Cell], digits: Digits, plus_minus: bool) -> Vec<String> {
    let numbers: Vec<Estimate> = cells.iter().filter_map(Cell::estimate).collect();
    let only_whole = cells.iter().all(|cell| matches!(cell, Cell::Whole(_) | Cell::Missing));
    let style = match digits {
        Digits::Auto if only_whole => NumberStyle::Decimals(0),
        Digits::Auto => automatic(&numbers),
        Digits::Decimals(decimals) => NumberStyle::Decimals(decimals),
        Digits::Significant(digits) => NumberStyle::Significant(digits),
    };
    cells.iter().map(|cell| style.write(cell, plus_minus)).collect()
}

#[derive(Debug, Clone, Copy)]
enum NumberStyle {
    Decimals(usize),
    Significant(usize),
}

impl NumberStyle {
    fn write(self, cell: &Cell, plus_minus: bool) -> String {
        match cell {
            Cell::Missing => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Whole(value) => match self {
                NumberStyle::Decimals(decimals) if decimals > 0 => fixed(*value as f64, decimals),
                _ => whole(*value),
            },
            Cell::Number(value) => self.number(*value),
            Cell::Estimate(estimate) => self.estimate(*estimate, plus_minus),
        }
    }

    fn number(self, value: f64) -> String {
        match self {
            NumberStyle::Decimals(decimals) => fixed(value, decimals),
            NumberStyle::Significant(digits) => significant(value, digits),
        }
    }

    fn estimate(self, estimate: Estimate, plus_minus: bool) -> String {
        let Estimate { value, low, high } = estimate;
        // The ends of an interval keep the decimals of its value.
        let style = match self {
            NumberStyle::Significant(digits) if !needs_exponent(value) => {
                NumberStyle::Decimals(decimals_for(value, digits))
            }
            style => style,
        };
        if !estimate.has_interval() {
            style.number(value)
        } else if plus_minus {
            format!("{} \u{b1} {}", style.number(value), style.number(estimate.half_width()))
        } else {
            format!("{} [{}, {}]", style.number(value), style.number(low), style.number(high))
        }
    }
}

/// One count of decimals for the column, from its values (four digits, three below one) or from its
/// narrowest interval (two digits of half its width, or one of its narrower side if that takes more: an interval may lie
/// almost all on one side of its value); three digits of each number if the column spans too much.
fn automatic(numbers: &[Estimate]) -> NumberStyle {
    let values: Vec<f64> = numbers.iter().map(|number| number.value).collect();
    let largest = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, |a, b| b.abs().max(a));
    let Some(plain) = common_decimals(&values, if largest < 1.0 { 3 } else { 4 }) else {
        return NumberStyle::Significant(3);
    };
    let narrowest = |widths: &mut dyn Iterator<Item = f64>| {
        widths.filter(|width| width.is_finite() && *width > 0.0).reduce(f64::min)
    };
    let half = narrowest(&mut numbers.iter().map(Estimate::half_width));
    let side = narrowest(&mut numbers.iter().flat_map(|Estimate { value, low, high }| [value - low, high - value]));
    match half.zip(side) {
        Some((half, side)) => {
            let ends: Vec<f64> = numbers.iter().flat_map(|number| [number.value, number.low, number.high]).collect();
            let most = decimals_for(half, 2).max(decimals_for(side, 1)).min(decimals_for(largest, 5));
            NumberStyle::Decimals(needed_decimals(&ends, most))
        }
        None => NumberStyle::Decimals(plain),
    }
}

macro_rules! cell_from {
    ($($kind:ty => $cell:expr),* $(,)?) => {$(
        impl From<$kind> for Cell {
            fn from(value: $kind) -> Self {
                let cell: fn($kind) -> Cell = $cell;
                cell(value)
            }
        }

        impl From<&$kind> for Cell {
            fn from(value: &$kind) -> Self {
                Cell::from(value.clone())
            }
        }
    )*};
}

cell_from! {
    &str => |text| Cell::Text(text.to_owned()),
    String => Cell::Text,
    bool => |value| Cell::Text(if value { "yes" } else { "no" }.to_owned()),
    i64 => Cell::Whole,
    i32 => |value| Cell::Whole(value.into()),
    u32 => |value| Cell::Whole(value.into()),
    u64 => |value| i64::try_from(value).map_or(Cell::Number(value as f64), Cell::Whole),
    usize => |value| i64::try_from(value).map_or(Cell::Number(value as f64), Cell::Whole),
    f64 => Cell::Number,
    f32 => |value| Cell::Number(value.into()),
    Estimate => Cell::Estimate,
    Statistics => |statistics| Cell::Estimate(statistics.into()),
    Uncertain => |uncertain| Cell::Estimate(uncertain.into()),
}

impl From<&Cell> for Cell {
    fn from(cell: &Cell) -> Self {
        cell.clone()
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Missing, Into::into)
    }
}

/// A row of a table: an array or vector of cells, or a tuple of values of different types.
pub trait IntoRow {
    /// The row's cells.
    fn into_row(self) -> Vec<Cell>;
}

impl<T: Into<Cell>, const N: usize> IntoRow for [T; N] {
    fn into_row(self) -> Vec<Cell> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<T: Into<Cell>> IntoRow for Vec<T> {
    fn into_row(self) -> Vec<Cell> {
        self.into_iter().map(Into::into).collect()
    }
}

macro_rules! rows_from_tuples {
    () => {};
    ($first:ident $($rest:ident)*) => {
        impl<$first: Into<Cell>, $($rest: Into<Cell>),*> IntoRow for ($first, $($rest,)*) {
            #[expect(non_snake_case, reason = "the parts are named like their types")]
            fn into_row(self) -> Vec<Cell> {
                let ($first, $($rest,)*) = self;
                vec![$first.into(), $($rest.into()),*]
            }
        }

        rows_from_tuples!($($rest)*);
    };
}

rows_from_tuples!(A B C D E F G H I J K L);

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(numbers: &[f64]) -> Vec<String> {
        let cells: Vec<Cell> = numbers.iter().map(Into::into).collect();
        written(&cells, Digits::Auto, false)
    }

    #[test]
    fn a_column_has_one_count_of_decimals() {
        assert_eq!(auto(&[0.1234567, 1.5]), ["0.123", "1.500"]);
        assert_eq!(auto(&[1234.4, 56.7]), ["1,234", "57"]);
        assert_eq!(auto(&[1e-9, 1.0]), ["1.00e-9", "1.00"]);
        assert_eq!(auto(&[0.0, 0.0]), ["0", "0"]);
        assert_eq!(auto(&[f64::NAN, 2.0]), ["NaN", "2"]);
        assert_eq!(auto(&[f64::INFINITY]), ["inf"]);
    }

    #[test]
    fn intervals_decide_the_digits_of_estimates() {
        let cells = [Cell::from(Estimate::new(12.3456, 12.11, 12.62))];
        assert_eq!(written(&cells, Digits::Auto, false), ["12.35 [12.11, 12.62]"]);
        assert_eq!(written(&cells, Digits::Decimals(1), false), ["12.3 [12.1, 12.6]"]);
        assert_eq!(written(&cells, Digits::Significant(3), true), ["12.3 \u{b1} 0.3"]);
        let skewed = [Cell::from(Estimate::new(0.31, 0.3, 25.0))];
        assert_eq!(written(&skewed, Digits::Auto, false), ["0.31 [0.30, 25.00]"]);
    }

    #[test]
    fn kinds_join_numbers_but_not_words() {
        let kind = |cells: &[Cell]| common_kind(cells);
        assert_eq!(kind(&[1.into(), 2.5.into()]), Some(Kind::Number));
        assert_eq!(kind(&[1.into(), Estimate::exact(1.0).into()]), Some(Kind::Estimate));
        assert_eq!(kind(&[Cell::Missing, 3.into()]), Some(Kind::Whole));
        assert_eq!(kind(&["a".into(), 3.into()]), None);
        assert_eq!(kind(&[]), Some(Kind::Text));
    }
}
