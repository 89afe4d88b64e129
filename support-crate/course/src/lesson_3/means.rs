//! `mean_of_means`: the wrong average, made on purpose.

use rand::Rng;

use super::{LossSum, is_close};
use crate::cases::{random, size};
use crate::figure::{Figure, all_right, mean, weighted_mean};
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "What is the loss of one batch, as someone reports it who knows only that batch? And what does the next one do, who has a \
     list of such losses?",
    "For each of `losses.chunks(batch_size)`, add up the texts (`batch.iter().sum::<LossSum>()`) and take the `mean()`; leave \
     out batches of 0 tokens. Then the plain mean of these means.",
    "`let batches = losses.chunks(batch_size).map(|batch| batch.iter().sum::<LossSum>()); let means: Vec<f64> = \
     batches.filter(|sum| sum.tokens > 0).map(|sum| sum.mean()).collect(); means.iter().sum::<f64>() / means.len() as f64`",
];

/// Checks `mean_of_means(losses, batch_size)`.
pub fn check_mean_of_means(yours: fn(&[LossSum], usize) -> f64) -> Score {
    let figures = |cases: Vec<(Vec<LossSum>, usize)>| -> Result<Vec<Figure>, Complaint> {
        let figure =
            |(losses, size): (Vec<LossSum>, usize)| Ok(figure(&losses, size, ask(|| Ok(yours(&losses, size)))?));
        cases.into_iter().map(figure).collect()
    };
    let means = figures(cases());
    Score::new("mean_of_means", HINTS)
        .about(&means, "it is the mean of the batches' means, and every batch counts the same", |means| {
            all_right(means, is_close)
        })
        .about(&means, "a batch in which nothing was predicted has no mean, and is left out", |_| {
            let means = figures(with_nothing())?;
            match means.iter().find(|figure| figure.got.is_nan()) {
                Some(Figure { what, .. }) => {
                    wrong!("{what} is NaN: the mean over 0 tokens is 0 / 0. Leave such a batch out")
                }
                None => all_right(&means, is_close),
            }
        })
}

fn loss(mean: f64, tokens: usize) -> LossSum {
    LossSum { nll: mean * tokens as f64, tokens }
}

/// The example of the lesson; texts of one length and of very different ones; batches of one, of all, and a last one that
/// is not full; large losses, and differences of losses, which may be below 0; batches of one token.
fn cases() -> Vec<(Vec<LossSum>, usize)> {
    let mut rng = random(60);
    let mut any = |texts: usize, most: usize, low: f64, high: f64| -> Vec<LossSum> {
        (0..texts).map(|_| loss(rng.random_range(low..high), size(&mut rng, most))).collect()
    };
    vec![
        (vec![loss(2.0, 30), loss(4.0, 10)], 1),
        (any(5, 40, 1.0, 6.0), 2),
        (any(7, 40, 1.0, 6.0), 3),
        (vec![loss(1.0, 6), loss(2.0, 6), loss(4.0, 6), loss(3.5, 6)], 3),
        (any(4, 90, 1.0, 6.0), 8),
        (any(33, 200, 0.0, 9.0), 4),
        (any(20, 1, 500.0, 2000.0), 6),
        (any(9, 60, -3.0, 2.0), 2),
        (vec![loss(2.5, 1), loss(5.0, 9), loss(3.5, 1), loss(4.0, 4)], 1),
    ]
}

/// Texts of one token, alone in their batch and beside others.
fn with_nothing() -> Vec<(Vec<LossSum>, usize)> {
    let nothing = LossSum::default();
    vec![
        (vec![loss(2.0, 30), nothing, loss(5.0, 3)], 1),
        (vec![nothing, loss(3.0, 7), loss(2.0, 9), nothing, nothing, nothing], 2),
        (vec![nothing, nothing, nothing, loss(1.5, 4), loss(2.5, 2)], 3),
    ]
}

fn figure(losses: &[LossSum], batch_size: usize, got: f64) -> Figure {
    let batches: Vec<&[LossSum]> = losses.chunks(batch_size).filter(|batch| total(batch).tokens > 0).collect();
    let means: Vec<f64> = batches.iter().map(|batch| total(batch).mean()).collect();
    let of = |means: &[f64]| mean(means.iter().copied());
    let (expected, sum) = (of(&means), means.iter().sum::<f64>());
    let of_texts = |losses: &[LossSum]| mean(losses.iter().filter(|loss| loss.tokens > 0).map(LossSum::mean));
    let all_batches = losses.len().div_ceil(batch_size);
    let full = losses.chunks_exact(batch_size).map(total).filter(|sum| sum.tokens > 0);
    let of_several = batches.iter().map(|batch| total(batch)).filter(|sum| sum.tokens > 1);
    let mistakes = vec![
        (
            total(losses).mean(),
            "this is the right average, over all tokens; here the mistake is wanted, a mean of means",
        ),
        (of_texts(losses), "this is the mean of the texts' means; `batch_size` of them are one batch"),
        (
            mean(batches.iter().map(|batch| of_texts(batch))),
            "within a batch every token counts the same: add up its losses and its tokens, then divide",
        ),
        (mean(full.map(|sum| sum.mean())), "the last batch is missing, because it is not full"),
        (mean(of_several.map(|sum| sum.mean())), "a batch of one predicted token has a mean, too"),
        (sum, "this is the sum of the means; divide by the number of batches"),
        (sum / all_batches as f64, "a batch without a predicted token was counted, as if its loss were 0"),
        (sum / losses.len() as f64, "it was divided by the number of texts, not of batches"),
        (
            weighted_mean(means.iter().copied(), batches.iter().map(|batch| batch.len())),
            "each batch was weighted by the number of its texts; in the mean of means every batch counts the same",
        ),
        (expected.exp(), "this is the perplexity; return the loss, and `exp` comes later"),
        (
            mean(means.iter().map(|mean| mean.exp())),
            "this is the mean of the batches' perplexities; take that of their losses",
        ),
    ];
    let shown: Vec<(f64, usize)> = losses.iter().take(4).map(|loss| (loss.nll, loss.tokens)).collect();
    let more = if losses.len() > 4 { " and so on" } else { "" };
    Figure { what: format!("mean_of_means({shown:.1?}{more}, {batch_size})"), got, expected, mistakes }
}

fn total(losses: &[LossSum]) -> LossSum {
    losses.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_mistakes_give_the_same_means() {
        let cases = cases().into_iter().chain(with_nothing());
        let means: Vec<Vec<f64>> = cases
            .map(|(losses, size)| {
                let Figure { expected, mistakes, .. } = figure(&losses, size, 0.0);
                mistakes.iter().map(|(mean, _)| *mean).chain([expected]).collect()
            })
            .collect();
        for one in 0..means[0].len() {
            for other in 0..one {
                assert!(means.iter().any(|mean| !is_close(mean[one], mean[other])), "{one} and {other}");
            }
        }
    }
}
