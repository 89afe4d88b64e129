//! `time_generate`: one generation, timed honestly.

use quantlab::error::Result;
use quantlab::measure::{Clock, Metrics};
use quantlab::model::Loaded;

use crate::cases::LONG_PROMPT;
use crate::evidence::is_whole_prompt;
use crate::failures::{error_of, must_fail, passes_failures_on, taken_for_success};
use crate::probe::{Costs, Event, Machine, Pass, ProbeModel, Timed};
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "What, besides generating, happens between your two readings of the clock? And what does the very first run \
     pay for that later ones do not?",
    "In this order: text to ids, one generation that is not timed, wait for the device, read the clock, generate, \
     wait for the device, read the clock.",
    "`loaded.generate_tokens(&ids, &options)?` twice, with `loaded.model.synchronize()?` before \
     `let start = clock.now();` and again before the second reading; `options` with `stop_at_eos: false`, so that \
     every run has as many tokens as you asked for.",
];

/// Every cost that could be mistaken for another has its own size; the very first pass is by far the slowest.
fn costs(pace: f64) -> Costs {
    Costs {
        step: pace,
        launch: 1e-3 * pace,
        token: 1e-2 * pace,
        cold_start: 1e3 * pace,
        encode: 1e4 * pace,
        decode: 1e5 * pace,
        drift: 1e-4 * pace,
        is_asynchronous: true,
        ..Costs::PLAIN
    }
}

/// What an answer is called with.
#[derive(Debug, Clone, Copy)]
struct Call {
    prompt: &'static str,
    new_tokens: usize,
    use_cache: bool,
    /// The factor by which all costs are multiplied.
    pace: f64,
}

/// The last three have spaces around a prompt that is longer than most, more tokens than usual, and only two tokens.
const CALLS: [Call; 5] = [
    Call { prompt: "Once upon a time there lived a fisher", new_tokens: 8, use_cache: true, pace: 1.0 },
    Call { prompt: "The capital of France is Paris. The capital of Italy", new_tokens: 5, use_cache: false, pace: 1.0 },
    Call { prompt: LONG_PROMPT, new_tokens: 3, use_cache: true, pace: 1.0 },
    // In a fraction of a second.
    Call { prompt: "A", new_tokens: 70, use_cache: false, pace: 6.53e-4 },
    Call { prompt: "na\u{ef}ve caf\u{e9}", new_tokens: 2, use_cache: false, pace: 1.0 },
];

/// A run that is a prefill and nothing else.
const PREFILL: Call = Call { prompt: "Once upon a time", new_tokens: 1, use_cache: false, pace: 1.0 };

/// How long the models' context is, unless it is told.
const CONTEXT_LEN: usize = 1024;

type Answer<'a> = dyn Fn(&dyn Clock, &Loaded, &str, usize, bool) -> Result<Metrics> + 'a;

/// Checks `time_generate(clock, loaded, prompt, max_new_tokens, use_cache)`.
pub fn check_time_generate(yours: fn(&dyn Clock, &Loaded, &str, usize, bool) -> Result<Metrics>) -> Score {
    let trials = CALLS.iter().map(|&call| Trial::run(&yours, call)).collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 8] = [
        ("reads the clock that it was given, before and after", |trial| trial.timed().map(drop)),
        ("warms up before the clock starts", Trial::warms_up),
        ("keeps the tokenizer out of the timed part", |trial| trial.timed()?.leaves_text_outside()),
        ("waits for the device before the clock starts", |trial| trial.timed()?.waits_before()),
        ("waits for the device before the clock stops", |trial| trial.timed()?.waits_after()),
        ("reads the whole prompt", |trial| is_whole_prompt(&trial.timed_passes()?[0].ids, &trial.prompt)),
        ("times one run, of exactly max_new_tokens new tokens, and counts them", |trial| {
            trial.counts_new_tokens()?;
            trial.times_one_run()
        }),
        ("the four figures agree with the clock and with each other", Trial::figures_fit),
    ];
    Score::new("time_generate", HINTS)
        .each(&trials, &points)
        .about(&trials, "runs with or without the cache, as requested, and needs no more room than the run", |trials| {
            trials.iter().try_for_each(Trial::uses_cache)?;
            trials[..2].iter().try_for_each(|trial| fits_into_context(&yours, trial))?;
            warms_up_for_one_token(&yours, trials.iter().all(|trial| trial.warms_up().is_ok()))
        })
        .about(&trials, "passes on errors that occur while generating", |trials| passes_errors_on(&yours, trials))
}

/// One call of the answer, and what happened on the machine meanwhile.
struct Trial {
    call: Call,
    metrics: Metrics,
    events: Vec<Event>,
    passes: Vec<Pass>,
    calls: usize,
    prompt: Vec<u32>,
}

impl Trial {
    fn run(yours: &Answer<'_>, call: Call) -> Result<Self, Complaint> {
        // As many clocks do, it counts from when the machine was started.
        let machine = Machine::running_for(costs(call.pace), 86_400.0);
        let prompt = Machine::new(costs(call.pace)).tokenizer()?.encode(call.prompt)?;
        let metrics = call.on(&machine, prompt.len(), CONTEXT_LEN, yours)?;
        Ok(Self { call, metrics, events: machine.events(), passes: machine.passes(), calls: machine.calls(), prompt })
    }

    fn timed(&self) -> Result<Timed<'_>, Complaint> {
        Timed::lasting(&self.events, self.metrics.total_latency_s)
    }

    /// The forward passes in the timed part.
    fn timed_passes(&self) -> Result<&[Pass], Complaint> {
        let Timed { before, inside, .. } = self.timed()?;
        let [first, passes] = [before, inside].map(Event::forwards);
        Complaint::unless(passes > 0, || "nothing was generated between the two readings of the clock")?;
        Ok(&self.passes[first..first + passes])
    }

    fn warms_up(&self) -> Verdict {
        Complaint::unless(self.timed()?.before.iter().any(Event::is_forward), || {
            "nothing was generated before the clock started, so the first run's extra costs (page faults, caches, \
             threads waking up) are in your number"
        })
    }

    fn counts_new_tokens(&self) -> Verdict {
        let (asked, passes, counted) =
            (self.call.new_tokens, self.timed_passes()?.len(), self.metrics.tokens_generated);
        let prompt = self.prompt.len();
        if counted == prompt + passes {
            return wrong!(
                "`tokens_generated` is {counted}: the {prompt} tokens of the prompt were counted as generated"
            );
        }
        if passes != asked && passes == self.call.passes_to_eos() {
            return wrong!(
                "{asked} tokens were asked for, but {passes} were generated: the model ended its text. Runs of \
                 different lengths cannot be compared; set `stop_at_eos: false`"
            );
        }
        if passes > asked && passes % asked == 0 {
            let times = passes / asked;
            return wrong!(
                "{passes} tokens were generated in the timed part, {times} times the {asked} that were asked for: only \
                 one run belongs between the two readings of the clock"
            );
        }
        Complaint::unless(passes == asked, || {
            format!("{asked} tokens were asked for, but {passes} were generated in the timed part")
        })?;
        Complaint::unless(counted == asked, || format!("{asked} tokens were generated, but you say {counted}"))
    }

    /// One run to warm up, perhaps another one, and then the one that counts.
    fn times_one_run(&self) -> Verdict {
        let Timed { before, inside, .. } = self.timed()?;
        let later = self.events[before.len() + inside.len()..].iter().any(Event::is_forward);
        let runs = self.passes.iter().filter(|pass| pass.ids == self.prompt).count();
        Complaint::unless(!later && runs <= 3, || {
            format!(
                "{runs} runs were made, and one of them was chosen: warm up once, time one run, and return what it took, \
                 whatever that is. Repeating is left to the caller"
            )
        })
    }

    fn figures_fit(&self) -> Verdict {
        let passed = self.timed()?.passed;
        let Metrics { total_latency_s, tokens_generated, tokens_per_sec, avg_latency_per_token_ms } = self.metrics;
        Complaint::unless(total_latency_s > 0.0, || {
            format!("`total_latency_s` is {total_latency_s}, which no generation can take")
        })?;
        let tokens = tokens_generated as f64;
        let figures = [
            ("total_latency_s", total_latency_s, "the time between the two readings", passed),
            ("tokens_per_sec", tokens_per_sec, "tokens_generated / total_latency_s", tokens / total_latency_s),
            (
                "avg_latency_per_token_ms",
                avg_latency_per_token_ms,
                "1000 * total_latency_s / tokens_generated",
                1e3 * total_latency_s / tokens,
            ),
        ];
        figures.into_iter().try_for_each(|(name, got, formula, expected)| {
            // Rounded numbers are right too.
            let is_near = (got - expected).abs() <= 1e-3 * expected.abs();
            Complaint::unless(is_near, || format!("`{name}` is {got:.4}, but {formula} is {expected:.4}"))
        })
    }

    fn uses_cache(&self) -> Verdict {
        let inside = self.timed()?.inside;
        let cached = inside.iter().any(|event| matches!(event, Event::Forward { past_len: 1.., .. }));
        let use_cache = self.call.use_cache;
        Complaint::unless(cached == use_cache, || {
            let with = if cached { "with" } else { "without" };
            format!("`use_cache` was {use_cache}, but the model ran {with} a cache")
        })
    }
}

impl Call {
    /// Calls the answer on a model that wants to end its text in the middle of the run.
    fn on(
        self,
        machine: &Machine,
        prompt_tokens: usize,
        context_len: usize,
        yours: &Answer<'_>,
    ) -> Result<Metrics, Complaint> {
        let ends_at = prompt_tokens + self.new_tokens / 2;
        let ending = |model: ProbeModel| model.ending_at(ends_at).with_info(|info| info.context_len = context_len);
        let loaded = machine.loaded(ending)?;
        ask(|| yours(&machine.clock(), &loaded, self.prompt, self.new_tokens, self.use_cache))
    }

    /// How many tokens the model makes if it may end its text.
    fn passes_to_eos(self) -> usize {
        self.new_tokens / 2 + 1
    }
}

/// Where no run is warmed up, which another point says, all that is asked here is that it works.
fn warms_up_for_one_token(yours: &Answer<'_>, is_warm: bool) -> Verdict {
    match Trial::run(yours, PREFILL) {
        Err(Complaint::Failed(message)) => {
            wrong!("one new token was asked for, but your function fails ({message}): does the warm-up generate none?")
        }
        Err(complaint) => Err(complaint),
        Ok(trial) if is_warm => trial.warms_up(),
        Ok(_) => Ok(()),
    }
}

/// A context with room for this run and no more.
fn fits_into_context(yours: &Answer<'_>, trial: &Trial) -> Verdict {
    let (prompt, new) = (trial.prompt.len(), trial.call.new_tokens);
    match trial.call.on(&Machine::new(costs(1.0)), prompt, prompt + new, yours) {
        Err(Complaint::Failed(message)) => wrong!(
            "{prompt} prompt tokens and {new} new ones fit into the context, but your function fails ({message}): does \
             the warm-up generate more than `max_new_tokens`?"
        ),
        other => other.map(drop),
    }
}

/// A context too short for the last step, whose input is the last but one of the new tokens.
fn refuses_too_little_room(yours: &Answer<'_>, trial: &Trial) -> Verdict {
    let (prompt, new) = (trial.prompt.len(), trial.call.new_tokens);
    must_fail(trial.call.on(&Machine::new(costs(1.0)), prompt, prompt + new - 2, yours), |metrics| {
        format!(
            "{prompt} prompt tokens and {new} new ones do not fit into a context of {}, but you returned figures of {} \
             tokens: runs of different lengths cannot be compared, so return an `Err`",
            prompt + new - 2,
            metrics.tokens_generated
        )
    })
}

fn passes_errors_on(yours: &Answer<'_>, trials: &[Trial]) -> Verdict {
    trials[..2].iter().try_for_each(|trial| refuses_too_little_room(yours, trial))?;
    let swallowed = |failure: &str, told: bool| taken_for_success(failure, told, "figures");
    for trial in &trials[..2] {
        let answer = |machine: &Machine| trial.call.on(machine, trial.prompt.len(), CONTEXT_LEN, yours);
        passes_failures_on(costs(1.0), 0..trial.calls, answer, |_| {
            swallowed("the model failed while it was running", true)
        })?;
    }
    let machine = Machine::new(costs(1.0));
    let mut loaded = machine.loaded(|model| model)?;
    let empty = CALLS[0];
    let got = ask(|| yours(&machine.clock(), &loaded, "", empty.new_tokens, empty.use_cache));
    must_fail(got, |_| swallowed("an empty prompt has nothing to continue from", false))?;
    loaded.tokenizer = Machine::failing_tokenizer()?;
    let got = ask(|| yours(&machine.clock(), &loaded, empty.prompt, empty.new_tokens, empty.use_cache));
    let message = error_of(got, |_| swallowed("the tokenizer failed", true))?;
    Complaint::unless(
        !message.contains("prompt is empty"),
        || "the tokenizer failed, but you returned another error: pass the first one on with `?`",
    )
}
