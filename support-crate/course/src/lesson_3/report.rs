//! What a comparison of formats says, in words and in a table.

use quantlab::error::{Error, Result};
use quantlab::measure::{QualityComparison, RunInfo, Statistics, Timing};
use quantlab::model::Loaded;
use quantlab::report::{Estimate, Summary, Table};

/// What perplexity and KL divergence say about each format, compared with the base model, in a sentence for each. The last
/// format is the noise that the others are held against.
///
/// # Errors
/// No formats.
pub fn quality_in_words(formats: &[(&str, QualityComparison)]) -> Result<Summary> {
    let Some(((noise_name, noise), formats)) = formats.split_last() else {
        return Err(Error::input("there is no format to report on").hint("compare at least one with the base model"));
    };
    let figures = |quality: &QualityComparison| {
        let [ratio, kl] = [quality.perplexity_ratio, quality.kl_divergence].map(Estimate::from);
        (ratio, kl, 100.0 * (1.0 - quality.same_top_token.value))
    };
    let (noise_ratio, noise_kl, noise_tokens) = figures(noise);
    let told = |is_apart: bool| if is_apart { "told apart" } else { "not told apart" };
    let sentence = |(name, quality): &(&str, QualityComparison)| {
        let (ratio, kl, tokens) = figures(quality);
        format!(
            "{name}: by perplexity {}, ratio {:.5} [{:.5}, {:.5}]; by KL divergence {}, {:.1e} [{:.1e}, {:.1e}] nats. \
             Another top token in {tokens:.2} % of places.",
            told(ratio.high < noise_ratio.low || noise_ratio.high < ratio.low),
            ratio.value,
            ratio.low,
            ratio.high,
            told(noise_kl.high < kl.low),
            kl.value,
            kl.low,
            kl.high
        )
    };
    let summary = formats
        .iter()
        .map(sentence)
        .fold(Summary::new(format!("Further from the base model than {noise_name}, which is noise?")), Summary::point);
    Ok(summary.point(format!(
        "{noise_name}, which is noise: ratio {:.7} [{:.7}, {:.7}], KL divergence {:.1e} nats, another top token in \
         {noise_tokens:.2} % of places.",
        noise_ratio.value, noise_ratio.low, noise_ratio.high, noise_kl.value
    )))
}

/// Models that were timed in turn, each beside the first one: their times, how many times as fast each is (the median over
/// the rounds, so that what slows a whole round down cancels), and how many times the bytes of weights alone would give.
///
/// # Errors
/// No models; models with different numbers of runs.
pub fn speed_against_first(models: &[(&str, &Loaded, &Timing)]) -> Result<Table> {
    let Some((_, first_model, first)) = models.first() else {
        return Err(Error::input("there are no models").hint("give at least one with its timing"));
    };
    let bytes = |loaded: &Loaded| loaded.model.info().bytes_per_token as f64;
    let runs = || models.iter().map(|(_, _, timing)| &timing.runs);
    let times = runs().map(|runs| first.runs.ratio_to(runs)).collect::<Result<Vec<_>>>()?;
    let Statistics { n, confidence, .. } = first.runs.latency_s;
    Ok(Table::new("Generating, in turn")
        .column("format", "", models.iter().map(|(name, _, _)| *name))
        .column("latency", "s", runs().map(|runs| runs.latency_s))
        .column("throughput", "tokens/s", runs().map(|runs| runs.tokens_per_s))
        .column("per token", "ms", runs().map(|runs| runs.per_token_ms))
        .column("times as fast", "", times)
        .column("by its bytes", "", models.iter().map(|(_, loaded, _)| bytes(first_model) / bytes(loaded)))
        .decimals("by its bytes", 2)
        .note(format!("{} tokens of prompt, {} new ones", first.prompt_tokens, first.token_ms.len()))
        .note(RunInfo::of_all(models.iter().map(|(_, _, timing)| &timing.run)))
        .note(format!(
            "medians of {n} runs in turn; each interval holds the median with {:.0} % confidence",
            100.0 * confidence
        )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::measure::{TimingOptions, WallClock, compare_quality, time_in_turn};
    use quantlab::model::{LoadOptions, load_model};
    use quantlab::quant::QuantizationConfig;

    fn loaded(quantization: Option<QuantizationConfig>) -> Loaded {
        load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap()
    }

    #[test]
    fn a_format_is_told_apart_and_the_model_itself_is_not() {
        let (base, nf4) = (loaded(None), loaded(Some(QuantizationConfig::nf4())));
        let texts = ["Once upon a time there was a fox who lived in a wood.", "The capital of France is Paris."];
        let of = |other| compare_quality(&base, other, &texts).unwrap();
        let words = quality_in_words(&[("nf4", of(&nf4)), ("itself", of(&base))]).unwrap().to_string();
        let lines: Vec<&str> = words.lines().collect();
        assert!(lines[1].starts_with("- nf4: ") && lines[1].contains("by KL divergence told apart"), "{words}");
        assert!(lines[2].starts_with("- itself, which is noise: ratio 1.0000000 [1.0000000, 1.0000000]"), "{words}");
        assert!(lines[2].contains("another top token in 0.00 %"), "{words}");
        let same = quality_in_words(&[("again", of(&base)), ("itself", of(&base))]).unwrap().to_string();
        assert!(
            same.contains("again: by perplexity not told apart") && same.contains("KL divergence not told apart"),
            "{same}"
        );
        assert!(quality_in_words(&[]).is_err());
    }

    #[test]
    fn speeds_are_compared_round_by_round() {
        let (base, nf4) = (loaded(None), loaded(Some(QuantizationConfig::nf4())));
        let options = TimingOptions { max_new_tokens: 2, repeats: 2, ..TimingOptions::default() };
        let timings =
            time_in_turn(&WallClock, &[(&base, "Once upon a time"), (&nf4, "Once upon a time")], &options).unwrap();
        let table = speed_against_first(&[("float32", &base, &timings[0]), ("nf4", &nf4, &timings[1])]).unwrap();
        let frame = table.data_frame().unwrap();
        let column =
            |name: &str| -> Vec<f64> { frame.column(name).unwrap().f64().unwrap().cont_slice().unwrap().to_vec() };
        let by_bytes = column("by its bytes");
        let bytes = [&base, &nf4].map(|one| one.model.info().bytes_per_token as f64);
        assert_eq!(by_bytes, [1.0, bytes[0] / bytes[1]]);
        assert!(by_bytes[1] > 2.0, "{by_bytes:?}");
        let round = |i: usize| timings[0].runs.runs[i].total_latency_s / timings[1].runs.runs[i].total_latency_s;
        assert_eq!(column("times as fast"), [1.0, f64::midpoint(round(0).min(round(1)), round(0).max(round(1)))]);
        let alone = nf4.time("Once upon a time", &TimingOptions { repeats: 1, ..options }).unwrap();
        assert!(speed_against_first(&[("float32", &base, &timings[0]), ("nf4", &nf4, &alone)]).is_err());
        assert!(speed_against_first(&[]).is_err());
    }
}
