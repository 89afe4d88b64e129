//! `build_results_table`: all scenarios in one table, in units that it names.

use super::ScenarioRun;
use super::expected::same;
use crate::course::{Check, Complaint, Score, ask};
use crate::error::{Error, Result};
use crate::measure::{Metrics, RunInfo, Runs, Statistics};
use crate::model::Device;
use crate::report::{Cell, Table};

const HINTS: [&str; 3] = [
    "Someone sees only this table, in a year. What must it say so that its numbers mean something?",
    "`Table::new(title)` has `.column(name, unit, values)?` and `.note(...)`; `runs.latency` is in seconds, \
     `runs.throughput` in tokens/s, `runs.per_token` in ms. A column takes `Option`s: `None` stays empty.",
    "`Table::new(\"[6] Summary table\").column(\"scenario\", \"\", rows.iter().map(|row| \
     &row.scenario))?.column(\"dtype\", ...)?.column(\"latency\", \"s\", rows.iter().map(|row| row.runs.latency))?`, \
     the other two and `ppl` in the same way, and `.note(info)` at the end.",
];

/// Checks `build_results_table(rows, info)`.
pub fn check_build_results_table(yours: impl Fn(&[ScenarioRun], &RunInfo) -> Result<Table>) -> Score {
    let given = given().map_err(Complaint::from);
    let trial = given.and_then(|(rows, info)| {
        let table = ask(|| yours(&rows, &info))?;
        Ok(Trial { rows, info, table })
    });
    Check::new("build_results_table", HINTS)
        .about(&trial, "a row for every scenario", |trial| trial.places().map(|_| ()))
        .about(&trial, "latency in seconds", |trial| trial.has(&LATENCY))
        .about(&trial, "throughput in tokens/s", |trial| trial.has(&THROUGHPUT))
        .about(&trial, "time per token in ms", |trial| trial.has(&PER_TOKEN))
        .about(&trial, "perplexity where it was measured, and nothing where it was not", Trial::has_ppl)
        .about(&trial, "says model, device and the precision of each row", Trial::has_caption)
        .score()
}

/// A quantity of the table, and what its heading may call its unit.
struct Quantity {
    name: &'static str,
    unit: &'static str,
    of: fn(&Runs) -> Statistics,
    is_named: fn(&str) -> bool,
}

const LATENCY: Quantity = Quantity {
    name: "latency",
    unit: "s",
    of: |runs| runs.latency,
    is_named: |heading| ["(s)", "_s", "sec"].iter().any(|unit| heading.contains(unit)) && !heading.contains("ms"),
};

const THROUGHPUT: Quantity = Quantity {
    name: "throughput",
    unit: "tokens/s",
    of: |runs| runs.throughput,
    is_named: |heading| heading.contains("tok") && ["/s", "per s", "per_s"].iter().any(|unit| heading.contains(unit)),
};

const PER_TOKEN: Quantity = Quantity {
    name: "time per token",
    unit: "ms",
    of: |runs| runs.per_token,
    is_named: |heading| heading.contains("ms") || heading.contains("milli"),
};

struct Trial {
    rows: Vec<ScenarioRun>,
    info: RunInfo,
    table: Table,
}

fn given() -> Result<(Vec<ScenarioRun>, RunInfo)> {
    let row = |scenario: &str, dtype: &str, tokens_generated: usize, seconds: [f64; 3], ppl| {
        let runs = Runs::of(seconds.map(|seconds| Metrics::of(tokens_generated, seconds)).to_vec())?;
        Ok::<_, Error>(ScenarioRun { scenario: scenario.to_owned(), dtype: dtype.to_owned(), runs, ppl })
    };
    let rows = vec![
        row("baseline", "float32", 48, [1.25, 1.31, 1.75], Some(11.5))?,
        row("static int8", "static int8, rest float32", 48, [0.61, 0.64, 0.91], Some(11.8))?,
        row("cache off", "float32", 48, [4.2, 4.4, 4.9], None)?,
        row("batch 8", "float32", 384, [2.7, 2.8, 3.3], None)?,
    ];
    let info = RunInfo {
        model: "lab/whole".to_owned(),
        engine: "kernels".to_owned(),
        device: Device::Cpu,
        dtype: "float32".to_owned(),
        threads: 7,
        threads_granted: 7,
        build: "optimised".to_owned(),
    };
    Ok((rows, info))
}

impl Trial {
    /// The table's row of each scenario.
    fn places(&self) -> Result<Vec<usize>, Complaint> {
        let written: Vec<Vec<String>> = self.table.columns.iter().map(|column| column.written()).collect();
        let place = |row: &ScenarioRun| {
            let found = written.iter().find_map(|cells| cells.iter().position(|cell| *cell == row.scenario));
            found.ok_or_else(|| Complaint::wrong(format!("there is no row for the scenario {:?}", row.scenario)))
        };
        let places: Vec<usize> = self.rows.iter().map(place).collect::<Result<_, _>>()?;
        if self.table.rows() == self.rows.len() {
            Ok(places)
        } else {
            Err(Complaint::wrong(format!(
                "{} scenarios were given, the table has {} rows",
                self.rows.len(),
                self.table.rows()
            )))
        }
    }

    /// Whether a column has these values, times a factor: medians or means.
    fn holds(&self, column: usize, quantity: &Quantity, factor: f64) -> Result<bool, Complaint> {
        let cells = &self.table.columns[column].cells;
        Ok(self.rows.iter().zip(self.places()?).all(|(row, place)| {
            let Statistics { median, mean, .. } = (quantity.of)(&row.runs);
            cells[place].estimate().is_some_and(|cell| [median, mean].iter().any(|v| same(cell.value, factor * v)))
        }))
    }

    fn find(&self, quantity: &Quantity, factor: f64) -> Result<Option<String>, Complaint> {
        for (index, column) in self.table.columns.iter().enumerate() {
            if self.holds(index, quantity, factor)? {
                return Ok(Some(column.full_name()));
            }
        }
        Ok(None)
    }

    fn has(&self, quantity: &Quantity) -> Result<(), Complaint> {
        let Quantity { name, unit, is_named, .. } = quantity;
        if let Some(heading) = self.find(quantity, 1.0)? {
            return Complaint::unless(is_named(&heading.to_lowercase()), || {
                format!("the column `{heading}` holds the {name} in {unit}, but its heading does not say that unit")
            });
        }
        for factor in [1e3, 1e-3] {
            if let Some(heading) = self.find(quantity, factor)? {
                return Err(Complaint::wrong(format!(
                    "the column `{heading}` holds the {name}, but {factor} times what it is in {unit}: whoever compares \
                     it with another table is wrong by a factor of a thousand"
                )));
            }
        }
        Err(Complaint::wrong(format!("no column holds the {name} of every scenario in {unit}")))
    }

    fn has_ppl(&self) -> Result<(), Complaint> {
        let places = self.places()?;
        let is_ppl = |cells: &[Cell]| {
            self.rows.iter().zip(&places).all(|(row, &place)| match (row.ppl, cells[place].estimate()) {
                (Some(ppl), Some(cell)) => same(cell.value, ppl),
                (None, None) => true,
                (None, Some(cell)) => cell.value.is_nan(),
                (Some(_), None) => false,
            })
        };
        Complaint::unless(self.table.columns.iter().any(|column| is_ppl(&column.cells)), || {
            "no column holds the perplexities as numbers, with an empty cell where none was measured (0 would say \
                 that it was, and was perfect)"
        })
    }

    fn has_caption(&self) -> Result<(), Complaint> {
        let caption = format!("{}\n{}", self.table.title, self.table.notes.join("\n"));
        let (model, device) = (&self.info.model, self.info.device.to_string());
        for (what, text) in [("model", model), ("device", &device)] {
            if !caption.contains(text) {
                return Err(Complaint::wrong(format!(
                    "neither title nor notes name the {what} ({text}): numbers without it compare with nothing"
                )));
            }
        }
        let text = self.table.to_text();
        match self.rows.iter().find(|row| !text.contains(&row.dtype)) {
            None => Ok(()),
            Some(row) => Err(Complaint::wrong(format!("nothing says that {:?} ran in {:?}", row.scenario, row.dtype))),
        }
    }
}
