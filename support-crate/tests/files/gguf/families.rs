//! Families whose tensors have other names, orders or numbers in a GGUF file: as transformers computes them, which
//! llama.cpp was compared with when the files were made.

use std::path::{Path, PathBuf};

use candle_core::Device as CandleDevice;
use quantlab::model::{DecoderConfig, Engine, LoadOptions, Loaded, LogitPositions, Positions, Precision, TokenBatch};
use quantlab::quant::QuantizationConfig;

use super::load;
use super::writer::{F32, TOKENS, TYPES, Writer, floats, llama};
use crate::common::distance;

/// A file, and where the logits are.
const CASES: [(&str, &str); 6] = [
    ("gemma2", "tests/models/families/golden/gemma2/golden.safetensors"),
    ("gemma3", "tests/models/families/golden/gemma3/golden.safetensors"),
    ("phi3", "tests/models/families/golden/phi3/golden.safetensors"),
    ("phi3-longrope", "tests/models/families/golden/phi3-longrope/golden.safetensors"),
    ("smollm3", "tests/golden/smollm3-tiny.safetensors"),
    ("gpt2", "tests/golden/gpt2-tiny-gguf.safetensors"),
];

fn path(name: &str) -> PathBuf {
    Path::new("tests/golden").join(format!("{name}-tiny.gguf"))
}

fn options(engine: Engine) -> LoadOptions {
    LoadOptions { engine: Some(engine), precision: Precision::Float32, dequantize: true, ..LoadOptions::default() }
}

/// The prompts and their logits.
fn expected(file: &str) -> (TokenBatch, Vec<f32>) {
    let tensors = candle_core::safetensors::load(file, &CandleDevice::Cpu).unwrap();
    let ids: Vec<Vec<i64>> = tensors["input_ids"].to_vec2().unwrap();
    let ids: Vec<Vec<u32>> = ids.iter().map(|row| row.iter().map(|&id| id as u32).collect()).collect();
    let logits = tensors["logits"].flatten_all().and_then(|logits| logits.to_vec1()).unwrap();
    (TokenBatch::new(&ids).unwrap(), logits)
}

fn logits(loaded: &Loaded, tokens: &TokenBatch) -> Vec<f32> {
    loaded.model.forward(tokens, None, LogitPositions::All).unwrap().values().to_vec()
}

#[test]
fn families_compute_what_transformers_computes() {
    for (name, golden) in CASES {
        let (tokens, expected) = expected(golden);
        for engine in Engine::ALL {
            let loaded = load(&path(name), &options(engine)).unwrap();
            let distance = distance(&logits(&loaded, &tokens), &expected);
            assert!(distance < 1e-4, "{name} by {engine}: {distance}");
            assert!(loaded.unused_tensors.is_empty(), "{name}: {:?}", loaded.unused_tensors);
        }
    }
}

/// Under transformers' names, in its order, with its numbers; and quantized while it is loaded, it is the same from both.
#[test]
fn families_are_saved_and_quantized_as_any_other_model() {
    for (name, golden) in CASES {
        let (tokens, expected) = expected(golden);
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("saved");
        load(&path(name), &options(Engine::Kernels)).unwrap().save_pretrained(&saved).unwrap();
        let again = load(&saved, &options(Engine::Kernels)).unwrap();
        assert!(distance(&logits(&again, &tokens), &expected) < 1e-4, "{name}");
        assert!(again.unused_tensors.is_empty(), "{name}: {:?}", again.unused_tensors);
        let nf4 = LoadOptions { quantization: Some(QuantizationConfig::nf4()), ..options(Engine::Kernels) };
        let [own, same] = [&path(name), &saved].map(|path| logits(&load(path, &nf4).unwrap(), &tokens));
        assert!(distance(&own, &same) < 1e-4 && distance(&own, &expected) > 0.01, "{name}");
    }
}

/// Joint layers in blocks, of which llama.cpp has whole rows where transformers has columns.
#[test]
fn blocks_of_gpt2_are_multiplied_as_they_are() {
    let (tokens, expected) = expected("tests/golden/gpt2-tiny-gguf.safetensors");
    let loaded = load(&path("gpt2"), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.dtype_label, "Q8_0 with inputs of 8 bits, rest float32");
    let off = distance(&logits(&loaded, &tokens), &expected);
    // llama.cpp, which rounds inputs in the same way, is off by up to 0.076.
    assert!(off > 0.0 && off < 0.1, "{off}");
}

/// A header of a family, which has as many layers; heads of 16 numbers.
fn header(family: &str, layers: u32) -> Writer {
    let mut file = llama();
    file.set("general.architecture", family);
    for (key, size) in [
        ("context_length", 64_u32),
        ("embedding_length", 48),
        ("feed_forward_length", 64),
        ("block_count", layers),
        ("attention.head_count", 2),
        ("attention.key_length", 16),
    ] {
        file.set(&format!("{family}.{key}"), size);
    }
    file.set(&format!("{family}.attention.layer_norm_rms_epsilon"), 1e-5_f32);
    file
}

fn windows(config: &DecoderConfig) -> Vec<Option<usize>> {
    config.layers.iter().map(|layer| layer.window).collect()
}

fn rotations(config: &DecoderConfig) -> Vec<Option<usize>> {
    config.layers.iter().map(|layer| layer.rotation).collect()
}

/// The second angle of each rotation: the base to the power -1/8.
fn angles(config: &DecoderConfig) -> Vec<f32> {
    match &config.positions {
        Positions::Rotary { rotations } => rotations.iter().map(|rotation| rotation.frequencies[1]).collect(),
        Positions::Learned => panic!("learned positions"),
    }
}

#[test]
fn gemma_has_windows_in_most_layers() {
    let mut file = header("gemma3", 7);
    let config = file.config().unwrap();
    assert_eq!((windows(&config), rotations(&config)), (vec![None; 7], vec![Some(0); 7]));
    file.set("gemma3.attention.sliding_window", 9_u32);
    let config = file.config().unwrap();
    assert_eq!(windows(&config), [Some(9), Some(9), Some(9), Some(9), Some(9), None, Some(9)]);
    assert_eq!(rotations(&config), [1, 1, 1, 1, 1, 0, 1].map(Some));
    file.set("gemma3.attention.sliding_window_pattern", 2_u32);
    assert_eq!(rotations(&file.config().unwrap()), [1, 0, 1, 0, 1, 0, 1].map(Some));
    file.set("gemma3.attention.sliding_window_pattern", vec![0_u8, 0, 1, 1, 0, 0, 1]);
    assert_eq!(rotations(&file.config().unwrap()), [0, 0, 1, 1, 0, 0, 1].map(Some));
    file.set("gemma3.attention.sliding_window_pattern", vec![1_u8, 0]);
    let error = file.config().unwrap_err().to_string();
    assert!(error.contains("`gemma3.attention.sliding_window_pattern` has 2 entries for 7 layers"), "{error}");
    file.set("gemma3.attention.sliding_window_pattern", "all");
    assert!(file.config().is_err());

    let mut file = header("gemma2", 5);
    assert_eq!(windows(&file.config().unwrap()), [Some(4096), None, Some(4096), None, Some(4096)]);
    file.set("gemma2.attention.sliding_window", 3_u32);
    assert_eq!(windows(&file.config().unwrap()), [Some(3), None, Some(3), None, Some(3)]);
}

#[test]
fn gemma_has_angles_caps_and_a_scale_of_its_own() {
    let mut file = header("gemma3", 6);
    file.set("gemma3.attention.sliding_window", 9_u32);
    file.set("gemma3.rope.freq_base", 1e6_f32);
    file.set("gemma3.rope.scaling.type", "linear");
    file.set("gemma3.rope.scaling.factor", 8.0_f32);
    let near = |found: Vec<f32>, expected: [f32; 2]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-5), "{found:?} {expected:?}");
    };
    let config = file.config().unwrap();
    near(angles(&config), [1e6_f32.powf(-0.125) / 8.0, 1e4_f32.powf(-0.125)]);
    assert_eq!((config.query_pre_attn_scalar, config.soft_caps.logits), (16.0, None));
    assert_eq!(config.embedding_scale, 48_f32.sqrt());
    file.set("gemma3.rope.freq_base_swa", 100.0_f32);
    file.set("gemma3.final_logit_softcapping", 30.0_f32);
    let config = file.config().unwrap();
    near(angles(&config), [1e6_f32.powf(-0.125) / 8.0, 100_f32.powf(-0.125)]);
    assert_eq!((config.soft_caps.attention, config.soft_caps.logits), (None, Some(30.0)));
    // The largest models divide by another number, which no key has.
    for (family, layers) in [("gemma3", 62), ("gemma2", 46)] {
        assert_eq!(header(family, layers).config().unwrap().query_pre_attn_scalar, 24.0, "{family}");
    }
    // Files from before there were keys for Gemma 2's caps have them as well.
    let mut file = header("gemma2", 2);
    let caps = |file: &Writer| file.config().unwrap().soft_caps;
    assert_eq!((caps(&file).attention, caps(&file).logits), (Some(50.0), Some(30.0)));
    file.set("gemma2.attn_logit_softcapping", 5.0_f32);
    file.set("gemma2.final_logit_softcapping", 3.0_f32);
    assert_eq!((caps(&file).attention, caps(&file).logits), (Some(5.0), Some(3.0)));
}

#[test]
fn phi_turns_a_part_of_each_head_and_may_have_windows() {
    let short = |count: u64| floats((0..count).map(|i| 1.0 + i as f32));
    let mut file = header("phi3", 2);
    file.set("phi3.rope.dimension_count", 8_u32);
    file.set("phi3.attention.sliding_window", 0_u32);
    let config = file.config().unwrap();
    assert_eq!((windows(&config), config.context_len), (vec![None; 2], 64));
    assert!(matches!(&config.positions, Positions::Rotary { rotations } if rotations[0].frequencies.len() == 4));
    file.set("phi3.attention.sliding_window", 7_u32);
    assert_eq!(windows(&file.config().unwrap()), [Some(7); 2]);
    file.add_bytes("rope_factors_short.weight", &[4], F32, short(4));
    let error = file.config().unwrap_err().to_string();
    assert!(error.contains("one of `rope_factors_short.weight`, `rope_factors_long.weight`"), "{error}");
    file.add_bytes("rope_factors_long.weight", &[4], F32, short(4));
    let error = file.config().unwrap_err().to_string();
    assert!(error.contains("`phi3.rope.scaling.original_context_length`"), "{error}");
    file.set("phi3.rope.scaling.original_context_length", 32_u32);
    file.set("phi3.rope.scaling.attn_factor", 1.25_f32);
    file.set("phi3.rope.scaling.type", "longrope");
    let config = file.config().unwrap();
    // Only for texts no longer than those of the training.
    assert_eq!(config.context_len, 32);
    assert!(matches!(&config.positions, Positions::Rotary { rotations } if rotations[0].factor == 1.25));
    assert!((angles(&config)[0] - 1e4_f32.powf(-0.25) / 2.0).abs() < 1e-6);
    file.set("phi3.rope.scaling.type", "linear");
    file.set("phi3.rope.scaling.factor", 4.0_f32);
    let error = file.config().unwrap_err().to_string();
    assert!(error.contains("scaled twice"), "{error}");
    let mut file = header("phi3", 2);
    file.set("phi3.rope.scaling.type", "longrope");
    assert!(file.config().unwrap_err().to_string().contains("scaled as \"longrope\" does"));
}

#[test]
fn each_fourth_layer_of_smollm3_knows_no_positions() {
    let some = Some(0);
    assert_eq!(rotations(&header("smollm3", 8).config().unwrap()), [some, some, some, None, some, some, some, None]);
    let mut file = header("smollm3", 8);
    file.set("smollm3.attention.sliding_window", 9_u32);
    assert!(file.config().unwrap_err().to_string().contains("attend to only 9 tokens"));
}

/// A chat template that writes what it is given.
const TEMPLATE: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

/// Files name the token that ends a text, and rarely the one that ends a message.
#[test]
fn a_reply_ends_with_whatever_ends_messages() {
    for (text, kind) in [("<end_of_turn>", 3), ("<|end|>", 3), ("<|im_end|>", 1), ("abc", 3)] {
        let mut file = llama();
        let mut tokens = TOKENS;
        (tokens[13], tokens[14]) = ("<s>", text);
        let mut types = TYPES;
        types[14] = kind;
        file.set("tokenizer.ggml.tokens", tokens.to_vec());
        file.set("tokenizer.ggml.token_type", types.to_vec());
        file.set("tokenizer.chat_template", TEMPLATE);
        let loaded = file.dequantize().unwrap();
        let ends: &[u32] = if text == "abc" { &[13] } else { &[13, 14] };
        assert_eq!(loaded.model.info().eos_token_ids, ends, "{text}");
        assert_eq!(loaded.tokenizer.encode(text).unwrap(), [14], "{text} is one token whatever its type");
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("saved");
        loaded.save_pretrained(&saved).unwrap();
        let generation = std::fs::read_to_string(saved.join("generation_config.json")).unwrap();
        assert_eq!(generation, serde_json::json!({"eos_token_id": ends}).to_string(), "{text}");
    }
}

/// Its marks take the blanks after them, which its tokenizer says and a GGUF file does not.
#[test]
fn marks_of_phi_take_the_blanks_after_them() {
    let tokenizer = |family: &str| {
        let mut file = header(family, 2);
        file.set("tokenizer.ggml.model", "llama");
        file.set("tokenizer.ggml.scores", vec![0.0_f32; 16]);
        file.set("tokenizer.ggml.unknown_token_id", 12_u32);
        file.set("tokenizer.ggml.add_bos_token", false);
        file.set("tokenizer.ggml.add_space_prefix", false);
        let tokenizer = file.files().unwrap().tokenizer;
        let tokenizer: serde_json::Value = serde_json::from_slice(&tokenizer.read().unwrap()).unwrap();
        let added = tokenizer["added_tokens"].as_array().unwrap().clone();
        added.iter().map(|token| token["rstrip"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(tokenizer("phi3"), [true, true]);
    assert_eq!(tokenizer("llama"), [false, false]);
}
