//! What loading and saving a model take besides its weights. Each load has a process of its own: the peak is that of
//! the whole process, and memory that an earlier load gave back would hide what a later one takes.
#![cfg(target_os = "linux")]

#[path = "common/checkpoint.rs"]
mod checkpoint;

use std::fs;
use std::path::Path;
use std::process::Command;

use quantlab::measure::{peak_memory_of, resident_memory};
use quantlab::model::{Engine, LoadOptions, Loaded, load_model};
use quantlab::quant::{FourBitOptions, QuantizationConfig};
use serde_json::json;
use tempfile::TempDir;

const MIB: usize = 1 << 20;
/// The tokenizer, the threads' stacks, and pages that are counted late.
const SMALL: usize = 8 * MIB;
/// A checkpoint that always is there.
const TINY: &str = "tests/golden/gpt2-tiny";
/// Tells the process of one load what to load.
const FOLDER: &str = "LOAD_FOLDER";
const ENGINE: &str = "LOAD_ENGINE";
const PRECISION: &str = "LOAD_PRECISION";
const QUANTIZATION: &str = "LOAD_QUANTIZATION";
const SAVE_TO: &str = "LOAD_SAVE_TO";
const LARGEST_TENSOR: &str = "LOAD_LARGEST_TENSOR";

/// A checkpoint of this size on disk, in float32.
struct Checkpoint {
    folder: TempDir,
    /// Bytes of the token embedding, the largest tensor of all here.
    largest_tensor: usize,
}

impl Checkpoint {
    fn write(vocab_size: usize, hidden_size: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "model_type": "gpt2", "vocab_size": vocab_size, "n_positions": 256, "n_embd": hidden_size, "n_layer": 6,
            "n_head": 8, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        });
        let tokenizer = fs::read(format!("{TINY}/tokenizer.json")).unwrap();
        checkpoint::write_gpt2(folder.path(), config.to_string().as_bytes(), &tokenizer).unwrap();
        Self { folder, largest_tensor: vocab_size * hidden_size * size_of::<f32>() }
    }

    /// Runs the test `name` on what is in a folder, in a process of its own.
    fn run(&self, name: &str, folder: &Path, variables: &[(&str, &str)]) {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .env(LARGEST_TENSOR, self.largest_tensor.to_string())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let [said, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success() && said.contains("1 passed"), "{variables:?}:\n{said}{errors}");
        println!("{variables:?}:\n{said}");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// A load with what a library takes at its first use left out.
fn measured(folder: &str, options: &LoadOptions) -> Measured {
    load_model(&[TINY], options).unwrap();
    let before = resident_memory().unwrap();
    let (loaded, peak) = peak_memory_of(|| load_model(&[folder], options).unwrap()).unwrap();
    let info = loaded.model.info();
    let weights = info.parameter_bytes + info.quant_state_bytes;
    Measured { weights, mapped: info.mapped_bytes, peak, kept: resident_memory().unwrap() - before, loaded }
}

/// Bytes.
struct Measured {
    weights: usize,
    /// Those of the weights that need not be resident yet.
    mapped: usize,
    peak: usize,
    kept: usize,
    loaded: Loaded,
}

impl Measured {
    fn check(&self, allowed: usize) {
        let Self { weights, mapped, peak, kept, .. } = *self;
        let [of_weights, of_mapped, of_peak, of_kept] = [weights, mapped, peak, kept].map(|bytes| bytes / MIB);
        println!("weights {of_weights} MiB, {of_mapped} of them mapped, peak {of_peak} MiB, kept {of_kept} MiB");
        assert!(
            peak + SMALL >= weights - mapped,
            "a peak of {peak} bytes cannot be that of {weights} bytes of weights"
        );
        assert!(peak <= allowed, "a peak of {} MiB, {} are allowed", peak / MIB, allowed / MIB);
        // Pages of the file that stayed would be resident too.
        assert!(kept <= weights + SMALL, "{} MiB are kept for {} MiB of weights", kept / MIB, weights / MIB);
    }
}

#[test]
fn loading_takes_little_more_than_the_weights() {
    // Large enough that a second copy of the weights, or all of the file, would show.
    let checkpoint = Checkpoint::write(20_000, 512);
    for engine in Engine::ALL {
        for precision in ["float32", "bfloat16"] {
            let variables = [(ENGINE, engine.name()), (PRECISION, precision)];
            checkpoint.run("one_load", checkpoint.folder.path(), &variables);
        }
    }
}

#[test]
#[ignore = "the test above runs it, in a process of its own"]
fn one_load() {
    let (engine, precision) = (Some(variable(ENGINE).parse().unwrap()), variable(PRECISION).parse().unwrap());
    let measured = measured(&variable(FOLDER), &LoadOptions { engine, precision, ..LoadOptions::default() });
    measured.check(measured.weights * 11 / 10 + largest_tensor() + SMALL);
}

fn largest_tensor() -> usize {
    variable(LARGEST_TENSOR).parse().unwrap()
}

#[test]
fn quantizing_takes_little_more_than_the_quantized_weights() {
    // A third of the layers' weights in float32 would show.
    let checkpoint = Checkpoint::write(4096, 768);
    for quantization in QUANTIZATIONS {
        let saved = tempfile::tempdir().unwrap();
        let engine = (ENGINE, Engine::Kernels.name());
        let variables = [engine, (QUANTIZATION, quantization), (SAVE_TO, saved.path().to_str().unwrap())];
        checkpoint.run("one_quantized_load", checkpoint.folder.path(), &variables);
        checkpoint.run("one_load", saved.path(), &[engine, (PRECISION, "float32")]);
    }
}

const QUANTIZATIONS: [&str; 4] = ["int8", "nf4", "fp4", "nf4, double quantization"];

fn quantization() -> QuantizationConfig {
    match variable(QUANTIZATION).as_str() {
        "int8" => QuantizationConfig::int8(),
        "nf4" => QuantizationConfig::nf4(),
        "fp4" => QuantizationConfig::fp4(),
        _ => QuantizationConfig::four_bit(FourBitOptions { double_quant: true, ..FourBitOptions::default() }),
    }
}

/// Quantizes and saves.
#[test]
#[ignore = "the test above runs it, in a process of its own"]
fn one_quantized_load() {
    let options = LoadOptions {
        engine: Some(variable(ENGINE).parse().unwrap()),
        quantization: Some(quantization()),
        ..LoadOptions::default()
    };
    let measured = measured(&variable(FOLDER), &options);
    measured.check(measured.weights * 12 / 10 + largest_tensor() + SMALL);
    let ((), peak) = peak_memory_of(|| measured.loaded.save_pretrained(variable(SAVE_TO)).unwrap()).unwrap();
    println!("saving {} MiB", peak / MIB);
    // What is mapped becomes resident when it is read.
    assert!(peak <= measured.mapped + largest_tensor() + SMALL, "saving takes {} MiB", peak / MIB);
}
