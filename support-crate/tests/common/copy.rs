//! Copies of a checkpoint, to be changed.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{Device as CandleDevice, Tensor};
use quantlab::error::Error;
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, TokenBatch, load_model};
use serde_json::Value;
use tempfile::TempDir;

pub const CONFIG: &str = "config.json";
pub const TOKENIZER: &str = "tokenizer.json";
pub const WEIGHTS: &str = "model.safetensors";
pub const INDEX: &str = "model.safetensors.index.json";

/// A folder with a checkpoint of a test's own.
pub struct Copy(TempDir);

impl Copy {
    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn of(checkpoint: &Path) -> Self {
        Self::of_files(&[CONFIG, TOKENIZER, WEIGHTS].map(|name| checkpoint.join(name)))
    }

    pub fn of_files(files: &[PathBuf]) -> Self {
        let copy = Self::empty();
        for file in files {
            fs::copy(file, copy.path(file.file_name().unwrap().to_str().unwrap())).unwrap();
        }
        copy
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn load(&self) -> Result<Loaded, Error> {
        self.load_with(&LoadOptions::default())
    }

    pub fn load_in(&self, engine: Engine) -> Result<Loaded, Error> {
        self.load_with(&LoadOptions { engine: Some(engine), ..LoadOptions::default() })
    }

    pub fn load_with(&self, options: &LoadOptions) -> Result<Loaded, Error> {
        load_model(&[self.0.path().to_str().unwrap()], options)
    }

    pub fn change_json(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap();
        change(&mut value);
        fs::write(self.path(name), value.to_string()).unwrap();
    }

    pub fn change_config(&self, change: impl FnOnce(&mut Value)) {
        self.change_json(CONFIG, change);
    }

    /// Rewrites the header of the weights; the data stays.
    pub fn change_header(&self, change: impl FnOnce(&mut Value)) {
        let bytes = fs::read(self.path(WEIGHTS)).unwrap();
        let (mut header, data) = header_and_data(&bytes);
        change(&mut header);
        self.write_weights(&with_header(&header.to_string(), data));
    }

    /// Rewrites the weights as tensors by name.
    pub fn change_tensors(&self, change: impl FnOnce(&mut Tensors)) {
        let file = self.path(WEIGHTS);
        let mut tensors = candle_core::safetensors::load(&file, &CandleDevice::Cpu).unwrap();
        change(&mut tensors);
        let changed = self.path("changed");
        candle_core::safetensors::save(&tensors, &changed).unwrap();
        fs::rename(changed, file).unwrap();
    }

    /// Replaces the weights by others. A model may have the old file mapped: it is not written to.
    pub fn write_weights(&self, bytes: &[u8]) {
        fs::write(self.path("changed"), bytes).unwrap();
        fs::rename(self.path("changed"), self.path(WEIGHTS)).unwrap();
    }
}

pub type Tensors = std::collections::HashMap<String, Tensor>;

/// A tensor whose elements are all `value`.
pub fn filled(shape: &[usize], value: f32) -> Tensor {
    Tensor::full(value, shape, &CandleDevice::Cpu).unwrap()
}

/// The two parts of a safetensors file, without the header's length.
pub fn header_and_data(file: &[u8]) -> (Value, &[u8]) {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&file[8..8 + length]).unwrap(), &file[8 + length..])
}

/// A file of such parts.
pub fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Logits after a few tokens.
pub fn logits(loaded: &Loaded) -> Vec<f32> {
    let tokens = TokenBatch::single(&[5, 42, 7, 1, 99]).unwrap();
    loaded.model.forward(&tokens, None, LogitPositions::Last).unwrap().row(0, 0).to_vec()
}

/// The result is an error whose message has these parts.
#[track_caller]
pub fn expect(result: &Result<Loaded, Error>, parts: &[&str]) {
    let message = result.as_ref().expect_err("an error").to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}
