//! Model id to files: the Hub, a folder, a GGUF file, the package registry's model, the embedded models, random weights.
//!
//! Config, tokenizer and weights of a model always come from the same place, so that they fit each
//! other. Only safetensors and GGUF files are read: a pickle can run code when it is opened.

mod embedded;
mod folder;
mod gguf;
mod hub;
mod id;
mod open;
mod random;
mod registry;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

use crate::error::{Context, Result};

pub use embedded::held_out_text;
pub(crate) use folder::{CONFIG, TOKENIZER, WEIGHTS, WEIGHTS_INDEX};
pub(crate) use gguf::{
    ALIGNMENT, DIVISORS, FAMILIES, NO_ROPE_INTERVAL, TensorPlan, gemma_scalar, has_window, header, vocabulary,
    window_period,
};
pub use gguf::{GgmlType, Gguf, GgufTensor, GgufValue};
pub use id::{ModelId, RandomShape};
pub(crate) use open::{check_is_content, check_name, map};

/// One file of a model: on disk, or inside this library.
#[derive(Clone)]
pub enum ModelFile {
    /// A file on disk.
    Path(PathBuf),
    /// Bytes that ship with the library, or that it made.
    Bytes {
        /// Its name in messages, for example `embedded/config.json`.
        name: &'static str,
        /// Its content.
        bytes: Cow<'static, [u8]>,
    },
}

/// The most bytes of a config or an index, which as JSON take ten times the memory, and of any other file that is read
/// whole: many times what the largest models have. A larger file is something else.
const LONGEST_CONFIG: u64 = 16 << 20;
const LONGEST: u64 = 512 << 20;

/// Everything that makes up a model.
#[derive(Debug, Clone)]
pub struct ModelFiles {
    /// `config.json`, as Hugging Face writes it.
    pub config: ModelFile,
    /// `tokenizer.json`, as the `tokenizers` library writes it.
    pub tokenizer: ModelFile,
    /// Where the weights are.
    pub weights: WeightSource,
    /// The files of [`OTHERS`] that are there, by name; a saved copy of the model has them, too.
    pub others: Vec<(&'static str, ModelFile)>,
}

/// A model's other files: what ends a text, how to chat, and what only other programs read.
pub const OTHERS: [&str; 4] =
    ["generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"];

/// Where a model's weights are.
#[derive(Debug, Clone)]
pub enum WeightSource {
    /// Safetensors files: one, or several shards.
    Safetensors(Vec<ModelFile>),
    /// A GGUF file.
    Gguf(ModelFile),
    /// Made on the spot, the same for the same seed.
    Random {
        /// Seed of the generator.
        seed: u64,
    },
}

impl ModelId {
    /// Finds the model's files; downloads them if they are on the Hub and not yet in its cache.
    ///
    /// The download of a large file, or of one that is slow, reports its progress on stdout. If it was interrupted, in
    /// whatever way, the next call resumes it where it stopped. A file is kept if it has the hash that the Hub lists.
    ///
    /// # Errors
    /// A folder or repository that is not there, lacks a file, or cannot be read or reached.
    pub fn resolve(&self) -> Result<ModelFiles> {
        match self {
            Self::Embedded => Ok(embedded::plain()),
            Self::EmbeddedQat => Ok(embedded::qat()),
            Self::EmbeddedControl => Ok(embedded::control()),
            Self::Random(shape) => Ok(random::files(*shape)),
            Self::Folder(path) => folder::files(path),
            Self::Gguf(path) => gguf::files(path),
            Self::Smollm2 | Self::Smollm2Float32 => gguf::files(&registry::smollm2()?),
            Self::HubGguf { repo, revision, file } => gguf::files(&hub::gguf_file(repo, revision.as_deref(), file)?),
            Self::Hub { repo, revision } => hub::files(repo, revision.as_deref()),
        }
    }
}

impl ModelFiles {
    /// One of [`others`](Self::others), if it is there.
    pub(crate) fn other(&self, name: &str) -> Option<&ModelFile> {
        self.others.iter().find(|(other, _)| *other == name).map(|(_, file)| file)
    }

    /// `tokenizer_config.json`; null without one.
    ///
    /// # Errors
    /// A file that cannot be read or is not JSON.
    pub(crate) fn tokenizer_config(&self) -> Result<Value> {
        match self.other("tokenizer_config.json") {
            Some(config) => serde_json::from_slice(&config.read_config()?).context(|| config.to_string()),
            None => Ok(Value::Null),
        }
    }

    /// The chat template, from a file of its own or from `tokenizer_config.json`, which may have several by name.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn chat_template(&self, tokenizer_config: &Value) -> Result<Option<String>> {
        if let Some(template) = self.other("chat_template.jinja") {
            return Ok(Some(String::from_utf8_lossy(&template.read_config()?).into_owned()));
        }
        let template = &tokenizer_config["chat_template"];
        let named = template.as_array().map_or(&[][..], Vec::as_slice);
        let default = named.iter().find(|named| named["name"] == "default").or(named.first());
        Ok(default.map_or(template, |named| &named["template"]).as_str().map(str::to_owned))
    }
}

impl ModelFile {
    /// Bytes compiled into the library.
    pub fn embedded(name: &'static str, bytes: &'static [u8]) -> Self {
        Self::Bytes { name, bytes: Cow::Borrowed(bytes) }
    }

    /// Reads the whole file, which is not meant for weights.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file or has more than 512 MiB; the message names it.
    pub fn read(&self) -> Result<Cow<'_, [u8]>> {
        self.read_up_to(LONGEST)
    }

    /// Reads a `config.json`, or another file of settings, of at most 16 MiB.
    pub(crate) fn read_config(&self) -> Result<Cow<'_, [u8]>> {
        self.read_up_to(LONGEST_CONFIG)
    }

    fn read_up_to(&self, limit: u64) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::Path(path) => Ok(Cow::Owned(open::read(path, limit)?)),
            Self::Bytes { bytes, .. } => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// A special token of a `tokenizer_config.json`: its text, or an object that has it.
pub(crate) fn special_token(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

/// The file's name as messages show it.
impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Bytes { name, .. } => f.write_str(name),
        }
    }
}

impl fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
