//! `summarise_batches`: turns the times of batches into throughput, waiting and cost.

use rand::Rng;

use quantlab::error::Result;
use quantlab::measure::{Metrics, Statistics};

use super::BatchRun;
use super::expected::{rates_fit, same};
use crate::cases::{random, size};
use crate::failures::must_fail;
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Five prompts, two at a time: how many batches is that, how long does each prompt wait for its answer, and what \
     does it cost?",
    "A run's time and tokens are sums over its batches, its rates follow from the sums. A prompt waits as long as its \
     batch takes; it costs its share of the run.",
    "For each run: `let total_latency_s: f64 = batches.iter().map(|batch| batch.total_latency_s).sum();`, the same for \
     `tokens_generated`, then a `Metrics` of them; `waits.extend(...)` the batches' times, \
     `shares.push(total_latency_s / prompts as f64)`. After the loop `Runs::of(totals)?`, `Statistics::of(&waits)?` \
     and `Statistics::of(&shares)?`.",
];

type Answer<'a> = dyn Fn(usize, usize, &[Vec<Metrics>]) -> Result<BatchRun> + 'a;

/// What an answer is called with.
struct Case {
    prompts: usize,
    batch_size: usize,
    /// Runs of batches: new tokens and seconds of each.
    runs: Vec<Vec<Metrics>>,
}

/// Numbers of which no mean equals a median, no total equals another, and no run has as many batches as there are runs.
fn cases() -> Vec<Case> {
    let runs = |runs: &[&[(usize, f64)]]| {
        let run = |run: &&[(usize, f64)]| run.iter().map(|&(tokens, seconds)| Metrics::of(tokens, seconds)).collect();
        runs.iter().map(run).collect()
    };
    let mut cases = vec![
        // Seven prompts of 6 new tokens, 3 at a time, four runs.
        Case {
            prompts: 7,
            batch_size: 3,
            runs: runs(&[
                &[(18, 1.9), (18, 2.3), (6, 0.71)],
                &[(18, 2.9), (18, 1.7), (6, 0.83)],
                &[(18, 2.2), (18, 2.05), (6, 1.31)],
                &[(18, 1.63), (18, 2.57), (6, 0.67)],
            ]),
        },
        // One at a time.
        Case {
            prompts: 3,
            batch_size: 1,
            runs: runs(&[&[(9, 1.3), (9, 1.1), (9, 2.4)], &[(9, 1.7), (9, 1.25), (9, 1.45)]]),
        },
        // A batch with room for more prompts than there are.
        Case { prompts: 5, batch_size: 8, runs: runs(&[&[(20, 3.1)], &[(20, 2.7)], &[(20, 3.9)]]) },
    ];
    let sizes = [(1, 1, 1), (6, 2, 1), (9, 4, 12), (16, 16, 7), (40, 3, 5), (100, 1, 2), (2, 64, 30), (24, 8, 9)];
    cases.extend(sizes.into_iter().enumerate().map(any_case));
    cases
}

/// Prompts, batch size and runs as told; times of any magnitude, some of them equal, some far longer than the others.
fn any_case((number, (prompts, batch_size, runs)): (usize, (usize, usize, usize))) -> Case {
    let mut rng = random(51 + number as u64);
    let (magnitude, new_tokens) = (10_f64.powi(rng.random_range(-4..4)), size(&mut rng, 300));
    let mut batch = |prompts: usize| {
        let seconds = match rng.random_range(0..6) {
            0 => 1.0,
            1 => rng.random_range(3.0..20.0),
            _ => rng.random_range(0.8..1.3),
        };
        Metrics::of(prompts * new_tokens, magnitude * seconds)
    };
    let starts = || (0..prompts).step_by(batch_size);
    let mut run = || starts().map(|start| batch(batch_size.min(prompts - start))).collect();
    Case { prompts, batch_size, runs: (0..runs).map(|_| run()).collect() }
}

/// Checks `summarise_batches(batch_size, prompts, runs)`.
pub fn check_summarise_batches(yours: fn(usize, usize, &[Vec<Metrics>]) -> Result<BatchRun>) -> Score {
    let trials: Result<Vec<Trial>, Complaint> = cases().into_iter().map(|case| Trial::run(&yours, case)).collect();
    let points: [Point<Trial>; 5] = [
        ("a run's time is the sum of its batches' times", Trial::sums_times),
        ("a run's new tokens are those of all its batches", Trial::sums_tokens),
        ("throughput is all new tokens divided by all seconds", |trial| {
            trial.row.runs.runs.iter().try_for_each(rates_fit)
        }),
        ("batch_latency_s is what individual batches took, over all runs", Trial::waits),
        ("time_per_sample_s is a run's time shared among all prompts", Trial::shares),
    ];
    Score::new("summarise_batches", HINTS)
        .each(&trials, &points)
        .point("no runs and no prompts are errors", nothing_measured(&yours))
}

struct Trial {
    case: Case,
    row: BatchRun,
}

impl Trial {
    fn run(yours: &Answer<'_>, case: Case) -> Result<Self, Complaint> {
        let row = ask(|| yours(case.batch_size, case.prompts, &case.runs))?;
        let (asked, got) = (case.batch_size, row.batch_size);
        Complaint::unless(asked == got, || format!("the batch size was {asked}, but your row says {got}"))?;
        let (asked, got) = (case.runs.len(), row.runs.runs.len());
        Complaint::unless(asked == got, || format!("{asked} runs were given, but your row has {got}"))?;
        Ok(Self { case, row })
    }

    fn totals(&self) -> Vec<f64> {
        self.case.runs.iter().map(|run| run.iter().map(|batch| batch.total_latency_s).sum()).collect()
    }

    fn sums_times(&self) -> Verdict {
        self.row.runs.runs.iter().zip(self.totals()).zip(&self.case.runs).try_for_each(|((run, total), batches)| {
            let got = run.total_latency_s;
            Complaint::unless(same(got, total), || {
                let longest = batches.iter().map(|batch| batch.total_latency_s).fold(0.0, f64::max);
                let why = if same(got * self.case.batch_size as f64, total) {
                    ": that is divided by the batch size"
                } else if same(got * batches.len() as f64, total) {
                    ": that is the mean of the batches, but they ran one after the other"
                } else if same(got, longest) {
                    ": that is the longest batch alone, but they ran one after the other"
                } else {
                    ""
                };
                format!("the batches of a run took {total:.3} s together, but yours says {got:.3} s{why}")
            })
        })
    }

    fn sums_tokens(&self) -> Verdict {
        self.row.runs.runs.iter().zip(&self.case.runs).try_for_each(|(run, batches)| {
            let got = run.tokens_generated;
            let expected: usize = batches.iter().map(|batch| batch.tokens_generated).sum();
            Complaint::unless(got == expected, || {
                let why = if got * self.case.prompts == expected {
                    ": that is what one prompt got"
                } else if batches.iter().any(|batch| batch.tokens_generated == got) {
                    ": that is one batch's"
                } else {
                    ""
                };
                format!("the batches of a run made {expected} new tokens, but yours says {got}{why}")
            })
        })
    }

    fn waits(&self) -> Verdict {
        let times =
            |runs: &[Vec<Metrics>]| runs.iter().flatten().map(|batch| batch.total_latency_s).collect::<Vec<_>>();
        let (runs, by) = (&self.case.runs, self.case.batch_size as f64);
        let all = times(runs);
        let means = self.totals().iter().zip(runs).map(|(total, run)| total / run.len() as f64).collect();
        let guesses: [(Vec<f64>, &str); 5] = [
            (
                all.iter().map(|time| time / by).collect(),
                ": nobody gets an answer after a share of a batch's time; each prompt waits for its whole batch",
            ),
            (self.totals(), ": that is the time of whole runs; a prompt waits only for its own batch"),
            (times(&runs[runs.len() - 1..]), ": that is the last run's batches alone"),
            (times(&runs[..1]), ": that is the first run's batches alone"),
            (means, ": that is a mean for each run; count every batch by itself"),
        ];
        are(&self.row.batch_latency_s, &all, &guesses)
    }

    fn shares(&self) -> Verdict {
        let by = |n: usize| self.totals().iter().map(|total| total / n as f64).collect::<Vec<_>>();
        let guesses = [
            (by(self.case.batch_size), ": a run answers all prompts, not one batch of them"),
            (by(1), ": that is the whole run's time"),
            (by(self.case.runs[0].len()), ": that is divided by the number of batches"),
        ];
        are(&self.row.time_per_sample_s, &by(self.case.prompts), &guesses)
    }
}

/// Field by field; `guesses` are what the statistics may be of instead.
fn are(got: &Statistics, values: &[f64], guesses: &[(Vec<f64>, &str)]) -> Verdict {
    let fields = |of: &Statistics| [of.median, of.mean, of.sd, of.low, of.high];
    let is = |of: &Statistics| got.n == of.n && fields(got).iter().zip(fields(of)).all(|(a, b)| same(*a, b));
    let of = Statistics::of(values)?;
    if is(&of) {
        return Ok(());
    }
    let found = guesses.iter().find(|(guess, _)| Statistics::of(guess).is_ok_and(|of| is(&of)));
    let why = found.map_or("", |(_, why)| why);
    wrong!("the median of {} times is {:.3} s; yours is {:.3} s, of {}{why}", of.n, of.median, got.median, got.n)
}

fn nothing_measured(yours: &Answer<'_>) -> Verdict {
    let some = vec![vec![Metrics::of(4, 1.5)], vec![Metrics::of(4, 1.25)]];
    let nothing = [("no runs", 4, vec![]), ("no prompts", 0, some), ("neither prompts nor runs", 0, vec![])];
    for (what, prompts, runs) in nothing {
        must_fail(ask(|| yours(2, prompts, &runs)), |row| {
            let share = row.time_per_sample_s.median;
            format!("{what} gave a time per sample of {share}: there is nothing to divide, so return an `Err`")
        })?;
    }
    Ok(())
}
