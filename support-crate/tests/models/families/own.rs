//! What can be done with every family.

use quantlab::model::{
    Engine, Fold, LoadOptions, Loaded, LogitPositions, Precision, TokenBatch, calibrate, load_model,
};
use quantlab::quant::{CalibrationMethod, Granularity, QuantizationConfig};

use super::cases::{cases, load};
use crate::common::place::Place;
use crate::common::{Case, distance};

fn logits(loaded: &Loaded, tokens: &TokenBatch) -> Vec<f32> {
    loaded.model.forward(tokens, None, LogitPositions::All).unwrap().values().to_vec()
}

fn quantized(case: &Case, engine: Engine, quantization: QuantizationConfig) -> Loaded {
    let options = LoadOptions { engine: Some(engine), quantization: Some(quantization), ..LoadOptions::default() };
    load_model(&[case.folder.to_str().unwrap()], &options).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// Sequences of different lengths, padded on either side, as each alone.
#[test]
fn padded_batches() {
    for case in cases() {
        let rows = case.ids("input_ids");
        for place in Place::all() {
            let loaded = load(&case, place, Precision::Float32);
            for on_the_left in [true, false] {
                let (short, pads) = (&rows[1][..9], vec![0; 6]);
                let mask: Vec<bool> = (0..15).map(|t| if on_the_left { t >= 6 } else { t < 9 }).collect();
                let padded = if on_the_left { [&pads, short].concat() } else { [short, &pads].concat() };
                let batch = TokenBatch::new(&[rows[0].clone(), padded]).unwrap();
                let batch = batch.with_attention_mask(&[vec![true; 15], mask]).unwrap();
                let found = loaded.model.forward(&batch, None, LogitPositions::All).unwrap();
                let alone = logits(&loaded, &TokenBatch::single(short).unwrap());
                let vocab = found.vocab_size();
                let first = if on_the_left { 6 } else { 0 };
                for t in 0..9 {
                    let distance = distance(found.row(1, first + t), &alone[t * vocab..][..vocab]);
                    let most = if place.engine == Engine::Kernels { 0.0 } else { 1e-4 };
                    assert!(distance <= most, "{}, token {t}: {distance}", loaded.summary());
                }
            }
        }
    }
}

/// Formats give the same numbers on every engine, and stay near the model.
#[test]
fn quantized_weights() {
    for case in cases() {
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        let expected = case.values("logits");
        let spread = expected.iter().map(|logit| logit.abs()).fold(0.0, f32::max);
        for config in [QuantizationConfig::nf4(), QuantizationConfig::int8()] {
            let own = quantized(&case, Engine::Kernels, config.clone());
            let found = logits(&own, &tokens);
            let error = distance(&found, &expected);
            assert!(error > 0.0 && error < 0.7 * spread, "{}: {error} of {spread}", own.summary());
            let torch = logits(&quantized(&case, Engine::Tch, config.clone()), &tokens);
            let between = distance(&found, &torch);
            // Inputs near the middle of two bytes may be rounded to either.
            let most = if config == QuantizationConfig::nf4() { 1e-4 } else { 0.1 * spread };
            assert!(between < most, "{}: {between}", own.summary());
        }
    }
}

#[test]
fn calibration_sees_every_layer() {
    for case in cases() {
        let loaded = load(&case, Engine::Kernels, Precision::Float32);
        let method = CalibrationMethod::AbsMax;
        let calibration = calibrate(&loaded, &["the quick brown fox"], method, Granularity::PerTensor).unwrap();
        let model = quantized(&case, Engine::Kernels, QuantizationConfig::static_int8(calibration));
        let found = logits(&model, &TokenBatch::new(&case.ids("input_ids")).unwrap());
        assert!(found.iter().all(|logit| logit.is_finite()), "{}", model.summary());
    }
}

/// What a fold leaves as it is, wherever a family has its norms, its values and its gates.
#[test]
fn folds_keep_the_function_or_are_refused() {
    let prompts = ["the quick brown fox", "once upon a time"];
    for case in cases() {
        let plain = load(&case, Engine::Kernels, Precision::Float32);
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        let expected = logits(&plain, &tokens);
        let folds = [
            Fold::hadamard(3),
            Fold::outliers(2, 30.0, 1).unwrap(),
            Fold::smooth_quant(&plain, &prompts, 0.5).unwrap(),
        ];
        for fold in folds {
            let options = LoadOptions { fold: Some(fold.clone()), ..LoadOptions::default() };
            let loaded = load_model(&[case.folder.to_str().unwrap()], &options);
            if ["gemma", "olmo2", "stablelm-parallel"].iter().any(|refused| case.name.starts_with(refused)) {
                let error = loaded.unwrap_err().to_string();
                assert!(error.contains("nothing can be folded into"), "{error}");
                continue;
            }
            let distance = distance(&logits(&loaded.unwrap(), &tokens), &expected);
            assert!(distance > 0.0 && distance < 1e-3, "{}, {fold}: {distance}", case.name);
        }
    }
}

#[test]
fn bfloat16_weights_stay_close_and_take_half() {
    for case in cases() {
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        let expected = case.values("logits");
        let spread = expected.iter().map(|logit| logit.abs()).fold(0.0, f32::max);
        for place in Place::all() {
            let full = load(&case, place, Precision::Float32);
            let half = load(&case, place, Precision::BFloat16);
            assert!(half.model.info().parameter_bytes < full.model.info().parameter_bytes * 11 / 20);
            let distance = distance(&logits(&half, &tokens), &expected);
            assert!(distance < 0.05 * spread, "{}: {distance} of {spread}", half.summary());
        }
    }
}
