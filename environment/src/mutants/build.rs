//! Which mutants compile, and the program of these.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::program::{Id, Program, Subject};
use crate::home::write_atomically;

/// A program of mutants.
#[derive(Debug)]
pub struct Built {
    /// Where it lies.
    pub executable: PathBuf,
    /// The mutants that do not compile.
    pub dropped: BTreeSet<Id>,
}

/// The outcome of a run of the compiler.
enum Outcome {
    Built(PathBuf),
    /// The errors, and what Cargo said.
    Failed(Vec<Fault>, String),
}

/// An error of the compiler's.
struct Fault {
    /// Lines of the program that it is about.
    lines: Vec<usize>,
    text: String,
}

/// Builds the program, each time without the mutants that did not compile: the compiler does not look for errors of
/// one kind (types) while there are some of another (names).
///
/// `cargo` is a command that builds it and reports in JSON; the program's text goes to `source`.
///
/// # Errors
/// Something other than a mutant does not compile.
pub fn build(subjects: &[Subject], source: &Path, cargo: impl Fn() -> Result<Command>) -> Result<Built> {
    let mut dropped = BTreeSet::new();
    loop {
        let program = Program::new(subjects, |id| !dropped.contains(&id))?;
        write_atomically(source, program.text.as_bytes())?;
        let before = dropped.len();
        match compile(&mut cargo()?, source)? {
            Outcome::Built(executable) => return Ok(Built { executable, dropped }),
            Outcome::Failed(faults, said) => {
                let mut elsewhere = None;
                for fault in faults {
                    let known = dropped.len();
                    dropped.extend(fault.lines.into_iter().filter_map(|line| program.at(line)));
                    if dropped.len() == known {
                        elsewhere.get_or_insert(fault.text);
                    }
                }
                ensure!(dropped.len() != before, "the reference answers do not compile\n{}", elsewhere.unwrap_or(said));
            }
        }
    }
}

fn compile(cargo: &mut Command, source: &Path) -> Result<Outcome> {
    let done = cargo.stdin(Stdio::null()).output().context("cannot start cargo")?;
    let (mut faults, mut executable) = (Vec::new(), None);
    for line in done.stdout.split(|&byte| byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
        if message["reason"] == "compiler-artifact" && message["target"]["name"] == "mutants" {
            executable = message["executable"].as_str().map(PathBuf::from);
        } else if message["reason"] == "compiler-message" && message["message"]["level"] == "error" {
            let text = message["message"]["rendered"].as_str().unwrap_or_default().to_owned();
            faults.push(Fault { lines: places(&message["message"], source), text });
        }
    }
    match executable.filter(|_| done.status.success()) {
        Some(executable) => Ok(Outcome::Built(executable)),
        None => Ok(Outcome::Failed(faults, String::from_utf8_lossy(&done.stderr).into_owned())),
    }
}

/// The lines of the program. An error in a macro points into the macro; the place that called it follows in the
/// expansion.
fn places(message: &Value, source: &Path) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
    while let Some(span) = spans.pop() {
        let file = span["file_name"].as_str().unwrap_or_default();
        if span["is_primary"] == true && Path::new(file) == source {
            lines.extend(span["line_start"].as_u64().and_then(|line| usize::try_from(line).ok()));
        }
        spans.extend(span["expansion"]["span"].as_object().map(|_| &span["expansion"]["span"]));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_errors_lines_are_found_through_macros() {
        let source = Path::new("/x/mutants.rs");
        let span = |file: &str, line: u64, is_primary: bool| json!({"file_name": file, "line_start": line, "is_primary": is_primary, "expansion": null});
        let mut in_macro = span("/rust/std.rs", 4, true);
        in_macro["expansion"] = json!({"span": span("/x/mutants.rs", 9, true)});
        let message = json!({"spans": [span("/x/mutants.rs", 7, true), span("/x/mutants.rs", 2, false), in_macro]});
        let mut lines = places(&message, source);
        lines.sort_unstable();
        assert_eq!(lines, [7, 9]);
    }
}
