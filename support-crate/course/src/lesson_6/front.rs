//! What bits buy: every format of the course beside full precision.

use std::path::Path;

use quantlab::error::Result;
use quantlab::measure::{QualityBase, QualityComparison};
use quantlab::model::{Fold, LoadOptions, Loaded, Precision, load_model};
use quantlab::quant::{GgufType, GptqOptions, Hessians, QuantizationConfig, Rounding};
use quantlab::report::{Estimate, LinePlot, Table};
use quantlab::source::{Gguf, ModelFile};

use crate::Claims;

/// The size of all groups.
const GROUP: usize = 64;
/// The name of the row that says what the comparison finds where nothing changed.
const FLOOR: &str = "noise floor";

/// A format of a model's layers.
#[derive(Debug, Clone)]
pub struct Choice {
    /// What tables call it.
    pub name: String,
    /// How its codes are found, for the legend.
    pub kind: &'static str,
    /// Bits for each weight of the layers, with scales.
    pub bits: f64,
    /// How it is loaded.
    pub options: LoadOptions,
    /// The file that it is loaded from, if it is one of its own.
    pub file: Option<String>,
    /// Against full precision, once it was measured.
    pub quality: Option<QualityComparison>,
}

impl Choice {
    fn new(name: impl Into<String>, kind: &'static str, bits: f64, options: LoadOptions) -> Self {
        Self { name: name.into(), kind, bits, options, file: None, quality: None }
    }

    fn is_floor(&self) -> bool {
        self.name == FLOOR
    }
}

/// The formats that the course has met; `bits_per_weight` says what groups take. llama.cpp's Q4_K_M is written into the folder
/// `results`.
///
/// # Errors
/// As [`Fold::awq`]; a file that cannot be read again.
pub fn choices(
    base: &Loaded,
    hessians: &Hessians,
    awq_texts: &[&str],
    bits_per_weight: fn(u32, usize) -> f64,
) -> Result<Vec<Choice>> {
    let plain = LoadOptions::default();
    let quantized = |config| LoadOptions { quantization: Some(config), ..LoadOptions::default() };
    let layers = base.model.tensors();
    let is_layer = |name: &str| name.contains(".layers.") || name.contains(".h.");
    let shapes = layers.iter().filter(|tensor| is_layer(&tensor.name) && tensor.shape.len() == 2);
    let (rows, weights) = shapes.fold((0, 0), |(rows, all), t| (rows + t.shape[0], all + t.shape[0] * t.shape[1]));
    let affine = |bits, rounding| quantized(QuantizationConfig::affine(bits, GROUP, rounding));
    let gptq = |clipping| Rounding::Gptq(hessians.clone(), GptqOptions { act_order: true, clipping });
    let of = |bits| bits_per_weight(bits, GROUP);
    let awq = LoadOptions { fold: Some(Fold::awq(base, awq_texts, GROUP)?), ..affine(4, Rounding::Nearest) };
    let (alone, inputs) = ("from weights alone", "with calibration texts");
    let mut all = vec![
        Choice::new("bfloat16", alone, 16.0, LoadOptions { precision: Precision::BFloat16, ..plain }),
        Choice::new("int8", alone, 8.0 + 32.0 * rows as f64 / weights as f64, quantized(QuantizationConfig::int8())),
        Choice::new("NF4", alone, 4.5, quantized(QuantizationConfig::nf4())),
        Choice::new("FP4", alone, 4.5, quantized(QuantizationConfig::fp4())),
        Choice::new("int4", alone, of(4), affine(4, Rounding::Nearest)),
        // Its zero point is no whole number: 16 bits, too.
        Choice::new("HQQ int4", alone, 4.0 + 32.0 / GROUP as f64, affine(4, Rounding::Hqq)),
        Choice::new("AWQ int4", inputs, of(4), awq),
        Choice::new("GPTQ int4", inputs, of(4), affine(4, gptq(false))),
        Choice::new("int3", alone, of(3), affine(3, Rounding::Nearest)),
        Choice::new("GPTQ int3", inputs, of(3), affine(3, gptq(false))),
        Choice::new("int2", alone, of(2), affine(2, Rounding::Nearest)),
        Choice::new("GPTQ int2", inputs, of(2), affine(2, gptq(false))),
        Choice::new("GPTQ int2, clipped", inputs, of(2), affine(2, gptq(true))),
    ];
    all.extend(gguf_choice(base)?);
    Ok(all)
}

/// The model as llama.cpp's file of the type Q4_K_M, in the folder `results`; `None`, with a line that says why, for a
/// family that llama.cpp has under other names than this library writes.
///
/// # Errors
/// A file that cannot be read again.
fn gguf_choice(base: &Loaded) -> Result<Option<Choice>> {
    let path = format!("results/{}.gguf", GgufType::Q4KM);
    // That of an earlier run; nothing is written over.
    if Path::new(&path).is_file() {
        std::fs::remove_file(&path)?;
    }
    if let Err(error) = base.save_gguf(&path, GgufType::Q4KM, None) {
        println!("No file in {}: {error}", GgufType::Q4KM);
        return Ok(None);
    }
    let file = ModelFile::Path(path.clone().into());
    let bytes = file.read()?;
    let header = Gguf::read(&bytes)?;
    let layers = header.tensors().iter().filter(|(name, t)| name.starts_with("blk.") && t.shape.len() == 2);
    let (size, numbers) =
        layers.fold((0, 0), |(size, all), (_, t)| (size + t.range.len(), all + t.shape.iter().product::<usize>()));
    let bits = 8.0 * size as f64 / numbers as f64;
    let choice = Choice::new(GgufType::Q4KM.name(), "from weights alone", bits, LoadOptions::default());
    Ok(Some(Choice { file: Some(path), ..choice }))
}

/// The choices, if there are any, with what they changed: first the base itself as another engine computes it, the noise floor; then each of
/// them, loaded one after the other.
///
/// # Errors
/// A format that cannot be loaded; as [`QualityBase::compare`].
pub fn measured(base: &Loaded, choices: &[Choice], texts: &[&str]) -> Result<Vec<Choice>> {
    if choices.is_empty() {
        return Ok(Vec::new());
    }
    let quality = QualityBase::new(base, texts);
    let floor =
        Choice { quality: Some(quality.noise_floor()?), ..Choice::new(FLOOR, "", 32.0, LoadOptions::default()) };
    let compare = |choice: &Choice| {
        let id = choice.file.as_deref().unwrap_or(&base.model_id);
        let loaded = load_model(&[id], &choice.options)?;
        Ok(Choice { quality: Some(quality.compare(&loaded)?), ..choice.clone() })
    };
    std::iter::once(Ok(floor)).chain(choices.iter().map(compare)).collect()
}

fn quality_of<'a>(name: &str, choices: &'a [Choice]) -> Option<&'a QualityComparison> {
    choices.iter().find(|choice| choice.name == name)?.quality.as_ref()
}

/// The KL divergence of a choice from full precision, in nats.
pub fn divergence_from(name: &str, choices: &[Choice]) -> Option<f64> {
    Some(quality_of(name, choices)?.kl_divergence.value)
}

/// The share of tokens that stay the likeliest ones, in percent; NaN if the choice was not measured.
pub fn same_top_of(name: &str, choices: &[Choice]) -> f64 {
    quality_of(name, choices).map_or(f64::NAN, |quality| 100.0 * quality.same_top_token.value)
}

fn note(choices: &[Choice]) -> String {
    let first = choices.iter().find_map(|choice| choice.quality.as_ref());
    first.map_or(String::new(), |quality| format!("{} | {} tokens of held-out text", quality.base_run, quality.tokens))
}

/// The choices as a table, from many bits to few.
pub fn front_table(choices: &[Choice]) -> Table {
    let mut sorted: Vec<&Choice> = choices.iter().filter(|choice| choice.quality.is_some()).collect();
    sorted.sort_by(|a, b| b.bits.total_cmp(&a.bits));
    let quality = || sorted.iter().filter_map(|choice| choice.quality.as_ref());
    Table::new("Bits for each weight of the layers, and what they cost")
        .column("format", "", sorted.iter().map(|choice| choice.name.as_str()))
        .column("per weight", "bits", sorted.iter().map(|choice| choice.bits))
        .column("KL divergence", "nats", quality().map(|quality| quality.kl_divergence.to_string()))
        .column("perplexity, relative to the base", "", quality().map(|quality| quality.perplexity_ratio.to_string()))
        .column("same top token", "%", quality().map(|quality| (quality.same_top_token * 100.0).to_string()))
        .note(note(choices))
        .note("\u{b1}: 95% interval, position by position against full precision")
}

/// The choices as a picture.
///
/// # Errors
/// None in practice.
pub fn front_plot(choices: &[Choice]) -> Result<LinePlot> {
    let mut plot = LinePlot::new("What bits buy")
        .x("bits for each weight of the layers, with scales", "")
        .y("KL divergence from full precision", "nats")
        .log_x()
        .log_y()
        .intervals("95% confidence interval");
    let mut kinds: Vec<&str> = Vec::new();
    for choice in choices.iter().filter(|choice| !choice.is_floor()) {
        if !kinds.contains(&choice.kind) {
            kinds.push(choice.kind);
        }
    }
    for kind in kinds {
        let of_kind = || choices.iter().filter(|choice| choice.kind == kind);
        let points: Vec<(f64, Estimate)> =
            of_kind().filter_map(|choice| Some((choice.bits, choice.quality.as_ref()?.kl_divergence.into()))).collect();
        let labels: Vec<&str> = of_kind().filter(|choice| choice.quality.is_some()).map(|c| c.name.as_str()).collect();
        plot = plot.points(kind, points)?.label_points(kind, labels)?;
    }
    // A line of its own would leave nothing of the picture: it lies many powers of ten below.
    let floor = quality_of(FLOOR, choices);
    let floor = floor.map_or(String::new(), |floor| format!(" | noise floor {} nats", floor.kl_divergence));
    Ok(plot.note(format!("{}{floor}", note(choices))))
}

/// What holds of the choices: sentences about formats whose intervals lie apart.
pub fn front_claims(choices: &[Choice]) -> Claims {
    let kl = |name: &str| Some(Estimate::from(quality_of(name, choices)?.kl_divergence));
    // Each of them costs less than the next one, by intervals that do not overlap.
    let in_order = |names: &[&str]| {
        let all = names.iter().map(|name| kl(name)).collect::<Option<Vec<Estimate>>>()?;
        Some(all.windows(2).all(|pair| pair[0].high < pair[1].low))
    };
    Claims::new("On this run, by KL divergence")
        .that("The noise floor lies below every format.", in_order(&[FLOOR, "bfloat16"]))
        .that(
            "By rounding to the nearest, each bit less costs more.",
            in_order(&["bfloat16", "int8", "int4", "int3", "int2"]),
        )
        .that("With 4 bits, GPTQ costs less than rounding to the nearest.", in_order(&["GPTQ int4", "int4"]))
        .that("With 3 bits, too.", in_order(&["GPTQ int3", "int3"]))
        .that(
            "With 2 bits, GPTQ on clipped grids costs less than GPTQ on unclipped ones.",
            in_order(&["GPTQ int2, clipped", "GPTQ int2"]),
        )
        .that(
            "GPTQ with 2 bits costs more than rounding to the nearest with 4.",
            in_order(&["int4", "GPTQ int2, clipped"]),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::hessians;

    #[test]
    fn every_choice_is_measured_beside_the_noise_floor() {
        let base = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let texts =
            ["Once upon a time there lived a fisher who had a small boat.", "Nobody knew why, and nobody asked."];
        let all = hessians(&base, &texts).unwrap();
        let of = |bits: u32, group: usize| f64::from(bits) + f64::from(16 + bits) / group as f64;
        // (A GPT-2 has no file of llama.cpp's.)
        let choices = choices(&base, &all, &texts, of).unwrap();
        assert_eq!((choices.len(), choices[4].name.as_str(), choices[4].bits), (13, "int4", 4.3125));
        assert!((8.05..8.2).contains(&choices[1].bits), "{}", choices[1].bits);
        let found = measured(&base, &choices[..3], &texts).unwrap();
        assert!(found[0].is_floor() && found.iter().all(|choice| choice.quality.is_some()));
        assert!(divergence_from("NF4", &found) > divergence_from("int8", &found));
        assert!(same_top_of("bfloat16", &found) > 90.0 && same_top_of("int2", &found).is_nan());
        assert_eq!((front_table(&found).rows(), front_plot(&found).unwrap().table().rows()), (4, 3));
        let claims = front_claims(&found).to_string();
        assert!(claims.contains("+ The noise floor") && claims.contains("not measured yet: With 4 bits"), "{claims}");
        assert!(measured(&base, &[], &texts).unwrap().is_empty());
    }
}
