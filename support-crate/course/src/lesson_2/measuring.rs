//! `measure_batched`: a list of prompts, cut into batches.

use quantlab::error::Result;
use quantlab::generate::GenerateOptions;
use quantlab::measure::{Clock, Metrics, Runs};
use quantlab::model::Loaded;

use super::expected::{COSTS, rates_fit, tokens_of};
use super::time_batch;
use crate::cases::LONG_PROMPT;
use crate::evidence::{Evidence, Source};
use crate::failures::{must_fail, passes_failures_on, taken_for_success};
use crate::figure::counted;
use crate::probe::Machine;
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Seven prompts, three at a time: how many batches are there, and how many prompts are in the last one?",
    "`prompts.chunks(batch_size)` gives the batches, but panics at 0. `time_batch(clock, loaded, batch, &options)` \
     times one.",
    "`let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };`, then \
     `prompts.chunks(batch_size).map(|batch| time_batch(clock, loaded, batch, &options)).collect()`",
];

const A_RUN_IS: &str = "each of your `Metrics` is what `time_batch` returns for one batch, by the clock that was passed \
                        in";
const IF_EMPTY: &str = ": did your clock stop while the device was still computing?";

type Answer<'a> = dyn Fn(&dyn Clock, &Loaded, &[&str], usize, usize) -> Result<Vec<Metrics>> + 'a;

struct Call {
    prompts: &'static [&'static str],
    batch_size: usize,
    new_tokens: usize,
}

const SEVEN: [&str; 7] =
    ["Water", LONG_PROMPT, "  The door stood open.\n", "Why?", "The capital of France is", "Water", "na\u{ef}ve"];

/// The last batch full or not, a single one, one with room to spare, prompts one by one.
const CALLS: [Call; 5] = [
    Call { prompts: &SEVEN, batch_size: 3, new_tokens: 5 },
    Call { prompts: &SEVEN, batch_size: 1, new_tokens: 3 },
    Call { prompts: &SEVEN, batch_size: 7, new_tokens: 3 },
    Call { prompts: &["A fox", "One day"], batch_size: 8, new_tokens: 40 },
    Call { prompts: &["One", "Two and two", "Three", "Four"], batch_size: 2, new_tokens: 4 },
];

/// Checks `measure_batched(clock, loaded, prompts, batch_size, max_new_tokens)`.
pub fn check_measure_batched(yours: fn(&dyn Clock, &Loaded, &[&str], usize, usize) -> Result<Vec<Metrics>>) -> Score {
    let trials = CALLS.iter().map(|call| Trial::run(&yours, call)).collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 4] = [
        ("a `Metrics` for each batch; the last batch may be smaller", Trial::has_batches),
        ("each batch holds its prompts, in their order", Trial::reads),
        ("makes and counts the new tokens of all prompts of a batch", Trial::counts),
        ("times nothing but generating", |trial| {
            trial.sources()?.iter().try_for_each(Source::times_only_generating)?;
            trial.evidence.rows.iter().flat_map(|row| &row.runs).try_for_each(rates_fit)
        }),
    ];
    Score::new("measure_batched", HINTS)
        .each(&trials, &points)
        .about(&trials, "an error in a batch is passed on", |trials| passes_errors_on(&yours, &trials[0]))
        .about(&trials, "no prompts and batches of 0 are errors", |_| refuses(&yours))
}

impl Call {
    /// Calls the answer on a model that has run before, and that wants to end its texts early.
    fn on(&self, machine: &Machine, yours: &Answer<'_>) -> Result<Vec<Metrics>, Complaint> {
        let loaded = machine.loaded(|model| model.ending_at(8))?;
        let clock = machine.clock();
        time_batch(&clock, &loaded, &["First"], &GenerateOptions { max_new_tokens: 1, ..GenerateOptions::default() })?;
        ask(|| yours(&clock, &loaded, self.prompts, self.batch_size, self.new_tokens))
    }
}

struct Trial {
    call: &'static Call,
    prompts: Vec<Vec<u32>>,
    evidence: Evidence,
}

impl Trial {
    fn run(yours: &Answer<'_>, call: &'static Call) -> Result<Self, Complaint> {
        let machine = Machine::new(COSTS);
        let batches = call.on(&machine, yours)?;
        Complaint::unless(!batches.is_empty(), || {
            let (prompts, size) = (call.prompts.len(), call.batch_size);
            format!(
                "{prompts} prompts, {size} at a time, are {}; you returned none",
                counted(prompts.div_ceil(size), "batch")
            )
        })?;
        let evidence = Evidence::of(&machine, &[Runs::of(batches)?], A_RUN_IS, IF_EMPTY);
        Ok(Self { call, prompts: tokens_of(call.prompts)?, evidence })
    }

    fn sources(&self) -> Result<&[Source], Complaint> {
        Ok(&self.evidence.sources()?[0])
    }

    fn has_batches(&self) -> Verdict {
        let (prompts, size) = (self.prompts.len(), self.call.batch_size);
        let (expected, got) = (prompts.div_ceil(size), self.evidence.rows[0].runs.len());
        Complaint::unless(expected == got, || {
            format!("{prompts} prompts, {size} at a time, are {}; you returned {got}", counted(expected, "batch"))
        })
    }

    fn reads(&self) -> Verdict {
        self.has_batches()?;
        let batches = self.prompts.chunks(self.call.batch_size);
        self.sources()?.iter().zip(batches).try_for_each(|(source, batch)| source.reads(batch))
    }

    fn counts(&self) -> Verdict {
        self.reads()?;
        let batches = self.prompts.chunks(self.call.batch_size);
        let runs = self.evidence.rows[0].runs.iter().zip(self.sources()?);
        runs.zip(batches).try_for_each(|((run, source), batch)| source.makes(run, batch, self.call.new_tokens))
    }
}

fn passes_errors_on(yours: &Answer<'_>, trial: &Trial) -> Verdict {
    // The first passes are those of the run before.
    let calls = (trial.evidence.calls / 3..trial.evidence.calls).step_by(2);
    passes_failures_on(
        COSTS,
        calls,
        |machine| trial.call.on(machine, yours),
        |batches| {
            taken_for_success("the model failed in one of the batches", true, &format!("{} batches", batches.len()))
        },
    )
}

fn refuses(yours: &Answer<'_>) -> Verdict {
    let calls = [("no prompts", &[][..], 2), ("batches of 0", &SEVEN[..2], 0), ("no prompts in batches of 0", &[], 0)];
    for (what, prompts, batch_size) in calls {
        let call = Call { prompts, batch_size, new_tokens: 2 };
        match call.on(&Machine::new(COSTS), yours) {
            Err(Complaint::Panicked(message)) => {
                return wrong!("with {what} your function panics ({message}): return an `Err`");
            }
            got => must_fail(got, |batches| {
                taken_for_success(&format!("there are {what}"), false, &format!("{} batches", batches.len()))
            })?,
        }
    }
    Ok(())
}
