//! evcxr_jupyter: a ready-made one of the right version, else built from the registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use super::registry::Access;
use crate::home::{Home, remove_if_there, write_with_mode};
use crate::progress::{View, run_build};
use crate::python;

/// The version that everything here is written for.
pub const EVCXR_VERSION: &str = "0.22.0";

const PROGRAM: &str = "evcxr_jupyter";

/// The parts of it that no cell waits for: an editor's assistance beyond what a notebook asks for, the connection, the
/// logs. Not optimised, they are compiled in a fraction of the time.
const NOT_OPTIMISED: [&str; 32] = [
    "ariadne",
    "asynchronous-codec",
    "cargo_metadata",
    "chrono",
    "futures-util",
    "gimli",
    "idna",
    "mio",
    "notify",
    "object",
    "pulldown-cmark",
    "pulldown-cmark-to-cmark",
    "ra_ap_ide",
    "ra_ap_ide_assists",
    "ra_ap_ide_completion",
    "ra_ap_ide_diagnostics",
    "ra_ap_ide_ssr",
    "ra_ap_test_fixture",
    "ra_ap_test_utils",
    "ra_ap_vfs-notify",
    "regex",
    "regex-automata",
    "regex-syntax",
    "rustix",
    "time",
    "tokio",
    "tokio-util",
    "toml",
    "tracing-subscriber",
    "uuid",
    "winnow",
    "zeromq",
];

/// Puts the kernel's program into the home.
pub fn install(home: &Home, verbose: bool, stop: &AtomicBool) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match ready_made(home, std::env::split_paths(&path)) {
        Some(program) => {
            eprintln!("      {} is {PROGRAM} {EVCXR_VERSION}: used instead of building one", program.display());
            let bytes = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
            write_with_mode(&home.evcxr().join("bin").join(PROGRAM), &bytes, 0o755)
        }
        None => build(home, verbose, stop),
    }
}

/// The first evcxr_jupyter in these folders, if it is the version that everything here is written for.
fn ready_made(home: &Home, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let found =
        folders.filter(|dir| !dir.starts_with(home.root())).map(|dir| dir.join(PROGRAM)).find(|p| p.is_file())?;
    (version(home, &found)? == EVCXR_VERSION).then_some(found)
}

/// The version that it reports as a kernel; it has no option for that.
fn version(home: &Home, program: &Path) -> Option<String> {
    let mut found = None;
    let mut command = python::script(home, "version").ok()?;
    let ended = python::follow(command.arg(program), |event| {
        if event["event"] == "version" {
            found = event["version"].as_str().map(str::to_owned);
        }
    });
    ended.ok()?.into_result().ok()?;
    found
}

/// Builds it in a Cargo home of its own, so that its crates are not among those that the kernel resolves offline.
fn build(home: &Home, verbose: bool, stop: &AtomicBool) -> Result<()> {
    let build = home.root().join("build");
    let cargo_home = build.join("cargo-home");
    let access = Access::lend(home, &cargo_home)?;
    let mut command = Command::new("cargo");
    command
        .args(["install", PROGRAM, "--locked", "--force", "--version", EVCXR_VERSION, "--root"])
        .arg(home.evcxr())
        .arg("--target-dir")
        .arg(build.join("evcxr"))
        .current_dir(home.root())
        // Across the parts of a crate, too, little is optimised that a cell would notice.
        .args(["--config", "profile.release.lto='off'"])
        .args(NOT_OPTIMISED.map(|name| format!("--config=profile.release.package.{name}.opt-level=0")))
        .env("CARGO_HOME", &cargo_home)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    let view = if verbose { View::Everything } else { View::Lines(PROGRAM) };
    run_build(&mut command, &home.logs().join("evcxr.log"), view, stop)?;
    drop(access);
    remove_if_there(&build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_made_kernel_is_taken_if_it_says_the_right_version() {
        let home = Home::find().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let folders = |names: &[&str]| names.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>().into_iter();
        let put = |folder: &str, program: &[u8]| {
            write_with_mode(&dir.path().join(folder).join(PROGRAM), program, 0o755).unwrap();
        };
        put("right", &fs::read(home.evcxr().join("bin").join(PROGRAM)).unwrap());
        put("broken", b"#!/bin/sh\nexit 1\n");
        let right = dir.path().join("right").join(PROGRAM);
        assert_eq!(ready_made(&home, folders(&["empty", "right"])), Some(right));
        // What counts is what a person would start by that name, or nothing.
        assert_eq!(ready_made(&home, folders(&["broken", "right"])), None);
        assert_eq!(ready_made(&home, folders(&["empty"])), None);
        assert_eq!(ready_made(&home, [home.evcxr().join("bin")].into_iter()), None);
    }
}
