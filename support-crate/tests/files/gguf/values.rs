//! What a file says, and what it leaves out, as the model has it.

use std::collections::HashMap;
use std::fs;

use candle_core::{Device as CandleDevice, Tensor};
use quantlab::model::{LoadOptions, Loaded, LogitPositions, Positions, TokenBatch};

use super::writer::{Case, END, F32, KEYS, QUERIES, SAY, TOKENS, TYPES, Writer, floats, llama, load_bytes, qwen2};
use crate::common::copy::{CONFIG, TOKENIZER, WEIGHTS};

fn logits(loaded: &Loaded) -> Vec<f32> {
    let tokens = TokenBatch::single(&[7, 3, 12, 0]).unwrap();
    loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec()
}

fn frequencies(file: &Writer) -> Vec<f32> {
    match file.config().unwrap().positions {
        Positions::Rotary { mut rotations } => rotations.remove(0).frequencies,
        Positions::Learned => panic!("learned positions"),
    }
}

#[test]
fn settings_that_change_nothing() {
    let cases: &[Case] = &[
        ("one part of one", |file| file.set("split.count", 1_u16)),
        ("no experts", |file| file.set("llama.expert_count", 0_u32)),
        ("a window over all of the context", |file| file.set("llama.attention.sliding_window", 64_u32)),
        ("attention to what came before", |file| file.set("llama.attention.causal", true)),
        ("the width of a head", |file| file.set("llama.attention.key_length", 16_u32)),
        ("all of a head turns", |file| file.set("llama.rope.dimension_count", 16_u32)),
        ("the default base", |file| file.remove("llama.rope.freq_base")),
        ("a base that is a whole number", |file| file.set("llama.rope.freq_base", 10_000_u32)),
        ("a base in double precision", |file| file.set("llama.rope.freq_base", 1e4_f64)),
        ("sizes in 8 bits", |file| file.set("llama.context_length", 64_u8)),
        ("sizes in 64 bits", |file| file.set("llama.context_length", 64_u64)),
        ("sizes with a sign", |file| file.set("llama.attention.head_count_kv", 1_i64)),
        ("no last token", |file| file.set("tokenizer.ggml.add_eos_token", false)),
        ("keys that nobody knows", |file| file.set("llama.no_such_key", vec!["a", "b"])),
    ];
    let plain = llama().config().unwrap();
    for (name, change) in cases {
        let mut file = llama();
        change(&mut file);
        assert_eq!(file.config().unwrap(), plain, "{name}");
        file.load().unwrap();
    }
}

#[test]
fn heads_of_keys_are_as_many_as_heads_if_nothing_is_said() {
    let mut file = llama();
    file.remove("llama.attention.head_count_kv");
    let config = file.config().unwrap();
    assert_eq!((config.n_head, config.n_kv_head, config.head_dim), (2, 2, 16));
}

#[test]
fn a_base_and_a_factor_of_rotary_angles() {
    let plain = frequencies(&llama());
    assert!((plain[1] - 10_000_f32.powf(-2.0 / 16.0)).abs() < 1e-6, "{plain:?}");
    let mut file = llama();
    file.set("llama.rope.freq_base", 500_000.0_f32);
    assert!((frequencies(&file)[1] - 500_000_f32.powf(-2.0 / 16.0)).abs() < 1e-6);
    let (kind, factor, older) = ("llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.rope.scale_linear");
    for (said, kind_said, factor_said, older_said) in [
        (4.0, Some("linear"), Some(4.0_f32), None),
        (4.0, None, Some(4.0), None),
        (4.0, None, None, Some(4.0)),
        (4.0, Some("linear"), None, Some(4.0)),
        (4.0, None, Some(4.0), Some(2.0)),
        (0.5, None, Some(0.5), None),
        (1.0, Some("linear"), None, None),
        (1.0, None, Some(1.0), Some(2.0)),
        (1.0, None, Some(0.0), None),
        (1.0, Some("none"), Some(4.0), None),
        (1.0, Some("none"), None, None),
    ] {
        let mut file = llama();
        kind_said.into_iter().for_each(|said| file.set(kind, said));
        factor_said.into_iter().for_each(|said| file.set(factor, said));
        older_said.into_iter().for_each(|said| file.set(older, said));
        let expected: Vec<f32> = plain.iter().map(|frequency| frequency / said).collect();
        assert_eq!(frequencies(&file), expected, "{kind_said:?} {factor_said:?} {older_said:?}");
        file.load().unwrap();
    }
}

#[test]
fn tokens_that_end_a_text() {
    for (eos, eot, expected) in [
        (Some(END), None, vec![END]),
        (Some(END), Some(SAY), vec![END, SAY]),
        (Some(END), Some(END), vec![END]),
        (None, Some(SAY), vec![SAY]),
        (None, None, vec![]),
    ] {
        let mut file = llama();
        file.remove("tokenizer.ggml.eos_token_id");
        eos.into_iter().for_each(|id| file.set("tokenizer.ggml.eos_token_id", id));
        eot.into_iter().for_each(|id| file.set("tokenizer.ggml.eot_token_id", id));
        assert_eq!(file.load().unwrap().model.info().eos_token_ids, expected);
    }
}

#[test]
fn the_token_that_begins_a_text() {
    for (pre, said, is_added) in [
        ("llama-bpe", None, true),
        ("llama-bpe", Some(true), true),
        ("llama-bpe", Some(false), false),
        ("gpt-2", None, false),
        ("gpt-2", Some(true), true),
        ("smollm", None, false),
        ("qwen2", None, false),
        ("qwen2", Some(true), true),
    ] {
        let mut file = llama();
        file.set("tokenizer.ggml.pre", pre);
        said.into_iter().for_each(|said: bool| file.set("tokenizer.ggml.add_bos_token", said));
        let tokenizer = file.load().unwrap().tokenizer;
        let expected = if is_added { vec![END, 9, 10] } else { vec![9, 10] };
        assert_eq!(tokenizer.encode("abcd a").unwrap(), expected, "{pre} {said:?}");
        assert_eq!(tokenizer.decode(&expected).unwrap(), "abcd a", "{pre} {said:?}");
    }
}

#[test]
fn words_are_cut_as_the_pre_tokenizer_does() {
    let (one, two) = (vec![11], vec![4, 5]);
    for (pre, digits) in [
        ("gpt-2", &one),
        ("smollm", &two),
        ("qwen2", &two),
        ("llama-bpe", &one),
        ("smaug-bpe", &one),
        ("dbrx", &one),
        ("gpt-4o", &one),
    ] {
        let mut file = llama();
        file.set("tokenizer.ggml.pre", pre);
        file.set("tokenizer.ggml.add_bos_token", false);
        assert_eq!(file.load().unwrap().tokenizer.encode("12").unwrap(), *digits, "{pre}");
    }
    // Of gpt-4o, a capital letter after a small one begins a word.
    for (pre, ids) in [("smaug-bpe", vec![9]), ("gpt-4o", vec![7, 8])] {
        let mut file = llama();
        let mut tokens = TOKENS;
        (tokens[2], tokens[8], tokens[9]) = ("C", "Cd", "abCd");
        file.set("tokenizer.ggml.pre", pre);
        file.set("tokenizer.ggml.tokens", tokens.to_vec());
        file.set("tokenizer.ggml.merges", vec!["a b", "C d", "ab Cd"]);
        assert_eq!(file.load().unwrap().tokenizer.encode("abCd").unwrap(), ids, "{pre}");
    }
    // Of llama-bpe, a word that is a token is that token, whether or not merges lead to it.
    for (pre, ids) in [("gpt-2", vec![7, 8]), ("llama-bpe", vec![9])] {
        let mut file = llama();
        file.set("tokenizer.ggml.pre", pre);
        file.set("tokenizer.ggml.add_bos_token", false);
        file.set("tokenizer.ggml.merges", vec!["a b", "c d"]);
        assert_eq!(file.load().unwrap().tokenizer.encode("abcd").unwrap(), ids, "{pre}");
    }
}

#[test]
fn tokens_that_are_no_parts_of_words() {
    let tokenizer = llama().load().unwrap().tokenizer;
    let ids = [7, END, 8, SAY];
    assert_eq!(tokenizer.encode("ab<|end|>cd<|say|>").unwrap(), ids);
    assert_eq!(tokenizer.decode(&ids).unwrap(), "abcd<|say|>");
    // One that only fills the vocabulary up to the rows of the embedding is left out.
    assert_eq!((tokenizer.token_to_id("[PAD15]"), tokenizer.vocab_size()), (None, 15));
    assert_eq!(tokenizer.decode(&[15]).unwrap(), "");
    // One of another type, or another name, is a token.
    for (name, kind) in [("[PAD15]", 1), ("[PAD14]", 5), ("<unused>", 5)] {
        let mut file = llama();
        let tokens = [&TOKENS[..15], &[name]].concat();
        file.set("tokenizer.ggml.tokens", tokens);
        file.set("tokenizer.ggml.token_type", [&TYPES[..15], &[kind]].concat());
        assert_eq!(file.load().unwrap().tokenizer.token_to_id(name), Some(15), "{name} of type {kind}");
    }
}

#[test]
fn a_head_of_its_own_or_the_embedding() {
    let mut file = llama();
    assert!(!file.config().unwrap().tie_word_embeddings);
    file.drop_tensor("output.weight");
    assert!(file.config().unwrap().tie_word_embeddings);
    let loaded = file.load().unwrap();
    assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
    assert_ne!(logits(&loaded), logits(&llama().load().unwrap()));
}

#[test]
fn a_file_of_another_version_or_alignment_is_the_same_model() {
    let expected = logits(&llama().load().unwrap());
    assert!(expected.iter().all(|logit| logit.is_finite()), "{expected:?}");
    let mut bytes = llama().bytes();
    bytes[4] = 2;
    assert_eq!(logits(&load_bytes(&bytes).unwrap()), expected);
    for alignment in [1, 2, 8, 64, 4096] {
        let mut file = llama();
        file.align(alignment);
        assert_eq!(logits(&file.load().unwrap()), expected, "{alignment}");
    }
}

/// The tensors of a model as it is saved.
fn saved(file: &Writer) -> HashMap<String, Tensor> {
    let folder = tempfile::tempdir().unwrap();
    let loaded = file.dequantize().unwrap();
    assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
    loaded.save_pretrained(folder.path().join("saved")).unwrap();
    candle_core::safetensors::load(folder.path().join("saved").join(WEIGHTS), &CandleDevice::Cpu).unwrap()
}

/// Biases are there if the file has tensors for them; those of queries and keys are in the order of the rows.
#[test]
fn biases_are_those_that_the_file_has() {
    let counted = |rows: u64| floats((0..rows).map(|row| row as f32));
    let vector = |tensors: &HashMap<String, Tensor>, name: &str| -> Vec<f32> { tensors[name].to_vec1().unwrap() };
    let in_order = |rows: u64| (0..rows).map(|row| row as f32).collect::<Vec<_>>();
    // The first halves of heads of 16 are their even rows in the file.
    let turned =
        |rows: u64| (0..rows).map(|row| (row / 16 * 16 + row % 8 * 2 + row % 16 / 8) as f32).collect::<Vec<_>>();
    let attention = [("attn_q", QUERIES), ("attn_k", KEYS), ("attn_v", KEYS), ("attn_output", 32)];
    let mlp = [("ffn_gate", 64), ("ffn_up", 64), ("ffn_down", 32)];
    for (has_attention, has_mlp) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut file = llama();
        let of_attention = attention.iter().filter(|_| has_attention);
        for (part, rows) in of_attention.chain(mlp.iter().filter(|_| has_mlp)) {
            for block in 0..2 {
                file.add_bytes(&format!("blk.{block}.{part}.bias"), &[*rows], F32, counted(*rows));
            }
        }
        let biases = file.config().unwrap().biases;
        let expected = (has_attention, has_attention, has_mlp);
        assert_eq!((biases.attention_in, biases.attention_out, biases.mlp), expected);
        let tensors = saved(&file);
        for (part, is_there, expected) in [
            ("self_attn.q_proj", has_attention, turned(QUERIES)),
            ("self_attn.k_proj", has_attention, turned(KEYS)),
            ("self_attn.v_proj", has_attention, in_order(KEYS)),
            ("self_attn.o_proj", has_attention, in_order(32)),
            ("mlp.gate_proj", has_mlp, in_order(64)),
            ("mlp.up_proj", has_mlp, in_order(64)),
            ("mlp.down_proj", has_mlp, in_order(32)),
        ] {
            let name = format!("model.layers.1.{part}.bias");
            assert_eq!(tensors.contains_key(&name), is_there, "{name}");
            assert!(!is_there || vector(&tensors, &name) == expected, "{name}");
        }
    }
    let mut file = qwen2();
    for (part, rows) in &attention[..3] {
        file.add_bytes(&format!("blk.1.{part}.bias"), &[*rows], F32, counted(*rows));
    }
    let tensors = saved(&file);
    assert_eq!(vector(&tensors, "model.layers.1.self_attn.q_proj.bias"), in_order(QUERIES));
    assert_eq!(vector(&tensors, "model.layers.1.self_attn.k_proj.bias"), in_order(KEYS));
}

#[test]
fn a_folder_whose_name_ends_as_a_file_of_this_kind() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("tiny.gguf");
    fs::create_dir(&folder).unwrap();
    for name in [CONFIG, TOKENIZER, WEIGHTS] {
        fs::copy(crate::common::golden().join("llama-tiny").join(name), folder.join(name)).unwrap();
    }
    let loaded = super::load(&folder, &LoadOptions::default()).unwrap();
    assert_eq!(
        loaded.dtype_label,
        crate::common::load(&crate::common::golden().join("llama-tiny"), "float32").dtype_label
    );
}
