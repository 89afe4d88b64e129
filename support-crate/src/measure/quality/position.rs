//! What two models predict at one position of a text.

use crate::error::{Error, Result};
use crate::measure::scoring::each_target;
use crate::measure::windows::Window;
use crate::model::Logits;

/// The cost of the two exponentials that a logit takes in double precision, in multiplications of float32.
const WORK: usize = 64;

/// What is kept of two models' logits for one token.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Position {
    /// `-ln p` of the token that follows in the text, p being the base model's probability; in nats.
    pub base_nll: f64,
    /// The same for the other model.
    pub nll: f64,
    /// `KL(base || other) = sum_i p_i (ln p_i - ln q_i)` over the vocabulary, in nats.
    pub kl: f64,
    /// Whether both have the same most likely token.
    pub same_top: bool,
}

impl Position {
    /// The other model's probability of the token that follows, minus the base model's.
    pub fn probability_change(&self) -> f64 {
        (-self.nll).exp() - (-self.base_nll).exp()
    }
}

/// All scored positions of each window. `base` and `other` (B, T, V) have a row for each window, padded on the right.
///
/// # Errors
/// Logits that are NaN; a probability of 0 for the token that follows, or, in the other model, for any token that the
/// base model considers possible. The messages name the model, by `names`.
pub(super) fn compare_batch(
    base: &Logits,
    other: &Logits,
    windows: &[&Window<'_>],
    names: &[String; 2],
) -> Result<Vec<Vec<Position>>> {
    let compare = |row, position, token| compare(base.row(row, position), other.row(row, position), token);
    let compared = each_target(windows, WORK * base.vocab_size(), &compare);
    compared.iter().flatten().try_for_each(|position| check(position, names))?;
    Ok(compared)
}

pub(super) fn compare(base: &[f32], other: &[f32], token: u32) -> Position {
    let top = (top(base), top(other));
    let (base_largest, other_largest) = (f64::from(base[top.0]), f64::from(other[top.1]));
    // sum_i p_i (b_i - q_i), not divided by the sum of p yet. 0 ln 0 is 0.
    let mut differences = 0.0;
    let base_sum = sum_of_exp(base, base_largest, |i, weight| {
        if weight > 0.0 {
            differences += weight * (f64::from(base[i]) - f64::from(other[i]));
        }
    });
    let other_sum = sum_of_exp(other, other_largest, |_, _| ());
    let (base_log_sum, other_log_sum) = (base_sum.ln() + base_largest, other_sum.ln() + other_largest);
    Position {
        base_nll: base_log_sum - f64::from(base[token as usize]),
        nll: other_log_sum - f64::from(other[token as usize]),
        // Only rounding can make this negative.
        kl: (differences / base_sum + (other_log_sum - base_log_sum)).max(0.0),
        same_top: top.0 == top.1,
    }
}

/// `sum_i exp(logits[i] - largest)`; `each` is called with each term.
///
/// In double precision: a KL divergence is a small difference of large numbers. That of a model in bfloat16, some 1e-5
/// nats, is not far from the error that float32's rounding makes in exponentials and their logarithms.
fn sum_of_exp(logits: &[f32], largest: f64, mut each: impl FnMut(usize, f64)) -> f64 {
    let mut sum = 0.0;
    for (i, &logit) in logits.iter().enumerate() {
        let weight = (f64::from(logit) - largest).exp();
        each(i, weight);
        sum += weight;
    }
    sum
}

/// The first of the largest logits; where one is NaN, any.
fn top(logits: &[f32]) -> usize {
    let larger = |best: usize, i: usize| if logits[i] > logits[best] { i } else { best };
    (1..logits.len()).fold(0, larger)
}

pub(super) fn check(position: &Position, [base, other]: &[String; 2]) -> Result<()> {
    for (nll, name) in [(position.base_nll, base), (position.nll, other)] {
        if nll == f64::INFINITY {
            return Err(Error::input(format!("{name} gives a token of the texts a probability of 0"))
                .hint("its perplexity is infinite; compare models whose logits are finite"));
        }
        if !nll.is_finite() {
            return Err(Error::system(format!("the loss of {name} is {nll}"))
                .hint("its weights may be damaged, or overflow in this precision"));
        }
    }
    if !position.kl.is_finite() {
        return Err(Error::input(format!("{other} gives a token a probability of 0 that {base} considers possible"))
            .hint("the KL divergence is infinite; compare models whose logits are finite"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the definition, from probabilities.
    fn naive(base: &[f32], other: &[f32], token: u32) -> Position {
        let softmax = |logits: &[f32]| {
            let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            logits.iter().map(|&logit| f64::from(logit).exp() / sum).collect::<Vec<f64>>()
        };
        let (p, q) = (softmax(base), softmax(other));
        let first = |p: &[f64]| p.iter().position(|&x| p.iter().all(|&y| x >= y));
        Position {
            base_nll: -p[token as usize].ln(),
            nll: -q[token as usize].ln(),
            kl: p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum(),
            same_top: first(&p) == first(&q),
        }
    }

    proptest! {
        #[test]
        fn it_is_the_definition(
            pairs in prop::collection::vec((-40.0..40.0_f32, -2.0..2.0_f32), 1..300),
            closeness in 0..6_i32,
            token in any::<prop::sample::Index>(),
        ) {
            let scale = 0.1_f32.powi(closeness);
            let base: Vec<f32> = pairs.iter().map(|pair| pair.0).collect();
            let other: Vec<f32> = pairs.iter().map(|pair| pair.0 + pair.1 * scale).collect();
            let token = token.index(pairs.len()) as u32;
            let (found, expected) = (compare(&base, &other, token), naive(&base, &other, token));
            for (found, expected) in [
                (found.base_nll, expected.base_nll),
                (found.nll, expected.nll),
                (found.kl, expected.kl),
                (found.probability_change(), expected.probability_change()),
            ] {
                prop_assert!((found - expected).abs() < 1e-12, "{} and {}", found, expected);
            }
            prop_assert_eq!(found.same_top, expected.same_top);
            prop_assert_eq!(compare(&base, &base, token).kl, 0.0);
        }
    }

    #[test]
    fn tokens_that_both_consider_impossible_change_nothing() {
        let (base, other) = ([1.0, 2.5, -0.5], [1.5, 2.0, -0.5]);
        let with_impossible = |logits: [f32; 3]| [[f32::NEG_INFINITY].as_slice(), logits.as_slice()].concat();
        let found = compare(&with_impossible(base), &with_impossible(other), 2);
        assert_eq!(found, compare(&base, &other, 1));
        // If the base model alone considers a token impossible, KL is finite; the other way round, it is not.
        let narrow = [1.0, f32::NEG_INFINITY, -0.5];
        assert!(compare(&narrow, &base, 0).kl.is_finite());
        assert_eq!(compare(&base, &narrow, 0).kl, f64::INFINITY);
    }

    #[test]
    fn extreme_logits_do_not_overflow() {
        let found = compare(&[3e38, -3e38, 0.0], &[-3e38, 3e38, 0.0], 0);
        assert!(found.base_nll == 0.0 && (found.nll / 6e38 - 1.0).abs() < 1e-6 && (found.kl / 6e38 - 1.0).abs() < 1e-6);
        assert!(!found.same_top);
    }

    #[test]
    fn what_is_no_number_is_found_wherever_it_is() {
        let names = ["BASE".to_owned(), "OTHER".to_owned()];
        let message = |base: &[f32], other: &[f32]| check(&compare(base, other, 1), &names).unwrap_err().to_string();
        let fine = [0.0, 1.0, 2.0];
        for at in 0..3 {
            let mut broken = fine;
            for value in [f32::NAN, f32::INFINITY] {
                broken[at] = value;
                assert!(message(&broken, &fine).contains("the loss of BASE is NaN"));
                assert!(message(&fine, &broken).contains("the loss of OTHER is NaN"));
            }
        }
        let (first, second) = ([f32::NEG_INFINITY, 1.0, 2.0], [0.0, f32::NEG_INFINITY, 2.0]);
        assert!(message(&second, &fine).contains("BASE gives a token of the texts a probability of 0"));
        assert!(message(&fine, &second).contains("OTHER gives a token of the texts a probability of 0"));
        assert!(message(&fine, &first).contains("OTHER gives a token a probability of 0 that BASE"));
        assert!(check(&compare(&first, &fine, 1), &names).is_ok());
    }
}
