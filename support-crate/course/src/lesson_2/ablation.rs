//! `ablate_cache_and_padding`: four settings, everything else the same.

use quantlab::error::Result;
use quantlab::measure::Clock;
use quantlab::model::Loaded;

use super::expected::{COSTS, fails_where_runs_do, rates_fit, tokens_of};
use super::report::runs_of;
use super::{AblationRun, SETTINGS};
use crate::cases::LONG_PROMPT;
use crate::evidence::{Evidence, Source};
use crate::probe::Machine;
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Which settings are there if each of two switches has two positions, and what must stay the same while you turn \
     them?",
    "Two nested loops make the four settings, `(use_cache, padding_side)`. `in_turn` runs them in turn: for each, \
     `time_batch` with `GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() }`.",
    "`let all_runs = in_turn(repeats, &settings, |&(use_cache, padding_side)| { let options = ...; time_batch(clock, \
     loaded, prompts, &options) })?;`, then for each of `settings.into_iter().zip(all_runs)`: `rows.push(AblationRun { \
     use_cache, padding_side, runs: Runs::of(runs)? });`",
];

const A_RUN_IS: &str = "a run is what `time_batch` returns for all prompts together, by the clock that was passed in";
const IF_EMPTY: &str = ": did your clock stop while the device was still computing? Call \
                        `loaded.model.synchronize()?` before both readings";

type Answer<'a> = dyn Fn(&dyn Clock, &Loaded, &[&str], usize, usize) -> Result<Vec<AblationRun>> + 'a;

/// What an answer is called with: prompts of different lengths, so that there is something to pad, and numbers of
/// prompts, new tokens and runs that are all different.
struct Call {
    prompts: &'static [&'static str],
    new_tokens: usize,
    repeats: usize,
}

const CALLS: [Call; 5] = [
    Call {
        prompts: &[
            "Once",
            "The capital of France is",
            "To be or not to be, that is the question that he asked himself",
        ],
        new_tokens: 5,
        repeats: 2,
    },
    Call { prompts: &["A vector stores its elements", "Water"], new_tokens: 4, repeats: 3 },
    // A prompt with spaces around it, so nothing to pad; many prompts, one of them repeated and one long; a single run.
    Call { prompts: &["  Once upon a time "], new_tokens: 40, repeats: 5 },
    Call {
        prompts: &[
            "Yes!",
            "One day Sam found a seed",
            LONG_PROMPT,
            "Yes!",
            "\tThe king",
            "A",
            "Yes!",
            "na\u{ef}ve",
            "The end.\n",
            "Why?",
        ],
        new_tokens: 2,
        repeats: 6,
    },
    Call { prompts: &["Water", "Water"], new_tokens: 3, repeats: 1 },
];

/// Checks `ablate_cache_and_padding(clock, loaded, prompts, max_new_tokens, repeats)`.
pub fn check_ablate_cache_and_padding(
    yours: fn(&dyn Clock, &Loaded, &[&str], usize, usize) -> Result<Vec<AblationRun>>,
) -> Score {
    let trials = CALLS.iter().map(|call| Trial::run(&yours, call)).collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 6] = [
        ("a row for each of the four settings", Trial::has_settings),
        ("every run is timed on all prompts, as one batch", Trial::reads_all),
        ("makes and counts the new tokens of all prompts, the same number in every row", Trial::counts),
        ("times nothing but generating", |trial| {
            trial.evidence.sources()?.iter().flatten().try_for_each(Source::times_only_generating)?;
            trial.drops_first_runs()
        }),
        ("every row was timed in its own setting", Trial::own_setting),
        ("every row is repeated as often as requested, and its rates are consistent", Trial::is_repeated),
    ];
    Score::new("ablate_cache_and_padding", HINTS).each(&trials, &points).about(
        &trials,
        "an error in a run is passed on",
        |trials| passes_errors_on(&yours, &trials[1]),
    )
}

struct Trial {
    call: &'static Call,
    prompts: Vec<Vec<u32>>,
    rows: Vec<AblationRun>,
    evidence: Evidence,
}

impl Trial {
    fn run(yours: &Answer<'_>, call: &'static Call) -> Result<Self, Complaint> {
        let machine = Machine::new(COSTS);
        let rows = call.on(&machine, yours)?;
        Complaint::unless(!rows.is_empty(), || "there are no rows")?;
        let evidence = Evidence::of(&machine, rows.iter().map(|row| &row.runs), A_RUN_IS, IF_EMPTY);
        Ok(Self { call, prompts: tokens_of(call.prompts)?, rows, evidence })
    }

    fn has_settings(&self) -> Verdict {
        let missing = SETTINGS.into_iter().find(|&(use_cache, side)| runs_of(&self.rows, use_cache, side).is_none());
        if let Some((use_cache, side)) = missing {
            return wrong!("no row has `use_cache: {use_cache}` with padding on the {side:?}");
        }
        let rows = self.rows.len();
        Complaint::unless(rows == SETTINGS.len(), || format!("there are four settings, but {rows} rows"))
    }

    fn reads_all(&self) -> Verdict {
        self.evidence.sources()?.iter().flatten().try_for_each(|source| source.reads(&self.prompts))
    }

    fn counts(&self) -> Verdict {
        let runs = self.rows.iter().flat_map(|row| &row.runs.runs);
        runs.zip(self.evidence.sources()?.iter().flatten())
            .try_for_each(|(run, source)| source.makes(run, &self.prompts, self.call.new_tokens))
    }

    fn drops_first_runs(&self) -> Verdict {
        self.rows.iter().zip(self.evidence.sources()?).try_for_each(|(row, sources)| {
            Complaint::unless(self.evidence.drops_first(sources), || {
                format!(
                    "the first run with the setting `{}` was timed: each setting pays anew for what only a first run \
                     costs; drop the first run of each",
                    row.setting()
                )
            })
        })
    }

    fn own_setting(&self) -> Verdict {
        self.reads_all()?;
        for (row, sources) in self.rows.iter().zip(self.evidence.sources()?) {
            for source in sources {
                let (side, cached) = (source.padding_side(&self.prompts), source.use_cache);
                let all_alike = self.prompts.iter().all(|prompt| prompt.len() == self.prompts[0].len());
                let fits = side == Some(row.padding_side) || all_alike && side.is_none();
                Complaint::unless(fits && cached == row.use_cache, || {
                    let cache = if cached { "on" } else { "off" };
                    let side = side.map_or_else(|| "nowhere".to_owned(), |side| format!("on the {side:?}"));
                    format!(
                        "the row `{}` was timed with the cache {cache} and padding {side}: are labels swapped, or is a \
                         setting not passed on?",
                        row.setting()
                    )
                })?;
            }
        }
        Ok(())
    }

    fn is_repeated(&self) -> Verdict {
        self.evidence.repeated(self.call.repeats)?;
        self.rows.iter().flat_map(|row| &row.runs.runs).try_for_each(rates_fit)
    }
}

impl Call {
    /// Calls the answer on a model that wants to end its texts early.
    fn on(&self, machine: &Machine, yours: &Answer<'_>) -> Result<Vec<AblationRun>, Complaint> {
        let loaded = machine.loaded(|model| model.ending_at(8))?;
        ask(|| yours(&machine.clock(), &loaded, self.prompts, self.new_tokens, self.repeats))
    }
}

fn passes_errors_on(yours: &Answer<'_>, trial: &Trial) -> Verdict {
    // Every few calls, so that each setting and each round is met.
    let calls = (0..trial.evidence.calls).step_by(3).chain([trial.evidence.calls.saturating_sub(1)]);
    let none = Call { prompts: trial.call.prompts, new_tokens: trial.call.new_tokens, repeats: 0 };
    let repeated = trial.evidence.repeated(trial.call.repeats).is_ok();
    fails_where_runs_do(calls, |machine| trial.call.on(machine, yours), repeated, |machine| none.on(machine, yours))
}
