//! `kl_divergence`: how far one prediction is from another.

use std::f64::consts::LN_2;

use rand::Rng;

use super::{is_close, nll, shown};
use crate::cases::{KINDS, random, row, size};
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, Verdict, ask};

/// Pairs of rows: two predictions of four tokens, one that is sure against one that is not, and a vocabulary of two.
const PAIRS: [(&[f32], &[f32]); 3] = [
    (&[1.0, 3.0, 2.0, -1.5], &[1.5, 2.0, 2.5, -0.5]),
    (&[6.0, 0.0, -1.0], &[0.5, 0.25, 0.0]),
    (&[-2.0, -1.0], &[-1.0, -3.0]),
];

/// Most probabilities are too small for a float. The likeliest token of both stands in different places.
const FAR_APART: [(&[f32], &[f32]); 4] = [
    (&[0.0, -2000.0], &[0.0, -2000.0]),
    (&[-2000.0, 0.0], &[0.0, -2000.0]),
    (&[-1500.0, 900.0, 0.0], &[10.0, 20.0, 3000.0]),
    // Small, but not too small to count.
    (&[-20.0, 0.0, -17.0], &[-1e7, 0.0, -3e6]),
];

const HINTS: [&str; 3] = [
    "Which of the two models decides how much each token counts? And what is p ln p where p is 0?",
    "Add up `p * (ln p - ln q)` over all tokens, with `p = ln_p.exp()`. Take ln p and ln q from the logits, as in \
     `log_softmax_at`, and not as logarithms of probabilities: those can be 0.",
    "`(0..base.len() as u32).map(|id| { let (ln_p, ln_q) = (log_softmax_at(base, id), log_softmax_at(other, id)); \
     ln_p.exp() * (ln_p - ln_q) }).sum()` is right. It is slow for a large vocabulary: `log_softmax_at(base, 0) - \
     f64::from(base[0])` is what turns any of the logits into ln p.",
];

/// Checks `kl_divergence(base, other)`.
pub fn check_kl_divergence(yours: fn(&[f32], &[f32]) -> f64) -> Score {
    let yours = |base: &[f32], other: &[f32]| ask(|| Ok(yours(base, other)));
    Score::new("kl_divergence", HINTS)
        .point(
            "it is the sum of p (ln p - ln q), in nats, with p from the first row",
            is_divergence(&yours).and_then(|()| is_small(&yours)),
        )
        .point("equal predictions are 0 apart", vanishes(&yours))
        .point("adding a number to all logits of a row changes nothing", is_stable(&yours))
        .point("tokens without a probability to speak of give neither infinity nor NaN", is_finite(&yours))
}

type Yours<'a> = dyn Fn(&[f32], &[f32]) -> Result<f64, Complaint> + 'a;

/// Pairs of rows, every kind with every other, and a few pairs with thousands of tokens.
fn any_pairs() -> Vec<(Vec<f32>, Vec<f32>)> {
    let mut rng = random(33);
    let mut pair = |(base, other), n| (row(&mut rng, base, n), row(&mut rng, other, n));
    let mut sizes = random(34);
    let kinds = (0..KINDS).flat_map(|base| (0..KINDS).map(move |other| (base, other)));
    let small = kinds.map(|kinds| (kinds, 1 + size(&mut sizes, 200)));
    let large = [(0, 2), (1, 0), (2, 1), (2, 4), (4, 5)].map(|kinds| (kinds, 1500));
    small.chain(large).map(|(kinds, n)| pair(kinds, n)).collect()
}

/// Predictions that hardly differ, like those of a model and of the same model in another format. Their logits are
/// multiples of 1/1024, so that their differences are exact in float32 too.
fn close_pairs() -> Vec<(Vec<f32>, Vec<f32>)> {
    let mut rng = random(36);
    let mut pair = |n: usize, steps: i32| {
        let base: Vec<i32> = (0..n).map(|_| rng.random_range(-6000..6000)).collect();
        let other: Vec<i32> = base.iter().map(|logit| logit + rng.random_range(-steps..=steps)).collect();
        let logits = |steps: &[i32]| steps.iter().map(|&steps| steps as f32 / 1024.0).collect();
        (logits(&base), logits(&other))
    };
    // So little that some would take it for rounding, and enough that sums in float32 do not drown it.
    let little = |(base, other): &(Vec<f32>, Vec<f32>)| (5e-7..9.5e-7).contains(&kl(logs(base, other)));
    std::iter::repeat_with(|| pair(8, 2)).filter(little).take(5).collect()
}

/// However little two predictions differ, the divergence is above 0 and says how much.
fn is_small(yours: &Yours<'_>) -> Verdict {
    for (base, other) in close_pairs() {
        let (got, expected) = (yours(&base, &other)?, kl(logs(&base, &other)));
        let why = match got {
            // Float32 rounds off some of it, and that is all right.
            _ if (got - expected).abs() <= 0.4 * expected => continue,
            0.0 => "only equal predictions are 0 apart",
            _ if got < 0.0 => "it is never negative",
            _ => "small differences count too",
        };
        return wrong!(
            "two rows of {} logits that differ by {:.4} at most are {got:.3e} apart, expected {expected:.3e}: {why}",
            base.len(),
            base.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        );
    }
    Ok(())
}

/// ln p and ln q of each token.
pub(super) fn logs(base: &[f32], other: &[f32]) -> Vec<(f64, f64)> {
    let shift = |row: &[f32]| row.first().map_or(0.0, |&first| nll(row, 0) + f64::from(first));
    let (of_base, of_other) = (shift(base), shift(other));
    base.iter().zip(other).map(|(&z, &w)| (f64::from(z) - of_base, f64::from(w) - of_other)).collect()
}

pub(super) fn kl(logs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    logs.into_iter().map(|(ln_p, ln_q)| ln_p.exp() * (ln_p - ln_q)).sum()
}

/// What common mistakes give, and what to say about them.
fn wrong_divergences(base: &[f32], other: &[f32]) -> Vec<(f64, &'static str)> {
    let logs = logs(base, other);
    let over = |term: fn(f64, f64) -> f64| logs.iter().map(|&(ln_p, ln_q)| term(ln_p, ln_q)).sum::<f64>();
    let expected = kl(logs.iter().copied());
    let raw: f64 =
        logs.iter().zip(base.iter().zip(other)).map(|((ln_p, _), (z, w))| ln_p.exp() * f64::from(z - w)).sum();
    let reverse = over(|ln_p, ln_q| ln_q.exp() * (ln_q - ln_p));
    vec![
        (reverse, "base and other are swapped: each token counts as much as the base model, the first row, expects it"),
        (-reverse, "each token counts as much as the base model expects it: the weight is p, not q"),
        (-expected, "the sign is wrong: ln p comes first, ln q is subtracted"),
        (f64::midpoint(expected, reverse), "it is not symmetric: only the base model's p are the weights"),
        (expected / LN_2, "this is in bits; count in nats, with the natural logarithm"),
        (expected / base.len() as f64, "this is divided by the number of tokens; the weights p already make it a mean"),
        (over(|ln_p, ln_q| -ln_p.exp() * ln_q), "this is the cross-entropy; add the sum of p ln p"),
        (over(|ln_p, _| -ln_p.exp() * ln_p), "this is the entropy of the base model; the other one is missing"),
        (over(|ln_p, ln_q| ln_p - ln_q), "each difference must be weighted by its p"),
        (over(|ln_p, ln_q| ln_p.exp() * (ln_p - ln_q).abs()), "keep the sign of each difference; some are below 0"),
        (
            over(|ln_p, ln_q| (ln_p.exp() - ln_q.exp()).abs()),
            "these are differences of probabilities; take those of their logarithms",
        ),
        (raw, "these are differences of logits; subtract the logarithm of its sum from each row first"),
    ]
}

fn figure(base: &[f32], other: &[f32], got: f64, mistakes: Vec<(f64, &'static str)>) -> Figure {
    let what = format!("kl_divergence({}, {})", shown(base), shown(other));
    Figure { what, got, expected: kl(logs(base, other)), mistakes }
}

fn is_divergence(yours: &Yours<'_>) -> Verdict {
    let pairs = PAIRS.into_iter().map(|(base, other)| (base.to_vec(), other.to_vec())).chain(any_pairs());
    let figures = pairs.map(|(base, other)| {
        let got = yours(&base, &other)?;
        let mut mistakes = wrong_divergences(&base, &other);
        // Matches however few terms were left out.
        if base.len() > 100 && got.is_finite() {
            mistakes.push((got, "are all tokens in it, and in the sums over the vocabulary?"));
        }
        Ok(figure(&base, &other, got, mistakes))
    });
    all_right(&figures.collect::<Result<Vec<_>, Complaint>>()?, is_close)
}

fn vanishes(yours: &Yours<'_>) -> Verdict {
    let rows = PAIRS.into_iter().flat_map(|(base, other)| [base.to_vec(), other.to_vec()]);
    let any = any_pairs().into_iter().step_by(5).map(|(base, _)| base);
    let figures = rows.chain(any).map(|row| Ok(figure(&row, &row, yours(&row, &row)?, Vec::new())));
    all_right(&figures.collect::<Result<Vec<_>, Complaint>>()?, is_close)
}

fn is_stable(yours: &Yours<'_>) -> Verdict {
    for (base, other) in PAIRS {
        let plain = yours(base, other)?;
        for (base_shift, other_shift) in [(1000.0, 0.0), (0.0, -1000.0), (-1000.0, 1000.0)] {
            let shifted = |logits: &[f32], by: f32| logits.iter().map(|logit| logit + by).collect::<Vec<_>>();
            let got = yours(&shifted(base, base_shift), &shifted(other, other_shift))?;
            Complaint::unless(is_close(got, plain), || {
                format!(
                    "with {base_shift} added to all logits of {base:?} and {other_shift} to those of {other:?}, it changes \
                     from {plain:.4} to {got:.4}; softmax sees only differences within a row"
                )
            })?;
        }
    }
    Ok(())
}

fn is_finite(yours: &Yours<'_>) -> Verdict {
    for (base, other) in FAR_APART {
        let (got, expected) = (yours(base, other)?, kl(logs(base, other)));
        if !got.is_finite() {
            return wrong!(
                "kl_divergence({base:?}, {other:?}) is {got}, expected {expected:.4}: a probability became 0 before its logarithm was taken. Get ln p \
                 and ln q from the logits, without p and q"
            );
        }
        all_right(&[figure(base, other, got, wrong_divergences(base, other))], is_close)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_mistakes_give_the_same_divergence() {
        let (base, other) = PAIRS[0];
        let mut values: Vec<f64> = wrong_divergences(base, other).iter().map(|(value, _)| *value).collect();
        values.push(kl(logs(base, other)));
        values.sort_by(f64::total_cmp);
        assert!(values.windows(2).all(|pair| !is_close(pair[0], pair[1])), "{values:?}");
    }

    /// p = (1/2, 1/2) and q = (3/4, 1/4): ln 2 - ln 3 / 2.
    #[test]
    fn the_reference_is_the_formula() {
        let expected = LN_2 - 3.0_f64.ln() / 2.0;
        assert!(is_close(kl(logs(&[5.0, 5.0], &[3.0_f32.ln(), 0.0])), expected));
    }
}
