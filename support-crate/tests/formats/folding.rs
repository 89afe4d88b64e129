//! Transformations that are folded into weights: what a model computes stays, what quantization costs does not.

use std::path::Path;

use crate::common::copy::{Copy, Tensors, expect, filled};
use crate::common::{Case, cases, distance, golden, load, tiny};
use candle_core::{Device as CandleDevice, Tensor};
use quantlab::error::Result;
use quantlab::measure::compare_quality;
use quantlab::model::{
    Engine, Fold, LoadOptions, Loaded, LogitPositions, Precision, Site, TokenBatch, calibrate, load_model,
};
use quantlab::quant::{CalibrationMethod, Granularity, QuantizationConfig};
use quantlab::source::held_out_text;

const PROMPTS: [&str; 3] = ["The quick brown fox jumps over the lazy dog.", "One, two, three, four, 5", "To be or not"];

/// How far logits may be from those without a fold, as a share of their root mean square: the sums of float32 are others.
const ROUNDING: f32 = 1e-3;

fn folded(model_id: &str, fold: Fold) -> Result<Loaded> {
    load_model(&[model_id], &LoadOptions { fold: Some(fold), ..LoadOptions::default() })
}

fn plain(model_id: &str) -> Loaded {
    load_model(&[model_id], &LoadOptions::default()).unwrap()
}

fn id(folder: &Path) -> &str {
    folder.to_str().unwrap()
}

fn logits(loaded: &Loaded) -> Vec<f32> {
    let ids: Vec<u32> = (0..40).map(|i| (i * 37 + 11) % 250).collect();
    let tokens = TokenBatch::single(&ids).unwrap();
    loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec()
}

/// Both compute the same, but not by the same numbers.
#[track_caller]
fn assert_same(what: &str, found: &Loaded, expected: &Loaded) {
    let (found, expected) = (logits(found), logits(expected));
    let square: f64 = expected.iter().map(|logit| f64::from(*logit).powi(2)).sum();
    let error = distance(&found, &expected) / (square / expected.len() as f64).sqrt() as f32;
    assert!(error < ROUNDING, "{what}: {error}");
    assert!(error > 0.0, "{what}: nothing was changed");
}

fn is_gated(loaded: &Loaded) -> bool {
    let sites = std::cell::RefCell::new(Vec::new());
    Fold::scales(loaded, &["a"], "", |site| {
        sites.borrow_mut().push(site.site);
        Ok(vec![1.0; site.largest.len()])
    })
    .unwrap();
    sites.into_inner().contains(&Site::MlpOut)
}

/// A reflection at a plane that has what is all alike in it, so that means stay.
fn reflection(width: usize) -> Vec<f32> {
    let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    let number = |(i, j)| f32::from(u8::from(i == j)) - 2.0 * sign(i) * sign(j) / width as f32;
    (0..width * width).map(|at| number((at / width, at % width))).collect()
}

/// Every kind of fold for a model. AWQ only where rows are whole groups of 32.
fn folds(loaded: &Loaded, awq: bool) -> Vec<Fold> {
    let outliers = || Fold::outliers(2, 30.0, 5).unwrap();
    let smooth = || Fold::smooth_quant(loaded, &PROMPTS, 0.5).unwrap();
    let mut folds = vec![outliers(), Fold::hadamard(7), smooth(), outliers().then(Fold::hadamard(1))];
    folds.extend([Fold::hadamard(1).then(Fold::hadamard(2)), Fold::hadamard(3).then(smooth())]);
    folds.push(Fold::rotation(reflection(loaded.model.info().hidden_size)).unwrap());
    folds.push(Fold::scales(loaded, &PROMPTS, "by means", |site| Ok(site.means.clone())).unwrap());
    let inner = if is_gated(loaded) { Site::MlpOut } else { Site::AttentionOut };
    folds.push(Fold::outliers_at(&[Site::AttentionOut, inner, Site::MlpIn], 2, 20.0, 3).unwrap());
    if awq {
        folds.push(Fold::awq(loaded, &PROMPTS, 32).unwrap());
    }
    folds
}

#[test]
fn every_family_computes_the_same() {
    for case in cases() {
        let loaded = case.load();
        for fold in folds(&loaded, ["gpt2-tiny", "llama-tiny"].contains(&&*case.name)) {
            let found = folded(id(&case.folder), fold.clone()).unwrap();
            assert_same(&format!("{}, {fold}", case.name), &found, &loaded);
            assert_eq!(found.dtype_label, format!("{}, folded: {fold}", loaded.dtype_label));
        }
    }
    let embedded = plain("embedded");
    for fold in folds(&embedded, true) {
        assert_same(&format!("embedded, {fold}"), &folded("embedded", fold).unwrap(), &embedded);
    }
}

/// Numbers between -1 and 1 that repeat for the same name.
fn random(name: &str, shape: &[usize]) -> Tensor {
    let start = name.bytes().fold(0.0, |sum, byte| 1.7 * sum % 100.0 + f32::from(byte));
    let numbers: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| (start + 12.9898 * i as f32).sin()).collect();
    Tensor::from_vec(numbers, shape, &CandleDevice::Cpu).unwrap()
}

/// The tiny Llama with biases everywhere, norms that scale, and a tied head.
fn with_biases() -> Copy {
    let copy = Copy::of(&golden().join("llama-tiny"));
    copy.change_config(|config| {
        for key in ["attention_bias", "mlp_bias", "tie_word_embeddings"] {
            config[key] = true.into();
        }
    });
    copy.change_tensors(|tensors| {
        tensors.remove("lm_head.weight");
        let names: Vec<(String, usize)> =
            tensors.iter().map(|(name, tensor)| (name.clone(), tensor.dims()[0])).collect();
        for (name, rows) in names {
            if name.ends_with("norm.weight") {
                tensors.insert(name.clone(), ((random(&name, &[rows]) * 0.8).unwrap() + 1.0).unwrap());
            } else if name.ends_with("_proj.weight") {
                let bias = name.replace("weight", "bias");
                tensors.insert(bias.clone(), (random(&bias, &[rows]) * 0.3).unwrap());
            }
        }
    });
    copy
}

#[test]
fn biases_and_tied_heads_are_changed_along_on_every_engine() {
    let copy = with_biases();
    let expected = copy.load().unwrap();
    for fold in folds(&expected, true) {
        for engine in Engine::ALL {
            let options = LoadOptions { engine: Some(engine), fold: Some(fold.clone()), ..LoadOptions::default() };
            assert_same(&format!("{fold} on {engine}"), &copy.load_with(&options).unwrap(), &expected);
        }
    }
}

#[test]
fn what_is_folded_in_can_be_saved() {
    for (model_id, fold) in [("embedded", Fold::hadamard(4)), (id(&golden().join("llama3-tiny")), Fold::hadamard(4))] {
        let expected = plain(model_id);
        let found = folded(model_id, fold).unwrap();
        // The head has become a matrix of its own.
        let (v, c) = (expected.model.info().vocab_size, expected.model.info().hidden_size);
        assert_eq!(found.model.info().num_parameters, expected.model.info().num_parameters + v * c);
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("folded");
        found.save_pretrained(&saved).unwrap();
        let again = plain(id(&saved));
        assert!(again.fold.is_none() && logits(&again) == logits(&found), "{model_id}");
        // What is found for the model in memory is found for the one on disk.
        let smooth = |loaded| Fold::smooth_quant(loaded, &PROMPTS, 0.5).unwrap();
        assert_eq!(smooth(&again), smooth(&found));
    }
}

#[test]
fn blocks_of_gguf_files_are_restored_first() {
    let path = golden().join("llama-tiny-gguf/q4_k_m.gguf");
    let expected = load_model(&[id(&path)], &LoadOptions { dequantize: true, ..LoadOptions::default() }).unwrap();
    for fold in [Fold::hadamard(1), Fold::smooth_quant(&expected, &PROMPTS, 0.5).unwrap()] {
        let found = folded(id(&path), fold.clone()).unwrap();
        assert_same(&fold.to_string(), &found, &expected);
        assert_eq!(found.dtype_label, format!("{}, folded: {fold}", expected.dtype_label));
    }
    // As the file has them, they are quantized.
    let error = Fold::smooth_quant(&plain(id(&path)), &PROMPTS, 0.5).unwrap_err().to_string();
    assert!(error.contains("already quantized"), "{error}");
}

#[test]
fn other_precisions_round_what_was_folded() {
    let options = |fold| LoadOptions { precision: Precision::BFloat16, fold, ..LoadOptions::default() };
    let [with, without] =
        [Some(Fold::hadamard(1)), None].map(|fold| load_model(&["embedded"], &options(fold)).unwrap());
    let (found, expected) = (logits(&with), logits(&without));
    let largest = expected.iter().map(|logit| logit.abs()).fold(0.0, f32::max);
    assert!(distance(&found, &expected) < 0.05 * largest, "{} of {largest}", distance(&found, &expected));
}

/// The mean KL divergence from full precision, in nats, on a text that no scales come from.
fn divergence(base: &Loaded, fold: Option<Fold>, quantization: QuantizationConfig, text: &str) -> f64 {
    let quantization = Some(quantization);
    let quantized = load_model(&[&base.model_id], &LoadOptions { fold, quantization, ..LoadOptions::default() });
    compare_quality(base, &quantized.unwrap(), &[text]).unwrap().kl_divergence.value
}

/// Static int8 per tensor, calibrated on the model that is to be quantized.
fn static_int8(model_id: &str, fold: Option<Fold>, prompts: &[&str]) -> QuantizationConfig {
    let loaded = load_model(&[model_id], &LoadOptions { fold, ..LoadOptions::default() }).unwrap();
    let calibration = calibrate(&loaded, prompts, CalibrationMethod::AbsMax, Granularity::PerTensor);
    QuantizationConfig::static_int8(calibration.unwrap())
}

/// Calibration prompts from the second half of the text, each within the context; measurements are made on its first.
fn prompts() -> Vec<&'static str> {
    let text = held_out_text();
    (0..6).map(|i| 80_000 + 8_000 * i).map(|start| &text[start..start + 900]).collect()
}

#[test]
fn outliers_ruin_static_int8_and_the_right_fold_restores_it() {
    let (base, prompts, text) = (plain("embedded"), prompts(), &held_out_text()[..4_000]);
    let outliers = || Fold::outliers(4, 100.0, 9).unwrap();
    let with_outliers = folded("embedded", outliers()).unwrap();
    let smooth = outliers().then(Fold::smooth_quant(&with_outliers, &prompts, 0.5).unwrap());
    let turned = outliers().then(Fold::hadamard(1));
    let of = |fold: Option<Fold>| {
        let config = static_int8("embedded", fold.clone(), &prompts);
        divergence(&base, fold, config, text)
    };
    let (without, with, smooth, turned) = (of(None), of(Some(outliers())), of(Some(smooth)), of(Some(turned)));
    println!("KL: {without}, with outliers {with}, then SmoothQuant {smooth}, or turned {turned}");
    assert!(with > 20.0 * without, "{with} {without}");
    for restored in [smooth, turned] {
        assert!(restored < 0.1 * with && restored < 5.0 * without, "{restored} of {with}, {without} without");
    }
}

/// Where norms make the channels, the residual stream's rotation takes outliers away again; elsewhere it cannot.
#[test]
fn outliers_of_values_ruin_static_int8_too_and_a_rotation_does_not_help() {
    let (base, prompts, text) = (plain("embedded"), prompts(), &held_out_text()[..4_000]);
    let outliers = |site| Fold::outliers_at(&[site], 4, 100.0, 9).unwrap();
    let of = |fold: Option<Fold>| {
        let config = static_int8("embedded", fold.clone(), &prompts);
        divergence(&base, fold, config, text)
    };
    let without = of(None);
    let [norms, values] = [Site::MlpIn, Site::AttentionOut].map(|site| {
        let fold = outliers(site);
        [of(Some(fold.clone())), of(Some(fold.then(Fold::hadamard(1))))]
    });
    println!("KL: {without}, with outliers {norms:?} and {values:?}, plain and turned");
    assert!(norms[0] > 5.0 * without && norms[1] < 2.0 * without, "{without} {norms:?}");
    assert!(values[0] > 5.0 * without && values[1] > 0.5 * values[0], "{without} {values:?}");
}

#[test]
fn own_scales_by_the_same_rule_are_those_of_smooth_quant() {
    let loaded = plain(id(&golden().join("llama-tiny")));
    let own = Fold::scales(&loaded, &PROMPTS, "SmoothQuant by hand", |site| {
        let weights = site.largest_weights();
        Ok(site.largest.iter().zip(weights).map(|(x, w)| x.powf(0.5) / w.powf(0.5)).collect())
    });
    let [own, theirs] = [own, Fold::smooth_quant(&loaded, &PROMPTS, 0.5)]
        .map(|fold| logits(&folded(&loaded.model_id, fold.unwrap()).unwrap()));
    let largest = theirs.iter().map(|logit| logit.abs()).fold(0.0, f32::max);
    assert!(distance(&own, &theirs) < 1e-5 * largest, "{}", distance(&own, &theirs));
}

#[test]
fn awq_rounds_to_int4_better_than_to_nearest() {
    let (base, prompts) = (plain("embedded"), prompts());
    let of = |fold, text| divergence(&base, fold, QuantizationConfig::int4(32), text);
    let calibration = prompts.join(" ");
    let awq = Fold::awq(&base, &prompts, 32).unwrap();
    let (plain, found) = (of(None, &calibration), of(Some(awq), &calibration));
    println!("KL: nearest {plain}, AWQ {found}");
    assert!(found < plain, "{found} {plain}");
    // Where outliers decide what a group's step is, by much.
    let outliers = || Fold::outliers(4, 0.05, 9).unwrap();
    let awq = outliers().then(Fold::awq(&folded("embedded", outliers()).unwrap(), &prompts, 32).unwrap());
    let (with, found) = (of(Some(outliers()), &calibration), of(Some(awq), &calibration));
    println!("KL with large weights: nearest {with}, AWQ {found}");
    assert!(with > 2.0 * plain && found < 0.5 * with, "{plain} {with} {found}");
}

#[test]
fn folds_that_make_no_sense_are_refused() {
    let base = load(tiny(), "float32");
    let message = |fold: Result<Fold>| fold.unwrap_err().to_string();
    for (channels, factor, expected) in [
        (0, 2.0, "no channels"),
        (1, 0.0, "scaled by 0"),
        (1, -3.0, "scaled by -3"),
        (1, f32::NAN, "scaled by NaN"),
        (1, f32::INFINITY, "scaled by inf"),
        (1, f32::MAX, "scaled by 34028"),
    ] {
        let text = message(Fold::outliers(channels, factor, 1));
        assert!(text.contains(expected), "{text}");
    }
    for alpha in [-0.1, 1.1, f32::NAN] {
        assert!(message(Fold::smooth_quant(&base, &PROMPTS, alpha)).contains(&format!("`alpha` cannot be {alpha}")));
    }
    assert!(message(Fold::outliers_at(&[], 1, 2.0, 1)).contains("no sites"));
    expect(&folded(id(tiny()), Fold::outliers_at(&[Site::MlpOut], 1, 2.0, 1).unwrap()), &["`MLP out`", "not gated"]);
    assert!(message(Fold::rotation(vec![1.0; 3])).contains("no square matrix"));
    assert!(message(Fold::rotation(vec![1.0, 0.0, 0.5, 1.0])).contains("rows 0 and 1 have a dot product of 0.5"));
    assert!(message(Fold::rotation(vec![f32::NAN])).contains("NaN"));
    expect(&folded(id(tiny()), Fold::rotation(reflection(4)).unwrap()), &["16 numbers, for 64 channels"]);
    let mut signs = vec![0.0; 64 * 64];
    (0..64).for_each(|i| signs[65 * i] = if i == 3 { -1.0 } else { 1.0 });
    expect(&folded(id(tiny()), Fold::rotation(signs).unwrap()), &["changes means"]);
    let scales =
        |numbers: fn(usize) -> Vec<f32>| Fold::scales(&base, &PROMPTS, "", |site| Ok(numbers(site.means.len())));
    assert!(message(scales(|_| vec![1.0])).contains("attention in: 1 scales for 64 channels"));
    assert!(message(scales(|n| vec![-1.0; n])).contains("scaled by -1"));
    let none: [&str; 0] = [];
    assert!(message(Fold::smooth_quant(&base, &none, 0.5)).contains("no prompts"));
    assert!(message(Fold::awq(&base, &none, 32)).contains("no prompts"));
    assert!(message(Fold::awq(&base, &["a", ""], 32)).starts_with("prompt 1: the sequence holds no tokens"));
    assert!(message(Fold::awq(&base, &PROMPTS, 33)).contains("groups cannot have 33"));
    assert!(message(Fold::awq(&base, &PROMPTS, 96)).contains("64 inputs cannot be divided"));
    expect(&folded(id(tiny()), Fold::outliers(65, 2.0, 1).unwrap()), &["64 channels, not 65", "65 outliers x 2"]);
    // Models whose layers cannot be seen, or are quantized.
    let quantization = Some(QuantizationConfig::nf4());
    for options in [
        LoadOptions { engine: Some(Engine::Tch), ..LoadOptions::default() },
        LoadOptions { quantization, ..LoadOptions::default() },
    ] {
        let loaded = load_model(&[id(tiny())], &options).unwrap();
        let [smooth, awq] = [Fold::smooth_quant(&loaded, &PROMPTS, 0.5), Fold::awq(&loaded, &PROMPTS, 32)].map(message);
        let expected = if options.quantization.is_some() { "already quantized" } else { "cannot be observed" };
        assert!(smooth.contains(expected) && awq.contains(expected), "{smooth}\n{awq}");
    }
    let folder = tempfile::tempdir().unwrap();
    let quantization = Some(QuantizationConfig::nf4());
    let nf4 = load_model(&[id(tiny())], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap();
    nf4.save_pretrained(folder.path().join("nf4")).unwrap();
    expect(&folded(id(&folder.path().join("nf4")), Fold::hadamard(1)), &["the checkpoint is quantized"]);
    // Two halves that were opened one by one.
    let other = load(tiny(), "float32");
    let loaded = Loaded::new(other.tokenizer, other.model, "halves", "float32").unwrap();
    assert!(message(Fold::smooth_quant(&loaded, &PROMPTS, 0.5)).contains("opened separately"));
}

#[test]
fn scales_of_another_model_are_refused() {
    let names = ["llama-tiny", "mistral-tiny", "qwen2-tiny", "gpt2-tiny"];
    let cases = names.map(|name| Case::read(golden().join(name)));
    for made_for in &cases {
        let fold = Fold::smooth_quant(&made_for.load(), &PROMPTS, 0.5).unwrap();
        for case in &cases {
            let result = folded(id(&case.folder), fold.clone());
            if case.name == made_for.name {
                assert!(result.is_ok());
            } else {
                expect(&result, &["folding in SmoothQuant (alpha 0.5)", "the scales were found for another model"]);
            }
        }
    }
}

#[test]
fn weights_that_are_no_numbers_say_so() {
    let with = |name: &str, value: f32| {
        let copy = Copy::of(tiny());
        copy.change_tensors(|tensors: &mut Tensors| {
            let shape = tensors[name].dims().to_vec();
            tensors.insert(name.to_owned(), filled(&shape, value));
        });
        copy
    };
    let options = LoadOptions { fold: Some(Fold::hadamard(1)), ..LoadOptions::default() };
    let copy = with("transformer.h.1.mlp.c_fc.weight", f32::NAN);
    expect(&copy.load_with(&options), &["`transformer.h.1.mlp.c_fc.weight`", "NaN or an infinity"]);
    // What goes into the layers is still finite; their weights are not.
    let copy = with("transformer.h.2.mlp.c_proj.weight", f32::INFINITY);
    let loaded = copy.load().unwrap();
    let error = Fold::awq(&loaded, &PROMPTS, 32).unwrap_err().to_string();
    assert!(error.contains("lm_head: an input is NaN"), "{error}");
    expect(&with("transformer.h.0.ln_1.weight", 0.0).load_with(&options), &["`transformer.h.0.ln_1.weight`", "of 0"]);
    // Tensors that are not there, or of another shape, are named as ever.
    let copy = Copy::of(tiny());
    copy.change_tensors(|tensors| {
        tensors.insert("transformer.wte.weight".to_owned(), filled(&[384, 32], 0.1));
    });
    expect(&copy.load_with(&options), &["`transformer.wte.weight`", "[384, 32]", "[384, 64]"]);
}
