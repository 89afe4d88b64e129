//! What is saved of models whose layers are affine int4, or were restored.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quantlab::model::{Engine, LoadOptions, Loaded, Precision, load_model};
use quantlab::quant::{Head, QuantizationConfig, Rounding};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{checkpoint, expect_close, folder, logits, read_json};
use crate::common::copy::{CONFIG, WEIGHTS, header_and_data};
use crate::common::distance;

/// Types, shapes and bytes.
fn tensors(file: &Path) -> BTreeMap<String, (Value, Value, Vec<u8>)> {
    let bytes = fs::read(file).unwrap();
    let (mut header, data) = header_and_data(&bytes);
    header.as_object_mut().unwrap().remove("__metadata__");
    let tensor = |(name, entry): (&String, &Value)| {
        let [start, end] = [0, 1].map(|side| entry["data_offsets"][side].as_u64().unwrap() as usize);
        (name.clone(), (entry["dtype"].clone(), entry["shape"].clone(), data[start..end].to_vec()))
    };
    header.as_object().unwrap().iter().map(tensor).collect()
}

fn save(loaded: &Loaded) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    loaded.save_pretrained(folder.path()).unwrap();
    folder
}

fn load(folder: &Path, options: &LoadOptions) -> Loaded {
    load_model(&[folder.to_str().unwrap()], options).unwrap()
}

/// Two layers, packed by compressed-tensors from the same codes.
#[test]
fn affine_int4_is_written_as_compressed_tensors_packs_it() {
    for engine in Engine::ALL {
        let quantization = Some(QuantizationConfig::int4(32));
        let options =
            LoadOptions { engine: Some(engine), quantization: quantization.clone(), ..LoadOptions::default() };
        let made = load(Path::new("tests/golden/llama-tiny"), &options);
        let saved = save(&made);
        let found = tensors(&saved.path().join(WEIGHTS));
        for (name, tensor) in tensors(&folder().join("written.safetensors")) {
            assert!(found[&name] == tensor, "{name} by {engine}");
        }
        assert!(found.contains_key("lm_head.weight") && !found.contains_key("model.layers.1.mlp.up_proj.weight"));
        let config = read_json(saved.path().join(CONFIG));
        assert_eq!(config["quantization_config"]["format"], "pack-quantized");
        assert_eq!(config["quantization_config"]["ignore"], json!(["lm_head"]));
        let again = load(saved.path(), &LoadOptions { engine: Some(engine), ..LoadOptions::default() });
        assert_eq!(again.quantization, quantization);
        assert_eq!(logits(&again), logits(&made));
    }
}

#[test]
fn settings_of_layers_survive() {
    let quantization = QuantizationConfig {
        skip_modules: Some(vec!["k_proj".to_owned(), "layers.1".to_owned()]),
        head: Head::AsLayers,
        ..QuantizationConfig::int4(32)
    };
    let options = LoadOptions { quantization: Some(quantization), ..LoadOptions::default() };
    let made = load(Path::new("tests/golden/llama-tiny"), &options);
    let saved = save(&made);
    let again = load(saved.path(), &LoadOptions::default());
    let found = again.quantization.clone().unwrap();
    assert_eq!(found.head, Head::AsLayers);
    let mut skipped = found.skip_modules.unwrap();
    assert_eq!(skipped.len(), 8, "{skipped:?}");
    assert!(skipped.contains(&"model.layers.0.self_attn.k_proj".to_owned()));
    assert_eq!(logits(&again), logits(&made));
    let ignored = read_json(saved.path().join(CONFIG))["quantization_config"]["ignore"].take();
    skipped.sort();
    assert_eq!(ignored, json!(skipped), "in whole");
    // By the names that it now has.
    let third = load(save(&again).path(), &LoadOptions::default());
    assert_eq!((logits(&third), third.quantization), (logits(&made), again.quantization));
}

/// Those of others too, whatever their layout was; sorted columns keep their groups.
#[test]
fn layers_that_stayed_packed_are_saved_with_every_bit() {
    for name in ["gptq-4-v2", "gptq-4-act", "awq", "pack-4", "pack-4-g-idx", "pack-4-row"] {
        for engine in Engine::ALL {
            let copy = checkpoint(name);
            let loaded = copy.load_in(engine).unwrap();
            let saved = save(&loaded);
            let again = load(saved.path(), &LoadOptions { engine: Some(engine), ..LoadOptions::default() });
            assert_eq!(logits(&again), logits(&loaded), "{name} on {engine}");
            // compressed-tensors reads the order of columns only if the config says that there is one.
            let config = read_json(saved.path().join(CONFIG));
            let order = config["quantization_config"]["config_groups"]["group_0"]["weights"]["actorder"].as_str();
            let is_reordered = ["gptq-4-act", "pack-4-g-idx"].contains(&name);
            assert_eq!(order, is_reordered.then_some("group"), "{name} on {engine}");
            if name.starts_with("pack-4-g") {
                let (found, expected) =
                    (tensors(&saved.path().join(WEIGHTS)), tensors(&folder().join(format!("{name}.safetensors"))));
                assert!(expected.iter().all(|(name, tensor)| found[name] == *tensor));
            }
        }
    }
}

#[test]
fn layers_that_were_restored_are_saved_as_they_are() {
    for name in ["gptq-8", "fp8", "nvfp4"] {
        let copy = checkpoint(name);
        let loaded = copy.load().unwrap();
        let saved = save(&loaded);
        assert!(read_json(saved.path().join(CONFIG)).get("quantization_config").is_none());
        let again = load(saved.path(), &LoadOptions::default());
        assert_eq!(again.dtype_label, "float32");
        assert!(distance(&logits(&again), &logits(&loaded)) == 0.0, "{name}");
        expect_close(name, &again, super::LOGITS);
    }
}

/// The layers of GPT-2 are transposed in full precision, and are not once they are packed; its head is tied no more.
#[test]
fn layers_of_every_family() {
    let quantization = QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::int4(32) };
    let options = LoadOptions { quantization: Some(quantization.clone()), ..LoadOptions::default() };
    for name in ["gpt2-tiny", "llama-tiny"] {
        let made = load(&Path::new("tests/golden").join(name), &options);
        let saved = save(&made);
        let again = load(saved.path(), &LoadOptions::default());
        assert_eq!((logits(&again), again.quantization), (logits(&made), Some(quantization.clone())), "{name}");
        let restored = load(saved.path(), &LoadOptions { dequantize: true, ..LoadOptions::default() });
        assert!(distance(&logits(&restored), &logits(&made)) < super::LOGITS, "{name}");
    }
}

/// As transformers, which multiplies layers of compressed-tensors in the precision of the model: whatever int4 was
/// computed in, and whatever its codes were chosen by.
#[test]
fn what_is_saved_is_computed_in_the_precision_of_the_model() {
    let precision = Precision::BFloat16;
    let [float32, bfloat16] = [Precision::Float32, precision].map(|compute_dtype| {
        let config = QuantizationConfig { compute_dtype, ..QuantizationConfig::affine(3, 32, Rounding::Nearest) };
        let options = LoadOptions { precision, quantization: Some(config), ..LoadOptions::default() };
        load(Path::new("tests/golden/llama-tiny"), &options)
    });
    let again = load(save(&float32).path(), &LoadOptions { precision, ..LoadOptions::default() });
    let found = QuantizationConfig { compute_dtype: precision, ..QuantizationConfig::int4(32) };
    assert_eq!(again.quantization, Some(found));
    assert_eq!(logits(&again), logits(&bfloat16));
    assert!(distance(&logits(&again), &logits(&float32)) > 0.0);
}

#[test]
fn zero_points_that_are_no_whole_numbers_are_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let copy = checkpoint("hqq-4");
    let error = copy.load().unwrap().save_pretrained(folder.path()).unwrap_err().to_string();
    assert!(error.contains("zero point"), "{error}");
}
