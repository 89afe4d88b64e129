//! `cargo lab pack`: what set-up has compiled, as an archive, and a folder of archives for a server.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::facts::Facts;
use super::index::{INDEX, Index, KEY, Listed};
use super::{FORMAT, Manifest, Paths, TARGET, archive};
use crate::checkout::Checkout;
use crate::home::{Home, write_atomically};
use crate::jupyter::installed::Installed;
use crate::jupyter::links::numbers;
use crate::jupyter::sources::content_key;
use crate::jupyter::warm;
use crate::setup::toolchain::Toolchain;
use crate::setup::{self, Request};
use crate::ui::{human_size, human_time, output_of, run_shown};

/// Steps whose results are packed as they are.
const STEPS: [&str; 2] = ["evcxr", "shim"];

/// Writes what the finished set-up has compiled into a file.
pub fn pack(file: &Path) -> Result<()> {
    write(file).map(drop)
}

fn write(file: &Path) -> Result<Facts> {
    let (home, checkout) = (Home::find()?, Checkout::find()?);
    setup::check_finished(&checkout).context("there is no finished set-up to pack")?;
    let start = Instant::now();
    // The library as it is now, not as it was before the last edit.
    let installed = setup::setup(&checkout, &Request::default())?;
    let _lock = home.lock("setup.lock", || eprintln!("a set-up is running; waiting for it"))?;
    let tools = Toolchain::find()?;
    let entries = list(&home, &installed)?;
    eprintln!("Packing {} files and folders", entries.len());
    let manifest = Manifest {
        format: FORMAT,
        facts: Facts::here(&tools),
        paths: Paths::of(&home, checkout.root(), &tools.sysroot)?,
        steps: STEPS.iter().filter_map(|step| Some(((*step).to_owned(), home.stamp(step)?))).collect(),
        sources: content_key(&checkout.support_crate())?,
        entries: entries.len(),
    };
    archive::write(file, &serde_json::to_vec(&manifest)?, home.root(), &entries)?;
    let size = fs::metadata(file).map_or(0, |meta| meta.len());
    println!("{} ({}), in {}", file.display(), human_size(size), human_time(start.elapsed()));
    Ok(manifest.facts)
}

/// Packs into a folder that any web server can serve, and signs its list by the program `minisign`.
pub fn publish(folder: &Path, secret: Option<&Path>) -> Result<()> {
    let checkout = Checkout::find()?;
    let sign = |arguments: &[&str]| {
        let mut minisign = Command::new("minisign");
        minisign.args(arguments).args(secret.iter().flat_map(|key| [Path::new("-s"), key]));
        minisign
    };
    // Before minutes of work.
    output_of(&mut sign(&["-v"])).context(
        "publishing takes the program minisign\n  try: on Debian or Ubuntu `apt-get install minisign`, then \
         `minisign -G -p environment/prebuilt.pub` once",
    )?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let name = format!("quantlab-{}-{}.tar.gz", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let facts = write(&folder.join(&name))?;
    let sha256 = format!("{:x}", Sha256::digest(fs::read(folder.join(&name))?));
    let listed = Listed { file: name, sha256, facts };
    let place = folder.join(INDEX);
    let mut index: Index = match fs::read(&place) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| format!("{} is damaged", place.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Index::default(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", place.display())),
    };
    index.archives.retain(|other| other.file != listed.file);
    index.archives.push(listed);
    write_atomically(&place, &serde_json::to_vec_pretty(&index)?)?;
    run_shown(sign(&["-S"]).arg("-m").arg(&place)).context("the list is not signed")?;
    if !checkout.root().join(KEY).is_file() {
        eprintln!("Learners need your public key: commit it as {KEY}.");
    }
    Ok(())
}

/// What is packed of the home, folders before what they hold.
fn list(home: &Home, installed: &Installed) -> Result<Vec<PathBuf>> {
    // Nothing is left to build; Cargo says what it has built.
    let mut build = installed.cargo(home, &warm::first_package(home, installed)?, "build")?;
    let messages = output_of(build.args(["--offline", "--quiet", "--message-format", "json-render-diagnostics"]))?;
    let current = numbers(&messages);
    let mut found = Vec::new();
    let profiles = [Path::new(TARGET).join(&installed.host), PathBuf::from(TARGET)].map(|dir| dir.join("debug"));
    let built = profiles.iter().flat_map(|profile| ["deps", "build"].map(|folder| profile.join(folder)));
    for part in STEPS.iter().map(PathBuf::from).chain(built).filter(|part| home.root().join(part).is_dir()) {
        add(home.root(), &part, &current, &mut found)
            .with_context(|| format!("cannot read {}", home.root().join(&part).display()))?;
    }
    Ok(found)
}

fn add(root: &Path, inner: &Path, current: &HashSet<&str>, found: &mut Vec<PathBuf>) -> io::Result<()> {
    found.push(inner.to_owned());
    let mut entries: Vec<_> = fs::read_dir(root.join(inner))?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = inner.join(entry.file_name());
        let kind = entry.file_type()?;
        if !is_wanted(&path, current) {
            continue;
        }
        if kind.is_dir() {
            add(root, &path, current, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// What Cargo's last build is made of: no tests, nothing of the compiler's own, nothing that an earlier build left.
fn is_wanted(inner: &Path, current: &HashSet<&str>) -> bool {
    let name = inner.file_name().unwrap_or_default().to_string_lossy();
    let parent = inner.parent().and_then(Path::file_name).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let number = stem.rsplit_once('-').map_or("", |(_, number)| number);
    // The dylibs of a checkout have no number.
    let is_own = stem.strip_prefix("lib").unwrap_or(stem).starts_with("quantlab") && name.contains('.');
    match parent.to_str() {
        Some("deps") => current.contains(number) || is_own && !stem.contains('-'),
        Some("build") => current.contains(number),
        _ => !["root-output", "stderr", "invoked.timestamp"].contains(&&*name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_build_made_is_packed_and_nothing_else() {
        let current = HashSet::from(["0123456789abcdef"]);
        let wanted = |path: &str| is_wanted(Path::new(&path.replace('#', "0123456789abcdef")), &current);
        for path in [
            "target/x/debug/deps/libserde-#.rlib",
            "target/x/debug/deps/serde-#.d",
            "target/x/debug/deps/libquantlab.so",
            "target/x/debug/deps/quantlab_course.d",
            "target/debug/build/libc-#",
            "target/debug/build/libc-#/build_script_build-fedcba9876543210",
            "target/x/debug/build/libc-#/output",
            "target/x/debug/build/libc-#/out/a.rs",
            "evcxr/bin/evcxr_jupyter",
        ] {
            assert!(wanted(path), "{path}");
        }
        for path in [
            "target/x/debug/deps/libserde-fedcba9876543210.rlib",
            "target/x/debug/deps/libquantlab_kernels-fedcba9876543210.rlib",
            "target/x/debug/deps/quantlab-fedcba9876543210",
            "target/x/debug/deps/libfirst.rlib",
            "target/debug/build/libc-fedcba9876543210",
            "target/x/debug/build/libc-#/root-output",
        ] {
            assert!(!wanted(path), "{path}");
        }
    }
}
