//! Chooses the next token from logits: the most likely one, or one drawn at random.
//!
//! Source: transformers `generation/logits_process.py`, in the order of `_get_logits_processor`:
//! repetition penalty, no end before `min_new_tokens`, temperature, top-k, top-p.

use std::cmp::Ordering;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::GenerateOptions;
use crate::error::{Error, Result};

const DAMAGED: &str = "its weights may be damaged, or overflow in this precision";

/// Chooses tokens. Its memory, several numbers for each token of the vocabulary, is reused for every token of every
/// sequence, whatever their options.
#[derive(Default)]
pub(crate) struct Sampler {
    /// The logits, with what is discouraged or forbidden taken into account: (V).
    scores: Vec<f32>,
    /// What can be drawn, by id.
    candidates: Vec<Candidate>,
    score_scratch: Vec<f32>,
    candidate_scratch: Vec<Candidate>,
}

/// A token that can be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    /// Its probability, up to a factor that all candidates share.
    pub(super) weight: f64,
}

impl Candidate {
    /// The heavier one first; of equals, the one with the lower id, so that the order never depends on an algorithm.
    fn by_weight(&self, other: &Self) -> Ordering {
        other.weight.total_cmp(&self.weight).then(self.id.cmp(&other.id))
    }
}

/// The random numbers of sequence `index` of a batch. Seed and index make up the generator's key, so no
/// two pairs of them share a stream, and neighbours cannot matter.
pub(super) fn random_stream(seed: u64, index: usize) -> StdRng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&(index as u64).to_le_bytes());
    StdRng::from_seed(key)
}

impl Sampler {
    /// The token to come after `ids`, given the model's `logits` (V) for it; never one that is `forbidden`. The options
    /// have been checked.
    ///
    /// # Errors
    /// Logits that are NaN or infinite, or that leave no token to choose.
    pub(super) fn next_token(
        &mut self,
        options: &GenerateOptions,
        logits: &[f32],
        ids: &[u32],
        forbidden: &[u32],
        rng: &mut StdRng,
    ) -> Result<u32> {
        self.score(options, logits, ids, forbidden)?;
        if !options.do_sample {
            return Ok(most_likely(&self.scores)?.0);
        }
        self.find_candidates(options)?;
        draw(&self.candidates, rng.random())
    }

    /// Fills `scores`.
    fn score(&mut self, options: &GenerateOptions, logits: &[f32], ids: &[u32], forbidden: &[u32]) -> Result<()> {
        // Without an early exit, so that the compiler can test many at once.
        if logits.iter().fold(false, |bad, &logit| bad | logit.is_nan() | (logit == f32::INFINITY)) {
            return Err(Error::system("the model's logits are not finite (NaN or infinity)").hint(DAMAGED));
        }
        self.scores.clear();
        self.scores.extend_from_slice(logits);
        let penalty = options.repetition_penalty as f32;
        if penalty != 1.0 {
            // From the model's logit, so that a token that occurs twice is penalised once. What is impossible stays so;
            // what an extreme penalty would make infinite becomes the largest number.
            for &id in ids.iter().filter(|&&id| logits[id as usize] > f32::NEG_INFINITY) {
                let logit = logits[id as usize];
                let score = if logit > 0.0 { logit / penalty } else { logit * penalty };
                self.scores[id as usize] = score.clamp(f32::MIN, f32::MAX);
            }
        }
        for &id in forbidden {
            if let Some(score) = self.scores.get_mut(id as usize) {
                *score = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    /// Fills `candidates` from `scores`. The temperature does not change which tokens are the k most
    /// likely, so top-k comes first, and only what it leaves is exponentiated.
    fn find_candidates(&mut self, options: &GenerateOptions) -> Result<()> {
        let (_, highest) = most_likely(&self.scores)?;
        let least = self.top_k_threshold(options.top_k);
        let temperature = options.temperature;
        let weight = |score: f32| ((f64::from(score) - f64::from(highest)) / temperature).exp();
        self.candidates.clear();
        let possible =
            self.scores.iter().enumerate().filter(|(_, score)| **score >= least && **score > f32::NEG_INFINITY);
        self.candidates.extend(possible.map(|(id, &score)| Candidate { id: id as u32, weight: weight(score) }));
        self.keep_top_p(options.top_p);
        Ok(())
    }

    /// The lowest score that `top_k` lets through.
    fn top_k_threshold(&mut self, top_k: Option<usize>) -> f32 {
        match top_k {
            Some(k) if k < self.scores.len() => {
                self.score_scratch.clone_from(&self.scores);
                let (_, least, _) = self.score_scratch.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
                *least
            }
            _ => f32::NEG_INFINITY,
        }
    }

    /// Keeps the fewest candidates, heavy ones first, that have `top_p` of the whole weight.
    fn keep_top_p(&mut self, top_p: f64) {
        if top_p >= 1.0 {
            return;
        }
        let needed = top_p * total(&self.candidates);
        let sorted = &mut self.candidate_scratch;
        sorted.clone_from(&self.candidates);
        // Bisects instead of sorting: `low` candidates are too few, `high` are enough, and what comes before either is
        // heavier than what comes after.
        let (mut low, mut high, mut weight_of_low) = (0, sorted.len(), 0.0);
        while high - low > 1 {
            let middle = low.midpoint(high);
            sorted[low..high].select_nth_unstable_by(middle - low, Candidate::by_weight);
            let weight = weight_of_low + total(&sorted[low..middle]);
            if weight >= needed {
                high = middle;
            } else {
                (low, weight_of_low) = (middle, weight);
            }
        }
        let last = sorted[low];
        self.candidates.retain(|candidate| candidate.by_weight(&last).is_le());
    }
}

fn total(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|candidate| candidate.weight).sum()
}

/// The candidate at which the running sum of weights passes `u`, in [0, 1), of the whole.
fn draw(candidates: &[Candidate], u: f64) -> Result<u32> {
    let target = u * total(candidates);
    let mut sum = 0.0;
    let drawn = candidates.iter().find(|candidate| {
        sum += candidate.weight;
        sum > target
    });
    drawn.map(|candidate| candidate.id).ok_or_else(no_token)
}

/// The index of the largest score, the first of equals, and the score.
fn most_likely(scores: &[f32]) -> Result<(u32, f32)> {
    let mut best = None;
    let mut highest = f32::NEG_INFINITY;
    for (id, &score) in scores.iter().enumerate() {
        if score > highest {
            highest = score;
            best = Some(id as u32);
        }
    }
    best.map(|id| (id, highest)).ok_or_else(no_token)
}

fn no_token() -> Error {
    Error::system("no token can be chosen: the model gives every allowed token a probability of 0").hint(DAMAGED)
}

#[cfg(test)]
#[path = "sampling_tests.rs"]
mod tests;
