//! `log_softmax_at`: the logarithm of a token's probability.

use std::f64::consts::{LN_2, LN_10};

use rand::Rng;

use super::{is_close, nll, shown};
use crate::cases::{KINDS, random, row, size};
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, Verdict, ask};

/// The largest logit stands in the middle, at either end, twice, and below zero; and a vocabulary of one token.
const ROWS: [&[f32]; 6] =
    [&[1.0, 3.0, 2.0, -1.5], &[2.5, -1.0, 0.5], &[0.5, -1.0, 2.5], &[2.0, 0.5, 2.0], &[-3.0, -1.0, -2.0, -1.5], &[0.7]];

/// Logits so far apart that most tokens have no probability that a float can hold. The likeliest token stands last,
/// first, and in the middle.
const FAR_APART: [&[f32]; 3] = [&[-2000.0, 0.0], &[0.0, -2000.0], &[-900.0, 1100.0, 100.0]];

const HINTS: [&str; 3] = [
    "The largest number that an `f64` can hold is about e to the power 709. What happens to `exp` of a logit of 1000, and \
     which number can you subtract from all logits without changing their softmax?",
    "Do not take the logarithm of a probability: write it out, ln(e^z / sum of e^z_j) = z - ln(sum of e^z_j), and \
     subtract the largest logit from every logit first.",
    "`let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));`, then `let sum: f64 = \
     logits.iter().map(|&z| (f64::from(z) - largest).exp()).sum();`, and the answer is \
     `f64::from(logits[id as usize]) - largest - sum.ln()`.",
];

/// Checks `log_softmax_at(logits, id)`.
pub fn check_log_softmax_at(yours: fn(&[f32], u32) -> f64) -> Score {
    let yours = |logits: &[f32], id: u32| ask(|| Ok(yours(logits, id)));
    Score::new("log_softmax_at", HINTS)
        .point("it is the natural logarithm of the token's probability", is_log_probability(&yours))
        .point("adding a number to all logits changes nothing", is_stable(&yours))
        .point("a very unlikely token has a finite log-probability", is_finite(&yours))
}

/// The `most` likeliest tokens, the likeliest first.
pub fn likeliest(logits: &[f32], most: usize) -> Vec<u32> {
    by_likelihood(logits).into_iter().take(most).map(|(id, _)| id).collect()
}

type Yours<'a> = dyn Fn(&[f32], u32) -> Result<f64, Complaint> + 'a;

/// The tokens of a row, the likeliest first.
fn by_likelihood(logits: &[f32]) -> Vec<(u32, f32)> {
    let mut tokens: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    tokens.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    tokens
}

/// A few tokens of each row: all of a short one, the ends of a long one, and the likeliest and the unlikeliest.
fn some_tokens(logits: &[f32]) -> Vec<u32> {
    let tokens = by_likelihood(logits);
    let (Some((likeliest, _)), Some((unlikeliest, _)), n) = (tokens.first(), tokens.last(), logits.len()) else {
        return Vec::new();
    };
    if n <= 9 { (0..n as u32).collect() } else { vec![0, n as u32 / 2, n as u32 - 1, *likeliest, *unlikeliest] }
}

/// Rows of up to as many tokens as a vocabulary has, of every kind.
fn any_rows() -> Vec<Vec<f32>> {
    let mut rng = random(31);
    let mut any = |kind: usize, n: usize| {
        let offset = rng.random_range(-40.0..40.0);
        row(&mut rng, kind, n).into_iter().map(|logit| logit + offset).collect()
    };
    let mut sizes = random(32);
    let mut rows: Vec<Vec<f32>> =
        (0..3 * KINDS).map(|kind| any(kind, if kind < KINDS { 20_000 } else { size(&mut sizes, 3000) })).collect();
    // Tokens that would not be missed one by one, only because of their number. Those that count most come last, so
    // that sums in float32 are right, too.
    let mut tail = vec![-16.6; 100_000];
    tail.extend([0.0, -0.5]);
    rows.push(tail);
    rows
}

fn is_log_probability(yours: &Yours<'_>) -> Verdict {
    let rows = ROWS.into_iter().map(<[f32]>::to_vec).chain(any_rows());
    let mut figures = Vec::new();
    for logits in rows {
        for id in some_tokens(&logits) {
            figures.push(figure(&logits, id, yours(&logits, id)?));
        }
    }
    all_right(&figures, is_close)
}

fn figure(logits: &[f32], id: u32, got: f64) -> Figure {
    let (expected, logit) = (-nll(logits, id), logits[id as usize]);
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let log_sum = f64::from(logit - largest) - expected;
    let mut mistakes = vec![
        (expected.exp(), "this is the probability itself; return its logarithm"),
        (expected / LN_2, "this counts in bits; the loss is in nats, so take the natural logarithm, `ln`"),
        (expected / LN_10, "this is the logarithm to base 10; take the natural one, `ln`"),
        (-expected, "the sign is wrong: a probability is at most 1, so its logarithm is at most 0"),
        (expected + log_sum - log_sum / LN_2, "the logarithm of the sum is to base 2; take the natural one, `ln`"),
        (f64::from(logit), "this is the logit; subtract the logarithm of the sum over all tokens"),
        (f64::from(logit - largest), "the logarithm of the sum over all tokens has to be subtracted as well"),
    ];
    // Matches however few terms were left out.
    if logits.len() > 100 && got > expected {
        mistakes.push((got, "the sum over all tokens came out too small: are some of them left out of it?"));
    }
    Figure { what: format!("log_softmax_at({}, {id})", shown(logits)), got, expected, mistakes }
}

fn is_stable(yours: &Yours<'_>) -> Verdict {
    for logits in ROWS {
        for shift in [1000.0, -1000.0] {
            let shifted: Vec<f32> = logits.iter().map(|logit| logit + shift).collect();
            for (id, _) in (0..).zip(logits) {
                let (plain, got) = (yours(logits, id)?, yours(&shifted, id)?);
                if !got.is_finite() && shift > 0.0 {
                    return wrong!(
                        "log_softmax_at({shifted:?}, {id}) is {got}: exp of such a logit is too large for an f64. \
                         Softmax sees only differences, so subtract the largest logit from all of them before exp"
                    );
                }
                // With large logits it was right.
                if !got.is_finite() {
                    return wrong!(
                        "log_softmax_at({shifted:?}, {id}) is {got}: exp of such a logit is 0, which has no logarithm. \
                         All logits are below zero here: a search for the largest one that begins at 0 finds 0; let it \
                         begin at `f32::NEG_INFINITY`"
                    );
                }
                if !is_close(got, plain) {
                    return wrong!(
                        "with {shift} added to all logits, log_softmax_at({logits:?}, {id}) changes from {plain:.4} to \
                         {got:.4}; softmax sees only differences"
                    );
                }
            }
        }
    }
    Ok(())
}

fn is_finite(yours: &Yours<'_>) -> Verdict {
    for logits in FAR_APART {
        for (id, _) in by_likelihood(logits) {
            let (got, expected) = (yours(logits, id)?, -nll(logits, id));
            let why = match got {
                _ if got.is_finite() => {
                    all_right(&[figure(logits, id, got)], is_close)?;
                    continue;
                }
                // Of the likeliest token, no probability can vanish.
                _ if expected > -1.0 || got != f64::NEG_INFINITY => {
                    "exp of a logit became infinite. Subtract the largest of all logits, wherever it stands, before exp"
                }
                _ => {
                    "its probability, too small for a float, became 0 before you took the logarithm (or its inverse became \
                     infinite). One such token makes the perplexity of a whole corpus infinite; subtract logarithms \
                     instead of dividing"
                }
            };
            return wrong!("log_softmax_at({logits:?}, {id}) is {got}: {why}");
        }
    }
    Ok(())
}
