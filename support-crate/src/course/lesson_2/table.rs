//! `build_results_table`: all scenarios in one table, in units that it names.

use super::ScenarioRun;
use super::expected::close;
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
        .about(&trial, "the caption names model and device", Trial::has_caption)
        .about(&trial, "says which dtype each row ran in", Trial::has_dtypes)
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
    let row = |scenario: &str, dtype: &str, tokens_generated: usize, seconds: &[f64], ppl| {
        let runs = Runs::of(seconds.iter().map(|&seconds| Metrics::of(tokens_generated, seconds)).collect())?;
        Ok::<_, Error>(ScenarioRun { scenario: scenario.to_owned(), dtype: dtype.to_owned(), runs, ppl })
    };
    // No median is a mean, the first run, the last, the middle one, the fastest or the slowest, nor is it the inverse
    // of another one where the runs are four; names contain each other.
    let rows = vec![
        row("batch 16", "float32", 48, &[1.45, 1.25, 1.75, 1.31, 1.28], None)?,
        row("int8", "static int8", 48, &[0.7, 0.64, 0.61, 0.91, 0.627], Some(11.8))?,
        row("batch 1", "float32", 48, &[4.6, 4.2, 4.9, 4.4, 4.31], None)?,
        row("baseline", "float32", 384, &[2.9, 2.8, 2.7, 3.3, 2.75], Some(11.5))?,
        row("int8, head too", "static int8, head int8", 384, &[0.9, 0.6, 0.99, 0.58], Some(12.25))?,
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
            wrong!("{} scenarios were given, the table has {} rows", self.rows.len(), self.table.rows())
        }
    }

    /// Whether a column holds one of a run's statistics, times a factor; rounded, or as text, if need be.
    fn holds(&self, column: usize, of: impl Fn(&Runs) -> f64, factor: f64) -> Result<bool, Complaint> {
        let cells = &self.table.columns[column].cells;
        Ok(self
            .rows
            .iter()
            .zip(self.places()?)
            .all(|(row, place)| number(&cells[place]).is_some_and(|value| close(value, factor * of(&row.runs)))))
    }

    fn find(&self, of: impl Fn(&Runs) -> f64, factor: f64) -> Result<Option<String>, Complaint> {
        for (index, column) in self.table.columns.iter().enumerate() {
            if self.holds(index, &of, factor)? {
                return Ok(Some(column.full_name()));
            }
        }
        Ok(None)
    }

    fn has(&self, quantity: &Quantity) -> Result<(), Complaint> {
        let Quantity { name, unit, of, is_named } = quantity;
        if let Some(heading) = self.find(|runs| of(runs).median, 1.0)? {
            Complaint::unless(!["s", "ms"].contains(&heading.trim_matches(['(', ')', '[', ']', ' '])), || {
                format!("the column that holds the {name} has no name: its heading is only `{heading}`")
            })?;
            return Complaint::unless(is_named(&heading.to_lowercase()), || {
                format!("the column `{heading}` holds the {name} in {unit}, but its heading does not say that unit")
            });
        }
        for factor in [1e3, 1e-3] {
            if let Some(heading) = self.find(|runs| of(runs).median, factor)? {
                return wrong!(
                    "the column `{heading}` holds the {name}, but {factor} times what it is in {unit}: whoever \
                     compares it with another table is wrong by a factor of a thousand"
                );
            }
        }
        type Statistic = fn(&Statistics) -> f64;
        let others: [(&str, Statistic); 3] =
            [("mean", |of| of.mean), ("lower end", |of| of.low), ("upper end", |of| of.high)];
        for (what, statistic) in others {
            if let Some(heading) = self.find(|runs| statistic(&of(runs)), 1.0)? {
                return wrong!("the column `{heading}` holds the {what} of the {name}, not the median of its runs");
            }
        }
        wrong!("no column holds the median {name} of every scenario in {unit}")
    }

    fn has_ppl(&self) -> Result<(), Complaint> {
        let places = self.places()?;
        let is_ppl = |cells: &[Cell]| {
            self.rows.iter().zip(&places).all(|(row, &place)| match (row.ppl, number(&cells[place])) {
                (Some(ppl), Some(value)) => close(value, ppl),
                (None, Some(value)) => value.is_nan(),
                (ppl, None) => ppl.is_none(),
            })
        };
        let Some(column) = self.table.columns.iter().find(|column| is_ppl(&column.cells)) else {
            return wrong!(
                "no column holds the perplexities as numbers, with an empty cell where none was measured (0 would say \
                 that it was, and was perfect)",
            );
        };
        let heading = column.full_name().to_lowercase();
        Complaint::unless(heading.contains("ppl") || heading.contains("perplexity"), || {
            format!("the heading of the column that holds the perplexities, `{heading}`, does not say so")
        })
    }

    fn caption(&self) -> String {
        format!("{}\n{}", self.table.title, self.table.notes.join("\n"))
    }

    fn has_caption(&self) -> Result<(), Complaint> {
        let caption = self.caption();
        let RunInfo { model, device, .. } = &self.info;
        let device = device.to_string();
        let parts = [("model", model), ("device", &device)];
        parts.into_iter().try_for_each(|(what, text)| {
            Complaint::unless(caption.contains(text.as_str()), || {
                format!("neither title nor notes name the {what} ({text}): numbers without it compare with nothing")
            })
        })
    }

    /// A column has the dtype in its row, or the caption says it after the scenario's name.
    fn has_dtypes(&self) -> Result<(), Complaint> {
        let places = self.places()?;
        let caption = self.caption();
        let is_after = |text: &str, dtype: &str| {
            let text = text.trim_start_matches([' ', ':', '=', '(', '-', '>', ',', '"', '\'']);
            text.strip_prefix(dtype).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        let in_caption = |row: &ScenarioRun| {
            let mut names = caption.match_indices(&row.scenario);
            names.any(|(at, name)| is_after(&caption[at + name.len()..], &row.dtype))
        };
        let columns: Vec<Vec<String>> = self.table.columns.iter().map(|column| column.written()).collect();
        let wrong = |cells: &Vec<String>| {
            let rows = self.rows.iter().zip(&places);
            rows.filter(|(row, place)| cells[**place] != row.dtype).map(|(row, _)| row).collect::<Vec<_>>()
        };
        if self.rows.iter().all(in_caption) || columns.iter().any(|cells| wrong(cells).is_empty()) {
            return Ok(());
        }
        let closest = columns.iter().map(wrong).min_by_key(Vec::len).unwrap_or_default();
        let row = closest.first().copied().unwrap_or(&self.rows[0]);
        wrong!("nothing says that {:?} ran in {:?}", row.scenario, row.dtype)
    }
}

/// The number of a cell; of one that is text, the first number in it.
fn number(cell: &Cell) -> Option<f64> {
    let Cell::Text(text) = cell else { return cell.estimate().map(|estimate| estimate.value) };
    let is_part = |c: char| c.is_ascii_digit() || ".-+eE".contains(c);
    text.replace(',', "").split(|c| !is_part(c)).find_map(|part| part.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_text_too() {
        let text = |text: &str| number(&Cell::Text(text.to_owned()));
        assert_eq!(text("1,234.5 [1,100, 1,300] ms"), Some(1234.5));
        assert_eq!((text("-"), text(""), text("n/a")), (None, None, None));
    }

    #[test]
    fn no_statistic_of_the_rows_is_another_one() {
        for row in given().unwrap().0 {
            let Statistics { median, mean, low, high, .. } = row.runs.latency;
            let all = &row.runs.runs;
            let runs = [&all[0], &all[all.len() / 2], &all[all.len() - 1]].map(|run| run.total_latency_s);
            let others = [&[mean, low, high], &runs[..]].concat();
            assert!(others.iter().all(|other| !close(*other, median)), "{row:?}");
        }
    }
}
