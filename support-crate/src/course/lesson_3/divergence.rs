//! `kl_divergence`: how far one prediction is from another.

use std::f64::consts::LN_2;

use super::{compare, is_close, nll};
use crate::course::{Check, Complaint, Score, ask};

/// Pairs of rows: two predictions of four tokens, one that is sure against one that is not, and a vocabulary of two.
const PAIRS: [(&[f32], &[f32]); 3] = [
    (&[1.0, 3.0, 2.0, -1.5], &[1.5, 2.0, 2.5, -0.5]),
    (&[6.0, 0.0, -1.0], &[0.5, 0.25, 0.0]),
    (&[-2.0, -1.0], &[-1.0, -3.0]),
];

/// Most probabilities are too small for a float. The likeliest token of both stands in different places.
const FAR_APART: [(&[f32], &[f32]); 3] = [
    (&[0.0, -2000.0], &[0.0, -2000.0]),
    (&[-2000.0, 0.0], &[0.0, -2000.0]),
    (&[-1500.0, 900.0, 0.0], &[10.0, 20.0, 3000.0]),
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
pub fn check_kl_divergence(yours: impl Fn(&[f32], &[f32]) -> f64) -> Score {
    let yours = |base: &[f32], other: &[f32]| ask(|| Ok(yours(base, other)));
    Check::new("kl_divergence", HINTS)
        .point("it is the sum of p (ln p - ln q), in nats, with p from the first row", is_divergence(&yours))
        .point("equal predictions are 0 apart", vanishes(&yours))
        .point("adding a number to all logits of a row changes nothing", is_stable(&yours))
        .point("tokens without a probability to speak of give neither infinity nor NaN", is_finite(&yours))
        .score()
}

type Yours<'a> = dyn Fn(&[f32], &[f32]) -> Result<f64, Complaint> + 'a;

/// ln p and ln q of each token.
fn logs(base: &[f32], other: &[f32]) -> Vec<(f64, f64)> {
    (0..).zip(base).map(|(id, _)| (-nll(base, id), -nll(other, id))).collect()
}

fn kl(logs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    logs.into_iter().map(|(ln_p, ln_q)| ln_p.exp() * (ln_p - ln_q)).sum()
}

/// What common mistakes give, and what to say about them.
fn wrong_divergences(base: &[f32], other: &[f32]) -> [(f64, &'static str); 12] {
    let logs = logs(base, other);
    let over = |term: fn(f64, f64) -> f64| logs.iter().map(|&(ln_p, ln_q)| term(ln_p, ln_q)).sum::<f64>();
    let expected = kl(logs.iter().copied());
    let raw: f64 =
        logs.iter().zip(base.iter().zip(other)).map(|((ln_p, _), (z, w))| ln_p.exp() * f64::from(z - w)).sum();
    let reverse = over(|ln_p, ln_q| ln_q.exp() * (ln_q - ln_p));
    [
        (
            reverse,
            "base and other are exchanged: each token counts as much as the base model, the first row, expects it",
        ),
        (-reverse, "each token counts as much as the base model expects it: the weight is p, not q"),
        (-expected, "the sign is wrong: ln p comes first, ln q is subtracted"),
        (f64::midpoint(expected, reverse), "it is not symmetric: only the base model's p are the weights"),
        (expected / LN_2, "this is in bits; count in nats, with the natural logarithm"),
        (expected / base.len() as f64, "this is divided by the number of tokens; the weights p are a mean already"),
        (over(|ln_p, ln_q| -ln_p.exp() * ln_q), "this is the cross-entropy; add the sum of p ln p"),
        (over(|ln_p, _| -ln_p.exp() * ln_p), "this is the entropy of the base model; the other one is missing"),
        (over(|ln_p, ln_q| ln_p - ln_q), "each difference must be weighted with its p"),
        (over(|ln_p, ln_q| ln_p.exp() * (ln_p - ln_q).abs()), "keep the sign of each difference; some are below 0"),
        (
            over(|ln_p, ln_q| (ln_p.exp() - ln_q.exp()).abs()),
            "these are differences of probabilities; take those of their logarithms",
        ),
        (raw, "these are differences of logits; subtract the logarithm of its sum from each row first"),
    ]
}

fn is_divergence(yours: &Yours<'_>) -> Result<(), Complaint> {
    for (base, other) in PAIRS {
        let name = format!("kl_divergence({base:?}, {other:?})");
        compare(&name, yours(base, other)?, kl(logs(base, other)), &wrong_divergences(base, other))?;
    }
    Ok(())
}

fn vanishes(yours: &Yours<'_>) -> Result<(), Complaint> {
    for (base, other) in PAIRS {
        for row in [base, other] {
            compare(&format!("kl_divergence of {row:?} and the same row"), yours(row, row)?, 0.0, &[])?;
        }
    }
    Ok(())
}

fn is_stable(yours: &Yours<'_>) -> Result<(), Complaint> {
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

fn is_finite(yours: &Yours<'_>) -> Result<(), Complaint> {
    for (base, other) in FAR_APART {
        let (got, expected) = (yours(base, other)?, kl(logs(base, other)));
        let name = format!("kl_divergence({base:?}, {other:?})");
        if !got.is_finite() {
            return wrong!(
                "{name} is {got}, expected {expected:.4}: a probability became 0 before its logarithm was taken. Get ln p \
                 and ln q from the logits, without p and q"
            );
        }
        compare(&name, got, expected, &[])?;
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
