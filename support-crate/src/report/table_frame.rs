//! A table as a polars data frame, and from there as CSV.

use polars::prelude::*;

use super::cell::{Cell, Kind};
use super::table::{Column as TableColumn, Table};
use crate::error::{Error, Result};

pub(super) fn data_frame(table: &Table) -> Result<DataFrame> {
    let columns = table.columns.iter().flat_map(polars_columns).collect();
    DataFrame::new(table.rows(), columns)
        .map_err(|error| Error::from(error).context(format!("table `{}` as a data frame", table.title)))
}

pub(super) fn csv(table: &Table) -> Result<String> {
    let mut bytes = Vec::new();
    CsvWriter::new(&mut bytes).finish(&mut data_frame(table)?)?;
    Ok(String::from_utf8(bytes)?)
}

pub(super) fn table(title: String, frame: &DataFrame) -> Result<Table> {
    let mut table = Table::new(title);
    for column in frame.columns() {
        let cells = cells_of(column.as_materialized_series())?;
        table = table.column(column.name().as_str(), "", cells)?;
    }
    Ok(table)
}

fn polars_columns(column: &TableColumn) -> Vec<Column> {
    let name = column.full_name();
    let numbers = |name: &str, part: fn(super::Estimate) -> f64| {
        let values: Vec<Option<f64>> = column.cells.iter().map(|cell| cell.estimate().map(part)).collect();
        Column::new(name.into(), values)
    };
    match column.kind() {
        Kind::Text => {
            let values: Vec<Option<&str>> = column.cells.iter().map(text_of).collect();
            vec![Column::new(name.as_str().into(), values)]
        }
        Kind::Whole => {
            let values: Vec<Option<i64>> = column.cells.iter().map(whole_of).collect();
            vec![Column::new(name.as_str().into(), values)]
        }
        Kind::Number => vec![numbers(&name, |number| number.value)],
        Kind::Estimate => {
            let end = |end: &str| super::chart::labelled(&format!("{} {end}", column.name), &column.unit);
            vec![
                numbers(&name, |number| number.value),
                numbers(&end("low"), |number| number.low),
                numbers(&end("high"), |number| number.high),
            ]
        }
    }
}

fn text_of(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

fn whole_of(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Whole(value) => Some(*value),
        _ => None,
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
