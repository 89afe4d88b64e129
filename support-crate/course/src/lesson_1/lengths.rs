//! `run_for_varied_lengths`: the prompt grows, everything else stays.

use quantlab::error::Result;
use quantlab::measure::{Clock, Runs};
use quantlab::model::{Device, Loaded};

use super::evidence::{COSTS, evidence_of};
use super::{LengthRun, SweepConfig};
use crate::evidence::Evidence;
use crate::failures::{must_fail, passes_failures_on, taken_for_success};
use crate::probe::Machine;
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "What must stay the same from row to row, so that whatever changes is due to the prompt alone?",
    "`prompt_of_tokens(loaded, base, target)?` repeats a sentence until its tokenized length reaches the target; its \
     `tokens` is the length that belongs on the x axis.",
    "`for &target in &config.prompt_lengths { let prompt = prompt_of_tokens(...)?; let runs = repeat(config.repeats, \
     || time_generate(clock, loaded, &prompt.text, config.max_new_tokens, config.use_cache))?; rows.push(LengthRun { \
     prompt_tokens: prompt.tokens, runs }); }`",
];

/// A prompt may be this much longer than its target: the rest of a sentence.
const SENTENCE: usize = 64;

/// An answer that runs prompts of several lengths.
type Answer<'a, Row> = dyn Fn(&dyn Clock, &Loaded, &SweepConfig) -> Result<Vec<Row>> + 'a;

/// Checks `run_for_varied_lengths(clock, loaded, config)`.
pub fn check_run_for_varied_lengths(yours: fn(&dyn Clock, &Loaded, &SweepConfig) -> Result<Vec<LengthRun>>) -> Score {
    // Lengths that are neither sorted nor as many as there are runs or tokens. With the sentence of the exercise's
    // text, two of them come out alike, and two more are one token longer than what one repetition fewer would give.
    // Then a repeated length, a length of two tokens, long ones, many new tokens, and a single run.
    let configs = [
        config(&[47, 8, 90, 88, 17], 6, true, 4),
        config(&[17, 70], 3, false, 5),
        config(&[2, 700, 130, 700, 2], 2, true, 7),
        config(&[33], 60, false, 1),
        config(&[300, 200, 100, 5], 4, true, 2),
    ];
    let run = |config| Trial::run(&yours, config, |row: &LengthRun| (row.prompt_tokens, vec![&row.runs]));
    let trials = configs.into_iter().map(run).collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 6] = [
        ("a row for each target length, in order, each long enough", Trial::long_enough),
        ("lengths are counted in tokens", Trial::in_tokens),
        ("the same number of new tokens in every row", |trial| {
            trial.evidence.same_new_tokens(trial.config.max_new_tokens)
        }),
        ("every row has as many runs as requested, each timed by itself", |trial| {
            trial.evidence.repeated(trial.config.repeats)
        }),
        ("every row has the times of its own prompt", |trial| trial.own_prompt(1)),
        ("runs with or without the cache, as requested", |trial| trial.evidence.cache_as_told(trial.config.use_cache)),
    ];
    let score = Score::new("run_for_varied_lengths", HINTS).each(&trials, &points);
    score.about(&trials, "passes on errors from a run", |trials| {
        passes_errors_on(&yours, &trials[1])?;
        let what = "1000 tokens and 60 new ones do not fit into the model's context of 1024";
        fails(&yours, what, &config(&[17, 1000], 60, true, 2))
    })
}

pub(super) fn config(prompt_lengths: &[usize], max_new_tokens: usize, use_cache: bool, repeats: usize) -> SweepConfig {
    SweepConfig {
        prompt_lengths: prompt_lengths.to_vec(),
        precisions: vec!["float32"],
        device: Device::Cpu,
        max_new_tokens,
        use_cache,
        repeats,
    }
}

/// One call of an answer, and what happened on the machine meanwhile.
pub(super) struct Trial {
    pub(super) config: SweepConfig,
    /// How long each row says its prompt is, in tokens.
    lengths: Vec<usize>,
    pub(super) evidence: Evidence,
}

impl Trial {
    /// `of` gives the length that a row has, and its runs: each kind of them is a row of the evidence.
    pub(super) fn run<Row>(
        yours: &Answer<'_, Row>,
        config: SweepConfig,
        of: fn(&Row) -> (usize, Vec<&Runs>),
    ) -> Result<Self, Complaint> {
        let machine = Machine::new(COSTS);
        let rows = call(&machine, yours, &config)?;
        Complaint::unless(!rows.is_empty(), || "no rows came back")?;
        let (lengths, runs): (Vec<usize>, Vec<Vec<&Runs>>) = rows.iter().map(of).unzip();
        let evidence = evidence_of(&machine, runs.into_iter().flatten());
        Ok(Self { config, lengths, evidence })
    }

    /// # Errors
    /// There are other rows than lengths that were asked for, or one's prompt is too short or far too long.
    pub(super) fn long_enough(&self) -> Verdict {
        let (targets, lengths) = (&self.config.prompt_lengths, &self.lengths);
        let (asked, got) = (targets.len(), lengths.len());
        Complaint::unless(got == asked, || format!("{asked} lengths were asked for, but {got} came back"))?;
        let sorted = |numbers: &[usize]| {
            let mut numbers = numbers.to_vec();
            numbers.sort_unstable();
            numbers
        };
        let fit =
            |lengths: &[usize], targets: &[usize]| lengths.iter().zip(targets).all(|(&len, &to)| is_about(len, to));
        Complaint::unless(fit(lengths, targets) || !fit(&sorted(lengths), &sorted(targets)), || {
            format!("prompts of {targets:?} tokens were asked for, but yours have {lengths:?}: keep their order")
        })?;
        for (&tokens, &target) in lengths.iter().zip(targets) {
            Complaint::unless(tokens >= target, || {
                format!(
                    "the row for {target} tokens has a prompt of {tokens}: repeat until the tokenized length is reached"
                )
            })?;
            Complaint::unless(is_about(tokens, target), || {
                format!(
                    "the row for {target} tokens says `prompt_tokens: {tokens}`, which is far too long: is that, or what \
                     you compared with the target, a number of bytes or characters?"
                )
            })?;
        }
        Ok(())
    }

    /// # Errors
    /// A row's length is that of no prompt that a model read.
    pub(super) fn in_tokens(&self) -> Verdict {
        let sources = self.evidence.sources()?;
        let mut read: Vec<usize> = sources.iter().flatten().map(|source| source.prompt.len()).collect();
        let mut rows = self.lengths.iter().zip(&self.config.prompt_lengths);
        let Some((length, target)) = rows.find(|(length, _)| !read.contains(length)) else { return Ok(()) };
        read.dedup();
        if length == target {
            return wrong!(
                "a row says {length} tokens, which is the target, but the model read prompts of {read:?} tokens: report \
                 the length that the prompt came out with"
            );
        }
        wrong!(
            "a row says {length} tokens, but the model read prompts of {read:?} tokens: is that a number of bytes \
             (`len()` of a text) or of characters?"
        )
    }

    /// # Errors
    /// A row has the time of another row's prompt. Each row has so many `kinds` of runs.
    pub(super) fn own_prompt(&self, kinds: usize) -> Verdict {
        let rows = self.evidence.sources()?.chunks(kinds);
        for ((&length, of_row), &target) in self.lengths.iter().zip(rows).zip(&self.config.prompt_lengths) {
            let read: Vec<usize> = of_row.iter().flatten().map(|source| source.prompt.len()).collect();
            for &tokens in &read {
                // A wrong number on the axis is checked by another point.
                Complaint::unless(tokens == length || is_about(tokens, target), || {
                    format!("the row for {target} tokens has the time of a prompt of {tokens} tokens")
                })?;
                Complaint::unless(tokens == read[0], || {
                    format!("the row for {target} tokens mixes the times of prompts of {} and {tokens} tokens", read[0])
                })?;
            }
        }
        Ok(())
    }
}

/// Whether a prompt of this many tokens may have been made for a target.
fn is_about(tokens: usize, target: usize) -> bool {
    (target..=target + SENTENCE).contains(&tokens)
}

fn call<Row>(machine: &Machine, yours: &Answer<'_, Row>, config: &SweepConfig) -> Result<Vec<Row>, Complaint> {
    let loaded = machine.loaded(|model| model)?;
    ask(|| yours(&machine.clock(), &loaded, config))
}

pub(super) fn passes_errors_on<Row>(yours: &Answer<'_, Row>, trial: &Trial) -> Verdict {
    let answer = |machine: &Machine| call(machine, yours, &trial.config);
    passes_failures_on(COSTS, trial.evidence.some_calls.iter().copied(), answer, |_| {
        taken_for_success("the model failed in one of the runs", true, "rows")
    })?;
    fails(yours, "no runs were asked for, so there is nothing to report", &config(&[17, 70], 3, false, 0))?;
    let too_long = config(&[17, 4000, 70], 3, true, 2);
    fails(yours, "a prompt of 4000 tokens does not fit into the model's context", &too_long)
}

/// # Errors
/// The answer returned rows where it has to notice a `failure`.
fn fails<Row>(yours: &Answer<'_, Row>, failure: &str, config: &SweepConfig) -> Verdict {
    must_fail(call(&Machine::new(COSTS), yours, config), |_| taken_for_success(failure, false, "rows"))
}
