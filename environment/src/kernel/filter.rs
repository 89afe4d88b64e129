//! Stands as `cargo` in the kernel's `CARGO_HOME`, where evcxr's rust-analyzer looks first.
//!
//! rust-analyzer loads the sources of every package that `cargo metadata` lists: some 370, most of them
//! (TLS, HTTP, async, procedural macros) of types that no cell ever names. Leaving those out of the answer
//! halves the kernel's memory and takes seconds off its start.
//!
//! It also asks about the standard library's own workspace; without an answer it infers no type that goes
//! through `Result`. Its dependencies lie in a Cargo home of their own: in the kernel's they would be
//! candidates when evcxr resolves, offline, what the cells' crate depends on.
//! Everything else is passed on untouched.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

/// The cargo that requests are passed on to.
pub const REAL_CARGO: &str = "QUANTLAB_REAL_CARGO";

/// Packages beyond the support crate's direct dependencies whose types show up in cells.
const ALSO_KEPT: [&str; 7] =
    ["ctx", "num-traits", "plotters-backend", "plotters-svg", "polars-core", "polars-error", "polars-utils"];

/// Direct dependencies whose types no cell holds: they are used inside, or only to set something up.
const LEFT_OUT: [&str; 11] = [
    "candle-transformers",
    "hf-hub",
    "libm",
    "memmap2",
    "num_cpus",
    "rand",
    "resvg",
    "safetensors",
    "serde",
    "serde_json",
    "thiserror",
];

/// Where the standard library's dependencies are.
pub const STD_CARGO_HOME: &str = "QUANTLAB_STD_CARGO_HOME";

/// The standard library's packages whose types cells name (`HashMap` is made of hashbrown's).
const STD: [&str; 5] = ["alloc", "core", "hashbrown", "proc_macro", "std"];

/// Runs as `cargo`.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let real = std::env::var_os(REAL_CARGO).unwrap_or_else(|| "cargo".into());
    let done = match question(&args) {
        Question::Cells => answer(Command::new(&real).args(&args), keep_named_packages),
        Question::StandardLibrary => {
            let mut command = Command::new(&real);
            command.args(&args);
            if let Some(home) = std::env::var_os(STD_CARGO_HOME) {
                command.env("CARGO_HOME", home);
            }
            answer(&mut command, |metadata| keep(metadata, &STD.map(str::to_owned).into()))
        }
        Question::Other => Err(pass_on(&real, &args)),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn pass_on(real: &OsString, args: &[OsString]) -> anyhow::Error {
    let error = Command::new(real).args(args).exec();
    anyhow::Error::new(error).context(format!("cannot start {}", Path::new(real).display()))
}

/// What `cargo metadata` is asked about.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    Cells,
    StandardLibrary,
    Other,
}

fn question(args: &[OsString]) -> Question {
    let has = |name: &str| args.iter().any(|a| a == name);
    if !has("metadata") || has("--no-deps") {
        return Question::Other;
    }
    let manifest = args.iter().position(|a| a == "--manifest-path").and_then(|i| args.get(i + 1)).map(Path::new);
    let cells = std::env::var_os("EVCXR_TMPDIR");
    match manifest {
        Some(manifest) if manifest.ends_with("lib/rustlib/src/rust/library/Cargo.toml") => Question::StandardLibrary,
        Some(manifest) if cells.is_some_and(|dir| manifest.starts_with(dir)) => Question::Cells,
        _ => Question::Other,
    }
}

/// Asks the real cargo, and prints its answer as `edit` leaves it.
fn answer(command: &mut Command, edit: impl FnOnce(&mut Value)) -> Result<ExitCode> {
    let done = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !done.status.success() {
        return Ok(ExitCode::FAILURE);
    }
    let mut metadata: Value = serde_json::from_slice(&done.stdout).context("cargo metadata did not print JSON")?;
    edit(&mut metadata);
    println!("{metadata}");
    Ok(ExitCode::SUCCESS)
}

/// Keeps the cells' crate, the support crate, and what a cell may name through it.
fn keep_named_packages(metadata: &mut Value) {
    let mut names: HashSet<String> = ALSO_KEPT.iter().map(|s| s.to_string()).collect();
    for package in array(metadata, "packages") {
        // Path dependencies of the cells' crate, the support crate first of all, and what they name.
        if package["source"].is_null() {
            names.extend(package["name"].as_str().map(str::to_owned));
            let direct = package["dependencies"].as_array().into_iter().flatten();
            names.extend(direct.filter(|d| d["kind"].is_null()).filter_map(|d| d["name"].as_str()).map(str::to_owned));
        }
    }
    for name in LEFT_OUT {
        names.remove(name);
    }
    keep(metadata, &names);
}

/// Drops all other packages, and every mention of them in the dependency graph.
fn keep(metadata: &mut Value, names: &HashSet<String>) {
    let packages = array(metadata, "packages");
    packages.retain(|p| p["name"].as_str().is_some_and(|n| names.contains(n)));
    let ids: HashSet<String> = packages.iter().filter_map(|p| p["id"].as_str()).map(str::to_owned).collect();
    let kept = |id: &Value| id.as_str().is_some_and(|id| ids.contains(id));
    let nodes = array(&mut metadata["resolve"], "nodes");
    nodes.retain(|n| kept(&n["id"]));
    for node in nodes {
        array(node, "deps").retain(|d| kept(&d["pkg"]));
        array(node, "dependencies").retain(kept);
    }
}

/// The array at `key`; an empty one (of its own) where there is none.
fn array<'a>(value: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    if !value[key].is_array() {
        value[key] = Value::Array(Vec::new());
    }
    match &mut value[key] {
        Value::Array(items) => items,
        _ => unreachable!("made an array above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packages_that_no_cell_names_disappear_everywhere() {
        let mut metadata = json!({
            "packages": [
                {"name": "ctx", "id": "ctx#1", "source": null, "dependencies": [{"name": "quantlab", "kind": null}]},
                {"name": "quantlab", "id": "q#1", "source": null, "dependencies": [
                    {"name": "polars", "kind": null}, {"name": "proptest", "kind": "dev"}, {"name": "thiserror", "kind": null}]},
                {"name": "polars", "id": "p#1", "source": "registry", "dependencies": [{"name": "tokio", "kind": null}]},
                {"name": "tokio", "id": "t#1", "source": "registry", "dependencies": []},
                {"name": "proptest", "id": "pt#1", "source": "registry", "dependencies": []},
                {"name": "thiserror", "id": "th#1", "source": "registry", "dependencies": []},
            ],
            "resolve": {"root": "ctx#1", "nodes": [
                {"id": "ctx#1", "deps": [{"pkg": "q#1"}], "dependencies": ["q#1"]},
                {"id": "q#1", "deps": [{"pkg": "p#1"}, {"pkg": "th#1"}], "dependencies": ["p#1", "th#1"]},
                {"id": "p#1", "deps": [{"pkg": "t#1"}], "dependencies": ["t#1"]},
                {"id": "t#1", "deps": [], "dependencies": []},
            ]},
        });
        keep_named_packages(&mut metadata);
        let names: Vec<_> =
            metadata["packages"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["ctx", "quantlab", "polars"]);
        let text = metadata.to_string();
        assert!(!text.contains("t#1") && !text.contains("th#1"), "{text}");
        assert_eq!(metadata["resolve"]["root"], "ctx#1");
    }

    #[test]
    fn only_two_questions_are_answered_with_less() {
        let ask = |args: &[&str]| question(&args.iter().map(OsString::from).collect::<Vec<_>>());
        let library = "/t/lib/rustlib/src/rust/library/Cargo.toml";
        assert_eq!(ask(&["metadata", "--manifest-path", library]), Question::StandardLibrary);
        assert_eq!(ask(&["metadata", "--no-deps", "--manifest-path", library]), Question::Other);
        assert_eq!(ask(&["build"]), Question::Other);
        assert_eq!(ask(&["metadata", "--manifest-path", "/elsewhere/Cargo.toml"]), Question::Other);
    }

    #[test]
    fn metadata_without_a_graph_is_taken_as_it_is() {
        let mut metadata = json!({"packages": [], "resolve": null});
        keep_named_packages(&mut metadata);
        assert_eq!(metadata["packages"], json!([]));
    }
}
