//! Kernels end with whoever started them, and what cells leave behind ends too.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::class::{Class, MEAN, SQUARE, layers};

/// Processes with this word in their environment or command line, but for this test.
fn with(word: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let all = processes.filter(|entry| entry.file_name().to_string_lossy() != own.as_str()).filter_map(|entry| {
        let read = |name: &str| fs::read(entry.path().join(name)).map(|b| String::from_utf8_lossy(&b).into_owned());
        let text = read("environ").unwrap_or_default() + &read("cmdline").unwrap_or_default();
        text.contains(word).then(|| format!("{} {}", entry.path().display(), read("cmdline").unwrap_or_default()))
    });
    all.collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn endless(path: &Path) {
    let cell = |id: &str, source: &str| json!({"cell_type": "code", "id": id, "metadata": {}, "source": source, "outputs": [], "execution_count": null});
    let started = format!("std::fs::write({path:?}, \"\")?;", path = path.with_extension("started"));
    let notebook = json!({
        "cells": [cell("a", &started), cell("b", "loop { std::hint::spin_loop() }")], "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "quantlab", "display_name": "Rust (quantlab)", "language": "rust"}},
    });
    fs::write(path, notebook.to_string()).unwrap();
}

#[test]
fn a_kernel_ends_when_its_driver_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("endless.ipynb");
    endless(&path);
    let mark = format!("mark-{}", dir.path().file_name().unwrap().to_string_lossy());
    let mut run = Command::new(env!("CARGO_BIN_EXE_lab"))
        .args(["run", "--output"])
        .args([&dir.path().join("out"), &path])
        .env("A_MARK", &mark)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the cell runs", || path.with_extension("started").exists());
    // `cargo lab run`, then its Python: whichever is killed, the rest must go.
    let drivers: Vec<String> =
        with(&mark).into_iter().filter(|line| line.contains("quantlab_jupyter.kernel")).collect();
    assert_eq!(drivers.len(), 1, "{drivers:?}");
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until(&format!("all of them end: {:?}", with(&mark)), || with(&mark).is_empty());
}

#[test]
fn what_cells_leave_behind_is_ended_and_a_killed_grader_keeps_nobody_waiting() {
    // The word `janitor` protects nothing; nor does a session of its own.
    let daemon =
        "std::process::Command::new(\"setsid\").args([\"sh\", \"-c\", \"sleep 7654322; exit\", \"janitor\"]).spawn()?;";
    let killer = "for entry in std::fs::read_dir(\"/proc\")?.flatten() {\n    let command = std::fs::read_to_string(entry.path().join(\"cmdline\")).unwrap_or_default();\n    if command.contains(\"WORK\") && command.contains(\"--cell-timeout\") && command.contains(\"python\") {\n        std::process::Command::new(\"kill\").args([\"-9\", &entry.file_name().to_string_lossy()]).output()?;\n    }\n}\nstd::thread::sleep(std::time::Duration::from_secs(3));";
    for layer in layers().iter().map(|layer| Some(layer.as_str())).chain([None]) {
        let class = Class::new();
        let killer = killer.replace("WORK", &class.path("work").display().to_string());
        class.hand_in("killer.ipynb", &[daemon, &killer], MEAN, SQUARE);
        if layer.is_none() {
            class.hand_in("daemon.ipynb", &[daemon], MEAN, SQUARE);
            class.hand_in("zoe.ipynb", &[], MEAN, SQUARE);
        }
        let grades = class.grade(layer, &[]);
        // In a sandbox the grader cannot even be signalled: by bubblewrap it is not seen, by Landlock `kill` is refused.
        let graded = if layer.is_some() { &["killer"][..] } else { &["daemon", "zoe"] };
        for student in graded {
            assert_eq!(grades.field(student, 5), "graded", "{}", grades.said);
            assert_eq!(grades.field(student, 2), "3.5", "{}", grades.said);
        }
        if layer.is_none() {
            assert_eq!(grades.field("killer", 5), "grader failed", "{}", grades.said);
            assert!(grades.said.contains("No sandbox"), "{}", grades.said);
        }
        wait_until("what cells left is gone", || with("7654322").is_empty());
        let mark = class.path("out").display().to_string();
        wait_until(&format!("kernels are gone: {:?}", with(&mark)), || with(&mark).is_empty());
    }
}

#[test]
fn what_a_graded_kernel_is_linked_to_does_not_change_until_it_ends() {
    let Some(layer) = layers().first() else { return };
    let class = Class::new();
    class.hand_in("smith.ipynb", &["std::thread::sleep(std::time::Duration::from_secs(8));"], MEAN, SQUARE);
    // As a set-up, or a build of the library, would hold it.
    let lock = fs::File::open(crate::home::home().join("warm.lock")).unwrap();
    let mut grading = class.grading(Some(layer), &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut now, mut longest) = (0, 0);
    while grading.try_wait().unwrap().is_none() {
        let is_used = lock.try_lock().is_err();
        lock.unlock().unwrap();
        now = if is_used { now + 1 } else { 0 };
        longest = longest.max(now);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(longest > 50, "{longest} tenths of a second");
}
