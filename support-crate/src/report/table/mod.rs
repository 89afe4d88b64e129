//! Tables: built by columns or by rows, shown as HTML and text, written as CSV.

pub(super) mod cell;
mod frame;
mod text;

use std::fmt::Display;
use std::path::Path;

use super::display::{save, show};
use super::number::labelled;
use crate::error::{Error, Result};
pub use cell::{Cell, IntoRow};
use cell::{Digits, Kind, common_kind, written};

/// A table of measurements.
///
/// A column or row that does not fit is no error at once, so that a cell can go on building. The first such error is
/// what the table then shows, and what writing it or [`checked`](Self::checked) returns.
///
/// By columns:
///
/// ```
/// use quantlab::report::{Estimate, Table};
///
/// let table = Table::new("Prompt lengths")
///     .column("prompt", "tokens", [16, 64, 256])
///     .column("latency", "s", [0.111, 0.193, 0.534])
///     .column("throughput", "tokens/s", [12.3, 11.9, 10.2].map(|v| Estimate::plus_minus(v, 0.2)))
///     .decimals("latency", 2)
///     .note("model embedded | kernels | cpu | float32 | 2 threads | release");
/// assert!(table.to_text().contains("12.3 [12.1, 12.5]"));
/// ```
///
/// By rows:
///
/// ```
/// use quantlab::report::Table;
///
/// let table = Table::new("Precisions")
///     .headings([("precision", ""), ("latency", "s")])
///     .row(("float32", 0.52))
///     .row(("bfloat16", 0.31));
/// assert_eq!(table.rows(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) notes: Vec<String>,
    /// The first thing that was wrong while it was built.
    error: Option<Error>,
}

/// A column of a [`Table`].
#[derive(Debug, Clone)]
pub struct Column {
    /// What its values are.
    pub name: String,
    /// What they are counted in; `""` for none.
    pub unit: String,
    /// A value for each row.
    pub cells: Vec<Cell>,
    digits: Digits,
    plus_minus: bool,
}

impl Table {
    /// A table without columns yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), columns: Vec::new(), notes: Vec::new(), error: None }
    }

    /// Adds a column of numbers, words or [`Estimate`](super::Estimate)s, with the unit of its numbers
    /// (`""` for none): a value for each row, and a name that no other column has.
    pub fn column(
        self,
        name: impl Into<String>,
        unit: impl Into<String>,
        values: impl IntoIterator<Item: Into<Cell>>,
    ) -> Self {
        let cells: Vec<Cell> = values.into_iter().map(Into::into).collect();
        let (name, unit) = (name.into(), unit.into());
        self.try_change(|table| {
            if let Some(first) = table.columns.first().filter(|first| first.cells.len() != cells.len()) {
                return Err(Error::input(format!(
                    "table `{}`: column `{name}` has {}, but `{}` has {}",
                    table.title,
                    values_counted(cells.len()),
                    first.name,
                    values_counted(first.cells.len()),
                ))
                .hint("give every column one value per row; None stands for a missing value"));
            }
            if common_kind(&cells).is_none() {
                return Err(table.mixed(&name));
            }
            if table.columns.iter().any(|other| other.name == name) {
                return Err(Error::input(format!("table `{}` has two columns `{name}`", table.title))
                    .hint("give every column a name of its own"));
            }
            table.columns.push(Column { name, unit, cells, digits: Digits::Auto, plus_minus: false });
            Ok(())
        })
    }

    /// Adds columns by name and unit, to be filled with [`row`](Self::row).
    pub fn headings<N: Into<String>, U: Into<String>>(self, columns: impl IntoIterator<Item = (N, U)>) -> Self {
        let no_cells = || [(); 0].map(|()| Cell::Missing);
        columns.into_iter().fold(self, |table, (name, unit)| table.column(name, unit, no_cells()))
    }

    /// Adds a row: a tuple such as `("float32", 0.52)`, or an array of values of one type.
    pub fn row(self, cells: impl IntoRow) -> Self {
        let cells = cells.into_row();
        self.try_change(|table| {
            if cells.len() != table.columns.len() {
                return Err(Error::input(format!(
                    "table `{}`: a row of {} for {} columns",
                    table.title,
                    values_counted(cells.len()),
                    table.columns.len(),
                ))
                .hint("name the columns with .headings([(\"name\", \"unit\")]) and give one value for each"));
            }
            for (index, cell) in cells.into_iter().enumerate() {
                let column = &mut table.columns[index];
                column.cells.push(cell);
                // All that are there are of one kind, that of the first that has one.
                let first = column.cells.iter().find(|cell| cell.kind().is_some());
                if common_kind(first.into_iter().chain(column.cells.last())).is_none() {
                    let name = column.name.clone();
                    return Err(table.mixed(&name));
                }
            }
            Ok(())
        })
    }

    /// Shows a column with a fixed count of decimals.
    pub fn decimals(self, column: &str, decimals: usize) -> Self {
        self.change_column(column, |column| column.digits = Digits::Decimals(decimals.min(17)))
    }

    /// Shows a column with a count of significant digits.
    pub fn digits(self, column: &str, digits: usize) -> Self {
        self.change_column(column, |column| column.digits = Digits::Significant(digits.clamp(1, 17)))
    }

    /// Shows the estimates of a column as a value and its error, `12.3 +/- 0.2` (with the
    /// sign for it), instead of `12.3 [12.1, 12.6]`.
    pub fn plus_minus(self, column: &str) -> Self {
        self.change_column(column, |column| column.plus_minus = true)
    }

    /// Adds a line of small print below the table: model, engine, device, dtype, threads, build.
    pub fn note(mut self, note: impl Display) -> Self {
        let note = note.to_string();
        if !note.trim().is_empty() {
            self.notes.push(note);
        }
        self
    }

    /// What stands above it.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Its columns, from the left.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What stands below it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How many rows the table has.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }

    /// The table, if nothing is wrong with it.
    ///
    /// # Errors
    /// The first thing that was wrong while the table was built: columns of different lengths, a row of too few or too
    /// many values, words among numbers, two columns of one name, a column that is not there.
    pub fn checked(self) -> Result<Self> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Writes the numbers to a CSV file, unrounded.
    ///
    /// # Errors
    /// Those of [`data_frame`](Self::data_frame); a file that cannot be written.
    pub fn write_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        save(path.as_ref(), self.to_csv_string()?.as_bytes())
    }

    /// Shows the table as a notebook cell's value.
    pub fn evcxr_display(&self) {
        show(&self.to_text(), &self.to_html());
    }

    fn change_column(self, name: &str, change: impl FnOnce(&mut Column)) -> Self {
        self.try_change(|table| {
            let names: Vec<String> = table.columns.iter().map(|column| format!("`{}`", column.name)).collect();
            let column = table.columns.iter_mut().find(|column| column.name == name).ok_or_else(|| {
                Error::input(format!("table `{}` has no column `{name}`", table.title))
                    .hint(format!("it has {}", if names.is_empty() { "none yet".into() } else { names.join(", ") }))
            })?;
            change(column);
            Ok(())
        })
    }

    /// Makes a change, unless an earlier one has failed.
    fn try_change(mut self, change: impl FnOnce(&mut Self) -> Result<()>) -> Self {
        if self.error.is_none() {
            self.error = change(&mut self).err();
        }
        self
    }

    fn mixed(&self, column: &str) -> Error {
        Error::input(format!("table `{}`: column `{column}` mixes words and numbers", self.title))
            .hint("turn its numbers into text with format!, or give None where there is no number")
    }
}

impl Column {
    /// The cells as they are shown.
    pub fn written(&self) -> Vec<String> {
        written(&self.cells, self.digits, self.plus_minus)
    }

    pub(crate) fn kind(&self) -> Kind {
        common_kind(&self.cells).unwrap_or(Kind::Text)
    }

    /// The column's name with its unit, as it stands in data frames and CSV files.
    pub fn full_name(&self) -> String {
        labelled(&self.name, &self.unit)
    }
}

fn values_counted(count: usize) -> String {
    if count == 1 { "1 value".into() } else { format!("{count} values") }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
