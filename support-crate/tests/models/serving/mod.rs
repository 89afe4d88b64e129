//! Requests that share steps: the tokens of each alone, whatever the scheduler does and however often it begins anew.

mod any_plan;
mod caches;
mod server;

use crate::common::copy::Copy;
use quantlab::generate::GenerateOptions;
use quantlab::model::{CacheFormat, LoadOptions, Loaded, load_model};
use quantlab::serve::Request;

const FORMATS: [CacheFormat; 4] = [CacheFormat::Float32, CacheFormat::Float16, CacheFormat::Int8, CacheFormat::Int4];

fn embedded() -> Loaded {
    load_model(&["embedded"], &LoadOptions::default()).unwrap()
}

/// GPT-2; a Llama with heads in groups; windows; soft caps and norms after each part; parts beside each other; layers
/// without positions.
const MODELS: [&str; 6] = [
    "embedded",
    "tests/golden/llama-tiny",
    "tests/golden/mistral-tiny",
    "tests/models/families/golden/gemma2-window",
    "tests/models/families/golden/stablelm-parallel",
    "tests/models/families/golden/smollm3",
];

/// One of them, with a context of 512 tokens.
fn model(name: &str) -> Loaded {
    if name == "embedded" {
        return embedded();
    }
    let files = std::fs::read_dir(name).unwrap().map(|entry| entry.unwrap().path());
    let copy = Copy::of_files(&files.filter(|path| path.is_file()).collect::<Vec<_>>());
    copy.change_config(|config| config["max_position_embeddings"] = 512.into());
    copy.load().unwrap()
}

fn request(prompt: Vec<u32>, max_new_tokens: usize) -> Request {
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    Request { prompt, options }
}
