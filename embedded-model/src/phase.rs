//! The two phases of training: what to compute with at a step, how fast to learn, and when to stop.
//!
//! Training makes a model in full precision. Finishing makes it lose less when it is quantized: some steps
//! compute with rounded weights, and so learn weights that stand rounding (quantization-aware training, Jacob
//! et al. 2018, arXiv:1712.05877). The others keep the model good as it is. The same steps without rounding are the
//! control: what of it is due to training on.

use crate::quantize::Format;

/// Steps over which the learning rate rises.
const WARM_UP: u64 = 60;
/// The part of training at full learning rate; after it the rate falls in a straight line.
const STABLE: f64 = 0.4;
/// The learning rate at the end.
const LAST_RATE: f64 = 0.01;
/// The learning rate at which finishing starts.
pub const FINISHING_RATE: f64 = 0.1;
/// What the steps of finishing compute with, over and over; nothing is rounded where no format is named.
const FINISHING_FORMATS: [Option<Format>; 4] = [None, Some(Format::Nf4), None, Some(Format::Fp4)];

/// When training ends.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// After a number of tokens.
    Tokens(u64),
    /// After a number of seconds, not counting the time between a stop and a resumption.
    Seconds(f64),
}

/// A phase of training.
#[derive(Clone, Copy, Debug)]
pub enum Phase {
    /// In full precision, from the first step on.
    Train(Budget),
    /// A little further than training, at a low rate.
    Finish {
        /// Steps before this phase.
        after: u64,
        /// Steps of this phase.
        steps: u64,
        /// Whether every other step computes with rounded weights, so that quantization costs less.
        rounded: bool,
    },
}

impl Phase {
    /// The part of the phase that has passed; 1 or more at its end.
    pub fn done(self, step: u64, tokens: u64, seconds: f64) -> f64 {
        match self {
            Self::Train(Budget::Tokens(budget)) => tokens as f64 / budget as f64,
            Self::Train(Budget::Seconds(budget)) => seconds / budget,
            Self::Finish { steps: 0, .. } => 1.0,
            Self::Finish { after, steps, .. } => step.saturating_sub(after) as f64 / steps as f64,
        }
    }

    /// The fraction of the full learning rate: up, level, and down in a straight line; in finishing, down.
    pub fn learning_rate(self, step: u64, done: f64) -> f64 {
        let left = 1.0 - done;
        match self {
            Self::Train(_) => {
                let rising = (step + 1) as f64 / WARM_UP as f64;
                let falling = (left / (1.0 - STABLE)).max(LAST_RATE);
                rising.min(falling).min(1.0)
            }
            Self::Finish { .. } => FINISHING_RATE * left,
        }
    }

    /// What the weights are rounded to at a step.
    pub fn format(self, step: u64) -> Option<Format> {
        match self {
            Self::Train(_) | Self::Finish { rounded: false, .. } => None,
            Self::Finish { .. } => FINISHING_FORMATS[step as usize % FINISHING_FORMATS.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIN: Phase = Phase::Train(Budget::Tokens(1000));
    const FINISH: Phase = Phase::Finish { after: 80, steps: 20, rounded: true };
    const CONTROL: Phase = Phase::Finish { after: 80, steps: 20, rounded: false };

    #[test]
    fn the_learning_rate_rises_stays_and_falls() {
        assert!(TRAIN.learning_rate(0, 0.0) < 0.1);
        assert_eq!(TRAIN.learning_rate(WARM_UP, 0.1), 1.0);
        assert_eq!(TRAIN.learning_rate(1000, STABLE), 1.0);
        assert!((TRAIN.learning_rate(2000, 0.7) - 0.5).abs() < 1e-9);
        assert_eq!(TRAIN.learning_rate(3000, 1.0), LAST_RATE);
        assert_eq!(FINISH.learning_rate(80, 0.0), FINISHING_RATE);
        assert_eq!(FINISH.learning_rate(90, 0.5), FINISHING_RATE / 2.0);
    }

    #[test]
    fn each_phase_ends_with_its_own_budget() {
        assert_eq!(TRAIN.done(7, 500, 9.0), 0.5);
        assert_eq!(Phase::Train(Budget::Seconds(10.0)).done(7, 500, 9.0), 0.9);
        assert_eq!(FINISH.done(80, 500, 9.0), 0.0);
        assert_eq!(FINISH.done(100, 500, 9.0), 1.0);
        assert_eq!(Phase::Finish { after: 80, steps: 0, rounded: true }.done(80, 500, 9.0), 1.0);
    }

    #[test]
    fn finishing_rounds_to_both_formats_and_half_its_steps_to_none() {
        let count = |format| (80..100).filter(|&step| FINISH.format(step) == format).count();
        assert_eq!((count(None), count(Some(Format::Nf4)), count(Some(Format::Fp4))), (10, 5, 5));
        assert!((0..100).all(|step| TRAIN.format(step).is_none() && CONTROL.format(step).is_none()));
        assert_eq!(CONTROL.learning_rate(90, 0.5), FINISH.learning_rate(90, 0.5));
    }
}
