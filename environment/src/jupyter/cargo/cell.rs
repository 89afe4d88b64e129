//! A cell's build, by rustc alone.
//!
//! Cargo takes 0.3 s to find that of 400 packages only the cell has changed, and rustc 0.2 s to compile it. So the
//! first build goes through Cargo, with a wrapper around rustc that notes the call; while nothing changes that Cargo
//! would look at, later builds, also those of other kernels, make that call themselves and report in Cargo's format.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::kept::Kept;
use super::tool::{become_program, tool};
use crate::home::{remove_if_there, write_atomically};

/// The compiler's wrapper that notes how Cargo calls it for a cell.
pub const RECORDER: &str = "quantlab-rustc";

/// The crate that evcxr makes of a cell, and its library.
pub const CELL: &str = "ctx";
const LIBRARY: &str = "libctx.so";

/// Tells the wrapper where to note the call.
const NOTE: &str = "QUANTLAB_NOTE_CALL";

/// How Cargo called rustc for a cell.
#[derive(Serialize, Deserialize)]
struct Call {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    folder: PathBuf,
}

/// A call, what Cargo said of its library, the libraries that it links as they were, and the lock file that Cargo left.
#[derive(Serialize, Deserialize)]
struct Known {
    call: Call,
    artifact: Value,
    linked: String,
    lock: String,
}

/// Builds the cell in `dir` as `cargo ARGS` would.
pub fn build(dir: &Path, args: &[OsString]) -> Result<ExitCode> {
    let kept = Kept::of_cells(dir, args);
    let known = kept.as_ref().and_then(Kept::recall::<Known>);
    let lock = dir.join("Cargo.lock");
    if let Some(known) = known.filter(|known| linked(&known.call).is_some_and(|now| now == known.linked)) {
        write_atomically(&lock, known.lock.as_bytes())?;
        return compile(dir, &known);
    }
    let note = dir.join("target/cell-call.json");
    remove_if_there(&note)?;
    let recorder = std::env::current_exe().context("cannot find this program's own path")?.with_file_name(RECORDER);
    let mut command = Command::new(tool("cargo"));
    command.args(args).env("TMPDIR", temporary(dir));
    // One wrapper is all that Cargo takes.
    if recorder.is_file() && std::env::var_os("RUSTC_WRAPPER").is_none() {
        command.env("RUSTC_WRAPPER", recorder).env(NOTE, &note);
    }
    let done = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    std::io::stdout().write_all(&done.stdout)?;
    if !done.status.success() {
        report_interruption(done.status)?;
        return Ok(ExitCode::from(done.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(101)));
    }
    let call = fs::read(&note).ok().and_then(|bytes| serde_json::from_slice::<Call>(&bytes).ok());
    if let (Some(call), Some(artifact)) = (call, artifact(&done.stdout))
        && let (Some(linked), Ok(lock)) = (linked(&call), fs::read_to_string(&lock))
    {
        let known = Known { call, artifact, linked, lock };
        // For the question as it was asked, and as it will be asked now that there is a lock file.
        [kept, Kept::of_cells(dir, args)].iter().flatten().for_each(|kept| kept.remember(&known));
    }
    Ok(ExitCode::SUCCESS)
}

/// What Cargo printed of the cell's library.
fn artifact(stdout: &[u8]) -> Option<Value> {
    let mut messages =
        stdout.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    messages.rfind(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == CELL)
}

/// The libraries that a call links, with their sizes and times; `None` if one is missing.
fn linked(call: &Call) -> Option<String> {
    let of = |path: &str| {
        let meta = fs::metadata(path).ok()?;
        Some(format!("{path} {} {:?}", meta.len(), meta.modified().ok()?))
    };
    let externs = call.args.windows(2).filter(|pair| pair[0] == "--extern");
    let paths = externs.filter_map(|pair| pair[1].split_once('=')).map(|(_, path)| path);
    paths.map(of).collect::<Option<Vec<_>>>().map(|libraries| libraries.join("\n"))
}

/// Where compiler and linker keep what they write for a moment: not where cells do, who could put other code there.
fn temporary(dir: &Path) -> PathBuf {
    dir.join("target")
}

/// Makes the call again, and reports as Cargo does.
fn compile(dir: &Path, Known { call, artifact, .. }: &Known) -> Result<ExitCode> {
    let out_dir = call.args.iter().position(|arg| arg == "--out-dir").and_then(|at| call.args.get(at + 1));
    let out_dir = out_dir.context("the rustc call that was kept names no folder")?;
    let library = call.folder.join(out_dir).join(LIBRARY);
    // The last cell's library may be loaded under another name: so make a new file, rather than writing into the old
    // one.
    remove_if_there(&library)?;
    let done = Command::new(&call.program)
        .args(&call.args)
        .envs(&call.env)
        .env("TMPDIR", temporary(dir))
        .current_dir(&call.folder)
        .output()
        .with_context(|| format!("cannot start {}", call.program))?;
    report_interruption(done.status)?;
    let mut out = std::io::stdout().lock();
    for line in done.stderr.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice::<Value>(line) {
            Ok(message) if message["$message_type"] == "diagnostic" => {
                writeln!(out, "{}", json!({"reason": "compiler-message", "message": message}))?;
            }
            Ok(_) => {}
            Err(_) => eprintln!("{}", String::from_utf8_lossy(line)),
        }
    }
    if done.status.success() {
        let mut artifact = artifact.clone();
        artifact["filenames"] = json!([library]);
        artifact["fresh"] = json!(false);
        writeln!(out, "{artifact}")?;
    }
    writeln!(out, "{}", json!({"reason": "build-finished", "success": done.status.success()}))?;
    Ok(if done.status.success() { ExitCode::SUCCESS } else { ExitCode::from(101) })
}

/// What evcxr shows when an interrupt ended the build: a compiler error.
fn report_interruption(status: ExitStatus) -> Result<()> {
    if status.signal() == Some(libc::SIGTERM) {
        let text = "interrupted while the cell was being compiled; it did not run, and all variables are still there";
        let message =
            json!({"$message_type": "diagnostic", "level": "error", "message": text, "spans": [], "children": []});
        writeln!(std::io::stdout(), "{}", json!({"reason": "compiler-message", "message": message}))?;
    }
    Ok(())
}

/// Runs as Cargo's wrapper around rustc: notes a cell's call, then makes it.
pub fn record(args: &[OsString]) -> Result<ExitCode> {
    let (program, args) = args.split_first().context("called without a compiler")?;
    let is_cell = args.windows(2).any(|pair| pair[0] == "--crate-name" && pair[1] == CELL);
    if let (true, Some(note)) = (is_cell, std::env::var_os(NOTE)) {
        let call = Call {
            program: program.to_string_lossy().into_owned(),
            args: args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            env: std::env::vars().filter(|(name, _)| is_cargos(name)).collect(),
            folder: std::env::current_dir().context("the current folder cannot be read")?,
        };
        write_atomically(Path::new(&note), serde_json::to_string(&call)?.as_bytes())?;
    }
    Err(become_program(Command::new(program).args(args)))
}

/// Whether Cargo sets a variable for rustc. The others are the kernel's, as they are at the time of the build; the one
/// that names open files of Cargo's is of no use to anyone else.
fn is_cargos(name: &str) -> bool {
    name != "CARGO_MAKEFLAGS" && (name.starts_with("CARGO") || ["LD_LIBRARY_PATH", "OUT_DIR"].contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_that_a_call_links_are_compared() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libquantlab.so");
        let of = |path: &Path| Call {
            program: "rustc".to_owned(),
            args: ["--extern", &format!("quantlab={}", path.display()), "--extern", "core"].map(str::to_owned).into(),
            env: BTreeMap::new(),
            folder: PathBuf::from("/"),
        };
        assert_eq!(linked(&of(&library)), None);
        fs::write(&library, "one").unwrap();
        let before = linked(&of(&library));
        assert!(before.is_some());
        fs::write(&library, "another").unwrap();
        assert_ne!(linked(&of(&library)), before);
    }

    #[test]
    fn the_cells_library_is_found_among_cargos_messages() {
        let lines = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"quantlab\"}}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"ctx\"},\"filenames\":[\"/x/libctx.so\"]}\n",
            "{\"reason\":\"build-finished\",\"success\":true}\n"
        );
        assert_eq!(artifact(lines.as_bytes()).unwrap()["filenames"][0], "/x/libctx.so");
        assert!(artifact(b"{\"reason\":\"build-finished\"}").is_none());
    }
}
