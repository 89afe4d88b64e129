//! Reference data from transformers, found on disk: `tests/golden`, or what `QUANTLAB_GOLDEN` names.

#![allow(dead_code, reason = "each test uses its part")]

pub mod copy;
pub mod fake;
pub mod place;

use std::path::{Path, PathBuf};

use candle_core::{DType, Device as CandleDevice, Tensor};
use place::Place;
use quantlab::model::{Architecture, Device, Loaded, load_model, load_model_and_tokenizer};
use serde_json::Value;

/// One checkpoint with what transformers computed from it.
pub struct Case {
    pub name: String,
    pub folder: PathBuf,
    tensors: std::collections::HashMap<String, Tensor>,
}

/// Whether the kernels compute products of bfloat16 in Intel's tiles, which add in another order than the vectors that
/// compute a few rows.
pub fn in_tiles() -> bool {
    quantlab_kernels::Isa::best().has_tiles_for_bf16()
}

/// Every checkpoint in full precision in the reference folder.
pub fn cases() -> Vec<Case> {
    checkpoints(|config| config["quantization_config"].is_null())
}

/// Every quantized checkpoint in the reference folder.
pub fn quantized_cases() -> Vec<Case> {
    checkpoints(|config| !config["quantization_config"].is_null())
}

/// The reference folder.
pub fn golden() -> PathBuf {
    std::env::var_os("QUANTLAB_GOLDEN").map_or_else(|| Path::new("tests/golden").to_owned(), PathBuf::from)
}

fn checkpoints(wanted: impl Fn(&Value) -> bool) -> Vec<Case> {
    let root = golden();
    let entries = std::fs::read_dir(&root).unwrap_or_else(|cause| panic!("{}: {cause}", root.display()));
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| config_of(path).is_some_and(|config| wanted(&config)))
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "no checkpoints in {}", root.display());
    folders.into_iter().map(Case::read).collect()
}

/// The GPT-2 checkpoints among them.
pub fn gpt2_cases() -> Vec<Case> {
    cases().into_iter().filter(|case| case.load().model.info().architecture == Architecture::Gpt2).collect()
}

fn config_of(folder: &Path) -> Option<Value> {
    let text = std::fs::read(folder.join("config.json")).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

impl Case {
    pub fn read(folder: PathBuf) -> Self {
        let tensors = candle_core::safetensors::load(folder.join("golden.safetensors"), &CandleDevice::Cpu).unwrap();
        Self { name: folder.file_name().unwrap().to_string_lossy().into_owned(), folder, tensors }
    }

    pub fn load(&self) -> Loaded {
        load(&self.folder, "float32")
    }

    /// The model in every engine, and on a GPU if there is one, with what to call it in messages.
    pub fn in_every_engine(&self) -> Vec<(String, Loaded)> {
        let load = |place: Place| {
            let loaded = load_model(&[self.folder.to_str().unwrap()], &place.options()).unwrap();
            (format!("{} by {place}", self.name), loaded)
        };
        Place::all().map(load).collect()
    }

    /// The tensors in the weights' files, by name.
    pub fn weights(&self) -> std::collections::HashMap<String, Tensor> {
        let files = std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        let is_weights = |file: &PathBuf| {
            let name = file.file_name().unwrap().to_string_lossy();
            name.starts_with("model") && name.ends_with(".safetensors")
        };
        let load = |file| candle_core::safetensors::load(file, &CandleDevice::Cpu).unwrap();
        files.filter(is_weights).flat_map(load).collect()
    }

    /// Numbers in the weights' files, each of which is a parameter.
    pub fn stored_parameters(&self) -> usize {
        self.weights().values().map(Tensor::elem_count).sum()
    }

    /// The rows of an integer tensor.
    pub fn ids(&self, name: &str) -> Vec<Vec<u32>> {
        self.tensors[name].to_dtype(DType::U32).unwrap().to_vec2().unwrap()
    }

    /// A single row of integers.
    pub fn row(&self, name: &str) -> Vec<u32> {
        self.tensors[name].to_dtype(DType::U32).unwrap().to_vec1().unwrap()
    }

    /// The rows of a mask.
    pub fn mask(&self, name: &str) -> Vec<Vec<bool>> {
        self.ids(name).into_iter().map(|row| row.into_iter().map(|bit| bit != 0).collect()).collect()
    }

    /// All values of a floating-point tensor.
    pub fn values(&self, name: &str) -> Vec<f32> {
        self.tensors[name].to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }
}

pub fn load(folder: &Path, precision: &str) -> Loaded {
    load_model_and_tokenizer(&[folder.to_str().unwrap()], precision, Device::Cpu).unwrap()
}

/// The folder of the checkpoint that always is there.
pub fn tiny() -> &'static Path {
    Path::new("tests/golden/gpt2-tiny")
}

/// The largest distance between two lists of numbers.
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
