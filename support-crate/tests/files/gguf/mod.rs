//! Models in GGUF files: numbers of ggml's own, logits of a model that llama.cpp quantized, files that lie.

mod encoding;
mod families;
mod hostile;
mod mutations;
mod saved_families;
mod saving;
mod sentencepiece;
mod values;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Case, distance, golden};
use candle_core::{DType, Device as CandleDevice};
use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, TokenBatch, load_model};
use quantlab::quant::{QuantizationConfig, restore_ggml};
use quantlab::source::GgmlType;

fn tiny_gguf() -> PathBuf {
    golden().join("llama-tiny-gguf/q4_k_m.gguf")
}

fn load(path: &Path, options: &LoadOptions) -> Result<Loaded> {
    load_model(&[path.to_str().unwrap()], options)
}

fn dequantized() -> LoadOptions {
    LoadOptions { dequantize: true, ..LoadOptions::default() }
}

#[test]
fn blocks_are_restored_to_the_bit() {
    let tensors = candle_core::safetensors::load(golden().join("ggml_blocks.safetensors"), &CandleDevice::Cpu).unwrap();
    let mut tried = 0;
    for &kind in GgmlType::ALL {
        let Some(blocks) = tensors.get(&format!("{}/blocks", kind.name())) else { continue };
        let bytes: Vec<u8> = blocks.flatten_all().unwrap().to_vec1().unwrap();
        let expected = tensors[&format!("{}/restored", kind.name())].to_dtype(DType::F32).unwrap();
        let expected: Vec<f32> = expected.flatten_all().unwrap().to_vec1().unwrap();
        let mut restored = vec![f32::NAN; expected.len()];
        restore_ggml(kind, &bytes, &mut restored);
        assert_eq!(restored, expected, "{}", kind.name());
        tried += 1;
    }
    assert_eq!(tried, 12);
    let mut plain = [0.0; 2];
    restore_ggml(GgmlType::F16, &[0x00, 0x3c, 0x00, 0xc0], &mut plain);
    assert_eq!(plain, [1.0, -2.0]);
    restore_ggml(GgmlType::Bf16, &[0x80, 0x3f, 0x00, 0xc0], &mut plain);
    assert_eq!(plain, [1.0, -2.0]);
}

/// llama.cpp quantized the model; its logits are computed in float32 from what its blocks stand for.
#[test]
fn a_model_that_llama_cpp_wrote_computes_what_llama_cpp_computes() {
    let case = Case::read(golden().join("llama-tiny-gguf"));
    let whole: Vec<u32> = case.row("input_ids");
    let greedy = case.row("greedy");
    for engine in Engine::ALL {
        let loaded = load(&tiny_gguf(), &LoadOptions { engine: Some(engine), ..dequantized() }).unwrap();
        let tokens = TokenBatch::single(&whole).unwrap();
        let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
        let distance = distance(logits.values(), &case.values("logits"));
        assert!(distance < 2e-4, "{engine}: {distance}");
        let options =
            GenerateOptions { max_new_tokens: greedy.len(), stop_at_eos: false, ..GenerateOptions::default() };
        let found = generate_tokens(&*loaded.model, std::slice::from_ref(&whole), &options, &mut |_, _| ()).unwrap();
        assert_eq!(found[0].tokens, greedy, "{engine}");
        assert!(loaded.dtype_label.ends_with(", restored from Q4_K and Q6_K"), "{}", loaded.dtype_label);
        assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
    }
}

/// As transformers computes it; llama.cpp was compared with that when the file was made.
#[test]
fn a_qwen3_has_norms_of_queries_and_keys() {
    let case = Case::read("tests/models/families/golden/qwen3".into());
    for engine in [Engine::Kernels, Engine::Tch] {
        let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        let loaded = load(Path::new("tests/golden/qwen3-tiny.gguf"), &options).unwrap();
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
        let distance = distance(logits.values(), &case.values("logits"));
        assert!(distance < 1e-4, "{engine}: {distance}");
        assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
    }
}

/// Its blocks as they are, with inputs of 8 bits: near to what they stand for, in much less memory.
#[test]
fn blocks_are_multiplied_as_they_are() {
    let case = Case::read(golden().join("llama-tiny-gguf"));
    let whole: Vec<u32> = case.row("input_ids");
    let loaded = load(&tiny_gguf(), &LoadOptions::default()).unwrap();
    assert!(loaded.dtype_label.starts_with("Q4_K and Q6_K with inputs of 8 bits, rest"), "{}", loaded.dtype_label);
    let tokens = TokenBatch::single(&whole).unwrap();
    let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
    let expected = case.values("logits");
    let squares = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| f64::from(x * x)).sum::<f64>();
    let off = squares(&mut logits.values().iter().zip(&expected).map(|(a, b)| a - b));
    let off = (off / squares(&mut expected.iter().copied())).sqrt();
    assert!(off > 0.0 && off < 0.05, "logits are off by {off} of their size");
    let plain = load(&tiny_gguf(), &dequantized()).unwrap();
    let (own, full) = (loaded.model.info(), plain.model.info());
    assert_eq!(own.num_parameters, full.num_parameters);
    assert!(own.parameter_bytes + own.quant_state_bytes < full.parameter_bytes / 3, "{own:?}");
    assert!(own.bytes_per_token < full.bytes_per_token / 3, "{own:?}");
    let error = loaded.save_pretrained(tempfile::tempdir().unwrap().path().join("saved")).unwrap_err();
    assert!(error.to_string().contains("GGUF") && error.hint_text().unwrap().contains("dequantize"), "{error}");
}

#[test]
fn its_tokenizer_is_that_of_the_model_that_it_was_made_from() {
    let loaded = load(&tiny_gguf(), &LoadOptions::default()).unwrap();
    let original = crate::common::load(&golden().join("llama-tiny"), "float32").tokenizer;
    for text in ["the quick brown fox", " two  spaces\n\nand lines", "1234 + é 👩‍👧 <|endoftext|>x", ""] {
        let ids = loaded.tokenizer.encode(text).unwrap();
        assert_eq!(ids, original.encode(text).unwrap(), "{text:?}");
        assert_eq!(loaded.tokenizer.decode(&ids).unwrap(), original.decode(&ids).unwrap(), "{text:?}");
    }
}

#[test]
fn it_is_quantized_and_saved_as_any_other_model() {
    let options = LoadOptions { quantization: Some(QuantizationConfig::nf4()), ..LoadOptions::default() };
    let nf4 = load(&tiny_gguf(), &options).unwrap();
    assert!(
        nf4.dtype_label.starts_with("nf4") && nf4.dtype_label.contains("restored from Q4_K"),
        "{}",
        nf4.dtype_label
    );
    let folder = tempfile::tempdir().unwrap();
    let (plain, saved) = (load(&tiny_gguf(), &dequantized()).unwrap(), folder.path().join("saved"));
    plain.save_pretrained(&saved).unwrap();
    let again = load(&saved, &LoadOptions::default()).unwrap();
    let tokens = TokenBatch::single(&[1, 2, 3, 40, 50]).unwrap();
    let logits = |loaded: &Loaded| loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec();
    assert_eq!(logits(&plain), logits(&again));
}

/// A real model; `cargo lab setup --model smollm2` brings it.
#[test]
fn smollm2_reads_and_writes_as_with_transformers() {
    let Ok(plain) = load_model(&["smollm2:float32"], &LoadOptions::default()) else {
        println!("not run: `cargo lab setup --model smollm2` was not");
        return;
    };
    let own = load_model(&["smollm2"], &LoadOptions::default()).unwrap();
    assert_eq!(own.dtype_label, "Q4_1 and Q8_0 with inputs of 8 bits, rest float32");
    assert!(plain.dtype_label.ends_with("restored from Q4_1 and Q8_0"), "{}", plain.dtype_label);
    let cases = fs::read(golden().join("smollm2/cases.json")).unwrap();
    let cases: serde_json::Value = serde_json::from_slice(&cases).unwrap();
    let logits = candle_core::safetensors::load(golden().join("smollm2/logits.safetensors"), &CandleDevice::Cpu);
    let logits = logits.unwrap();
    let ids = |value: &serde_json::Value| -> Vec<u32> { serde_json::from_value(value.clone()).unwrap() };
    for (number, case) in cases["cases"].as_array().unwrap().iter().enumerate() {
        let text = case["text"].as_str().unwrap();
        let prompt = plain.tokenizer.encode(text).unwrap();
        assert_eq!(prompt, ids(&case["ids"]), "{text:?}");
        let expected: Vec<f32> = logits[&format!("{number}")].flatten_all().unwrap().to_vec1().unwrap();
        let last = |loaded: &Loaded| {
            let tokens = TokenBatch::single(&prompt).unwrap();
            loaded.model.forward(&tokens, None, LogitPositions::Last).unwrap().values().to_vec()
        };
        let (full, rounded) = (last(&plain), last(&own));
        // Of every 16th token, or of all where the whole file is.
        let kept: Vec<f32> = full.iter().copied().step_by(full.len() / expected.len()).collect();
        assert!(distance(&kept, &expected) < 2e-3, "{text:?}: {}", distance(&kept, &expected));
        let divergence = kl_divergence(&full, &rounded);
        assert!(divergence > 0.0 && divergence < 0.05, "{text:?}: {divergence}");
        let options = GenerateOptions { max_new_tokens: 24, ..GenerateOptions::default() };
        let found = generate_tokens(&*plain.model, std::slice::from_ref(&prompt), &options, &mut |_, _| ()).unwrap();
        let (found, expected) = (&found[0].tokens, ids(&case["greedy"]));
        // transformers repeats the token that ends a text, this library leaves it out.
        assert_eq!(*found, expected[..found.len()], "{text:?}");
        assert!(found.len() == 24 || plain.model.info().eos_token_ids.contains(&expected[found.len()]), "{text:?}");
    }
}

/// Emoji, code, combining marks, digits, special tokens inside text: as llama.cpp and transformers read them.
#[test]
fn smollm2_reads_awkward_texts() {
    let Ok(loaded) = load_model(&["smollm2"], &LoadOptions::default()) else {
        println!("not run: `cargo lab setup --model smollm2` was not");
        return;
    };
    let texts = fs::read(golden().join("smollm2/tokens.json")).unwrap();
    let texts: std::collections::BTreeMap<String, Vec<u32>> = serde_json::from_slice(&texts).unwrap();
    assert!(texts.len() > 250);
    for (text, ids) in &texts {
        assert_eq!(loaded.tokenizer.encode(text).unwrap(), *ids, "{text:?}");
        // The first 17 are special, which decoding leaves out; the others give the text, character for character.
        if ids.iter().all(|id| *id > 16) {
            assert_eq!(loaded.tokenizer.decode(ids).unwrap(), *text);
        }
    }
}

/// Of the distribution that some logits make from that of others.
fn kl_divergence(of: &[f32], from: &[f32]) -> f64 {
    let log_softmax = |logits: &[f32]| -> Vec<f64> {
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        logits.iter().map(|&logit| f64::from(logit) - sum.ln()).collect()
    };
    log_softmax(of).iter().zip(log_softmax(from)).map(|(p, q)| p.exp() * (p - q)).sum()
}
