//! Writes the files that ship, in the layout of Hugging Face, and measures exactly what they hold.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use tch::{Device, Kind, Tensor, no_grad};
use tokenizers::Tokenizer;

use crate::card::{self, Measures};
use crate::corpus::docs::Documentation;
use crate::corpus::facts::Facts;
use crate::evaluate::{self, CONTINUATION, PROMPTS};
use crate::model::{Model, Shape};
use crate::tokenizer::{self, END_OF_TEXT};
use crate::train::Run;

/// The held-out text that ships, in bytes at most.
const HELD_OUT_LIMIT: usize = 150_000;

/// The texts that a model was trained and is measured on.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    /// The documentation.
    pub documentation: &'a Documentation,
    /// The part of the held-out pages that ships.
    pub held_out: &'a str,
}

/// Whole held-out pages, evenly spread, up to the size that ships.
pub fn held_out_sample(pages: &[String]) -> String {
    let total: usize = pages.iter().map(|page| page.len() + 2).sum();
    let mut text = String::new();
    let mut passed = 0;
    for page in pages {
        // A page is taken while the sample lags behind its share of what has passed.
        passed += page.len() + 2;
        let share = (passed as f64 / total as f64).min(1.0) * HELD_OUT_LIMIT as f64;
        let fits = (text.len() + page.len() + 2) as f64 <= share.max(0.0);
        if fits || total <= HELD_OUT_LIMIT {
            text.push_str(page);
            text.push_str("\n\n");
        }
    }
    text
}

/// Writes and measures the finished model; the measures go into its card, beside what it was before finishing.
pub fn export(trained: &Run, run: &Run, tokenizer: &Tokenizer, texts: Texts, device: Device, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let write = |name: &str, content: &[u8]| {
        let file = out.join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    };
    let end_of_text = tokenizer::end_of_text(tokenizer)?;
    let shape = run.model.shape();
    write("model.safetensors", &weights(&run.model)?)?;
    write("config.json", &pretty(&config(shape, end_of_text))?)?;
    write("generation_config.json", &pretty(&generation_config(end_of_text))?)?;
    write("tokenizer_config.json", &pretty(&tokenizer_config(shape))?)?;
    tokenizer::save(tokenizer, &out.join("tokenizer.json"))?;
    let facts = Facts::new().questions();
    write("facts.json", &pretty(&serde_json::to_value(&facts)?)?)?;
    write("held_out.txt", texts.held_out.as_bytes())?;
    run.history.write(&out.join("loss.csv"))?;
    run.history.draw(trained.steps(), &out.join("loss.svg"))?;

    // What ships is measured, not what was trained: read back and rounded.
    let shipped = Tensor::read_safetensors(out.join("model.safetensors"));
    let shipped = Model::from_tensors(shape, &shipped.context("cannot read the model back")?, device)?;
    let held_out = evaluate::held_out(&shipped, tokenizer, texts.held_out, &texts.documentation.train)?;
    let missed = evaluate::missed_facts(&shipped, tokenizer, &facts)?;
    let continuation = |prompt: &str| {
        let text = evaluate::continue_greedily(&shipped, tokenizer, prompt, CONTINUATION)?;
        Ok((prompt.to_owned(), text))
    };
    let measures = Measures {
        parameters: shipped.size(),
        weight_bytes: fs::metadata(out.join("model.safetensors"))?.len(),
        held_out,
        perplexities: evaluate::perplexities(&shipped, tokenizer, texts.held_out)?,
        before_finishing: evaluate::perplexities(&trained.model, tokenizer, texts.held_out)?,
        facts: facts.len(),
        missed,
        continuations: PROMPTS.iter().map(|p| continuation(p)).collect::<Result<_>>()?,
    };
    let card = card::card(trained, run, texts, &measures, device);
    println!("{}", card::summary(&measures));
    write("MODEL_CARD.md", card.as_bytes())
}

/// The weights as float16, under the names and in the layout of Hugging Face.
fn weights(model: &Model) -> Result<Vec<u8>> {
    let half = |(name, tensor): &(String, Tensor)| {
        let tensor = tensor.detach().to_device(Device::Cpu).to_kind(Kind::Half);
        let tensor = tensor.contiguous();
        let mut bytes = vec![0_u8; tensor.numel() * 2];
        tensor.copy_data_u8(&mut bytes, tensor.numel());
        let dimensions = tensor.size().iter().map(|&n| n as usize).collect();
        (name.clone(), dimensions, bytes)
    };
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = no_grad(|| model.parameters().iter().map(half).collect());
    let views = tensors
        .iter()
        .map(|(name, dimensions, bytes)| {
            let view = TensorView::new(Dtype::F16, dimensions.clone(), bytes);
            Ok((name.as_str(), view?))
        })
        .collect::<Result<Vec<_>>>()?;
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Ok(safetensors::serialize(views, Some(metadata))?)
}

fn config(shape: Shape, end_of_text: u32) -> serde_json::Value {
    json!({
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.0,
        "bos_token_id": end_of_text,
        "embd_pdrop": 0.0,
        "eos_token_id": end_of_text,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5,
        "model_type": "gpt2",
        "n_ctx": shape.positions,
        "n_embd": shape.width,
        "n_head": shape.heads,
        "n_inner": null,
        "n_layer": shape.layers,
        "n_positions": shape.positions,
        "resid_pdrop": 0.0,
        "scale_attn_weights": true,
        "tie_word_embeddings": true,
        "torch_dtype": "float16",
        "use_cache": true,
        "vocab_size": shape.vocabulary,
    })
}

fn generation_config(end_of_text: u32) -> serde_json::Value {
    json!({
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "pad_token_id": end_of_text,
    })
}

fn tokenizer_config(shape: Shape) -> serde_json::Value {
    json!({
        "add_prefix_space": false,
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "unk_token": END_OF_TEXT,
        "model_max_length": shape.positions,
        "tokenizer_class": "GPT2TokenizerFast",
    })
}

fn pretty(value: &serde_json::Value) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Shape = Shape { vocabulary: 32, positions: 16, width: 8, layers: 1, heads: 2 };

    #[test]
    fn weights_are_read_back_as_the_rounded_model() {
        let model = Model::new(TINY, 7, Device::Cpu);
        let file = std::env::temp_dir().join(format!("embedded-weights-{}", std::process::id()));
        fs::write(&file, weights(&model).expect("weights")).expect("written");
        let tensors = Tensor::read_safetensors(&file);
        fs::remove_file(&file).expect("removed");
        let tensors = tensors.expect("tensors");
        assert!(tensors.iter().all(|(_, tensor)| tensor.kind() == Kind::Half));
        let attention = tensors.iter().find(|(name, _)| name.ends_with("c_attn.weight"));
        assert_eq!(attention.expect("attention").1.size(), [8, 24], "[in, out]");
        let shipped = Model::from_tensors(TINY, &tensors, Device::Cpu).expect("a model");
        for ((_, ours), (_, theirs)) in shipped.parameters().iter().zip(model.parameters()) {
            assert!(ours.allclose(&theirs.to_kind(Kind::Half).to_kind(Kind::Float), 0.0, 0.0, false));
        }
    }

    #[test]
    fn the_sample_has_whole_pages_and_its_size_is_limited() {
        let pages: Vec<String> = (0..100).map(|n| format!("{n} ").repeat(1000 + n)).collect();
        let sample = held_out_sample(&pages);
        assert!(sample.len() <= HELD_OUT_LIMIT && sample.len() > HELD_OUT_LIMIT / 2);
        let taken = pages.iter().filter(|page| sample.contains(&format!("{page}\n\n")));
        assert!(taken.count() > 10);
        let few = ["one".to_owned(), "two".to_owned()];
        assert_eq!(held_out_sample(&few), "one\n\ntwo\n\n");
    }

    #[test]
    fn the_configuration_is_that_of_gpt2() {
        let config = config(Shape::EMBEDDED, 0);
        assert_eq!(config["model_type"], "gpt2");
        assert_eq!(config["n_embd"], 256);
        assert_eq!(config["n_positions"], 512);
    }
}
