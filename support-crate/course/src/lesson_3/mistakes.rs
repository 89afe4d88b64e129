//! Mistakes that raise no error: the same corpus, evaluated rightly and in six wrong ways.

use quantlab::error::Result;
use quantlab::model::{Loaded, LogitPositions, Logits, TokenBatch};

use super::{LossSum, PaddedBatch, nll};

/// Texts that are read at once.
const BATCH_SIZE: usize = 4;

/// The loss of one text, computed rightly and with three mistakes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScoredText {
    /// Each token by the logits before it, padding left out.
    pub right: LossSum,
    /// The padding scored as if it were text.
    pub padding_counted: LossSum,
    /// Each token by the logits at its own position.
    pub not_shifted: LossSum,
    /// Each token by the logits two positions before it.
    pub shifted_twice: LossSum,
}

/// Reads texts in batches of four, and scores each in four ways, three of them wrong. `pad` makes a batch of ids, `score`
/// the loss of one of its rows.
///
/// # Errors
/// Those of tokenizer and model.
pub fn score_texts(
    loaded: &Loaded,
    texts: &[&str],
    pad: impl Fn(&[Vec<u32>]) -> PaddedBatch,
    score: impl Fn(&Logits, usize, &[u32], &[bool]) -> LossSum,
) -> Result<Vec<ScoredText>> {
    let mut scored = Vec::with_capacity(texts.len());
    for texts in texts.chunks(BATCH_SIZE) {
        let ids = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<Vec<_>>>()?;
        let PaddedBatch { ids, mask } = pad(&ids);
        let batch = TokenBatch::new(&ids)?.with_attention_mask(&mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        scored.extend(ids.iter().zip(&mask).enumerate().map(|(row, (ids, mask))| ScoredText {
            right: score(&logits, row, ids, mask),
            padding_counted: score(&logits, row, ids, &vec![true; ids.len()]),
            not_shifted: shifted_by(0, &logits, row, ids, mask),
            shifted_twice: shifted_by(2, &logits, row, ids, mask),
        }));
    }
    Ok(scored)
}

/// The loss of a row's text, each token by the logits this many tokens before it.
fn shifted_by(by: usize, logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let text: Vec<usize> = (0..ids.len()).filter(|&t| mask[t]).collect();
    let pairs = text.iter().zip(text.iter().skip(by));
    let nll = pairs.map(|(&at, &t)| nll(logits.row(row, at), ids[t])).sum();
    LossSum { nll, tokens: text.len().saturating_sub(by) }
}

/// The perplexity of a corpus, rightly and in six wrong ways; nothing of no texts. `mean_of_means` is a mean over batches.
pub fn ways(scored: &[ScoredText], mean_of_means: impl Fn(&[LossSum], usize) -> f64) -> Vec<(&'static str, f64)> {
    if scored.is_empty() {
        return Vec::new();
    }
    let perplexity = |sum: fn(&ScoredText) -> &LossSum| scored.iter().map(sum).sum::<LossSum>().mean().exp();
    let losses: Vec<LossSum> = scored.iter().map(|text| text.right).collect();
    let all: LossSum = losses.iter().sum();
    let each: Vec<f64> = losses.iter().filter(|loss| loss.tokens > 0).map(|loss| loss.mean().exp()).collect();
    let first_counted = LossSum { tokens: all.tokens + scored.len(), ..all };
    vec![
        ("right: token-weighted, shifted, masked", all.mean().exp()),
        ("mean of the texts' mean losses", mean_of_means(&losses, 1).exp()),
        ("mean of the texts' perplexities", each.iter().sum::<f64>() / each.len() as f64),
        ("labels not shifted", perplexity(|text| &text.not_shifted)),
        ("labels shifted twice", perplexity(|text| &text.shifted_twice)),
        ("padding counted as text", perplexity(|text| &text.padding_counted)),
        ("first tokens counted, though not predicted", first_counted.mean().exp()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_shifted_within_the_text_on_whichever_side_padding_stands() {
        // A vocabulary of two: the logits at position t are (t, 0).
        let logits = Logits::new((0..4).flat_map(|t| [t as f32, 0.0]).collect(), 1, 2).unwrap();
        let ids = [1, 0, 0, 1];
        let of = |by, mask: [bool; 4]| shifted_by(by, &logits, 0, &ids, &mask);
        let loss = |at: usize, id: u32| nll(&[at as f32, 0.0], id);
        let close = |sum: LossSum, nll: f64, tokens: usize| (sum.nll - nll).abs() < 1e-12 && sum.tokens == tokens;
        let [right, left] = [[true, true, true, false], [false, true, true, true]];
        assert!(close(of(0, right), loss(0, 1) + loss(1, 0) + loss(2, 0), 3));
        assert!(close(of(2, right), loss(0, 0), 1) && close(of(2, left), loss(1, 1), 1));
        assert!(close(of(2, [true, false, false, false]), 0.0, 0));
    }

    #[test]
    fn there_are_six_wrong_ways() {
        let [right, other] = [LossSum { nll: 8.0, tokens: 4 }, LossSum { nll: 10.0, tokens: 2 }];
        let text = |right| ScoredText { right, padding_counted: other, not_shifted: other, shifted_twice: other };
        let found = ways(&[text(right), text(LossSum::default())], |losses, size| (losses.len() * size) as f64);
        let values: Vec<f64> = found.iter().map(|(_, perplexity)| perplexity.ln()).collect();
        let expected = [2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 8.0 / 6.0];
        assert!(values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{values:?}");
        assert!(ways(&[], |_, _| f64::NAN).is_empty());
    }
}
