//! `mean_with_interval`: a mean over tokens, and how sure it is if texts are what was drawn.

use rand::Rng;

use quantlab::report::Estimate;

use super::interval::{squares, standard_error};
use super::{LossSum, is_close, student_t_95};
use crate::cases::{random, size};
use crate::figure::{Figure, all_right, mean};
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "Which numbers vary from draw to draw, and around what? A text of 300 tokens moves the mean more than one of 3.",
    "The mean is the sum of all losses by the number of all tokens. Each draw deviates from it by `l - mean * n`; add up \
     the squares of that, and go on as in the formula.",
    "`let squares: f64 = draws.iter().map(|draw| (draw.nll - all.mean() * draw.tokens as f64).powi(2)).sum();`, then \
     `(squares * k / (k - 1.0)).sqrt() / all.tokens as f64` is one standard error. `Estimate::plus_minus(mean, \
     student_t_95(draws.len() - 1) * error)` is the answer.",
];

type Answer<'a> = dyn Fn(&[LossSum]) -> Estimate + 'a;

/// Checks `mean_with_interval(draws)`.
pub fn check_mean_with_interval(yours: fn(&[LossSum]) -> Estimate) -> Score {
    let trials: Result<Vec<Trial>, Complaint> = draws().into_iter().map(|draws| Trial::run(&yours, draws)).collect();
    Score::new("mean_with_interval", HINTS)
        .about(&trials, "the value is the mean over all tokens", |trials| {
            all_right(&trials.iter().map(Trial::value).collect::<Vec<_>>(), is_close)
        })
        .about(&trials, "it reaches t standard errors to each side, with each element as one draw", |trials| {
            all_right(&trials.iter().flat_map(Trial::sides).collect::<Vec<_>>(), is_close)
        })
}

/// Few draws and many, of one length and of very different ones, in which short texts are hard.
fn draws() -> Vec<Vec<LossSum>> {
    let mut rng = random(43);
    let mut of = |count: usize, most: usize| -> Vec<LossSum> {
        let draw = |_| {
            let tokens = size(&mut rng, most);
            let mean = 2.0 + 3.0 / (tokens as f64).sqrt() + rng.random_range(-0.5..0.5);
            LossSum { nll: mean * tokens as f64, tokens }
        };
        (0..count).map(draw).collect()
    };
    vec![of(5, 40), of(2, 9), of(3, 300), of(12, 1), of(40, 120), of(160, 300)]
}

struct Trial {
    got: Estimate,
    draws: Vec<LossSum>,
}

impl Trial {
    fn run(yours: &Answer<'_>, draws: Vec<LossSum>) -> Result<Self, Complaint> {
        Ok(Self { got: ask(|| Ok(yours(&draws)))?, draws })
    }

    fn what(&self, of: &str) -> String {
        let shown: Vec<(f64, usize)> = self.draws.iter().take(3).map(|draw| (draw.nll, draw.tokens)).collect();
        let more = if self.draws.len() > 3 { " and so on" } else { "" };
        format!("{of} of {} draws, {shown:.2?}{more}", self.draws.len())
    }

    fn value(&self) -> Figure {
        let all: LossSum = self.draws.iter().sum();
        let means = || self.draws.iter().map(LossSum::mean);
        Figure {
            what: self.what("the value"),
            got: self.got.value,
            expected: all.mean(),
            mistakes: vec![
                (mean(means()), "this is the mean of the draws' means; every token counts the same"),
                (all.nll, "this is the sum of the losses; divide it by the number of tokens"),
                (all.nll / self.draws.len() as f64, "this was divided by the number of draws, not of tokens"),
                (all.mean().exp(), "this is the perplexity; return the loss, and `exp` comes later"),
            ],
        }
    }

    fn sides(&self) -> [Figure; 2] {
        let Estimate { value, low, high } = self.got;
        let side = |of: &str, got: f64| Figure {
            what: self.what(&format!("the distance from the value to `{of}`")),
            got,
            expected: student_t_95(self.draws.len() - 1) * standard_error(&self.draws),
            mistakes: self.wrong_sides(),
        };
        [side("low", value - low), side("high", high - value)]
    }

    /// What common mistakes give, and what to say about them.
    fn wrong_sides(&self) -> Vec<(f64, &'static str)> {
        let all: LossSum = self.draws.iter().sum();
        let (k, error, tokens) = (self.draws.len(), standard_error(&self.draws), all.tokens as f64);
        let t = student_t_95(k - 1);
        let means: Vec<f64> = self.draws.iter().map(LossSum::mean).collect();
        let centre = mean(means.iter().copied());
        let around = |centre: f64| means.iter().map(|mean| (mean - centre).powi(2)).sum::<f64>();
        let (of_means, around_all) = (around(centre), around(all.mean()));
        // An error of the mean is smaller by the root of k than this.
        let deviation = |squares: f64| t * (squares / (k - 1) as f64).sqrt();
        let root_k = (k as f64).sqrt();
        let equal_weights = "here every draw counts the same; a long text counts for more";
        let spread = "this is how far the draws' means spread, each counted the same: a long text counts for more, and \
                      the mean of k draws varies less than one of them";
        let unbiased = ((k - 1) as f64 / k as f64).sqrt();
        vec![
            (error, "this is one standard error; 95 % takes `student_t_95(k - 1)` of them"),
            (1.96 * error, "1.96 is for many draws; few take more, `student_t_95(k - 1)`"),
            (student_t_95(k) * error, "k draws have k - 1 degrees of freedom"),
            (t * error * unbiased, "the squares are those of k draws around their own mean: multiply by k / (k - 1)"),
            (t * error * tokens, "the deviations are sums over the texts: divide by the number of tokens"),
            (t * error * tokens / k as f64, "it was divided by the number of draws, not of tokens"),
            (deviation(of_means) / root_k, equal_weights),
            (deviation(around_all) / root_k, equal_weights),
            (deviation(of_means), spread),
            (deviation(around_all), spread),
            (t * squares(&self.draws) * k as f64 / (k - 1) as f64 / tokens, "the square root is missing"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_mistakes_give_the_same_interval() {
        let trial = Trial { got: Estimate::exact(0.0), draws: draws().swap_remove(0) };
        let mut values: Vec<f64> = trial.wrong_sides().iter().map(|(value, _)| *value).collect();
        values.push(student_t_95(4) * standard_error(&trial.draws));
        values.sort_by(f64::total_cmp);
        assert!(values.windows(2).all(|pair| !is_close(pair[0], pair[1])), "{values:?}");
    }
}
