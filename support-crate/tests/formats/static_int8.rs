//! Static int8 from end to end: prompts to scales, scales to a model, and how far that is from full precision.

use std::path::Path;
use std::slice::from_ref;

use crate::common::copy::{Copy, filled};
use crate::common::{Case, cases, tiny};
use quantlab::error::Result;
use quantlab::measure::{PerplexityOptions, perplexity};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, Logits, TokenBatch, calibrate, load_model};
use quantlab::quant::{ActivationScale, Calibration, CalibrationMethod, Calibrator, Granularity};
use quantlab::quant::{Head, QuantizationConfig};
use quantlab::source::held_out_text;

const PROMPTS: [&str; 3] = ["The quick brown fox jumps over the lazy dog.", "One, two, three, four, 5", "To be or not"];

fn try_load(folder: &Path, quantization: Option<QuantizationConfig>) -> Result<Loaded> {
    load_model(&[folder.to_str().unwrap()], &LoadOptions { quantization, ..LoadOptions::default() })
}

fn plain() -> Loaded {
    try_load(tiny(), None).unwrap()
}

fn absmax(loaded: &Loaded) -> Calibration {
    calibrate(loaded, &PROMPTS, CalibrationMethod::AbsMax, Granularity::PerTensor).unwrap()
}

fn tokens_of(loaded: &Loaded, text: &str) -> Vec<u32> {
    loaded.tokenizer.encode(text).unwrap()
}

fn logits(loaded: &Loaded, rows: &[Vec<u32>]) -> Logits {
    loaded.model.forward(&TokenBatch::new(rows).unwrap(), None, LogitPositions::All).unwrap()
}

/// A calibration per tensor with these layers: name, channels, and the largest magnitude that was seen.
fn made(layers: &[(&str, usize, f32)]) -> Calibration {
    let mut calibrator = Calibrator::new(CalibrationMethod::AbsMax, Granularity::PerTensor).unwrap();
    layers.iter().for_each(|(name, channels, largest)| {
        calibrator.observe(name, &vec![*largest; *channels], *channels).unwrap();
    });
    calibrator.finish().unwrap()
}

/// A calibration whose ranges are so many times as wide as they should be.
fn stretched(calibration: &Calibration, times: f32) -> Calibration {
    let mut calibrator = Calibrator::new(CalibrationMethod::AbsMax, calibration.granularity()).unwrap();
    for layer in calibration.layers() {
        let ends: Vec<f32> = match &layer.scale {
            ActivationScale::PerTensor(scale) => vec![scale * 127.0 * times; layer.channels],
            ActivationScale::PerChannel(scales) => scales.iter().map(|scale| scale * 127.0 * times).collect(),
        };
        calibrator.observe(&layer.layer, &ends, layer.channels).unwrap();
    }
    calibrator.finish().unwrap()
}

#[test]
fn every_layer_is_seen_by_its_name_and_for_every_token() {
    for case in cases() {
        let loaded = case.load();
        let calibration = absmax(&loaded);
        let tokens: usize = PROMPTS.iter().map(|prompt| tokens_of(&loaded, prompt).len()).sum();
        for layer in calibration.layers() {
            assert_eq!(layer.tokens, tokens, "{}: {}", case.name, layer.layer);
            assert!(layer.absmax > 0.0);
        }
        // All of a model's layers, and no other: with all of them skipped, nothing is quantized.
        let names = calibration.layers().iter().map(|layer| layer.layer.clone()).collect();
        let config = QuantizationConfig { skip_modules: Some(names), ..QuantizationConfig::int8() };
        let skipping = try_load(&case.folder, Some(config)).unwrap();
        assert_eq!(skipping.model.info().quant_state_bytes, 0, "{}", case.name);
    }
}

#[test]
fn scales_are_those_of_the_inputs() {
    let loaded = plain();
    let calibration = calibrate(&loaded, &PROMPTS, CalibrationMethod::AbsMax, Granularity::PerChannel).unwrap();
    let ActivationScale::PerChannel(scales) = calibration.scale("transformer.h.0.attn.c_attn").unwrap() else {
        panic!("one scale for each channel");
    };
    let expected = first_inputs(&loaded);
    assert_eq!(scales.len(), expected.len());
    for (scale, expected) in scales.iter().zip(expected) {
        assert!((f64::from(*scale) * 127.0 - expected).abs() < 1e-5, "{scale} {expected}");
    }
}

/// The largest magnitudes of what goes into the first layer: the embeddings of tokens and positions, normalised.
fn first_inputs(loaded: &Loaded) -> Vec<f64> {
    let tensors = candle_core::safetensors::load(tiny().join("model.safetensors"), &candle_core::Device::Cpu).unwrap();
    let numbers =
        |name: &str| -> Vec<f32> { tensors[&format!("transformer.{name}")].flatten_all().unwrap().to_vec1().unwrap() };
    let (wte, wpe) = (numbers("wte.weight"), numbers("wpe.weight"));
    let (scale, shift) = (numbers("h.0.ln_1.weight"), numbers("h.0.ln_1.bias"));
    let c = scale.len();
    let mut largest = vec![0.0_f64; c];
    for prompt in PROMPTS {
        for (position, id) in tokens_of(loaded, prompt).into_iter().enumerate() {
            let sum = |i: usize| f64::from(wte[id as usize * c + i]) + f64::from(wpe[position * c + i]);
            let mean = (0..c).map(sum).sum::<f64>() / c as f64;
            let variance = (0..c).map(|i| (sum(i) - mean).powi(2)).sum::<f64>() / c as f64;
            for (i, largest) in largest.iter_mut().enumerate() {
                let normed = (sum(i) - mean) / (variance + 1e-5).sqrt();
                *largest = largest.max((normed * f64::from(scale[i]) + f64::from(shift[i])).abs());
            }
        }
    }
    largest
}

/// How far the prompts' logits are from those in full precision, as a share: by the roots of their mean squares.
fn error(case: &Case, full: &Loaded, calibration: Calibration) -> f64 {
    let quantized = try_load(&case.folder, Some(QuantizationConfig::static_int8(calibration))).unwrap();
    let (mut noise, mut signal) = (0.0, 0.0);
    for prompt in PROMPTS {
        let row = [tokens_of(full, prompt)];
        for (found, expected) in logits(&quantized, &row).values().iter().zip(logits(full, &row).values()) {
            noise += f64::from(found - expected).powi(2);
            signal += f64::from(*expected).powi(2);
        }
    }
    (noise / signal).sqrt()
}

/// Rounding to 127 steps up to a peak of about 6 times the root mean square adds noise of 6 / (127 * sqrt(12)), or
/// 1.4%, to the inputs of a layer. The weights' noise is as large, and that of 12 layers adds up by squares:
/// 1.4% * sqrt(2 * 12). Steps eight times as wide, or ranges half as wide, are beyond that.
const ERROR: f64 = 0.07;

#[test]
fn logits_stay_close_to_full_precision_by_the_right_scales_only() {
    for case in cases() {
        let full = case.load();
        for granularity in [Granularity::PerTensor, Granularity::PerChannel] {
            let calibration = calibrate(&full, &PROMPTS, CalibrationMethod::AbsMax, granularity).unwrap();
            for (times, is_right) in [(0.5, false), (1.0, true), (8.0, false)] {
                let error = error(&case, &full, stretched(&calibration, times));
                assert_eq!(error < ERROR, is_right, "{}, {granularity}, ranges times {times}: {error}", case.name);
            }
        }
    }
}

/// Three times by how much it grows (0.7%), and a third of what steps four times as wide make of it.
const PERPLEXITY: f64 = 1.02;

#[test]
fn perplexity_of_the_embedded_model_grows_little_by_the_right_scales_only() {
    let load =
        |quantization| load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap();
    let full = load(None);
    let text = &held_out_text()[..16_000];
    let of = |loaded: &Loaded| perplexity(loaded, &[text], &PerplexityOptions::default()).unwrap().perplexity;
    let expected = of(&full);
    for (times, is_right) in [(0.5, false), (1.0, true), (4.0, false)] {
        let calibration = stretched(&absmax(&full), times);
        let found = of(&load(Some(QuantizationConfig::static_int8(calibration))));
        println!("float32 {expected:.3}, static int8 with ranges times {times} {found:.3}");
        assert_eq!((0.99..PERPLEXITY).contains(&(found / expected)), is_right, "{times}: {found} and {expected}");
    }
}

#[test]
fn a_sequence_is_the_same_alone_and_in_a_padded_batch() {
    let rows: Vec<Vec<u32>> =
        [3, 9, 1, 7].iter().map(|&len| (0..len).map(|i| (i * 41 + len * 7) % 384).collect()).collect();
    let longest = 9;
    for granularity in [Granularity::PerTensor, Granularity::PerChannel] {
        let calibration = calibrate(&plain(), &PROMPTS, CalibrationMethod::Percentile(99.0), granularity);
        let config =
            QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::static_int8(calibration.unwrap()) };
        let [loaded, other] = [(); 2].map(|()| try_load(tiny(), Some(config.clone())).unwrap());
        for on_the_left in [true, false] {
            let padded = |row: &Vec<u32>, with: u32| {
                let padding = vec![with; longest - row.len()];
                if on_the_left { [&padding[..], row].concat() } else { [row, &padding[..]].concat() }
            };
            let ids: Vec<Vec<u32>> = rows.iter().map(|row| padded(row, 5)).collect();
            let mask: Vec<Vec<bool>> = rows
                .iter()
                .map(|row| {
                    let ones = vec![1; row.len()];
                    padded(&ones, 0).iter().map(|&bit| bit == 1).collect()
                })
                .collect();
            let batch = TokenBatch::new(&ids).unwrap().with_attention_mask(&mask).unwrap();
            let together = loaded.model.forward(&batch, None, LogitPositions::All).unwrap();
            for (b, row) in rows.iter().enumerate() {
                let alone = logits(&other, from_ref(row));
                let first = if on_the_left { longest - row.len() } else { 0 };
                assert!((0..row.len()).all(|t| together.row(b, first + t) == alone.row(0, t)), "sequence {b}");
            }
        }
    }
}

#[test]
fn the_head_is_an_option() {
    let full = plain();
    let config = QuantizationConfig::static_int8(absmax(&full));
    let rows = [tokens_of(&full, PROMPTS[0])];
    let with = |head| try_load(tiny(), Some(QuantizationConfig { head, ..config.clone() })).unwrap();
    let [as_loaded, int8, as_layers] = [Head::AsLoaded, Head::Int8, Head::AsLayers].map(with);
    assert_eq!(as_loaded.dtype_label, "static int8, rest float32");
    assert_eq!(int8.dtype_label, "static int8, head int8, rest float32");
    assert_eq!(as_layers.dtype_label, "static int8, head too, rest float32");
    let [as_loaded, int8, as_layers] = [as_loaded, int8, as_layers].map(|loaded| logits(&loaded, &rows));
    assert!(as_loaded != int8 && int8 != as_layers && as_loaded != as_layers);
    // The head's rounding comes on top of that of the layers, and is no more than theirs.
    let distance = |a: &Logits, b: &Logits| crate::common::distance(a.values(), b.values());
    let of_layers = distance(&as_loaded, &logits(&full, &rows));
    assert!(distance(&as_layers, &as_loaded) < of_layers, "{} {of_layers}", distance(&as_layers, &as_loaded));
}

#[test]
fn calibrations_that_do_not_fit_the_model() {
    let message = |layers: &[(&str, usize, f32)]| {
        let config = QuantizationConfig::static_int8(made(layers));
        try_load(tiny(), Some(config)).unwrap_err().to_string()
    };
    let expect = |text: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in: {text}");
    };
    let right = absmax(&plain());
    let layers: Vec<(&str, usize, f32)> =
        right.layers().iter().map(|layer| (layer.layer.as_str(), layer.channels, layer.absmax)).collect();
    expect(message(&layers[1..]), &["calibration", "`transformer.h.0.attn.c_attn`"]);
    let mut wrong = layers.clone();
    (wrong[3].0, wrong[3].1) = ("transformer.h.0.mlp.c_proj", 64);
    expect(message(&wrong), &["layer `transformer.h.0.mlp.c_proj`", "calibration", "64", "256"]);
    let more = [&layers[..], &[("transformer.h.3.mlp.c_fc", 64, 1.0)]].concat();
    expect(message(&more), &["calibration", "`transformer.h.3.mlp.c_fc`", "another model"]);
    let of_llama = try_load(Path::new("tests/golden/llama-tiny"), None).unwrap();
    let config = QuantizationConfig::static_int8(absmax(&of_llama));
    let text = try_load(tiny(), Some(config)).unwrap_err().to_string();
    expect(text, &["calibration", "`transformer.h.0.attn.c_attn`"]);
    // Of a layer that stays as it is, nothing need be known.
    let skip = Some(vec!["transformer.h.0.attn.c_attn".to_owned()]);
    let config = QuantizationConfig { skip_modules: skip, ..QuantizationConfig::static_int8(made(&layers[1..])) };
    assert!(try_load(tiny(), Some(config)).is_ok());
}

#[test]
fn what_cannot_be_calibrated_says_so() {
    let message = |loaded: &Loaded, prompts: &[&str], method| {
        calibrate(loaded, prompts, method, Granularity::PerTensor).unwrap_err().to_string()
    };
    let absmax = CalibrationMethod::AbsMax;
    let loaded = plain();
    assert!(message(&loaded, &[], absmax).contains("no prompts"));
    assert!(message(&loaded, &["a", ""], absmax).starts_with("prompt 1: the sequence holds no tokens"));
    let text = message(&loaded, &["a", &"word ".repeat(64)], absmax);
    assert!(text.starts_with("prompt 1: ") && text.contains("context of 64") && text.contains("several"), "{text}");
    assert!(message(&loaded, &["a"], CalibrationMethod::Percentile(0.0)).contains("percentile cannot be 0"));
    for engine in [Engine::Candle, Engine::Tch] {
        let mut options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        let text = message(&load_model(&[tiny().to_str().unwrap()], &options).unwrap(), &["a"], absmax);
        assert!(text.contains(engine.name()) && text.contains("`Engine::Kernels`"), "{text}");
        // Nor can they compute with what was calibrated.
        options.quantization = Some(QuantizationConfig::static_int8(self::absmax(&loaded)));
        let text = load_model(&[tiny().to_str().unwrap()], &options).unwrap_err().to_string();
        assert!(text.contains("static int8") && text.contains("`Engine::Kernels`"), "{text}");
    }
    let int8 = try_load(tiny(), Some(QuantizationConfig::int8())).unwrap();
    assert!(message(&int8, &["a"], absmax).contains("already quantized"));
}

#[test]
fn inputs_that_are_no_numbers_name_their_layer() {
    let copy = Copy::of(tiny());
    copy.change_tensors(|tensors| {
        tensors.insert("transformer.h.1.ln_2.weight".to_owned(), filled(&[64], f32::NAN));
    });
    let loaded = copy.load().unwrap();
    let error = calibrate(&loaded, &["a", "b"], CalibrationMethod::Percentile(99.0), Granularity::PerChannel);
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("prompt 0: transformer.h.1.mlp.c_fc: input 0 is NaN"), "{text}");
    // Quantized, they become no numbers again, and not some.
    let config = QuantizationConfig::static_int8(self::absmax(&plain()));
    let quantized = copy.load_with(&LoadOptions { quantization: Some(config), ..LoadOptions::default() }).unwrap();
    assert!(logits(&quantized, &[vec![1, 2]]).values().iter().all(|logit| logit.is_nan()));
}

#[test]
fn the_report_has_a_row_for_each_layer() {
    let mut calibrator = Calibrator::new(CalibrationMethod::AbsMax, Granularity::PerChannel).unwrap();
    calibrator.observe("h.0.mlp.c_fc", &[127.0_f32, 12.7, -127.0, 0.0], 2).unwrap();
    calibrator.observe("<lm_head>", &[63.5_f32, 63.5], 2).unwrap();
    let table = calibrator.finish().unwrap().table();
    assert_eq!(
        table.to_text(),
        "Calibration: absolute maximum, per channel, 2 layers\n\
         layer         tokens  channels  smallest scale  largest scale  absmax\n\
         ------------  ------  --------  --------------  -------------  ------\n\
         h.0.mlp.c_fc       2         2           0.100           1.00     127\n\
         <lm_head>          1         2           0.500          0.500    63.5\n"
    );
    assert!(table.to_html().contains("&lt;lm_head&gt;"));
}

#[test]
fn the_report_says_what_a_percentile_clips() {
    let mut calibrator = Calibrator::new(CalibrationMethod::Percentile(99.0), Granularity::PerTensor).unwrap();
    // Bins of 1/8: one of 200 inputs is above 50.
    let inputs: Vec<f32> = (1..200).map(|i| i as f32 / 4.0).chain([200.0]).collect();
    calibrator.observe("h.0.mlp.c_fc", &inputs, 4).unwrap();
    let text = calibrator.finish().unwrap().table().to_text();
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(text.lines().next().unwrap(), "Calibration: percentile 99, per tensor, 1 layer");
    assert_eq!(row[..3], ["h.0.mlp.c_fc", "50", "4"]);
    assert_eq!(row[4..], ["200", "49.6", "1.000"], "{text}");
}
