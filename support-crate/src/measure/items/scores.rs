//! What the likelihoods of choices add up to, for one model and for two.

use serde::Serialize;

use super::Item;
use crate::error::{Error, Result};
use crate::measure::{RunInfo, Uncertain};

/// How likely a model finds the choices of an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemScore {
    /// What was asked.
    pub item: Item,
    /// ln p of each choice after the prompt, in nats.
    pub log_likelihoods: Vec<f64>,
}

/// How likely a model finds the choices of some items; see [`score_items`](super::score_items).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemScores {
    /// One for each item, in their order.
    pub scores: Vec<ItemScore>,
    /// What was measured on.
    pub run: RunInfo,
}

/// What a model gets right beside another one, the base, item by item.
///
/// Most items are as easy or as hard for one model as for the other, so that the paired difference is known better than
/// either accuracy. Still, an accuracy is coarse: of a change, it shows only what turns an item over. The margin shows what
/// happens to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ItemComparison {
    /// Items that the base model gets right and the other one wrong.
    pub lost: usize,
    /// Items that the base model gets wrong and the other one right.
    pub won: usize,
    /// The other model's accuracy minus the base model's, paired: 0.01 is one item in a hundred.
    pub difference: Uncertain,
    /// If an item were as likely to be lost as to be won, the probability of counts at least as far apart as these: the
    /// exact two-sided sign test (McNemar's test).
    pub p: f64,
    /// Mean change of the items' [margins](ItemScore::margin), paired, in nats per byte.
    pub margin_change: Uncertain,
}

impl ItemScore {
    /// How far the right choice lies above the best wrong one, in nats per byte of each: more than 0 if the model gets the
    /// item right.
    pub fn margin(&self) -> f64 {
        self.ahead(|choice| choice.trim_start().len() as f64)
    }

    /// The same for whole choices, in nats: short ones have an advantage.
    pub fn raw_margin(&self) -> f64 {
        self.ahead(|_| 1.0)
    }

    fn ahead(&self, length: fn(&str) -> f64) -> f64 {
        let Item { choices, answer, .. } = &self.item;
        let each = |(choice, likelihood): (&String, &f64)| likelihood / length(choice);
        let each: Vec<f64> = choices.iter().zip(&self.log_likelihoods).map(each).collect();
        let wrong = each.iter().enumerate().filter(|(index, _)| index != answer);
        each[*answer] - wrong.fold(f64::NEG_INFINITY, |best, (_, &value)| best.max(value))
    }
}

impl ItemScores {
    /// The share of items, 0 to 1, whose right choice is the most likely one per byte.
    pub fn accuracy(&self) -> Uncertain {
        Uncertain::mean_of(self.scores.iter().map(|score| right(score.margin())))
    }

    /// The share of items, 0 to 1, whose right choice is the most likely one as a whole.
    pub fn raw_accuracy(&self) -> Uncertain {
        Uncertain::mean_of(self.scores.iter().map(|score| right(score.raw_margin())))
    }

    /// The mean [margin](ItemScore::margin), in nats per byte.
    pub fn margin(&self) -> Uncertain {
        Uncertain::mean_of(self.scores.iter().map(ItemScore::margin))
    }

    /// The scores by kind, in the order in which the kinds come.
    pub(crate) fn by_kind(&self) -> Vec<(&str, Vec<&ItemScore>)> {
        let mut kinds: Vec<(&str, Vec<&ItemScore>)> = Vec::new();
        for score in &self.scores {
            match kinds.iter_mut().find(|(kind, _)| *kind == score.item.kind) {
                Some((_, scores)) => scores.push(score),
                None => kinds.push((&score.item.kind, vec![score])),
            }
        }
        kinds
    }

    /// What this model gets right beside `base`.
    ///
    /// # Errors
    /// Scores of other items, or of the same ones in another order.
    pub fn against(&self, base: &Self) -> Result<ItemComparison> {
        let items = |scores: &Self| scores.scores.iter().map(|score| score.item.clone()).collect::<Vec<_>>();
        if items(self) != items(base) {
            return Err(Error::input("the two models were asked different items")
                .hint("give `score_items` the same items in the same order"));
        }
        let pairs = || self.scores.iter().zip(&base.scores).map(|(score, base)| (score.margin(), base.margin()));
        let changes = pairs().map(|(margin, base)| right(margin) - right(base));
        let count = |wanted: f64| changes.clone().filter(|&change| change == wanted).count();
        let (lost, won) = (count(-1.0), count(1.0));
        Ok(ItemComparison {
            lost,
            won,
            difference: Uncertain::mean_of(changes.clone()),
            p: sign_test(lost, won),
            margin_change: Uncertain::mean_of(pairs().map(|(margin, base)| margin - base)),
        })
    }
}

/// 1 for an item that is right and 0 for one that is wrong; if two choices are equally likely, nothing is decided.
pub(crate) fn right(margin: f64) -> f64 {
    if margin > 0.0 { 1.0 } else { 0.0 }
}

/// The probability that heads and tails come out at least as far apart in `lost + won` throws of a coin.
fn sign_test(lost: usize, won: usize) -> f64 {
    let throws = lost + won;
    // In logarithms, so that thousands of throws do not vanish.
    let mut log_probability = -(throws as f64) * std::f64::consts::LN_2;
    let mut tail = log_probability.exp();
    for heads in 1..=lost.min(won) {
        log_probability += ((throws - heads + 1) as f64 / heads as f64).ln();
        tail += log_probability.exp();
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn score(choices: &[&str], answer: usize, log_likelihoods: &[f64]) -> ItemScore {
        let choices = choices.iter().map(ToString::to_string).collect();
        let item = Item { kind: "kind".to_owned(), prompt: "prompt".to_owned(), choices, answer };
        ItemScore { item, log_likelihoods: log_likelihoods.to_vec() }
    }

    #[test]
    fn a_margin_is_over_the_best_wrong_choice() {
        let long = score(&[" ab", " abcdefgh", "\nabcd"], 1, &[-2.0, -4.0, -8.0]);
        assert_eq!((long.margin(), long.raw_margin()), (-0.5 + 1.0, -4.0 + 2.0));
        let tie = score(&[" ab", " cd"], 0, &[-3.0, -3.0]);
        assert_eq!((tie.margin(), right(tie.margin())), (0.0, 0.0));
    }

    /// By sums of binomial coefficients, in whole numbers.
    #[test]
    fn the_sign_test_is_exact() {
        for lost in 0..40_usize {
            for won in 0..40 {
                let (mut coefficient, mut sum) = (1_u128, 0);
                for heads in 0..=lost.min(won) {
                    sum += coefficient;
                    coefficient = coefficient * (lost + won - heads) as u128 / (heads + 1) as u128;
                }
                let expected = (2.0 * sum as f64 / 2_f64.powi((lost + won) as i32)).min(1.0);
                assert!((sign_test(lost, won) / expected - 1.0).abs() < 1e-9, "{lost}, {won}: {expected}");
            }
        }
        assert!(sign_test(3000, 2000) > 0.0 && sign_test(3000, 2000) < 1e-40);
    }

    proptest! {
        #[test]
        fn the_order_of_choices_does_not_matter(
            likelihoods in prop::collection::vec(-40.0..0.0_f64, 2..6),
            answer in any::<prop::sample::Index>(),
            by in any::<prop::sample::Index>(),
        ) {
            let n = likelihoods.len();
            let choices = &[" a", " bcd", " efghij", " kl", " mnopq"][..n];
            let (answer, by) = (answer.index(n), by.index(n));
            let turned: Vec<usize> = (0..n).map(|k| (k + by) % n).collect();
            let before = score(choices, answer, &likelihoods);
            let names: Vec<&str> = turned.iter().map(|&k| choices[k]).collect();
            let values: Vec<f64> = turned.iter().map(|&k| likelihoods[k]).collect();
            let after = score(&names, (answer + n - by) % n, &values);
            prop_assert_eq!((before.margin(), before.raw_margin()), (after.margin(), after.raw_margin()));
        }
    }
}
