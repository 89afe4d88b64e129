//! Files that are wrong, or lie, and what is said about them.

use std::fs;

use quantlab::error::ErrorKind;
use quantlab::source::Gguf;

use super::writer::{Case, F32, MERGES, Q8_0, QUERIES, TOKENS, TYPES, Writer, array, llama, load_bytes, plain, qwen2};

const HUGE: u64 = 1 << 60;

/// Each change makes a good file one that is refused in these words.
fn refused(good: fn() -> Writer, cases: &[Case]) {
    good().load().unwrap();
    for (said, change) in cases {
        let mut file = good();
        change(&mut file);
        let error = file.load().expect_err(said);
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
        assert!(error.to_string().contains(said), "{error}, not {said}");
        assert!(error.to_string().contains("model.gguf"), "{error}");
    }
}

#[test]
fn headers() {
    assert!(Gguf::read(&plain().tensor("a", &[2, 32], 2, 0).data(36).bytes()).is_ok());
    let counted = |tensors: u64, values: u64, room: usize| {
        [b"GGUF\x03\0\0\0".to_vec(), tensors.to_le_bytes().to_vec(), values.to_le_bytes().to_vec(), vec![0; room]]
            .concat()
    };
    let long = "n".repeat(70_000);
    let many = [array(0, (1 << 22) + 1), vec![0; (1 << 22) + 1]].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("does not begin with `GGUF`", Vec::new()),
        ("does not begin with `GGUF`", b"PK\x03\x04".to_vec()),
        ("ends within its header", b"GGUF".to_vec()),
        ("ends within its header", b"GGUF\x03\0\0\0\x01".to_vec()),
        ("has GGUF version 1", [b"GGUF\x01\0\0\0".to_vec(), vec![0; 16]].concat()),
        ("has GGUF version 4", [b"GGUF\x04\0\0\0".to_vec(), vec![0; 16]].concat()),
        ("a big-endian GGUF file", [b"GGUF\0\0\0\x03".to_vec(), vec![0; 16]].concat()),
        ("promises 1152921504606846976 tensors", counted(HUGE, 0, 0)),
        ("promises 1152921504606846976 metadata entries", counted(0, HUGE, 0)),
        ("has 65537 tensors, more than any model", counted(65_537, 0, 65_537 * 24)),
        ("has 65537 metadata entries, more than any model", counted(0, 65_537, 65_537 * 13)),
        ("metadata has `a` twice", plain().value("a", 0, &[1]).value("a", 0, &[1]).bytes()),
        ("a name has 70000 bytes", plain().value(&long, 0, &[1]).bytes()),
        ("a name with a control character: \"a\\n\\u{1b}[2J\"", plain().value("a\n\u{1b}[2J", 0, &[1]).bytes()),
        ("a name with a control character: \"\\nb\"", plain().tensor("\nb", &[8], 0, 0).data(32).bytes()),
        ("`a`: a value has the unknown type 13", plain().value("a", 13, &[1]).bytes()),
        ("`a`: a boolean has the value 2", plain().value("a", 7, &[2]).bytes()),
        ("`a`: a string is not UTF-8", plain().value("a", 8, &[[1].as_slice(), &[0; 7], &[0xff]].concat()).bytes()),
        ("`a`: it ends within its header", plain().value("a", 8, &HUGE.to_le_bytes()).bytes()),
        ("`a`: arrays of arrays", plain().value("a", 9, &array(9, 1)).bytes()),
        ("`a`: an array has the unknown type 13", plain().value("a", 9, &array(13, 1)).bytes()),
        ("promises 1152921504606846976 array entries", plain().value("a", 9, &array(4, HUGE)).bytes()),
        ("promises 1152921504606846976 array entries", plain().value("a", 9, &array(8, HUGE)).bytes()),
        ("an array has 4194305 entries, more than any vocabulary", plain().value("a", 9, &many).bytes()),
        (
            "an array has the number 18446744073709551615",
            plain().value("a", 9, &[array(10, 1), vec![0xff; 8]].concat()).bytes(),
        ),
        ("`general.alignment` is 7", plain().value("general.alignment", 4, &7_u32.to_le_bytes()).bytes()),
        ("`general.alignment` is 0", plain().value("general.alignment", 4, &0_u32.to_le_bytes()).bytes()),
        ("`general.alignment` is -32", plain().value("general.alignment", 5, &(-32_i32).to_le_bytes()).bytes()),
        ("`general.alignment` is true", plain().value("general.alignment", 7, &[1]).bytes()),
        ("a name has 70000 bytes", plain().tensor(&long, &[8], 0, 0).data(32).bytes()),
        ("has 5 dimensions", plain().tensor("a", &[1; 5], 0, 0).bytes()),
        ("the unknown format number 99", plain().tensor("a", &[32], 99, 0).bytes()),
        // Formats that ggml had once, and one that only inputs are rounded to.
        ("the unknown format number 4;", plain().tensor("a", &[32], 4, 0).data(64).bytes()),
        ("the unknown format number 9;", plain().tensor("a", &[32], 9, 0).data(64).bytes()),
        ("not whole blocks of 32", plain().tensor("a", &[2, 33], 2, 0).data(100).bytes()),
        ("not whole blocks of 256 (Q4_K)", plain().tensor("a", &[8, 32], 12, 0).data(144).bytes()),
        ("ends before its tensors begin", plain().tensor("a", &[8], 0, 0).bytes()[..57].to_vec()),
        ("lies beyond the end", plain().tensor("a", &[2, 32], 2, 0).data(35).bytes()),
        ("lies beyond the end", plain().tensor("a", &[1 << 62, 32], 0, 0).data(35).bytes()),
        ("lies beyond the end", plain().tensor("a", &[32], 2, u64::MAX - 5).data(35).bytes()),
        ("begins at 1, which is not a multiple of 32", plain().tensor("a", &[32], 2, 1).data(64).bytes()),
        ("there are two tensors `a`", plain().tensor("a", &[8], 0, 0).tensor("a", &[8], 0, 32).data(64).bytes()),
        ("`a` and `b` overlap", plain().tensor("a", &[16], 0, 0).tensor("b", &[8], 0, 32).data(64).bytes()),
        ("`b` and `a` overlap", plain().tensor("a", &[8], 0, 32).tensor("b", &[64], 0, 0).data(256).bytes()),
    ];
    for (said, bytes) in cases {
        let error = Gguf::read(&bytes).expect_err(said);
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.to_string().contains(said), "{error}, not {said}");
    }
}

#[test]
fn models_of_another_kind() {
    refused(
        llama,
        &[
            ("lacks `general.architecture`", |file| file.remove("general.architecture")),
            ("`general.architecture` is 7, not a string", |file| file.set("general.architecture", 7_u32)),
            ("architecture \"mamba\" are not supported; hint: supported architectures are llama", |file| {
                file.set("general.architecture", "mamba")
            }),
            ("lacks `qwen2.context_length`", |file| file.set("general.architecture", "qwen2")),
            ("it is one of several parts", |file| file.set("split.count", 3_u16)),
            ("`split.count` is the string \"2\", not a size", |file| file.set("split.count", "2")),
            ("mixtures of experts are not supported", |file| file.set("llama.expert_count", 8_u32)),
            ("its layers attend to only 16 tokens", |file| file.set("llama.attention.sliding_window", 16_u32)),
            ("`llama.attention.sliding_window` is a list of 2 numbers, not a size", |file| {
                file.set("llama.attention.sliding_window", vec![16_u32, 64]);
            }),
            ("each of its tokens sees those after it", |file| file.set("llama.attention.causal", false)),
        ],
    );
}

#[test]
fn sizes() {
    refused(
        llama,
        &[
            ("lacks `llama.block_count`", |file| file.remove("llama.block_count")),
            ("lacks `llama.attention.head_count`", |file| file.remove("llama.attention.head_count")),
            ("its 32 hidden numbers cannot be divided among 3 heads", |file| {
                file.set("llama.attention.head_count", 3_u32)
            }),
            ("cannot be divided among 0 heads", |file| file.set("llama.attention.head_count", 0_u32)),
            ("cannot be divided among 1152921504606846976 heads", |file| file.set("llama.attention.head_count", HUGE)),
            ("the number of heads is 1152921504606846976", |file| {
                file.set("llama.attention.head_count", HUGE);
                file.set("llama.attention.key_length", 16_u32);
            }),
            ("`llama.attention.head_count` is -2, not a size", |file| file.set("llama.attention.head_count", -2_i32)),
            ("`llama.attention.head_count` is 2.5, not a size", |file| file.set("llama.attention.head_count", 2.5_f32)),
            ("`llama.attention.head_count` is a list of 2 numbers", |file| {
                file.set("llama.attention.head_count", vec![2_u32, 2]);
            }),
            ("number of key-value heads is 3; it must lie between 1 and 2", |file| {
                file.set("llama.attention.head_count_kv", 3_u32);
            }),
            ("number of key-value heads is 0", |file| file.set("llama.attention.head_count_kv", 0_u32)),
            ("4 heads cannot share 3 key-value heads evenly", |file| {
                file.set("llama.attention.head_count", 4_u32);
                file.set("llama.attention.head_count_kv", 3_u32);
            }),
            ("turn pairs of a head's numbers, not 15", |file| file.set("llama.attention.key_length", 15_u32)),
            ("not 1152921504606846976", |file| file.set("llama.attention.key_length", HUGE)),
            ("has shape [32, 32], expected [16, 32]", |file| file.set("llama.attention.key_length", 8_u32)),
            ("k_proj.weight` has shape [16, 32], expected [32, 32]", |file| {
                file.set("llama.attention.head_count", 1_u32);
            }),
            ("only 8 of a head's 16 numbers are rotated", |file| file.set("llama.rope.dimension_count", 8_u32)),
            ("the context is 0", |file| file.set("llama.context_length", 0_u32)),
            ("the context is 1152921504606846976", |file| file.set("llama.context_length", HUGE)),
            ("the intermediate size is 1152921504606846976", |file| file.set("llama.feed_forward_length", HUGE)),
            ("gate_proj.weight` has shape [64, 32], expected [96, 32]", |file| {
                file.set("llama.feed_forward_length", 96_u32);
            }),
            ("the hidden size is 1152921504606846976", |file| {
                file.set("llama.embedding_length", HUGE);
                file.set("llama.attention.key_length", 16_u32);
            }),
            ("has shape [16, 32], expected [16, 64]", |file| file.set("llama.embedding_length", 64_u32)),
            ("the number of layers is 0", |file| file.set("llama.block_count", 0_u32)),
            ("the number of layers is 1152921504606846976", |file| file.set("llama.block_count", HUGE)),
            ("has no tensor `model.layers.2.", |file| file.set("llama.block_count", 3_u32)),
            // What is left would be a smaller model.
            ("tensor `blk.1.attn_k.weight` does not belong to a llama model of 1 blocks", |file| {
                file.set("llama.block_count", 1_u32);
            }),
        ],
    );
}

#[test]
fn numbers() {
    refused(
        llama,
        &[
            ("`llama.rope.freq_base` is NaN, not a number", |file| file.set("llama.rope.freq_base", f32::NAN)),
            ("`llama.rope.freq_base` is inf, not a number", |file| file.set("llama.rope.freq_base", f64::INFINITY)),
            ("`rope_theta` is inf; it must be positive", |file| file.set("llama.rope.freq_base", f64::MAX)),
            ("`rope_theta` is 0; it must be positive", |file| file.set("llama.rope.freq_base", 0.0_f32)),
            ("`rope_theta` is -10000; it must be positive", |file| file.set("llama.rope.freq_base", -1e4_f32)),
            ("`llama.rope.freq_base` is the string \"many\", not a number", |file| {
                file.set("llama.rope.freq_base", "many");
            }),
            ("lacks `llama.attention.layer_norm_rms_epsilon`", |file| {
                file.remove("llama.attention.layer_norm_rms_epsilon");
            }),
            ("`llama.attention.layer_norm_rms_epsilon` is -inf, not a number", |file| {
                file.set("llama.attention.layer_norm_rms_epsilon", f32::NEG_INFINITY);
            }),
            ("the epsilon of the norms is -0.5; it must lie between 0 and 1", |file| {
                file.set("llama.attention.layer_norm_rms_epsilon", -0.5_f32);
            }),
            ("`llama.rope.scaling.factor` is NaN, not a number", |file| {
                file.set("llama.rope.scaling.factor", f32::NAN)
            }),
            ("`llama.rope.scale_linear` is inf, not a number", |file| {
                file.set("llama.rope.scale_linear", f32::INFINITY)
            }),
            ("`rope_scaling` needs a positive `factor`", |file| file.set("llama.rope.scaling.factor", -2.0_f32)),
            ("`llama.rope.scaling.attn_factor` is 1.5, without the factors", |file| {
                file.set("llama.rope.scaling.attn_factor", 1.5_f32)
            }),
            ("scaled as \"yarn\" does", |file| {
                file.set("llama.rope.scaling.type", "yarn");
                file.set("llama.rope.scaling.factor", 4.0_f32);
            }),
            // It changes more than angles.
            ("scaled as \"yarn\" does", |file| file.set("llama.rope.scaling.type", "yarn")),
            // transformers' word for no scaling at all.
            ("scaled as \"default\" does", |file| {
                file.set("llama.rope.scaling.type", "default");
                file.set("llama.rope.scaling.factor", 4.0_f32);
            }),
            ("`llama.rope.scaling.type` is 1, not a string", |file| file.set("llama.rope.scaling.type", 1_u32)),
        ],
    );
}

#[test]
fn tensors() {
    refused(
        llama,
        &[
            ("it has no tensor `token_embd.weight`", |file| file.drop_tensor("token_embd.weight")),
            ("has no tensor `model.layers.1.mlp.up_proj.weight`", |file| file.drop_tensor("blk.1.ffn_up.weight")),
            ("`blk.1.attn_x.weight` does not belong", |file| file.rename("blk.1.attn_q.weight", "blk.1.attn_x.weight")),
            ("`blk.01.attn_q.weight` does not belong", |file| {
                file.rename("blk.1.attn_q.weight", "blk.01.attn_q.weight")
            }),
            ("`blk.-1.attn_q.weight` does not belong", |file| {
                file.rename("blk.1.attn_q.weight", "blk.-1.attn_q.weight")
            }),
            ("`output` does not belong", |file| file.rename("output.weight", "output")),
            // Without its own head, the model would have the embedding for one.
            ("`output.weighs` does not belong", |file| file.rename("output.weight", "output.weighs")),
            ("`Output.weight` does not belong", |file| file.rename("output.weight", "Output.weight")),
            // Parts of other families, and biases of parts that have none.
            ("`blk.0.attn_q_norm.weight` does not belong", |file| file.add("blk.0.attn_q_norm.weight", &[16], F32)),
            ("`blk.0.ffn_gate_exps.weight` does not belong", |file| {
                file.add("blk.0.ffn_gate_exps.weight", &[2, 64, 32], F32)
            }),
            ("`blk.0.ffn_norm.bias` does not belong", |file| file.add("blk.0.ffn_norm.bias", &[32], F32)),
            ("`output.bias` does not belong", |file| file.add("output.bias", &[16], F32)),
            // What one layer has, all have.
            ("has no tensor `model.layers.0.self_attn.k_proj.bias`", |file| {
                file.add("blk.0.attn_q.bias", &[QUERIES], F32);
            }),
            ("has no tensor `model.layers.0.mlp.gate_proj.bias`", |file| file.add("blk.1.ffn_up.bias", &[64], F32)),
            ("`blk.0.attn_q.weight` has 33 rows for 2 heads", |file| file.add("blk.0.attn_q.weight", &[33, 32], F32)),
            ("`blk.0.attn_k.weight` has 15 rows for 1 heads", |file| file.add("blk.0.attn_k.weight", &[15, 32], F32)),
            ("`blk.0.attn_q.weight` has 0 rows for 2 heads", |file| file.add("blk.0.attn_q.weight", &[0, 32], F32)),
            ("`blk.0.attn_q.bias` is a bias in Q8_0", |file| file.add("blk.0.attn_q.bias", &[QUERIES], Q8_0)),
            ("has shape [32, 16], expected [16, 32]", |file| file.add("blk.0.attn_v.weight", &[32, 16], F32)),
            ("has shape [1, 32], expected [32]", |file| file.add("output_norm.weight", &[1, 32], F32)),
            ("`lm_head.weight` has shape [15, 32], expected [16, 32]", |file| {
                file.add("output.weight", &[15, 32], F32)
            }),
        ],
    );
    refused(
        qwen2,
        &[
            ("has no tensor `model.layers.1.self_attn.k_proj.bias`", |file| file.drop_tensor("blk.1.attn_k.bias")),
            ("has shape [32], expected [16]", |file| file.add("blk.0.attn_k.bias", &[QUERIES], F32)),
            ("`blk.0.attn_output.bias` does not belong to a qwen2", |file| {
                file.add("blk.0.attn_output.bias", &[32], F32)
            }),
            ("`blk.1.ffn_down.bias` does not belong to a qwen2", |file| file.add("blk.1.ffn_down.bias", &[32], F32)),
        ],
    );
    let bytes = llama().bytes();
    let error = load_bytes(&bytes[..bytes.len() - 1]).unwrap_err().to_string();
    assert!(error.contains("beyond the end of the file") && error.contains("cut short"), "{error}");
}

#[test]
fn tokenizers() {
    /// A vocabulary of these, with a row for each.
    fn tokens(file: &mut Writer, tokens: &[&str]) {
        file.set("tokenizer.ggml.tokens", tokens.to_vec());
        file.remove("tokenizer.ggml.token_type");
        for name in ["token_embd.weight", "output.weight"] {
            file.add(name, &[tokens.len() as u64, 32], F32);
        }
    }
    refused(
        llama,
        &[
            ("lacks `tokenizer.ggml.model`", |file| file.remove("tokenizer.ggml.model")),
            ("its tokenizer has the type \"t5\"", |file| file.set("tokenizer.ggml.model", "t5")),
            ("lacks `tokenizer.ggml.pre`; hint: it says how text is split", |file| file.remove("tokenizer.ggml.pre")),
            ("like \"gpt-9\"; hint: supported are gpt-2, smollm", |file| file.set("tokenizer.ggml.pre", "gpt-9")),
            ("like \"\"", |file| file.set("tokenizer.ggml.pre", "")),
            ("`tokenizer.ggml.pre` is 2, not a string", |file| file.set("tokenizer.ggml.pre", 2_u32)),
            ("lacks `tokenizer.ggml.tokens`", |file| file.remove("tokenizer.ggml.tokens")),
            ("`tokenizer.ggml.tokens` is a list of 16 numbers, not strings", |file| {
                file.set("tokenizer.ggml.tokens", TYPES.to_vec());
            }),
            ("its vocabulary has 1048577 tokens", |file| {
                file.set("tokenizer.ggml.tokens", vec![""; (1 << 20) + 1]);
                file.remove("tokenizer.ggml.token_type");
            }),
            ("token 2 has 4097 bytes", |file| tokens(file, &["a", "b", &"c".repeat(4097)])),
            ("two tokens are \"a\"", |file| tokens(file, &["a", "b", "a"])),
            ("0 tokens for the 16 rows", |file| {
                file.set("tokenizer.ggml.tokens", Vec::<&str>::new());
                file.remove("tokenizer.ggml.token_type");
            }),
            ("15 tokens for the 16 rows of `token_embd.weight`", |file| {
                file.set("tokenizer.ggml.tokens", TOKENS[..15].to_vec());
                file.set("tokenizer.ggml.token_type", TYPES[..15].to_vec());
            }),
            ("16 tokens for the 15 rows of `token_embd.weight`", |file| file.add("token_embd.weight", &[15, 32], F32)),
            ("the vocabulary is 0", |file| {
                tokens(file, &[]);
                file.set("tokenizer.ggml.merges", Vec::<&str>::new());
            }),
            ("does not have one number for each token", |file| {
                file.set("tokenizer.ggml.token_type", TYPES[..15].to_vec())
            }),
            ("does not have one number for each token", |file| {
                file.set("tokenizer.ggml.token_type", vec![1.0_f32; 16])
            }),
            ("16385 tokens that are not parts of words", |file| {
                let names: Vec<String> = (0..16_385).map(|id| format!("<{id}>")).collect();
                tokens(file, &names.iter().map(String::as_str).collect::<Vec<_>>());
                file.set("tokenizer.ggml.token_type", vec![3_i32; 16_385]);
            }),
            ("lacks `tokenizer.ggml.merges`", |file| file.remove("tokenizer.ggml.merges")),
            ("the merge \"a z\" does not join two tokens into a third", |file| {
                file.set("tokenizer.ggml.merges", vec!["a b", "a z"])
            }),
            ("the merge \"z a\" does not join two tokens into a third", |file| {
                file.set("tokenizer.ggml.merges", vec!["z a"])
            }),
            ("the merge \"b a\" does not join two tokens into a third", |file| {
                file.set("tokenizer.ggml.merges", vec!["b a"])
            }),
            ("the merge \"a b c\" does not join two tokens into a third", |file| {
                file.set("tokenizer.ggml.merges", vec!["a b c"])
            }),
            ("the merge \"ab\" does not join two tokens into a third", |file| {
                file.set("tokenizer.ggml.merges", vec!["ab"])
            }),
            // A token that only fills the vocabulary up is none.
            ("does not join two tokens into a third", |file| {
                let filled = [&TOKENS[..14], &["[PAD14]", "a[PAD14]"]].concat();
                file.set("tokenizer.ggml.tokens", filled);
                file.set("tokenizer.ggml.token_type", [&TYPES[..14], &[5, 1]].concat());
                file.set("tokenizer.ggml.merges", [&MERGES[..], &["a [PAD14]"]].concat());
            }),
            ("ends each text with a token", |file| file.set("tokenizer.ggml.add_eos_token", true)),
            ("`tokenizer.ggml.add_bos_token` is 1, not a boolean", |file| {
                file.set("tokenizer.ggml.add_bos_token", 1_u32)
            }),
            ("lacks `tokenizer.ggml.bos_token_id`", |file| {
                file.set("tokenizer.ggml.add_bos_token", true);
                file.remove("tokenizer.ggml.bos_token_id");
            }),
            ("token 16 is to begin each text, but there is no such token", |file| {
                file.set("tokenizer.ggml.add_bos_token", true);
                file.set("tokenizer.ggml.bos_token_id", 16_u32);
            }),
            // It begins texts with a token unless the file says otherwise.
            ("lacks `tokenizer.ggml.bos_token_id`", |file| {
                file.set("tokenizer.ggml.pre", "llama-bpe");
                file.remove("tokenizer.ggml.bos_token_id");
            }),
            ("`tokenizer.ggml.eos_token_id` is the string \"end\", not a size", |file| {
                file.set("tokenizer.ggml.eos_token_id", "end");
            }),
            ("`tokenizer.ggml.eot_token_id` is -1, not a size", |file| file.set("tokenizer.ggml.eot_token_id", -1_i32)),
        ],
    );
}

#[test]
fn messages_are_short_whatever_the_file_says() {
    let long = "x".repeat(100_000);
    for key in [
        "general.architecture",
        "llama.context_length",
        "llama.rope.scaling.type",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.add_bos_token",
    ] {
        let mut file = llama();
        file.set(key, long.as_str());
        let error = file.load().unwrap_err().to_string();
        assert!(error.contains("xxx\"...") && error.len() < 1000, "{key}: {} bytes", error.len());
    }
    let mut file = llama();
    file.set("tokenizer.ggml.merges", vec![long.as_str()]);
    let error = file.load().unwrap_err().to_string();
    assert!(error.contains("xxx\"...") && error.len() < 1000, "{} bytes", error.len());
}

#[test]
fn no_file_and_a_folder_of_such_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.gguf");
    let load = || super::load(&path, &Default::default());
    let error = load().unwrap_err();
    assert!(error.to_string().contains("cannot open") && error.to_string().contains("none.gguf"), "{error}");
    fs::create_dir(&path).unwrap();
    let error = load().unwrap_err();
    assert!(error.to_string().contains("config.json"), "{error}");
}
