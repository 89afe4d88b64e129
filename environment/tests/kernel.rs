//! Notebooks through the real kernel. Needs a finished set-up: `cargo lab test` sees to that.

mod common;
#[path = "common/home.rs"]
mod home;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{run, run_and};
use home::home;

/// What is said about a run that must fail.
fn failing(cells: &[&str], timeout_s: u32) -> String {
    let run = run(cells, timeout_s);
    assert!(!run.succeeded, "{}", run.report);
    run.report
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
    let start = |value: u32| {
        std::thread::spawn(move || {
            let mine = format!("let mine = {value}_u32;");
            let run = run(&[&mine, "fn twice(x: u32) -> u32 { 2 * x }", "println!(\"got {}\", twice(mine));"], 120);
            assert!(run.succeeded, "{}", run.report);
            run.copy
        })
    };
    let (one, two) = (start(21), start(400));
    assert!(one.join().unwrap().contains("got 42"));
    assert!(two.join().unwrap().contains("got 800"));
}

/// What the one shared library is for: statics exist once, and generic calls find their C symbols.
#[test]
fn tensors_pass_between_cells_and_generic_tch_calls_load() {
    let cells = [
        "use quantlab::candle_core::{Device as CandleDevice, Tensor};\nlet a = Tensor::arange(0f32, 4f32, &CandleDevice::Cpu)?;",
        "println!(\"candle {}\", a.sum_all()?.to_scalar::<f32>()?);",
        "let t = quantlab::tch::Tensor::from_slice(&[1.5f32, 2.5]);\nprintln!(\"tch {}\", t.sum(quantlab::tch::Kind::Float).double_value(&[]));",
        "let frame = quantlab::polars::df!(\"x\" => [1, 2, 3])?;\nprintln!(\"polars {}\", frame.height());",
        "quantlab_course::claim(\"polars has four rows\", frame.height() == 4)",
    ];
    let run = run(&cells, 120);
    assert!(run.succeeded && run.report.contains("[4] not so: polars has four rows"), "{}", run.report);
    for line in ["candle 6", "tch 4", "polars 3"] {
        assert!(run.copy.contains(line), "{line}: {}", run.copy);
    }
}

#[test]
fn a_dependency_that_a_cell_asks_for_is_built_and_its_types_are_known() {
    // Plain cells are built without Cargo; this one cannot be, nor can the next one by the call that was kept.
    let cells = ["let before = 20;", ":dep serde_json", "let value = serde_json::Value::from(before + 1);"];
    let run = run(&[&cells[..], &["let after = value.clone();", "println!(\"got {after}\");"]].concat(), 120);
    assert!(run.succeeded && run.copy.contains("got 21"), "{}", run.report);
}

#[test]
fn ctrl_c_ends_the_cell_and_the_run_and_keeps_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    let running = dir.path().join("running");
    let long = format!(
        "std::fs::write({:?}, \"\")?;\nloop {{ generate(&loaded, \"Once\", &GenerateOptions::default())?; }}",
        running.display()
    );
    let load =
        "use quantlab::prelude::*;\nlet loaded = load_model_and_tokenizer(&[\"embedded\"], \"float32\", Device::Cpu)?;";
    let run = run_and(&[load, &long, "println!(\"not reached\");"], 120, |lab| {
        while !running.exists() && lab.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // As a terminal does it: to the tool and all that it has started in its own group.
        let group = format!("-{}", lab.id());
        assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    });
    assert!(!run.succeeded && run.report.contains("FAILED at cell 2: interrupted"), "{}", run.report);
    assert!(run.report.contains("still there") && !run.copy.contains("not reached\\n\""), "{}", run.report);
}

#[test]
fn ctrl_c_while_the_kernel_starts_ends_both() {
    // The first process that another one's first thread has started.
    let child = |of: u32| {
        let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).ok()?;
        children.split_whitespace().next()?.parse::<u32>().ok()
    };
    let is_kernel = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("lab\0kernel\0"))
    };
    let mut kernel = None;
    let run = run_and(&["println!(\"not reached\");"], 120, |lab| {
        while kernel.is_none() && lab.try_wait().unwrap().is_none() {
            kernel = child(lab.id()).and_then(child).filter(is_kernel);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let group = format!("-{}", lab.id());
        assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    });
    let kernel = kernel.unwrap();
    assert!(!run.succeeded && run.report.contains("FAILED: interrupted"), "{}", run.report);
    assert!(run.report.contains("while the kernel started") && !run.report.contains("cell "), "{}", run.report);
    assert!(!is_kernel(&kernel), "the kernel is left");
}

#[test]
fn a_new_notebook_runs_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.ipynb");
    let lab = |args: &[&std::ffi::OsStr]| Command::new(env!("CARGO_BIN_EXE_lab")).args(args).output().unwrap();
    assert!(lab(&["new".as_ref(), path.as_ref()]).status.success());
    let ran = lab(&["run".as_ref(), "--html".as_ref(), "--inplace".as_ref(), path.as_ref()]);
    let copy = std::fs::read_to_string(&path).unwrap();
    assert!(
        ran.status.success() && copy.contains("decode_tokens_per_sec"),
        "{}\n{copy}",
        String::from_utf8_lossy(&ran.stdout)
    );
    let page = std::fs::read_to_string(dir.path().join("mine.html")).unwrap();
    assert!(page.contains("decode_tokens_per_sec") && !page.contains("<script"), "{page}");
}

#[test]
fn a_page_holds_all_of_its_notebook_and_does_nothing() {
    let home = home();
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new(home.join("python/bin/python"));
    python.arg(crate_dir.join("tests/pages.py")).arg(crate_dir.with_file_name("notebooks"));
    let done = python.env("PYTHONPATH", crate_dir.join("python")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// What a page of the docs shows as cells is run as cells; what it shows as text, one of them prints.
#[test]
fn the_page_on_ones_own_model_runs_as_a_notebook() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs/own-model.md")).unwrap();
    let blocks = |kind: &str| -> Vec<String> {
        let begin = format!("\n```{kind}\n");
        page.split(&begin).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
    };
    let (cells, printed) = (blocks("rust"), blocks("text"));
    assert!(cells.len() >= 3 && !printed.is_empty());
    let run = run(&cells.iter().map(String::as_str).collect::<Vec<_>>(), 300);
    assert!(run.succeeded, "{}", run.report);
    for text in printed {
        assert!(run.copy.contains(&text), "{text}\n{}", run.copy);
    }
}

/// What rust-analyzer infers from sources without bodies: impls that macros make, closures, generic results.
#[test]
fn the_types_of_variables_are_found() {
    let cells = [
        "use quantlab::prelude::*;\nlet v = vec![1u8, 2];\nlet text = 1u8.to_string();",
        "let pairs: Vec<_> = v.iter().map(|x| (*x, x.to_string())).collect();\nlet mean = v.iter().map(|&x| f64::from(x)).sum::<f64>();",
        "let by_id = pairs.clone().into_iter().collect::<std::collections::HashMap<u8, String>>();\nlet root = 2.0f64.sqrt().powi(2).round();",
        "let loaded = load_model_and_tokenizer(&[\"embedded\"], \"float32\", Device::Cpu)?;\nlet ids = loaded.tokenizer.encode(\"Once\")?;",
        "let frame = quantlab::polars::df!(\"x\" => [1, 2])?;\nlet column = frame.column(\"x\")?.clone();",
        "let a = quantlab::candle_core::Tensor::arange(0f32, 4f32, &quantlab::candle_core::Device::Cpu)?;\nlet twice = (a.sum_all()? * 2.0)?;",
        "println!(\"{text} {} {mean} {} {root} {} {} {twice}\", pairs.len(), by_id[&2], ids.len(), column.len());",
    ];
    let run = run(&cells, 120);
    assert!(run.succeeded && run.copy.contains("1 2 3 2 2 1 2 "), "{} {}", run.report, run.copy);
}

/// Else each run of the tests builds every macro crate, and what depends on one, once more: minutes.
#[test]
fn set_up_and_tests_build_each_dependency_with_the_same_features() {
    let built = |packages: &[&str], edges: &str| -> BTreeSet<String> {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        lab.args(["exec", "cargo", "tree", "--locked", "--offline"]);
        lab.args(["--prefix=none", "--format={p} [{f}]", "--edges", edges]);
        lab.args(packages.iter().flat_map(|package| ["--package", package])).current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = lab.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tree = String::from_utf8(output.stdout).unwrap();
        tree.lines().map(|line| line.replace(" (*)", "").replace(" (proc-macro)", "")).collect()
    };
    let (set_up, tests) =
        (built(&["quantlab"], "normal,build"), built(&["quantlab", "quantlab-embedded-model"], "normal,build,dev"));
    let otherwise: Vec<&String> = set_up.difference(&tests).collect();
    assert!(set_up.len() > 100 && otherwise.is_empty(), "built with other features for the tests: {otherwise:#?}");
}
