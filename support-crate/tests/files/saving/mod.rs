//! `save_pretrained`: what transformers and bitsandbytes write, and what loads again with every bit.

mod transformers;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::copy::{CONFIG, Copy, INDEX, TOKENIZER, WEIGHTS, header_and_data, logits};
use crate::common::{Case, cases, load, quantized_cases, tiny};
use quantlab::model::{Engine, LoadOptions, Loaded, Precision, load_model};
use quantlab::quant::{FourBit, FourBitOptions, Head, QuantizationConfig};
use quantlab::source::OTHERS;
use serde_json::Value;
use tempfile::TempDir;

/// A tensor's dtype and shape as the header has them, and its bytes.
type Tensors = BTreeMap<String, (Value, Value, Vec<u8>)>;

fn tensors(file: &Path) -> Tensors {
    let bytes = fs::read(file).unwrap();
    let (mut header, data) = header_and_data(&bytes);
    let header = header.as_object_mut().unwrap();
    assert_eq!(header.remove("__metadata__").unwrap()["format"], "pt");
    let tensor = |(name, entry): (&String, &Value)| {
        let [start, end] = [0, 1].map(|side| entry["data_offsets"][side].as_u64().unwrap() as usize);
        (name.clone(), (entry["dtype"].clone(), entry["shape"].clone(), data[start..end].to_vec()))
    };
    header.iter().map(tensor).collect()
}

/// Of one file or several.
fn tensors_of(folder: &Path) -> Tensors {
    if !folder.join(INDEX).exists() {
        return tensors(&folder.join(WEIGHTS));
    }
    let files = json(&folder.join(INDEX))["weight_map"].as_object().unwrap().clone();
    files.values().flat_map(|file| tensors(&folder.join(file.as_str().unwrap()))).collect()
}

#[track_caller]
fn expect_equal(found: &Tensors, expected: &Tensors) {
    let names = |tensors: &Tensors| tensors.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected));
    for (name, tensor) in expected {
        assert!(found[name] == *tensor, "{name}: {:?}, expected {tensor:?}", found[name]);
    }
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn load_with(folder: &Path, precision: Precision, quantization: Option<QuantizationConfig>) -> Loaded {
    let options = LoadOptions { precision, quantization, ..LoadOptions::default() };
    load_model(&[folder.to_str().unwrap()], &options).unwrap()
}

fn save(loaded: &Loaded) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    loaded.save_pretrained(folder.path()).unwrap();
    folder
}

/// The checkpoint in full precision that a quantized one was made from.
fn full_precision_of(case: &Case) -> Option<PathBuf> {
    let (name, _) = case.name.split_once("-bnb-")?;
    Some(case.folder.with_file_name(name)).filter(|folder| folder.exists())
}

#[test]
fn quantized_here_or_by_bitsandbytes_the_files_are_the_same() {
    let mut compared = 0;
    for case in quantized_cases() {
        let Some(full) = full_precision_of(&case) else { continue };
        let expected = json(&case.folder.join(CONFIG));
        let config = QuantizationConfig::from_json(&expected["quantization_config"]).unwrap();
        let saved = save(&load_with(&full, Precision::Float32, Some(config)));
        expect_equal(&tensors_of(saved.path()), &tensors_of(&case.folder));
        assert_eq!(json(&saved.path().join(CONFIG)), expected, "{}", case.name);
        compared += 1;
    }
    assert!(compared > 0);
}

#[test]
fn a_quantized_checkpoint_is_saved_as_it_was() {
    for case in quantized_cases() {
        // The references come without a tokenizer.
        let copy = Copy::of_files(&[case.folder.join(CONFIG), case.folder.join(WEIGHTS), tiny().join(TOKENIZER)]);
        for engine in Engine::ALL {
            let saved = save(&copy.load_in(engine).unwrap());
            expect_equal(&tensors_of(saved.path()), &tensors_of(&case.folder));
            assert_eq!(json(&saved.path().join(CONFIG)), json(&case.folder.join(CONFIG)), "{} by {engine}", case.name);
        }
    }
}

#[test]
fn full_precision_is_saved_as_it_was() {
    for case in cases() {
        let config = json(&case.folder.join(CONFIG));
        let precision = config["dtype"].as_str().unwrap().parse().unwrap();
        for (name, engine) in Engine::ALL.map(|engine| (format!("{} by {engine}", case.name), engine)) {
            let options = LoadOptions { precision, engine: Some(engine), ..LoadOptions::default() };
            let saved = save(&load_model(&[case.folder.to_str().unwrap()], &options).unwrap());
            expect_equal(&tensors_of(saved.path()), &tensors_of(&case.folder));
            assert_eq!(json(&saved.path().join(CONFIG)), config, "{name}");
            for file in OTHERS.into_iter().chain([TOKENIZER]) {
                let read = |folder: &Path| fs::read(folder.join(file)).ok();
                assert_eq!(read(saved.path()), read(&case.folder), "{name}: {file}");
            }
        }
    }
}

fn configs() -> Vec<QuantizationConfig> {
    let skipping = |name: &str| Some(vec![name.to_owned()]);
    vec![
        QuantizationConfig::nf4(),
        QuantizationConfig {
            head: Head::AsLayers,
            ..QuantizationConfig::four_bit(FourBitOptions { double_quant: true, ..FourBitOptions::default() })
        },
        QuantizationConfig::four_bit(FourBitOptions {
            quant_type: FourBit::Fp4,
            blocksize: 128,
            ..FourBitOptions::default()
        }),
        QuantizationConfig { head: Head::Int8, ..QuantizationConfig::nf4() },
        QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::int8() },
        QuantizationConfig { head: Head::Int8, ..QuantizationConfig::llm_int8(0.5) },
        QuantizationConfig { skip_modules: skipping("mlp"), ..QuantizationConfig::int8() },
        QuantizationConfig { skip_modules: skipping("attn"), head: Head::Int8, ..QuantizationConfig::fp4() },
    ]
}

#[test]
fn what_is_saved_computes_the_same_to_the_bit() {
    for case in cases() {
        let is_gpt2 = json(&case.folder.join(CONFIG))["model_type"] == "gpt2";
        // Names to skip are GPT-2's.
        let fits = |config: &QuantizationConfig| is_gpt2 || config.skip_modules.is_none();
        let configs = configs().into_iter().filter(fits).map(Some).chain([None]);
        for (config, precision) in configs
            .flat_map(|config| [Precision::Float32, Precision::BFloat16].map(|precision| (config.clone(), precision)))
        {
            let loaded = load_with(&case.folder, precision, config);
            let again = load_with(save(&loaded).path(), precision, None);
            let label = format!("{}, {}", case.name, loaded.dtype_label);
            assert_eq!(logits(&loaded), logits(&again), "{label}");
            assert_eq!(again.dtype_label, loaded.dtype_label, "{label}");
            assert_eq!(again.unused_tensors, [""; 0], "{label}");
            let bytes = |loaded: &Loaded| (loaded.model.info().parameter_bytes, loaded.model.info().quant_state_bytes);
            assert_eq!(bytes(&again), bytes(&loaded), "{label}");
        }
    }
}

/// By names that transformers 4 and 5 take for the same.
#[test]
fn layers_that_were_skipped_are_named_in_whole() {
    let skip_modules = Some(["h.1", "lm_head"].map(str::to_owned).to_vec());
    let quantization = QuantizationConfig { skip_modules, ..QuantizationConfig::nf4() };
    let saved = save(&load_with(tiny(), Precision::Float32, Some(quantization)));
    let skipped = &json(&saved.path().join(CONFIG))["quantization_config"]["llm_int8_skip_modules"];
    let layers = ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"];
    let expected = layers.map(|layer| format!("transformer.h.1.{layer}")).into_iter().chain(["lm_head".to_owned()]);
    assert_eq!(*skipped, expected.collect::<Value>());
}

/// transformers 4 takes a name for a part of a layer's, 5 for its end, or for a pattern of its beginning.
#[test]
fn what_is_quantized_is_told_by_the_tensors_where_a_list_can_be_read_in_several_ways() {
    for config in [QuantizationConfig::nf4(), QuantizationConfig::int8()] {
        for (skipped, list) in [("c_fc", "mlp.c_fc"), ("c_fc", r"transformer\.h\.\d+\.mlp\.c_fc"), ("lm_head", "mlp")] {
            let quantization = QuantizationConfig { skip_modules: Some(vec![skipped.to_owned()]), ..config.clone() };
            let made = load_with(tiny(), Precision::Float32, Some(quantization));
            let copy = Copy::of(save(&made).path());
            copy.change_config(|config| {
                config["quantization_config"]["llm_int8_skip_modules"] = [list, "lm_head"].into_iter().collect();
            });
            let again = copy.load().unwrap();
            assert_eq!(logits(&again), logits(&made), "{list} for {skipped}, {config}");
            assert_eq!(again.unused_tensors, [""; 0], "{list} for {skipped}");
        }
    }
}

#[test]
fn a_checkpoint_is_not_overwritten() {
    let loaded = load(tiny(), "float32");
    let saved = save(&loaded);
    let before = tensors_of(saved.path());
    let quantized = load_with(tiny(), Precision::Float32, Some(QuantizationConfig::nf4()));
    let message = quantized.save_pretrained(saved.path()).unwrap_err().to_string();
    assert!(message.contains("already") && message.contains(saved.path().to_str().unwrap()), "{message}");
    expect_equal(&tensors_of(saved.path()), &before);
    // Files of something else are no checkpoint.
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes.txt"), "mine").unwrap();
    quantized.save_pretrained(other.path()).unwrap();
    assert_eq!(fs::read_to_string(other.path().join("notes.txt")).unwrap(), "mine");
    let mut names: Vec<_> = fs::read_dir(other.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [CONFIG, WEIGHTS, "notes.txt", TOKENIZER]);
}

#[test]
fn a_folder_that_cannot_be_written_to() {
    let loaded = load(tiny(), "float32");
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "no folder").unwrap();
    for folder in [file.clone(), file.join("model")] {
        let message = loaded.save_pretrained(&folder).unwrap_err().to_string();
        assert!(message.contains("cannot create") && message.contains(folder.to_str().unwrap()), "{message}");
    }
}

#[test]
fn nothing_is_left_of_what_fails() {
    let copy = Copy::of(tiny());
    let loaded = copy.load().unwrap();
    fs::remove_file(copy.path(TOKENIZER)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let message = loaded.save_pretrained(folder.path()).unwrap_err().to_string();
    assert!(message.contains(TOKENIZER), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
