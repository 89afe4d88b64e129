//! Where a model comes from, and which of several is taken.

use std::fs;

use quantlab::error::Error;
use quantlab::model::{Device, Engine, LoadOptions, Loaded, ModelInfo, load_model, load_model_and_tokenizer};

use crate::common::copy::{CONFIG, TOKENIZER, WEIGHTS, expect, logits};
use crate::common::distance;
use crate::family::{FAMILIES, GPT2};

fn load(id: &str) -> Result<Loaded, Error> {
    load_model_and_tokenizer(&[id], "float32", Device::Cpu)
}

#[test]
fn every_source_gives_the_same_model_in_every_engine() {
    for id in ["embedded", "tests/golden/gpt2-tiny", "tests/golden/llama-tiny", "random:gpt2"] {
        let [kernels, others @ ..] = Engine::ALL.map(|engine| {
            let loaded = load_model(&[id], &LoadOptions { engine: Some(engine), ..LoadOptions::default() }).unwrap();
            assert_eq!(loaded.model.info().engine, engine.name());
            assert!(loaded.unused_tensors.is_empty(), "{id} on {engine}");
            loaded
        });
        let row = logits(&kernels);
        assert!(row.iter().all(|logit| logit.is_finite()) && distance(&row, &vec![row[0]; row.len()]) > 0.1, "{id}");
        for other in others {
            let (info, distance) = (other.model.info(), distance(&row, &logits(&other)));
            assert!(distance < 1e-4, "{id} on {}: {distance}", info.engine);
            let count = |info: &ModelInfo| (info.num_parameters, info.parameter_bytes);
            assert_eq!(count(kernels.model.info()), count(info), "{id} on {}", info.engine);
        }
    }
}

/// Saving and downloading replace files by renaming, so that a model that has the old one mapped keeps it.
#[test]
fn a_model_goes_on_when_its_file_is_replaced() {
    for family in FAMILIES {
        let copy = family.copy();
        let loaded = copy.load().unwrap();
        assert!(loaded.model.info().mapped_bytes > 0);
        let before = logits(&loaded);
        copy.write_weights(b"others");
        fs::remove_file(copy.path(WEIGHTS)).unwrap();
        assert_eq!(logits(&loaded), before);
    }
}

#[test]
fn random_models_have_the_published_sizes() {
    let loaded = load("random:gpt2").unwrap();
    let info = loaded.model.info();
    assert_eq!(info.num_parameters, 124_439_808);
    assert_eq!((info.n_layer, info.vocab_size, info.context_len), (12, 50_257, 1024));
}

#[test]
fn a_folder_that_is_not_there() {
    expect(&load("/no/such/folder"), &["cannot load `/no/such/folder`", "there is no folder"]);
}

#[test]
fn a_folder_without_one_of_the_files() {
    for name in [CONFIG, TOKENIZER, WEIGHTS] {
        let copy = GPT2.copy();
        fs::remove_file(copy.path(name)).unwrap();
        expect(&copy.load(), &["cannot open", name]);
        fs::create_dir(copy.path(name)).unwrap();
        expect(&copy.load(), &[name]);
    }
}

#[test]
fn a_pickle_in_place_of_safetensors() {
    let copy = GPT2.copy();
    fs::rename(copy.path(WEIGHTS), copy.path("pytorch_model.bin")).unwrap();
    expect(&copy.load(), &[WEIGHTS, "hint", "safe_serialization"]);
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
fn a_broken_candidate_gives_way_to_the_next() {
    for family in FAMILIES {
        let copy = family.copy();
        fs::write(copy.path(WEIGHTS), "no weights").unwrap();
        let folder = copy.path("").to_str().unwrap().to_owned();
        let loaded = load_model_and_tokenizer(&[&folder, "embedded"], "float32", Device::Cpu).unwrap();
        assert_eq!((loaded.model_id.as_str(), loaded.skipped.len()), ("embedded", 1));
        assert!(loaded.skipped[0].reason.contains("not a whole safetensors file"), "{}", loaded.skipped[0].reason);
    }
}

#[test]
fn a_device_that_is_not_there() {
    let failed = load_model_and_tokenizer(&["embedded"], "float32", Device::Cuda(63));
    expect(&failed, &["cannot use cuda:63", "Device::Cpu"]);
}
