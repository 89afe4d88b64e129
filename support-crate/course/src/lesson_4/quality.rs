//! What formats cost in quality: each against full precision, as a table and in words.

use quantlab::error::{Error, Result};
use quantlab::measure::{MemoryFootprint, QualityComparison, compare_quality};
use quantlab::model::{Loaded, load_model};
use quantlab::report::Table;
use quantlab::source::held_out_text;

use super::Configuration;

/// A format of a model, its memory, and how far its predictions are from those of the model it was compared with.
#[derive(Debug, Clone)]
pub struct FormatQuality {
    /// What tables call it.
    pub name: String,
    /// Memory of the model.
    pub footprint: MemoryFootprint,
    /// Against the base.
    pub comparison: QualityComparison,
}

/// Loads the base model in each format, one after the other, and compares the predictions.
///
/// # Errors
/// A format that cannot be loaded; as [`compare_quality`].
pub fn compare_formats(base: &Loaded, formats: &[Configuration], texts: &[&str]) -> Result<Vec<FormatQuality>> {
    let compare = |Configuration { name, options }: &Configuration| {
        let loaded = load_model(&[&base.model_id], options)?;
        let comparison = compare_quality(base, &loaded, texts)?;
        Ok(FormatQuality { name: name.clone(), footprint: loaded.footprint(), comparison })
    };
    formats.iter().map(compare).collect()
}

/// The comparisons as a table, a row for each: memory with scales, perplexity against the base's, KL divergence from it, how
/// often both find the same token the most likely, and how far the probability of the token that follows moves (root mean square).
pub fn quality_table(title: &str, formats: &[FormatQuality]) -> Table {
    let each = || formats.iter().map(|format| &format.comparison);
    let table = Table::new(title)
        .column("format", "", formats.iter().map(|format| &format.name))
        .column("memory with scales", "MiB", formats.iter().map(|format| format.footprint.mib_with_scales()))
        .decimals("memory with scales", 2)
        .column("perplexity", "", each().map(|quality| quality.perplexity.value))
        .column("of the base", "", each().map(|quality| quality.perplexity_ratio.to_string()))
        .column("KL divergence", "nats", each().map(|quality| quality.kl_divergence.to_string()))
        .column("same top token", "%", each().map(|quality| (quality.same_top_token * 100.0).to_string()))
        .column(
            "probability moves by",
            "points",
            each().map(|quality| (quality.rms_probability_change * 100.0).to_string()),
        );
    let mut bases: Vec<String> = Vec::new();
    for QualityComparison { base_run, base_perplexity, .. } in each() {
        let base = format!("base: {base_run}, perplexity {base_perplexity}");
        if !bases.contains(&base) {
            bases.push(base);
        }
    }
    let table = bases.into_iter().fold(table, Table::note);
    match formats.first() {
        None => table,
        Some(first) => table.note(format!(
            "{} tokens | \u{b1}: 95% interval, paired | points: percentage points of the true token's probability, \
             root mean square",
            first.comparison.tokens
        )),
    }
}

/// `count` pieces of the held-out text, of about `characters` characters each, from its beginning to its end. Each
/// begins with the start of a line.
///
/// # Errors
/// None or more than the text has.
pub fn held_out_samples(count: usize, characters: usize) -> Result<Vec<&'static str>> {
    let text = held_out_text();
    let step = text.len().checked_div(count).filter(|step| characters <= *step).ok_or_else(|| {
        Error::input(format!("{count} samples of {characters} characters from a text of {} bytes", text.len()))
            .hint("take at least one, and no more than the text has")
    })?;
    let line_after = |at: usize| {
        text.as_bytes()[at..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |next| at + next + 1)
    };
    let sample = |index: usize| {
        let rest = &text[if index == 0 { 0 } else { line_after(index * step) }..];
        &rest[..rest.char_indices().nth(characters).map_or(rest.len(), |(end, _)| end)]
    };
    Ok((0..count).map(sample).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::LoadOptions;
    use quantlab::quant::QuantizationConfig;

    #[test]
    fn each_format_is_compared_with_the_base() {
        let base = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let formats = [
            Configuration::new("float32", LoadOptions::default()),
            Configuration::quantized("NF4", QuantizationConfig::nf4()),
        ];
        let found = compare_formats(&base, &formats, &held_out_samples(3, 100).unwrap()).unwrap();
        assert_eq!(found[0].comparison.kl_divergence.value, 0.0);
        assert!(found[1].comparison.kl_divergence.value > 0.0);
        assert!(found[1].footprint.mib_with_scales() > found[1].footprint.mib());
        let table = quality_table("Quality", &found).to_text();
        assert!(table.contains("NF4") && table.contains("perplexity"), "{table}");
        assert_eq!(quality_table("Quality", &[]).rows(), 0);
    }

    #[test]
    fn samples_begin_with_a_line_and_do_not_overlap() {
        let samples = held_out_samples(10, 500).unwrap();
        let text = held_out_text();
        let mut end = 0;
        for sample in &samples {
            let at = sample.as_ptr() as usize - text.as_ptr() as usize;
            assert!(at >= end && (at == 0 || text.as_bytes()[at - 1] == b'\n'));
            assert_eq!(sample.chars().count(), 500);
            end = at + sample.len();
        }
        assert!(held_out_samples(0, 10).is_err() && held_out_samples(10, 1_000_000).is_err());
    }
}
