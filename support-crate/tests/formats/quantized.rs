//! Quantized models: as transformers and bitsandbytes save and run them, and made while loading.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use crate::common::copy::{CONFIG, Copy, TOKENIZER, WEIGHTS, expect, header_and_data, with_header};
use crate::common::place::Place;
use crate::common::{Case, distance, in_tiles, quantized_cases, tiny};
use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::{
    Engine, LoadOptions, Loaded, LogitPositions, Logits, Precision, TensorKind, TokenBatch, load_model,
};
use quantlab::quant::{FORMATS, FourBit, FourBitOptions, Head, QuantizationConfig};
use serde_json::Value;

/// As in full precision. An int8 model comes as close only if every input of every layer is rounded to the
/// same byte: a single other one would be a hundred times as far.
const LOGITS: f32 = 1e-4;

fn try_load(folder: &Path, place: impl Into<Place>, quantization: Option<QuantizationConfig>) -> Result<Loaded> {
    let options = LoadOptions { quantization, ..place.into().options() };
    if folder.join(TOKENIZER).exists() {
        return load_model(&[folder.to_str().unwrap()], &options);
    }
    copy_of(folder).load_with(&options)
}

/// The references come without a tokenizer: that of the model that they were made from does.
fn copy_of(reference: &Path) -> Copy {
    let plain = plain_sibling(reference).unwrap_or_else(|| tiny().to_owned());
    Copy::of_files(&[reference.join(CONFIG), reference.join(WEIGHTS), plain.join(TOKENIZER)])
}

fn load(folder: &Path, place: impl Into<Place>, quantization: Option<QuantizationConfig>) -> Loaded {
    try_load(folder, place, quantization).unwrap()
}

fn logits(loaded: &Loaded, rows: &[Vec<u32>]) -> Logits {
    loaded.model.forward(&TokenBatch::new(rows).unwrap(), None, LogitPositions::All).unwrap()
}

fn config_of(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join(CONFIG)).unwrap()).unwrap()
}

/// The 4-bit references that bitsandbytes 0.50 gets right: on a CPU with AVX-512, its `dequantize_4bit` takes
/// the scale of another block where a block goes on in the next row and rows are a multiple of 16 long.
fn cases() -> Vec<Case> {
    let is_right = |case: &Case| {
        let config = config_of(&case.folder);
        let rows = ["n_embd", "hidden_size"].into_iter().filter_map(|key| config[key].as_u64());
        let mut rows = rows.flat_map(|width| [width, 4 * width]);
        config["quantization_config"]["load_in_8bit"] == true || !rows.any(|row| row % 16 == 0 && row % 64 != 0)
    };
    quantized_cases().into_iter().filter(is_right).collect()
}

#[test]
fn logits_of_saved_checkpoints() {
    for case in cases() {
        let expected = case.values("logits");
        for place in Place::all() {
            let found = logits(&load(&case.folder, place, None), &case.ids("input_ids"));
            let distance = distance(found.values(), &expected);
            assert!(distance < LOGITS, "{} by {place}: {distance}", case.name);
        }
    }
}

#[test]
fn greedy_tokens_of_saved_checkpoints() {
    for case in cases() {
        for place in Place::all() {
            let loaded = load(&case.folder, place, None);
            for (prompt, expected) in case.ids("input_ids").iter().zip(case.ids("greedy")) {
                let count = expected.len();
                let options =
                    GenerateOptions { max_new_tokens: count, min_new_tokens: count, ..GenerateOptions::default() };
                let found = generate_tokens(&*loaded.model, from_ref(prompt), &options, &mut |_, _| ()).unwrap();
                assert_eq!(found[0].tokens, expected, "{} by {place}", case.name);
            }
        }
    }
}

/// Tied, packed and copied weights are counted as the footprint counts them.
#[test]
fn the_tensors_of_a_model_add_up_to_its_footprint() {
    let (int8, nf4) = (QuantizationConfig::int8(), QuantizationConfig::nf4());
    let head_too = QuantizationConfig { head: Head::Int8, ..nf4.clone() };
    for quantization in [None, Some(int8), Some(nf4), Some(head_too)] {
        for precision in [Precision::Float32, Precision::BFloat16] {
            let options = LoadOptions { precision, quantization: quantization.clone(), ..LoadOptions::default() };
            let loaded = load_model(&["embedded"], &options).unwrap();
            let own = loaded.model.tensors().iter().filter(|tensor| tensor.tied_to.is_none());
            let bytes_of = |kind| {
                own.clone().filter(|one| one.kind == kind).map(|one| one.numel * one.element_size).sum::<usize>()
            };
            let info = loaded.model.info();
            assert_eq!(bytes_of(TensorKind::Parameter), info.parameter_bytes, "{options:?}");
            assert_eq!(bytes_of(TensorKind::Buffer), info.buffer_bytes, "{options:?}");
        }
    }
}

#[test]
fn footprints_are_those_of_transformers() {
    for case in quantized_cases() {
        let facts: Value = serde_json::from_slice(&fs::read(case.folder.join("facts.json")).unwrap()).unwrap();
        for engine in Engine::ALL {
            let loaded = load(&case.folder, engine, None);
            let info = loaded.model.info();
            assert_eq!(facts["memory_footprint_bytes"], info.parameter_bytes + info.buffer_bytes, "{}", case.name);
            assert!(info.quant_state_bytes > 0 && info.bytes_per_token > 0);
        }
    }
}

/// Heads that are quantized, rows that are no whole blocks, scales of scales; layers of the Llama family.
#[test]
fn every_engine_computes_the_same_model() {
    let configs = [
        QuantizationConfig {
            head: Head::AsLayers,
            ..QuantizationConfig::four_bit(FourBitOptions { blocksize: 1024, ..FourBitOptions::default() })
        },
        QuantizationConfig {
            head: Head::Int8,
            ..QuantizationConfig::four_bit(FourBitOptions {
                quant_type: FourBit::Fp4,
                double_quant: true,
                ..FourBitOptions::default()
            })
        },
        QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::llm_int8(0.0) },
        QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::int4(32) },
    ];
    let rows: Vec<Vec<u32>> = (0..3).map(|row| (0..9).map(|i| (i * 41 + row * 7) % 272).collect()).collect();
    for folder in ["tests/golden/gpt2-tiny", "tests/golden/llama3-tiny"].map(Path::new) {
        // Rows of 36 numbers are no whole groups of the last one's.
        for config in &configs[..if folder.ends_with("llama3-tiny") { 3 } else { 4 }] {
            let expected = logits(&load(folder, Engine::Kernels, Some(config.clone())), &rows);
            for place in Place::all() {
                let found = logits(&load(folder, place, Some(config.clone())), &rows);
                let distance = distance(found.values(), expected.values());
                assert!(distance < LOGITS, "{} in {config} by {place}: {distance}", folder.display());
            }
        }
    }
}

/// The same numbers, whether somebody else quantized or we do.
#[test]
fn quantizing_while_loading_equals_the_saved_checkpoint() {
    for case in quantized_cases() {
        let config = QuantizationConfig::from_json(&config_of(&case.folder)["quantization_config"]).unwrap();
        let Some(full) = plain_sibling(&case.folder) else { continue };
        let (saved, made) = (load(&case.folder, Engine::Kernels, None), load(&full, Engine::Kernels, Some(config)));
        let rows = case.ids("input_ids");
        assert_eq!(logits(&saved, &rows), logits(&made, &rows), "{}", case.name);
        assert_eq!(saved.model.info(), made.model.info(), "{}", case.name);
    }
}

/// The checkpoint that a quantized one was made from: `gpt2-tiny` of `gpt2-tiny-bnb-nf4`.
fn plain_sibling(folder: &Path) -> Option<PathBuf> {
    let (name, _) = folder.file_name()?.to_str()?.split_once("-bnb-")?;
    Some(folder.with_file_name(name)).filter(|path| path.exists())
}

#[test]
fn a_weight_that_is_no_number_is_found_where_it_is() {
    let copy = Copy::of(tiny());
    let (header, mut data) = weights_of(&copy);
    let start = header["transformer.h.2.mlp.c_fc.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    // (in, out) in the file: input 3, output 200.
    let at = start + 4 * (3 * 256 + 200);
    data[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(copy.path(WEIGHTS), with_header(&header.to_string(), &data)).unwrap();
    for config in [QuantizationConfig::nf4(), QuantizationConfig::int8()] {
        let loaded = copy.load_with(&LoadOptions { quantization: Some(config), ..LoadOptions::default() });
        expect(&loaded, &["layer `transformer.h.2.mlp.c_fc`", "output 200 and input 3 is NaN"]);
    }
}

fn weights_of(copy: &Copy) -> (Value, Vec<u8>) {
    let file = fs::read(copy.path(WEIGHTS)).unwrap();
    let (header, data) = header_and_data(&file);
    (header, data.to_vec())
}

/// transformers rounds to the precision of the model before it quantizes.
#[test]
fn weights_are_rounded_to_the_precision_of_the_model_first() {
    let codes_and_scales = |copy: &Copy, precision| {
        let options =
            LoadOptions { precision, quantization: Some(QuantizationConfig::nf4()), ..LoadOptions::default() };
        let saved = Copy::empty();
        copy.load_with(&options).unwrap().save_pretrained(saved.path("")).unwrap();
        let (header, data) = weights_of(&saved);
        ["weight", "weight.absmax"].map(|part| {
            let offsets = &header[format!("transformer.h.2.mlp.c_fc.{part}")]["data_offsets"];
            let [start, end] = [0, 1].map(|side| offsets[side].as_u64().unwrap() as usize);
            data[start..end].to_vec()
        })
    };
    let (plain, rounded) = (Copy::of(tiny()), Copy::of(tiny()));
    let (header, mut data) = weights_of(&rounded);
    for number in data.as_chunks_mut::<4>().0 {
        *number = half::bf16::from_f32(f32::from_le_bytes(*number)).to_f32().to_le_bytes();
    }
    rounded.write_weights(&with_header(&header.to_string(), &data));
    let bfloat16 = codes_and_scales(&plain, Precision::BFloat16);
    assert!(bfloat16 == codes_and_scales(&rounded, Precision::Float32));
    assert!(bfloat16 != codes_and_scales(&plain, Precision::Float32));
}

/// Bfloat16 is only close in tiles.
#[test]
fn a_row_of_a_batch_is_the_same_to_the_bit() {
    let configs = [
        QuantizationConfig::nf4(),
        QuantizationConfig { compute_dtype: Precision::BFloat16, ..QuantizationConfig::nf4() },
        QuantizationConfig {
            head: Head::AsLayers,
            ..QuantizationConfig::four_bit(FourBitOptions {
                quant_type: FourBit::Fp4,
                blocksize: 1024,
                ..FourBitOptions::default()
            })
        },
        QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::int4(64) },
        QuantizationConfig { compute_dtype: Precision::BFloat16, ..QuantizationConfig::int4(32) },
        QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::w4a8(32) },
        // With a threshold, which columns are kept depends on all rows, as in bitsandbytes.
        QuantizationConfig { head: Head::Int8, ..QuantizationConfig::llm_int8(0.0) },
    ];
    for config in configs {
        let loaded = load(tiny(), Engine::Kernels, Some(config.clone()));
        let rows: Vec<Vec<u32>> = (0..5).map(|row| (0..9).map(|i| (i * 41 + row * 7) % 384).collect()).collect();
        let together = logits(&loaded, &rows);
        for (b, row) in rows.iter().enumerate() {
            let alone = logits(&loaded, from_ref(row));
            let may_differ = in_tiles() && config.compute_dtype == Precision::BFloat16;
            let most = 0.02 * alone.values().iter().map(|logit| logit.abs()).fold(0.0, f32::max);
            let is_close = |t| may_differ && distance(together.row(b, t), alone.row(0, t)) < most;
            let holds = (0..9).all(|t| together.row(b, t) == alone.row(0, t) || is_close(t));
            assert!(holds, "{config}: sequence {b}");
        }
    }
}

/// As a checkpoint says it: inputs and weights of products are rounded, a little, or they are not.
#[test]
fn products_are_computed_in_the_dtype_that_the_configuration_names() {
    let rows = vec![(1..60_u32).collect::<Vec<_>>()];
    let computed_in = |compute: &str| {
        let copy = copy_of(Path::new("tests/golden/gpt2-tiny-bnb-nf4"));
        copy.change_config(|config| config["quantization_config"]["bnb_4bit_compute_dtype"] = compute.into());
        logits(&copy.load_in(Engine::Kernels).unwrap(), &rows)
    };
    let exact = computed_in("float32");
    assert_eq!(computed_in("float16"), exact);
    let distance = distance(computed_in("bfloat16").values(), exact.values());
    assert!(distance > 1e-3 && distance < 0.1, "{distance}");
}

#[test]
fn fewer_bits_are_further_from_the_truth() {
    let rows = vec![(1..60_u32).collect::<Vec<_>>()];
    let full = logits(&load(tiny(), Engine::Kernels, None), &rows);
    let error = |config| {
        let found = logits(&load(tiny(), Engine::Kernels, Some(config)), &rows);
        let pairs = found.values().iter().zip(full.values());
        pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
    };
    let [int8, nf4, fp4] =
        [QuantizationConfig::int8(), QuantizationConfig::nf4(), QuantizationConfig::fp4()].map(error);
    assert!(0.0 < int8 && int8 < nf4 && nf4 < fp4, "{int8} {nf4} {fp4}");
    let [fine, coarse] = [32, 64].map(|group_size| error(QuantizationConfig::int4(group_size)));
    assert!(int8 < fine && fine < coarse && coarse < fp4, "{int8} {fine} {coarse} {fp4}");
    // Inputs of 8 bits change little beside weights of 4.
    let of_inputs = error(QuantizationConfig::w4a8(32));
    assert!(of_inputs != fine && of_inputs < 1.2 * fine, "{of_inputs} {fine}");
    let coarse = error(QuantizationConfig::four_bit(FourBitOptions { blocksize: 4096, ..FourBitOptions::default() }));
    let with_head = error(QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::nf4() });
    assert!(nf4 < coarse && nf4 < with_head, "{nf4} {coarse} {with_head}");
}

/// What the table promises of engines and checkpoints.
#[test]
fn formats_are_computed_and_saved_where_the_table_says() {
    for format in &FORMATS {
        let Some(config) = format.config else { continue };
        // The layers have 64 inputs and more.
        let config = match format.name {
            "int4-128" => QuantizationConfig::int4(64),
            "w4a8-128" => QuantizationConfig::w4a8(64),
            _ => config(),
        };
        for engine in Engine::ALL {
            let loaded = try_load(tiny(), engine, Some(config.clone()));
            assert_eq!(loaded.is_ok(), engine == Engine::Kernels || format.in_libraries, "{config} on {engine}");
            if loaded.is_err() {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let saved = loaded.unwrap().save_pretrained(folder.path().join("saved"));
            assert_eq!(saved.is_ok(), format.quant_method.is_some(), "{config} on {engine}: {saved:?}");
        }
    }
}

#[test]
fn layers_that_are_skipped_stay_as_they_are() {
    let bytes = |skip: &[&str]| {
        let skip = Some(skip.iter().map(|&name| name.to_owned()).collect());
        let config = QuantizationConfig { skip_modules: skip, ..QuantizationConfig::nf4() };
        try_load(tiny(), Engine::Kernels, Some(config)).map(|loaded| loaded.model.info().parameter_bytes)
    };
    let all = bytes(&[]).unwrap();
    assert_eq!(bytes(&["lm_head"]).unwrap(), all);
    // 64 x 192 weights of 4 bytes in place of a half.
    assert_eq!(bytes(&["transformer.h.1.attn.c_attn"]).unwrap(), all + 64 * 192 * 7 / 2);
    let message = bytes(&["h.7"]).unwrap_err().to_string();
    assert!(message.contains("skip_modules") && message.contains("`h.7`"), "{message}");
    assert!(message.contains("transformer.h.0.attn.c_attn"), "{message}");
}

#[test]
fn what_cannot_be_quantized_says_so() {
    let message = |engine, precision, config| {
        let options =
            LoadOptions { engine: Some(engine), precision, quantization: Some(config), ..LoadOptions::default() };
        load_model(&[tiny().to_str().unwrap()], &options).unwrap_err().to_string()
    };
    let float32 = Precision::Float32;
    let text = message(
        Engine::Kernels,
        float32,
        QuantizationConfig::four_bit(FourBitOptions { blocksize: 100, ..FourBitOptions::default() }),
    );
    assert!(text.contains("100"), "{text}");
    let text = message(Engine::Kernels, float32, QuantizationConfig::int4(48));
    assert!(text.contains("groups cannot have 48"), "{text}");
    let text = message(Engine::Kernels, float32, QuantizationConfig::int4(128));
    assert!(text.contains("`transformer.h.0.attn.c_attn`") && text.contains("64 inputs"), "{text}");
    assert!("nf3".parse::<FourBit>().is_err());
    let twice = try_load(Path::new("tests/golden/gpt2-tiny-bnb-nf4"), Engine::Kernels, Some(QuantizationConfig::nf4()));
    assert!(twice.unwrap_err().to_string().contains("already quantized"));
}
