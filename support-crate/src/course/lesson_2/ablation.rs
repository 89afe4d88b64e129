//! `ablate_cache_and_padding`: four settings, everything else the same.

use super::AblationRun;
use super::expected::{Counted, costs, honest, model_on, rates_fit, repeated, same, seconds};
use crate::course::probe::Machine;
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::generate::{GenerateOptions, PaddingSide};
use crate::measure::Clock;
use crate::model::Loaded;

/// Of different lengths, so that there is something to pad.
const PROMPTS: [&str; 3] =
    ["Once", "The capital of France is", "To be or not to be, that is the question that he asked himself"];
const NEW_TOKENS: usize = 5;
const REPEATS: usize = 2;

const HINTS: [&str; 3] = [
    "Which settings are there if each of two switches has two positions, and what must stay the same while you turn \
     them?",
    "Two nested loops make four `GenerateOptions { max_new_tokens, use_cache, padding_side, \
     ..GenerateOptions::default() }`. Each is run once without timing, then `time_batch` gives one run of it.",
    "`let runs = repeat(repeats, || time_batch(clock, loaded, prompts, &options))?; rows.push(AblationRun { use_cache, \
     padding_side, runs });`, after one `time_batch(...)?` whose result is dropped.",
];

/// Checks `ablate_cache_and_padding(clock, loaded, prompts, max_new_tokens, repeats)`.
pub fn check_ablate_cache_and_padding(
    yours: impl Fn(&dyn Clock, &Loaded, &[&str], usize, usize) -> Result<Vec<AblationRun>>,
) -> Score {
    let rows = run(&yours);
    Check::new("ablate_cache_and_padding", HINTS)
        .about(&rows, "a row for each of the four settings", |rows| {
            let missing = SETTINGS.into_iter().find(|setting| !rows.iter().any(|row| setting_of(row) == *setting));
            match (missing, rows.len()) {
                (None, 4) => Ok(()),
                (None, n) => Err(Complaint::wrong(format!("there are four settings, but {n} rows"))),
                (Some((use_cache, side)), _) => {
                    Err(Complaint::wrong(format!("no row has `use_cache: {use_cache}` with padding on the {side:?}")))
                }
            }
        })
        .about(&rows, "counts the new tokens of all prompts, the same number in every row", |rows| {
            let counted = Counted::of(&PROMPTS, NEW_TOKENS)?;
            all_runs(rows).try_for_each(|run| counted.check(run))
        })
        .about(&rows, "times nothing but generating", |rows| {
            rows.iter().try_for_each(|row| {
                let expected = expected(setting_of(row))?;
                row.runs.runs.iter().try_for_each(|run| honest(run.total_latency_s, expected))
            })
        })
        .about(&rows, "every row has the time of its own setting", |rows| rows.iter().try_for_each(own_time))
        .about(&rows, "every row is repeated as often as told, and its rates fit", |rows| {
            rows.iter().try_for_each(|row| repeated(row.runs.runs.len(), REPEATS))?;
            all_runs(rows).try_for_each(rates_fit)
        })
        .score()
}

type Setting = (bool, PaddingSide);

const SETTINGS: [Setting; 4] =
    [(true, PaddingSide::Left), (true, PaddingSide::Right), (false, PaddingSide::Left), (false, PaddingSide::Right)];

fn run(
    yours: &impl Fn(&dyn Clock, &Loaded, &[&str], usize, usize) -> Result<Vec<AblationRun>>,
) -> Result<Vec<AblationRun>, Complaint> {
    let machine = Machine::new(costs());
    let loaded = model_on(&machine, 1024)?;
    let rows = ask(|| yours(&machine.clock(), &loaded, &PROMPTS, NEW_TOKENS, REPEATS))?;
    if rows.is_empty() { Err(Complaint::wrong("there are no rows")) } else { Ok(rows) }
}

fn setting_of(row: &AblationRun) -> Setting {
    (row.use_cache, row.padding_side)
}

fn all_runs(rows: &[AblationRun]) -> impl Iterator<Item = &crate::measure::Metrics> {
    rows.iter().flat_map(|row| &row.runs.runs)
}

fn expected((use_cache, padding_side): Setting) -> Result<f64, Complaint> {
    let options = GenerateOptions { max_new_tokens: NEW_TOKENS, use_cache, padding_side, ..GenerateOptions::default() };
    seconds(&PROMPTS, &options)
}

fn own_time(row: &AblationRun) -> Result<(), Complaint> {
    let own = expected(setting_of(row))?;
    for run in &row.runs.runs {
        let measured = run.total_latency_s;
        if same(measured, own) {
            continue;
        }
        for other in SETTINGS {
            if same(measured, expected(other)?) {
                let (use_cache, side) = other;
                return Err(Complaint::wrong(format!(
                    "the row `{}` has the time of `use_cache: {use_cache}` with padding on the {side:?}: are labels \
                     swapped, or is a setting not passed on?",
                    row.setting()
                )));
            }
        }
        return Err(Complaint::wrong(format!(
            "`{}` takes {own:.3} s on this machine, as one batch of all prompts; yours says {measured:.3} s",
            row.setting()
        )));
    }
    Ok(())
}
