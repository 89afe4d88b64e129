//! `cargo metadata`, without the packages whose types no cell ever names.
//!
//! rust-analyzer loads the sources of every package that `cargo metadata` lists: some 300, most of them
//! (TLS, HTTP, async, procedural macros) of types that no cell ever names. Leaving those out of the answer
//! halves the kernel's memory and takes seconds off its start.
//!
//! It also asks about the standard library's own workspace; without an answer it infers no type that goes
//! through `Result`. Its dependencies lie in a Cargo home of their own: in the kernel's they would be
//! candidates when evcxr resolves, offline, what the cells' crate depends on.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell::CELL;
use super::kept::Kept;
use super::skeleton;
use super::tool::tool;
use crate::home::write_atomically;

/// Where the standard library's dependencies are.
pub const STD_CARGO_HOME: &str = "QUANTLAB_STD_CARGO_HOME";

/// Packages beyond the support crate's direct dependencies whose types show up in cells.
const ALSO_KEPT: [&str; 6] =
    ["num-traits", "plotters-backend", "plotters-svg", "polars-core", "polars-error", "polars-utils"];

/// Direct dependencies whose types no cell holds: they are used inside, or only to set something up.
const LEFT_OUT: [&str; 20] = [
    "base64",
    "hf-hub",
    "landlock",
    "libc",
    "libm",
    "memmap2",
    "minijinja",
    "minijinja-contrib",
    "num_cpus",
    "polars-io",
    "rand",
    "regex",
    "resvg",
    "safetensors",
    "serde",
    "serde_json",
    "sha1",
    "sha2",
    "thiserror",
    "ureq",
];

/// The standard library's packages whose types cells name (`HashMap` is made of hashbrown's).
const STD: [&str; 5] = ["alloc", "core", "hashbrown", "proc_macro", "std"];

/// What `cargo metadata` is asked about.
#[derive(Debug, PartialEq, Eq)]
pub enum Question {
    /// The cells' crate, in this folder: by rust-analyzer, and by evcxr, which looks up what its dependencies are called.
    Cells(PathBuf),
    /// The standard library, whose manifest this is.
    StandardLibrary(PathBuf),
}

impl Question {
    /// What these arguments ask; `cells` is the folder of the cells' crate.
    pub fn of(args: &[OsString], cells: Option<&Path>) -> Option<Self> {
        let has = |name: &str| args.iter().any(|arg| arg == name);
        if !has("metadata") || has("--no-deps") {
            return None;
        }
        let manifest = args.iter().position(|a| a == "--manifest-path").and_then(|i| args.get(i + 1)).map(Path::new);
        match (manifest, cells) {
            (Some(manifest), _) if manifest.ends_with("lib/rustlib/src/rust/library/Cargo.toml") => {
                Some(Self::StandardLibrary(manifest.to_owned()))
            }
            (Some(manifest), Some(dir)) if manifest.starts_with(dir) => Some(Self::Cells(dir.to_owned())),
            (None, Some(dir)) if std::env::current_dir().is_ok_and(|here| here == dir) => {
                Some(Self::Cells(dir.to_owned()))
            }
            _ => None,
        }
    }
}

/// What Cargo printed, edited, and the lock file that it left.
#[derive(Serialize, Deserialize)]
struct Answer {
    metadata: Value,
    notes: String,
    lock: Option<String>,
}

/// The standard library's sources in the toolchain.
fn original_library() -> PathBuf {
    let rustc = tool("rustc");
    skeleton::original_library(rustc.parent().and_then(Path::parent).unwrap_or(&rustc))
}

/// Prints what Cargo answers, or answered before when all was the same.
pub fn answer(question: &Question, args: &[OsString]) -> Result<ExitCode> {
    let (kept, lock) = match question {
        Question::Cells(dir) => (Kept::of_cells(dir, args), Some(dir.join("Cargo.lock"))),
        Question::StandardLibrary(manifest) => (Kept::of_library(manifest, args), None),
    };
    let recalled = kept.as_ref().and_then(Kept::recall::<Answer>);
    if let Some(answer) = recalled.filter(|answer| names_what_is_there(&answer.metadata)) {
        if let (Some(file), Some(lock)) = (lock, answer.lock) {
            write_atomically(&file, lock.as_bytes())?;
        }
        eprint!("{}", answer.notes);
        println!("{}", answer.metadata);
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(tool("cargo"));
    let library = original_library();
    match question {
        Question::Cells(_) => drop(command.args(args)),
        Question::StandardLibrary(manifest) => {
            // The skeleton is not whole enough for Cargo.
            let original = library.join("Cargo.toml").into_os_string();
            command.args(args.iter().map(|arg| if arg == manifest { &original } else { arg }));
            command.envs(std::env::var_os(STD_CARGO_HOME).map(|home| ("CARGO_HOME", home)));
        }
    }
    let done = command.output().context("cannot start cargo")?;
    let notes = String::from_utf8_lossy(&done.stderr).into_owned();
    eprint!("{notes}");
    if !done.status.success() {
        return Ok(ExitCode::FAILURE);
    }
    let mut text = String::from_utf8_lossy(&done.stdout).into_owned();
    if let Question::StandardLibrary(manifest) = question
        && let Some(shown) = manifest.parent()
    {
        text = text.replace(&*library.to_string_lossy(), &shown.to_string_lossy());
    }
    let mut metadata: Value = serde_json::from_str(&text).context("cargo metadata did not print JSON")?;
    match question {
        Question::Cells(_) => keep_named_packages(&mut metadata),
        Question::StandardLibrary(_) => keep(&mut metadata, &STD.map(str::to_owned).into()),
    }
    skeleton::show_instead(&mut metadata);
    println!("{metadata}");
    if let Some(kept) = kept {
        kept.remember(&Answer { metadata, notes, lock: lock.and_then(|file| fs::read_to_string(file).ok()) });
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the sources of all packages are where an answer says: a skeleton may have made way for another.
fn names_what_is_there(metadata: &Value) -> bool {
    let mut manifests =
        metadata["packages"].as_array().into_iter().flatten().filter_map(|p| p["manifest_path"].as_str());
    manifests.all(|manifest| Path::new(manifest).exists())
}

/// Keeps the cells' crate and, of its dependencies and the support crate's, those that a cell may name.
fn keep_named_packages(metadata: &mut Value) {
    let mut names: HashSet<String> = ALSO_KEPT.iter().map(|s| s.to_string()).collect();
    for package in array(metadata, "packages").iter().filter(|package| package["source"].is_null()) {
        let direct = package["dependencies"].as_array().into_iter().flatten().filter(|d| d["kind"].is_null());
        let direct = direct.filter_map(|d| d["name"].as_str());
        // What a notebook asks for by `:dep` is there to be named, whatever the support crate does with it.
        let is_cells = package["name"] == CELL;
        names.extend(direct.filter(|name| is_cells || !LEFT_OUT.contains(name)).map(str::to_owned));
        names.extend(package["name"].as_str().map(str::to_owned));
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
                {"name": "ctx", "id": "ctx#1", "source": null, "dependencies": [
                    {"name": "quantlab", "kind": null}, {"name": "serde", "kind": null}]},
                {"name": "quantlab", "id": "q#1", "source": null, "dependencies": [
                    {"name": "polars", "kind": null}, {"name": "proptest", "kind": "dev"}, {"name": "thiserror", "kind": null},
                    {"name": "serde", "kind": null}]},
                {"name": "serde", "id": "s#1", "source": "registry", "dependencies": []},
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
        assert_eq!(names, ["ctx", "quantlab", "serde", "polars"]);
        let text = metadata.to_string();
        assert!(!text.contains("t#1") && !text.contains("th#1"), "{text}");
        assert_eq!(metadata["resolve"]["root"], "ctx#1");
    }

    /// A new dependency of the library's would be one more crate whose sources every kernel loads.
    #[test]
    fn what_kernels_load_is_chosen() {
        let support_crate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../support-crate");
        let mut shown: Vec<String> = Vec::new();
        for folder in ["", "course", "kernels"] {
            let text = fs::read_to_string(support_crate.join(folder).join("Cargo.toml")).unwrap();
            let tables = text.split("\n[").filter(|table| {
                table.split(']').next().unwrap().ends_with(".dependencies") || table.starts_with("dependencies]")
            });
            let lines = tables
                .flat_map(|table| table.lines().skip(1))
                .filter(|line| line.contains('=') && !line.starts_with('#'));
            shown.extend(lines.map(|line| line.split(['.', ' ', '=']).next().unwrap().to_owned()));
        }
        shown.retain(|name| !LEFT_OUT.contains(&name.as_str()));
        shown.sort();
        shown.dedup();
        let chosen = [
            "candle-core",
            "candle-nn",
            "half",
            "plotters",
            "polars",
            "quantlab",
            "quantlab-kernels",
            "tch",
            "tokenizers",
        ];
        assert_eq!(shown, chosen, "does a cell hold its types? if not, it belongs into `LEFT_OUT`");
    }

    #[test]
    fn only_questions_about_cells_and_library_are_answered_here() {
        let cells = Path::new("/live/kernel-1");
        let ask = |args: &[&str]| Question::of(&args.iter().map(OsString::from).collect::<Vec<_>>(), Some(cells));
        let library = "/t/lib/rustlib/src/rust/library/Cargo.toml";
        assert_eq!(ask(&["metadata", "--manifest-path", library]), Some(Question::StandardLibrary(library.into())));
        assert_eq!(
            ask(&["metadata", "--manifest-path", "/live/kernel-1/Cargo.toml"]),
            Some(Question::Cells(cells.to_owned()))
        );
        assert_eq!(ask(&["metadata", "--no-deps", "--manifest-path", library]), None);
        assert_eq!(ask(&["build"]), None);
        assert_eq!(ask(&["metadata", "--manifest-path", "/elsewhere/Cargo.toml"]), None);
        // Not in the cells' folder.
        assert_eq!(ask(&["metadata"]), None);
    }

    #[test]
    fn an_answer_about_sources_that_are_gone_is_none() {
        let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(names_what_is_there(&json!({"packages": [{"manifest_path": there}]})));
        assert!(!names_what_is_there(
            &json!({"packages": [{"manifest_path": there}, {"manifest_path": "/nowhere/Cargo.toml"}]})
        ));
    }

    #[test]
    fn metadata_without_a_graph_is_taken_as_it_is() {
        let mut metadata = json!({"packages": [], "resolve": null});
        keep_named_packages(&mut metadata);
        assert_eq!(metadata["packages"], json!([]));
    }
}
