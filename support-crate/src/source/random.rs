//! Well-known shapes with random weights: for measuring speed where nothing can be downloaded.
//!
//! Speed does not depend on what the weights say, so these time like the real models. There is no
//! tokenizer that belongs to random weights: one token per byte stands in for it (256 bytes and
//! `<|endoftext|>`), which leaves most of the 50,257 ids without a text.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{ModelFile, ModelFiles, RandomShape, WeightSource};

/// The seed of every `random:` model, so that two runs compare.
const SEED: u64 = 124;
const END_OF_TEXT: &str = "<|endoftext|>";
const END_OF_TEXT_ID: u32 = 50_256;

pub(super) fn files(shape: RandomShape) -> ModelFiles {
    let made = |name, value: &Value| ModelFile::Bytes { name, bytes: Cow::Owned(value.to_string().into_bytes()) };
    ModelFiles {
        config: made("config.json of the random model", &config(shape)),
        tokenizer: made("tokenizer.json of the random model", &byte_tokenizer()),
        weights: WeightSource::Random { seed: SEED },
        others: Vec::new(),
    }
}

fn config(shape: RandomShape) -> Value {
    let (n_layer, n_head, n_embd) = match shape {
        RandomShape::Gpt2 => (12, 12, 768),
        RandomShape::Gpt2Medium => (24, 16, 1024),
        RandomShape::Gpt2Large => (36, 20, 1280),
    };
    json!({
        "model_type": "gpt2", "vocab_size": END_OF_TEXT_ID + 1, "n_positions": 1024,
        "n_embd": n_embd, "n_layer": n_layer, "n_head": n_head, "n_inner": null,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "eos_token_id": END_OF_TEXT_ID,
    })
}

/// A byte-level BPE without merges: every byte is a token.
fn byte_tokenizer() -> Value {
    let mut vocab: Map<String, Value> =
        byte_alphabet().enumerate().map(|(id, symbol)| (symbol.to_string(), json!(id))).collect();
    vocab.insert(END_OF_TEXT.to_owned(), json!(END_OF_TEXT_ID));
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [{
            "id": END_OF_TEXT_ID, "content": END_OF_TEXT, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        }],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": { "type": "BPE", "vocab": vocab, "merges": [] },
    })
}

/// The printable symbol that byte-level BPE writes for each byte, in the order of the bytes: itself if
/// printable, else the next free one from U+0100 on.
///
/// Source: `bytes_to_unicode` in openai/gpt-2 `src/encoder.py`.
fn byte_alphabet() -> impl Iterator<Item = char> {
    let mut spare = (0x100_u32..).filter_map(char::from_u32);
    (0..=255_u8).filter_map(move |byte| match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => Some(char::from(byte)),
        _ => spare.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_token_and_comes_back() {
        let tokenizer = tokenizers::Tokenizer::from_bytes(byte_tokenizer().to_string()).unwrap();
        let text = "caf\u{e9} \n\t~\u{1F600}";
        let ids = tokenizer.encode(text, true).unwrap().get_ids().to_vec();
        assert_eq!(ids, text.bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
        assert_eq!(tokenizer.token_to_id(END_OF_TEXT), Some(END_OF_TEXT_ID));
    }
}
