//! `run_varied_precision`: the precision changes, everything else stays.

use std::cell::RefCell;

use quantlab::error::Result;
use quantlab::measure::Clock;
use quantlab::model::{Device, ModelHub, resolve_dtype};

use super::dtype::label_fits;
use super::evidence::{COSTS, evidence_of};
use super::loading::is_plain;
use super::{PrecisionRun, SweepConfig, lengths};
use crate::cases::LONG_PROMPT;
use crate::evidence::Evidence;
use crate::failures::{must_fail, passes_failures_on, taken_for_success};
use crate::probe::{Costs, Machine, ProbeHub, Stock};
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Which label belongs to a row: what was asked for, or what was used? And what has to be there before the models \
     and the memory can take turns?",
    "Load the model once for each precision (`load_model_and_tokenizer` resolves the precision and keeps the label) \
     and keep a list of runs for each; then an outer loop over the rounds, an inner one over the models, and one reading of the memory in each \
     round.",
    "`let mut runs = vec![Vec::new(); models.len()];`, then `for _ in 0..config.repeats { for (loaded, runs) in \
     models.iter().zip(&mut runs) { runs.push(time_generate(clock, loaded, prompt, config.max_new_tokens, \
     config.use_cache)?); } gb_per_s.push(memory()); }`; a row is `PrecisionRun { label: loaded.dtype_label.clone(), \
     bytes_per_token: loaded.model.info().bytes_per_token, runs: Runs::of(runs)?, gb_per_s: gb_per_s.clone() }`.",
];

type Yours<'a> =
    dyn Fn(&dyn Clock, &dyn Fn() -> f64, &dyn ModelHub, &str, &str, &SweepConfig) -> Result<Vec<PrecisionRun>> + 'a;

/// Checks `run_varied_precision(clock, memory, hub, model_id, prompt, config)`.
pub fn check_run_varied_precision(
    yours: fn(&dyn Clock, &dyn Fn() -> f64, &dyn ModelHub, &str, &str, &SweepConfig) -> Result<Vec<PrecisionRun>>,
) -> Score {
    let calls = [
        Call {
            model_id: "lab/whole",
            prompt: "The quick brown fox jumps over the lazy dog.",
            config: config(&["float32", "float16", "bfloat16"], Device::Cpu, 6, true, 4),
        },
        Call {
            model_id: "lab/other",
            prompt: "One day, a fox and a crow met",
            config: config(&["bfloat16", "float16"], Device::Cuda(0), 5, false, 3),
        },
        // A repeated precision, names in capitals, and a long prompt with spaces around it.
        Call {
            model_id: "lab/whole",
            prompt: LONG_PROMPT,
            config: config(&["BFloat16", "float32", "bfloat16", "FLOAT16", "float32"], Device::Cpu, 60, true, 2),
        },
        Call { model_id: "lab/other", prompt: "A", config: config(&["float16"], Device::Cuda(1), 2, true, 7) },
    ];
    let trials = calls.into_iter().map(|call| Trial::run(&yours, call)).collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 9] = [
        ("a row for each precision, in order, labelled with what was used", Trial::labels),
        ("every row has the times of the model in its own precision", Trial::own_model),
        ("every row says what its model reads per token", Trial::bytes),
        ("the same prompt in every run", Trial::same_prompt),
        ("the same number of new tokens in every row", |trial| {
            trial.evidence.same_new_tokens(trial.call.config.max_new_tokens)
        }),
        ("every row has as many runs as requested, each timed by itself", |trial| {
            trial.evidence.repeated(trial.call.config.repeats)
        }),
        ("the models take turns", |trial| trial.own_model().and_then(|()| trial.evidence.took_turns())),
        ("the bandwidth of memory is measured in every round", Trial::memory_in_turn),
        ("runs with or without the cache, as requested", |trial| {
            trial.evidence.cache_as_told(trial.call.config.use_cache)
        }),
    ];
    let score = Score::new("run_varied_precision", HINTS).each(&trials, &points);
    score.about(&trials, "passes on errors from a row", |trials| passes_errors_on(&yours, &trials[0]))
}

fn config(
    precisions: &[&'static str],
    device: Device,
    max_new_tokens: usize,
    use_cache: bool,
    repeats: usize,
) -> SweepConfig {
    SweepConfig {
        precisions: precisions.to_vec(),
        device,
        ..lengths::config(&[16], max_new_tokens, use_cache, repeats)
    }
}

/// What an answer is called with.
#[derive(Debug, Clone)]
struct Call {
    model_id: &'static str,
    prompt: &'static str,
    config: SweepConfig,
}

impl Call {
    /// What came back, the hub that it came from, and for each time that the memory was measured, how many forward passes
    /// there were before.
    fn on(&self, machine: &Machine, yours: &Yours<'_>) -> Result<(Vec<PrecisionRun>, ProbeHub, Vec<usize>), Complaint> {
        let hub = ProbeHub::new(machine, &["lab/whole", "lab/other", "embedded"].map(|id| (id, Stock::Whole)));
        let readings = RefCell::new(Vec::new());
        let memory = || {
            let mut readings = readings.borrow_mut();
            readings.push(machine.look(|_, passes| passes.len()));
            bandwidth(readings.len() - 1)
        };
        let rows = ask(|| yours(&machine.clock(), &memory, &hub, self.model_id, self.prompt, &self.config))?;
        Ok((rows, hub, readings.into_inner()))
    }
}

/// What the memory says when it is measured for the first, second, ... time, in GB/s: no two are alike.
fn bandwidth(reading: usize) -> f64 {
    20.0 + 0.37 * reading as f64
}

/// One call of the answer, and what happened on the machine meanwhile.
struct Trial {
    call: Call,
    rows: Vec<PrecisionRun>,
    evidence: Evidence,
    hub: ProbeHub,
    readings: Vec<usize>,
}

impl Trial {
    fn run(yours: &Yours<'_>, call: Call) -> Result<Self, Complaint> {
        let machine = Machine::new(BY_BYTES);
        let (rows, hub, readings) = call.on(&machine, yours)?;
        Complaint::unless(!rows.is_empty(), || "no rows came back")?;
        let evidence = evidence_of(&machine, rows.iter().map(|row| &row.runs));
        Ok(Self { call, rows, evidence, hub, readings })
    }

    /// The rows, each with the precision that was asked for.
    fn requested(&self) -> Result<impl Iterator<Item = (&PrecisionRun, &'static str)>, Complaint> {
        let precisions = &self.call.config.precisions;
        let (asked, got) = (precisions.len(), self.rows.len());
        Complaint::unless(got == asked, || format!("{asked} precisions were asked for, but {got} came back"))?;
        Ok(self.rows.iter().zip(precisions.iter().copied()))
    }

    fn labels(&self) -> Verdict {
        let device = self.call.config.device;
        self.requested()?.try_for_each(|(row, requested)| label_fits(&row.label, &requested.to_lowercase(), device))
    }

    fn own_model(&self) -> Verdict {
        let (device, loaded) = (self.call.config.device, self.hub.models_loaded());
        for ((_, requested), of_row) in self.requested()?.zip(self.evidence.sources()?) {
            let precision = resolve_dtype(requested, device)?.dtype;
            for source in of_row {
                let Some((id, options)) = loaded.get(source.model) else {
                    return wrong!("a row was timed on a model that is not from the hub");
                };
                Complaint::unless(id == self.call.model_id, || {
                    format!("the model to time was {}, but a row was timed on {id}", self.call.model_id)
                })?;
                Complaint::unless((options.precision, options.device) == (precision, device), || {
                    format!(
                        "the row for {requested} was timed on a model in {} on {}, not in {precision} on {device}",
                        options.precision, options.device
                    )
                })?;
                Complaint::unless(is_plain(options, device), || {
                    format!("the row for {requested} differs from the others by more than its precision: {options:?}")
                })?;
            }
            let mut models = of_row.iter().map(|source| source.model);
            let first = models.next();
            Complaint::unless(models.all(|model| Some(model) == first), || {
                format!(
                    "the runs of the row for {requested} were made on several models: load each once, before the first \
                     run, or the runs include some of the loading"
                )
            })?;
        }
        Ok(())
    }

    fn bytes(&self) -> Verdict {
        let device = self.call.config.device;
        self.requested()?.try_for_each(|(row, requested)| {
            let precision = resolve_dtype(requested, device)?.dtype;
            let (expected, got) = (self.hub.bytes_per_token(self.call.model_id, precision)?, row.bytes_per_token);
            Complaint::unless(got == expected, || {
                format!(
                    "the model in {precision} reads {expected} bytes for each token, but the row for {requested} says \
                     {got}: use `loaded.model.info().bytes_per_token`"
                )
            })
        })
    }

    fn memory_in_turn(&self) -> Verdict {
        let sources = self.evidence.sources()?;
        let of_round = |round: usize| sources.iter().filter_map(move |of_row| of_row.get(round));
        for (row, requested) in self.requested()? {
            let (got, runs) = (row.gb_per_s.len(), row.runs.runs.len());
            Complaint::unless(got == runs, || {
                format!(
                    "the row for {requested} has {runs} runs and {got} values in `gb_per_s`: call `memory()` once in each \
                     round"
                )
            })?;
            for (round, value) in row.gb_per_s.iter().enumerate() {
                let is_it = |reading: &usize| (bandwidth(*reading) - value).abs() < 1e-9;
                let Some(reading) = (0..self.readings.len()).find(is_it) else {
                    return wrong!("the row for {requested} says {value:.2} GB/s, which `memory()` did not return");
                };
                let earlier = round.checked_sub(1).into_iter().flat_map(of_round).map(|source| source.passes.end).max();
                let later = of_round(round + 1).map(|source| source.passes.start).min();
                let fits = earlier.unwrap_or(0)..=later.unwrap_or(usize::MAX);
                Complaint::unless(fits.contains(&self.readings[reading]), || {
                    format!(
                        "value {round} in `gb_per_s` of the row for {requested} was not measured in round {round}: call \
                         `memory()` once in each round, beside the runs that are compared with it"
                    )
                })?;
            }
        }
        Ok(())
    }

    fn same_prompt(&self) -> Verdict {
        let prompt = Machine::new(BY_BYTES).tokenizer()?.encode(self.call.prompt)?;
        let other = self.evidence.sources()?.iter().flatten().find(|source| source.prompt != prompt);
        other.map_or(Ok(()), |source| {
            wrong!(
                "the prompt has {} tokens, but a row was timed on another one, of {}: then a difference is not due to \
                 the precision alone",
                prompt.len(),
                source.prompt.len()
            )
        })
    }
}

/// A model of fewer bytes is faster, and comes later.
const BY_BYTES: Costs = Costs { byte: 1e-4, ..COSTS };

fn passes_errors_on(yours: &Yours<'_>, trial: &Trial) -> Verdict {
    let call = &trial.call;
    passes_failures_on(
        BY_BYTES,
        trial.evidence.some_calls.iter().copied(),
        |machine| call.on(machine, yours),
        |_| taken_for_success("a model failed in one of the runs", true, "rows"),
    )?;
    let fails = |failure: &str, call: &Call| {
        must_fail(call.on(&Machine::new(BY_BYTES), yours), |_| taken_for_success(failure, false, "rows"))
    };
    fails("there is no such model", &Call { model_id: "lab/missing", ..call.clone() })?;
    let none = Call { config: SweepConfig { repeats: 0, ..call.config.clone() }, ..call.clone() };
    fails("no runs were asked for, so there is nothing to report", &none)?;
    let precisions = vec!["float32", "float7", "bfloat16"];
    let unknown = Call { config: SweepConfig { precisions, ..call.config.clone() }, ..call.clone() };
    fails("`float7` is not a precision", &unknown)
}
