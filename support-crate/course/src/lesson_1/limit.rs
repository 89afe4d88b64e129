//! `part_of_limit`: how much of what memory allows a row reached, round by round.

use quantlab::error::Result;
use quantlab::measure::{Metrics, Runs, Statistics};
use rand::Rng;

use super::PrecisionRun;
use crate::cases::random;
use crate::failures::{must_fail, taken_for_success};
use crate::figure::{Figure, all_right, is_close, mean};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "How many tokens per second could memory deliver the weights for, at the bandwidth of that round?",
    "The limit of a round is `1e9 * gb_per_s / bytes_per_token` tokens per second. Divide what the run of the same round \
     reached (`tokens_per_sec`) by it, and only then take the median.",
    "`let rounds = row.runs.runs.iter().zip(&row.gb_per_s);`, each pair gives `run.tokens_per_sec * row.bytes_per_token as \
     f64 / (1e9 * gb_per_s)`; collect them into a `Vec<f64>` and return `Statistics::of(&parts)`.",
];

type Yours<'a> = dyn Fn(&PrecisionRun) -> Result<Statistics> + 'a;

/// Checks `part_of_limit(row)`.
pub fn check_part_of_limit(yours: fn(&PrecisionRun) -> Result<Statistics>) -> Score {
    let rows = rows();
    let parts = rows
        .as_ref()
        .map_err(Complaint::clone)
        .and_then(|rows| rows.iter().map(|row| Ok((row, ask(|| yours(row))?))).collect::<Result<Vec<_>, Complaint>>());
    Score::new("part_of_limit", HINTS)
        .about(&parts, "the part of the limit that decode reached, paired by round", |parts| {
            all_right(&figures(parts, "median", |part| part.median)?, is_close)
        })
        .about(&parts, "its interval is made of the rounds' parts", |parts| {
            parts.iter().try_for_each(|(row, part)| {
                Complaint::unless(part.n == row.gb_per_s.len(), || {
                    format!("there were {} rounds, but your statistics are made of {}", row.gb_per_s.len(), part.n)
                })
            })?;
            let ends = [figures(parts, "lower end", |part| part.low)?, figures(parts, "upper end", |part| part.high)?];
            ends.iter().try_for_each(|figures| all_right(figures, is_close))
        })
        .about(&parts, "a bandwidth that was not measured is an error", |parts| {
            parts.first().map_or(Ok(()), |(row, _)| passes_errors_on(&yours, row))
        })
}

/// Rows whose bandwidth and throughput drift together, scatter each by itself, or have one slow round; of one round and
/// of many.
fn rows() -> Result<Vec<PrecisionRun>, Complaint> {
    let mut rng = random(11);
    let rounds = [7, 6, 9, 1, 40, 6];
    let row = |(kind, rounds): (usize, usize)| {
        let bytes_per_token = rng.random_range(5_000_000..800_000_000);
        let new_tokens = rng.random_range(1..60);
        let (mut runs, mut gb_per_s) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let memory: f64 = rng.random_range(20.0..40.0);
            let drift = if kind % 3 == 2 && round == 0 { 5.0 } else { 1.0 + 0.1 * round as f64 };
            let reached = if kind % 2 == 0 { memory / drift } else { 30.0 } * rng.random_range(0.6..0.9);
            gb_per_s.push(memory / drift);
            runs.push(Metrics::of(new_tokens, (new_tokens * bytes_per_token) as f64 / (1e9 * reached)));
        }
        Ok(PrecisionRun { label: "float32".to_owned(), bytes_per_token, runs: Runs::of(runs)?, gb_per_s })
    };
    rounds.into_iter().enumerate().map(row).collect()
}

/// The part of each round, if one round's bandwidth were `gb_per_s(round)`.
fn parts(row: &PrecisionRun, gb_per_s: impl Fn(usize) -> f64) -> Vec<f64> {
    let rate =
        |(round, run): (usize, &Metrics)| run.tokens_per_sec * row.bytes_per_token as f64 / 1e9 / gb_per_s(round);
    row.runs.runs.iter().enumerate().map(rate).collect()
}

fn figures(
    answers: &[(&PrecisionRun, Statistics)],
    name: &str,
    figure: fn(&Statistics) -> f64,
) -> Result<Vec<Figure>, Complaint> {
    let one = |(row, got): &(&PrecisionRun, Statistics)| {
        let memory = Statistics::of(&row.gb_per_s)?;
        let right = parts(row, |round| row.gb_per_s[round]);
        let of = |parts: Vec<f64>| Ok::<f64, Complaint>(figure(&Statistics::of(&parts)?));
        let each = |change: fn(f64, f64) -> f64| {
            of(right.iter().zip(&row.runs.runs).map(|(part, run)| change(*part, run.tokens_generated as f64)).collect())
        };
        let rate_times_limit =
            row.runs.runs.iter().zip(&right).map(|(run, part)| run.tokens_per_sec.powi(2) / part).collect();
        let unpaired = "pair each run with the bandwidth of its own round, and take the median of these parts: a ratio of \
                        medians compares different moments";
        Ok(Figure {
            what: format!("the {name} of a row's parts"),
            got: figure(got),
            expected: of(right.clone())?,
            mistakes: vec![
                (of(parts(row, |_| memory.median))?, unpaired),
                (of(parts(row, |_| memory.high))?, unpaired),
                (of(parts(row, |_| mean(row.gb_per_s.iter().copied())))?, unpaired),
                (of(parts(row, |_| row.gb_per_s[0]))?, unpaired),
                (
                    of(parts(row, |_| row.gb_per_s.iter().copied().fold(0.0, f64::max)))?,
                    "that is against the fastest round's bandwidth; pair each run with the bandwidth of its own round",
                ),
                (each(|part, _| 1.0 / part)?, "that is limit over rate; the part is rate over limit"),
                (each(|part, _| 100.0 * part)?, "that is in percent; 1 is all of the limit"),
                (
                    of(rate_times_limit)?,
                    "that is rate times limit: the limit is bandwidth over bytes, and the part is rate over limit",
                ),
                (each(|part, _| 1e9 * part)?, "a GB/s is 10^9 bytes per second"),
                (each(|part, _| 1e3 * part)?, "a GB/s is 10^9 bytes per second, not 10^6"),
                (each(|part, _| part * 1e9 / f64::from(1 << 30))?, "a GB is 10^9 bytes, not 2^30"),
                (each(|part, new| part / new)?, "that is runs per second; the limit is in tokens per second"),
            ],
        })
    };
    answers.iter().map(one).collect()
}

fn passes_errors_on(yours: &Yours<'_>, row: &PrecisionRun) -> Verdict {
    for (what, gb_per_s) in [
        ("no bandwidth was measured", Vec::new()),
        ("the bandwidth of a round is 0, so there is no limit", vec![0.0; row.gb_per_s.len()]),
    ] {
        let row = PrecisionRun { gb_per_s, ..row.clone() };
        must_fail(ask(|| yours(&row)), |_| taken_for_success(what, false, "statistics"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_differ_from_the_answer_in_some_row() {
        let rows = rows().unwrap();
        let answers: Vec<(&PrecisionRun, Statistics)> =
            rows.iter().map(|row| (row, Statistics::of(&parts(row, |round| row.gb_per_s[round])).unwrap())).collect();
        let figures = figures(&answers, "median", |part| part.median).unwrap();
        assert!(all_right(&figures, is_close).is_ok());
        for mistake in 0..figures[0].mistakes.len() {
            assert!(figures.iter().any(|figure| !is_close(figure.mistakes[mistake].0, figure.expected)), "{mistake}");
        }
    }
}
