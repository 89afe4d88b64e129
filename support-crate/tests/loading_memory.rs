//! What loading a model takes besides its weights. Each load has a process of its own: the peak is that of
//! the whole process, and memory that an earlier load gave back would hide what a later one takes.
#![cfg(target_os = "linux")]

#[path = "common/checkpoint.rs"]
mod checkpoint;

use std::fs;
use std::process::Command;

use quantlab::measure::{peak_memory_of, resident_memory};
use quantlab::model::{Backend, LoadOptions, Loaded, load_model};
use serde_json::json;

const MIB: usize = 1 << 20;
/// Large enough that a second copy of the weights, or all of the file, would show.
const VOCAB_SIZE: usize = 20_000;
const HIDDEN_SIZE: usize = 512;
const LARGEST_TENSOR: usize = VOCAB_SIZE * HIDDEN_SIZE * size_of::<f32>();
/// The tokenizer, the threads' stacks, and pages that are counted late.
const SMALL: usize = 8 * MIB;
/// A checkpoint that always is there.
const TINY: &str = "tests/golden/gpt2-tiny";
/// Tells the process of one load what to load.
const FOLDER: &str = "LOAD_FOLDER";
const BACKEND: &str = "LOAD_BACKEND";
const PRECISION: &str = "LOAD_PRECISION";

#[test]
fn loading_takes_little_more_than_the_weights() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({
        "model_type": "gpt2", "vocab_size": VOCAB_SIZE, "n_positions": 256, "n_embd": HIDDEN_SIZE, "n_layer": 6,
        "n_head": 8, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
    });
    let tokenizer = fs::read(format!("{TINY}/tokenizer.json")).unwrap();
    checkpoint::write_gpt2(folder.path(), config.to_string().as_bytes(), &tokenizer).unwrap();
    for backend in Backend::ALL {
        for precision in ["float32", "bfloat16"] {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "one_load", "--ignored"])
                .env(FOLDER, folder.path())
                .env(BACKEND, backend.name())
                .env(PRECISION, precision)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{backend}, {precision}:\n{said}");
        }
    }
}

#[test]
#[ignore = "the test above runs it, in a process of its own"]
fn one_load() {
    let [folder, backend, precision] = [FOLDER, BACKEND, PRECISION].map(|name| std::env::var(name).unwrap());
    let load = |folder: &str| -> Loaded {
        let (backend, precision) = (backend.parse().unwrap(), precision.parse().unwrap());
        load_model(&[folder], &LoadOptions { backend, precision, ..LoadOptions::default() }).unwrap()
    };
    // What a library takes at its first use is not loading's.
    load(TINY);
    let before = resident_memory().unwrap();
    let (loaded, peak) = peak_memory_of(|| load(&folder)).unwrap();
    let kept = resident_memory().unwrap() - before;
    let weights = loaded.model.info().parameter_bytes;
    assert!(peak >= weights - SMALL, "a peak of {peak} bytes cannot be that of {weights} bytes of weights");
    let allowed = weights * 11 / 10 + LARGEST_TENSOR + SMALL;
    assert!(peak <= allowed, "a peak of {} MiB, {} are allowed", peak / MIB, allowed / MIB);
    // Pages of the file that stayed would be resident too.
    assert!(kept <= weights + SMALL, "{} MiB are kept for {} MiB of weights", kept / MIB, weights / MIB);
}
