//! `run_with_and_without_cache`: the same work with and without the KV cache; and `tokens_computed`, what counting says.

use quantlab::error::Result;
use quantlab::measure::Clock;
use quantlab::model::Loaded;

use super::evidence::in_turn;
use super::lengths::{Trial, config, passes_errors_on};
use super::{CacheRun, SweepConfig};
use crate::figure::{Given, all_counted};
use crate::tables::tokens_computed;
use crate::{Complaint, Point, Score, Verdict, ask};

const COUNT_HINTS: [&str; 3] = [
    "The first new token comes out of the pass over the prompt. How many passes are left, and what does each of them compute?",
    "With the cache, each of the other m - 1 passes computes one token. Without it, the passes compute n, n + 1, ..., \
     n + m - 1 tokens.",
    "`(n + m - 1, m * n + m * (m - 1) / 2)`",
];

/// Checks `tokens_computed(n, m)`.
pub fn check_tokens_computed(yours: fn(usize, usize) -> (usize, usize)) -> Score {
    const CASES: [(usize, usize); 7] = [(5, 3), (1, 1), (448, 24), (7, 1), (1, 60), (16, 2), (100, 100)];
    let counts: Result<Vec<_>, Complaint> =
        CASES.into_iter().map(|(n, m)| Ok((n, m, ask(|| Ok(yours(n, m)))?))).collect();
    let figure =
        |n: usize, m: usize, how: &str, got: usize, expected: usize, mistakes: [(usize, &'static str); 4]| Given {
            what: format!("the number of tokens computed {how} the cache for n = {n} and m = {m}"),
            got,
            expected,
            mistakes: mistakes.to_vec(),
        };
    Score::new("tokens_computed", COUNT_HINTS)
        .about(&counts, "with the cache, each token is computed once", |counts| {
            let figures = counts.iter().map(|&(n, m, (with, _))| {
                let mistakes = [
                    (n + m, "the last new token comes out and is not read again"),
                    (m, "the prompt is computed too"),
                    (n * m, "with the cache, the prompt is computed once only"),
                    (tokens_computed(n, m).1, "that is without the cache; the pair is (with, without)"),
                ];
                figure(n, m, "with", with, tokens_computed(n, m).0, mistakes)
            });
            all_counted(&figures.collect::<Vec<_>>())
        })
        .about(&counts, "without it, every pass computes the whole sequence again", |counts| {
            let figures = counts.iter().map(|&(n, m, (_, without))| {
                let mistakes = [
                    (m * n, "the sequence grows by a token with every pass"),
                    (m * n + m * (m + 1) / 2, "the first pass computes n tokens, not n + 1"),
                    (m * (n + m), "the sequence grows from pass to pass, and has not its full length from the start"),
                    (m * (n + m - 1), "the passes add 0, 1, ... m - 1 tokens, on average half of m - 1"),
                ];
                figure(n, m, "without", without, tokens_computed(n, m).1, mistakes)
            });
            all_counted(&figures.collect::<Vec<_>>())
        })
}

const HINTS: [&str; 3] = [
    "What is the only difference between the two runs that are to be compared, and what could come between them if all runs \
     with the cache were made first?",
    "For each length, build one prompt with `prompt_of_tokens` and keep two lists of runs; a loop over the rounds times one \
     run with `use_cache: true` and one with `false`.",
    "`for _ in 0..config.repeats { with_cache.push(time_generate(clock, loaded, &prompt.text, config.max_new_tokens, \
     true)?); without_cache.push(time_generate(.., false)?); }`, then `rows.push(CacheRun { prompt_tokens: prompt.tokens, \
     with_cache: Runs::of(with_cache)?, without_cache: Runs::of(without_cache)? });`",
];

/// Checks `run_with_and_without_cache(clock, loaded, config)`.
pub fn check_run_with_and_without_cache(
    yours: fn(&dyn Clock, &Loaded, &SweepConfig) -> Result<Vec<CacheRun>>,
) -> Score {
    // Not sorted, a repeated length, one of two tokens, a single run; and `use_cache`, which says nothing here, both ways.
    let configs = [
        config(&[47, 8, 90], 5, true, 3),
        config(&[2, 130, 2], 2, false, 6),
        config(&[33], 9, true, 1),
        config(&[200, 100], 3, false, 2),
    ];
    // Two rows of the evidence for each of the answer's: with and without the cache.
    let run = |config| {
        Trial::run(&yours, config, |row: &CacheRun| (row.prompt_tokens, vec![&row.with_cache, &row.without_cache]))
    };
    let trials = configs.into_iter().map(run).collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 7] = [
        ("a row for each target length, in order, each long enough", Trial::long_enough),
        ("lengths are counted in tokens", Trial::in_tokens),
        ("the same number of new tokens in every run", |trial| {
            trial.evidence.same_new_tokens(trial.config.max_new_tokens)
        }),
        ("every row has as many runs of each kind as requested, each timed by itself", |trial| {
            trial.evidence.repeated(trial.config.repeats)
        }),
        ("every row has the times of its own prompt", |trial| trial.own_prompt(2)),
        ("runs with the cache in `with_cache`, those without in `without_cache`", own_setting),
        ("with and without take turns", |trial| trial.evidence.sources()?.chunks(2).try_for_each(in_turn)),
    ];
    let score = Score::new("run_with_and_without_cache", HINTS).each(&trials, &points);
    score.about(&trials, "passes on errors from a run", |trials| passes_errors_on(&yours, &trials[0]))
}

fn own_setting(trial: &Trial) -> Verdict {
    // A single new token takes no step that could use the cache.
    let settings = [("with_cache", true), ("without_cache", false)].into_iter().cycle();
    trial.evidence.sources()?.iter().zip(settings).try_for_each(|(of_row, (name, cached))| {
        Complaint::unless(of_row.iter().all(|source| source.use_cache == cached), || {
            let how = if cached { "without" } else { "with" };
            format!("`{name}` has a run that was made {how} the cache")
        })
    })
}
