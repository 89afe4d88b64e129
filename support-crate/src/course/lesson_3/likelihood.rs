//! `log_softmax_at`: how likely the model holds a token, as a logarithm.

use std::f64::consts::{LN_2, LN_10};

use super::{compare, is_close, nll};
use crate::course::{Check, Complaint, Score, ask};

const LOGITS: [f32; 4] = [1.0, 3.0, 2.0, -1.5];

const HINTS: [&str; 3] = [
    "The largest number that an `f64` can hold is about e to the 709. What happens to `exp` of a logit of 1000, and \
     which number can you take off all logits without changing their softmax?",
    "Do not take the logarithm of a probability: write it out, ln(e^z / sum of e^z_j) = z - ln(sum of e^z_j), and take \
     the largest logit off every logit first.",
    "`let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);`, then `let sum: f64 = \
     logits.iter().map(|&z| f64::from(z - largest).exp()).sum();`, and the answer is \
     `f64::from(logits[id as usize] - largest) - sum.ln()`.",
];

/// Checks `log_softmax_at(logits, id)`.
pub fn check_log_softmax_at(yours: impl Fn(&[f32], u32) -> f64) -> Score {
    let yours = |logits: &[f32], id: u32| ask(|| Ok(yours(logits, id)));
    Check::new("log_softmax_at", HINTS)
        .point("it is the natural logarithm of the token's probability", is_log_probability(&yours))
        .point("adding a number to all logits changes nothing", is_stable(&yours))
        .point("a very unlikely token has a finite log-probability", is_finite(&yours))
        .score()
}

type Yours<'a> = dyn Fn(&[f32], u32) -> Result<f64, Complaint> + 'a;

fn is_log_probability(yours: &Yours<'_>) -> Result<(), Complaint> {
    for (id, &logit) in (0..).zip(&LOGITS) {
        let expected = -nll(&LOGITS, id);
        let mistakes = [
            (expected.exp(), "this is the probability itself, its logarithm is asked for"),
            (expected / LN_2, "this counts in bits; the loss is in nats, so take the natural logarithm, `ln`"),
            (expected / LN_10, "this is the logarithm to base 10; take the natural one, `ln`"),
            (-expected, "the sign is turned: a probability is at most 1, so its logarithm is at most 0"),
            (f64::from(logit), "this is the logit; subtract the logarithm of the sum over all tokens"),
        ];
        compare(&format!("log_softmax_at({LOGITS:?}, {id})"), yours(&LOGITS, id)?, expected, &mistakes)?;
    }
    Ok(())
}

fn is_stable(yours: &Yours<'_>) -> Result<(), Complaint> {
    let plain = yours(&LOGITS, 2)?;
    for shift in [1000.0, -1000.0] {
        let got = yours(&LOGITS.map(|logit| logit + shift), 2)?;
        if !got.is_finite() {
            let fate = if shift > 0.0 { "too large for an f64, and infinity" } else { "0, and its logarithm" };
            return Err(Complaint::wrong(format!(
                "with {shift} added to all logits it gives {got}: exp of such a logit is {fate} spreads. Softmax sees only \
                 differences, so take the largest logit off all of them before exp"
            )));
        }
        if !is_close(got, plain) {
            return Err(Complaint::wrong(format!(
                "with {shift} added to all logits it gives {got:.4}, without {plain:.4}; softmax only sees differences"
            )));
        }
    }
    Ok(())
}

fn is_finite(yours: &Yours<'_>) -> Result<(), Complaint> {
    let got = yours(&[0.0, -2000.0], 1)?;
    if got == f64::NEG_INFINITY {
        return Err(Complaint::wrong(
            "for the logits [0, -2000], token 1 gives -inf: its probability is too small for a float and became 0 before \
             you took the logarithm. One such token makes the perplexity of a whole corpus infinite; subtract logarithms \
             instead of dividing",
        ));
    }
    compare("log_softmax_at([0.0, -2000.0], 1)", got, -2000.0, &[])
}
