//! The warm build folder that every kernel is cloned from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::claim::claim;
use super::crates;
use super::installed::{Installed, rustflags};
use super::links::{self, Current};
use super::sources::source_key;
use crate::home::{Home, remove_if_there, write_atomically};
use crate::python;
use crate::ui::output_of;

/// Of the step that makes the warm folder; it names the library's sources.
pub const STAMP: &str = "warm";

/// Set while set-up warms the kernel: the warm folder itself is used instead of a clone.
pub const WARMING: &str = "QUANTLAB_WARM";

/// Makes the warm folder anew: the workspace's built dependencies, linked, and a cell run through evcxr.
pub fn make(home: &Home, installed: &Installed) -> Result<()> {
    let _lock = lock(home)?;
    home.mark_undone(STAMP)?;
    remove_if_there(&home.warm())?;
    remove_if_there(&home.answers())?;
    remove_if_there(&home.skeletons())?;
    // Nothing is left to build; Cargo says what it has built.
    let mut build = installed.cargo(home, &first_package(home, installed)?, "build")?;
    let messages = output_of(build.args(["--offline", "--quiet", "--message-format", "json-render-diagnostics"]))?;
    links::gather(&home.target(), &home.warm().join("target"), &Current::of_messages(&messages))
        .with_context(|| format!("cannot link the built dependencies into {}", home.warm().display()))?;
    let key = source_key(&installed.support_crate)?;
    let mut command = python::script(home, "warm")?;
    // evcxr takes the support crate of the folder that the kernel runs in.
    command.current_dir(&installed.support_crate).env(WARMING, "1");
    python::follow(&mut command, |event| {
        if let Some(message) = event["message"].as_str().filter(|_| event["event"] == "note") {
            eprintln!("      {message}");
        }
    })?
    .into_result()?;
    home.mark_done(STAMP, &key)
}

/// A package like a kernel's, to build the library as cells link it. (The tests of the workspace compile it with its
/// checks on, from the same dependencies.)
pub fn first_package(home: &Home, installed: &Installed) -> Result<PathBuf> {
    let package = home.first();
    let lock = installed.support_crate.join("../Cargo.lock");
    let lock = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let manifest = format!(
        "[package]\nname = \"first\"\nedition = \"2024\"\n[dependencies]\n{}",
        crates::dependencies(&installed.support_crate)
    );
    write_atomically(&package.join("Cargo.toml"), manifest.as_bytes())?;
    write_atomically(&package.join("src/lib.rs"), b"")?;
    write_atomically(&package.join("Cargo.lock"), &lock)?;
    // A library that the workspace left there has the same name, and Cargo would take it for this one.
    claim(&home.target(), &package)?;
    Ok(package)
}

/// Held by whoever changes the warm folder, or clones it.
pub fn lock(home: &Home) -> Result<std::fs::File> {
    home.lock("warm.lock", || eprintln!("waiting for another build of the support crate"))
}

/// Whether the warm folder holds this support crate as it is now.
pub fn is_fresh(home: &Home, support_crate: &Path) -> Result<bool> {
    Ok(home.is_done(STAMP, &source_key(support_crate)?))
}

/// Rebuilds the support crate, and only it, in the warm folder if it was edited since.
pub fn refresh(home: &Home, installed: &Installed, support_crate: &Path) -> Result<()> {
    if is_fresh(home, support_crate)? {
        return Ok(());
    }
    if home.stamp(STAMP).is_none() {
        bail!("the kernel has not been warmed up yet\n  try: cargo lab setup");
    }
    // Its owner may be building it right now.
    let _lock = lock(home)?;
    let key = source_key(support_crate)?;
    if home.is_done(STAMP, &key) {
        return Ok(());
    }
    if !home.is_ours() {
        bail!(
            "{} holds a different state of the support crate from that in {}, and is read-only for you\n  try: work in \
             a folder outside that checkout, ask the set-up's owner to update it, or set QUANTLAB_HOME to a folder of \
             your own",
            home.root().display(),
            support_crate.display()
        );
    }
    eprintln!("the support crate was edited; building it for the kernel");
    point_at(&home.warm().join("Cargo.toml"), support_crate)?;
    claim(&home.warm().join("target"), support_crate)?;
    let mut command = Command::new("cargo");
    installed.apply(home, &mut command);
    command
        .args(["build", "--offline", "--target", &installed.host])
        .current_dir(home.warm())
        .env("CARGO_TARGET_DIR", "target")
        .env("CARGO_BUILD_BUILD_DIR", "target")
        .env("RUSTFLAGS", rustflags());
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the support crate does not build; the compiler's messages are above");
    }
    home.mark_done(STAMP, &key)
}

/// Makes evcxr's manifest depend on this support crate (it names the one it was warmed with).
fn point_at(manifest: &Path, support_crate: &Path) -> Result<()> {
    let text = fs::read_to_string(manifest)
        .with_context(|| format!("cannot read {}\n  try: cargo lab setup", manifest.display()))?;
    write_atomically(manifest, crates::pointed_at(&text, support_crate).as_bytes())
}
