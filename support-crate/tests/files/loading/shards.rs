//! Weights in several files, and the index that names them.

use std::fs;

use candle_core::safetensors::save;
use quantlab::model::Engine;
use serde_json::{Map, Value, json};

use super::family::{FAMILIES, Family, GPT2};
use crate::common::copy::{Copy, INDEX, Tensors, WEIGHTS, expect, logits};

/// The second block is in the second file.
fn shard_of(name: &str) -> &'static str {
    if name.contains(".1.") { "b.safetensors" } else { "a.safetensors" }
}

fn sharded(family: &Family) -> Copy {
    let copy = family.copy();
    copy.change_tensors(|tensors| {
        for file in ["a.safetensors", "b.safetensors"] {
            let part = tensors.iter().filter(|(name, _)| shard_of(name) == file);
            let part: Tensors = part.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
            save(&part, copy.path(file)).unwrap();
        }
        let map: Map<String, Value> = tensors.keys().map(|name| (name.clone(), json!(shard_of(name)))).collect();
        fs::write(copy.path(INDEX), json!({ "metadata": {}, "weight_map": map }).to_string()).unwrap();
    });
    fs::remove_file(copy.path(WEIGHTS)).unwrap();
    copy
}

#[test]
fn shards_are_one_model() {
    for family in FAMILIES {
        let copy = sharded(&family);
        for engine in Engine::ALL {
            let (sharded, whole) = (copy.load_in(engine).unwrap(), family.copy().load_in(engine).unwrap());
            assert_eq!(logits(&sharded), logits(&whole));
            assert_eq!(sharded.unused_tensors, whole.unused_tensors);
        }
    }
}

#[test]
fn a_shard_that_is_missing() {
    for family in FAMILIES {
        let copy = sharded(&family);
        fs::remove_file(copy.path("b.safetensors")).unwrap();
        expect(&copy.load(), &["cannot open", "b.safetensors", "index.json names it"]);
    }
}

#[test]
fn an_index_that_names_a_missing_file() {
    for family in FAMILIES {
        let copy = sharded(&family);
        copy.change_json(INDEX, |index| index["weight_map"][family.norm] = json!("c.safetensors"));
        expect(&copy.load(), &["cannot open", "c.safetensors"]);
    }
}

#[test]
fn an_index_that_leaves_out_a_file() {
    for family in FAMILIES {
        let copy = sharded(&family);
        copy.change_json(INDEX, |index| {
            index["weight_map"].as_object_mut().unwrap().retain(|_, file| file == "a.safetensors");
        });
        expect(&copy.load(), &["a.safetensors has no tensor `", &(family.first_of_block)(1)]);
    }
}

#[test]
fn an_index_that_is_not_one() {
    let copy = sharded(&GPT2);
    for bad in ["../a.safetensors", "/etc/passwd", "a.bin", "./a.safetensors", "", "..", "a/../../b.safetensors"] {
        fs::write(copy.path(INDEX), json!({ "weight_map": { "x": bad } }).to_string()).unwrap();
        expect(&copy.load(), &["index.json", &format!("`{bad}` is not the name of a safetensors file")]);
    }
    fs::write(copy.path(INDEX), json!({ "weight_map": {} }).to_string()).unwrap();
    expect(&copy.load(), &["index.json", "names no files"]);
    for bad in ["{}", "", "[]", "{\"weight_map\": [\"a.safetensors\"]}", "{\"weight_map\": {\"x\": 1}}"] {
        fs::write(copy.path(INDEX), bad).unwrap();
        expect(&copy.load(), &["index.json"]);
    }
}

#[test]
fn a_tensor_in_two_shards() {
    for family in FAMILIES {
        let copy = sharded(&family);
        fs::copy(copy.path("b.safetensors"), copy.path("c.safetensors")).unwrap();
        copy.change_json(INDEX, |index| index["weight_map"]["x"] = json!("c.safetensors"));
        expect(&copy.load(), &["b.safetensors and ", "c.safetensors both have a tensor `"]);
    }
}

#[test]
fn a_shard_that_is_cut_short() {
    let copy = sharded(&GPT2);
    let bytes = fs::read(copy.path("b.safetensors")).unwrap();
    fs::write(copy.path("b.safetensors"), &bytes[..bytes.len() - 1]).unwrap();
    expect(&copy.load(), &["b.safetensors is not a complete safetensors file", "cut short"]);
}
