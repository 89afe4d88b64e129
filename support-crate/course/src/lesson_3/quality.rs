//! `quality_of`: what a format changes, each number with an interval, and what of it is more than noise.

use rand::Rng;

use quantlab::report::Estimate;

use super::interval::standard_error;
use super::{LossSum, TextChange, perplexity_of, student_t_95};
use crate::cases::{random, size};
use crate::figure::{mean, weighted_mean};
use crate::trial::{Close, Trial, all_close};
use crate::{Complaint, Score, Verdict, ask};

/// How far a format's predictions are from the base model's, over some texts. Each interval is one of 95 %, with the texts
/// as draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// The format's perplexity over the base model's, paired.
    pub perplexity_ratio: Estimate,
    /// KL divergence from the base model, in nats per token.
    pub divergence: Estimate,
    /// What of it is above the noise, text by text, in nats per token.
    pub above_noise: Estimate,
    /// In how many of the places both find the same token the most likely, 0 to 1.
    pub same_top: f64,
    /// Tokens that were predicted.
    pub tokens: usize,
}

const HINTS: [&str; 3] = [
    "What are the draws? For which of the three intervals does a draw need a number of the noise, too, and of which text?",
    "Three lists of `LossSum`, with an element for each text: its `losses()`, its `divergences()`, and its divergence less \
     that of the noise on the same text. `mean_with_interval` of each; `perplexity_of` makes a ratio of the first.",
    "`let above: Vec<LossSum> = changes.iter().zip(noise).map(|(change, noise)| LossSum { nll: change.divergence - \
     noise.divergence, tokens: change.tokens }).collect();`, and `same_top: same as f64 / tokens as f64`, where `same` and \
     `tokens` are added up over the texts.",
];

type Answer<'a> = dyn Fn(&[TextChange], &[TextChange]) -> Quality + 'a;

/// Checks `quality_of(changes, noise)`.
pub fn check_quality_of(yours: fn(&[TextChange], &[TextChange]) -> Quality) -> Score {
    let cases: Result<Vec<Case>, Complaint> = cases().into_iter().map(|case| Case::run(&yours, case)).collect();
    Score::new("quality_of", HINTS)
        .about(
            &cases,
            "`perplexity_ratio` is exp of the change of the loss, and of both ends of its interval",
            |cases| in_each(cases, Case::ratio),
        )
        .about(&cases, "`divergence` is the mean over all tokens, with the texts as draws", |cases| {
            in_each(cases, Case::divergence)
        })
        .about(&cases, "`above_noise` is paired: the differences of the texts, with their own interval", |cases| {
            in_each(cases, Case::above_noise)
        })
        .about(&cases, "`same_top` is a share of all `tokens`", |cases| {
            cases.iter().try_for_each(Case::counts_tokens)?;
            let shares: Vec<Trial> = cases.iter().map(Case::same_top).collect();
            all_close(&shares, Close::Each(1e-9), |_| "`same_top`".to_owned(), "")
        })
}

/// All three numbers of an estimate, of all cases.
fn in_each(cases: &[Case], trial: fn(&Case) -> Trial) -> Verdict {
    let trials: Vec<Trial> = cases.iter().map(trial).collect();
    // As close as double precision is over some texts.
    all_close(&trials, Close::Largest(1e-9), |i| ["the value", "the lower end", "the upper end"][i].to_owned(), "")
}

/// What a format and noise change in the same texts: few and many, of one length and of very different ones; a format that
/// is hardly above noise, one far above, and noise itself, which is not; changes as small as bfloat16's.
fn cases() -> Vec<[Vec<TextChange>; 2]> {
    let mut rng = random(61);
    let mut of = |texts: usize, most: usize, scale: f64, noise: f64| -> [Vec<TextChange>; 2] {
        let pair = |_| {
            let tokens = size(&mut rng, most);
            // A text that is hard for both: what pairing takes away.
            let hard = rng.random_range(0.5..2.0) * tokens as f64;
            let mut change = |scale: f64| TextChange {
                loss_change: scale * hard * rng.random_range(-1.0..1.4),
                divergence: scale * hard * rng.random_range(0.8..1.2),
                same_top: rng.random_range(0..=tokens),
                tokens,
            };
            (change(scale), change(noise))
        };
        let (changes, noise) = (0..texts).map(pair).unzip();
        [changes, noise]
    };
    let noise_itself = |[_, noise]: [Vec<TextChange>; 2]| [noise.clone(), noise];
    vec![
        of(6, 90, 0.03, 0.01),
        of(2, 60, 0.02, 1e-3),
        of(3, 400, 0.2, 0.15),
        of(12, 1, 0.5, 0.1),
        of(40, 120, 1e-4, 1e-6),
        of(9, 50, 0.01, 0.02),
        noise_itself(of(5, 80, 0.01, 0.01)),
    ]
}

/// One call of the answer.
struct Case {
    got: Quality,
    changes: Vec<TextChange>,
    noise: Vec<TextChange>,
}

/// A vector that a mistake gives, and what to say about it.
type Mistake = (Vec<f64>, &'static str);

impl Case {
    fn run(yours: &Answer<'_>, [changes, noise]: [Vec<TextChange>; 2]) -> Result<Self, Complaint> {
        Ok(Self { got: ask(|| Ok(yours(&changes, &noise)))?, changes, noise })
    }

    fn trial(&self, name: &str, got: Estimate, expected: Estimate, mistakes: Vec<Mistake>) -> Trial {
        let what = format!("`{name}` of {} texts", self.changes.len());
        Trial { what, got: three(got), expected: three(expected), mistakes }
    }

    fn ratio(&self) -> Trial {
        let loss = interval(&self.of(TextChange::losses));
        let expected = perplexity_of(loss);
        let inverse = perplexity_of(loss * -1.0);
        let error = loss.half_width();
        let mistakes = vec![
            (three(loss), "this is the change of the loss; `exp` of it is the ratio of the perplexities"),
            (three(inverse), "it is upside down: the format's perplexity comes first, over the base model's"),
            (
                vec![expected.value, expected.value - error, expected.value + error],
                "take `exp` of both ends, too, not only of the value",
            ),
            (vec![expected.value; 3], "there is no interval: `mean_with_interval` has one"),
            (
                three(perplexity_of(interval(&self.of(TextChange::divergences)))),
                "this is of the divergences; take `losses()`",
            ),
        ];
        self.trial("perplexity_ratio", self.got.perplexity_ratio, expected, mistakes)
    }

    fn divergence(&self) -> Trial {
        let expected = interval(&self.of(TextChange::divergences));
        let mistakes = vec![
            (three(interval(&self.of(TextChange::losses))), "this is the change of the loss; take `divergences()`"),
            (three(self.paired()), "the noise is subtracted in `above_noise`, and only there"),
            (three(perplexity_of(expected)), "a divergence is in nats; no `exp` here"),
            (vec![expected.value; 3], "there is no interval: `mean_with_interval` has one"),
        ];
        self.trial("divergence", self.got.divergence, expected, mistakes)
    }

    fn above_noise(&self) -> Trial {
        let divergence = interval(&self.of(TextChange::divergences));
        let noise = interval(&self.noise.iter().map(TextChange::divergences).collect::<Vec<_>>());
        let expected = self.paired();
        let value = divergence.value - noise.value;
        let unpaired = "subtract text by text and take the interval of the differences: two intervals of their own know \
                        nothing of what both share";
        let mistakes = vec![
            (three(divergence), "nothing was subtracted: of each text's divergence, that of the noise on this text"),
            (three(expected * -1.0), "the other way round: the format's divergence less that of the noise"),
            (three(expected * 0.5), "a text has as many tokens as before: those of the noise are the same ones"),
            (vec![value, divergence.low - noise.low, divergence.high - noise.high], unpaired),
            (vec![value, divergence.low - noise.high, divergence.high - noise.low], unpaired),
            (vec![value, divergence.low - noise.value, divergence.high - noise.value], unpaired),
            (three(noise), "this is the noise itself"),
        ];
        self.trial("above_noise", self.got.above_noise, expected, mistakes)
    }

    /// What pairing leaves.
    fn paired(&self) -> Estimate {
        let above = |(change, noise): (&TextChange, &TextChange)| LossSum {
            nll: change.divergence - noise.divergence,
            tokens: change.tokens,
        };
        interval(&self.changes.iter().zip(&self.noise).map(above).collect::<Vec<_>>())
    }

    fn same_top(&self) -> Trial {
        let (all, texts) = (self.tokens() as f64, self.changes.len() as f64);
        let same = self.changes.iter().map(|change| change.same_top).sum::<usize>() as f64;
        let shares = self.changes.iter().map(|change| change.same_top as f64 / change.tokens as f64);
        let of_noise = self.noise.iter().map(|noise| noise.same_top as f64 / noise.tokens as f64);
        let of_noise = weighted_mean(of_noise, self.noise.iter().map(|noise| noise.tokens));
        let mistakes = vec![
            (vec![100.0 * same / all], "this is in percent; it is a share, at most 1"),
            (vec![same], "this is how many places; divide by all tokens"),
            (vec![same / texts], "it was divided by the number of texts, not of tokens"),
            (vec![mean(shares)], "this is the mean of the texts' shares; every token counts the same"),
            (vec![1.0 - same / all], "this is the share of places where they differ"),
            (vec![of_noise], "this is the noise's"),
        ];
        Trial { what: format!("of {texts} texts"), got: vec![self.got.same_top], expected: vec![same / all], mistakes }
    }

    fn counts_tokens(&self) -> Verdict {
        let (expected, got) = (self.tokens(), self.got.tokens);
        let why = match got {
            _ if got == expected => return Ok(()),
            _ if got == 2 * expected => ": those of the noise are the same ones",
            _ if got == self.changes.len() => ": this is the number of texts",
            _ => "",
        };
        wrong!("`tokens` of {} texts is {got}, expected {expected}{why}", self.changes.len())
    }

    fn of(&self, sum: fn(&TextChange) -> LossSum) -> Vec<LossSum> {
        self.changes.iter().map(sum).collect()
    }

    fn tokens(&self) -> usize {
        self.changes.iter().map(|change| change.tokens).sum()
    }
}

fn three(Estimate { value, low, high }: Estimate) -> Vec<f64> {
    vec![value, low, high]
}

/// The mean loss over all tokens with its 95 % interval, as the learner is to write it in `mean_with_interval`.
pub(super) fn interval(draws: &[LossSum]) -> Estimate {
    let mean = draws.iter().sum::<LossSum>().mean();
    Estimate::plus_minus(mean, student_t_95(draws.len() - 1) * standard_error(draws))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_mistakes_give_the_same_numbers() {
        let [changes, noise] = cases().swap_remove(0);
        let nothing = Estimate::exact(0.0);
        let got =
            Quality { perplexity_ratio: nothing, divergence: nothing, above_noise: nothing, same_top: 0.0, tokens: 0 };
        let case = Case { got, changes, noise };
        for trial in [case.ratio(), case.divergence(), case.above_noise(), case.same_top()] {
            let mut all: Vec<Vec<f64>> = trial.mistakes.iter().map(|(numbers, _)| numbers.clone()).collect();
            all.push(trial.expected);
            for (i, one) in all.iter().enumerate() {
                assert!(all[..i].iter().all(|other| other != one), "{}: {one:?}", trial.what);
            }
        }
    }
}
