//! `build_results_table`: all scenarios in one table, in units that it names.

use rand::Rng;

use quantlab::error::Result;
use quantlab::measure::{Metrics, RunInfo, Runs, Statistics};
use quantlab::model::Device;
use quantlab::report::{Cell, Column, Table};

use super::ScenarioRun;
use super::expected::close;
use crate::cases::random;
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Someone sees only this table, in a year. What must it say so that its numbers mean something?",
    "`Table::new(title)` has `.column(name, unit, values)` and `.note(...)`; `runs.latency_s` is in seconds, \
     `runs.tokens_per_s` in tokens/s, `runs.per_token_ms` in ms. A column takes `Option`s: `None` stays empty.",
    "`Table::new(\"Summary table\").column(\"scenario\", \"\", rows.iter().map(|row| \
     &row.scenario)).column(\"dtype\", ...).column(\"latency\", \"s\", rows.iter().map(|row| row.runs.latency_s))`, \
     the other two and `ppl` in the same way, and `.note(info)` at the end.",
];

/// Checks `build_results_table(rows, info)`.
pub fn check_build_results_table(yours: fn(&[ScenarioRun], &RunInfo) -> Result<Table>) -> Score {
    let built = |rows: &[ScenarioRun], info: &RunInfo| ask(|| yours(rows, info)?.checked());
    let trial = |(rows, info): (Vec<ScenarioRun>, RunInfo)| {
        let table = built(&rows, &info)?;
        Ok(Trial { rows, info, table })
    };
    let trials: Result<Vec<Trial>, Complaint> =
        given().map_err(Complaint::from).and_then(|all| all.into_iter().map(trial).collect());
    let points: [Point<Trial>; 6] = [
        ("latency in seconds", |trial| trial.has(&LATENCY)),
        ("throughput in tokens/s", |trial| trial.has(&THROUGHPUT)),
        ("time per token in ms", |trial| trial.has(&PER_TOKEN)),
        ("perplexity where it was measured, and nothing where it was not", Trial::has_ppl),
        ("the caption names model and device", Trial::has_caption),
        ("says which dtype each row ran in", Trial::has_dtypes),
    ];
    Score::new("build_results_table", HINTS)
        .about(&trials, "a row for every scenario", |trials| {
            trials.iter().try_for_each(|trial| trial.places().map(drop))?;
            // Two scenarios of the same name were each measured on their own, too.
            let twice = [&trials[0].rows[..], &trials[0].rows[1..3]].concat();
            has_rows(&twice, &built(&twice, &trials[0].info)?)
        })
        .each(&trials, &points)
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
    of: |runs| runs.latency_s,
    is_named: |heading| {
        ["(s)", "[s]", "_s", "sec"].iter().any(|unit| heading.contains(unit)) && !heading.contains("ms")
    },
};

const THROUGHPUT: Quantity = Quantity {
    name: "throughput",
    unit: "tokens/s",
    of: |runs| runs.tokens_per_s,
    is_named: |heading| heading.contains("tok") && ["/s", "per s", "per_s"].iter().any(|unit| heading.contains(unit)),
};

const PER_TOKEN: Quantity = Quantity {
    name: "time per token",
    unit: "ms",
    of: |runs| runs.per_token_ms,
    is_named: |heading| heading.contains("ms") || heading.contains("milli"),
};

struct Trial {
    rows: Vec<ScenarioRun>,
    info: RunInfo,
    table: Table,
}

fn row(scenario: &str, dtype: &str, tokens: usize, seconds: &[f64], ppl: Option<f64>) -> Result<ScenarioRun> {
    let runs = Runs::of(seconds.iter().map(|&seconds| Metrics::of(tokens, seconds)).collect())?;
    Ok(ScenarioRun { scenario: scenario.to_owned(), dtype: dtype.to_owned(), runs, ppl })
}

/// Rows of any number, from fast to slow, with missing perplexities in any place.
fn any_rows(number: u64, ppl: &[Option<f64>]) -> Result<Vec<ScenarioRun>> {
    let mut rng = random(61 + number);
    let rows = ppl.iter().enumerate().map(|(place, &ppl)| {
        let magnitude = 10_f64.powf(rng.random_range(0.3..2.0));
        let tokens = (magnitude * rng.random_range(20.0..300.0)) as usize;
        let runs = rng.random_range(1..12);
        let seconds: Vec<f64> = (0..runs).map(|_| magnitude * rng.random_range(0.7..4.0)).collect();
        let dtype = ["float32", "bfloat16", "static int8, rest float32", "nf4"][rng.random_range(0..4)];
        row(&format!("scenario {}", 17 * (place + 1) % 100), dtype, tokens, &seconds, ppl)
    });
    rows.collect()
}

fn given() -> Result<Vec<(Vec<ScenarioRun>, RunInfo)>> {
    // No median equals a mean or the first, last, middle, fastest or slowest run, nor, where there are four runs, the
    // inverse of another one; names contain each other.
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
    let other = RunInfo {
        model: "lab/other".to_owned(),
        device: Device::Cuda(1),
        dtype: "bfloat16".to_owned(),
        ..info.clone()
    };
    let gaps: [&[Option<f64>]; 5] = [
        &[Some(23.4), None, Some(10.7), None, None, Some(345.6), None],
        &[Some(17.5)],
        &[Some(61.5), Some(62.25), Some(60.1)],
        &[None, None, None, None, None, None, None, None, None, None, None, Some(50_257.0)],
        &[Some(18.1), None],
    ];
    let others = gaps.iter().zip(0..).map(|(gaps, number)| Ok((any_rows(number, gaps)?, other.clone())));
    [Ok((rows, info))].into_iter().chain(others).collect()
}

impl Trial {
    /// The table's row of each scenario.
    fn places(&self) -> Result<Vec<usize>, Complaint> {
        let written: Vec<Vec<String>> = self.table.columns().iter().map(|column| column.written()).collect();
        let place = |row: &ScenarioRun| {
            let found = written.iter().find_map(|cells| cells.iter().position(|cell| *cell == row.scenario));
            let is_merged = |cell: &&String| {
                let rest = cell.strip_prefix(&row.scenario).filter(|rest| !rest.starts_with(char::is_alphanumeric));
                rest.is_some_and(|rest| rest.contains(&row.dtype))
            };
            found.ok_or_else(|| {
                let why = written.iter().flatten().find(is_merged).map_or_else(String::new, |cell| {
                    format!(", but one named {cell:?}: put the dtype into a column of its own")
                });
                Complaint::wrong(format!("there is no row for the scenario {:?}{why}", row.scenario))
            })
        };
        let places: Vec<usize> = self.rows.iter().map(place).collect::<Result<_, _>>()?;
        has_rows(&self.rows, &self.table).map(|()| places)
    }

    /// The heading of a column that holds one of each run's statistics, times a factor; rounded, or as text, if need
    /// be.
    fn find(&self, of: impl Fn(&Runs) -> f64, factor: f64) -> Result<Option<String>, Complaint> {
        let places = self.places()?;
        let holds = |column: &&Column| {
            let mut expected = self.rows.iter().map(|row| factor * of(&row.runs)).zip(&places);
            expected.all(|(expected, &place)| is_close(&column.cells[place], expected))
        };
        Ok(self.table.columns().iter().find(holds).map(Column::full_name))
    }

    fn has(&self, quantity: &Quantity) -> Verdict {
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
                     compares it with another table is off by a factor of a thousand"
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

    fn has_ppl(&self) -> Verdict {
        let places = self.places()?;
        let holds = |column: &&Column| {
            let mut rows = self.rows.iter().zip(&places);
            rows.all(|(row, &place)| row.ppl.is_none_or(|ppl| is_close(&column.cells[place], ppl)))
        };
        // A row in which a column says something although nothing was measured.
        let filled = |column: &Column| {
            let mut rows = self.rows.iter().zip(&places);
            rows.find(|(row, place)| row.ppl.is_none() && !is_empty(&column.cells[**place]))
        };
        let candidates: Vec<&Column> = self.table.columns().iter().filter(holds).collect();
        let Some(column) = candidates.iter().find(|column| filled(column).is_none()) else {
            if let Some((row, &place)) = candidates.first().and_then(|column| filled(column)) {
                return wrong!(
                    "the perplexity of {:?} was not measured, but its row says {:?}: leave the cell empty, as a `None` \
                     does",
                    row.scenario,
                    candidates[0].written()[place]
                );
            }
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
        format!("{}\n{}", self.table.title(), self.table.notes().join("\n"))
    }

    fn has_caption(&self) -> Verdict {
        let caption = self.caption();
        let RunInfo { model, device, .. } = &self.info;
        let device = device.to_string();
        let parts = [("model", model), ("device", &device)];
        parts.into_iter().try_for_each(|(what, text)| {
            Complaint::unless(caption.contains(text.as_str()), || {
                format!(
                    "neither title nor notes name the {what} ({text}): numbers without it cannot be compared with \
                     anything"
                )
            })
        })
    }

    /// A column has the dtype in its row, or the caption says it after the scenario's name.
    fn has_dtypes(&self) -> Verdict {
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
        let columns: Vec<Vec<String>> = self.table.columns().iter().map(|column| column.written()).collect();
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

fn has_rows(rows: &[ScenarioRun], table: &Table) -> Verdict {
    let (given, got) = (rows.len(), table.rows());
    Complaint::unless(given == got, || format!("{given} scenarios were given, but the table has {got} rows"))
}

/// Whether a cell is empty, or says with a dash or in words that there is nothing.
fn is_empty(cell: &Cell) -> bool {
    match cell {
        Cell::Missing => true,
        Cell::Text(text) => {
            let text = text.trim().to_lowercase();
            !text.contains("nan") && !text.contains("inf") && !text.contains(|c: char| c.is_ascii_digit())
        }
        _ => false,
    }
}

/// The number of a cell; of one that is text, the first number in it.
fn number(cell: &Cell) -> Option<f64> {
    let Cell::Text(text) = cell else { return cell.estimate().map(|estimate| estimate.value) };
    let is_part = |c: char| c.is_ascii_digit() || ".-+eE".contains(c);
    text.replace(',', "").split(|c| !is_part(c)).find_map(|part| part.parse().ok())
}

fn is_close(cell: &Cell, expected: f64) -> bool {
    number(cell).is_some_and(|value| close(value, expected))
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
        for row in given().unwrap().swap_remove(0).0 {
            let Statistics { median, mean, low, high, .. } = row.runs.latency_s;
            let all = &row.runs.runs;
            let runs = [&all[0], &all[all.len() / 2], &all[all.len() - 1]].map(|run| run.total_latency_s);
            let others = [&[mean, low, high], &runs[..]].concat();
            assert!(others.iter().all(|other| !close(*other, median)), "{row:?}");
        }
    }
}
