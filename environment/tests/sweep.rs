//! Sweeps: what is measured stands in one table, and is measured once. Needs a finished set-up.

#[path = "common/lab.rs"]
mod lab;

use std::fs;
use std::path::Path;

use lab::{lab, text};

/// Sweeps as a settings file says; whether all was measured, and what was said.
fn sweep(settings: &Path, content: &str) -> (bool, String) {
    fs::write(settings, content).unwrap();
    let done = lab(&["sweep"], &[("--", settings)]);
    (done.status.success(), text(&done.stdout) + &text(&done.stderr))
}

#[test]
fn settings_that_say_nothing_or_something_else_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("few.toml");
    for (content, said) in [
        ("models = [", "few.toml: "),
        ("models = ['embedded']", "nothing is to be measured"),
        ("models = ['embedded']\ninferense = []", "unknown field `inferense`"),
        ("models = 'embedded'\ninference = []", "few.toml: invalid type: string"),
    ] {
        let (is_done, found) = sweep(&settings, content);
        assert!(!is_done && found.contains(said), "{content}: {found}");
    }
}

#[test]
#[ignore = "compiles the benchmark, which takes some minutes"]
fn models_are_measured_once_and_one_that_fails_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("few.toml");
    let few = "models = ['./none', 'embedded']\n\
               inference = ['--precision=float32,int8', '--batch=1', '--prompt=8', '--repeats=1']";
    let (is_done, said) = sweep(&settings, few);
    assert!(!is_done && said.contains("1 of 2 failed"), "{said}");
    assert!(said.contains("inference of ./none: the benchmark ended with"), "{said}");
    let table = fs::read_to_string(dir.path().join("few/inference.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("model,engine,device,precision,batch,prompt,context,"), "{table}");
    assert!(lines[0].contains(",processor,") && lines[0].contains(",decode_tok_s,"), "{table}");
    let precisions: Vec<&str> = lines[1..].iter().map(|line| line.split(',').nth(3).unwrap()).collect();
    assert_eq!(precisions, ["float32", "int8"], "{table}");
    let (_, said) = sweep(&settings, few);
    assert!(said.contains("[2/2] inference of embedded: measured before"), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("few/inference.csv")).unwrap(), table);
}
