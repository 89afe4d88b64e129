//! Configs and tensors that contradict each other: an error each, which names what is wrong.

use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::checkpoint;
use crate::common::copy::{Copy, WEIGHTS, expect, header_and_data, with_header};

const LAYER: &str = "model.layers.0.mlp.up_proj";

/// Changes one tensor of the layer: its entry in the header, and its bytes.
fn change_tensor(copy: &Copy, part: &str, change: impl FnOnce(&mut Value, &mut [u8])) {
    let file = fs::read(copy.path(WEIGHTS)).unwrap();
    let (mut header, data) = header_and_data(&file);
    let mut data = data.to_vec();
    let entry = &mut header[format!("{LAYER}.{part}")];
    let [start, end] = [0, 1].map(|side| entry["data_offsets"][side].as_u64().unwrap() as usize);
    change(entry, &mut data[start..end]);
    copy.write_weights(&with_header(&header.to_string(), &data));
}

/// Takes a tensor out of the layer, by another name.
fn remove_tensor(copy: &Copy, part: &str) {
    let (name, other) = (format!("{LAYER}.{part}"), "removed");
    copy.change_header(|header| {
        let entry = header.as_object_mut().unwrap().remove(&name).unwrap();
        header[other] = entry;
    });
}

fn all<const N: usize>(bytes: [u8; N]) -> impl Fn(&mut Value, &mut [u8]) {
    move |_, data| data.chunks_exact_mut(N).for_each(|number| number.copy_from_slice(&bytes))
}

#[test]
fn tensors_that_are_missing() {
    for (name, part) in [
        ("gptq-4", "qweight"),
        ("gptq-4", "qzeros"),
        ("gptq-4", "scales"),
        ("gptq-4-act", "g_idx"),
        ("awq", "qweight"),
        ("awq", "qzeros"),
        ("awq-gemv", "scales"),
        ("pack-4", "weight_packed"),
        ("pack-4", "weight_scale"),
        ("pack-4", "weight_zero_point"),
        ("pack-4", "weight_shape"),
        ("float-row", "weight"),
        ("int-8", "weight"),
        ("nvfp4", "weight_global_scale"),
        ("mxfp4", "weight_scale"),
        ("fp8", "weight_scale_inv"),
        ("hqq-4", "W_q"),
        ("hqq-4", "zero"),
        ("hqq-8", "scale"),
        ("hqq-4-columns", "zero"),
    ] {
        let copy = checkpoint(name);
        remove_tensor(&copy, part);
        expect(&copy.load(), &[LAYER, &format!("`{part}`")]);
    }
}

#[test]
fn tensors_of_another_shape_or_type() {
    let shape = |shape: Value| move |entry: &mut Value, _: &mut [u8]| entry["shape"] = shape;
    // The layer has 64 inputs and 96 outputs.
    for (name, part, wrong) in [
        ("gptq-4", "qweight", json!([16, 48])),
        ("gptq-4", "qzeros", json!([12, 2])),
        ("gptq-4", "scales", json!([192])),
        ("gptq-4", "g_idx", json!([8, 8])),
        ("awq", "qweight", json!([12, 64])),
        ("awq", "scales", json!([96, 2])),
        ("awq-gemv", "qweight", json!([64, 12])),
        ("awq-gemv", "qzeros", json!([192, 2])),
        ("awq-gemv", "scales", json!([32, 96])),
        ("pack-4", "weight_packed", json!([192, 4])),
        ("pack-4", "weight_scale", json!([2, 96])),
        ("pack-4", "weight_zero_point", json!([2, 12])),
        ("float-row", "weight", json!([64, 96])),
        ("fp8", "weight_scale_inv", json!([4])),
        ("nvfp4", "weight_packed", json!([32, 96])),
        ("hqq-4", "W_q", json!([32, 96])),
        ("hqq-4-columns", "W_q", json!([96, 32])),
        ("hqq-8-columns", "scale", json!([192, 1])),
    ] {
        let copy = checkpoint(name);
        change_tensor(&copy, part, shape(wrong));
        expect(&copy.load(), &[LAYER, &format!("{part}` has shape")]);
    }
    for (name, part, wrong) in [
        ("gptq-4", "qweight", "F32"),
        ("gptq-4", "scales", "I16"),
        ("gptq-4", "g_idx", "F32"),
        ("fp8", "weight", "F8_E5M2"),
        ("int-8", "weight", "U8"),
        ("mxfp4", "weight_scale", "I8"),
        ("hqq-4", "nbits", "F32"),
    ] {
        let copy = checkpoint(name);
        change_tensor(&copy, part, |entry, _| entry["dtype"] = wrong.into());
        expect(&copy.load(), &[LAYER, &format!("{part}` holds {wrong}")]);
    }
}

#[test]
fn numbers_that_are_none() {
    for (name, part, number) in [
        ("gptq-4", "scales", half::f16::NAN.to_le_bytes()),
        ("awq", "scales", half::f16::INFINITY.to_le_bytes()),
        ("nvfp4", "weight_scale", [0x7F, 0x7F]),
        ("mxfp4", "weight_scale", [0xFF, 0xFF]),
    ] {
        let copy = checkpoint(name);
        change_tensor(&copy, part, all(number));
        expect(&copy.load(), &[LAYER, part, "number 0 is"]);
    }
    for (name, part) in [("pack-4", "weight_scale"), ("fp8", "weight_scale_inv"), ("hqq-4", "zero")] {
        let copy = checkpoint(name);
        change_tensor(&copy, part, all(f32::NAN.to_le_bytes()));
        expect(&copy.load(), &[LAYER, part, "number 0 is NaN"]);
    }
    let copy = checkpoint("nvfp4");
    change_tensor(&copy, "weight_global_scale", all(0.0_f32.to_le_bytes()));
    expect(&copy.load(), &[LAYER, "weight_global_scale"]);
    // Weights that are NaN are an error where those of any file are.
    let copy = checkpoint("fp8");
    change_tensor(&copy, "weight", all([0xFF]));
    assert!(copy.load().is_ok());
    let options = quantlab::model::LoadOptions { check_finite: true, ..Default::default() };
    expect(&copy.load_with(&options), &[LAYER, "holds a NaN"]);
    for (group, at) in [(2_i32, 0), (-1, 7), (i32::MAX, 63)] {
        let copy = checkpoint("gptq-4-act");
        change_tensor(&copy, "g_idx", |_, data| data[4 * at..4 * at + 4].copy_from_slice(&group.to_le_bytes()));
        expect(&copy.load(), &[LAYER, &format!("puts input {at} into group {group}, of 2")]);
    }
    let copy = checkpoint("pack-4");
    change_tensor(&copy, "weight_shape", all([1, 0, 0, 0, 0, 0, 0, 0]));
    expect(&copy.load(), &[LAYER, "weight_shape"]);
}

/// Groups of other sizes than the others are restored; they are no error.
#[test]
fn groups_that_are_not_even_are_restored() {
    let copy = checkpoint("gptq-4-act");
    change_tensor(&copy, "g_idx", all([0, 0, 0, 0]));
    let loaded = copy.load().unwrap();
    assert_eq!(loaded.quantization.unwrap().skip_modules, Some(vec![LAYER.to_owned()]));
}

#[test]
fn configs_that_cannot_be_read() {
    for (name, key, value, parts) in [
        ("gptq-4", "/bits", json!(5), ["gptq", "`bits` is 5"]),
        ("gptq-4", "/bits", json!("4"), ["gptq", "invalid type"]),
        ("gptq-4", "/group_size", json!(0), ["gptq", "`group_size` is 0"]),
        ("gptq-4", "/group_size", json!(-32), ["gptq", "`group_size` is -32"]),
        ("gptq-4", "/group_size", json!(64), [LAYER_OF_FIRST, "has shape"]),
        ("gptq-4", "/checkpoint_format", json!("marlin"), ["gptq", "\"marlin\""]),
        ("gptq-4", "/dynamic", json!({ "+:.*": { "bits": 8 } }), ["gptq", "`dynamic`"]),
        ("awq", "/bits", json!(8), ["awq", "`bits` is 8"]),
        ("awq", "/version", json!("gemv_fast"), ["awq", "\"gemv_fast\""]),
        ("awq", "/version", json!("gemv"), [LAYER_OF_FIRST, "has shape"]),
        ("awq-gemv", "/version", json!("gemm"), [LAYER_OF_FIRST, "has shape"]),
        ("awq-gemv", "/group_size", json!(48), [LAYER_OF_FIRST, "groups of 48"]),
        ("awq", "/zero_point", json!(false), ["awq", "without zero points"]),
        ("awq", "/modules_to_not_convert", json!(["down_proj("]), ["awq", "cannot be read"]),
        ("pack-4", "/format", json!("marlin-24"), ["`group_0`", "\"marlin-24\""]),
        ("pack-4", "/ignore/0", json!("re:(?!lm_head)"), ["compressed-tensors", "(?!lm_head)"]),
        ("pack-4", "/quantization_status", json!("initialized"), ["compressed-tensors", "\"initialized\""]),
        ("pack-4", "/config_groups/group_0/weights/symmetric", json!(true), [LAYER_OF_FIRST, "is not 0, though"]),
        ("pack-4", "/ignore", json!(vec![format!("re:{}", "a".repeat(4000)); 20]), ["tensors", "80066 letters"]),
        ("awq", "/modules_to_not_convert", json!(vec!["a".repeat(4000); 20]), ["awq", "80000 letters"]),
        ("pack-4", "/config_groups/group_0/weights/num_bits", json!(5), ["`group_0`", "5 bits"]),
        ("pack-4", "/config_groups/group_0/weights/strategy", json!("block"), ["`group_0`", "block_structure"]),
        ("pack-4", "/config_groups/group_0/weights/group_size", json!(0), ["`group_0`", "`group_size` is 0"]),
        ("nvfp4", "/config_groups/group_0/weights/group_size", json!(32), ["`group_0`", "strategy"]),
        ("fp8", "/weight_block_size", json!([0, 128]), ["fp8", "[0, 128]"]),
        ("fp8", "/fmt", json!("e5m2"), ["fp8", "\"e5m2\""]),
        ("hqq-4", "/quant_config/weight_quant_params/nbits", json!(3), ["hqq", "`nbits` is 3"]),
        ("hqq-4", "/quant_config/weight_quant_params/axis", json!(2), ["hqq", "`axis`"]),
        ("hqq-4", "/quant_config/weight_quant_params/axis", json!(0), [LAYER_OF_FIRST, "axis` is [1]"]),
        ("hqq-4", "/quant_config/weight_quant_params/group_size", json!(0), ["hqq", "`group_size`"]),
        ("gptq-4", "/quant_method", json!("quip"), ["\"quip\"", "gptq, awq, compressed-tensors"]),
    ] {
        let copy = checkpoint(name);
        copy.change_config(|config| {
            let (parent, last) = key.rsplit_once('/').unwrap();
            let parent = config["quantization_config"].pointer_mut(parent).unwrap();
            match last.parse::<usize>() {
                Ok(index) => parent[index] = value,
                Err(_) => parent[last] = value,
            }
        });
        expect(&copy.load(), &parts);
    }
}

const LAYER_OF_FIRST: &str = "model.layers.0.self_attn.q_proj";

/// As old tools save them, beside a quantize_config.json.
#[test]
fn layers_that_are_quantized_though_the_config_does_not_say_so() {
    for (name, codes) in [("gptq-4", "qweight"), ("awq", "qweight"), ("pack-4", "weight_packed"), ("hqq-4", "W_q")] {
        let copy = checkpoint(name);
        copy.change_config(|config| drop(config.as_object_mut().unwrap().remove("quantization_config")));
        let (missing, codes) = (format!("no tensor `{LAYER_OF_FIRST}.weight`"), format!("`{LAYER_OF_FIRST}.{codes}`"));
        expect(&copy.load(), &[&missing, &codes, "quantize_config.json", "as `quantization_config`"]);
    }
}

/// Lists of layers that are left out must agree with the tensors.
#[test]
fn layers_that_are_left_out_are_in_full_precision() {
    let left = |name: &str, key: &str, value: Value| {
        let copy = checkpoint(name);
        copy.change_config(|config| config["quantization_config"][key] = value);
        copy.load()
    };
    expect(&left("awq", "modules_to_not_convert", json!(null)), &["mlp.down_proj`", "does not leave it out"]);
    let too_many = json!(["down_proj", "up_proj"]);
    expect(&left("awq", "modules_to_not_convert", too_many), &[LAYER, "leaves it out"]);
    expect(&left("pack-4-row", "ignore", json!([])), &["k_proj`", "does not leave it out"]);
    expect(&left("pack-4", "ignore", json!(["re:.*up_proj"])), &[LAYER, "leaves it out"]);
    expect(&left("gptq-4", "modules_in_block_to_quantize", json!([["mlp.down_proj"]])), &["q_proj", "leaves it out"]);
    expect(&left("fp8", "modules_to_not_convert", json!(["model.layers.0"])), &["q_proj", "leaves it out"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the bytes: a model, or an error.
    #[test]
    fn any_bytes_of_a_layer(
        name in prop::sample::select(vec!["gptq-4-act", "awq", "awq-gemv", "pack-4", "pack-4-g-idx", "nvfp4", "fp8", "hqq-4", "hqq-4-columns"]),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=u8::MAX), 1..20),
    ) {
        let copy = checkpoint(name);
        let mut file = fs::read(copy.path(WEIGHTS)).unwrap();
        for (at, bits) in flips {
            let at = at.index(file.len());
            file[at] ^= bits;
        }
        copy.write_weights(&file);
        if let Ok(loaded) = copy.load() {
            super::logits(&loaded);
        }
    }

    #[test]
    fn any_number_in_a_config(
        name in prop::sample::select(vec!["gptq-4-act", "awq", "awq-gemv", "pack-4", "int-8", "nvfp4", "fp8", "hqq-4", "hqq-4-columns"]),
        number in prop_oneof![any::<i64>(), -2..300_i64],
        which in any::<prop::sample::Index>(),
    ) {
        let copy = checkpoint(name);
        copy.change_config(|config| {
            let mut numbers = Vec::new();
            collect(&mut config["quantization_config"], &mut numbers);
            let at = which.index(numbers.len());
            *numbers.swap_remove(at) = number.into();
        });
        if let Ok(loaded) = copy.load() {
            super::logits(&loaded);
        }
    }
}

/// All numbers of a value.
fn collect<'a>(value: &'a mut Value, numbers: &mut Vec<&'a mut Value>) {
    match value {
        Value::Number(_) => numbers.push(value),
        Value::Array(values) => values.iter_mut().for_each(|value| collect(value, numbers)),
        Value::Object(values) => values.values_mut().for_each(|value| collect(value, numbers)),
        _ => (),
    }
}
