//! Notebooks for tests, run through the real kernel.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// How a notebook ran.
pub struct Run {
    pub succeeded: bool,
    /// What `cargo lab run` said.
    pub report: String,
    /// The executed copy; it is kept on failure too.
    pub copy: String,
}

/// Runs a notebook of these code cells, in a folder of its own.
pub fn run(cells: &[&str], timeout_s: u32) -> Run {
    run_and(cells, timeout_s, |_| ())
}

/// As [`run`]; something is done to the tool meanwhile.
pub fn run_and(cells: &[&str], timeout_s: u32, meanwhile: impl FnOnce(&mut Child)) -> Run {
    let cell = |(i, source): (usize, &&str)| json!({"cell_type": "code", "id": format!("cell-{i}"), "metadata": {}, "source": source, "outputs": [], "execution_count": null});
    let notebook = json!({
        "cells": cells.iter().enumerate().map(cell).collect::<Vec<Value>>(), "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "quantlab", "display_name": "Rust (quantlab)", "language": "rust"}},
    });
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("n.ipynb"), dir.path().join("out"));
    std::fs::write(&path, notebook.to_string()).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"))
        .args(["run", "--timeout", &timeout_s.to_string(), "--output"])
        .args([&out, &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    meanwhile(&mut lab);
    let done = lab.wait_with_output().unwrap();
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    let copy = out.join(dir.path().file_name().unwrap()).join("n.ipynb");
    let copy = std::fs::read_to_string(copy).unwrap_or_else(|_| panic!("no executed copy is kept\n{report}"));
    Run { succeeded: done.status.success(), report, copy }
}
