//! A second implementation, candle-transformers', over the whole context, which is longer than the reference data.
//!
//! It gets one token after the other: in longer pieces, some of its families have masks of their own.

use candle_core::{DType, Device as CandleDevice, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::smol::smollm3;
use candle_transformers::models::{gemma3, llama, mistral, olmo2, phi3, qwen2, qwen3, stable_lm};
use quantlab::model::{LogitPositions, Precision, TokenBatch};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cases::{cases, load};
use crate::common::place::Place;
use crate::common::{Case, distance};

/// A model with its cache: a token (1, 1), and the number of tokens before it.
type Model = Box<dyn FnMut(&Tensor, usize) -> candle_core::Result<Tensor>>;

const CASES: [&str; 9] = ["gemma3", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3", "smollm3", "stablelm"];

#[test]
fn another_implementation_agrees_over_the_whole_context() {
    let mut compared = Vec::new();
    for case in cases().into_iter().filter(|case| CASES.contains(&case.name.as_str())) {
        let ids: Vec<u32> = (0..64).map(|t| (t * t * 7 + 5 * t + 3) % 384).collect();
        let expected = logits_of_candle_transformers(&case, &ids).unwrap();
        for place in Place::all() {
            let loaded = load(&case, place, Precision::Float32);
            let tokens = TokenBatch::single(&ids).unwrap();
            let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
            let distance = distance(logits.values(), &expected);
            assert!(distance < 1e-4, "{}: {distance}", loaded.summary());
        }
        compared.push(case.name);
    }
    assert_eq!(compared, CASES);
}

fn logits_of_candle_transformers(case: &Case, ids: &[u32]) -> candle_core::Result<Vec<f32>> {
    let mut model = model(case)?;
    let mut logits = Vec::new();
    for (t, &id) in ids.iter().enumerate() {
        let of_token = model(&Tensor::from_slice(&[id], (1, 1), &CandleDevice::Cpu)?, t)?;
        logits.extend(of_token.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(logits)
}

fn model(case: &Case) -> candle_core::Result<Model> {
    let mut weights = case.weights();
    let is_tied = !weights.contains_key("lm_head.weight");
    // Some of its families know no tied heads.
    if is_tied {
        weights.insert("lm_head.weight".to_owned(), weights["model.embed_tokens.weight"].clone());
    }
    let vb = VarBuilder::from_tensors(weights, DType::F32, &CandleDevice::Cpu);
    let mut config: Value = serde_json::from_slice(&std::fs::read(case.folder.join("config.json")).unwrap()).unwrap();
    // What it wants to be told: the pattern of `layer_types`, and a window even where there is none.
    config["sliding_window_pattern"] = json!(3);
    if config["sliding_window"].is_null() {
        config["sliding_window"] = json!(64);
    }
    if config["tie_word_embeddings"].is_null() {
        config["tie_word_embeddings"] = json!(is_tied);
    }
    match case.name.as_str() {
        "gemma3" => boxed(gemma3::Model::new(false, &read(config), vb)?, gemma3::Model::forward),
        "llama" => {
            let config = read::<llama::LlamaConfig>(config).into_config(false);
            let mut cache = llama::Cache::new(true, DType::F32, &config, &CandleDevice::Cpu)?;
            boxed(llama::Llama::load(vb, &config)?, move |model, ids, past| model.forward(ids, past, &mut cache))
        }
        "mistral" => boxed(mistral::Model::new(&read(config), vb)?, mistral::Model::forward),
        "olmo2" => boxed(olmo2::Model::new(&read(config), vb)?, olmo2::Model::forward),
        "phi3" => boxed(phi3::Model::new(&read(config), vb)?, phi3::Model::forward),
        "qwen2" => boxed(qwen2::ModelForCausalLM::new(&read(config), vb)?, qwen2::ModelForCausalLM::forward),
        "qwen3" => boxed(qwen3::ModelForCausalLM::new(&read(config), vb)?, qwen3::ModelForCausalLM::forward),
        "smollm3" => boxed(smollm3::ModelForCausalLM::new(&read(config), vb)?, smollm3::ModelForCausalLM::forward),
        "stablelm" => boxed(stable_lm::Model::new(&read(config), vb)?, stable_lm::Model::forward),
        other => panic!("no model of {other}"),
    }
}

fn read<T: DeserializeOwned>(config: Value) -> T {
    serde_json::from_value(config).unwrap()
}

fn boxed<M: 'static>(
    mut model: M,
    mut forward: impl FnMut(&mut M, &Tensor, usize) -> candle_core::Result<Tensor> + 'static,
) -> candle_core::Result<Model> {
    Ok(Box::new(move |ids, past| forward(&mut model, ids, past)))
}
