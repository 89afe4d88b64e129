//! Checks of lesson 3: perplexity.

mod change;
mod cutting;
mod divergence;
mod evaluation;
mod findings;
mod interval;
mod interval_check;
mod likelihood;
mod means;
mod mistakes;
mod padding;
mod plots;
mod quality;
mod report;
mod sequence;
mod share;
mod tables;
mod texts;
mod window;

use std::iter::Sum;

use serde::Serialize;

/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, SavedAs, Score, ask, attempt, attempt_or, claim};
pub use change::check_compare_texts;
pub use cutting::{Window, check_windows};
pub use divergence::check_kl_divergence;
pub use evaluation::check_evaluate;
pub use findings::{
    batch_sizes_claims, bias, context_claims, context_ratio, counts_in_words, evaluations_claim, final_report,
    letters_summary, other_top_percent, padding_claims, quality_claims, widths_summary,
};
pub use interval::{from_all_over, perplexity_of, student_t_95};
pub use interval_check::check_mean_with_interval;
pub use likelihood::{check_log_softmax_at, likeliest};
pub use means::check_mean_of_means;
pub use mistakes::{ScoredText, score_texts, ways};
pub use padding::check_pad_batch;
pub use plots::{certainty_plot, context_plot, kinds_plot, surprises_plot};
pub use quality::{Quality, check_quality_of};
pub use report::{load_again, quality_in_words, quality_of_formats, speed_against_first, speed_in_words};
pub use sequence::check_sequence_loss;
pub use share::check_padding_share;
pub use tables::{
    batch_sizes_table, cuts_table, evaluations_table, guesses_table, kinds_table, padding_table, ways_table,
};
pub use texts::{kinds_of_text, perplexity_of_kinds, short_paragraphs, shortest_first, token_counts};
pub use window::check_loss_in_windows;

/// Texts of different lengths as a rectangle. Both fields have a row for each text, all of the same length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaddedBatch {
    /// Token ids, padding included.
    pub ids: Vec<Vec<u32>>,
    /// `true` for a token, `false` for padding.
    pub mask: Vec<Vec<bool>>,
}

/// How badly a model predicted some tokens: the two numbers that can be added up over texts and batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LossSum {
    /// Negative log-likelihoods, added up, in nats.
    pub nll: f64,
    /// Tokens that were predicted.
    pub tokens: usize,
}

impl LossSum {
    /// The mean negative log-likelihood of a token, in nats; NaN if none was predicted.
    pub fn mean(&self) -> f64 {
        self.nll / self.tokens as f64
    }
}

/// Every token counts the same, whichever text it stands in.
impl<'a> Sum<&'a LossSum> for LossSum {
    fn sum<I: Iterator<Item = &'a Self>>(sums: I) -> Self {
        sums.fold(Self::default(), |all, sum| Self { nll: all.nll + sum.nll, tokens: all.tokens + sum.tokens })
    }
}

/// How far another model's predictions of one text are from the base model's: sums over the predicted tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TextChange {
    /// The other model's negative log-likelihoods less those of the base model, added up, in nats.
    pub loss_change: f64,
    /// KL divergences from the base model, added up, in nats.
    pub divergence: f64,
    /// Places where both models find the same token the most likely.
    pub same_top: usize,
    /// Tokens that were predicted.
    pub tokens: usize,
}

impl TextChange {
    /// The changes of the loss, to be added up over texts.
    pub fn losses(&self) -> LossSum {
        LossSum { nll: self.loss_change, tokens: self.tokens }
    }

    /// The divergences, which are losses too: what it costs to guess with the other model where the base model is right.
    pub fn divergences(&self) -> LossSum {
        LossSum { nll: self.divergence, tokens: self.tokens }
    }
}

/// How well a model predicts a set of texts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Evaluation {
    /// Tokens that were predicted.
    pub tokens: usize,
    /// Mean negative log-likelihood of a token, in nats.
    pub average_loss: f64,
    /// `exp(average_loss)`: as uncertain as a choice among this many tokens.
    pub perplexity: f64,
}

/// The loss of a long text, read in windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    /// Tokens that the model sees at once.
    pub window: usize,
    /// How far each window is moved.
    pub stride: usize,
    /// Tokens that all windows read, those of an overlap more than once.
    pub read: usize,
    /// The loss of all tokens but the first.
    pub loss: LossSum,
}

/// Window and loss in nats per token, of the cuts whose windows overlap by half.
fn halved(cuts: &[Cut]) -> Vec<(usize, f64)> {
    let halved = cuts.iter().filter(|cut| 2 * cut.stride == cut.window);
    halved.map(|cut| (cut.window, cut.loss.mean())).collect()
}

/// `-log softmax(logits)[id]` in nats, for the checks to compare with.
fn nll(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = |logit: f32| f64::from(logit) - f64::from(largest);
    let sum: f64 = logits.iter().map(|&logit| shifted(logit).exp()).sum();
    sum.ln() - shifted(logits[id as usize])
}

/// Whether two numbers are the same for someone who computes in float32.
fn is_close(got: f64, expected: f64) -> bool {
    // Infinities are equal, but their difference is NaN.
    got == expected || (got - expected).abs() <= 1e-4 * expected.abs().max(1.0)
}

/// The values, or only the first ones if there are many.
fn shown<T: std::fmt::Debug>(values: &[T]) -> String {
    const MAX_SHOWN: usize = 12;
    match values.get(..MAX_SHOWN) {
        Some(first) if values.len() > MAX_SHOWN => format!("{first:?} and {} more", values.len() - MAX_SHOWN),
        _ => format!("{values:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_over_texts_is_one_over_tokens() {
        let sums = [LossSum { nll: 60.0, tokens: 30 }, LossSum { nll: 40.0, tokens: 10 }];
        assert!((sums.iter().sum::<LossSum>().mean() - 2.5).abs() < 1e-15);
        assert!(LossSum::default().mean().is_nan());
    }

    #[test]
    fn the_reference_does_not_overflow() {
        assert!(is_close(nll(&[0.0, 3.0_f32.ln()], 0), 4.0_f64.ln()));
        assert!(is_close(nll(&[1000.0, 1000.0], 1), 2.0_f64.ln()));
        assert!(is_close(nll(&[0.0, -2000.0], 1), 2000.0));
    }
}
