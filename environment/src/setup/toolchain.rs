//! What must be on the machine before set-up: Rust with its sources, a C++ compiler, Python.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::home::non_empty_var;
use crate::ui::output_of;

/// Oldest Rust that evcxr 0.22 builds with.
const MIN_RUST: (u32, u32) = (1, 95);
/// Oldest Python that the pinned requirements are resolved for.
const MIN_PYTHON: (u32, u32) = (3, 11);

/// The programs that were found, and their versions.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// `rustc -vV`'s first line.
    pub rustc: String,
    /// Host triple.
    pub host: String,
    /// Sysroot of the active toolchain.
    pub sysroot: PathBuf,
    /// The C++ compiler's name or path.
    pub cxx: String,
    /// Its first version line.
    pub cxx_version: String,
    /// The Python interpreter's name or path.
    pub python: String,
    /// Its version, `3.11.7`.
    pub python_version: String,
}

impl Toolchain {
    /// Finds every program; the error lists everything that is missing, each with how to get it.
    pub fn find() -> Result<Self> {
        let mut missing = Vec::new();
        let mut note = |result: Result<String>| {
            result.unwrap_or_else(|e| {
                missing.push(format!("- {e:#}"));
                String::new()
            })
        };
        let rustc = note(rustc_version());
        let cxx = note(cxx_compiler());
        let python = note(python());
        ensure!(missing.is_empty(), "this machine lacks what set-up needs:\n{}", missing.join("\n"));
        let host = rustc.lines().find_map(|l| l.strip_prefix("host: ")).unwrap_or_default().to_owned();
        let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
        let cxx_version = output_of(Command::new(&cxx).arg("--version"))?;
        Ok(Self {
            rustc: first_line(&rustc),
            host,
            sysroot: PathBuf::from(sysroot.trim()),
            cxx_version: first_line(&cxx_version),
            cxx,
            python_version: python_version(&python)?,
            python,
        })
    }

    /// Whether the standard library's sources are there (type inference in cells reads them).
    pub fn has_rust_src(&self) -> bool {
        self.std_manifest().is_file()
    }

    /// The manifest of the standard library's workspace, where rustup puts it.
    pub fn std_manifest(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust/library/Cargo.toml")
    }

    /// Adds the sources through rustup. Without them cells work, but their types are inferred by
    /// compiling twice.
    pub fn ensure_rust_src(&self) {
        if self.has_rust_src() {
            return;
        }
        eprintln!("Adding the standard library's sources: rustup component add rust-src");
        let added = Command::new("rustup").args(["component", "add", "rust-src"]).status().is_ok_and(|s| s.success());
        if !added {
            eprintln!("warning: that failed; cells will be slower. Run it yourself when there is a network.");
        }
    }
}

fn rustc_version() -> Result<String> {
    let text =
        output_of(Command::new("rustc").arg("-vV")).context("Rust: no working rustc; get it from https://rustup.rs")?;
    let found = text.lines().find_map(|l| l.strip_prefix("release: ")).unwrap_or_default();
    if version_pair(found) < Some(MIN_RUST) {
        bail!("Rust {}.{} or newer: found {found}; run `rustup update stable`", MIN_RUST.0, MIN_RUST.1);
    }
    Ok(text)
}

fn cxx_compiler() -> Result<String> {
    let named = non_empty_var("CXX").map(|v| v.to_string_lossy().into_owned());
    let names: Vec<String> = named.into_iter().chain(["c++", "g++", "clang++"].map(str::to_owned)).collect();
    let works = |name: &&String| output_of(Command::new(name).arg("--version")).is_ok();
    names.iter().find(works).cloned().with_context(|| {
        format!(
            "a C++17 compiler: none of {} works; on Debian or Ubuntu `apt-get install g++`, on Fedora `dnf install gcc-c++`",
            names.join(", ")
        )
    })
}

/// The name of a Python that is new enough and can make environments.
pub fn python() -> Result<String> {
    let named = non_empty_var("QUANTLAB_PYTHON").map(|v| v.to_string_lossy().into_owned());
    let candidates = named
        .into_iter()
        .chain(["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"].map(str::to_owned));
    let mut seen = Vec::new();
    for name in candidates {
        if let Ok(version) = python_version(&name) {
            if version_pair(&version) >= Some(MIN_PYTHON) {
                if output_of(Command::new(&name).args(["-c", "import venv, ensurepip"])).is_err() {
                    bail!("Python's venv module: {name} lacks it; on Debian or Ubuntu `apt-get install python3-venv`");
                }
                return Ok(name);
            }
            seen.push(format!("{name} is {version}"));
        }
    }
    let found = if seen.is_empty() { "found none".to_owned() } else { seen.join(", ") };
    bail!("Python {}.{} or newer: {found}; install it, or name one with QUANTLAB_PYTHON", MIN_PYTHON.0, MIN_PYTHON.1)
}

fn python_version(name: &str) -> Result<String> {
    let code = "import sys; print('.'.join(map(str, sys.version_info[:3])))";
    Ok(output_of(Command::new(name).args(["-c", code]))?.trim().to_owned())
}

/// `(major, minor)` of a version such as `1.95.0-nightly`.
pub fn version_pair(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.trim().parse().ok()?, parts.next()?.trim().parse().ok()?))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_not_by_text() {
        assert_eq!(version_pair("1.95.0"), Some((1, 95)));
        assert_eq!(version_pair("3.9"), Some((3, 9)));
        assert!(version_pair("3.9") < version_pair("3.11"));
        assert_eq!(version_pair("2.13.0+cpu"), Some((2, 13)));
        assert_eq!(version_pair("x"), None);
    }
}
