//! Well-known shapes with random weights: for measuring speed where nothing can be downloaded.
//!
//! Speed does not depend on the values of the weights, so these take as long as the real models. Random weights
//! have no tokenizer of their own; one with a token per byte stands in for it (256 bytes and the token that ends
//! a text), so most ids of the vocabulary have no text. Look at what such a model generates as ids.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{ModelFile, ModelFiles, RandomShape, WeightSource};

/// The seed of every `random:` model, so that two runs can be compared.
const SEED: u64 = 124;

pub(super) fn files(shape: RandomShape) -> ModelFiles {
    let (config, end_of_text) = config(shape);
    let tokenizer = byte_tokenizer(end_of_text, &config["eos_token_id"]);
    let made = |name, value: &Value| ModelFile::Bytes { name, bytes: Cow::Owned(value.to_string().into_bytes()) };
    ModelFiles {
        config: made("config.json of the random model", &config),
        tokenizer: made("tokenizer.json of the random model", &tokenizer),
        weights: WeightSource::Random { seed: SEED },
        others: Vec::new(),
    }
}

/// The published config, and the token that ends a text.
fn config(shape: RandomShape) -> (Value, &'static str) {
    match shape {
        RandomShape::Gpt2 => (gpt2(12, 12, 768), "<|endoftext|>"),
        RandomShape::Gpt2Medium => (gpt2(24, 16, 1024), "<|endoftext|>"),
        RandomShape::Gpt2Large => (gpt2(36, 20, 1280), "<|endoftext|>"),
        RandomShape::Smollm2 => {
            // Its own end of a text, 2, is a byte for the tokenizer that stands in: the last id takes its place.
            let config = json!({
                "model_type": "llama", "torch_dtype": "bfloat16", "vocab_size": 49_152,
                "max_position_embeddings": 8192, "hidden_size": 576, "intermediate_size": 1536,
                "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
                "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e5,
                "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": true,
                "bos_token_id": 1, "eos_token_id": 49_151,
            });
            (config, "<|im_end|>")
        }
        RandomShape::Qwen25Half => {
            let config = json!({
                "model_type": "qwen2", "torch_dtype": "bfloat16", "vocab_size": 151_936,
                "max_position_embeddings": 32_768, "hidden_size": 896, "intermediate_size": 4864,
                "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
                "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
                "use_sliding_window": false, "sliding_window": 32_768, "max_window_layers": 24,
                "tie_word_embeddings": true, "bos_token_id": 151_643, "eos_token_id": 151_643,
            });
            (config, "<|endoftext|>")
        }
        RandomShape::Llama32One => {
            let rope_scaling = json!({
                "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            });
            let config = json!({
                "model_type": "llama", "torch_dtype": "bfloat16", "vocab_size": 128_256,
                "max_position_embeddings": 131_072, "hidden_size": 2048, "intermediate_size": 8192,
                "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
                "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 5e5, "rope_scaling": rope_scaling,
                "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": true,
                "bos_token_id": 128_000, "eos_token_id": 128_001,
            });
            (config, "<|end_of_text|>")
        }
    }
}

fn gpt2(n_layer: usize, n_head: usize, n_embd: usize) -> Value {
    json!({
        "model_type": "gpt2", "vocab_size": 50_257, "n_positions": 1024,
        "n_embd": n_embd, "n_layer": n_layer, "n_head": n_head, "n_inner": null,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "eos_token_id": 50_256,
    })
}

/// A byte-level BPE without merges: every byte is a token.
fn byte_tokenizer(end_of_text: &str, end_of_text_id: &Value) -> Value {
    let mut vocab: Map<String, Value> =
        byte_alphabet().enumerate().map(|(id, symbol)| (symbol.to_string(), json!(id))).collect();
    vocab.insert(end_of_text.to_owned(), end_of_text_id.clone());
    // GPT-2's division into words, which changes nothing where each byte is a token, has a name in GGUF files.
    let byte_level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [{
            "id": end_of_text_id, "content": end_of_text, "special": true,
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
        for shape in RandomShape::ALL {
            let tokenizer = tokenizers::Tokenizer::from_bytes(files(shape).tokenizer.read().unwrap()).unwrap();
            let text = "caf\u{e9} \n\t~\u{1F600}";
            let ids = tokenizer.encode(text, true).unwrap().get_ids().to_vec();
            assert_eq!(ids, text.bytes().map(u32::from).collect::<Vec<_>>());
            assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
            let (config, end_of_text) = config(shape);
            assert_eq!(tokenizer.token_to_id(end_of_text).map(Value::from), Some(config["eos_token_id"].clone()));
        }
    }
}
