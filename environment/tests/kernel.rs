//! Notebooks through the real kernel. Needs a finished set-up: `cargo lab test` sees to that.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A notebook of code cells, in a folder of its own.
fn notebook(dir: &Path, name: &str, cells: &[&str]) -> PathBuf {
    let cells: Vec<Value> = cells
        .iter()
        .enumerate()
        .map(|(i, source)| {
            json!({"cell_type": "code", "id": format!("cell-{i}"), "metadata": {}, "source": source, "outputs": [], "execution_count": null})
        })
        .collect();
    let text = json!({
        "cells": cells, "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "quantlab", "display_name": "Rust (quantlab)", "language": "rust"}},
    });
    let path = dir.join(name);
    std::fs::write(&path, text.to_string()).unwrap();
    path
}

fn lab_run(notebook: &Path, out: &Path, timeout_s: u32) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lab"))
        .args(["run", "--timeout", &timeout_s.to_string(), "--output"])
        .arg(out)
        .arg(notebook)
        .output()
        .unwrap()
}

/// Standard output of a run that must fail.
fn failing(cells: &[&str], timeout_s: u32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = notebook(dir.path(), "n.ipynb", cells);
    let out = dir.path().join("out");
    let done = lab_run(&path, &out, timeout_s);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(!done.status.success(), "{text}");
    let copy = out.join(dir.path().file_name().unwrap()).join("n.ipynb");
    assert!(copy.is_file(), "the executed copy is kept on failure too\n{text}");
    text
}

#[test]
fn a_compile_error_is_named_with_its_cell() {
    let text = failing(&["let a = 1;", "let b: u32 = \"text\";"], 120);
    assert!(text.contains("FAILED at cell 2: compile error") && text.contains("let b: u32"), "{text}");
    assert!(text.contains("mismatched types"), "{text}");
}

#[test]
fn a_panic_is_a_failure_although_the_kernel_says_ok() {
    let text = failing(&["let v: Vec<u32> = vec![];\nprintln!(\"{}\", v[7]);", "println!(\"not reached\");"], 120);
    assert!(text.contains("FAILED at cell 1: panic") && text.contains("index out of bounds"), "{text}");
    assert!(!text.contains("not reached"), "{text}");
}

#[test]
fn an_err_that_leaves_a_cell_is_a_failure_although_the_kernel_says_ok() {
    let text = failing(&["use quantlab::prelude::*;", "let dtype = resolve_dtype(\"float7\", Device::Cpu)?;"], 120);
    assert!(text.contains("FAILED at cell 2: an Err left the cell") && text.contains("float7"), "{text}");
}

#[test]
fn the_kernels_death_is_told_from_an_error() {
    let kill = "std::process::Command::new(\"kill\").arg(\"-9\").arg(std::os::unix::process::parent_id().to_string()).status()?;\nstd::thread::sleep(std::time::Duration::from_secs(30));";
    let text = failing(&["let a = 1;", kill], 120);
    assert!(text.contains("FAILED at cell 2: kernel died"), "{text}");
}

#[test]
fn a_cell_that_does_not_end_is_stopped() {
    let text = failing(&["loop { std::thread::sleep(std::time::Duration::from_millis(50)); }"], 10);
    assert!(text.contains("FAILED at cell 1: timeout") && text.contains("--timeout"), "{text}");
}

#[test]
fn two_kernels_at_once_do_not_disturb_each_other_and_leave_nothing_behind() {
    let run = |value: u32| {
        std::thread::spawn(move || {
            let dir = tempfile::tempdir().unwrap();
            let cells = [
                format!("let mine = {value}_u32;"),
                "fn twice(x: u32) -> u32 { 2 * x }".to_owned(),
                "println!(\"got {}\", twice(mine));".to_owned(),
            ];
            let path = notebook(dir.path(), "n.ipynb", &cells.each_ref().map(String::as_str));
            let out = dir.path().join("out");
            let done = lab_run(&path, &out, 120);
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
            std::fs::read_to_string(out.join(dir.path().file_name().unwrap()).join("n.ipynb")).unwrap()
        })
    };
    let (one, two) = (run(21), run(400));
    assert!(one.join().unwrap().contains("got 42"));
    assert!(two.join().unwrap().contains("got 800"));
}

/// What the one shared library is for: statics exist once, and generic calls find their C symbols.
#[test]
fn tensors_pass_between_cells_and_generic_tch_calls_load() {
    let dir = tempfile::tempdir().unwrap();
    let cells = [
        "use quantlab::candle_core::{Device as CandleDevice, Tensor};\nlet a = Tensor::arange(0f32, 4f32, &CandleDevice::Cpu)?;",
        "println!(\"candle {}\", a.sum_all()?.to_scalar::<f32>()?);",
        "let t = quantlab::tch::Tensor::from_slice(&[1.5f32, 2.5]);\nprintln!(\"tch {}\", t.sum(quantlab::tch::Kind::Float).double_value(&[]));",
        "let frame = quantlab::polars::df!(\"x\" => [1, 2, 3])?;\nprintln!(\"polars {}\", frame.height());",
    ];
    let path = notebook(dir.path(), "n.ipynb", &cells);
    let out = dir.path().join("out");
    let done = lab_run(&path, &out, 120);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let text = std::fs::read_to_string(out.join(dir.path().file_name().unwrap()).join("n.ipynb")).unwrap();
    assert!(text.contains("candle 6") && text.contains("tch 4") && text.contains("polars 3"), "{text}");
}
