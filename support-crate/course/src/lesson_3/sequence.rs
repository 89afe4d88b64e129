//! `sequence_loss`: the loss of one row of a batch.

use std::f64::consts::LN_2;
use std::ops::Range;

use rand::Rng;

use quantlab::model::Logits;

use super::{LossSum, is_close, nll, shown};
use crate::cases::random;
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, Verdict, ask};

const VOCAB_SIZE: usize = 7;
const ROWS: usize = 4;
/// The logits of this row are so far apart that a token can cost hundreds of nats.
const FAR_APART: usize = 2;
/// Those of this row are so high that `exp` of them is infinite.
const HIGH: usize = 3;

const HINTS: [&str; 3] = [
    "The logits at position 4 were computed from the tokens 0 to 4. Which token do they predict?",
    "Go through the positions from 1 on. The token there counts if it is text and the one before it is text too; the \
     logits that predict it stand one position earlier, in the row of this text.",
    "`for t in 1..ids.len() { if mask[t - 1] && mask[t] { sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]); \
     sum.tokens += 1; } }`",
];

type Answer<'a> = dyn Fn(&Logits, usize, &[u32], &[bool]) -> LossSum + 'a;

/// Checks `sequence_loss(logits, row, ids, mask)`.
pub fn check_sequence_loss(yours: fn(&Logits, usize, &[u32], &[bool]) -> LossSum) -> Score {
    // The lengths of whole rows, then of texts with padding around them; each in some row of the batch.
    let whole = trials(&yours, |len| std::iter::once(0..len).collect(), &[0]);
    let other_rows = trials(&yours, |len| std::iter::once(0..len).collect(), &[1, FAR_APART, HIGH]);
    let right = trials(&yours, |len| (2..len).step_by(1 + len / 5).map(|end| 0..end).collect(), &[1, 2]);
    let left = trials(&yours, |len| (1..len - 1).step_by(1 + len / 5).map(|start| start..len).collect(), &[1, 2]);
    let shortest = trials(&yours, |len| vec![0..1, len - 1..len, 0..0], &[0, 1]);
    Score::new("sequence_loss", HINTS)
        .about(&whole, "each token is predicted by the logits before it, and the losses are added up", |trials| {
            adds_up(trials)
        })
        .about(&whole, "six tokens make five predictions", |trials| trials.iter().try_for_each(Trial::counts))
        .about(&other_rows, "it reads the logits of its own row", |trials| {
            trials.iter().try_for_each(Trial::is_finite)?;
            adds_up(trials)
        })
        .about(&right, "padding on the right is left out", |trials| skips_padding(trials))
        .about(&left, "padding on the left is left out, and the first token after it", |trials| skips_padding(trials))
        .about(&shortest, "a text of one token has nothing to predict", |trials| {
            trials.iter().try_for_each(Trial::is_nothing)
        })
}

/// Rows of ids. Token 0, the most common padding token, is a token like the others.
fn ids() -> Vec<Vec<u32>> {
    let mut rng = random(36);
    let mut any = |len: usize, ids: u32| (0..len).map(|_| rng.random_range(0..ids)).collect();
    vec![
        // Each token but 0 comes once.
        vec![3, 1, 6, 0, 0, 5],
        // The last token occurs twice; then every token does.
        vec![2, 4, 1, 6, 3, 3],
        vec![5, 5, 0, 0, 4, 4, 5, 5],
        vec![4; 5],
        vec![0, 6, 0],
        any(19, VOCAB_SIZE as u32),
        any(150, VOCAB_SIZE as u32),
        any(40, 2),
    ]
}

/// The answer's sums: for each row of ids, with each part of it as text, in each row of the batch.
fn trials(
    yours: &Answer<'_>,
    texts: impl Fn(usize) -> Vec<Range<usize>>,
    rows: &[usize],
) -> Result<Vec<Trial>, Complaint> {
    let mut trials = Vec::new();
    for ids in ids() {
        let values = (0..ROWS).flat_map(|row| (0..ids.len()).flat_map(move |t| logits_at(row, t))).collect();
        let logits = Logits::new(values, ROWS, VOCAB_SIZE)?;
        for text in texts(ids.len()) {
            let mask: Vec<bool> = (0..ids.len()).map(|t| text.contains(&t)).collect();
            for &row in rows {
                let sum = ask(|| Ok(yours(&logits, row, &ids, &mask)))?;
                trials.push(Trial { row, ids: ids.clone(), text: text.clone(), sum });
            }
        }
    }
    Ok(trials)
}

/// The logits (V) of a row at a position, different everywhere.
fn logits_at(row: usize, position: usize) -> [f32; VOCAB_SIZE] {
    let high = if row == HIGH { 1000.0 } else { 0.0 };
    let step = if row == FAR_APART { 0.6 } else { 0.006 };
    std::array::from_fn(|v| {
        let i = (row * 253 + position) * VOCAB_SIZE + v;
        high + ((i * i * 37 + i * 11) % 1013) as f32 * step
    })
}

/// A text in a row of a batch, and what the answer makes of it.
struct Trial {
    row: usize,
    ids: Vec<u32>,
    text: Range<usize>,
    sum: LossSum,
}

impl Trial {
    /// Losses of tokens by the logits at other positions, added up.
    fn loss(&self, pairs: impl IntoIterator<Item = (usize, usize)>) -> f64 {
        self.loss_in(self.row, pairs)
    }

    fn loss_in(&self, row: usize, pairs: impl IntoIterator<Item = (usize, usize)>) -> f64 {
        let inside = pairs.into_iter().filter(|&(position, token)| position.max(token) < self.ids.len());
        inside.map(|(position, token)| nll(&logits_at(row, position), self.ids[token])).sum()
    }

    /// The loss of some tokens, each by the logits before it.
    fn shifted(&self, tokens: impl IntoIterator<Item = usize>) -> f64 {
        self.loss(tokens.into_iter().map(|t| (t - 1, t)))
    }

    fn named(&self) -> String {
        let (n, len, start) = (self.text.len(), self.ids.len(), self.text.start);
        let ids = shown(&self.ids);
        match (start, len - self.text.end) {
            (0, 0) => format!("a text without padding, {ids}"),
            (0, after) => format!("{n} tokens before {after} of padding, {ids}"),
            (before, _) => format!("{n} tokens after {before} of padding, {ids}"),
        }
    }

    fn figure(&self) -> Figure {
        let Range { start, end } = self.text;
        let (n, len, ids) = (self.text.len(), self.ids.len(), &self.ids);
        let (all, predicted) = (|| start..end, || start + 1..end);
        let expected = self.shifted(predicted());
        let is_first = |t: usize| !ids[start..t].contains(&ids[t]);
        let unshifted = "the logits at a position predict the token after it; you compare them with the token that the \
                         model has just read";
        let averaged = "add the losses up, and take the mean only when all texts are there";
        let padding = "the padding was scored as if somebody had written it";
        let mut mistakes = vec![
            (self.loss(all().map(|t| (t, t))), unshifted),
            (self.loss(predicted().map(|t| (t, t))), unshifted),
            (self.loss((start..end.saturating_sub(1)).map(|t| (t, t))), unshifted),
            (
                self.loss((start..end.saturating_sub(1)).map(|t| (t + 1, t))),
                "the shift goes the wrong way: logits at t - 1 predict the token at t",
            ),
            (
                self.loss((start + 2..end).map(|t| (t - 2, t))),
                "it is shifted twice: the logits right before a token predict it, not those two places before",
            ),
            (
                self.shifted(start + 1..end.saturating_sub(1)),
                "the last token is missing: the logits before it predict it",
            ),
            (self.shifted(start + 2..end), "the second token is missing: the logits of the first token predict it"),
            (
                self.shifted(predicted().filter(|&t| ids[t] != ids[t - 1])),
                "a token is missing where the same one stands before it: text may repeat itself, and each place counts",
            ),
            (
                self.shifted(predicted().filter(|&t| is_first(t))),
                "a token that comes again is missing: each place counts, whatever stands there",
            ),
            (
                self.shifted(predicted().filter(|&t| ids[t] != 0)),
                "token 0 is missing: the mask says what is padding, not the id",
            ),
            (expected / (n - n.min(1)) as f64, averaged),
            (expected / n as f64, averaged),
            (-expected, "the sign is wrong: a loss is minus the log-probability, and never negative"),
            (expected / LN_2, "this is in bits; count in nats, with the natural logarithm"),
            (self.shifted(1..len), padding),
        ];
        if start > 0 {
            mistakes.extend([
                (
                    self.shifted(all()),
                    "the first token after the padding was scored, but its guess was made from padding: nothing stands \
                     before it",
                ),
                (self.shifted(1..n), "the text was looked for at the start of the row; the mask says where it stands"),
                (
                    self.loss((1..n).map(|t| (t - 1, start + t))),
                    "the text was cut out of its row, but its logits were read at the start of the row; they stand where \
                     the text does",
                ),
            ]);
        }
        if end < len {
            mistakes.push((
                self.shifted(start + 1..end + 1),
                "the first padding token was scored: after the last token of a text nothing is predicted",
            ));
        }
        let others = (0..ROWS).filter(|&row| row != self.row);
        mistakes.extend(others.map(|row| {
            (
                self.loss_in(row, predicted().map(|t| (t - 1, t))),
                "these are the logits of another text; use `logits.row(row, ...)`",
            )
        }));
        Figure { what: format!("`nll` in row {} of {}", self.row, self.named()), got: self.sum.nll, expected, mistakes }
    }

    fn is_finite(&self) -> Verdict {
        let nll = self.sum.nll;
        Complaint::unless(self.row != HIGH || nll.is_finite(), || {
            format!(
                "`nll` in row {HIGH}, whose logits are all above 1000, is {nll}: exp of them is infinite. Your \
                 `log_softmax_at` can handle it"
            )
        })
    }

    fn counts(&self) -> Verdict {
        let (n, tokens) = (self.text.len(), self.sum.tokens);
        Complaint::unless(tokens + 1 == n, || {
            let why = if tokens == n {
                ": the first one has nothing before it, so it was not predicted. Counting it makes the loss look smaller \
                 than it is"
            } else {
                ""
            };
            format!("`tokens` is {tokens} for {}, of which {} were predicted{why}", self.named(), n - 1)
        })
    }

    fn is_nothing(&self) -> Verdict {
        let LossSum { nll, tokens } = self.sum;
        Complaint::unless(self.sum == LossSum::default(), || {
            format!(
                "a text of one token, or of none, gives {nll} nats over {tokens} tokens; nothing was predicted, so both \
                 are 0"
            )
        })
    }
}

fn adds_up(trials: &[Trial]) -> Verdict {
    all_right(&trials.iter().map(Trial::figure).collect::<Vec<_>>(), is_close)
}

fn skips_padding(trials: &[Trial]) -> Verdict {
    adds_up(trials)?;
    trials.iter().try_for_each(Trial::counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_another_loss_at_every_position() {
        let positions = (0..ROWS).flat_map(|row| (0..150).map(move |t| (row, t)));
        let mut losses: Vec<f64> = positions.map(|(row, t)| nll(&logits_at(row, t), 5)).collect();
        losses.sort_by(f64::total_cmp);
        losses.dedup_by(|a, b| (*a - *b).abs() < 1e-6);
        assert!(losses.len() > ROWS * 130, "{}", losses.len());
    }
}
