//! The header of a safetensors file, and the tensors that it describes.

use std::fs;

use candle_core::{DType, Tensor};
use quantlab::model::{Engine, Fold, LoadOptions};
use serde_json::{Value, json};

use super::family::{FAMILIES, Family, GPT2};
use crate::common::copy::{Copy, WEIGHTS, expect, filled, logits};
use crate::common::distance;

#[test]
fn weights_that_are_cut_short() {
    for family in FAMILIES {
        let copy = family.copy();
        let whole = fs::read(copy.path(WEIGHTS)).unwrap();
        for length in [0, 4, 8, 100, whole.len() / 2, whole.len() - 1] {
            fs::write(copy.path(WEIGHTS), &whole[..length]).unwrap();
            expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file", "cut short"]);
        }
    }
}

#[test]
fn a_header_that_is_longer_than_the_file() {
    for family in FAMILIES {
        let copy = family.copy();
        let mut bytes = fs::read(copy.path(WEIGHTS)).unwrap();
        for length in [bytes.len() as u64, 1 << 20, 1 << 40, u64::MAX] {
            bytes[..8].copy_from_slice(&length.to_le_bytes());
            fs::write(copy.path(WEIGHTS), &bytes).unwrap();
            expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file"]);
        }
    }
}

#[test]
fn a_header_that_is_not_json() {
    for (header, family) in ["", "{", "[]", "{\"a\": 1}", "\u{1f600}"].into_iter().zip(FAMILIES.iter().cycle()) {
        let copy = family.copy();
        fs::write(copy.path(WEIGHTS), crate::common::copy::with_header(header, &[])).unwrap();
        expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file"]);
    }
}

#[test]
fn offsets_that_overlap_or_leave_the_file() {
    for family in FAMILIES {
        for offsets in [[0_u64, 256], [1 << 40, (1 << 40) + 256], [256, 0], [u64::MAX - 255, u64::MAX]] {
            let copy = family.copy();
            copy.change_header(|header| header[family.norm]["data_offsets"] = json!(offsets));
            expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file"]);
        }
    }
}

#[test]
fn two_tensors_in_the_same_place() {
    for family in FAMILIES {
        let copy = family.copy();
        let other = (family.first_of_block)(0);
        copy.change_header(|header| {
            header[family.norm]["data_offsets"] = header[other.as_str()]["data_offsets"].clone()
        });
        expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file", "offset"]);
    }
}

#[test]
fn a_tensor_of_another_shape() {
    for family in FAMILIES {
        for engine in Engine::ALL {
            let copy = family.copy();
            copy.change_config(|config| config[family.intermediate_size] = json!(128));
            let (name, shape) = family.mlp_in;
            let expected = shape.map(|size| if size == 64 { 64 } else { 128 });
            let message = format!("tensor `{name}` has shape {shape:?}, expected {expected:?}");
            expect(&copy.load_in(engine), &[&message, "config.json and the weights"]);
        }
    }
}

#[test]
fn a_tensor_of_as_many_numbers_in_another_shape() {
    for family in FAMILIES {
        let (name, [rows, columns]) = family.mlp_in;
        for shape in [vec![columns, rows], vec![rows * columns], vec![1, rows, columns], vec![rows, columns, 1]] {
            let copy = family.copy();
            copy.change_header(|header| header[name]["shape"] = json!(shape));
            expect(&copy.load(), &[&format!("`{name}` has shape {shape:?}, expected [{rows}, {columns}]")]);
        }
    }
}

#[test]
fn a_shape_whose_size_overflows() {
    for family in FAMILIES {
        for shape in [vec![u64::MAX, 2], vec![1 << 32, 1 << 32], vec![1 << 62; 3]] {
            let copy = family.copy();
            copy.change_header(|header| header[family.norm]["shape"] = json!(shape));
            expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file"]);
        }
    }
}

#[test]
fn a_tensor_that_is_missing() {
    for family in FAMILIES {
        for engine in Engine::ALL {
            let copy = family.copy();
            copy.change_tensors(|tensors| drop(tensors.remove(family.norm)));
            expect(&copy.load_in(engine), &[&format!("model.safetensors has no tensor `{}`", family.norm)]);
        }
    }
}

#[test]
fn a_tensor_that_nobody_asked_for() {
    for family in FAMILIES {
        for engine in Engine::ALL {
            let copy = family.copy();
            copy.change_tensors(|tensors| drop(tensors.insert("<b>extra</b>".to_owned(), filled(&[3], 1.0))));
            let loaded = copy.load_in(engine).unwrap();
            assert_eq!(loaded.unused_tensors, ["<b>extra</b>"]);
            assert!(loaded.summary().ends_with(" | unused: <b>extra</b>"), "{}", loaded.summary());
            copy.change_tensors(|tensors| drop(tensors.insert("another".to_owned(), filled(&[1, 0, 5], 1.0))));
            let loaded = copy.load_in(engine).unwrap();
            assert_eq!(loaded.unused_tensors, ["<b>extra</b>", "another"]);
            assert!(loaded.summary().ends_with(" | unused: <b>extra</b> and 1 more"), "{}", loaded.summary());
            assert_eq!(logits(&loaded), logits(&family.copy().load_in(engine).unwrap()));
        }
    }
}

/// Whatever shows a name must not take it for a command: the notebook kernel has its own in the lines of a cell's output.
#[test]
fn names_that_are_commands_to_what_shows_them() {
    for family in FAMILIES {
        let named = |name: &str| {
            let copy = family.copy();
            copy.change_tensors(|tensors| drop(tensors.insert(name.to_owned(), filled(&[3], 1.0))));
            copy.load()
        };
        let shown = "a name with a control character: \"\\nEVCXR\u{2060}_BEGIN_CONTENT";
        expect(&named("\nEVCXR_BEGIN_CONTENT text/html\n<img>\nEVCXR_END_CONTENT\n"), &[WEIGHTS, shown]);
        let summary = named("EVCXR_BEGIN_CONTENT text/html").unwrap().summary();
        assert!(summary.ends_with(" | unused: EVCXR\u{2060}_BEGIN_CONTENT text/html"), "{summary}");
    }
}

/// Each has as many bytes as its shape says, and together they end where no number counts on.
#[test]
fn offsets_whose_sum_overflows() {
    let side = 1_u64 << 60;
    let ends = (1..16).map(|end| end * side).chain([u64::MAX - 7]);
    let mut header = serde_json::Map::new();
    for (i, end) in ends.enumerate() {
        let start = i as u64 * side;
        let entry = json!({ "dtype": "U8", "shape": [end - start], "data_offsets": [start, end] });
        header.insert(format!("tensor{i}"), entry);
    }
    let copy = GPT2.copy();
    copy.write_weights(&crate::common::copy::with_header(&Value::Object(header).to_string(), &[]));
    expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file"]);
}

#[test]
fn a_tensor_of_integers() {
    for family in FAMILIES {
        for (dtype, engine) in ["I32", "U32"].into_iter().flat_map(|dtype| Engine::ALL.map(|in_| (dtype, in_))) {
            let copy = family.copy();
            copy.change_header(|header| header[family.norm]["dtype"] = json!(dtype));
            expect(&copy.load_in(engine), &[family.norm, dtype, "expected floating-point numbers"]);
        }
    }
}

#[test]
fn a_dtype_that_does_not_fit_the_bytes_or_does_not_exist() {
    for family in FAMILIES {
        for dtype in ["F16", "F64", "F128", "", "float32"] {
            let copy = family.copy();
            copy.change_header(|header| header[family.norm]["dtype"] = json!(dtype));
            expect(&copy.load(), &[WEIGHTS, "not a complete safetensors file"]);
        }
    }
}

/// The same numbers, as far as the format holds them.
#[test]
fn weights_in_every_floating_point_format() {
    for family in FAMILIES {
        let expected = logits(&family.copy().load().unwrap());
        for (dtype, tolerance) in [(DType::F64, 0.0), (DType::F16, 0.02), (DType::BF16, 0.2)] {
            let copy = family.copy();
            copy.change_tensors(|tensors| tensors.values_mut().for_each(|tensor| *tensor = as_dtype(tensor, dtype)));
            let [found, others @ ..] = Engine::ALL.map(|engine| logits(&copy.load_in(engine).unwrap()));
            let difference = distance(&found, &expected);
            assert!(difference <= tolerance && (difference > 0.0) == (tolerance > 0.0), "{dtype:?}: {difference}");
            assert!(others.iter().all(|other| distance(other, &found) < 1e-4), "{dtype:?}");
        }
    }
}

fn as_dtype(tensor: &Tensor, dtype: DType) -> Tensor {
    tensor.to_dtype(dtype).unwrap()
}

#[test]
fn weights_that_are_nan_are_found_at_load_when_asked_for() {
    for family in FAMILIES {
        for (engine, value) in Engine::ALL.into_iter().zip([f32::NAN, f32::INFINITY, f32::NEG_INFINITY]) {
            for name in [family.mlp_in.0, family.norm] {
                let copy = with_one_number(&family, name, value);
                let checked = LoadOptions { engine: Some(engine), check_finite: true, ..LoadOptions::default() };
                let message = format!("model.safetensors: tensor `{name}` holds a NaN or an infinity");
                expect(&copy.load_with(&checked), &[&message, "damaged"]);
                // Unasked, and in whatever nobody uses, it is not looked for.
                assert!(copy.load_in(engine).is_ok());
                let copy = family.copy();
                copy.change_tensors(|tensors| drop(tensors.insert("extra".to_owned(), filled(&[3], value))));
                assert_eq!(copy.load_with(&checked).unwrap().unused_tensors, ["extra"]);
            }
        }
    }
}

/// A copy in which the last number of a tensor is another.
fn with_one_number(family: &Family, name: &str, value: f32) -> Copy {
    let copy = family.copy();
    copy.change_tensors(|tensors| {
        let mut numbers: Vec<f32> = tensors[name].flatten_all().unwrap().to_vec1().unwrap();
        *numbers.last_mut().unwrap() = value;
        let changed = Tensor::from_vec(numbers, tensors[name].shape(), tensors[name].device()).unwrap();
        tensors.insert(name.to_owned(), changed);
    });
    copy
}

#[test]
fn names_without_prefix() {
    for family in FAMILIES {
        let copy = family.copy();
        copy.change_tensors(|tensors| {
            let short = |name: String| match name.split_once('.') {
                Some(("transformer" | "model", short)) => short.to_owned(),
                _ => name,
            };
            *tensors = tensors.drain().map(|(name, tensor)| (short(name), tensor)).collect();
        });
        assert_eq!(logits(&copy.load().unwrap()), logits(&family.copy().load().unwrap()));
    }
}

#[test]
fn a_head_of_its_own() {
    let copy = GPT2.copy();
    copy.change_config(|config| config["tie_word_embeddings"] = json!(false));
    expect(&copy.load(), &["has no tensor `lm_head.weight`"]);
    copy.change_tensors(|tensors| drop(tensors.insert("lm_head.weight".to_owned(), filled(&[384, 64], 0.25))));
    let untied = copy.load().unwrap();
    let row = logits(&untied);
    assert!(distance(&row, &vec![row[0]; row.len()]) < 1e-5, "a head of equal rows gives equal logits");
    let tied = GPT2.copy().load().unwrap().model.info().num_parameters;
    assert_eq!(untied.model.info().num_parameters, tied + 384 * 64);
    // One of the two is wrong.
    copy.change_config(|config| config["tie_word_embeddings"] = Value::Null);
    for engine in Engine::ALL {
        let said = "a `lm_head.weight` that is not `transformer.wte.weight`, though `tie_word_embeddings`";
        expect(&copy.load_in(engine), &[said, "the files' head is used"]);
    }
    let folded = LoadOptions { fold: Some(Fold::hadamard(1)), ..LoadOptions::default() };
    expect(&copy.load_with(&folded), &["`tie_word_embeddings`"]);
    // Some programs save the same matrix twice.
    copy.change_tensors(|tensors| {
        let embedding = tensors["transformer.wte.weight"].clone();
        tensors.insert("lm_head.weight".to_owned(), embedding);
    });
    let twice = copy.load().unwrap();
    assert!(twice.unused_tensors.is_empty(), "{:?}", twice.unused_tensors);
    assert_eq!(twice.model.info().num_parameters, tied);
    assert_eq!(logits(&twice), logits(&GPT2.copy().load().unwrap()));
}

#[test]
fn buffers_of_old_checkpoints_are_ignored() {
    for family in FAMILIES {
        let copy = family.copy();
        copy.change_tensors(|tensors| {
            tensors.insert("transformer.h.0.attn.bias".to_owned(), filled(&[1, 1, 64, 64], 1.0));
            tensors.insert("transformer.h.0.attn.masked_bias".to_owned(), filled(&[1], -1e4));
            tensors.insert("model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(), filled(&[8], 1.0));
        });
        let loaded = copy.load().unwrap();
        assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
        assert_eq!(logits(&loaded), logits(&family.copy().load().unwrap()));
    }
}
