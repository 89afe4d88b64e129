//! `pairs_in_order`: whether latency rises with the length of the prompt, over all lengths.

use quantlab::measure::{Metrics, Runs};
use rand::Rng;

use super::LengthRun;
use crate::cases::random;
use crate::figure::{Given, all_counted};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Which two runs may be compared: any run of one length with any of another, or those of the same round?",
    "Three loops: over the rows, over the rows again, and over the rounds. Count a pair of rows once, where the first of the \
     two has the shorter prompt.",
    "`for short in rows { for long in rows.iter().filter(|long| long.prompt_tokens > short.prompt_tokens) { for (a, b) in \
     short.runs.runs.iter().zip(&long.runs.runs) { all += 1; if b.total_latency_s > a.total_latency_s { in_order += 1; } } } \
     }`",
];

/// Checks `pairs_in_order(rows)`.
pub fn check_pairs_in_order(yours: fn(&[LengthRun]) -> (usize, usize)) -> Score {
    let sweeps = sweeps();
    let answers = sweeps.as_ref().map_err(Complaint::clone).and_then(|sweeps| {
        sweeps.iter().map(|rows| Ok((rows, ask(|| Ok(yours(rows)))?))).collect::<Result<Vec<_>, Complaint>>()
    });
    Score::new("pairs_in_order", HINTS)
        .about(&answers, "all pairs of lengths count, once for each round", |answers| {
            compare(answers, "pairs", |count| count.1)
        })
        .about(&answers, "in those in order, the longer prompt took longer in the same round", |answers| {
            compare(answers, "pairs in order", |count| count.0)
        })
}

type Count = (usize, usize);
type Rows = Vec<LengthRun>;

/// # Errors
/// A count is wrong.
fn compare(answers: &[(&Rows, Count)], what: &str, of: fn(Count) -> usize) -> Verdict {
    let figure = |(rows, got): &(&Rows, Count)| {
        let lengths: Vec<usize> = rows.iter().map(|row| row.prompt_tokens).collect();
        let rounds = rows.first().map_or(0, |row| row.runs.runs.len());
        let mut sorted = rows.to_vec();
        sorted.sort_by_key(|row| row.prompt_tokens);
        let neighbours = sorted.windows(2).map(in_order).fold((0, 0), add);
        let ends: Vec<LengthRun> = sorted.first().into_iter().chain(sorted.last()).cloned().collect();
        let (in_all, all) = in_order(rows);
        let mistakes = [
            (neighbours, "those are neighbours only; a test over all lengths compares each with each"),
            (in_order(&ends), "those are the two ends only; a test over all lengths compares each with each"),
            (by_medians(rows), "that compares medians, a pair of lengths at a time; compare the runs of each round"),
            (in_any_rounds(rows), "that compares runs of different rounds too"),
            (
                in_given_order(rows),
                "the rows may come in any order, and two of one length are no pair: compare `prompt_tokens`",
            ),
            ((all - in_all, all), "those are the pairs that are not in order"),
            ((2 * in_all, 2 * all), "each pair of lengths counts once"),
            ((in_all, rows.len().pow(2) * rounds), "a length makes no pair with itself, and each pair counts once"),
            (
                pairs_of(rows, |long, short| long >= short, in_rounds),
                "two rows of one length, or a row and itself, are no pair: is that `>=` between `prompt_tokens`, where \
                 `>` is meant?",
            ),
        ];
        Given {
            what: format!("for prompts of {lengths:?} tokens and {rounds} rounds, the number of {what}"),
            got: of(*got),
            expected: of(in_order(rows)),
            mistakes: mistakes.map(|(count, why)| (of(count), why)).to_vec(),
        }
    };
    all_counted(&answers.iter().map(figure).collect::<Vec<_>>())
}

fn add(a: Count, b: Count) -> Count {
    (a.0 + b.0, a.1 + b.1)
}

/// Of all pairs of lengths within a round: in how many the longer prompt took longer, and how many there are.
pub(super) fn in_order(rows: &[LengthRun]) -> Count {
    pairs_of(rows, |long, short| long > short, in_rounds)
}

/// The sum of what is counted of the longer and the shorter row of each pair whose lengths are told to be one.
fn pairs_of(
    rows: &[LengthRun],
    is_pair: fn(usize, usize) -> bool,
    count: fn(&LengthRun, &LengthRun) -> Count,
) -> Count {
    let pairs = rows.iter().flat_map(|short| rows.iter().map(move |long| (long, short)));
    let pairs = pairs.filter(|(long, short)| is_pair(long.prompt_tokens, short.prompt_tokens));
    pairs.map(|(long, short)| count(long, short)).fold((0, 0), add)
}

fn in_rounds(long: &LengthRun, short: &LengthRun) -> Count {
    let rounds = short.runs.runs.iter().zip(&long.runs.runs);
    (rounds.clone().filter(|(a, b)| b.total_latency_s > a.total_latency_s).count(), rounds.count())
}

fn by_medians(rows: &[LengthRun]) -> Count {
    let longer = |long: &LengthRun, short: &LengthRun| {
        (usize::from(long.runs.latency_s.median > short.runs.latency_s.median), 1)
    };
    pairs_of(rows, |long, short| long > short, longer)
}

fn in_any_rounds(rows: &[LengthRun]) -> Count {
    let longer = |long: &LengthRun, short: &LengthRun| {
        let pairs = short.runs.runs.iter().flat_map(|a| long.runs.runs.iter().map(move |b| (a, b)));
        (pairs.clone().filter(|(a, b)| b.total_latency_s > a.total_latency_s).count(), pairs.count())
    };
    pairs_of(rows, |long, short| long > short, longer)
}

fn in_given_order(rows: &[LengthRun]) -> Count {
    let numbered: Vec<LengthRun> =
        rows.iter().enumerate().map(|(place, row)| LengthRun { prompt_tokens: place, ..row.clone() }).collect();
    in_order(&numbered)
}

/// Sweeps in which latency rises, falls, scatters, stays the same, and rises between the ends only; sorted or not, with
/// lengths that come twice, of one row and of one round.
fn sweeps() -> Result<Vec<Rows>, Complaint> {
    let mut rng = random(5);
    let mut sweep = |lengths: &[usize], rounds: usize, trend: f64, noise: f64| {
        let mut row = |&prompt_tokens: &usize| {
            let mut seconds = || 1.0 + trend * prompt_tokens as f64 + noise * rng.random_range(0.0..1.0);
            let runs = (0..rounds).map(|_| Metrics::of(8, seconds())).collect();
            Ok(LengthRun { prompt_tokens, runs: Runs::of(runs)? })
        };
        lengths.iter().map(&mut row).collect::<Result<Rows, Complaint>>()
    };
    Ok(vec![
        sweep(&[16, 64, 160, 320, 448], 6, 2e-3, 1.0)?,
        sweep(&[40, 8, 90, 8], 5, 0.01, 1.0)?,
        sweep(&[5, 9, 30], 7, -0.01, 0.5)?,
        sweep(&[16, 64, 128, 200], 3, 0.0, 0.0)?,
        sweep(&[300, 200, 100], 1, 0.001, 0.2)?,
        sweep(&[70], 6, 0.0, 1.0)?,
        sweep(&[1, 2, 3, 4, 5, 6, 7], 9, 0.1, 1.0)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_as_by_hand() {
        let row = |prompt_tokens, seconds: [f64; 2]| LengthRun {
            prompt_tokens,
            runs: Runs::of(seconds.map(|seconds| Metrics::of(8, seconds)).to_vec()).unwrap(),
        };
        assert_eq!(in_order(&[row(64, [2.0, 0.9]), row(16, [1.0, 1.0]), row(128, [3.0, 3.0])]), (5, 6));
        assert_eq!(in_order(&[row(16, [1.0, 1.0]), row(16, [2.0, 2.0])]), (0, 0));
    }
}
