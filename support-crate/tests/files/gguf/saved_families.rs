//! `save_gguf` of every family: files that are, to the bit, those that were made with llama.cpp's own package.

use std::fs;
use std::path::Path;

use quantlab::model::{ImportanceMatrix, LoadOptions, Loaded, LogitPositions, TokenBatch};
use quantlab::quant::{GgufType, encode_ggml, restore_ggml};
use quantlab::source::{Gguf, GgufTensor};
use serde_json::{Value, json};

use super::saving::saved;
use super::{dequantized, load};
use crate::common::copy::{Copy, Tensors, filled};
use crate::common::distance;

/// A checkpoint of transformers' and the file that was made of it.
const CASES: [(&str, &str); 6] = [
    ("tests/models/families/golden/gemma2", "tests/golden/gemma2-tiny.gguf"),
    ("tests/models/families/golden/gemma3", "tests/golden/gemma3-tiny.gguf"),
    ("tests/models/families/golden/phi3", "tests/golden/phi3-tiny.gguf"),
    ("tests/models/families/golden/phi3-longrope", "tests/golden/phi3-longrope-tiny.gguf"),
    ("tests/models/families/golden/qwen3", "tests/golden/qwen3-tiny.gguf"),
    ("tests/golden/llama3-tiny", "tests/golden/llama3-tiny.gguf"),
];
/// Files whose checkpoints are not here: their models are saved as one, and from that again as a file.
const ONLY_FILES: [&str; 3] =
    ["tests/golden/smollm3-tiny.gguf", "tests/golden/gpt2-tiny.gguf", "tests/golden/sentencepiece-tiny.gguf"];

const AWKWARD: [&str; 6] = [
    "the quick brown fox",
    " two  spaces\n\nand lines\t\t",
    "1234 + é e\u{301} 👩\u{200d}👧 日本語",
    "<|endoftext|>x <s></s> <unk>",
    "don't\r\n'LL \u{a0}x\u{2581}y",
    "",
];

struct File {
    bytes: Vec<u8>,
    header: Gguf,
}

impl File {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        Self { header: Gguf::read(&bytes).unwrap(), bytes }
    }

    /// The bits of all numbers of a tensor.
    fn numbers(&self, tensor: &GgufTensor) -> Vec<u32> {
        let mut numbers = vec![0.0; tensor.shape.iter().product()];
        restore_ggml(tensor.kind, &self.bytes[tensor.range.clone()], &mut numbers);
        numbers.into_iter().map(f32::to_bits).collect()
    }
}

/// The same tensors by name, shape and numbers, and the same keys of the family and the tokenizer.
#[track_caller]
fn assert_same(own: &File, other: &File) {
    let names = |file: &File| file.header.tensors().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(own), names(other));
    for (name, tensor) in own.header.tensors() {
        let expected = &other.header.tensors()[name];
        assert_eq!(tensor.shape, expected.shape, "{name}");
        assert!(own.numbers(tensor) == other.numbers(expected), "{name}");
    }
    let family = other.header.family().unwrap();
    for (key, value) in other.header.metadata() {
        // Ids without a token are called otherwise, and a file that is read does not say which are.
        let is_filled = ["tokenizer.ggml.tokens", "tokenizer.ggml.token_type"].contains(&key.as_str());
        if (key.starts_with(family) || key.starts_with("tokenizer.")) && !is_filled {
            assert_eq!(own.header.metadata().get(key), Some(value), "{key}");
        }
    }
}

fn logits(loaded: &Loaded) -> Vec<f32> {
    let tokens = TokenBatch::single(&[1, 2, 3, 40, 50, 260, 7, 8, 9, 10, 11]).unwrap();
    loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec()
}

/// What is written is what was made with llama.cpp's package, and is read as the model that it was.
#[track_caller]
fn check(original: &Loaded, file: &str) {
    let (_folder, path) = saved(original, GgufType::F32, None);
    assert_same(&File::read(&path), &File::read(Path::new(file)));
    let again = load(&path, &LoadOptions::default()).unwrap();
    assert!(again.unused_tensors.is_empty(), "{file}: {:?}", again.unused_tensors);
    let off = distance(&logits(&again), &logits(original));
    // The angles of Llama 3.1 are divided one by one.
    assert!(off <= if file.contains("llama3") { 1e-6 } else { 0.0 }, "{file}: {off}");
    assert_eq!(again.model.info().eos_token_ids, original.model.info().eos_token_ids, "{file}");
    for text in AWKWARD {
        let ids = original.tokenizer.encode(text).unwrap();
        assert_eq!(again.tokenizer.encode(text).unwrap(), ids, "{file}: {text:?}");
        assert_eq!(again.tokenizer.decode(&ids).unwrap(), original.tokenizer.decode(&ids).unwrap(), "{file}: {text:?}");
    }
}

#[test]
fn checkpoints_become_the_files_that_llama_cpp_reads() {
    for (checkpoint, file) in CASES {
        check(&load(Path::new(checkpoint), &LoadOptions::default()).unwrap(), file);
    }
}

#[test]
fn files_become_checkpoints_and_files_again() {
    for file in ONLY_FILES {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = folder.path().join("checkpoint");
        load(Path::new(file), &dequantized()).unwrap().save_pretrained(&checkpoint).unwrap();
        check(&load(&checkpoint, &LoadOptions::default()).unwrap(), file);
    }
}

/// As llama.cpp quantizes them: learned positions stay as they are, and joint layers are of those that get more bits.
#[test]
fn families_are_quantized() {
    let gpt2 = load(Path::new("tests/golden/gpt2-tiny"), &LoadOptions::default()).unwrap();
    let (_folder, path) = saved(&gpt2, GgufType::Q8_0, None);
    let (own, other) = (File::read(&path), File::read(Path::new("tests/golden/gpt2-tiny.gguf")));
    for (name, tensor) in own.header.tensors() {
        let expected = &other.header.tensors()[name];
        assert_eq!(tensor.kind, expected.kind, "{name}");
        assert!(own.bytes[tensor.range.clone()] == other.bytes[expected.range.clone()], "{name}");
    }
    let importance = ImportanceMatrix::collect(&gpt2, &["the quick brown fox", "once upon a time"]).unwrap();
    let (_folder, path) = saved(&gpt2, GgufType::Q4KM, Some(&importance));
    let of_joint = |block: usize| {
        let file = File::read(&path);
        file.header.tensors()[&format!("blk.{block}.attn_qkv.weight")].kind.name()
    };
    assert_eq!([0, 1, 2].map(of_joint), ["Q5_0", "Q5_0", "Q8_0"], "rows of 64 numbers instead of Q4_K and Q6_K");
    let off = distance(&logits(&load(&path, &dequantized()).unwrap()), &logits(&gpt2));
    assert!(off > 0.0 && off < 1.0, "{off}");
    for (checkpoint, _) in CASES {
        let original = load(Path::new(checkpoint), &LoadOptions::default()).unwrap();
        let (_folder, path) = saved(&original, GgufType::F32, None);
        let plain = File::read(&path);
        for kind in [GgufType::Q8_0, GgufType::Q4KM] {
            let (_folder, path) = saved(&original, kind, None);
            let file = File::read(&path);
            for (name, tensor) in file.header.tensors() {
                let numbers: Vec<f32> =
                    plain.numbers(&plain.header.tensors()[name]).into_iter().map(f32::from_bits).collect();
                let mut expected = vec![0; tensor.range.len()];
                encode_ggml(tensor.kind, &numbers, None, &mut expected).unwrap();
                assert!(file.bytes[tensor.range.clone()] == expected, "{checkpoint} in {kind}: {name}");
                let is_vector = tensor.shape.len() == 1;
                assert_eq!(tensor.kind.name() == "F32", is_vector, "{checkpoint} in {kind}: {name}");
            }
            let off = distance(&logits(&load(&path, &dequantized()).unwrap()), &logits(&original));
            assert!(off > 0.0 && off < 1.0, "{checkpoint} in {kind}: {off}");
        }
    }
}

type Change = fn(&mut Value);

/// A setting of a checkpoint that llama.cpp computes otherwise, or does not know.
#[test]
fn what_llama_cpp_computes_otherwise_is_refused() {
    let cases: [(&str, &str, Change); 16] = [
        ("gemma2", "divided by the square root of 12 alone", |config| config["query_pre_attn_scalar"] = json!(13)),
        ("gemma2", "another function than gelu_pytorch_tanh", |config| config["hidden_activation"] = json!("gelu")),
        ("gemma2", "no `attn_logit_softcapping`", |config| config["attn_logit_softcapping"] = Value::Null),
        ("gemma2", "no `final_logit_softcapping`", |config| config["final_logit_softcapping"] = Value::Null),
        ("gemma2", "not each so many-th", |config| {
            config["layer_types"] = json!(["full_attention", "sliding_attention"]);
        }),
        ("gemma2", "way that llama.cpp does not have for models of type gemma2", |config| {
            config["rope_scaling"] = llama3_scaling();
        }),
        ("phi3", "another function than silu", |config| config["hidden_act"] = json!("gelu")),
        ("phi3", "way that llama.cpp does not have for models of type phi3", |config| {
            config["rope_scaling"] = llama3_scaling();
        }),
        ("phi3-longrope", "does not have 2 numbers in `long_factor`", |config| {
            config["rope_parameters"]["long_factor"] = json!([1.0]);
        }),
        ("smollm3", "its layer 1 does not know positions", |_| ()),
        ("smollm3", "it has biases", |config| {
            config["no_rope_layers"] = json!([1, 1]);
            config["attention_bias"] = json!(true);
        }),
        ("qwen3", "way that llama.cpp does not have for models of type qwen3", |config| {
            config["rope_scaling"] = llama3_scaling();
        }),
        ("gpt2-tiny", "another function than gelu_new", |config| config["activation_function"] = json!("relu")),
        ("gpt2-tiny", "divided by the square root of 16 alone", |config| config["scale_attn_weights"] = json!(false)),
        ("gpt2-tiny", "divided by the square root of 16 alone", |config| {
            config["scale_attn_by_inverse_layer_idx"] = json!(true);
        }),
        ("llama3-tiny", "attend to only 9 tokens", |config| {
            config["model_type"] = json!("mistral");
            config["sliding_window"] = json!(9);
        }),
    ];
    for (checkpoint, said, change) in cases {
        let folder = ["tests/models/families/golden", "tests/golden"].map(|parent| Path::new(parent).join(checkpoint));
        let copy = Copy::of(folder.iter().find(|folder| folder.exists()).unwrap());
        copy.change_config(change);
        if said.contains("biases") {
            copy.change_tensors(with_biases);
        }
        let folder = tempfile::tempdir().unwrap();
        let error = copy.load().unwrap().save_gguf(folder.path().join("model.gguf"), GgufType::F32, None);
        let error = error.expect_err(said);
        assert!(error.to_string().contains(said), "{error}, not {said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{said}");
    }
}

/// Files of Gemma 3 have the pattern of its windows by one name or by both.
#[test]
fn a_config_that_says_it_twice_is_saved() {
    let copy = Copy::of(Path::new("tests/models/families/golden/gemma3-scaled"));
    copy.change_config(|config| {
        assert_eq!(config["sliding_window_pattern"], config["_sliding_window_pattern"]);
        config["query_pre_attn_scalar"] = config["head_dim"].clone();
        for key in ["rope_scaling", "rope_parameters"] {
            config.as_object_mut().unwrap().remove(key);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    copy.load().unwrap().save_gguf(folder.path().join("model.gguf"), GgufType::F32, None).unwrap();
}

fn llama3_scaling() -> Value {
    json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    })
}

/// Of attention, all 0.
fn with_biases(tensors: &mut Tensors) {
    for name in tensors.keys().filter(|name| name.contains("self_attn")).cloned().collect::<Vec<_>>() {
        let rows = tensors[&name].dims()[0];
        let bias = filled(&[rows], 0.0).to_dtype(tensors[&name].dtype()).unwrap();
        tensors.insert(name.replace(".weight", ".bias"), bias);
    }
}
