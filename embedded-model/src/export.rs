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

use crate::card::{self, Measures, Quality, Texts};
use crate::corpus::facts::{Fact, Facts};
use crate::evaluate::{self, CONTINUATION, PROMPTS};
use crate::history::History;
use crate::model::{Model, Shape};
use crate::quantize::Format;
use crate::tokenizer::{self, END_OF_TEXT};
use crate::train::Run;

/// The held-out text that ships, in bytes at most.
const HELD_OUT_LIMIT: usize = 150_000;
const CARD: &str = "MODEL_CARD.md";
const LOSSES: &str = "loss.csv";

/// A file of weights that ships, and what the library calls the model.
#[derive(Clone, Copy)]
pub struct Shipped {
    /// The name of the file.
    pub file: &'static str,
    /// The library's name of the model.
    pub id: &'static str,
}

/// The model, as it was trained.
pub const TRAINED: Shipped = Shipped { file: "model.safetensors", id: "embedded" };
/// The same after the steps of finishing.
pub const FINISHED: Shipped = Shipped { file: "model-qat.safetensors", id: "embedded:qat" };
/// The same after as many steps that round nothing.
pub const CONTROL: Shipped = Shipped { file: "model-control.safetensors", id: "embedded:control" };

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

/// Writes the trained model, and how it was made.
pub fn export(trained: &Run, tokenizer: &Tokenizer, texts: Texts, device: Device, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let write = |name: &str, content: &[u8]| write(&out.join(name), content);
    let end_of_text = tokenizer::end_of_text(tokenizer)?;
    let shape = trained.model.shape();
    write_weights(&trained.model, out, TRAINED)?;
    write("config.json", &pretty(&config(shape, end_of_text))?)?;
    write("generation_config.json", &pretty(&generation_config(end_of_text))?)?;
    write("tokenizer_config.json", &pretty(&tokenizer_config(shape))?)?;
    tokenizer::save(tokenizer, &out.join("tokenizer.json"))?;
    write("facts.json", &pretty(&serde_json::to_value(Facts::new().questions())?)?)?;
    write("held_out.txt", texts.held_out.as_bytes())?;
    trained.history.write(&out.join(LOSSES))?;
    write(CARD, card::made(trained, texts, device).as_bytes())
}

/// Writes the weights of a model as they ship.
pub fn write_weights(model: &Model, out: &Path, shipped: Shipped) -> Result<()> {
    write(&out.join(shipped.file), &weights(model)?)
}

/// Measures the files in a folder, the last two of which took so many steps of finishing; draws the loss curve, and writes
/// what was measured into their card. The part of it that says how the model was made stays as it is.
pub fn measure(folder: &Path, finish_steps: u64, device: Device) -> Result<()> {
    History::read(&folder.join(LOSSES))?.draw(&folder.join("loss.svg"))?;
    let read = |name: &str| {
        let file = folder.join(name);
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let (card, held_out) = (read(CARD)?, read("held_out.txt")?);
    let facts: Vec<Fact> = serde_json::from_str(&read("facts.json")?).context("facts.json is not a list of facts")?;
    let tokenizer = tokenizer::load(&folder.join("tokenizer.json"))?;
    let model = |shipped: Shipped| {
        let file = folder.join(shipped.file);
        let tensors = Tensor::read_safetensors(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Model::from_tensors(Shape::EMBEDDED, &tensors, device)
    };
    let quality = |shipped: Shipped| -> Result<Quality> {
        let model = &model(shipped)?;
        let loss = |model: &Model| evaluate::loss(model, &tokenizer, &held_out);
        let rounded = |format| Ok(loss(&no_grad(|| model.rounded(format)))?.exp());
        Ok(Quality {
            id: shipped.id,
            loss: loss(model)?,
            rounded: Format::ALL.into_iter().map(rounded).collect::<Result<_>>()?,
            missed: evaluate::missed_facts(model, &tokenizer, &facts)?,
        })
    };
    let trained = model(TRAINED)?;
    let continuation = |prompt: &str| {
        let text = evaluate::continue_greedily(&trained, &tokenizer, prompt, CONTINUATION)?;
        Ok((prompt.to_owned(), text))
    };
    let measured = card::measured(&Measures {
        bytes: held_out.len(),
        tokens: tokenizer::encode(&tokenizer, &held_out)?.len(),
        facts: facts.len(),
        finish_steps,
        models: [TRAINED, FINISHED, CONTROL].into_iter().map(quality).collect::<Result<_>>()?,
        continuations: PROMPTS.into_iter().map(continuation).collect::<Result<_>>()?,
    });
    println!("{measured}");
    let made = card.split(card::MEASURED).next().unwrap_or_default().trim_end();
    write(&folder.join(CARD), format!("{made}\n\n{measured}").as_bytes())
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    fs::write(file, content).with_context(|| format!("cannot write {}", file.display()))
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
    use crate::corpus::docs::Documentation;

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
    fn models_ship_beside_the_trained_one_and_the_card_follows_the_files() {
        let folder = std::env::temp_dir().join(format!("embedded-export-{}", std::process::id()));
        let run = |name: &str, seed| Run::resume(&folder.join(name), seed, Device::Cpu).expect("a new run");
        let trained = run("trained", 1);
        let tokenizer = tokenizer::train(["ab cd ef ".repeat(10)].into_iter()).expect("a tokenizer");
        let documentation = Documentation { train: vec!["ab cd ".repeat(50)], ..Documentation::default() };
        let texts = Texts { documentation: &documentation, held_out: "ab cd ef" };
        let file = |name: &str| folder.join(name);
        let card = || fs::read_to_string(file(CARD)).expect("a card");

        export(&trained, &tokenizer, texts, Device::Cpu, &folder).expect("exported");
        for (shipped, seed) in [(FINISHED, 2), (CONTROL, 3)] {
            write_weights(&run(shipped.id, seed).model, &folder, shipped).expect("written");
        }
        // By hand: something about how they were made, measures of other files, one fact instead of hundreds.
        let edited = card().replace("anew.", "anew, in an hour.");
        fs::write(file(CARD), format!("{edited}\n{}\n\nEarlier measures.", card::MEASURED)).expect("written");
        fs::write(file("facts.json"), r#"[{"prompt": "ab", "answer": " cd"}]"#).expect("written");
        measure(&folder, 150, Device::Cpu).expect("measured");
        let all = card();
        fs::remove_dir_all(&folder).expect("removed");

        assert!(edited.contains("an hour"), "{edited}");
        let measured = all.strip_prefix(&edited).expect("how they were made stays");
        assert!(measured.contains("\n| measure | `embedded` | `embedded:qat` | `embedded:control` |\n"), "{measured}");
        assert!(measured.contains("150 more steps") && !measured.contains("Earlier"), "{measured}");
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
