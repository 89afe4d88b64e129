//! All that a folder has of measurements, a table for each benchmark.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Measured;
use crate::checkout::Checkout;
use crate::grade::csv_lines;
use crate::home::{Home, write_atomically};
use crate::python;
use crate::ui::run_shown;

/// Writes `BENCHMARK.csv` for each benchmark, and returns their paths. A column is a key of a row, those of what is nested
/// joined with dots; lists are left where they are.
pub fn write(measured: &Path, output: &Path) -> Result<Vec<PathBuf>> {
    let mut tables: BTreeMap<&str, Vec<BTreeMap<String, String>>> = BTreeMap::new();
    let mut found = self::measured(measured)?;
    let order = |one: &Measured| (one.unit.model.clone(), one.processor.clone(), one.unit.turn, one.date.clone());
    found.sort_by_key(order);
    for Measured { unit, processor, machine, date, state, rows, .. } in found {
        for row in rows {
            let mut columns = BTreeMap::new();
            flatten("", &row, &mut columns);
            let state = state.chars().take(12).collect();
            let turn = unit.turn.to_string();
            let more =
                [("processor", &processor), ("machine", &machine), ("date", &date), ("state", &state), ("turn", &turn)];
            columns.extend(more.map(|(name, value)| (name.to_owned(), value.clone())));
            // Other programs are measured as the benchmark measures this one.
            let table = if unit.benchmark == "quality" { "quality" } else { "inference" };
            tables.entry(table).or_default().push(columns);
        }
    }
    tables.into_iter().map(|(benchmark, rows)| write_one(&output.join(format!("{benchmark}.csv")), &rows)).collect()
}

/// What a folder has of measurements.
///
/// # Errors
/// A file that is damaged.
pub fn measured(folder: &Path) -> Result<Vec<Measured>> {
    let paths = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// Writes a table once more, as Parquet, by Python's polars (which is fetched when it is first asked for); returns its path.
///
/// # Errors
/// polars is not there, or cannot read the table.
pub fn parquet(home: &Home, checkout: &Checkout, table: &Path) -> Result<PathBuf> {
    let (to, source) = (table.with_extension("parquet"), checkout.root().join("environment/sweep"));
    let mut command = Command::new(python::tools(home, "sweep", &source).context("polars cannot be fetched")?);
    command.arg("-P").arg(source.join("parquet.py")).arg(table).arg(&to);
    run_shown(&mut command)?;
    Ok(to)
}

fn read(file: &Path) -> Result<Measured> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is damaged\n  try: remove it", file.display()))
}

/// First what a row is of, then what was measured.
const FIRST: [&str; 8] = ["model", "engine", "device", "precision", "format", "batch", "prompt", "context"];

fn write_one(file: &Path, rows: &[BTreeMap<String, String>]) -> Result<PathBuf> {
    let all: BTreeSet<&str> = rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let rest = all.iter().copied().filter(|name| !FIRST.contains(name));
    let columns: Vec<&str> = FIRST.into_iter().filter(|name| all.contains(name)).chain(rest).collect();
    let line = |row: &BTreeMap<String, String>| {
        columns.iter().map(|name| row.get(*name).cloned().unwrap_or_default()).collect::<Vec<_>>()
    };
    write_atomically(file, csv_lines(&columns, rows.iter().map(line)).as_bytes())?;
    Ok(file.to_owned())
}

fn flatten(prefix: &str, value: &Value, to: &mut BTreeMap<String, String>) {
    let inner = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| flatten(&inner(key), value, to)),
        Value::Array(_) | Value::Null => {}
        Value::String(text) => drop(to.insert(prefix.to_owned(), text.clone())),
        other => drop(to.insert(prefix.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_of_all_machines_stand_in_one_table() {
        let dir = tempfile::tempdir().unwrap();
        let measured = dir.path().join("measured");
        fs::create_dir(&measured).unwrap();
        let put = |name: &str, processor: &str, rows: Vec<Value>| {
            let unit = Unit { benchmark: "inference".into(), model: "m".into(), arguments: Vec::new(), turn: 1 };
            let (machine, date, state) = ("here".into(), "2026-12-31 23:59".into(), "0123456789abcdef".into());
            let measured_ =
                Measured { unit, processor: processor.into(), machine, began: None, date, state, note: None, rows };
            fs::write(measured.join(name), serde_json::to_vec(&measured_).unwrap()).unwrap();
        };
        put(
            "b.json",
            "A, new",
            vec![json!({"model": "m", "tok": 2.5, "quality": {"change": -0.5, "none": null, "each": [1, 2]}})],
        );
        put("a.json", "B", vec![json!({"model": "m", "engine": "tch", "tok": 1}), json!({"model": "m", "tok": 3})]);
        let files = write(&measured, dir.path()).unwrap();
        assert_eq!(files, [dir.path().join("inference.csv")]);
        let expected = "model,engine,date,machine,processor,quality.change,state,tok,turn\n\
                        m,,2026-12-31 23:59,here,\"A, new\",-0.5,0123456789ab,2.5,1\n\
                        m,tch,2026-12-31 23:59,here,B,,0123456789ab,1,1\n\
                        m,,2026-12-31 23:59,here,B,,0123456789ab,3,1\n";
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), expected);
        fs::write(measured.join("c.json"), "{").unwrap();
        let error = format!("{:#}", write(&measured, dir.path()).unwrap_err());
        assert!(error.contains("c.json is damaged"), "{error}");
    }
}
