//! Everything above `CausalLm` works with them.

use quantlab::generate::{GenerateOptions, generate, generate_batch};
use quantlab::measure::{PerplexityOptions, perplexity};
use quantlab::model::{Engine, LoadOptions, LogitPositions, TensorKind, TokenBatch, load_model};
use serde_json::json;

use super::cases::{cases, copy, facts, is_of_version_4, on_engines};
use crate::common::copy::Copy;
use crate::common::distance;

#[test]
fn every_tensor_is_used_and_the_kernels_compute() {
    for case in cases() {
        let loaded = load_model(&[case.folder.to_str().unwrap()], &LoadOptions::default()).unwrap();
        assert_eq!(loaded.model.info().engine, Engine::Kernels);
        assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
    }
}

#[test]
fn parameters_and_buffers_are_those_of_transformers() {
    for (case, loaded) in on_engines() {
        let (info, facts) = (loaded.model.info(), facts(&case));
        assert_eq!(json!(info.num_parameters), facts["num_parameters"], "{}", case.name);
        assert_eq!(info.num_parameters, case.stored_parameters());
        assert_eq!(info.parameter_bytes, 4 * info.num_parameters);
        assert_eq!((info.vocab_size, info.eos_token_ids.as_slice()), (384, &[0][..]));
        let tensors = loaded.model.tensors();
        let buffers = tensors.iter().filter(|tensor| tensor.kind == TensorKind::Buffer);
        let buffers: serde_json::Map<_, _> = buffers.map(|tensor| (tensor.name.clone(), json!(tensor.shape))).collect();
        // Version 5 registers others.
        if is_of_version_4(&case) {
            assert_eq!(json!(buffers), facts["buffers"], "{}", loaded.summary());
            assert_eq!(json!(info.buffer_bytes), facts["buffer_bytes"], "{}", loaded.summary());
        }
        let own = tensors.iter().filter(|tensor| tensor.kind == TensorKind::Parameter && tensor.tied_to.is_none());
        assert_eq!(own.map(|tensor| tensor.numel).sum::<usize>(), info.num_parameters);
        let is_tied = tensors.iter().any(|tensor| tensor.tied_to.is_some());
        let embedding = 384 * 32 * 4;
        assert_eq!(info.bytes_per_token, info.parameter_bytes - if is_tied { 0 } else { embedding }, "{}", case.name);
    }
}

#[test]
fn texts_are_generated_and_scored() {
    for (case, loaded) in on_engines() {
        let options = GenerateOptions { max_new_tokens: 4, stop_at_eos: false, ..GenerateOptions::default() };
        let one = generate(&loaded, "the quick brown fox", &options).unwrap();
        let many = generate_batch(&loaded, &["the quick brown fox", "once"], &options).unwrap();
        assert_eq!(many[0].text, one.text, "{}", case.name);
        let texts = ["the quick brown fox jumps", "once upon a time"];
        let options = PerplexityOptions { window: Some(8), ..PerplexityOptions::default() };
        assert!(perplexity(&loaded, &texts, &options).unwrap().perplexity > 1.0);
    }
}

#[test]
fn sequences_that_a_cache_keeps_go_on_as_before() {
    for (case, loaded) in on_engines() {
        let rows = case.ids("input_ids");
        let (a, b) = (&rows[0], &rows[1]);
        let step = |cache: &mut _, rows: &[&[u32]]| {
            let rows: Vec<Vec<u32>> = rows.iter().map(|row| row.to_vec()).collect();
            loaded.model.forward(&TokenBatch::new(&rows).unwrap(), Some(cache), LogitPositions::Last).unwrap()
        };
        let mut cache = loaded.model.new_cache(4, 12).unwrap();
        step(&mut cache, &[&a[..9], &b[..9], &a[1..10], &b[1..10]]);
        loaded.model.retain(&mut cache, &[1, 2, 3]).unwrap();
        step(&mut cache, &[&b[9..10], &a[10..11], &b[10..11]]);
        loaded.model.retain(&mut cache, &[0, 2]).unwrap();
        let logits = step(&mut cache, &[&b[10..11], &b[11..12]]);
        for (row, of) in [(0, &b[..11]), (1, &b[1..12])] {
            let alone = TokenBatch::single(of).unwrap();
            let alone = loaded.model.forward(&alone, None, LogitPositions::Last).unwrap();
            let distance = distance(logits.row(row, 0), alone.row(0, 0));
            assert!(distance < 1e-4, "{}: sequence {row}: {distance}", case.name);
        }
        // Started anew, it holds two.
        cache.reset();
        let again = step(&mut cache, &[&a[..9], &b[..9]]);
        assert_eq!(again.batch(), 2);
    }
}

#[test]
fn a_saved_model_is_the_same_to_the_bit() {
    for (case, loaded) in on_engines() {
        let folder = Copy::empty();
        let target = folder.path("saved");
        loaded.save_pretrained(&target).unwrap();
        let (engine, device) = (Some(loaded.model.info().engine), loaded.model.info().device);
        let options = LoadOptions { engine, device, ..LoadOptions::default() };
        let again = load_model(&[target.to_str().unwrap()], &options).unwrap();
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        let logits = |loaded: &quantlab::model::Loaded| {
            loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec()
        };
        assert_eq!(logits(&again), logits(&loaded), "{}", case.name);
    }
}

/// transformers 5 calls it `rope_parameters`, and leaves out what is as usual.
#[test]
fn other_spellings_of_a_config_are_the_same_model() {
    let logits = |copy: &Copy| {
        let of_engine = |engine| {
            let loaded = copy.load_in(engine).unwrap();
            let tokens = TokenBatch::single(&(1..16).collect::<Vec<u32>>()).unwrap();
            loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec()
        };
        Engine::ALL.map(of_engine)
    };
    for (name, parameters) in [
        ("qwen3", json!({"rope_type": "default", "rope_theta": 1000.0})),
        ("phi3", json!({"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
        ("stablelm", json!({"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25})),
        (
            "llama",
            json!({"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16}),
        ),
    ] {
        let copy = copy(name);
        let before = logits(&copy);
        copy.change_config(|config| {
            let keys = config.as_object_mut().unwrap();
            for key in ["rope_theta", "rope_scaling", "partial_rotary_factor"] {
                keys.remove(key);
            }
            keys.insert("rope_parameters".to_owned(), parameters);
        });
        assert_eq!(logits(&copy), before, "{name}");
    }
    let gemma = copy("gemma3");
    let before = logits(&gemma);
    gemma.change_config(|config| {
        let keys = config.as_object_mut().unwrap();
        for key in ["rope_theta", "rope_local_base_freq", "rope_scaling", "layer_types"] {
            keys.remove(key);
        }
        keys.insert("_sliding_window_pattern".to_owned(), json!(3));
        let parameters = json!({"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}});
        keys.insert("rope_parameters".to_owned(), parameters);
    });
    assert_eq!(logits(&gemma), before);
}
