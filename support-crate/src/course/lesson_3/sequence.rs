//! `sequence_loss`: the loss of one row of a batch.

use std::f64::consts::LN_2;

use super::{LossSum, compare, nll};
use crate::course::{Check, Complaint, Score, ask};
use crate::model::Logits;

const VOCAB_SIZE: usize = 7;
const IDS: [u32; 6] = [3, 1, 6, 0, 0, 5];

const HINTS: [&str; 3] = [
    "The logits at position 4 were computed from the tokens 0 to 4. Which token are they a guess about?",
    "Walk over the positions from 1. The token there counts if it is text and the one before it is text too; the logits \
     that predict it stand one position earlier, in the row of this text.",
    "`for t in 1..ids.len() { if mask[t - 1] && mask[t] { sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]); \
     sum.tokens += 1; } }`",
];

/// Checks `sequence_loss(logits, row, ids, mask)`.
pub fn check_sequence_loss(yours: impl Fn(&Logits, usize, &[u32], &[bool]) -> LossSum) -> Score {
    let sum = |row: usize, mask: [bool; 6]| {
        let values = (0..2).flat_map(|row| (0..IDS.len()).flat_map(move |t| logits_at(row, t))).collect();
        let logits = Logits::new(values, 2, VOCAB_SIZE)?;
        ask(|| Ok(yours(&logits, row, &IDS, &mask)))
    };
    let (whole, other_row) = (sum(0, [true; 6]), sum(1, [true; 6]));
    let right = sum(1, [true, true, true, true, false, false]);
    let left = sum(1, [false, false, true, true, true, true]);
    let shortest = [
        sum(0, [true, false, false, false, false, false]),
        sum(0, [false, false, false, false, false, true]),
        sum(0, [false; 6]),
    ];
    Check::new("sequence_loss", HINTS)
        .about(&whole, "each token is predicted by the logits before it, and its loss added up", is_shifted_sum)
        .about(&whole, "six tokens make five predictions", |sum| counted(sum.tokens))
        .about(&other_row, "it reads the logits of its own row", reads_own_row)
        .about(&right, "padding on the right is left out", skips_padding_right)
        .about(&left, "padding on the left is left out, and the first token after it", skips_padding_left)
        .point("a text of one token has nothing to predict", shortest.into_iter().try_for_each(|sum| is_nothing(sum?)))
        .score()
}

/// The logits (V) of a row at a position, different everywhere.
fn logits_at(row: usize, position: usize) -> [f32; VOCAB_SIZE] {
    std::array::from_fn(|v| {
        let i = (row * IDS.len() + position) * VOCAB_SIZE + v;
        ((i * i * 37 + i * 11) % 29) as f32 * 0.2
    })
}

/// Losses of tokens by the logits at other positions, added up.
fn loss(row: usize, pairs: impl IntoIterator<Item = (usize, usize)>) -> f64 {
    pairs.into_iter().map(|(position, token)| nll(&logits_at(row, position), IDS[token])).sum()
}

/// The tokens `first..end`, each by the logits before it.
fn shifted(row: usize, first: usize, end: usize) -> f64 {
    loss(row, (first..end).map(|t| (t - 1, t)))
}

fn is_shifted_sum(sum: &LossSum) -> Result<(), Complaint> {
    let expected = shifted(0, 1, 6);
    let unshifted = "the logits at a position are a guess about the token after it; yours are compared with the token \
                     that the model has just read";
    let mistakes = [
        (loss(0, (0..6).map(|t| (t, t))), unshifted),
        (loss(0, (1..6).map(|t| (t, t))), unshifted),
        (loss(0, (0..5).map(|t| (t, t))), unshifted),
        (loss(0, (0..5).map(|t| (t + 1, t))), "the shift goes the other way: logits at t - 1 predict the token at t"),
        (expected / 5.0, "add the losses up and leave the mean to the end, when all texts are there"),
        (expected / 6.0, "add the losses up and leave the mean to the end, when all texts are there"),
        (-expected, "the sign is turned: a loss is minus the log-probability, and never negative"),
        (expected / LN_2, "this is in bits; count in nats, with the natural logarithm"),
    ];
    compare("`nll` of a text without padding", sum.nll, expected, &mistakes)
}

fn reads_own_row(sum: &LossSum) -> Result<(), Complaint> {
    let other = "this is the loss by the logits of row 0, another text's: use `logits.row(row, ...)`";
    compare("`nll` in row 1", sum.nll, shifted(1, 1, 6), &[(shifted(0, 1, 6), other)])
}

fn skips_padding_right(sum: &LossSum) -> Result<(), Complaint> {
    let mistakes = [
        (shifted(1, 1, 6), "the padding was scored as if somebody had written it"),
        (shifted(1, 1, 5), "the first padding token was scored: the text's last token predicts nothing here"),
    ];
    compare("`nll` of four tokens before padding", sum.nll, shifted(1, 1, 4), &mistakes)?;
    of(3, sum.tokens, "four tokens before padding")
}

fn skips_padding_left(sum: &LossSum) -> Result<(), Complaint> {
    let mistakes = [
        (shifted(1, 1, 6), "the padding was scored as if somebody had written it"),
        (
            shifted(1, 2, 6),
            "the first token after the padding was scored, but nothing stands before it: its guess was made from padding",
        ),
    ];
    compare("`nll` of four tokens after padding", sum.nll, shifted(1, 3, 6), &mistakes)?;
    of(3, sum.tokens, "four tokens after padding")
}

fn counted(tokens: usize) -> Result<(), Complaint> {
    match tokens {
        6 => Err(Complaint::wrong(
            "`tokens` is 6 for six tokens: the first one has nothing before it, so nobody predicted it. Counting it makes \
             the loss look smaller than it is",
        )),
        tokens => of(5, tokens, "six tokens"),
    }
}

fn of(expected: usize, tokens: usize, what: &str) -> Result<(), Complaint> {
    Complaint::unless(tokens == expected, || {
        format!("`tokens` is {tokens} for {what}: {expected} of them were predicted")
    })
}

fn is_nothing(sum: LossSum) -> Result<(), Complaint> {
    Complaint::unless(sum == LossSum::default(), || {
        format!(
            "a text of one token, or of none, gives {} nats over {} tokens; nothing was predicted, so both are 0",
            sum.nll, sum.tokens
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_s_loss_is_another_one_at_every_position() {
        let positions = (0..2).flat_map(|row| (0..IDS.len()).map(move |t| (row, t)));
        let mut losses: Vec<f64> = positions.map(|(row, t)| loss(row, [(t, 5)])).collect();
        losses.sort_by(f64::total_cmp);
        assert!(losses.windows(2).all(|pair| pair[1] - pair[0] > 1e-3), "{losses:?}");
    }
}
