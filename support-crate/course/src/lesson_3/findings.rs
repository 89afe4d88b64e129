//! Sentences about lesson 3's own numbers: claims, each beside whether the numbers bear it out, and summaries. All are
//! about what any run of the same model computes; none is about times.

use quantlab::measure::{Perplexity, QualityComparison, Statistics, Timing};
use quantlab::report::{Estimate, Summary};

use super::{Cut, Evaluation, LossSum, Quality, TextChange, halved, tables::bytes_per_token};
use crate::{Claims, claim};

/// How many texts there are, and how long they are in tokens.
pub fn counts_in_words(lengths: &[usize]) -> String {
    let (shortest, longest) = (lengths.iter().min().unwrap_or(&0), lengths.iter().max().unwrap_or(&0));
    let (texts, tokens) = (lengths.len(), lengths.iter().sum::<usize>());
    format!("{texts} texts, {tokens} tokens\nthe shortest has {shortest}, the longest {longest}")
}

/// What holds of padding; `shares` as [`padding_table`](super::padding_table) has them.
pub fn padding_claims(shares: &[(usize, f64, f64)]) -> Claims {
    claim("a text by itself has no padding", shares.first().map(|row| row.1 == 0.0))
        .that("of the batches sorted by length, less is padding", {
            (shares.len() > 1).then(|| shares[1..].iter().all(|row| row.2 < row.1))
        })
}

/// Whether the learner's evaluation is the library's.
pub fn evaluations_claim(yours: Option<Evaluation>, librarys: &Perplexity) -> Claims {
    claim("both give the same loss, to five decimals, over the same number of tokens", {
        yours.map(|yours| yours.tokens == librarys.tokens && (yours.average_loss - librarys.mean_nll).abs() < 5e-6)
    })
}

/// What holds of batch sizes; `rows` as [`batch_sizes_table`](super::batch_sizes_table) has them.
pub fn batch_sizes_claims(rows: &[(usize, f64, f64)]) -> Claims {
    // NaN if one of them is.
    let spread = |of: fn(&(usize, f64, f64)) -> f64| {
        let values = || rows.iter().map(of);
        let largest = values().max_by(f64::total_cmp)?;
        Some(largest / values().min_by(f64::total_cmp)? - 1.0)
    };
    claim("token-weighted, the perplexity is the same for every batch size, to five digits", {
        spread(|row| row.1).map(|spread| spread < 1e-5)
    })
    .that("the mean of means is another perplexity for another batch size", {
        spread(|row| row.2).map(|spread| spread > 1e-2)
    })
}

/// How many times the right perplexity the mean of means gives in batches of one text.
pub fn bias(rows: &[(usize, f64, f64)]) -> f64 {
    rows.first().map_or(f64::NAN, |(_, right, biased)| biased / right)
}

/// Perplexities with their intervals, each with what was drawn and how often.
pub fn widths_summary(draws: &[(&str, usize, Estimate)]) -> Summary {
    let sentence = |(what, k, Estimate { value, low, high }): &(&str, usize, Estimate)| {
        let width = high / low;
        format!("{k} {what}: perplexity {value:.1} [{low:.1}, {high:.1}], the upper end {width:.2} times the lower one")
    };
    draws.iter().map(sentence).fold(Summary::new("The same texts, as draws of their own and in blocks"), Summary::point)
}

/// What random letters cost the model, beside someone who knows only the alphabet.
pub fn letters_summary(kinds: &[(&str, Perplexity)]) -> Summary {
    let summary = Summary::new("Random letters");
    let Some((_, letters)) = kinds.iter().find(|(name, _)| *name == "random letters") else { return summary };
    let alphabet = 27_f64.powf(bytes_per_token(letters));
    let model = letters.perplexity;
    summary
        .point(format!("perplexity {alphabet:.0} for someone who knows only the alphabet"))
        .point(format!("{model:.0} for the model, {:.2} times that", model / alphabet))
}

/// What holds of windows and strides on a text of `tokens` tokens. `librarys` is the library's loss, in nats per token, in
/// windows of 64 that overlap by half.
pub fn context_claims(cuts: &[Cut], tokens: usize, librarys: f64) -> Claims {
    let of_64 = || cuts.iter().filter(|cut| cut.window == 64).map(|cut| (cut.stride, cut.loss.mean()));
    let falls = |losses: Vec<f64>| (losses.len() > 1).then(|| losses.windows(2).all(|pair| pair[1] < pair[0]));
    claim("every row scores the same tokens", {
        (!cuts.is_empty()).then(|| cuts.iter().all(|cut| cut.loss.tokens == tokens - 1))
    })
    .that("the library finds the same loss for windows of 64 that overlap by half", {
        of_64().find(|(stride, _)| *stride == 32).map(|(_, loss)| (loss - librarys).abs() < 1e-4)
    })
    .that("the loss falls with every wider window", falls(halved(cuts).into_iter().map(|(_, loss)| loss).collect()))
    .that("in windows of 64, it falls with every shorter stride too", falls(of_64().map(|(_, loss)| loss).collect()))
}

/// How many times the perplexity of the widest windows the narrowest ones have, where windows overlap by half.
pub fn context_ratio(cuts: &[Cut]) -> f64 {
    match halved(cuts)[..] {
        [(_, short), .., (_, long)] => (short - long).exp(),
        _ => f64::NAN,
    }
}

/// In how many places a format finds another token the most likely one, in percent.
pub fn other_top_percent(formats: &[(&str, Quality)], name: &str) -> f64 {
    let quality = formats.iter().find(|(other, _)| *other == name);
    quality.map_or(f64::NAN, |(_, quality)| 100.0 * (1.0 - quality.same_top))
}

/// What holds of bfloat16, int8 and noise, in this order. `of_bfloat16` is what the learner found for each text, `librarys`
/// what the library finds for the first two.
pub fn quality_claims(formats: &[(&str, Quality)], of_bfloat16: &[TextChange], librarys: &QualityComparison) -> Claims {
    let first_two = of_bfloat16.iter().take(2).map(TextChange::divergences).collect::<Vec<_>>();
    let yours = first_two.iter().sum::<LossSum>();
    let both = match formats {
        [(_, bfloat16), (_, int8), _] => Some([*bfloat16, *int8]),
        _ => None,
    };
    claim("the library's `compare_quality` finds the same KL divergence of bfloat16, within 1 %", {
        (yours.tokens > 0).then(|| (yours.mean() / librarys.kl_divergence.value - 1.0).abs() < 0.01)
    })
    .that("both formats are told apart from float32 by KL divergence", {
        both.map(|both| both.iter().all(|format| format.above_noise.low > 0.0))
    })
    .that("int8 has more than twice the KL divergence of bfloat16", {
        both.map(|[bfloat16, int8]| int8.divergence.value > 2.0 * bfloat16.divergence.value)
    })
}

/// What stands in a table of models: a number for quality, one for speed, and what they were measured on.
/// `interval` is that of the perplexity, with the texts as draws, if there is one.
pub fn final_report(
    texts: usize,
    quality: &Perplexity,
    interval: Option<Estimate>,
    prompt: &str,
    timing: &Timing,
) -> String {
    let over_texts = interval.map_or_else(String::new, |Estimate { low, high, .. }| {
        format!(" [{low:.1}, {high:.1}] (95%, the texts as draws)")
    });
    let Statistics { median, low, high, n, confidence, .. } = timing.runs.latency_s;
    [
        timing.run.to_string(),
        format!("{texts} texts, {} tokens, each text by itself", quality.tokens),
        format!("Average loss: {:.4} nats per token", quality.mean_nll),
        format!("Final perplexity: {:.2}{over_texts}", quality.perplexity),
        format!("{} new tokens after {prompt:?}, median of {n} runs", timing.token_ms.len()),
        format!("Latency     : {median:.3} s [{low:.4}, {high:.4}] ({:.0}%)", 100.0 * confidence),
        format!("Throughput  : {:.1} tokens/s, the prompt's time included", timing.runs.tokens_per_s.median),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_nothing_was_measured_nothing_is_claimed() {
        for claims in [padding_claims(&[]), batch_sizes_claims(&[]), context_claims(&[], 9, f64::NAN)] {
            assert!(claims.hold() && !claims.to_string().contains('+'), "{claims}");
        }
        assert!(bias(&[]).is_nan() && context_ratio(&[]).is_nan() && other_top_percent(&[], "int8").is_nan());
    }

    #[test]
    fn what_depends_on_the_batch_size_is_not_the_right_average() {
        let rows = [(1, 40.0, 100.0), (4, 40.0, 60.0), (16, 40.0, 45.0)];
        assert!(batch_sizes_claims(&rows).hold() && (bias(&rows) - 2.5).abs() < 1e-12);
        let swapped = rows.map(|(size, right, biased)| (size, biased, right));
        assert_eq!(batch_sizes_claims(&swapped).to_string().matches("not so here").count(), 2);
        let without_some = [(1, 40.0, 100.0), (4, f64::NAN, 60.0), (16, 40.0, f64::NAN)];
        assert_eq!(batch_sizes_claims(&without_some).to_string().matches("not so here").count(), 2);
        assert!(padding_claims(&[(1, 0.0, 0.0), (4, 0.5, 0.1)]).hold());
        assert!(!padding_claims(&[(1, 0.0, 0.0), (4, 0.1, 0.5)]).hold());
    }

    #[test]
    fn more_context_must_lower_the_loss() {
        let cut = |(window, stride, mean): (usize, usize, f64)| Cut {
            window,
            stride,
            read: 0,
            loss: LossSum { nll: mean * 9.0, tokens: 9 },
        };
        let rows = [(16, 8, 4.0), (64, 63, 3.5), (64, 32, 3.0), (64, 16, 2.9), (128, 64, 2.5)];
        let cuts = rows.map(cut);
        assert!(context_claims(&cuts, 10, 3.0).hold(), "{}", context_claims(&cuts, 10, 3.0));
        assert!((context_ratio(&cuts) - 1.5_f64.exp()).abs() < 1e-12);
        let mut other = rows;
        (other[2].2, other[4].2) = (4.5, 4.6);
        let claims = context_claims(&other.map(cut), 11, 3.0).to_string();
        assert_eq!(claims.matches("not so here").count(), 4, "{claims}");
    }
}
