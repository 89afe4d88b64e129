//! Text to token ids and back.

mod growth;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{self, Context, Error, Result};
use crate::source::{ModelFile, special_token};

/// The tokenizer that belongs to a model.
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The token with the highest id, marks that were added to the vocabulary apart.
    highest: (u32, String),
    size: usize,
    /// Notified of each use, if there is one.
    observer: Option<Observer>,
}

/// What a tokenizer is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenizerUse {
    /// Text to ids.
    Encode,
    /// Ids to text.
    Decode,
}

type Observer = Arc<dyn Fn(TokenizerUse) + Send + Sync>;

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that cannot be read or is not a tokenizer; one without a single token, or that can make texts many times as
    /// long.
    pub fn read(file: &ModelFile) -> Result<Self> {
        let mut inner = parse(&file.read()?).context(|| format!("{file} is not a tokenizer"))?;
        // Truncating and padding are up to the caller here, not to the file.
        inner.with_truncation(None)?;
        inner.with_padding(None);
        let size = inner.get_vocab_size(true);
        let highest = |with_added| inner.get_vocab(with_added).into_iter().map(|(token, id)| (id, token)).max();
        let highest = highest(false)
            .or_else(|| highest(true))
            .ok_or_else(|| Error::format(format!("{file} is a tokenizer without tokens")))?;
        Ok(Self { inner, highest, size, observer: None })
    }

    /// This tokenizer, telling `observer` too of each use: what an exercise's check learns about an answer.
    pub fn observed(mut self, observer: impl Fn(TokenizerUse) + Send + Sync + 'static) -> Self {
        let before = self.observer.take();
        self.observer = Some(Arc::new(move |what| {
            if let Some(before) = &before {
                before(what);
            }
            observer(what);
        }));
        self
    }

    fn observe(&self, what: TokenizerUse) {
        if let Some(observer) = &self.observer {
            observer(what);
        }
    }

    /// The ids of a text's tokens.
    ///
    /// # Errors
    /// The tokenizer cannot represent the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.encoding(text, true)?.get_ids().to_vec())
    }

    /// The ids, and how many bytes of the text the first token stands for.
    pub(crate) fn encode_with_first_len(&self, text: &str) -> Result<(Vec<u32>, usize)> {
        let encoding = self.encoding(text, true)?;
        let first_len = encoding.get_offsets().first().map_or(0, |&(_, end)| end);
        Ok((encoding.get_ids().to_vec(), first_len))
    }

    /// As [`encode`](Self::encode), without tokens that begin or end each text: what a chat template wrote has its own.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub(crate) fn encode_as_it_is(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.encoding(text, false)?.get_ids().to_vec())
    }

    fn encoding(&self, text: &str, add_special_tokens: bool) -> Result<tokenizers::Encoding> {
        self.observe(TokenizerUse::Encode);
        guarded(|| self.inner.encode(text, add_special_tokens)).context(|| "cannot tokenize the text")
    }

    /// The text of token ids, without special tokens. Ids that the tokenizer does not know have no
    /// text.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.observe(TokenizerUse::Decode);
        guarded(|| self.inner.decode(ids, true)).context(|| "cannot turn the tokens into text")
    }

    /// How many different tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.size
    }

    /// The id of a token, if there is such a token.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Which tokens `tokenizer_config.json` wants at the ends of each text that `tokenizer.json`, which is what is followed
    /// here, does not put there, in words.
    pub(super) fn missing_ends(&self, config: &Value) -> Vec<String> {
        let is_wanted = |key: &str| config[key] == true;
        if !is_wanted("add_bos_token") && !is_wanted("add_eos_token") {
            return Vec::new();
        }
        let of_nothing = guarded(|| self.inner.encode("", true)).map(|encoding| encoding.get_ids().to_vec());
        let ids = of_nothing.unwrap_or_default();
        let ends =
            [("add_bos_token", "bos_token", "begin", ids.first()), ("add_eos_token", "eos_token", "end", ids.last())];
        let missing = ends.into_iter().filter_map(|(key, token, verb, found)| {
            let token = special_token(&config[token]).filter(|_| is_wanted(key))?;
            let is_there = found.is_some() && found.copied() == self.inner.token_to_id(token);
            (!is_there).then(|| format!("texts do not {verb} with {token}, as `{key}` of tokenizer_config.json wants"))
        });
        missing.collect()
    }

    /// Makes sure that the model has a row for every token. One mark that was added to the vocabulary may have none, as
    /// Gemma 3's for images, which its small models do not know; a text with it is an error of the model's.
    pub(super) fn check_fits(&self, file: &str, model_vocab_size: usize) -> Result<()> {
        let lacks_row = |id: u32| id as usize >= model_vocab_size;
        let added = self.inner.get_added_tokens_decoder().into_iter().filter(|&(id, _)| lacks_row(id));
        let added: Vec<_> = added.map(|(id, token)| (id, token.content)).collect();
        let of_vocabulary = Some(&self.highest).filter(|(id, _)| lacks_row(*id));
        if let Some((id, token)) = of_vocabulary.or_else(|| added.iter().max().filter(|_| added.len() > 1)) {
            return Err(Error::format(format!(
                "{file} does not match the weights: token {token:?} has id {id}, but the model's vocabulary has \
                 {model_vocab_size} tokens"
            ))
            .hint("use the tokenizer and the weights of the same model"));
        }
        Ok(())
    }
}

fn parse(json: &[u8]) -> Result<tokenizers::Tokenizer> {
    // The library panics on some files, among them one that is cut short in the middle, which is no JSON.
    growth::check(json)?;
    guarded(|| tokenizers::Tokenizer::from_bytes(json))
}

/// Runs the tokenizers library, which panics on some files and, with the settings of others, on some texts.
fn guarded<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    // All that a panic can leave behind in a tokenizer is its caches, which are guarded by locks.
    let result = error::guarded("tokenizers", work)
        .map_err(|error| error.hint("tokenizer.json may be damaged; download or copy it again"))?;
    result.map_err(|cause| Error::format(cause.to_string()))
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer {{ vocab_size: {} }}", self.size)
    }
}
