//! `run_experiment`: every configuration gets its row, whatever happens to the others.

use std::cell::RefCell;

use super::{Configuration, ExperimentResult, ExperimentRow};
use crate::course::probe::{Costs, Event, Machine, ProbeModel, one_of};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::{Error, Result};
use crate::measure::Clock;
use crate::model::{CausalLm, LoadOptions, ModelHub, TensorInfo, TensorKind, Tokenizer};
use crate::quant::QuantizationConfig;

const MODEL: &str = "lab/whole";
const NEW_TOKENS: usize = 4;
const TIMING_RUNS: usize = 3;
const COSTS: Costs = Costs { cold_start: 50.0, encode: 1e4, decode: 1e5, is_asynchronous: true, ..Costs::PLAIN };
/// Of lengths so far apart that each can be told from the others while it grows.
const PROMPTS: [&str; 3] = [
    "The capital of France is",
    "Once upon a time, in a land far, far away, there lived a fisher who had a small boat and a very old dog.",
    "Sam",
];

const HINTS: [&str; 3] = [
    "What has to happen for one configuration, from loading to its last text, and what if one of these steps fails?",
    "Write a function or closure that measures one configuration and returns `Result<ExperimentResult>`, with `?` inside. \
     The loop puts its result, good or bad, into the row. The model is dropped when that function ends.",
    "`let measure = |one: &Configuration| -> Result<ExperimentResult> { let loaded = Loaded::new(hub.tokenizer(model_id)?, \
     hub.model(model_id, &one.options)?, model_id, &one.name)?; ... };` For each prompt one \
     `generate_text_and_time(...)?.0` gives the text and is the warm-up; then `num_timing_runs` more of `prompts[0]`, \
     whose latencies are averaged.",
];

type Experiment<'a> =
    dyn Fn(&dyn Clock, &dyn ModelHub, &str, &[Configuration], &[&str], usize, usize) -> Result<Vec<ExperimentRow>> + 'a;

/// Checks `run_experiment(clock, hub, model_id, configurations, prompts, max_new_tokens, num_timing_runs)`.
pub fn check_run_experiment(
    yours: impl Fn(&dyn Clock, &dyn ModelHub, &str, &[Configuration], &[&str], usize, usize) -> Result<Vec<ExperimentRow>>,
) -> Score {
    let trial = Trial::run(&yours);
    Check::new("run_experiment", HINTS)
        .about(&trial, "a row for each configuration, in order, under its name", Trial::named)
        .about(&trial, "each model is loaded with the options of its configuration", Trial::loaded)
        .about(&trial, "a configuration that fails keeps its error, and the others go on", Trial::failed)
        .about(&trial, "the memory is that of the row's own model", Trial::memory)
        .about(&trial, "there is a text for each prompt: the first that was generated", Trial::texts)
        .about(&trial, "the latency is the mean of num_timing_runs warm runs of the first prompt", Trial::latency)
        .about(&trial, "the other prompts are generated from once", Trial::others_once)
        .about(&trial, "a model is dropped before the next is loaded", Trial::one_at_a_time)
        .score()
}

/// What a configuration of the check is: its place decides what its model says and weighs.
fn configurations() -> Vec<Configuration> {
    let formats = [
        ("FP32 (Baseline CPU)", None),
        ("INT8", Some(QuantizationConfig::int8())),
        ("NF4", Some(QuantizationConfig::nf4())),
        ("FP4", Some(QuantizationConfig::fp4())),
    ];
    let configuration = |(name, quantization): (&str, _)| Configuration {
        name: name.to_owned(),
        options: LoadOptions { quantization, ..LoadOptions::default() },
    };
    formats.map(configuration).to_vec()
}

/// The one that cannot be loaded: neither the first nor the last.
const BROKEN: usize = 1;
const BROKEN_BECAUSE: &str = "this processor has no int8 multiplication";

/// A model in several formats, of which one cannot be loaded.
struct FormatHub {
    machine: Machine,
    asked: RefCell<Vec<LoadOptions>>,
}

impl ModelHub for FormatHub {
    fn tokenizer(&self, _: &str) -> Result<Tokenizer> {
        self.machine.tokenizer()
    }

    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
        self.asked.borrow_mut().push(options.clone());
        if model_id != MODEL {
            return Err(Error::source(format!("there is no model `{model_id}`")));
        }
        let place = configurations().iter().position(|one| one.options == *options);
        let place = place.ok_or_else(|| Error::source("options that no configuration has"))?;
        if place == BROKEN {
            return Err(Error::system(BROKEN_BECAUSE));
        }
        let vocab_size = self.tokenizer(model_id)?.vocab_size();
        let machine = self.machine.clone();
        let model = ProbeModel::new(&self.machine, vocab_size);
        Ok(Box::new(model.with_tensors(tensors(place)).saying(move |_, _| one_of(said(place, &machine), vocab_size))))
    }
}

fn tensors(place: usize) -> Vec<TensorInfo> {
    vec![
        TensorInfo::plain("wte.weight", TensorKind::Parameter, &[512, 1024], 4),
        TensorInfo::plain("h.0.mlp.c_fc.weight", TensorKind::Parameter, &[1024, 1024], 4 - place),
        TensorInfo::plain("h.0.attn.bias", TensorKind::Buffer, &[1, 1, 512, 1024], 1),
    ]
}

fn memory_mib(place: usize) -> f64 {
    2.0 + (4 - place) as f64 + 0.5
}

/// A token that says which configuration speaks, after which prompt, and how often it has read that before.
fn token(place: usize, prompt_tokens: usize, times: usize) -> u32 {
    600 + (800 * place + 20 * prompt_tokens + times.min(19)) as u32
}

/// What is said in the generation that goes on: its prompt was the last to be read, and may have been read before.
fn said(place: usize, machine: &Machine) -> u32 {
    let events = machine.events();
    let loaded = events.iter().rposition(|event| *event == Event::Load).unwrap_or(0);
    let prompts = prompts_read(&events[loaded..]);
    let last = prompts.last().copied().unwrap_or(0);
    let times = prompts.iter().filter(|&&tokens| tokens == last).count();
    token(place, last, times.saturating_sub(1))
}

/// Lengths of the prompts that were read, in order.
fn prompts_read(events: &[Event]) -> Vec<usize> {
    let length = |event: &Event| match *event {
        Event::Forward { past_len: 0, seq_len, .. } => Some(seq_len),
        _ => None,
    };
    events.iter().filter_map(length).collect()
}

/// One call of the answer, and what happened on the machine meanwhile.
struct Trial {
    rows: Vec<ExperimentRow>,
    asked: Vec<LoadOptions>,
    events: Vec<Event>,
    prompt_tokens: Vec<usize>,
    tokenizer: Tokenizer,
}

impl Trial {
    fn run(yours: &Experiment<'_>) -> Result<Self, Complaint> {
        let tokenizer = Machine::new(COSTS).tokenizer()?;
        let prompt_tokens = PROMPTS.iter().map(|prompt| Ok(tokenizer.encode(prompt)?.len())).collect::<Result<_>>()?;
        let machine = Machine::new(COSTS);
        let hub = FormatHub { machine: machine.clone(), asked: RefCell::default() };
        let clock = machine.clock();
        let rows = ask(|| yours(&clock, &hub, MODEL, &configurations(), &PROMPTS, NEW_TOKENS, TIMING_RUNS));
        let rows = rows.map_err(|complaint| match complaint {
            Complaint::Failed(message) if message.contains(BROKEN_BECAUSE) => Complaint::wrong(format!(
                "one configuration could not be loaded ({message}), and the whole experiment ended; its error belongs \
                 into its row, and the next configuration's turn has come"
            )),
            other => other,
        })?;
        Ok(Self { rows, asked: hub.asked.take(), events: machine.events(), prompt_tokens, tokenizer })
    }

    /// The results, each with its configuration's place. All of those that can be loaded must be there.
    fn results(&self) -> Result<Vec<(usize, &ExperimentResult)>, Complaint> {
        self.named()?;
        let working = self.rows.iter().enumerate().filter(|(place, _)| *place != BROKEN);
        working
            .map(|(place, row)| match &row.outcome {
                Ok(result) => Ok((place, result)),
                Err(error) => Err(Complaint::wrong(format!("the row of {:?} says: {error}", row.name))),
            })
            .collect()
    }

    fn named(&self) -> Result<(), Complaint> {
        let expected: Vec<String> = configurations().into_iter().map(|one| one.name).collect();
        let names: Vec<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        Complaint::unless(names == expected, || {
            format!("the rows are called {names:?}, the configurations {expected:?}")
        })
    }

    fn loaded(&self) -> Result<(), Complaint> {
        let missing = configurations().into_iter().find(|one| !self.asked.contains(&one.options));
        match missing {
            None => Ok(()),
            Some(one) => Err(Complaint::wrong(format!(
                "no model was loaded with the options of {:?}: hand on `&configuration.options`",
                one.name
            ))),
        }
    }

    fn failed(&self) -> Result<(), Complaint> {
        self.named()?;
        match &self.rows[BROKEN].outcome {
            Err(error) if error.to_string().contains(BROKEN_BECAUSE) => self.results().map(|_| ()),
            Err(error) => Err(Complaint::wrong(format!(
                "{} could not be loaded because {BROKEN_BECAUSE:?}; the row only says {error}",
                self.rows[BROKEN].name
            ))),
            Ok(_) => Err(Complaint::wrong(format!(
                "{} could not be loaded, and yet its row has numbers: whose are they?",
                self.rows[BROKEN].name
            ))),
        }
    }

    fn memory(&self) -> Result<(), Complaint> {
        for (place, result) in self.results()? {
            let (got, expected) = (result.memory_mib, memory_mib(place));
            if got.is_nan() || (got - expected).abs() >= 1e-6 {
                return Err(Complaint::wrong(format!(
                    "the model of {:?} takes {expected} MiB, its row says {got}",
                    self.rows[place].name
                )));
            }
        }
        Ok(())
    }

    fn texts(&self) -> Result<(), Complaint> {
        for (place, result) in self.results()? {
            let name = &self.rows[place].name;
            if result.outputs.len() != PROMPTS.len() {
                return Err(Complaint::wrong(format!(
                    "there are {} prompts, the row of {name:?} has {} texts",
                    PROMPTS.len(),
                    result.outputs.len()
                )));
            }
            for ((output, &tokens), prompt) in result.outputs.iter().zip(&self.prompt_tokens).zip(PROMPTS) {
                let text = |times| self.tokenizer.decode(&[token(place, tokens, times); NEW_TOKENS]);
                let is = |times| Ok::<_, Complaint>(output.trim().ends_with(text(times)?.trim()));
                if is(0)? {
                    continue;
                }
                for times in 1..=TIMING_RUNS {
                    if is(times)? {
                        return Err(Complaint::wrong(format!(
                            "the text after {prompt:?} is that of run {}; keep the first, the others are there for their \
                             time",
                            times + 1
                        )));
                    }
                }
                return Err(Complaint::wrong(format!(
                    "after {prompt:?} the model of {name:?} said {:?}, its row says {output:?}",
                    text(0)?
                )));
            }
        }
        Ok(())
    }

    /// Seconds of a warm run: a step for each new token, and a little for each token read.
    fn run_s(prompt_tokens: usize) -> f64 {
        COSTS.step * NEW_TOKENS as f64 + COSTS.token * (prompt_tokens + NEW_TOKENS - 1) as f64
    }

    fn latency(&self) -> Result<(), Complaint> {
        let first = Self::run_s(self.prompt_tokens[0]);
        let runs = TIMING_RUNS as f64;
        let others: f64 = self.prompt_tokens[1..].iter().map(|&tokens| Self::run_s(tokens)).sum();
        let mistakes = [
            (
                first + COSTS.cold_start / runs,
                "the first run of a model was counted: it pays for what later ones do not",
            ),
            (first + COSTS.cold_start / (runs + 1.0), "the first run of a model, the warm-up, was averaged in"),
            (runs * first, "that is the sum of the runs, not their mean"),
            ((runs * first + others) / (runs + 2.0), "the other prompts were averaged in"),
            ((first + others) / 3.0, "the other prompts were averaged in"),
        ];
        for (place, result) in self.results()? {
            let got = result.avg_latency_s;
            let is = |value: f64| (got - value).abs() < 1e-6;
            let why = mistakes.iter().find(|(value, _)| is(*value)).map(|(_, why)| *why);
            match why {
                _ if is(first) => {}
                Some(why) => return Err(Complaint::wrong(why)),
                None => {
                    return Err(Complaint::wrong(format!(
                        "a warm run of the first prompt takes {first:.2} s on this machine, the row of {:?} says {got:.2}. \
                         Is a first run in it, or another prompt?",
                        self.rows[place].name
                    )));
                }
            }
        }
        let read = prompts_read(&self.events);
        let times = read.iter().filter(|&&tokens| tokens == self.prompt_tokens[0]).count();
        let working = configurations().len() - 1;
        Complaint::unless(times >= working * TIMING_RUNS, || {
            format!(
                "`num_timing_runs` was {TIMING_RUNS} for {working} models, but the first prompt was read {times} times in all"
            )
        })
    }

    fn others_once(&self) -> Result<(), Complaint> {
        self.results()?;
        let read = prompts_read(&self.events);
        let working = configurations().len() - 1;
        for (&tokens, prompt) in self.prompt_tokens.iter().zip(PROMPTS).skip(1) {
            let times = read.iter().filter(|&&read| read == tokens).count();
            if times != working {
                return Err(Complaint::wrong(format!(
                    "{working} models read {prompt:?} {times} times in all; once each gives its text, and only the first \
                     prompt is timed"
                )));
            }
        }
        Ok(())
    }

    fn one_at_a_time(&self) -> Result<(), Complaint> {
        let mut in_memory = 0_usize;
        for event in &self.events {
            match event {
                Event::Load => in_memory += 1,
                Event::Unload => in_memory -= 1,
                _ => {}
            }
            if in_memory > 1 {
                return Err(Complaint::wrong(
                    "a second model was loaded while the first was still there: large models do not fit side by side. A \
                     model is dropped when the variable that holds it goes out of scope",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Else a wrong text could pass for the right one.
    #[test]
    fn every_text_is_one_of_its_own() {
        let tokenizer = Machine::new(COSTS).tokenizer().unwrap();
        let mut texts = HashSet::new();
        for (place, prompt, times) in (0..4)
            .flat_map(|place| PROMPTS.map(|prompt| (0..=TIMING_RUNS).map(move |times| (place, prompt, times))))
            .flatten()
        {
            let tokens = tokenizer.encode(prompt).unwrap().len();
            let text = tokenizer.decode(&[token(place, tokens, times); NEW_TOKENS]).unwrap();
            assert!(text.trim().chars().any(char::is_alphanumeric), "{text:?}");
            assert!(texts.insert(text.trim().to_owned()), "{text:?} twice");
        }
    }
}
