//! The tokenizer: byte-level BPE as GPT-2 has it, with a vocabulary of 4,096.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

/// The number of tokens: the bytes, the merges and one special token.
pub const VOCABULARY: usize = 4096;
/// Stands between documents.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// Learns the vocabulary from texts.
pub fn train(texts: impl Iterator<Item = String> + Send) -> Result<Tokenizer> {
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer
        .with_pre_tokenizer(Some(ByteLevel::new(false, true, true)))
        .with_decoder(Some(ByteLevel::new(false, true, true)))
        .with_post_processor(Some(ByteLevel::new(false, false, true)));
    let trainer = BpeTrainer::builder()
        .vocab_size(VOCABULARY)
        .min_frequency(2)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(vec![AddedToken::from(END_OF_TEXT, true)])
        .show_progress(false)
        .build();
    tokenizer
        .train(&mut TrainerWrapper::BpeTrainer(trainer), texts)
        .map_err(|error| anyhow!("cannot train the tokenizer: {error}"))?;
    Ok(tokenizer)
}

/// Reads a tokenizer from its file.
pub fn load(path: &Path) -> Result<Tokenizer> {
    Tokenizer::from_file(path)
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("cannot read the tokenizer {}", path.display()))
}

/// Writes a tokenizer to its file.
pub fn save(tokenizer: &Tokenizer, path: &Path) -> Result<()> {
    tokenizer
        .save(path, false)
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("cannot write the tokenizer {}", path.display()))
}

/// The token that stands between documents.
pub fn end_of_text(tokenizer: &Tokenizer) -> Result<u32> {
    let id = tokenizer.token_to_id(END_OF_TEXT);
    id.with_context(|| format!("the tokenizer has no {END_OF_TEXT}"))
}

/// Turns text into tokens, without special ones.
pub fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>> {
    let encoding = tokenizer.encode_fast(text, false);
    let encoding = encoding.map_err(|error| anyhow!("cannot tokenize: {error}"))?;
    Ok(encoding.get_ids().to_vec())
}

/// Turns tokens back into text.
pub fn decode(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<String> {
    let text = tokenizer.decode(tokens, true);
    text.map_err(|error| anyhow!("cannot decode tokens: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_survives_the_round_trip() {
        let texts = ["Once upon a time, in a land far away.", "fn main() {}"];
        let tokenizer = train(texts.iter().map(|text| text.repeat(20))).expect("a tokenizer");
        for text in ["Once upon", " a  land\n\n\tfar", "na\u{ef}ve \u{1f980}", ""] {
            let tokens = encode(&tokenizer, text).expect("tokens");
            assert_eq!(decode(&tokenizer, &tokens).expect("text"), text);
        }
        assert!(end_of_text(&tokenizer).is_ok());
        let words = encode(&tokenizer, " time").expect("tokens");
        assert_eq!(words.len(), 1, "a frequent word is one token");
    }
}
