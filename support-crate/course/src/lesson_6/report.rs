//! What lesson 6 draws.

use quantlab::error::Result;
use quantlab::report::{BarPlot, Estimate, LinePlot, Table};

use quantlab::model::{LoadOptions, load_model};
use quantlab::quant::{QuantizationConfig, Rounding};

use super::{CalibratedLayer, CurvePoint, Errors, FormatQuality, Reading, Way};
use crate::figure::counted;
use crate::{Claims, Configuration, ask, compare_formats};

/// The error of weights against bits for each weight, a curve for each number of bits; the labels are group sizes.
///
/// # Errors
/// A number that is not finite.
pub fn error_curves(rows: &[CurvePoint]) -> Result<LinePlot> {
    let mut plot = LinePlot::new("What smaller groups buy")
        .x("bits for each weight, with step and zero point", "")
        .y("error of the weights", "%")
        .log_y();
    for bits in [4, 3, 2] {
        let of = || rows.iter().filter(move |row| row.0 == bits);
        let name = format!("codes of {bits} bits");
        plot = plot.series(name.as_str(), of().map(|row| (row.2, row.3.weights)))?;
        plot = plot.label_points(&name, of().map(|row| row.1))?;
    }
    Ok(plot)
}

/// The error of weights with 3 bits, as a multiple of that with 4, in groups of 64.
pub fn error_ratio(rows: &[CurvePoint]) -> f64 {
    error_at(rows, 3, 64).zip(error_at(rows, 4, 64)).map_or(f64::NAN, |(three, four)| three / four)
}

fn error_at(rows: &[CurvePoint], bits: u32, group: usize) -> Option<f64> {
    rows.iter().find(|row| (row.0, row.1) == (bits, group)).map(|row| row.3.weights)
}

/// What holds of the curves.
pub fn curve_claims(rows: &[CurvePoint]) -> Claims {
    let widest = rows.iter().map(|row| row.1).max().unwrap_or(0);
    let pairs: Option<Vec<(f64, f64)>> =
        [4, 3, 2].into_iter().map(|bits| error_at(rows, bits, 32).zip(error_at(rows, bits, widest))).collect();
    Claims::new("Of this layer")
        .that("With groups of 32, the error is smaller than with one grid for a row.", {
            pairs.map(|pairs| pairs.iter().all(|(small, row)| small < row))
        })
        .that("Groups of 32 with 3 bits are further off than one grid for a row with 4.", {
            error_at(rows, 3, 32).zip(error_at(rows, 4, widest)).map(|(three, four)| three > four)
        })
}

fn at(ways: &[Way], name: &str, bits: u32) -> Option<Errors> {
    ways.iter().find(|way| (way.0, way.1) == (name, bits)).map(|way| way.2)
}

/// Two ways beside each other, with 4, 3 and 2 bits.
fn beside(ways: &[Way], one: &str, other: &str) -> Option<Vec<(Errors, Errors)>> {
    [4, 3, 2].into_iter().map(|bits| at(ways, one, bits).zip(at(ways, other, bits))).collect()
}

/// What holds of clipped grids.
pub fn clipping_claims(ways: &[Way]) -> Claims {
    let gains = beside(ways, "clipped", "nearest")
        .map(|all| all.iter().map(|(clipped, nearest)| clipped.weights / nearest.weights).collect::<Vec<f64>>());
    let are = |so: fn(&Vec<f64>) -> bool| gains.as_ref().map(so);
    Claims::new("Of this layer, in groups of 64")
        .that("Clipping never makes the error of the weights larger.", are(|all| all.iter().all(|gain| *gain <= 1.0)))
        .that("The fewer the bits, the more it takes away.", are(|all| all.windows(2).all(|pair| pair[1] < pair[0])))
}

/// The error of outputs by GPTQ with 3 bits, as a part of that by rounding to the nearest, on calibration texts.
pub fn gptq_part(ways: &[Way]) -> f64 {
    at(ways, "GPTQ", 3).zip(at(ways, "nearest", 3)).map_or(f64::NAN, |(gptq, nearest)| gptq.outputs / nearest.outputs)
}

/// What holds of GPTQ.
pub fn ways_claims(ways: &[Way]) -> Claims {
    let pairs = beside(ways, "GPTQ", "nearest");
    let all = |holds: fn(&(Errors, Errors)) -> bool| pairs.as_ref().map(|pairs| pairs.iter().all(holds));
    Claims::new("Of this layer")
        .that("On calibration texts, with 4, 3 and 2 bits, what comes out is closer by GPTQ than by the nearest.", {
            all(|(gptq, near)| gptq.outputs < near.outputs)
        })
        .that("Its weights are further off, each time.", all(|(gptq, near)| gptq.weights > near.weights))
        .that("On texts that it has not seen, it gains less, each time.", {
            all(|(gptq, near)| gptq.unseen / near.unseen > gptq.outputs / near.outputs)
        })
        .that("With 2 bits, clipped grids bring what comes out closer still, on other texts too.", {
            at(ways, "GPTQ, clipped", 2)
                .zip(at(ways, "GPTQ", 2))
                .map(|(clipped, whole)| clipped.outputs < whole.outputs && clipped.unseen < whole.unseen)
        })
}

/// What each way changed in a layer's weights and outputs.
pub fn errors_table(title: &str, layer: &CalibratedLayer, rows: &[Way]) -> Table {
    let [(calibration, seen), (others, unseen)] = layer.compared_on();
    let named = |texts: usize, kind: &str| format!("of outputs, {}", counted(texts, &format!("{kind} text")));
    Table::new(title)
        .column("codes of", "bits", rows.iter().map(|row| row.1 as usize))
        .column("rounded", "", rows.iter().map(|row| row.0))
        .column("error of weights", "%", rows.iter().map(|row| row.2.weights))
        .column(named(calibration, "calibration"), "%", rows.iter().map(|row| row.2.outputs))
        .column(named(others, "other"), "%", rows.iter().map(|row| row.2.unseen))
        .note(format!("outputs for {seen} tokens of the calibration texts, and for {unseen} of the others"))
}

/// The errors of outputs as bars, on calibration texts and on others.
///
/// # Errors
/// A number that is not finite.
pub fn outputs_plot(rows: &[Way]) -> Result<BarPlot> {
    let empty = BarPlot::new("What comes out of the layer, by how it was rounded").y("error of outputs", "%").log_y();
    rows.iter().filter(|way| way.0 != "GPTQ, columns in turn").try_fold(empty, |plot, (name, bits, errors)| {
        let name = format!("{name}, {bits} bits");
        plot.bar("calibration texts", &name, errors.outputs)?.bar("other texts", &name, errors.unseen)
    })
}

/// The four numbers of each reading; none as long as the function is not written.
pub fn numbers_of(readings: &[Reading], four_numbers: fn(f64, usize, &str) -> [f64; 4]) -> Vec<[f64; 4]> {
    ask(|| Ok(readings.iter().map(|r| four_numbers(r.nats, r.tokens, &r.text)).collect())).unwrap_or_default()
}

/// The readings of one text, and the four numbers of each.
pub fn units_table(readings: &[Reading], four_numbers: fn(f64, usize, &str) -> [f64; 4]) -> Table {
    let numbers = numbers_of(readings, four_numbers);
    let readings = if numbers.is_empty() { &[][..] } else { readings };
    let of = |part: usize| numbers.iter().map(move |numbers| numbers[part]);
    let table = Table::new("One model, one text: its perplexity is")
        .column("window", "tokens", readings.iter().map(|r| r.window))
        .column("stride", "tokens", readings.iter().map(|r| r.stride))
        .column("sum", "nats", readings.iter().map(|r| r.nats))
        .column("per token", "", of(0))
        .column("per word", "", of(1))
        .column("per byte", "", of(2))
        .column("bits per byte", "", of(3));
    let Some(Reading { tokens, text, .. }) = readings.first() else { return table };
    let words = text.split_whitespace().count();
    let table = table.note(format!("{tokens} tokens, {words} words, {} bytes are predicted", text.len()));
    // It holds the first token, too, which is not predicted.
    match readings.iter().find(|one| one.window > one.tokens) {
        Some(Reading { window, .. }) => {
            table.note(format!("a window of {window} tokens holds the whole text: its stride plays no part"))
        }
        None => table,
    }
}

/// The perplexity per word as a multiple of that per token, of the last reading.
pub fn words_ratio(numbers: &[[f64; 4]]) -> f64 {
    numbers.last().map_or(f64::NAN, |[token, word, ..]| word / token)
}

/// What holds of the readings.
pub fn units_claims(readings: &[Reading], numbers: &[[f64; 4]]) -> Claims {
    let perplexities = || numbers.iter().flat_map(|numbers| numbers[..3].iter().copied());
    let (largest, smallest) = (perplexities().fold(0.0, f64::max), perplexities().fold(f64::INFINITY, f64::min));
    Claims::new("Of this model and this text")
        .that("Each shorter stride, or wider window, makes the sum smaller.", {
            readings.windows(2).all(|pair| pair[1].nats < pair[0].nats)
        })
        .that("The largest perplexity of the table is more than ten times the smallest.", {
            (!numbers.is_empty()).then_some(largest > 10.0 * smallest)
        })
}

/// A model beside itself in NF4, FP4, int8, and affine int4 and int3 in groups of 64.
///
/// # Errors
/// As [`compare_formats`].
pub fn aware_quality(id: &str, texts: &[&str]) -> Result<Vec<FormatQuality>> {
    let affine = |bits| QuantizationConfig::affine(bits, 64, Rounding::Nearest);
    let formats = [
        ("NF4", QuantizationConfig::nf4()),
        ("FP4", QuantizationConfig::fp4()),
        ("int8", QuantizationConfig::int8()),
        ("int4", affine(4)),
        ("int3", affine(3)),
    ];
    let formats = formats.map(|(name, config)| Configuration::quantized(name, config));
    compare_formats(&load_model(&[id], &LoadOptions::default())?, &formats, texts)
}

/// What each of three models is called: as it was trained, after more steps, and after as many with rounded weights.
const TRAINED: [&str; 3] = ["embedded", "embedded:control", "embedded:qat"];

/// The three models, each against itself in full precision, format by format, and what rounding in training has spared.
pub fn aware_table(models: [&[FormatQuality]; 3], seen: &[&str]) -> Table {
    let [plain, ..] = models.map(without_floor);
    let change = "difference, embedded:control - embedded:qat";
    let table = Table::new("What training with 4 bits buys")
        .column("format", "", plain.iter().map(|one| one.name.as_str()))
        .column("trained with", "", plain.iter().map(|one| if seen.contains(&&*one.name) { "yes" } else { "no" }));
    let table = TRAINED.into_iter().zip(models).fold(table, |table, (name, model)| {
        let of_model = without_floor(model).into_iter().map(|one| one.comparison.kl_divergence.to_string());
        table.column(&format!("KL divergence, {name}"), "nats", of_model)
    });
    let table = table
        .column(change, "nats", plain.iter().map(|one| spared(models, &one.name)))
        .plus_minus(change)
        .note("KL divergence: of each model from itself in full precision")
        .note("\u{b1}: 95% interval; where that of the difference, which is paired, lies above 0, embedded:qat costs less");
    let perplexity = |model: &[FormatQuality]| Some(model.first()?.comparison.base_perplexity.to_string());
    match models.map(perplexity) {
        [Some(plain), Some(control), Some(aware)] => table.note(format!(
            "perplexity in full precision: {plain}, after the steps {control}, and after those of embedded:qat {aware}"
        )),
        _ => table,
    }
}

fn without_floor(model: &[FormatQuality]) -> Vec<&FormatQuality> {
    model.iter().filter(|one| !one.is_noise_floor()).collect()
}

/// What rounding in training has spared a format, beside as many steps without, paired; `None` if either model was not
/// measured in it.
fn spared([_, control, aware]: [&[FormatQuality]; 3], format: &str) -> Option<Estimate> {
    let [control, aware] = [control, aware].map(|model| model.iter().find(|one| one.name == format));
    control?.comparison.kl_divergence_above(&aware?.comparison).map(Estimate::from)
}

/// What holds of the three models.
pub fn aware_claims(models: [&[FormatQuality]; 3]) -> Claims {
    let less = |name| spared(models, name).map(|change| change.low > 0.0);
    Claims::new("Three models, each beside itself in full precision")
        .that("After training with NF4 and FP4, NF4 costs less than after as many steps without.", less("NF4"))
        .that("FP4 costs less, too.", less("FP4"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(weights: f64, outputs: f64) -> Errors {
        Errors { weights, outputs, unseen: outputs + 1.0 }
    }

    #[test]
    fn curves_are_compared_by_groups_and_bits() {
        let row = |bits, group, error| (bits, group, f64::from(bits), of(error, 1.0));
        let rows =
            [row(4, 32, 1.0), row(4, 64, 1.5), row(4, 96, 2.0), row(3, 32, 2.1), row(3, 64, 3.0), row(3, 96, 4.0)];
        let rows = [&rows[..], &[row(2, 32, 5.0), row(2, 96, 6.0)]].concat();
        assert!((error_ratio(&rows) - 2.0).abs() < 1e-12 && error_ratio(&[]).is_nan());
        assert!(curve_claims(&rows).hold() && curve_claims(&[]).hold());
        assert!(!curve_claims(&[&[row(3, 32, 1.9)], &rows[..]].concat()).hold());
        assert_eq!(error_curves(&rows).unwrap().table().rows(), 8);
    }

    #[test]
    fn ways_are_compared_bit_by_bit() {
        let of_bits = |bits, worse: f64| {
            [
                ("nearest", bits, of(10.0, 10.0)),
                ("clipped", bits, of(10.0 - worse, 10.0)),
                ("GPTQ", bits, of(11.0, 6.0)),
                ("GPTQ, clipped", bits, of(11.0, 5.0)),
            ]
        };
        let ways = [of_bits(4, 0.0), of_bits(3, 1.0), of_bits(2, 2.0)].concat();
        assert!(ways_claims(&ways).hold() && clipping_claims(&ways).hold());
        assert!((gptq_part(&ways) - 0.6).abs() < 1e-12 && gptq_part(&[]).is_nan());
        let turned = [of_bits(4, 2.0), of_bits(3, 1.0), of_bits(2, -1.0)].concat();
        assert!(!clipping_claims(&turned).hold());
        assert!(ways_claims(&[]).to_string().contains("not measured yet"));
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let layer = CalibratedLayer::of(&loaded, &["Once upon a time"; 3], &["there lived a fisher"]).unwrap();
        let table = errors_table("t", &layer, &ways);
        let text = table.to_text();
        assert!(text.contains("of outputs, 3 calibration texts"), "{text}");
        assert!(text.contains("of outputs, 1 other text") && !text.contains("1 other texts"), "{text}");
        assert_eq!((table.rows(), outputs_plot(&ways).unwrap().table().rows()), (12, 24));
    }

    #[test]
    fn one_reading_has_four_numbers() {
        let reading = |window, nats| Reading { window, stride: 1, nats, tokens: 4, text: "two words of it".to_owned() };
        let readings = [reading(8, 20.0), reading(16, 12.0)];
        let four = |nats: f64, tokens: usize, _: &str| [(nats / tokens as f64).exp(), 1.0, 1.0, 1.0];
        let numbers = numbers_of(&readings, four);
        assert!((words_ratio(&numbers) * numbers[1][0] - 1.0).abs() < 1e-12);
        assert!(
            units_claims(&readings, &numbers).hold() && !units_claims(&[reading(8, 1.0), reading(9, 2.0)], &[]).hold()
        );
        assert!(units_table(&readings, four).to_text().contains("4 tokens, 4 words, 15 bytes"));
        assert!(units_table(&readings, four).to_text().contains("a window of 8 tokens holds the whole text"));
        assert!(!units_table(&[reading(4, 20.0)], four).to_text().contains("the whole text"));
        assert_eq!(units_table(&readings, |_, _, _| todo!()).rows(), 0);
    }

    #[test]
    fn three_models_are_compared_format_by_format() {
        let texts = ["Once upon a time there lived a fisher who had a small boat."];
        let models = TRAINED.map(|id| aware_quality(id, &texts).unwrap());
        let models = models.each_ref().map(Vec::as_slice);
        let text = aware_table(models, &["NF4", "FP4"]).to_text();
        assert!(text.contains("int3") && text.contains("yes") && !text.contains("noise floor"), "{text}");
        assert!(aware_claims([&[]; 3]).to_string().contains("not measured yet"));
        let [plain, ..] = models;
        assert_eq!(spared([plain; 3], "NF4").map(|change| change.value), Some(0.0));
        assert_eq!(spared([plain, plain, &[]], "NF4"), None);
    }
}
