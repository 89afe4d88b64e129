//! A table as a polars data frame, and from there as CSV.

use polars::prelude::*;

use super::super::number::labelled;
use super::cell::{Cell, Kind};
use super::{Column as TableColumn, Table};
use crate::error::{Error, Result};

impl Table {
    /// The numbers as a polars data frame, unrounded. A column of estimates becomes three: the
    /// value, `low` and `high`. Units stand in the names: `latency (s)`.
    ///
    /// # Errors
    /// Those of [`checked`](Self::checked); two columns whose names with their units are the same.
    pub fn data_frame(&self) -> Result<DataFrame> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let columns = self.columns.iter().flat_map(polars_columns).collect();
        DataFrame::new(self.rows(), columns)
            .map_err(|error| Error::from(error).context(format!("table `{}` as a data frame", self.title)))
    }

    /// A table that shows a polars data frame.
    ///
    /// # Errors
    /// A column of values that are neither numbers nor can be written as text.
    pub fn from_data_frame(title: impl Into<String>, frame: &DataFrame) -> Result<Self> {
        frame.columns().iter().try_fold(Self::new(title), |table, column| {
            Ok(table.column(column.name().as_str(), "", cells_of(column.as_materialized_series())?))
        })
    }

    /// The numbers as CSV, unrounded.
    ///
    /// # Errors
    /// Those of [`data_frame`](Self::data_frame).
    pub fn to_csv_string(&self) -> Result<String> {
        let mut bytes = Vec::new();
        CsvWriter::new(&mut bytes).finish(&mut self.data_frame()?)?;
        Ok(String::from_utf8(bytes)?)
    }
}

fn polars_columns(column: &TableColumn) -> Vec<Column> {
    let name = column.full_name();
    let numbers = |name: &str, part: fn(crate::report::Estimate) -> f64| {
        let values: Vec<Option<f64>> = column.cells.iter().map(|cell| cell.estimate().map(part)).collect();
        Column::new(name.into(), values)
    };
    match column.kind() {
        Kind::Text => {
            let texts = column.cells.iter().map(|cell| match cell {
                Cell::Text(text) => Some(text.as_str()),
                _ => None,
            });
            vec![Column::new(name.as_str().into(), texts.collect::<Vec<Option<&str>>>())]
        }
        Kind::Whole => {
            let wholes = column.cells.iter().map(|cell| match cell {
                Cell::Whole(value) => Some(*value),
                _ => None,
            });
            vec![Column::new(name.as_str().into(), wholes.collect::<Vec<Option<i64>>>())]
        }
        Kind::Number => vec![numbers(&name, |number| number.value)],
        Kind::Estimate => {
            let end = |end: &str| labelled(&format!("{} {end}", column.name), &column.unit);
            vec![
                numbers(&name, |number| number.value),
                numbers(&end("low"), |number| number.low),
                numbers(&end("high"), |number| number.high),
            ]
        }
    }
}

fn cells_of(series: &Series) -> Result<Vec<Cell>> {
    let dtype = series.dtype();
    if dtype.is_integer() {
        let values = series.cast(&DataType::Int64)?;
        return Ok(values.i64()?.iter().map(Cell::from).collect());
    }
    if dtype.is_float() {
        let values = series.cast(&DataType::Float64)?;
        return Ok(values.f64()?.iter().map(Cell::from).collect());
    }
    let values = series.cast(&DataType::String)?;
    Ok(values.str()?.iter().map(Cell::from).collect())
}
