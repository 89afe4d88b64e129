//! Checkpoints that others quantized, as their Python packages save them (`golden/make_checkpoints.py`).

mod hostile;
mod written;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::common::copy::{CONFIG, Copy, TOKENIZER, header_and_data, with_header};
use crate::common::distance;
use candle_core::{DType, Device};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, Precision, TokenBatch};
use quantlab::quant::{CHECKPOINTS, Head, QuantizationConfig};
use serde_json::{Value, json};

/// As for models in full precision: weights are what the codes stand for, to the last bit or two.
const LOGITS: f32 = 1e-4;

/// Each case, the row of [`CHECKPOINTS`] that it is one of, and how a label begins or ends.
const CASES: [(&str, &str, &str); 23] = [
    ("gptq-4", "gptq", "int4-32 from gptq of 4 bits, rest float32"),
    ("gptq-4-sym", "gptq", "int4-32 from gptq of 4 bits, rest float32"),
    ("gptq-4-act", "gptq", "int4-32 from gptq of 4 bits in the order of activations, rest float32"),
    ("gptq-4-v2", "gptq", "int4-32 from gptq of 4 bits, rest float32"),
    // Rows of 64 and of 96 weights.
    ("gptq-4-row", "gptq", "int4-32 from gptq of 4 bits, rest float32"),
    ("gptq-4-16", "gptq", "float32, restored from gptq of 4 bits"),
    ("gptq-8", "gptq", "float32, restored from gptq of 8 bits in the order of activations"),
    ("gptq-3", "gptq", "float32, restored from gptq of 3 bits"),
    ("gptq-2", "gptq", "float32, restored from gptq of 2 bits"),
    ("awq", "awq", "int4-32 from awq of 4 bits, rest float32"),
    ("awq-gemv", "awq", "int4-32 from awq of 4 bits, rest float32"),
    ("pack-4", "compressed-tensors pack-quantized", "int4-32 from compressed-tensors pack-quantized of 4 bits, rest"),
    (
        "pack-4-row",
        "compressed-tensors pack-quantized",
        "int4-32 from compressed-tensors pack-quantized of 4 bits, rest",
    ),
    (
        "pack-4-g-idx",
        "compressed-tensors pack-quantized",
        "int4-32 from compressed-tensors pack-quantized of 4 bits, rest",
    ),
    ("pack-8", "compressed-tensors pack-quantized", "restored from compressed-tensors pack-quantized of 8 bits"),
    (
        "int-8",
        "compressed-tensors int-quantized",
        "restored from compressed-tensors int-quantized of 8 bits (inputs stay as they are)",
    ),
    (
        "float-row",
        "compressed-tensors float-quantized",
        "restored from compressed-tensors float-quantized of 8 bits (inputs stay as they are)",
    ),
    (
        "float-tensor",
        "compressed-tensors float-quantized",
        "restored from compressed-tensors float-quantized of 8 bits (inputs stay as they are)",
    ),
    ("fp8", "fp8", "float32, restored from fp8 in blocks of 48 x 32"),
    ("hqq-4", "hqq", "int4-32 from hqq of 4 bits, rest float32"),
    ("hqq-8", "hqq", "float32, restored from hqq of 8 bits"),
    ("hqq-4-columns", "hqq", "float32, restored from hqq of 4 bits"),
    ("hqq-8-columns", "hqq", "float32, restored from hqq of 8 bits"),
];

/// Those of 4 bits by a table.
const FLOATS: [(&str, &str, &str); 2] = [
    ("nvfp4", "compressed-tensors nvfp4-pack-quantized", "restored from compressed-tensors nvfp4-pack-quantized"),
    ("mxfp4", "compressed-tensors mxfp4-pack-quantized", "restored from compressed-tensors mxfp4-pack-quantized"),
];

static GOLDEN: LazyLock<std::collections::HashMap<String, candle_core::Tensor>> =
    LazyLock::new(|| candle_core::safetensors::load(folder().join("golden.safetensors"), &Device::Cpu).unwrap());

fn folder() -> PathBuf {
    Path::new("tests/golden/checkpoints").to_owned()
}

fn read_json(file: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// A checkpoint of what no layout quantizes, and the layers.
fn checkpoint(name: &str) -> Copy {
    let copy = Copy::of_files(&[Path::new("tests/golden/llama3-tiny").join(TOKENIZER)]);
    let mut config = read_json(folder().join("base.json"));
    config["quantization_config"] = read_json(folder().join(format!("{name}.json")));
    fs::write(copy.path(CONFIG), config.to_string()).unwrap();
    let [base, layers] = ["base", name].map(|name| fs::read(folder().join(format!("{name}.safetensors"))).unwrap());
    let ((mut header, base), (more, layers)) = (header_and_data(&base), header_and_data(&layers));
    for (name, entry) in more.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__") {
        let mut entry = entry.clone();
        let offsets = entry["data_offsets"].as_array_mut().unwrap();
        offsets.iter_mut().for_each(|offset| *offset = (offset.as_u64().unwrap() + base.len() as u64).into());
        header[name] = entry;
    }
    copy.write_weights(&with_header(&header.to_string(), &[base, layers].concat()));
    copy
}

fn logits(loaded: &Loaded) -> Vec<f32> {
    let rows: Vec<Vec<u32>> = GOLDEN["input_ids"].to_dtype(DType::U32).unwrap().to_vec2().unwrap();
    let logits = loaded.model.forward(&TokenBatch::new(&rows).unwrap(), None, LogitPositions::Last).unwrap();
    logits.values().to_vec()
}

fn expected(name: &str) -> Vec<f32> {
    GOLDEN[&format!("{name}/logits")].flatten_all().unwrap().to_vec1().unwrap()
}

#[track_caller]
fn expect_close(name: &str, loaded: &Loaded, most: f32) {
    let distance = distance(&logits(loaded), &expected(name));
    assert!(distance < most, "{name} as {}: {distance}", loaded.dtype_label);
}

#[test]
fn logits_are_those_of_the_weights_that_the_codes_stand_for() {
    for (name, _, label) in CASES.into_iter().chain(FLOATS) {
        let copy = checkpoint(name);
        for engine in Engine::ALL {
            let loaded = copy.load_in(engine).unwrap_or_else(|error| panic!("{name} on {engine}: {error}"));
            assert!(loaded.dtype_label.contains(label), "{name} on {engine}: {}", loaded.dtype_label);
            assert_eq!(loaded.unused_tensors, [""; 0], "{name}");
            expect_close(name, &loaded, LOGITS);
        }
        let options = LoadOptions { dequantize: true, ..LoadOptions::default() };
        let restored = copy.load_with(&options).unwrap();
        assert!(restored.quantization.is_none() && restored.dtype_label.starts_with("float32, restored from"));
        expect_close(name, &restored, LOGITS);
        assert!(restored.model.info().parameter_bytes >= copy.load().unwrap().model.info().parameter_bytes, "{name}");
    }
}

/// What compressed-tensors 0.20 does: whatever group it is in, the first of several patterns in alphabetical order counts.
#[test]
fn one_of_several_patterns_counts() {
    let copy = checkpoint("pack-4");
    copy.change_config(|config| {
        let groups = &mut config["quantization_config"]["config_groups"];
        let [mut right, mut wrong] = [groups["group_0"].clone(), groups["group_0"].clone()];
        wrong["weights"]["num_bits"] = json!(8);
        (wrong["targets"], right["targets"]) = (json!(["re:.*proj$"]), json!(["re:.*_proj$"]));
        *groups = json!({ "a": wrong, "b": right });
    });
    expect_close("pack-4", &copy.load().unwrap(), LOGITS);
}

/// Weights of 4 bits beside inputs of 8 have bytes as well.
#[test]
fn integers_of_4_bits_that_are_not_packed() {
    let copy = checkpoint("int-8");
    copy.change_config(|config| {
        config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = json!(4);
    });
    let loaded = copy.load().unwrap();
    assert!(loaded.dtype_label.contains("int-quantized of 4 bits"), "{}", loaded.dtype_label);
    expect_close("int-8", &loaded, LOGITS);
}

/// Some programs leave the status before the last.
#[test]
fn a_frozen_checkpoint_is_one() {
    let copy = checkpoint("pack-4");
    copy.change_config(|config| config["quantization_config"]["quantization_status"] = json!("frozen"));
    expect_close("pack-4", &copy.load().unwrap(), LOGITS);
}

/// What the table promises: which bits stay packed, and which are restored.
#[test]
fn every_row_of_the_table_has_its_cases() {
    let rows = || CASES.into_iter().chain(FLOATS);
    for format in CHECKPOINTS.iter().filter(|format| format.quant_method != "bitsandbytes") {
        let mut bits = Vec::new();
        for (name, _, _) in rows().filter(|(_, row, _)| *row == format.name) {
            let loaded = checkpoint(name).load().unwrap();
            let config = read_json(folder().join(format!("{name}.json")));
            assert_eq!(config["quant_method"], format.quant_method);
            let found = bits_of(&config);
            bits.push(found);
            // Groups of 16 weights, and weights that belong to groups in turn, are not what kernels can take.
            let kept = format.kept.contains(&found) && !["gptq-4-16", "hqq-4-columns"].contains(&name);
            assert_eq!(loaded.quantization.is_some(), kept, "{name}");
        }
        bits.sort_unstable();
        bits.dedup();
        let read: Vec<u32> = format
            .bits
            .iter()
            .copied()
            .filter(|bits| {
                let of_other_tests =
                    [("compressed-tensors pack-quantized", 2), ("compressed-tensors int-quantized", 4)];
                !of_other_tests.contains(&(format.name, *bits))
            })
            .collect();
        assert_eq!(bits, read, "{}", format.name);
    }
}

/// `docs/formats.md` has the table for people.
#[test]
fn the_page_names_every_row() {
    let page = fs::read_to_string("../docs/formats.md").unwrap();
    for format in &CHECKPOINTS {
        let (method, layout) = format.name.split_once(' ').unwrap_or((format.name, ""));
        let in_row = |line: &str| line.starts_with(&format!("| `{method}`")) && line.contains(layout);
        assert!(page.lines().any(in_row), "{}", format.name);
    }
}

fn bits_of(config: &Value) -> u32 {
    let weights = &config["config_groups"]["group_0"]["weights"]["num_bits"];
    let hqq = &config["quant_config"]["weight_quant_params"]["nbits"];
    let all = [&config["bits"], weights, hqq];
    all.into_iter().find_map(Value::as_u64).unwrap_or(8) as u32
}

#[test]
fn a_quantization_says_what_stayed_packed() {
    let awq = checkpoint("awq").load().unwrap().quantization.unwrap();
    let skipped = Some(vec!["model.layers.0.mlp.down_proj".to_owned()]);
    assert_eq!(awq, QuantizationConfig { skip_modules: skipped, ..QuantizationConfig::int4(32) });
    let options = LoadOptions { precision: Precision::BFloat16, ..LoadOptions::default() };
    let loaded = checkpoint("gptq-4-act").load_with(&options).unwrap();
    let compute_dtype = Precision::BFloat16;
    assert_eq!(loaded.quantization, Some(QuantizationConfig { compute_dtype, ..QuantizationConfig::int4(32) }));
    expect_close("gptq-4-act", &loaded, 0.2);
}

/// What was restored can be quantized anew, as any model.
#[test]
fn a_checkpoint_can_be_quantized_again() {
    for name in ["fp8", "gptq-4-act", "nvfp4"] {
        let quantization = QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::int8() };
        let options = LoadOptions { quantization: Some(quantization.clone()), ..LoadOptions::default() };
        let loaded = checkpoint(name).load_with(&options).unwrap();
        assert_eq!(loaded.quantization, Some(quantization));
        assert!(
            loaded.dtype_label.starts_with("int8, head too, rest float32, restored from"),
            "{}",
            loaded.dtype_label
        );
        expect_close(name, &loaded, 0.3);
    }
}
