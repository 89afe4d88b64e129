//! `save_gguf`: files that are read again as the same model.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use quantlab::error::{ErrorKind, Result};
use quantlab::model::{
    Engine, ImportanceMatrix, LoadOptions, Loaded, LogitPositions, Precision, TokenBatch, load_model,
};
use quantlab::quant::{GgufType, QuantizationConfig, encode_ggml, restore_ggml};
use quantlab::source::{GgmlType, Gguf};
use serde_json::json;
use tempfile::TempDir;

use super::{dequantized, load, tiny_gguf};
use crate::common::copy::{CONFIG, Copy, TOKENIZER, WEIGHTS, filled};
use crate::common::{distance, golden, load as load_folder};

/// Those that can be written, of the reference data.
const WRITTEN: [&str; 2] = ["llama-tiny", "qwen2-tiny"];

pub(crate) fn saved(loaded: &Loaded, kind: GgufType, importance: Option<&ImportanceMatrix>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    loaded.save_gguf(&path, kind, importance).unwrap();
    (folder, path)
}

fn logits(loaded: &Loaded) -> Vec<f32> {
    let tokens = TokenBatch::single(&[1, 2, 3, 40, 50, 260, 7]).unwrap();
    loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec()
}

/// The bytes of each tensor of a file.
fn tensors(path: &Path) -> Vec<(String, String, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let header = Gguf::read(&bytes).unwrap();
    let tensor = |(name, tensor): (&String, &quantlab::source::GgufTensor)| {
        (name.clone(), tensor.kind.name().to_owned(), bytes[tensor.range.clone()].to_vec())
    };
    header.tensors().iter().map(tensor).collect()
}

#[test]
fn a_model_in_float32_is_the_same_model() {
    for name in WRITTEN {
        for engine in Engine::ALL {
            let id = golden().join(name);
            let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
            let original = load_model(&[id.to_str().unwrap()], &options).unwrap();
            let (_folder, path) = saved(&original, GgufType::F32, None);
            let again = load(&path, &options).unwrap();
            assert!(again.unused_tensors.is_empty(), "{:?}", again.unused_tensors);
            assert!(distance(&logits(&again), &logits(&original)) < 1e-6, "{name} on {engine}");
            assert_eq!(again.model.info().eos_token_ids, original.model.info().eos_token_ids, "{name}");
            let text = "the quick brown fox\n\n  1234 é <|endoftext|>x";
            assert_eq!(again.tokenizer.encode(text).unwrap(), original.tokenizer.encode(text).unwrap(), "{name}");
        }
    }
}

#[test]
fn matrices_in_q8_0_stay_in_their_file() {
    for name in WRITTEN {
        let original = load_folder(&golden().join(name), "float32");
        let (_folder, path) = saved(&original, GgufType::Q8_0, None);
        let blocks = tensors(&path).into_iter().filter(|(_, kind, _)| kind == "Q8_0");
        let blocks: usize = blocks.map(|(_, _, bytes)| bytes.len()).sum();
        let loaded = load(&path, &LoadOptions::default()).unwrap();
        let info = loaded.model.info();
        assert!(blocks > 0 && info.mapped_bytes == blocks, "{name}: {blocks} of {info:?}");
        // A head that is tied is read with every token, and its memory counts once.
        let is_tied = loaded.model.tensors().iter().any(|tensor| tensor.tied_to.is_some());
        assert_eq!(info.bytes_per_token == info.parameter_bytes + info.quant_state_bytes, is_tied, "{name}: {info:?}");
    }
}

/// The same numbers as if each matrix of the original had been rounded to its format and back.
#[test]
fn a_quantized_file_stands_for_the_rounded_weights() {
    let original = load_folder(&golden().join("llama-tiny"), "float32");
    let (_plain_folder, plain) = saved(&original, GgufType::F32, None);
    let plain = tensors(&plain);
    for kind in GgufType::ALL {
        let (_folder, path) = saved(&original, kind, None);
        let bytes = fs::read(&path).unwrap();
        let header = Gguf::read(&bytes).unwrap();
        for (name, _, numbers) in &plain {
            let tensor = &header.tensors()[name];
            let (numbers, _) = numbers.as_chunks::<4>();
            let numbers: Vec<f32> = numbers.iter().map(|&number| f32::from_le_bytes(number)).collect();
            let mut expected = vec![0; tensor.range.len()];
            encode_ggml(tensor.kind, &numbers, None, &mut expected).unwrap();
            assert!(bytes[tensor.range.clone()] == expected, "{kind}: {name}");
            assert_eq!(tensor.range.start % 32, 0, "{kind}: {name}");
            let is_vector = tensor.shape.len() == 1;
            assert!(is_vector == (tensor.kind.name() == "F32") || kind == GgufType::F32, "{kind}: {name}");
        }
        // In transformers' order of rows, whatever the file's is.
        let rounded = Copy::of(&golden().join("llama-tiny"));
        rounded.change_tensors(|tensors| {
            for (name, tensor) in tensors {
                *tensor = in_format(header.tensors()[&name_in_file(name)].kind, tensor);
            }
        });
        let (restored, expected) = (load(&path, &dequantized()).unwrap(), rounded.load().unwrap());
        assert!(distance(&logits(&restored), &logits(&expected)) < 1e-5, "{kind}");
        assert!(kind == GgufType::F32 || distance(&logits(&restored), &logits(&original)) > 1e-3, "{kind}");
    }
}

/// What a file calls a tensor of llama-tiny.
fn name_in_file(name: &str) -> String {
    let renamed = [
        ("model.layers.", "blk."),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
    ];
    renamed.iter().fold(name.to_owned(), |name, (of, to)| name.replace(of, to))
}

/// Rounded to a format and back.
fn in_format(kind: GgmlType, tensor: &Tensor) -> Tensor {
    let mut numbers: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
    let mut bytes = vec![0; numbers.len() / kind.block_len() * kind.block_bytes()];
    encode_ggml(kind, &numbers, None, &mut bytes).unwrap();
    restore_ggml(kind, &bytes, &mut numbers);
    Tensor::from_vec(numbers, tensor.shape(), tensor.device()).unwrap()
}

/// llama.cpp made the one in Q4_K_M of weights that are lost: what it stands for, quantized again, has the same formats.
#[test]
fn the_mix_is_that_of_llama_cpp() {
    let original = load(&tiny_gguf(), &dequantized()).unwrap();
    let (_folder, path) = saved(&original, GgufType::Q4KM, None);
    let formats = |path: &Path| -> Vec<(String, String)> {
        tensors(path).into_iter().map(|(name, kind, _)| (name, kind)).collect()
    };
    assert_eq!(formats(&path), formats(&tiny_gguf()));
    let again = load(&path, &dequantized()).unwrap();
    assert!(distance(&logits(&again), &logits(&original)) < 0.5);
    let metadata = |path: &Path| Gguf::read(&fs::read(path).unwrap()).unwrap().metadata().clone();
    let (own, other) = (metadata(&path), metadata(&tiny_gguf()));
    for key in ["general.architecture", "general.file_type", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"] {
        assert_eq!(own[key], other[key], "{key}");
    }
}

#[test]
fn importance_makes_what_matters_more_exact() {
    let original = load_folder(&golden().join("llama-tiny"), "float32");
    let texts = ["the quick brown fox jumps over the lazy dog", "once upon a time there was a fox"];
    let importance = ImportanceMatrix::collect(&original, &texts).unwrap();
    assert_eq!(importance.layer("lm_head"), None);
    let of_layer = importance.layer("model.layers.1.mlp.down_proj").unwrap();
    assert!(of_layer.len() == 160 && of_layer.iter().all(|mean| mean.is_finite() && *mean >= 0.0));
    let (_plain, plain) = saved(&original, GgufType::Q4_0, None);
    let (_weighted, weighted) = saved(&original, GgufType::Q4_0, Some(&importance));
    let name = "blk.1.ffn_down.weight";
    let (_full, full) = saved(&original, GgufType::F32, None);
    let numbers = |path: &Path| -> Vec<f32> {
        let bytes = fs::read(path).unwrap();
        let header = Gguf::read(&bytes).unwrap();
        let tensor = &header.tensors()[name];
        let mut numbers = vec![0.0; tensor.shape.iter().product()];
        restore_ggml(tensor.kind, &bytes[tensor.range.clone()], &mut numbers);
        numbers
    };
    let exact = numbers(&full);
    let error = |path: &Path| -> f64 {
        let pairs = numbers(path).into_iter().zip(&exact).zip(of_layer.iter().cycle());
        pairs.map(|((number, exact), mean)| f64::from(*mean) * f64::from(number - exact).powi(2)).sum()
    };
    let (with, without) = (error(&weighted), error(&plain));
    assert!(with < 0.9 * without, "{with} with importance, {without} without");
    let other = load_folder(&golden().join("gpt2-tiny"), "float32");
    let of_another = ImportanceMatrix::collect(&other, &texts).unwrap();
    assert_eq!(of_another.layer("model.layers.0.self_attn.q_proj"), None);
    let error = ImportanceMatrix::collect(&original, &[] as &[&str]).unwrap_err();
    assert!(error.to_string().contains("no prompts"), "{error}");
}

#[test]
fn linear_scaling_ends_and_chat_templates_come_along() {
    let files = [CONFIG, TOKENIZER, WEIGHTS, "tokenizer_config.json"];
    let copy = Copy::of_files(&files.map(|name| golden().join("llama-tiny").join(name)));
    copy.change_config(|config| config["rope_scaling"] = json!({"rope_type": "linear", "factor": 2.0}));
    copy.change_config(|config| config["eos_token_id"] = json!([5, 0, 7]));
    let template = "{{ bos_token }}{{ messages }}";
    copy.change_json("tokenizer_config.json", |config| config["chat_template"] = template.into());
    let original = copy.load().unwrap();
    let (_folder, path) = saved(&original, GgufType::F32, None);
    let again = load(&path, &LoadOptions::default()).unwrap();
    assert!(distance(&logits(&again), &logits(&original)) < 1e-6);
    let header = Gguf::read(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(header.text("tokenizer.chat_template").unwrap(), template);
    assert_eq!(header.float("llama.rope.scaling.factor").unwrap(), 2.0);
    // The one that the tokenizer's config names comes first.
    assert_eq!(again.model.info().eos_token_ids, [0, 5, 7]);
    again.chat().unwrap();
}

#[test]
fn a_random_shape_is_written_with_its_tokens() {
    let random = load_model(&["random:gpt2"], &LoadOptions::default()).unwrap();
    let (_folder, path) = saved(&random, GgufType::Q4_0, None);
    let again = load(&path, &LoadOptions::default()).unwrap();
    let text = "A byte, é, is a token.\n  \t";
    assert_eq!(again.tokenizer.encode(text).unwrap(), random.tokenizer.encode(text).unwrap());
    assert_eq!(again.tokenizer.encode(text).unwrap().len(), text.len());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let refused = |result: Result<()>, kind: ErrorKind, said: &str| {
        let error = result.expect_err(said);
        assert!(error.kind() == kind && error.to_string().contains(said), "{error}, not {said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{said}");
    };
    let golden_model = |name: &str| load_folder(&golden().join(name), "float32");
    let save = |loaded: &Loaded| loaded.save_gguf(&path, GgufType::Q8_0, None);
    let llama = golden_model("llama-tiny");
    refused(llama.save_gguf(folder.path().join("model.bin"), GgufType::F32, None), ErrorKind::Input, "end in .gguf");
    let olmo2 = load(Path::new("tests/models/families/golden/olmo2"), &LoadOptions::default()).unwrap();
    refused(save(&olmo2), ErrorKind::Input, "a model of type olmo2 cannot be written");
    let hint = save(&olmo2).unwrap_err().hint_text().unwrap().to_owned();
    assert!(hint.contains("gpt2, llama, mistral") && hint.ends_with("gemma3_text can"), "{hint}");
    refused(save(&golden_model("mistral-tiny")), ErrorKind::Input, "attend to only 6 tokens");
    let id = golden().join("llama-tiny");
    let options = LoadOptions { quantization: Some(QuantizationConfig::nf4()), ..LoadOptions::default() };
    let quantized = load_model(&[id.to_str().unwrap()], &options).unwrap();
    refused(save(&quantized), ErrorKind::Input, "is quantized already");
    refused(save(&load(&tiny_gguf(), &LoadOptions::default()).unwrap()), ErrorKind::Input, "is quantized already");
    let of_weight = "tensor `model.layers.1.mlp.up_proj.weight`: output 3: ";
    for (number, said) in [
        (f32::NAN, "the weight of input 5 is NaN"),
        (f32::INFINITY, "the weight of input 5 is inf"),
        (1e30, "a weight from input 0 on is as large as 1e30"),
    ] {
        let copy = Copy::of(&id);
        copy.change_tensors(|tensors| {
            let weight = &tensors["model.layers.1.mlp.up_proj.weight"];
            let with_number = weight.slice_assign(&[3..4, 5..6], &filled(&[1, 1], number)).unwrap();
            tensors.insert("model.layers.1.mlp.up_proj.weight".to_owned(), with_number);
        });
        refused(save(&copy.load().unwrap()), ErrorKind::Format, &format!("{of_weight}{said}"));
    }
    let copy = Copy::of(&id);
    copy.change_json(TOKENIZER, |tokenizer| tokenizer["pre_tokenizer"] = json!({"type": "Whitespace"}));
    refused(save(&copy.load().unwrap()), ErrorKind::Input, "splits text into words as none");
    fs::write(&path, "mine").unwrap();
    let error = save(&llama).unwrap_err();
    assert!(error.to_string().contains("there is already a"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_model_in_bfloat16_is_written_from_what_it_computes_with() {
    let id = golden().join("llama-tiny");
    let options = LoadOptions { precision: Precision::BFloat16, ..LoadOptions::default() };
    let original = load_model(&[id.to_str().unwrap()], &options).unwrap();
    let (_folder, path) = saved(&original, GgufType::F32, None);
    let again = load(&path, &options).unwrap();
    assert!(distance(&logits(&again), &logits(&original)) < 1e-6);
}
