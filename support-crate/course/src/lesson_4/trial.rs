//! A call of `run_experiment` with models in a test tube, and what can be seen of it.

use std::cell::RefCell;

use super::generations::{Generation, generations};
pub(super) use super::scenario::Scenario;
use quantlab::measure::{Clock, Statistics};
use quantlab::model::{LoadOptions, ModelHub, Tokenizer};

use super::scenario::{DEVICE_FAILED, FormatHub, SCALES_MIB, UnevenClock};
use super::{Configuration, ExperimentResult, ExperimentRow, ExperimentSettings};
use crate::figure::mean;
use crate::probe::Event;
use crate::{Complaint, Verdict, ask};

/// The learner's function.
pub(super) type Answer<'a> =
    dyn Fn(&dyn Clock, &dyn ModelHub, &[Configuration], &ExperimentSettings, &dyn Fn(&str)) -> Vec<ExperimentRow> + 'a;

/// One call of the answer, and what happened on the machine meanwhile.
pub(super) struct Trial {
    scenario: Scenario,
    rows: Vec<ExperimentRow>,
    asked: Vec<LoadOptions>,
    events: Vec<Event>,
    generations: Vec<Generation>,
    log: Vec<Note>,
    tokenizer: Tokenizer,
    /// Some of the calls of models, each of which can fail.
    pub some_calls: Vec<usize>,
    /// Whether the call that was to fail was made.
    has_failed: bool,
}

/// A line of the log, and how many events there were before it.
#[derive(Debug)]
struct Note {
    line: String,
    after: usize,
}

impl Scenario {
    pub fn run(self, yours: &Answer<'_>) -> Result<Trial, Complaint> {
        let machine = self.machine();
        let hub = FormatHub::new(&machine, &self)?;
        let clock = UnevenClock::new(&machine);
        let log: RefCell<Vec<Note>> = RefCell::default();
        let note = |line: &str| log.borrow_mut().push(Note { line: line.to_owned(), after: machine.events().len() });
        let rows = ask(|| Ok(yours(&clock, &hub, &self.configurations, &self.settings, &note)))?;
        let prompts = self.settings.prompts.iter().map(|prompt| hub.tokenizer.encode(prompt));
        let prompts = prompts.collect::<quantlab::error::Result<Vec<_>>>()?;
        let generations = generations(&machine, &prompts, &hub.loaded.borrow(), &clock.shown.borrow());
        Ok(Trial {
            rows,
            asked: hub.asked.into_inner(),
            events: machine.events(),
            some_calls: machine.some_calls().collect(),
            has_failed: machine.has_failed(),
            generations,
            log: log.into_inner(),
            tokenizer: hub.tokenizer,
            scenario: self,
        })
    }
}

impl Trial {
    /// Places of the configurations that can be loaded.
    fn working(&self) -> impl Iterator<Item = usize> {
        (0..self.scenario.configurations.len()).filter(|place| !self.is_broken(*place))
    }

    fn is_broken(&self, place: usize) -> bool {
        self.scenario.broken.is_some_and(|(broken, _)| broken == place)
    }

    fn name(&self, place: usize) -> &str {
        &self.scenario.configurations[place].name
    }

    /// The results, each with its configuration's place. All of those that can be loaded must be there.
    fn results(&self) -> Result<Vec<(usize, &ExperimentResult)>, Complaint> {
        self.named()?;
        self.working().map(|place| Ok((place, self.result(place)?))).collect()
    }

    fn result(&self, place: usize) -> Result<&ExperimentResult, Complaint> {
        match &self.rows[place].outcome {
            Ok(result) => Ok(result),
            Err(error) => wrong!("the row of {:?} says: {error}", self.name(place)),
        }
    }

    pub fn named(&self) -> Verdict {
        let expected: Vec<&str> = self.scenario.configurations.iter().map(|one| one.name.as_str()).collect();
        let names: Vec<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        Complaint::unless(names == expected, || {
            format!("the rows are called {names:?}, but the configurations are called {expected:?}")
        })
    }

    pub fn loaded(&self) -> Verdict {
        let missing = self.scenario.configurations.iter().find(|one| !self.asked.contains(&one.options));
        missing.map_or(Ok(()), |one| {
            wrong!("no model was loaded with the options of {:?}: pass on `&configuration.options`", one.name)
        })
    }

    pub fn broken(&self) -> Verdict {
        let Some((broken, because)) = self.scenario.broken else { return Ok(()) };
        self.named()?;
        match &self.rows[broken].outcome {
            Err(error) if error.to_string().contains(because) => self.results().map(drop),
            Err(error) => {
                wrong!("{:?} could not be loaded because {because:?}, but its row says only {error}", self.name(broken))
            }
            Ok(_) => {
                wrong!("{:?} could not be loaded, and yet its row has numbers: whose are they?", self.name(broken))
            }
        }
    }

    pub fn memory(&self) -> Verdict {
        for (place, result) in self.results()? {
            let (got, expected) = (result.memory_mib, Scenario::memory_mib(place));
            if got.is_nan() || (got - expected).abs() > 0.005 {
                let scales = (got - expected - SCALES_MIB).abs() < 0.005;
                let why =
                    if scales { ", which includes the scales of its weights: the footprint does not" } else { "" };
                return wrong!("the model of {:?} takes {expected} MiB, but its row says {got}{why}", self.name(place));
            }
        }
        Ok(())
    }

    pub fn texts(&self) -> Verdict {
        self.results()?.into_iter().try_for_each(|(place, result)| self.has_texts(place, result))
    }

    fn has_texts(&self, place: usize, result: &ExperimentResult) -> Verdict {
        let (name, settings) = (self.name(place), &self.scenario.settings);
        if result.outputs.len() != settings.prompts.len() {
            return wrong!(
                "there are {} prompts, but the row of {name:?} has {} texts",
                settings.prompts.len(),
                result.outputs.len()
            );
        }
        for (index, (output, prompt)) in result.outputs.iter().zip(&settings.prompts).enumerate() {
            let ids = self.tokenizer.encode(prompt)?;
            let text =
                |times| self.tokenizer.decode(&vec![Scenario::token(place, &ids, times); settings.max_new_tokens]);
            let is = |times| Ok::<_, Complaint>(output.trim() == text(times)?.trim());
            let before = settings.prompts[..index].iter().filter(|other| *other == prompt).count();
            if is(before)? {
                continue;
            }
            if before > 0 && is(0)? {
                return wrong!(
                    "{prompt:?} is there {} times, and one text was used again: each takes a generation of its own",
                    before + 1
                );
            }
            for times in 1..=settings.num_timing_runs {
                if is(times)? {
                    return wrong!(
                        "the text after {prompt:?} is that of run {}: keep the first; the others are there only to be \
                         timed",
                        times + 1
                    );
                }
            }
            if output.starts_with(prompt.as_str()) {
                return wrong!("the text after {prompt:?} begins with the prompt: its row says {output:?}");
            }
            return wrong!(
                "after {prompt:?} the model of {name:?} said {:?}, but its row says {output:?}",
                text(before)?
            );
        }
        Ok(())
    }

    /// Seconds of all generations of one model from one prompt.
    fn seconds(&self, place: usize, prompt: usize) -> Vec<f64> {
        let of = self.generations.iter().filter(|one| one.place == place && one.prompt == Some(prompt));
        of.filter_map(|one| one.seconds).collect()
    }

    pub fn latency(&self) -> Verdict {
        let asked = self.scenario.settings.max_new_tokens;
        let other_length = |one: &&Generation| one.prompt.is_some() && one.new_tokens != asked;
        self.results()?.into_iter().try_for_each(|(place, result)| self.is_mean(place, result.avg_latency_s))?;
        self.generations.iter().find(other_length).map_or(Ok(()), |one| {
            wrong!(
                "`max_new_tokens` was {asked}, but the model of {:?} generated {} in one of its runs",
                self.name(one.place),
                one.new_tokens
            )
        })
    }

    /// Whether this is the mean of the warm runs of the first prompt; if not, which other number it is.
    fn is_mean(&self, place: usize, got: f64) -> Verdict {
        let (runs, seconds) = (self.scenario.settings.num_timing_runs, self.seconds(place, 0));
        let mean = |values: &[f64]| mean(values.iter().copied());
        let is = |value: f64| (got - value).abs() <= 5e-4 * value.abs();
        let first_was_counted = "the first run of a model was counted: it pays for things that later ones do not";
        if seconds.len() <= runs {
            return Err(Complaint::wrong(if is(mean(&seconds)) {
                first_was_counted.to_owned()
            } else {
                format!(
                    "`num_timing_runs` is {runs}: besides the generation of its text, the first prompt takes {runs} more; the \
                     model of {:?} was timed {} times with it",
                    self.name(place),
                    seconds.len()
                )
            }));
        }
        let warm = &seconds[seconds.len() - runs..];
        let of_others: Vec<Vec<f64>> =
            (1..self.scenario.settings.prompts.len()).map(|prompt| self.seconds(place, prompt)).collect();
        let last_of_others = of_others.iter().flat_map(|all| &all[all.len().saturating_sub(runs)..]).copied();
        let others = of_others.concat();
        let (expected, fastest) = (mean(warm), warm.iter().copied().fold(f64::INFINITY, f64::min));
        let others_were_averaged = "the other prompts were averaged in";
        let mistakes = [
            (mean(&seconds), "the first run of a model, the warm-up, was averaged in"),
            (mean(&seconds[..runs]), first_was_counted),
            (seconds[0], first_was_counted),
            (warm.iter().sum(), "that is the sum of the runs, not their mean"),
            (1e3 * expected, "that is in milliseconds; seconds are asked for"),
            (Statistics::of(warm)?.median, "that is the median of the runs; their mean is asked for"),
            (fastest, "that is the fastest run; the mean is asked for"),
            (expected * runs as f64 / (runs + 1) as f64, "the sum was divided by one run too many"),
            (mean(&[warm, &others].concat()), others_were_averaged),
            (mean(&[&seconds, others.as_slice()].concat()), others_were_averaged),
            (mean(&[&seconds[..1], &others].concat()), others_were_averaged),
            (mean(&warm.iter().copied().chain(last_of_others).collect::<Vec<_>>()), others_were_averaged),
        ];
        match mistakes.iter().find(|(value, _)| is(*value)) {
            _ if is(expected) => Ok(()),
            Some((_, why)) => Err(Complaint::wrong(*why)),
            None => wrong!(
                "the warm runs of the first prompt took {expected:.2} s on average with the model of {:?}, but its row \
                 says {got:.2}. Is another run in it, or another prompt?",
                self.name(place)
            ),
        }
    }

    pub fn others_once(&self) -> Verdict {
        self.results()?;
        for place in self.working() {
            for text in self.scenario.settings.prompts.iter().skip(1) {
                let prompts = &self.scenario.settings.prompts;
                let of = |one: &&Generation| one.place == place && one.prompt.is_some_and(|at| prompts[at] == *text);
                let times = self.generations.iter().filter(of).count();
                if times != prompts.iter().filter(|other| *other == text).count() {
                    return wrong!(
                        "the model of {:?} read {text:?} {times} times; once is enough for its text, and only the \
                         first prompt is timed",
                        self.name(place)
                    );
                }
            }
        }
        Ok(())
    }

    pub fn one_at_a_time(&self) -> Verdict {
        let mut in_memory = 0_usize;
        for event in &self.events {
            match event {
                Event::Load => in_memory += 1,
                Event::Unload => in_memory -= 1,
                _ => {}
            }
            if in_memory > 1 {
                return wrong!(
                    "a second model was loaded while the first was still there: large models do not fit side by side. A \
                     model is dropped when the variable that holds it goes out of scope",
                );
            }
        }
        Ok(())
    }

    /// Whether each configuration is announced, in order, and after that its memory and its prompts.
    pub fn logged(&self) -> Verdict {
        let announces = |note: &Note| note.line.trim_start().starts_with("Loading model");
        let missing = |line: String| {
            let log: Vec<&str> = self.log.iter().map(|note| note.line.as_str()).collect();
            wrong!("there is no line {line:?}, or it is out of order; the log has {log:?}")
        };
        let mut rest = self.log.as_slice();
        for (place, Configuration { name, .. }) in self.scenario.configurations.iter().enumerate() {
            let is_own = |note: &Note| announces(note) && note.line.trim_end().ends_with(name.as_str());
            let Some(at) = rest.iter().position(is_own) else {
                return missing(format!("Loading model with configuration: {name}"));
            };
            rest = &rest[at + 1..];
            let own = &rest[..rest.iter().position(announces).unwrap_or(rest.len())];
            let said = |start: &str, what: &str| {
                own.iter().find(|note| note.line.trim_start().starts_with(start) && note.line.contains(what))
            };
            if self.is_broken(place) {
                continue;
            }
            // Cut off, the beginning of the number with however many decimals; or rounded to one.
            let mib = Scenario::memory_mib(place);
            let [memory, rounded] = [(10.0 * mib).floor() / 10.0, mib].map(|mib| format!("{mib:.1}"));
            let line = said("Memory Footprint", &memory).or_else(|| said("Memory Footprint", &rounded));
            if line.is_none_or(|note| !note.line.contains("MiB")) {
                return missing(format!("Memory Footprint: {memory} MiB"));
            }
            for (index, prompt) in self.scenario.settings.prompts.iter().enumerate() {
                let beginning: String = prompt.trim().chars().take(12).collect();
                let Some(note) = said("Processing prompt", &beginning) else {
                    return missing(format!("  Processing prompt: '{beginning}...'"));
                };
                let is_of = |one: &&Generation| one.place == place && one.prompt == Some(index);
                Complaint::unless(
                    self.generations.iter().find(is_of).is_none_or(|one| note.after <= one.begins),
                    || {
                        format!(
                            "{:?} came when its text was there already: say what you do before you do it",
                            note.line
                        )
                    },
                )?;
            }
        }
        Ok(())
    }

    /// After one call of a model failed: its row has the error, the others are whole.
    pub fn fails_in_one_row(&self) -> Verdict {
        if !self.has_failed {
            return Ok(());
        }
        self.named()?;
        let says_so = |place: &usize| {
            self.rows[*place].outcome.as_ref().is_err_and(|error| error.to_string().contains(DEVICE_FAILED))
        };
        let failed = self.working().filter(says_so).count();
        if failed != 1 {
            return wrong!(
                "the device failed once while it generated; {failed} rows say so, expected 1: the error belongs in the \
                 row, passed on with `?`"
            );
        }
        for place in self.working().filter(|place| !says_so(place)) {
            self.has_texts(place, self.result(place)?)?;
        }
        Ok(())
    }

    /// Where there is no tokenizer.
    pub fn fails_in_each_row(&self) -> Verdict {
        self.named()?;
        self.rows.iter().find(|row| row.outcome.is_ok()).map_or(Ok(()), |row| {
            wrong!("there was no tokenizer, and yet the row of {:?} has numbers: whose are they?", row.name)
        })
    }
}
