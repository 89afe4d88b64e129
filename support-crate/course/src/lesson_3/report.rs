//! What a comparison of formats says, in words and in a table.

use std::cmp::Ordering;

use quantlab::error::{Error, Result};
use quantlab::measure::{RunInfo, Statistics, Timing};
use quantlab::model::{LoadOptions, Loaded, load_model};
use quantlab::report::{Estimate, Summary, Table};

use super::Quality;

/// A row for each format.
pub fn quality_of_formats(formats: &[(&str, Quality)]) -> Table {
    let each = || formats.iter().map(|(_, quality)| quality);
    Table::new("What differs from float32")
        .column("format", "", formats.iter().map(|(name, _)| *name))
        .column("perplexity ratio", "", each().map(|quality| quality.perplexity_ratio))
        .column("KL divergence", "nats", each().map(|quality| quality.divergence))
        .column("same top token", "%", each().map(|quality| 100.0 * quality.same_top))
        .decimals("same top token", 2)
        .note(format!("{} tokens; 95% intervals over texts", each().next().map_or(0, |quality| quality.tokens)))
}

/// What perplexity and KL divergence say about each format, in a sentence for each. The last format is the noise that the
/// others are held against.
pub fn quality_in_words(formats: &[(&str, Quality)]) -> Summary {
    let Some(((noise_name, noise), formats)) = formats.split_last() else {
        return Summary::new("Which figure tells a format from float32? Nothing was measured yet");
    };
    let told = |is_apart: bool| if is_apart { "told apart" } else { "not told apart" };
    let sentence = |(name, quality): &(&str, Quality)| {
        let Quality { perplexity_ratio: ratio, divergence, above_noise, .. } = quality;
        format!(
            "{name}: by perplexity {}, ratio {:.5} [{:.5}, {:.5}]; by KL divergence {}, {:.1e} nats, of which \
             [{:.1e}, {:.1e}] above noise. Another top token in {:.2} % of places.",
            told(ratio.low > 1.0 || ratio.high < 1.0),
            ratio.value,
            ratio.low,
            ratio.high,
            told(above_noise.low > 0.0),
            divergence.value,
            above_noise.low,
            above_noise.high,
            100.0 * (1.0 - quality.same_top)
        )
    };
    let title = "Which figure tells a format from float32?";
    formats.iter().map(sentence).fold(Summary::new(title), Summary::point).point(format!(
        "{noise_name}, which is noise: KL divergence {:.1e} nats, another top token in {:.2} % of places.",
        noise.divergence.value,
        100.0 * (1.0 - noise.same_top)
    ))
}

/// The same model again, in another format or by another engine, with a line that says so.
///
/// # Errors
/// As [`load_model`].
pub fn load_again(loaded: &Loaded, name: &str, options: &LoadOptions) -> Result<Loaded> {
    println!("Loading model {} as {name} ...", loaded.model_id);
    load_model(&[loaded.model_id.as_str()], options)
}

/// Models that were timed in turn, each beside the first one: how many times as fast each decodes (the median over the
/// rounds, so that what slows a whole round down cancels), how many times the bytes of weights alone would give, and which
/// part of memory's limit it reached in the same rounds.
///
/// # Errors
/// No models; models with different numbers of runs.
pub fn speed_against_first(models: &[(&str, &Loaded, &Timing)]) -> Result<Table> {
    let [(_, first_model, first), ..] = models else { return Err(nothing()) };
    let timings = || models.iter().map(|(_, _, timing)| timing);
    let times = timings().map(|timing| timing.times_as_fast_as(first)).collect::<Result<Vec<_>>>()?;
    let by_bytes = models.iter().map(|(_, loaded, _)| by_bytes(first_model, loaded));
    let limits: Option<Vec<Statistics>> = timings().map(|timing| timing.of_limit).collect();
    let mut table = Table::new("Generating, in turn")
        .column("format", "", models.iter().map(|(name, _, _)| *name))
        .column("latency", "s", timings().map(|timing| timing.runs.latency_s))
        .column("decode", "tokens/s", timings().map(|timing| timing.decode_tokens_per_s))
        .column("times as fast", "", times)
        .column("by its bytes", "", by_bytes)
        .decimals("by its bytes", 2);
    if let Some(limits) = limits {
        table = table.column("of memory's limit", "%", limits.into_iter().map(|limit| Estimate::from(limit) * 100.0));
    }
    Ok(table
        .note(format!("{} tokens of prompt, {} new ones", first.prompt_tokens, first.token_ms.len()))
        .note(RunInfo::of_all(timings().map(|timing| &timing.run)))
        .note(format!(
            "{}, in turn; times as fast: decode alone, paired by round",
            first.runs.latency_s.medians_of("run")
        )))
}

/// Whether each model decodes faster than the first one, and how that compares with its bytes, in a sentence for each.
///
/// # Errors
/// As [`speed_against_first`].
pub fn speed_in_words(models: &[(&str, &Loaded, &Timing)]) -> Result<Summary> {
    let [(base, first_model, first), others @ ..] = models else { return Err(nothing()) };
    let sentence = |(name, loaded, timing): &(&str, &Loaded, &Timing)| {
        let times = timing.times_as_fast_as(first)?;
        let told = |from: f64, above: &'static str, below: &'static str| match times.side_of(from) {
            Some(Ordering::Greater) => above,
            Some(_) => below,
            None => "not told apart from",
        };
        let bytes = by_bytes(first_model, loaded);
        let (verdict, theory) = (told(1.0, "faster than", "slower than"), told(bytes, "more than", "less than"));
        Ok(format!("{name}: {verdict} {base}, {times:.2} times as fast, {theory} the {bytes:.2} of its bytes."))
    };
    let sentences = others.iter().map(sentence).collect::<Result<Vec<_>>>()?;
    Ok(sentences.into_iter().fold(Summary::new("Which format decodes faster?"), Summary::point))
}

fn by_bytes(base: &Loaded, loaded: &Loaded) -> f64 {
    let bytes = |loaded: &Loaded| loaded.model.info().bytes_per_token as f64;
    bytes(base) / bytes(loaded)
}

fn nothing() -> Error {
    Error::input("there are no models").hint("give at least one with its timing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::measure::{TimingOptions, WallClock, time_in_turn};
    use quantlab::quant::QuantizationConfig;

    fn loaded(quantization: Option<QuantizationConfig>) -> Loaded {
        load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap()
    }

    #[test]
    fn a_format_is_told_apart_from_noise_and_noise_is_not() {
        let quality = |divergence: f64, above_noise: Estimate| Quality {
            perplexity_ratio: Estimate::new(1.005, 0.98, 1.03),
            divergence: Estimate::exact(divergence),
            above_noise,
            same_top: 0.9,
            tokens: 20,
        };
        let (format, noise) = (quality(0.03, Estimate::new(0.03, 0.02, 0.04)), quality(1e-7, Estimate::exact(0.0)));
        let words = quality_in_words(&[("a", format), ("b", noise), ("noise", noise)]).to_string();
        let lines: Vec<&str> = words.lines().collect();
        assert!(
            lines[1].contains("by perplexity not told apart") && lines[1].contains("divergence told apart"),
            "{words}"
        );
        assert!(lines[2].contains("divergence not told apart"), "{words}");
        assert!(lines[3].contains("which is noise") && lines[3].contains("10.00 %"), "{words}");
        assert_eq!(quality_of_formats(&[("a", format)]).rows(), 1);
        assert!(quality_in_words(&[]).to_string().contains("Nothing"));
    }

    #[test]
    fn speeds_are_compared_round_by_round() {
        let (base, nf4) = (loaded(None), loaded(Some(QuantizationConfig::nf4())));
        let options = TimingOptions { max_new_tokens: 3, repeats: 2, ..TimingOptions::default() };
        let timings =
            time_in_turn(&WallClock, &[(&base, "Once upon a time"), (&nf4, "Once upon a time")], &options).unwrap();
        let models = [("float32", &base, &timings[0]), ("nf4", &nf4, &timings[1])];
        let table = speed_against_first(&models).unwrap();
        let frame = table.data_frame().unwrap();
        let column =
            |name: &str| -> Vec<f64> { frame.column(name).unwrap().f64().unwrap().cont_slice().unwrap().to_vec() };
        let bytes = [&base, &nf4].map(|one| one.model.info().bytes_per_token as f64);
        assert_eq!(column("by its bytes"), [1.0, bytes[0] / bytes[1]]);
        let ratio = timings[1].times_as_fast_as(&timings[0]).unwrap();
        assert_eq!(column("times as fast"), [1.0, ratio.median]);
        let words = speed_in_words(&models).unwrap().to_string();
        assert!(words.contains(&format!("{:.2} [", ratio.median)) && words.contains("of its bytes"), "{words}");
        let alone = nf4.time("Once upon a time", &TimingOptions { repeats: 1, ..options }).unwrap();
        assert!(speed_against_first(&[("float32", &base, &timings[0]), ("nf4", &nf4, &alone)]).is_err());
        assert!(speed_against_first(&[]).is_err() && speed_in_words(&[]).is_err());
    }
}
