//! Sentences about the lesson's own numbers, each beside whether they bear it out. All but the last are about what any run
//! of the same model computes; the last, about times, leaves a factor that no load of the machine turns.

use quantlab::error::Result;
use quantlab::quant::{E2M1, FourBitOptions, Quantized4Bit};
use quantlab::report::Estimate;

use super::configurations::row_of;
use super::{Blocks, ExperimentRow, FormatQuality, FormatSpeed, SampleLayer, typical_absmax};
use crate::tables::is_faster;
use crate::{Claims, claim};

/// How far out the largest weight of a block lies for which NF4's numbers were made, in standard deviations.
const NF4_ABSMAX: f64 = 1.85;

/// What the picture of the codebooks shows.
pub fn codebook_claims(layer: &SampleLayer) -> Claims {
    let inner = layer.percent_between(0.0, 0.5);
    let in_gap = layer.percent_between(0.0053, 0.1666);
    let mut numbers: Vec<i32> = E2M1.iter().map(|number| (12.0 * number).round() as i32).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let steps: Vec<i32> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
    Claims::new("Of this layer, each weight divided by the absmax of its block")
        .that(format!("Most weights, {inner:.0} %, lie between -0.5 and 0.5."), inner > 50.0)
        .that(format!("In FP4's gap, 0.005 to 0.167, lie {in_gap:.0} % of the weights."), in_gap > 10.0)
        .that(
            "E2M1's numbers are 1/12 apart up to 1/3, then 1/6 up to 2/3, and 1/3 to the last one.",
            steps.ends_with(&[1, 1, 1, 1, 2, 2, 4]),
        )
}

/// Whether the learner's blocks in NF4 are, byte for byte, what bitsandbytes stores.
///
/// # Errors
/// As [`Quantized4Bit::quantize`].
pub fn stored_bytes_claim(layer: &SampleLayer, blocks: &Blocks) -> Result<Claims> {
    let theirs = Quantized4Bit::quantize(&layer.weights, &layer.shape, FourBitOptions::default())?;
    let (all, mine) = (theirs.packed().len(), blocks.iter().flat_map(|(packed, _)| packed));
    let same = mine.zip(theirs.packed()).filter(|(mine, theirs)| mine == theirs).count();
    let sentence = format!("{same} of {all} packed bytes are those of bitsandbytes.");
    Ok(claim(sentence, (!blocks.is_empty()).then_some(same == all)))
}

/// How NF4's numbers are used; `shares` is what `code_shares` gave, nothing as long as nothing was quantized.
pub fn codes_claims(layer: &SampleLayer, shares: &[(f32, f64)]) -> Claims {
    let typical = typical_absmax(&layer.weights, 64);
    let used = |from: usize| shares.iter().skip(from).take(4).map(|(_, share)| share).sum::<f64>();
    let crowded = (!shares.is_empty()).then(|| used(6) > used(0) && used(6) > used(12));
    Claims::new("Of this layer, in blocks of 64")
        .that(
            format!(
                "A typical block's absmax is {typical:.2} times the root mean square of its weights, further out than \
                 NF4 assumes."
            ),
            typical > NF4_ABSMAX,
        )
        .that("The four inner numbers of NF4 are used more than the four at either end.", crowded)
}

/// Which format rounds best: errors by name.
pub fn error_claims(errors: &[(&str, f64)]) -> Claims {
    let error = |name: &str| errors.iter().find(|(other, _)| *other == name).map(|(_, error)| *error);
    let all = || Some([error("INT8")?, error("NF4")?, error("E2M1")?, error("int4")?, error("FP4")?]);
    let holds = |test: fn([f64; 5]) -> bool| all().map(test);
    let yours = error("NF4, by your functions");
    Claims::new("Of this layer")
        .that("INT8's error is the smallest of all.", holds(|[int8, nf4, ..]| int8 < nf4))
        .that(
            "Of the formats of 4 bits, NF4's error is the smallest.",
            holds(|[_, nf4, e2m1, int4, fp4]| nf4 < e2m1.min(int4).min(fp4)),
        )
        .that("FP4's error is larger than E2M1's.", holds(|[_, _, e2m1, _, fp4]| fp4 > e2m1))
        .that(
            "Your functions restore what the library restores.",
            error("NF4").zip(yours).map(|(theirs, yours)| (theirs - yours).abs() < 1e-3 * theirs),
        )
}

/// Footprints at GPT-2's size: of the baseline, INT8, NF4 and FP4, in this order.
pub fn memory_claims(footprints: &[f64]) -> Claims {
    let of = |test: fn(&[f64; 4]) -> bool| footprints.as_array().map(test);
    let percent = |part: f64, whole: f64| (100.0 * part / whole).round();
    let shares = footprints.as_array().map(|&[plain, int8, nf4, _]| (percent(int8, plain), percent(nf4, plain)));
    Claims::new("At GPT-2's size, with everything but the layers in float32")
        .that("INT8 takes 50 % of the baseline's footprint.", shares.map(|(int8, _)| int8 == 50.0))
        .that("NF4 takes 42 % of the baseline's footprint.", shares.map(|(_, nf4)| nf4 == 42.0))
        .that("FP4 takes exactly as much as NF4.", of(|[.., nf4, fp4]| nf4 == fp4))
}

/// What became of the texts, the configuration in 2 bits and the one that cannot be loaded among them.
pub fn text_claims(rows: &[ExperimentRow]) -> Claims {
    let texts = |row: &ExperimentRow| row.outcome.as_ref().ok().map(|result| result.outputs.clone());
    let base = rows.first().and_then(texts);
    let coarse = rows.iter().find(|row| row.name.starts_with("INT2")).and_then(texts);
    let all_differ = base.zip(coarse).map(|(base, coarse)| base.iter().zip(&coarse).all(|(a, b)| a != b));
    let failed: Vec<&str> = rows.iter().filter(|row| row.outcome.is_err()).map(|row| row.name.as_str()).collect();
    Claims::new("On this run").that("In INT2, no text is the baseline's.", all_differ).that(
        "The configuration that cannot be loaded has its error; all others have their texts.",
        (!rows.is_empty()).then_some(failed == ["NF4, blocks of 100"]),
    )
}

/// The order of the formats, by KL divergence: rows of `compare_formats`, by name.
pub fn formats_quality_claims(quality: &[FormatQuality]) -> Claims {
    let row = |format: &str| row_of(quality, |one| one.name.as_str(), format);
    let kl = |name: &str| row(name).map(|one| one.comparison.kl_divergence.value);
    // Each further away than the one before.
    let ascend = |names: &[&str]| -> Option<bool> {
        let values = names.iter().map(|name| kl(name)).collect::<Option<Vec<f64>>>()?;
        Some(values.is_sorted_by(|a, b| a < b))
    };
    let memory = |name: &str| row(name).map(|one| one.footprint.mib_with_scales());
    let floor = quality.iter().find(|one| one.is_noise_floor()).map(|one| one.comparison.kl_divergence.value);
    Claims::new("On this run, by the values of the KL divergence")
        .that(
            "The noise floor is less than a hundredth of what bfloat16 changes.",
            floor.zip(kl("BF16")).map(|(floor, bf16)| floor < 0.01 * bf16),
        )
        .that(
            "BF16 is closest to the baseline, then INT8, then NF4, then FP4.",
            ascend(&["BF16", "INT8", "NF4", "FP4"]),
        )
        .that(
            "INT3 is further away than NF4, and INT2 than INT3.",
            ascend(&["NF4", "INT3, groups of 64", "INT2, groups of 64"]),
        )
        .that("Blocks of 32 keep NF4 closer to the baseline than blocks of 64.", ascend(&["NF4, blocks of 32", "NF4"]))
        .that(
            "Double quantization takes more memory here than plain NF4.",
            memory("NF4, double").zip(memory("NF4")).map(|(double, plain)| double > plain),
        )
}

/// What training for it spares each format: rows called `embedded, NF4` and `embedded:qat, NF4`, and of FP4, position by
/// position. As neighbouring positions are not independent, the sentence says whether intervals twice as wide would still
/// tell.
pub fn qat_claims(quality: &[FormatQuality]) -> Claims {
    let spares = |format: &str, widened: f64| {
        let of = |id: &str| {
            let row = quality.iter().find(|one| one.name == format!("{id}, {format}"))?;
            Some(&row.comparison)
        };
        let spared = Estimate::from(of("embedded")?.kl_divergence_above(of("embedded:qat")?)?);
        Some(spared.value > widened * spared.half_width())
    };
    let sentence = |format: &str| {
        let how = match spares(format, 2.0) {
            Some(true) => ", with an interval twice as wide, too",
            Some(false) => ", by the interval of the paired difference; one twice as wide does not tell",
            None => "",
        };
        format!("After quantization-aware training, {format} costs less KL divergence{how}.")
    };
    Claims::new("Two models, each beside itself in full precision")
        .that(sentence("NF4"), spares("NF4", 1.0))
        .that(sentence("FP4"), spares("FP4", 1.0))
}

/// What a fused kernel is worth: each quantized row beside the one called as it is, `by libtorch`.
pub fn speed_claims(speed: &[FormatSpeed]) -> Claims {
    let faster = |format: &str| {
        let row = |by_libtorch: bool| {
            let of_engine = |one: &&FormatSpeed| one.name.ends_with("by libtorch") == by_libtorch;
            let rows: Vec<&FormatSpeed> = speed.iter().filter(of_engine).collect();
            row_of(&rows, |one| one.name.as_str(), format).copied()
        };
        Some(is_faster(row(false)?.timing.times_as_fast_as(&row(true)?.timing).ok()?))
    };
    Claims::new("Fused kernels against separate operations, round by round")
        .that("INT8 decodes faster with a fused kernel than by libtorch.", faster("INT8"))
        .that("NF4 decodes faster with a fused kernel than by libtorch.", faster("NF4"))
}

#[cfg(test)]
mod tests {
    use quantlab::error::Error;

    use super::*;
    use crate::lesson_4::ExperimentResult;

    #[test]
    fn nothing_is_claimed_before_it_was_measured() {
        for claims in [
            error_claims(&[]),
            memory_claims(&[]),
            text_claims(&[]),
            formats_quality_claims(&[]),
            qat_claims(&[]),
            speed_claims(&[]),
        ] {
            let text = claims.to_string();
            assert!(text.lines().skip(1).all(|line| line.starts_with("  . not measured yet: ")), "{text}");
        }
    }

    #[test]
    fn a_wrong_number_is_a_claim_that_does_not_hold() {
        let errors = |nf4| [("INT8", 1.0), ("NF4", nf4), ("E2M1", 10.0), ("int4", 10.5), ("FP4", 12.0)];
        assert!(error_claims(&errors(9.0)).hold() && !error_claims(&errors(11.0)).hold());
        assert!(memory_claims(&[486.7, 243.7, 203.2, 203.2]).hold());
        assert!(!memory_claims(&[486.7, 243.7, 203.2, 208.0]).hold());
        let row = |name: &str, text: Option<&str>| ExperimentRow {
            name: name.to_owned(),
            outcome: text.ok_or_else(|| Error::input("no")).map(|text| ExperimentResult {
                memory_mib: 1.0,
                avg_latency_s: 1.0,
                outputs: vec![text.to_owned()],
            }),
        };
        let rows = |text| [row("FP32", Some("a")), row("INT2, g", Some(text)), row("NF4, blocks of 100", None)];
        assert!(text_claims(&rows("b")).hold() && !text_claims(&rows("a")).hold());
    }
}
