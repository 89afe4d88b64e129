//! Where a model comes from, and which of several is taken.

use std::fs;

use quantlab::error::Error;
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::{
    DecoderConfig, Device, Engine, LoadOptions, Loaded, ModelInfo, NormKind, Positions, load_model,
    load_model_and_tokenizer,
};
use quantlab::source::{ModelId, RandomShape};

use super::family::{FAMILIES, GPT2};
use crate::common::copy::{CONFIG, TOKENIZER, WEIGHTS, expect, logits};
use crate::common::distance;

fn load(id: &str) -> Result<Loaded, Error> {
    load_model_and_tokenizer(&[id], "float32", Device::Cpu)
}

#[test]
fn every_source_gives_the_same_model_in_every_engine() {
    for id in ["embedded", "tests/golden/gpt2-tiny", "tests/golden/llama-tiny", "random:gpt2"] {
        let [kernels, others @ ..] = Engine::ALL.map(|engine| {
            let loaded = load_model(&[id], &LoadOptions { engine: Some(engine), ..LoadOptions::default() }).unwrap();
            assert_eq!(loaded.model.info().engine, engine);
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

/// Weights and biases that a config asks for, tied ones once.
fn num_parameters(config: &DecoderConfig) -> usize {
    let (c, inner, queries) = (config.hidden_size, config.intermediate_size, config.n_head * config.head_dim);
    let rows_in = queries + 2 * config.n_kv_head * config.head_dim;
    let norm = if config.norm == NormKind::Layer { 2 * c } else { c };
    let bias = |is_there, len| if is_there { len } else { 0 };
    let attention = rows_in * c + bias(config.biases.attention_in, rows_in);
    let attention = attention + c * queries + bias(config.biases.attention_out, c);
    let mlp = if config.gated { 3 } else { 2 } * c * inner + bias(config.biases.mlp, inner + c);
    let positions = if config.positions == Positions::Learned { config.context_len * c } else { 0 };
    assert!(config.tie_word_embeddings);
    config.vocab_size * c + positions + config.n_layer * (attention + mlp + 2 * norm) + norm
}

#[test]
fn random_models_have_the_published_sizes() {
    let published = [124_439_808, 354_823_168, 774_030_080, 134_515_008, 494_032_768, 1_235_814_400];
    for (shape, published) in RandomShape::ALL.into_iter().zip(published) {
        let config = DecoderConfig::read(&ModelId::Random(shape).resolve().unwrap().config).unwrap();
        assert_eq!(num_parameters(&config), published, "{}", shape.name());
    }
    for id in ["random:gpt2", "random:smollm2-135m", "random:qwen2.5-0.5b"] {
        let loaded = load_model_and_tokenizer(&[id], "bfloat16", Device::Cpu).unwrap();
        let config = DecoderConfig::read(&id.parse::<ModelId>().unwrap().resolve().unwrap().config).unwrap();
        assert_eq!(loaded.model.info().num_parameters, num_parameters(&config), "{id}");
        // One token for ever would be a text as well.
        let options = GenerateOptions { max_new_tokens: 32, stop_at_eos: false, ..GenerateOptions::default() };
        let prompt = (0..16).map(|i| 997 * i + 5).collect();
        let mut generated = generate_tokens(&*loaded.model, &[prompt], &options, &mut |_, _| ()).unwrap();
        let tokens = &mut generated[0].tokens;
        tokens.sort_unstable();
        tokens.dedup();
        assert!(tokens.len() > 16, "{id}: {tokens:?}");
    }
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
        expect(&copy.load(), &["cannot open", name, "hint"]);
    }
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
        assert!(loaded.skipped[0].reason.contains("not a complete safetensors file"), "{}", loaded.skipped[0].reason);
    }
}

#[test]
fn a_device_that_is_not_there() {
    let failed = load_model_and_tokenizer(&["embedded"], "float32", Device::Cuda(63));
    expect(&failed, &["cannot use cuda:63", "Device::Cpu"]);
}
