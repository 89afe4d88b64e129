//! `sequence_loss`: the loss of one row of a batch.

use std::f64::consts::LN_2;

use super::{LossSum, compare, nll};
use crate::course::{Check, Complaint, Score, ask};
use crate::model::Logits;

const VOCAB_SIZE: usize = 7;
const ROWS: usize = 4;
const LEN: usize = 6;
/// Token 0, which padding most often has, is among them, and each token but that one comes once.
const IDS: [u32; LEN] = [3, 1, 6, 0, 0, 5];

const HINTS: [&str; 3] = [
    "The logits at position 4 were computed from the tokens 0 to 4. Which token do they predict?",
    "Go through the positions from 1 on. The token there counts if it is text and the one before it is text too; the \
     logits that predict it stand one position earlier, in the row of this text.",
    "`for t in 1..ids.len() { if mask[t - 1] && mask[t] { sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]); \
     sum.tokens += 1; } }`",
];

/// Checks `sequence_loss(logits, row, ids, mask)`.
pub fn check_sequence_loss(yours: impl Fn(&Logits, usize, &[u32], &[bool]) -> LossSum) -> Score {
    let sum = |row: usize, text: std::ops::Range<usize>| {
        let values = (0..ROWS).flat_map(|row| (0..LEN).flat_map(move |t| logits_at(row, t))).collect();
        let logits = Logits::new(values, ROWS, VOCAB_SIZE)?;
        let mask: [bool; LEN] = std::array::from_fn(|t| text.contains(&t));
        ask(|| Ok(yours(&logits, row, &IDS, &mask)))
    };
    let whole = sum(0, 0..LEN);
    let other_rows = (1..ROWS).map(|row| Ok((row, sum(row, 0..LEN)?))).collect::<Result<Vec<_>, Complaint>>();
    let right = (2..LEN).map(|len| Ok((len, sum(1, 0..len)?))).collect::<Result<Vec<_>, Complaint>>();
    let left = (2..LEN).map(|len| Ok((len, sum(1, LEN - len..LEN)?))).collect::<Result<Vec<_>, Complaint>>();
    let shortest = [sum(0, 0..1), sum(0, LEN - 1..LEN), sum(0, 0..0)];
    Check::new("sequence_loss", HINTS)
        .about(&whole, "each token is predicted by the logits before it, and the losses are added up", is_shifted_sum)
        .about(&whole, "six tokens make five predictions", |sum| counted(sum.tokens))
        .about(&other_rows, "it reads the logits of its own row", |sums| sums.iter().try_for_each(reads_own_row))
        .about(&right, "padding on the right is left out", |sums| sums.iter().try_for_each(skips_padding_right))
        .about(&left, "padding on the left is left out, and the first token after it", |sums| {
            sums.iter().try_for_each(skips_padding_left)
        })
        .point("a text of one token has nothing to predict", shortest.into_iter().try_for_each(|sum| is_nothing(sum?)))
        .score()
}

/// The logits (V) of a row at a position, different everywhere. Those of the row before the last are so far apart that
/// a token can cost hundreds of nats, those of the last row so high that `exp` of them is infinite.
fn logits_at(row: usize, position: usize) -> [f32; VOCAB_SIZE] {
    let high = if row == ROWS - 1 { 1000.0 } else { 0.0 };
    let step = if row == ROWS - 2 { 20.0 } else { 0.2 };
    std::array::from_fn(|v| {
        let i = (row * LEN + position) * VOCAB_SIZE + v;
        high + ((i * i * 37 + i * 11) % 29) as f32 * step
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
    let unshifted = "the logits at a position predict the token after it; you compare them with the token that the model \
                     has just read";
    let averaged = "add the losses up, and take the mean only when all texts are there";
    let mistakes = [
        (loss(0, (0..6).map(|t| (t, t))), unshifted),
        (loss(0, (1..6).map(|t| (t, t))), unshifted),
        (loss(0, (0..5).map(|t| (t, t))), unshifted),
        (loss(0, (0..5).map(|t| (t + 1, t))), "the shift goes the wrong way: logits at t - 1 predict the token at t"),
        (shifted(0, 1, 5), "the last token is missing: the logits before it predict it"),
        (shifted(0, 2, 6), "the second token is missing: the logits of the first token predict it"),
        (expected / 5.0, averaged),
        (expected / 6.0, averaged),
        (-expected, "the sign is wrong: a loss is minus the log-probability, and never negative"),
        (expected / LN_2, "this is in bits; count in nats, with the natural logarithm"),
    ];
    compare("`nll` of a text without padding", sum.nll, expected, &mistakes)
}

fn reads_own_row(&(row, sum): &(usize, LossSum)) -> Result<(), Complaint> {
    if row == ROWS - 1 && !sum.nll.is_finite() {
        return wrong!(
            "`nll` in row {row}, whose logits are all above 1000, is {}: exp of them is infinite. Your `log_softmax_at` can \
             do it",
            sum.nll
        );
    }
    let other = "these are the logits of another text; use `logits.row(row, ...)`";
    let mistakes: Vec<(f64, &str)> =
        (0..ROWS).filter(|&other| other != row).map(|of| (shifted(of, 1, LEN), other)).collect();
    compare(&format!("`nll` in row {row}"), sum.nll, shifted(row, 1, LEN), &mistakes)
}

fn skips_padding_right(&(len, sum): &(usize, LossSum)) -> Result<(), Complaint> {
    let what = format!("{len} tokens before {} of padding", LEN - len);
    let mistakes = [
        (shifted(1, 1, LEN), "the padding was scored as if somebody had written it"),
        (
            shifted(1, 1, len + 1),
            "the first padding token was scored: after the last token of a text nothing is predicted",
        ),
        (shifted(1, 1, len - 1), "the last token of the text is missing"),
    ];
    compare(&format!("`nll` of {what}"), sum.nll, shifted(1, 1, len), &mistakes)?;
    of(len - 1, sum.tokens, &what)
}

fn skips_padding_left(&(len, sum): &(usize, LossSum)) -> Result<(), Complaint> {
    let (first, what) = (LEN - len, format!("{len} tokens after {} of padding", LEN - len));
    let mistakes = [
        (shifted(1, 1, LEN), "the padding was scored as if somebody had written it"),
        (
            shifted(1, first, LEN),
            "the first token after the padding was scored, but its guess was made from padding: nothing stands before it",
        ),
        (shifted(1, 1, len), "the text was looked for at the start of the row; the mask says where it stands"),
        (
            loss(1, (1..len).map(|t| (t - 1, first + t))),
            "the text was cut out of its row, but its logits were read at the start of the row; they stand where the text does",
        ),
    ];
    compare(&format!("`nll` of {what}"), sum.nll, shifted(1, first + 1, LEN), &mistakes)?;
    of(len - 1, sum.tokens, &what)
}

fn counted(tokens: usize) -> Result<(), Complaint> {
    match tokens {
        6 => wrong!(
            "`tokens` is 6 for six tokens: the first one has nothing before it, so it was not predicted. Counting it makes \
             the loss look smaller than it is",
        ),
        tokens => of(5, tokens, "six tokens"),
    }
}

fn of(expected: usize, tokens: usize, what: &str) -> Result<(), Complaint> {
    Complaint::unless(tokens == expected, || {
        format!("`tokens` is {tokens} for {what}, of which {expected} were predicted")
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
    fn a_token_has_another_loss_at_every_position() {
        let positions = (0..ROWS).flat_map(|row| (0..LEN).map(move |t| (row, t)));
        let mut losses: Vec<f64> = positions.map(|(row, t)| loss(row, [(t, 5)])).collect();
        losses.sort_by(f64::total_cmp);
        assert!(losses.windows(2).all(|pair| pair[1] - pair[0] > 1e-3), "{losses:?}");
    }
}
