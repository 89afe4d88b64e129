//! The warm build folder that every kernel is cloned from.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

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
    // Or kernels that start one after the other, each before the last one ends, would keep it waiting.
    let _starting = home.lock("kernel-start.lock", || eprintln!("waiting for another kernel to start"))?;
    let (_building, _unused) = (building(home)?, lock(home)?);
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
    let package = home.root().join("first");
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

/// Held by whoever changes the warm folder.
fn lock(home: &Home) -> Result<std::fs::File> {
    home.lock(LOCK, || eprintln!("waiting for kernels that are being made, and for notebooks that are being graded"))
}

/// Held by whoever clones the warm folder; in a sandbox, until the kernel ends, for all that it has are links.
pub fn unchanged(home: &Home) -> Result<std::fs::File> {
    home.share(LOCK, || eprintln!("waiting for another build of the support crate"))
}

const LOCK: &str = "warm.lock";

/// Whether the warm folder holds this support crate as it is now.
pub fn is_fresh(home: &Home, support_crate: &Path) -> Result<bool> {
    Ok(home.is_done(STAMP, &source_key(support_crate)?))
}

/// Rebuilds the support crate, and only it, in the warm folder if it was edited since.
pub fn refresh(home: &Home, installed: &Installed, support_crate: &Path) -> Result<()> {
    if home.is_ours() && home.warm().join(OLD).exists() {
        let _unused = lock(home)?;
        mend(&home.warm().join("target"))?;
    }
    if is_fresh(home, support_crate)? {
        return Ok(());
    }
    ensure!(home.stamp(STAMP).is_some(), "the kernel has not been warmed up yet\n  try: cargo lab setup");
    ensure!(
        home.is_ours(),
        "{} holds a different state of the support crate from that in {}, and is read-only for you\n  try: work in \
         a folder outside that checkout, ask the set-up's owner to update it, or set QUANTLAB_HOME to a folder of \
         your own",
        home.root().display(),
        support_crate.display()
    );
    let _building = building(home)?;
    let key = source_key(support_crate)?;
    if home.is_done(STAMP, &key) {
        return Ok(());
    }
    eprintln!("the support crate was edited; building it for the kernel");
    let (target, next) = (home.warm().join("target"), home.warm().join(NEXT));
    // Beside the folder that kernels start from, which they go on doing if this fails, however it does.
    let held = unchanged(home)?;
    remove_if_there(&next)?;
    links::copy(&target, &next).with_context(|| format!("cannot copy the warm kernel to {}", next.display()))?;
    drop(held);
    point_at(&home.warm().join("Cargo.toml"), support_crate)?;
    claim(&next, support_crate)?;
    let mut command = Command::new("cargo");
    installed.apply(home, &mut command);
    command
        .args(["build", "--offline", "--target", &installed.host])
        .current_dir(home.warm())
        .env("CARGO_TARGET_DIR", NEXT)
        .env("CARGO_BUILD_BUILD_DIR", NEXT)
        .env("RUSTFLAGS", rustflags());
    let mut builds = || command.status().map(|status| status.success()).context("cannot start cargo");
    if !builds()? {
        // The compiler keeps parts of the last build, and they do not always fit together with new ones: the linker then
        // misses symbols, time and again.
        forget_parts(&next)?;
        ensure!(builds()?, "the support crate does not build; the compiler's messages are above");
    }
    let _unused = lock(home)?;
    exchange(&next, &target)?;
    home.mark_done(STAMP, &key)?;
    remove_if_there(&next)
}

/// Removes what the compiler keeps to compile a crate again in parts.
fn forget_parts(target: &Path) -> Result<()> {
    let hosts = fs::read_dir(target).with_context(|| format!("cannot read {}", target.display()))?;
    let kept = hosts.flatten().map(|host| host.path().join("debug/incremental"));
    kept.filter(|folder| folder.is_dir()).try_for_each(|folder| remove_if_there(&folder))
}

/// Held by whoever makes the warm folder, or a next one.
fn building(home: &Home) -> Result<std::fs::File> {
    home.lock("warm-build.lock", || eprintln!("waiting for another build of the support crate"))
}

/// The build folder that is to take the place of `target`. Sandboxes see the folder that both lie in.
const NEXT: &str = "target.next";
const OLD: &str = "target.old";

/// Lets two folders change names: at once, or one name after the other.
fn exchange(next: &Path, target: &Path) -> Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).context("a folder's name has a zero byte in it");
    let (first, second) = (name(next)?, name(target)?);
    // SAFETY: both are C strings that live until the call returns.
    let done = unsafe {
        libc::renameat2(libc::AT_FDCWD, first.as_ptr(), libc::AT_FDCWD, second.as_ptr(), libc::RENAME_EXCHANGE)
    };
    if done == 0 { Ok(()) } else { exchange_by_steps(next, target) }
}

/// For file systems that cannot do it at once, such as a network's.
fn exchange_by_steps(next: &Path, target: &Path) -> Result<()> {
    let old = target.with_file_name(OLD);
    remove_if_there(&old)?;
    fs::rename(target, &old)
        .and_then(|()| fs::rename(next, target))
        .and_then(|()| fs::rename(&old, next))
        .with_context(|| format!("cannot put {} in the place of {}", next.display(), target.display()))
}

/// Ends what [`exchange_by_steps`] began, if it was killed.
fn mend(target: &Path) -> Result<()> {
    let old = target.with_file_name(OLD);
    if !target.exists() && old.exists() {
        fs::rename(&old, target).with_context(|| format!("cannot rename {}", old.display()))?;
    }
    Ok(())
}

/// Makes evcxr's manifest depend on this support crate (it names the one it was warmed with).
fn point_at(manifest: &Path, support_crate: &Path) -> Result<()> {
    let text = fs::read_to_string(manifest)
        .with_context(|| format!("cannot read {}\n  try: cargo lab setup", manifest.display()))?;
    write_atomically(manifest, crates::pointed_at(&text, support_crate).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::write_with_mode;

    /// A home with a warm folder, a library, and a Cargo that does what this script says.
    fn set_up(dir: &Path, cargo: &str) -> (Home, Installed, PathBuf) {
        let (home, library, sysroot) = (Home::at(&dir.join("home")), dir.join("support-crate"), dir.join("rust"));
        let put = |path: PathBuf, text: &str| write_with_mode(&path, text.as_bytes(), 0o755).unwrap();
        put(library.join("src/lib.rs"), "");
        put(home.warm().join("Cargo.toml"), "[dependencies]\nquantlab = { path = \"/before\" }\n");
        put(home.warm().join("target/debug/deps/libquantlab.so"), "before");
        put(home.warm().join("target/debug/.fingerprint/quantlab-1a2b/note"), "before");
        put(sysroot.join("bin/cargo"), &format!("#!/bin/sh\n{cargo}"));
        home.mark_done(STAMP, "before").unwrap();
        let installed = Installed { sysroot, support_crate: library.clone(), ..Installed::default() };
        (home, installed, library)
    }

    /// The folder's library, Cargo's note on it, and its manifest.
    fn contents(home: &Home) -> [String; 3] {
        ["target/debug/deps/libquantlab.so", "target/debug/.fingerprint/quantlab-1a2b/note", "Cargo.toml"]
            .map(|file| fs::read_to_string(home.warm().join(file)).unwrap_or_default())
    }

    // As linkers replace a library, and as Cargo writes a note.
    const BUILD: &str = "rm $CARGO_TARGET_DIR/debug/deps/libquantlab.so; cd $CARGO_TARGET_DIR/debug\n\
                         echo after > deps/libquantlab.so; mkdir -p .fingerprint/quantlab-1a2b\n\
                         echo after > .fingerprint/quantlab-1a2b/note\n";

    #[test]
    fn kernels_start_as_before_from_a_library_whose_update_fails() {
        let dir = tempfile::tempdir().unwrap();
        let (home, installed, library) = set_up(dir.path(), &format!("{BUILD}exit 101\n"));
        let before = contents(&home);
        for _ in 0..2 {
            let error = refresh(&home, &installed, &library).unwrap_err().to_string();
            assert!(error.contains("does not build"), "{error}");
            assert_eq!(contents(&home)[..2], before[..2]);
            assert_eq!(home.stamp(STAMP).as_deref(), Some("before"));
        }
    }

    #[test]
    fn an_update_takes_the_place_of_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (home, installed, library) = set_up(dir.path(), BUILD);
        // Of updates that were killed: while the library was built, and while the folders were exchanged.
        fs::create_dir_all(home.warm().join(NEXT)).unwrap();
        fs::rename(home.warm().join("target"), home.warm().join(OLD)).unwrap();
        refresh(&home, &installed, &library).unwrap();
        let [built, note, manifest] = contents(&home);
        assert_eq!((built.as_str(), note.as_str()), ("after\n", "after\n"));
        assert!(manifest.contains(library.to_str().unwrap()), "{manifest}");
        assert!(is_fresh(&home, &library).unwrap());
        assert!(![NEXT, OLD].iter().any(|name| home.warm().join(name).exists()));
    }

    #[test]
    fn what_does_not_link_is_built_once_more_without_parts_of_the_last_build() {
        let dir = tempfile::tempdir().unwrap();
        let links = format!("test ! -d $CARGO_TARGET_DIR/x/debug/incremental || exit 101\n{BUILD}");
        let (home, installed, library) = set_up(dir.path(), &links);
        write_with_mode(&home.warm().join("target/x/debug/incremental/part"), b"", 0o644).unwrap();
        refresh(&home, &installed, &library).unwrap();
        assert_eq!(contents(&home)[0], "after\n");
        assert!(!home.warm().join("target/x/debug/incremental").exists());
    }

    #[test]
    fn folders_change_places_at_once_or_by_steps() {
        for exchange in [exchange, exchange_by_steps] {
            let dir = tempfile::tempdir().unwrap();
            let [next, target] = [NEXT, "target"].map(|name| dir.path().join(name));
            for (folder, text) in [(&next, "next"), (&target, "target")] {
                fs::create_dir(folder).unwrap();
                fs::write(folder.join("file"), text).unwrap();
            }
            exchange(&next, &target).unwrap();
            assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "next");
            assert_eq!(fs::read_to_string(next.join("file")).unwrap(), "target");
        }
    }
}
