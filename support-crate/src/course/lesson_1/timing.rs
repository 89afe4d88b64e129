//! `time_generate`: one generation, timed honestly.

use crate::course::probe::{Costs, Event, Machine, Timed};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::measure::{Clock, Metrics};
use crate::model::Loaded;

const PROMPT: &str = "Once upon a time there lived a fisher";
const NEW_TOKENS: usize = 8;

const HINTS: [&str; 3] = [
    "What, besides generating, happens between your two readings of the clock? And what does the very first run \
     pay for that later ones do not?",
    "In this order: text to ids, one generation that is not timed, wait for the device, read the clock, generate, \
     wait for the device, read the clock.",
    "`generate_tokens(&*loaded.model, &[ids], &options, &mut |_, _| ())?` twice, with \
     `loaded.model.synchronize()?` before `let start = clock.now();` and again before the second reading; \
     `options` with `stop_at_eos: false`, so that every run has as many tokens as was asked for.",
];

/// Checks `time_generate(clock, loaded, prompt, max_new_tokens, use_cache)`.
pub fn check_time_generate(yours: impl Fn(&dyn Clock, &Loaded, &str, usize, bool) -> Result<Metrics>) -> Score {
    let with_cache = Trial::run(&yours, true);
    let without = Trial::run(&yours, false);
    Check::new("time_generate", HINTS)
        .about(&with_cache, "reads the clock that it was given, before and after", |trial| trial.timed().map(drop))
        .about(&with_cache, "warms up before the clock starts", Trial::warms_up)
        .about(&with_cache, "keeps the tokenizer out of the timed part", |trial| trial.timed()?.leaves_text_outside())
        .about(&with_cache, "waits for the device before the clock starts", |trial| trial.timed()?.waits_before())
        .about(&with_cache, "waits for the device before the clock stops", |trial| trial.timed()?.waits_after())
        .about(&with_cache, "reads the whole prompt", Trial::reads_the_prompt)
        .about(&with_cache, "generates and counts exactly max_new_tokens new tokens", Trial::counts_new_tokens)
        .about(&with_cache, "the four figures fit the clock and each other", Trial::figures_fit)
        .point(
            "does with and without the cache as told",
            with_cache
                .as_ref()
                .map_err(Complaint::clone)
                .and_then(|trial| trial.uses_cache(true))
                .and_then(|()| without.as_ref().map_err(Complaint::clone).and_then(|trial| trial.uses_cache(false))),
        )
        .score()
}

/// One call of the answer, and what happened on the machine meanwhile.
struct Trial {
    metrics: Metrics,
    events: Vec<Event>,
    prompt_tokens: usize,
}

impl Trial {
    fn run(
        yours: &impl Fn(&dyn Clock, &Loaded, &str, usize, bool) -> Result<Metrics>,
        use_cache: bool,
    ) -> Result<Self, Complaint> {
        let costs = Costs { is_asynchronous: true, cold_start: 1e3, encode: 1e4, decode: 1e5, ..Costs::default() };
        let machine = Machine::new(costs);
        let prompt_tokens = machine.tokenizer()?.encode(PROMPT)?.len();
        let machine = Machine::new(costs);
        // It wants to end its text in the middle of the run.
        let loaded = machine.loaded(|model| model.ending_at(prompt_tokens + NEW_TOKENS / 2))?;
        let metrics = ask(|| yours(&machine.clock(), &loaded, PROMPT, NEW_TOKENS, use_cache))?;
        Ok(Self { metrics, events: machine.events(), prompt_tokens })
    }

    fn timed(&self) -> Result<Timed<'_>, Complaint> {
        Timed::of(&self.events)
    }

    fn warms_up(&self) -> Result<(), Complaint> {
        Complaint::unless(self.timed()?.before.iter().any(Event::is_forward), || {
            "nothing was generated before the clock started, so the first run's extra costs (page faults, caches, \
                 threads that wake) are in your number"
        })
    }

    fn reads_the_prompt(&self) -> Result<(), Complaint> {
        let first = self.timed()?.inside.iter().find_map(|event| match *event {
            Event::Forward { seq_len, .. } => Some(seq_len),
            _ => None,
        });
        match first {
            Some(seq_len) if seq_len == self.prompt_tokens => Ok(()),
            Some(seq_len) => Err(Complaint::wrong(format!(
                "the prompt has {} tokens, the model was given {seq_len}",
                self.prompt_tokens
            ))),
            None => Err(Complaint::wrong("nothing was generated between the two readings of the clock")),
        }
    }

    fn counts_new_tokens(&self) -> Result<(), Complaint> {
        let passes = self.timed()?.inside.iter().filter(|event| event.is_forward()).count();
        let counted = self.metrics.tokens_generated;
        if counted == self.prompt_tokens + NEW_TOKENS || (counted == self.prompt_tokens + passes && counted != passes) {
            return Err(Complaint::wrong(format!(
                "`tokens_generated` is {counted}: the {} tokens of the prompt were counted as generated",
                self.prompt_tokens
            )));
        }
        if passes < NEW_TOKENS {
            return Err(Complaint::wrong(format!(
                "{NEW_TOKENS} tokens were asked for, {passes} were generated: the model wanted to end its text. Runs of \
                 different lengths do not compare; set `stop_at_eos: false`"
            )));
        }
        if passes > NEW_TOKENS {
            return Err(Complaint::wrong(format!(
                "{NEW_TOKENS} tokens were asked for, {passes} were generated in the timed part"
            )));
        }
        Complaint::unless(counted == NEW_TOKENS, || format!("{NEW_TOKENS} tokens were generated, you say {counted}"))
    }

    fn figures_fit(&self) -> Result<(), Complaint> {
        let passed = self.timed()?.passed;
        let Metrics { total_latency_s, tokens_generated, tokens_per_sec, avg_latency_per_token_ms } = self.metrics;
        let tokens = tokens_generated as f64;
        let figures = [
            ("total_latency_s", total_latency_s, passed),
            ("tokens_per_sec", tokens_per_sec, tokens / total_latency_s),
            ("avg_latency_per_token_ms", avg_latency_per_token_ms, total_latency_s * 1e3 / tokens),
        ];
        for (name, got, expected) in figures {
            let is_near = (got - expected).abs() <= 1e-6 * expected.abs();
            if !is_near {
                return Err(Complaint::wrong(format!("`{name}` is {got:.4}, expected {expected:.4}")));
            }
        }
        Ok(())
    }

    fn uses_cache(&self, use_cache: bool) -> Result<(), Complaint> {
        let cached = self.timed()?.inside.iter().any(|event| matches!(event, Event::Forward { past_len: 1.., .. }));
        Complaint::unless(cached == use_cache, || {
            format!(
                "`use_cache` was {use_cache}, but the model ran {} a cache",
                if cached { "with" } else { "without" }
            )
        })
    }
}
