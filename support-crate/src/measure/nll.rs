//! Negative log-likelihoods from logits, for whole batches.
//!
//! A window of GPT-2 has 51 million logits, and each takes an exponential.

use quantlab_kernels::negative_log_likelihood;

use super::scoring::each_target;
use super::windows::Window;
use crate::error::{Error, Result};
use crate::model::{Loaded, LogitPositions, Logits, TokenBatch};

/// The cost of an exponential, in multiplications.
const WORK: usize = 8;

/// Runs the model on a batch: the sum of the negative log-likelihoods of each window's scored tokens, in nats.
///
/// # Errors
/// One that is not finite.
pub(super) fn windows_nll(loaded: &Loaded, tokens: &TokenBatch, windows: &[&Window<'_>]) -> Result<Vec<f64>> {
    let sums = batch_nll(&loaded.model.forward(tokens, None, LogitPositions::All)?, windows);
    match sums.iter().find(|sum| !sum.is_finite()) {
        Some(sum) => Err(Error::system(format!("the model's loss is {sum}"))
            .hint("its weights may be damaged, or overflow in this precision")),
        None => Ok(sums),
    }
}

/// The sum of the negative log-likelihoods of each window's scored tokens, in nats. `logits` (B, T, V)
/// has a row for each window, padded on the right.
fn batch_nll(logits: &Logits, windows: &[&Window<'_>]) -> Vec<f64> {
    let nll = |row, position, token| negative_log_likelihood(logits.row(row, position), token);
    each_target(windows, WORK * logits.vocab_size(), &nll).iter().map(|nlls| nlls.iter().sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(logits: &[f32], token: u32) -> f64 {
        let wide: Vec<f64> = logits.iter().copied().map(f64::from).collect();
        let largest = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = wide.iter().map(|logit| (logit - largest).exp()).sum();
        sum.ln() + largest - wide[token as usize]
    }

    #[test]
    fn every_position_is_scored_whichever_thread_does_it() {
        let (vocab_size, positions) = (6_000_u32, 300);
        let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 2e6;
        let values = (0..2 * positions * vocab_size).map(value).collect();
        let logits = Logits::new(values, 2, vocab_size as usize).unwrap();
        let ids: Vec<u32> = (0..positions).map(|t| t * 19 % vocab_size).collect();
        let windows = [Window { ids: &ids, unscored: 1 }, Window { ids: &ids[..120], unscored: 100 }];
        let sums = batch_nll(&logits, &windows.each_ref());
        for (b, (window, sum)) in windows.iter().zip(sums).enumerate() {
            let expected: f64 =
                (window.unscored..window.ids.len()).map(|t| reference(logits.row(b, t - 1), ids[t])).sum();
            assert!((sum / expected - 1.0).abs() < 1e-7, "{sum} and {expected}");
        }
    }
}
