//! `probe_edge_prompts`: each prompt timed alone, in turn.

use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate};
use quantlab::measure::Clock;
use quantlab::model::Loaded;

use super::expected::{COSTS, fails_where_runs_do, rates_fit, tokens_of};
use super::{EdgePrompt, EdgeRun};
use crate::cases::LONG_PROMPT;
use crate::evidence::{Evidence, Source};
use crate::figure::counted;
use crate::probe::Machine;
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "What must be the same for all prompts, and what happens to a prompt that is timed only in the machine's slow \
     minute?",
    "`in_turn(repeats, prompts, |prompt| time_batch(clock, loaded, &[&prompt.text], &options))?` gives each prompt's \
     runs and drops the first round; `generate(loaded, &prompt.text, &options)?.text` is what follows.",
    "In a loop over `prompts.iter().zip(all_runs)`: `rows.push(EdgeRun { name: prompt.name.clone(), prompt_tokens: \
     loaded.tokenizer.encode(&prompt.text)?.len(), runs: Runs::of(runs)?, text });`",
];

const A_RUN_IS: &str = "a run is what `time_batch` returns for one prompt, by the clock that was passed in";
const IF_EMPTY: &str = ": did your clock stop while the device was still computing?";

type Answer<'a> = dyn Fn(&dyn Clock, &Loaded, &[EdgePrompt], usize, usize) -> Result<Vec<EdgeRun>> + 'a;

struct Call {
    prompts: &'static [(&'static str, &'static str)],
    new_tokens: usize,
    repeats: usize,
}

const CALLS: [Call; 3] = [
    Call {
        prompts: &[
            ("very short", "A"),
            ("very long", LONG_PROMPT),
            ("multi-line", "- milk\n- na\u{ef}ve bread\n"),
            ("repetitive", "ha ha ha ha ha ha ha ha ha ha ha ha"),
        ],
        new_tokens: 5,
        repeats: 3,
    },
    Call { prompts: &[("mine", "  The door stood open.\n"), ("yours", "Why?")], new_tokens: 12, repeats: 2 },
    Call { prompts: &[("alone", "One day Sam found a seed")], new_tokens: 3, repeats: 6 },
];

/// Checks `probe_edge_prompts(clock, loaded, prompts, max_new_tokens, repeats)`.
pub fn check_probe_edge_prompts(
    yours: fn(&dyn Clock, &Loaded, &[EdgePrompt], usize, usize) -> Result<Vec<EdgeRun>>,
) -> Score {
    let trials = CALLS.iter().map(|call| Trial::run(&yours, call)).collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 5] = [
        ("a row for each prompt, under its name, with its length in tokens", Trial::has_rows),
        ("each prompt is timed alone, with the number of new tokens requested", Trial::counts),
        ("times nothing but generating", |trial| {
            trial.sources()?.try_for_each(Source::times_only_generating)?;
            trial.drops_first_runs()
        }),
        ("every row is repeated as often as requested, and its rates are consistent", |trial| {
            trial.evidence.repeated(trial.call.repeats)?;
            trial.rows.iter().flat_map(|row| &row.runs.runs).try_for_each(rates_fit)
        }),
        ("the text is what the model makes of the prompt", Trial::has_texts),
    ];
    Score::new("probe_edge_prompts", HINTS).each(&trials, &points).about(
        &trials,
        "an error in a run is passed on",
        |trials| passes_errors_on(&yours, &trials[1]),
    )
}

impl Call {
    fn prompts(&self) -> Vec<EdgePrompt> {
        let owned = |(name, text): &(&str, &str)| EdgePrompt { name: (*name).to_owned(), text: (*text).to_owned() };
        self.prompts.iter().map(owned).collect()
    }

    /// Calls the answer on a model that wants to end its texts early.
    fn on(&self, machine: &Machine, yours: &Answer<'_>) -> Result<Vec<EdgeRun>, Complaint> {
        let loaded = machine.loaded(|model| model.ending_at(8))?;
        ask(|| yours(&machine.clock(), &loaded, &self.prompts(), self.new_tokens, self.repeats))
    }
}

struct Trial {
    call: &'static Call,
    prompts: Vec<Vec<u32>>,
    rows: Vec<EdgeRun>,
    evidence: Evidence,
}

impl Trial {
    fn run(yours: &Answer<'_>, call: &'static Call) -> Result<Self, Complaint> {
        let machine = Machine::new(COSTS);
        let rows = call.on(&machine, yours)?;
        Complaint::unless(!rows.is_empty(), || "there are no rows")?;
        let evidence = Evidence::of(&machine, rows.iter().map(|row| &row.runs), A_RUN_IS, IF_EMPTY);
        let texts: Vec<&str> = call.prompts.iter().map(|(_, text)| *text).collect();
        Ok(Self { call, prompts: tokens_of(&texts)?, rows, evidence })
    }

    fn sources(&self) -> Result<impl Iterator<Item = &Source>, Complaint> {
        Ok(self.evidence.sources()?.iter().flatten())
    }

    /// Whether the rows are those of the prompts, in their order.
    fn is_named(&self) -> Verdict {
        let (asked, got) = (self.prompts.len(), self.rows.len());
        Complaint::unless(asked == got, || format!("there are {asked} prompts, but {got} rows"))?;
        self.rows.iter().zip(self.call.prompts).try_for_each(|(row, (name, _))| {
            Complaint::unless(row.name == *name, || format!("the row of the {name} prompt is named {:?}", row.name))
        })
    }

    fn has_rows(&self) -> Verdict {
        self.is_named()?;
        self.rows.iter().zip(&self.prompts).try_for_each(|(row, ids)| {
            let (name, got) = (&row.name, row.prompt_tokens);
            Complaint::unless(got == ids.len(), || {
                format!("the {name} prompt has {}, but `prompt_tokens` is {got}", counted(ids.len(), "token"))
            })
        })
    }

    fn counts(&self) -> Verdict {
        self.is_named()?;
        for ((row, sources), ids) in self.rows.iter().zip(self.evidence.sources()?).zip(&self.prompts) {
            for (run, source) in row.runs.runs.iter().zip(sources) {
                let (prompts, batch) = (std::slice::from_ref(ids), source.prompt.len());
                Complaint::unless(source.prompt == *ids, || {
                    let (name, tokens) = (&row.name, counted(ids.len(), "token"));
                    format!(
                        "the {name} prompt has {tokens}, but a run of it was timed on {batch}: one prompt at a time"
                    )
                })?;
                source.makes(run, prompts, self.call.new_tokens)?;
            }
        }
        Ok(())
    }

    fn drops_first_runs(&self) -> Verdict {
        self.rows.iter().zip(self.evidence.sources()?).try_for_each(|(row, sources)| {
            Complaint::unless(self.evidence.drops_first(sources), || {
                format!("the first run of the {} prompt was timed: drop the first run of each", row.name)
            })
        })
    }

    fn has_texts(&self) -> Verdict {
        self.is_named()?;
        let loaded = Machine::new(COSTS).loaded(|model| model.ending_at(8))?;
        for (row, (name, prompt)) in self.rows.iter().zip(self.call.prompts) {
            // Whether a text may end early is not what is asked here.
            let text = |stop_at_eos| {
                let options =
                    GenerateOptions { max_new_tokens: self.call.new_tokens, stop_at_eos, ..Default::default() };
                generate(&loaded, prompt, &options).map(|generation| generation.text)
            };
            let (ended, whole) = (text(true)?, text(false)?);
            Complaint::unless([&ended, &whole].contains(&&row.text), || {
                format!("after the {name} prompt the model says {ended:?}, but your text is {:?}", row.text)
            })?;
        }
        Ok(())
    }
}

fn passes_errors_on(yours: &Answer<'_>, trial: &Trial) -> Verdict {
    let calls = trial.evidence.some_calls.iter().copied().chain([trial.evidence.calls.saturating_sub(1)]);
    let none = Call { prompts: trial.call.prompts, new_tokens: trial.call.new_tokens, repeats: 0 };
    let repeated = trial.evidence.repeated(trial.call.repeats).is_ok();
    fails_where_runs_do(calls, |machine| trial.call.on(machine, yours), repeated, |machine| none.on(machine, yours))
}
