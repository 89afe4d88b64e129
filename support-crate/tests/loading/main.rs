//! What can be wrong with a model's files, and what is said about it.

mod common;

use std::fs;
use std::path::Path;

use common::{distance, tiny};
use quantlab::error::Error;
use quantlab::model::{Device, Loaded, LogitPositions, TokenBatch, load_model_and_tokenizer};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn a_folder_that_is_not_there() {
    expect(&load("/no/such/folder"), &["cannot load `/no/such/folder`", "there is no folder"]);
}

#[test]
fn a_folder_without_one_of_the_files() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let copy = copy_of_tiny();
        fs::remove_file(copy.path().join(name)).unwrap();
        expect(&load_folder(&copy), &["cannot open", name]);
    }
}

#[test]
fn a_pickle_in_place_of_safetensors() {
    let copy = copy_of_tiny();
    fs::rename(copy.path().join("model.safetensors"), copy.path().join("pytorch_model.bin")).unwrap();
    expect(&load_folder(&copy), &["model.safetensors", "hint", "safe_serialization"]);
}

#[test]
fn a_config_that_is_not_one() {
    let copy = copy_of_tiny();
    fs::write(copy.path().join("config.json"), "{ \"vocab_size\": 3").unwrap();
    expect(&load_folder(&copy), &["config.json", "not a JSON object"]);
    for key in ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head"] {
        let copy = copy_of_tiny();
        change_config(&copy, |config| {
            config.as_object_mut().unwrap().remove(key);
        });
        expect(&load_folder(&copy), &["config.json", &format!("missing field `{key}`")]);
    }
}

#[test]
fn a_quantized_checkpoint() {
    let copy = copy_of_tiny();
    change_config(&copy, |config| config["quantization_config"] = json!({ "load_in_4bit": true }));
    expect(&load_folder(&copy), &["config.json", "quantized"]);
}

#[test]
fn weights_that_are_cut_short() {
    let whole = fs::read(tiny().join("model.safetensors")).unwrap();
    for length in [0, 4, 8, 100, whole.len() / 2, whole.len() - 1] {
        let copy = copy_of_tiny();
        fs::write(copy.path().join("model.safetensors"), &whole[..length]).unwrap();
        expect(&load_folder(&copy), &["model.safetensors", "not a whole safetensors file", "cut short"]);
    }
}

#[test]
fn a_header_that_is_longer_than_the_file() {
    for length in [1_u64 << 20, 1 << 40, u64::MAX] {
        let copy = copy_of_tiny();
        let mut bytes = fs::read(tiny().join("model.safetensors")).unwrap();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        fs::write(copy.path().join("model.safetensors"), bytes).unwrap();
        expect(&load_folder(&copy), &["model.safetensors", "not a whole safetensors file"]);
    }
}

#[test]
fn offsets_that_overlap_or_leave_the_file() {
    for offsets in [[0, 64], [1_u64 << 40, (1 << 40) + 256], [256, 0]] {
        let copy = copy_of_tiny();
        change_header(&copy, |header| header["transformer.ln_f.bias"]["data_offsets"] = json!(offsets));
        expect(&load_folder(&copy), &["not a whole safetensors file"]);
    }
}

#[test]
fn a_tensor_of_another_shape() {
    let copy = copy_of_tiny();
    change_config(&copy, |config| config["n_inner"] = json!(128));
    expect(&load_folder(&copy), &["`transformer.h.0.mlp.c_fc.weight`", "[64, 256]", "expected [64, 128]"]);
}

#[test]
fn a_tensor_that_is_missing() {
    let copy = copy_of_tiny();
    change_header(&copy, |header| {
        let header = header.as_object_mut().unwrap();
        let tensor = header.remove("transformer.h.1.ln_2.bias").unwrap();
        header.insert("transformer.h.1.another".to_owned(), tensor);
    });
    expect(&load_folder(&copy), &["has no tensor `transformer.h.1.ln_2.bias`"]);
    let copy = copy_of_tiny();
    change_config(&copy, |config| config["n_layer"] = json!(4));
    expect(&load_folder(&copy), &["has no tensor `transformer.h.3.ln_1.weight`"]);
}

#[test]
fn a_tensor_of_integers() {
    let copy = copy_of_tiny();
    change_header(&copy, |header| header["transformer.wpe.weight"]["dtype"] = json!("I32"));
    expect(&load_folder(&copy), &["`transformer.wpe.weight`", "I32"]);
}

#[test]
fn a_tokenizer_that_does_not_fit_the_weights() {
    let copy = copy_of_tiny();
    change_json(&copy.path().join("tokenizer.json"), |tokenizer| tokenizer["model"]["vocab"]["zebra"] = json!(384));
    expect(
        &load_folder(&copy),
        &["tokenizer.json", "does not fit the weights", "\"zebra\"", "id 384", "has 384 tokens"],
    );
    fs::write(copy.path().join("tokenizer.json"), "{}").unwrap();
    expect(&load_folder(&copy), &["tokenizer.json", "is not a tokenizer"]);
}

#[test]
fn an_unknown_precision_and_no_candidates() {
    let unknown = load_model_and_tokenizer(&["embedded"], "float8", Device::Cpu);
    expect(&unknown, &["unknown precision `float8`", "float32, bfloat16 or float16"]);
    expect(&load_model_and_tokenizer(&[], "float32", Device::Cpu), &["no candidates"]);
}

#[test]
fn all_candidates_fail_with_their_reasons() {
    let failed = load_model_and_tokenizer(&["/no/such/folder", "random:llama", "a b"], "float32", Device::Cpu);
    expect(
        &failed,
        &[
            "none of the 3 candidates",
            "- /no/such/folder: there is no folder",
            "- random:llama: there is no random model",
            "- a b:",
            "`embedded`",
        ],
    );
}

#[test]
fn the_first_candidate_that_loads_is_taken() {
    let loaded =
        load_model_and_tokenizer(&["/no/such/folder", "tests/golden/gpt2-tiny", "embedded"], "FLOAT16", Device::Cpu)
            .unwrap();
    assert_eq!(loaded.model_id, "tests/golden/gpt2-tiny");
    assert_eq!(loaded.skipped.len(), 1);
    assert!(loaded.skipped[0].reason.contains("there is no folder"));
    assert!(
        loaded.summary().starts_with("Loaded: tests/golden/gpt2-tiny | dtype=float32 (forced on CPU) | "),
        "{}",
        loaded.summary()
    );
}

#[test]
fn a_device_that_is_not_there() {
    let failed = load_model_and_tokenizer(&["embedded"], "float32", Device::Cuda(63));
    expect(&failed, &["cannot use cuda:63", "Device::Cpu"]);
}

#[test]
fn names_without_prefix_and_a_head_of_its_own() {
    let copy = copy_of_tiny();
    change_header(&copy, |header| {
        let header = header.as_object_mut().unwrap();
        for name in header.keys().cloned().collect::<Vec<_>>() {
            if let Some(short) = name.strip_prefix("transformer.") {
                let tensor = header.remove(&name).unwrap();
                header.insert(short.to_owned(), tensor);
            }
        }
    });
    assert_eq!(logits(&load_folder(&copy).unwrap()), logits(&common::load(tiny(), "float32")));

    let copy = copy_of_tiny();
    change_config(&copy, |config| config["tie_word_embeddings"] = json!(false));
    append_tensor(&copy, "lm_head.weight", &[384, 64], 0.25);
    let untied = load_folder(&copy).unwrap();
    let row = logits(&untied);
    assert!(distance(&row, &vec![row[0]; row.len()]) < 1e-5, "a head of equal rows gives equal logits");
    let tied = common::load(tiny(), "float32").model.info().num_parameters;
    assert_eq!(untied.model.info().num_parameters, tied + 384 * 64);
}

#[test]
fn buffers_of_old_checkpoints_are_ignored() {
    let copy = copy_of_tiny();
    append_tensor(&copy, "transformer.h.0.attn.bias", &[1, 1, 64, 64], 1.0);
    append_tensor(&copy, "transformer.h.0.attn.masked_bias", &[1], -1e4);
    assert_eq!(logits(&load_folder(&copy).unwrap()), logits(&common::load(tiny(), "float32")));
}

#[test]
fn shards_with_an_index() {
    let copy = copy_of_tiny();
    let weights = copy.path().join("model.safetensors");
    let names: Vec<String> =
        header_of(&weights).as_object().unwrap().keys().filter(|name| *name != "__metadata__").cloned().collect();
    let shard = |name: &String| if name.contains("h.1.") { "b.safetensors" } else { "a.safetensors" };
    let tensors = candle_core::safetensors::load(&weights, &candle_core::Device::Cpu).unwrap();
    for file in ["a.safetensors", "b.safetensors"] {
        let part =
            tensors.iter().filter(|(name, _)| shard(name) == file).map(|(name, tensor)| (name.clone(), tensor.clone()));
        candle_core::safetensors::save(&part.collect(), copy.path().join(file)).unwrap();
    }
    fs::remove_file(&weights).unwrap();
    let map: serde_json::Map<String, Value> = names.iter().map(|name| (name.clone(), json!(shard(name)))).collect();
    let index = copy.path().join("model.safetensors.index.json");
    fs::write(&index, json!({ "weight_map": map }).to_string()).unwrap();
    assert_eq!(logits(&load_folder(&copy).unwrap()), logits(&common::load(tiny(), "float32")));

    fs::remove_file(copy.path().join("b.safetensors")).unwrap();
    expect(&load_folder(&copy), &["cannot open", "b.safetensors"]);
    for bad in ["../a.safetensors", "/etc/passwd", "a.bin"] {
        fs::write(&index, json!({ "weight_map": { "x": bad } }).to_string()).unwrap();
        expect(&load_folder(&copy), &["index.json", bad, "not the name of a safetensors file"]);
    }
    fs::write(&index, "{}").unwrap();
    expect(&load_folder(&copy), &["index.json", "weight_map"]);
}

#[test]
fn scores_scaled_by_layer_change_the_result() {
    let plain = logits(&common::load(tiny(), "float32"));
    for key in ["scale_attn_by_inverse_layer_idx", "scale_attn_weights"] {
        let copy = copy_of_tiny();
        change_config(&copy, |config| config[key] = json!(key == "scale_attn_by_inverse_layer_idx"));
        let scaled = logits(&load_folder(&copy).unwrap());
        assert!(distance(&plain, &scaled) > 1e-3, "{key}");
    }
}

#[test]
fn every_activation_computes_something_of_its_own() {
    let all = ["gelu_new", "gelu", "relu", "silu"].map(|name| {
        let copy = copy_of_tiny();
        change_config(&copy, |config| config["activation_function"] = json!(name));
        logits(&load_folder(&copy).unwrap())
    });
    assert!(distance(&all[0], &all[1]) < 0.1, "the approximation of GELU is close to GELU");
    for (i, j) in [(0, 1), (0, 2), (0, 3), (2, 3)] {
        assert!(distance(&all[i], &all[j]) > 0.0, "{i} {j}");
    }
}

#[test]
fn random_models_have_the_published_sizes() {
    let loaded = load("random:gpt2").unwrap();
    let info = loaded.model.info();
    assert_eq!(info.num_parameters, 124_439_808);
    assert_eq!((info.n_layer, info.vocab_size, info.context_len), (12, 50_257, 1024));
    let row = logits(&loaded);
    assert!(row.iter().all(|logit| logit.is_finite()) && distance(&row, &vec![0.0; row.len()]) > 0.0);
}

fn load(id: &str) -> Result<Loaded, Error> {
    load_model_and_tokenizer(&[id], "float32", Device::Cpu)
}

fn load_folder(folder: &TempDir) -> Result<Loaded, Error> {
    load(folder.path().to_str().unwrap())
}

/// Logits after a few tokens.
fn logits(loaded: &Loaded) -> Vec<f32> {
    let tokens = TokenBatch::single(&[5, 42, 7, 1, 99]).unwrap();
    loaded.model.forward(&tokens, None, LogitPositions::Last).unwrap().row(0, 0).to_vec()
}

/// The result is an error whose message has these parts.
fn expect(result: &Result<Loaded, Error>, parts: &[&str]) {
    let message = result.as_ref().expect_err("an error").to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

fn copy_of_tiny() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(tiny().join(name), copy.path().join(name)).unwrap();
    }
    copy
}

fn change_json(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

fn change_config(copy: &TempDir, change: impl FnOnce(&mut Value)) {
    change_json(&copy.path().join("config.json"), change);
}

fn header_of(file: &Path) -> Value {
    let bytes = fs::read(file).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[8..8 + length]).unwrap()
}

/// Rewrites the header of the weights; the data stays.
fn change_header(copy: &TempDir, change: impl FnOnce(&mut Value)) {
    let file = copy.path().join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header = header_of(&file);
    change(&mut header);
    let header = header.to_string();
    let mut changed = (header.len() as u64).to_le_bytes().to_vec();
    changed.extend_from_slice(header.as_bytes());
    changed.extend_from_slice(&bytes[8 + length..]);
    fs::write(file, changed).unwrap();
}

/// Adds a tensor whose elements are all `value`.
fn append_tensor(copy: &TempDir, name: &str, shape: &[usize], value: f32) {
    let file = copy.path().join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&file, &candle_core::Device::Cpu).unwrap();
    tensors.insert(name.to_owned(), candle_core::Tensor::full(value, shape, &candle_core::Device::Cpu).unwrap());
    // Not over the file that is mapped.
    fs::remove_file(&file).unwrap();
    candle_core::safetensors::save(&tensors, file).unwrap();
}
