//! What formats cost in quality: each against full precision, as a table and in words.

use quantlab::error::{Error, Result};
use quantlab::measure::{MemoryFootprint, QualityBase, QualityComparison};
use quantlab::model::{LoadOptions, Loaded, load_model};
use quantlab::quant::{FourBit, FourBitOptions, QuantizationConfig};
use quantlab::report::{Estimate, LinePlot, Table, TradeOff};
use quantlab::source::held_out_text;

use super::configurations::row_of;
use super::{Configuration, short_name};
use crate::figure::each_once;

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

/// The name of the row that says what the comparison finds where nothing changed.
const NOISE_FLOOR: &str = "noise floor";

impl FormatQuality {
    /// Whether this is the base itself as another engine computes it; see [`QualityBase::noise_floor`].
    pub fn is_noise_floor(&self) -> bool {
        self.name == NOISE_FLOOR
    }

    /// Whether it stands in the picture of memory and quality: other formats with NF4's codes do not, nor do those whose
    /// memory is not that of their bits.
    pub(super) fn is_pictured(&self) -> bool {
        let left_out = ["NF4, double", "NF4, head INT8", "INT3, groups of 64", "INT2, groups of 64"];
        !self.is_noise_floor() && !left_out.contains(&self.name.as_str())
    }

    /// What tells the format from the base, given what tells nothing: a KL divergence whose interval lies above that of the
    /// noise floor, and a ratio of perplexities whose interval does not contain 1.
    fn told_apart_by(&self, floor: Option<&Self>) -> &'static str {
        let kl = Estimate::from(self.comparison.kl_divergence).low;
        let noise = floor.map_or(0.0, |floor| Estimate::from(floor.comparison.kl_divergence).high);
        let ratio = Estimate::from(self.comparison.perplexity_ratio);
        match (kl > noise, ratio.low > 1.0 || ratio.high < 1.0) {
            _ if self.is_noise_floor() => "",
            (true, true) => "both",
            (true, false) => "KL divergence",
            (false, true) => "perplexity",
            (false, false) => "neither",
        }
    }
}

/// Compares the base model with itself as another engine computes it, the noise floor; then loads it in each format, one after
/// the other, and compares the predictions.
///
/// # Errors
/// A format that cannot be loaded; as [`QualityBase::compare`] and [`QualityBase::noise_floor`].
pub fn compare_formats(base: &Loaded, formats: &[Configuration], texts: &[&str]) -> Result<Vec<FormatQuality>> {
    let quality = QualityBase::new(base, texts);
    let compare = |Configuration { name, options }: &Configuration| {
        let loaded = load_model(&[&base.model_id], options)?;
        let comparison = quality.compare(&loaded)?;
        Ok(FormatQuality { name: name.clone(), footprint: loaded.footprint(), comparison })
    };
    let floor = quality.noise_floor()?;
    let floor = FormatQuality { name: NOISE_FLOOR.to_owned(), footprint: base.footprint(), comparison: floor };
    std::iter::once(Ok(floor)).chain(formats.iter().map(compare)).collect()
}

/// The embedded model and the one that was trained on rounded weights, each beside itself in NF4 and FP4.
///
/// # Errors
/// As [`compare_formats`].
pub fn qat_quality(texts: &[&str]) -> Result<Vec<FormatQuality>> {
    let formats = [("NF4", QuantizationConfig::nf4()), ("FP4", QuantizationConfig::fp4())];
    let formats = formats.map(|(name, config)| Configuration::quantized(name, config));
    let of_model = |id: &str| -> Result<Vec<FormatQuality>> {
        let compared = compare_formats(&load_model(&[id], &LoadOptions::default())?, &formats, texts)?;
        let named = |one: FormatQuality| match one.is_noise_floor() {
            true => one,
            false => FormatQuality { name: format!("{id}, {}", one.name), ..one },
        };
        Ok(compared.into_iter().map(named).collect())
    };
    Ok([of_model("embedded")?, of_model("embedded:qat")?].concat())
}

/// The comparisons as a table, a row for each: memory with scales, perplexity as a multiple of the base's, KL divergence from
/// it, which of the two tells the format from the base, and how often both find the same token the most likely.
pub fn quality_table(title: &str, formats: &[FormatQuality]) -> Table {
    let each = || formats.iter().map(|format| &format.comparison);
    let floor_of = |one: &FormatQuality| {
        formats.iter().find(|floor| floor.is_noise_floor() && floor.comparison.base_run == one.comparison.base_run)
    };
    let table = Table::new(title)
        .column("format", "", formats.iter().map(|format| &format.name))
        .column("memory with scales", "MiB", formats.iter().map(|format| format.footprint.mib_with_scales()))
        .decimals("memory with scales", 2)
        .column("perplexity, relative to the base", "", each().map(|quality| quality.perplexity_ratio.to_string()))
        .column("KL divergence", "nats", each().map(|quality| quality.kl_divergence.to_string()))
        .column("told from the base by", "", formats.iter().map(|format| format.told_apart_by(floor_of(format))))
        .column("same top token", "%", each().map(|quality| (quality.same_top_token * 100.0).to_string()));
    let base = |QualityComparison { base_run, base_perplexity, .. }: &QualityComparison| {
        format!("base: {base_run}, perplexity {base_perplexity}")
    };
    let table = each_once(each().map(base)).into_iter().fold(table, Table::note);
    match formats.first() {
        None => table,
        Some(first) => table.note(format!(
            "{} tokens | \u{b1}: 95% interval, paired | {NOISE_FLOOR}: the base itself, computed by {}",
            first.comparison.tokens, first.comparison.run.engine
        )),
    }
}

/// The KL divergence of the format of this name, or with it in its name, from the base, in nats, if it was compared.
pub fn divergence_of(name: &str, formats: &[FormatQuality]) -> Option<f64> {
    Some(row_of(formats, |one| one.name.as_str(), name)?.comparison.kl_divergence.value)
}

/// What each format's memory buys in quality, as a picture, with the formats that no other one beats. Left out are NF4 with
/// double quantization or another head, whose layers have NF4's codes, and 3 and 2 bits, which are kept in 4.
///
/// # Errors
/// As [`TradeOff::point`].
pub fn quality_trade_off(formats: &[FormatQuality]) -> Result<TradeOff> {
    let empty = TradeOff::new("What memory buys in quality")
        .x("memory with scales", "MiB")
        .y("KL divergence from float32", "nats")
        .log_y()
        .intervals("95% confidence interval");
    let mut compared = formats.iter().filter(|one| one.is_pictured());
    let plot = compared.try_fold(empty, |plot, one| {
        plot.point(short_name(&one.name), one.footprint.mib_with_scales(), one.comparison.kl_divergence)
    })?;
    Ok(formats.first().map_or(plot.clone(), |first| plot.note(picture_note(first))))
}

/// What smaller blocks of NF4 and FP4 cost in bits and buy in quality, as a picture.
///
/// # Errors
/// As [`compare_formats`].
pub fn block_size_plot(base: &Loaded, sizes: &[usize], texts: &[&str]) -> Result<LinePlot> {
    let mut plot = LinePlot::new("Block size: what more scales buy")
        .x("bits for each weight, with scales", "")
        .y("KL divergence from float32", "nats")
        .intervals("95% confidence interval");
    let bits = |size: &usize| 4.0 + 32.0 / *size as f64;
    let formats = [("NF4", FourBit::Nf4), ("FP4", FourBit::Fp4)];
    let config = |quant_type, &blocksize: &usize| {
        let options = FourBitOptions { quant_type, blocksize, double_quant: false };
        Configuration::quantized(blocksize.to_string(), QuantizationConfig::four_bit(options))
    };
    let all = formats.iter().flat_map(|(_, quant_type)| sizes.iter().map(|size| config(*quant_type, size)));
    let compared = compare_formats(base, &all.collect::<Vec<_>>(), texts)?;
    let Some((floor, compared)) = compared.split_first() else { return Ok(plot) };
    for ((name, _), compared) in formats.iter().zip(compared.chunks(sizes.len().max(1))) {
        let kl = compared.iter().map(|one| one.comparison.kl_divergence);
        plot = plot.series(*name, sizes.iter().map(bits).zip(kl))?.label_points(name, sizes)?;
    }
    Ok(plot.note(format!("{} | the labels are block sizes", picture_note(floor))))
}

/// What a picture of divergences was measured on, and what it would show where nothing changed.
fn picture_note(first: &FormatQuality) -> String {
    let QualityComparison { base_run, tokens, .. } = &first.comparison;
    let floor = first.is_noise_floor().then(|| format!(" | noise floor {} nats", first.comparison.kl_divergence));
    let floor = floor.unwrap_or_default();
    format!("{} | {} | {tokens} tokens of held-out text{floor}", base_run.model, base_run.device)
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

    #[test]
    fn each_format_is_compared_with_the_base() {
        let base = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let formats = [
            Configuration::new("float32", LoadOptions::default()),
            Configuration::quantized("NF4", QuantizationConfig::nf4()),
        ];
        let found = compare_formats(&base, &formats, &held_out_samples(3, 100).unwrap()).unwrap();
        let [floor, same, nf4] = &found[..] else { panic!("{}", found.len()) };
        assert!(floor.is_noise_floor() && (1e-15..1e-6).contains(&floor.comparison.kl_divergence.value.abs()));
        assert_eq!(same.comparison.kl_divergence.value, 0.0);
        assert_eq!((same.told_apart_by(Some(floor)), nf4.told_apart_by(Some(floor))), ("neither", "both"));
        assert!(nf4.footprint.mib_with_scales() > nf4.footprint.mib());
        let table = quality_table("Quality", &found).to_text();
        assert!(table.contains("NF4") && table.contains("perplexity"), "{table}");
        let double = FormatQuality { name: "NF4, double".to_owned(), ..nf4.clone() };
        let plot = quality_trade_off(&[same.clone(), nf4.clone(), double]).unwrap();
        assert_eq!((plot.table().rows(), quality_trade_off(&[]).unwrap().table().rows()), (2, 0));
        assert_eq!(divergence_of("NF4", &found), Some(nf4.comparison.kl_divergence.value));
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
