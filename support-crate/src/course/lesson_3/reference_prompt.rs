//! `time_reference_prompt`: the latency of one prompt, several times.

use super::is_close;
use crate::course::probe::{Costs, Event, Machine};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::measure::{Clock, Metrics, Runs};
use crate::model::Loaded;

const PROMPT: &str = "The quick brown fox jumps over the lazy dog, and then it";
const NEW_TOKENS: usize = 8;
const REPEATS: usize = 3;

/// Of orders of magnitude that tell the parts of a sum apart.
const COSTS: Costs = Costs { cold_start: 1e3, encode: 1e4, decode: 1e5, is_asynchronous: true, ..Costs::PLAIN };

const STOPPED_EARLY: &str = "the clock stopped while the device was still computing. Call \
    `loaded.model.synchronize()?` right before the second reading";

const HINTS: [&str; 3] = [
    "What belongs to every run, and what only once before all of them?",
    "Before the first run: text to ids, and one generation that is not timed. In every run: wait for the device, read the \
     clock, generate, wait for the device, read the clock. `repeat(repeats, || ...)` collects the runs.",
    "`repeat(repeats, || { loaded.model.synchronize()?; let start = clock.now(); let generated = \
     generate_tokens(&*loaded.model, &prompts, &options, &mut |_, _| ())?; loaded.model.synchronize()?; let \
     total_latency_s = clock.now() - start; ... Ok(Metrics { ... }) })`, with `stop_at_eos: false` in `options`.",
];

/// Checks `time_reference_prompt(clock, loaded, prompt, max_new_tokens, repeats)`.
pub fn check_time_reference_prompt(yours: impl Fn(&dyn Clock, &Loaded, &str, usize, usize) -> Result<Runs>) -> Score {
    let trial = Trial::run(&yours);
    Check::new("time_reference_prompt", HINTS)
        .about(&trial, "every repeat is timed by itself, the warm-up is not among them", Trial::times_each)
        .about(&trial, "every run generates exactly max_new_tokens new tokens", Trial::counts_new_tokens)
        .about(&trial, "a run holds all of a warm generation, and nothing else", Trial::holds_generation)
        .about(&trial, "the figures of a run fit each other", Trial::figures_fit)
        .score()
}

/// One call of the answer, and what happened on the machine meanwhile.
struct Trial {
    runs: Vec<Metrics>,
    events: Vec<Event>,
    prompt_tokens: usize,
}

impl Trial {
    fn run(yours: &impl Fn(&dyn Clock, &Loaded, &str, usize, usize) -> Result<Runs>) -> Result<Self, Complaint> {
        let prompt_tokens = Machine::new(COSTS).tokenizer()?.encode(PROMPT)?.len();
        let machine = Machine::new(COSTS);
        // It wants to end its text in the middle of the run.
        let loaded = machine.loaded(|model| model.ending_at(prompt_tokens + NEW_TOKENS / 2))?;
        let runs = ask(|| yours(&machine.clock(), &loaded, PROMPT, NEW_TOKENS, REPEATS));
        let runs = runs.map_err(|complaint| match complaint {
            // A run that waited for nothing took no time, and its rate is infinite, which `Runs` refuses.
            Complaint::Failed(_) if is_busy(&machine.events()) => {
                Complaint::wrong(format!("a run took no time: {STOPPED_EARLY}"))
            }
            other => other,
        })?;
        Ok(Self { runs: runs.runs, events: machine.events(), prompt_tokens })
    }

    fn times_each(&self) -> Result<(), Complaint> {
        let readings = self.events.iter().filter(|event| matches!(event, Event::Clock { .. })).count();
        let why = match self.runs.len() {
            _ if readings == 0 => {
                "the clock that was passed in was not read: use `clock.now()`, it gives seconds".into()
            }
            REPEATS if readings > REPEATS => return Ok(()),
            REPEATS => format!(
                "{REPEATS} runs with {readings} readings of the clock: each run has to be timed by itself, else nobody sees \
                 how much they differ"
            ),
            runs if runs == REPEATS + 1 => {
                format!("`repeats` was {REPEATS}, you give {runs} runs: is the warm-up one of them?")
            }
            runs => format!("`repeats` was {REPEATS}, you give {runs} runs"),
        };
        Err(Complaint::wrong(why))
    }

    fn counts_new_tokens(&self) -> Result<(), Complaint> {
        match self.runs.iter().map(|run| run.tokens_generated).find(|&tokens| tokens != NEW_TOKENS) {
            None => Ok(()),
            Some(tokens) if tokens < NEW_TOKENS => Err(Complaint::wrong(format!(
                "{NEW_TOKENS} tokens were asked for, a run has {tokens}: the model wanted to end its text. Runs of different \
                 lengths do not compare; set `stop_at_eos: false`"
            ))),
            Some(tokens) => Err(Complaint::wrong(format!(
                "{NEW_TOKENS} tokens were asked for, a run counts {tokens}: those of the prompt are not new"
            ))),
        }
    }

    /// On this machine a generation takes a known time, and each thing that does not belong to it another one.
    fn holds_generation(&self) -> Result<(), Complaint> {
        for run in &self.runs {
            let steps = run.tokens_generated as f64;
            let expected = COSTS.step * steps + COSTS.token * (self.prompt_tokens as f64 + steps - 1.0);
            let extra = run.total_latency_s - expected;
            let why = match extra {
                _ if extra.abs() < 1e-6 => continue,
                _ if extra < 0.0 => STOPPED_EARLY,
                _ if extra >= COSTS.decode => "ids were turned into text between the readings of the clock",
                _ if extra >= COSTS.encode => "the tokenizer ran between the readings of the clock",
                _ if extra >= COSTS.cold_start => {
                    "the first run's extra costs are in it. Generate once before the clock starts, and wait for the device"
                }
                _ => {
                    "more than one generation lies between the readings, or the device was still busy with the one before: \
                     call `loaded.model.synchronize()?` before the first reading too"
                }
            };
            return Err(Complaint::wrong(format!(
                "a run takes {expected:.2} s on this machine, yours says {:.2} s: {why}",
                run.total_latency_s
            )));
        }
        Ok(())
    }

    fn figures_fit(&self) -> Result<(), Complaint> {
        for &Metrics { total_latency_s, tokens_generated, tokens_per_sec, avg_latency_per_token_ms } in &self.runs {
            let tokens = tokens_generated as f64;
            let figures = [
                ("tokens_per_sec", tokens_per_sec, tokens / total_latency_s),
                ("avg_latency_per_token_ms", avg_latency_per_token_ms, total_latency_s * 1e3 / tokens),
            ];
            if let Some((name, got, expected)) = figures.iter().find(|(_, got, expected)| !is_close(*got, *expected)) {
                return Err(Complaint::wrong(format!("`{name}` is {got:.4}, expected {expected:.4}")));
            }
        }
        Ok(())
    }
}

/// Whether the device was left computing.
fn is_busy(events: &[Event]) -> bool {
    let last = events.iter().rfind(|event| matches!(event, Event::Forward { .. } | Event::Synchronize));
    matches!(last, Some(Event::Forward { .. }))
}
