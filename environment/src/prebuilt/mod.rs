//! What set-up compiles, compiled elsewhere: `cargo lab pack` writes it into an archive, and `--from` makes set-up take
//! it from there. What needs no compiler (Python's packages, libtorch, the crates' sources) comes from the registry as
//! without an archive.

mod archive;
mod facts;
mod index;
mod pack;
mod replay;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::checkout::Checkout;
use crate::home::{Home, remove_if_there};
use crate::jupyter::sources::content_key;
use crate::setup::toolchain::Toolchain;
use crate::ui::human_time;
use facts::Facts;
pub use pack::{pack, publish};
pub use replay::run_as;

/// The archive's first entry.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    /// Of the archive's own format.
    format: u32,
    facts: Facts,
    paths: Paths,
    /// What the steps of set-up were made from whose results are packed as they are.
    steps: BTreeMap<String, String>,
    /// [`content_key`] of the library.
    sources: String,
    /// How many entries follow.
    entries: usize,
}

const FORMAT: u32 = 2;
/// In an archive, and where it is unpacked.
const MANIFEST: &str = "manifest.json";
/// Cargo's build folder.
const TARGET: &str = "target";

impl Manifest {
    fn of_text(text: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        const DAMAGED: &str = "its manifest is damaged";
        let Format { format } = serde_json::from_slice(text).context(DAMAGED)?;
        ensure!(format == FORMAT, "it has format {format}, and this `cargo lab` reads format {FORMAT}");
        serde_json::from_slice(text).context(DAMAGED)
    }

    /// Of an unpacked archive.
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::of_text(&text).with_context(|| path.display().to_string())
    }
}

/// The folders that stand in what compilers and build scripts wrote.
#[derive(Debug, Serialize, Deserialize)]
struct Paths {
    home: String,
    checkout: String,
    sysroot: String,
    /// The crates' sources; a folder for each registry or mirror.
    crates: String,
}

impl Paths {
    fn of(home: &Home, checkout: &Path, sysroot: &Path) -> Result<Self> {
        let text =
            |path: &Path| path.to_str().map(str::to_owned).with_context(|| format!("{}: not UTF-8", path.display()));
        let all = home.cargo_home().join("registry/src");
        let folders: Vec<PathBuf> = fs::read_dir(&all)
            .with_context(|| format!("cannot read {}", all.display()))?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        let [crates] = folders.as_slice() else { bail!("{} is not of one registry", all.display()) };
        Ok(Self { home: text(home.root())?, checkout: text(checkout)?, sysroot: text(sysroot)?, crates: text(crates)? })
    }

    /// A text with these folders' names, with those that they have here.
    fn moved(&self, text: &str, here: &Self) -> String {
        // The crates lie in the home, and a checkout may.
        let pairs = [
            (&self.crates, &here.crates),
            (&self.checkout, &here.checkout),
            (&self.home, &here.home),
            (&self.sysroot, &here.sysroot),
        ];
        pairs.iter().fold(text.to_owned(), |text, (old, new)| text.replace(old.as_str(), new))
    }
}

/// An unpacked archive that fits this machine.
pub struct Prebuilt {
    home: Home,
    manifest: Manifest,
}

impl Prebuilt {
    /// What an earlier call has unpacked, else what `from` names: an archive, or the address of a folder that
    /// `cargo lab pack --publish` wrote. None, with the reason on screen, if it does not fit.
    pub fn open(home: &Home, checkout: &Checkout, tools: &Toolchain, from: Option<&str>) -> Result<Option<Self>> {
        if let Ok(manifest) = Manifest::read(&home.prebuilt())
            && manifest.facts.misfits(&Facts::here(tools)).is_empty()
        {
            let kept = Self { home: home.clone(), manifest };
            // The call that unpacked it may have ended before, or the library has changed since.
            kept.forget_other_library(checkout)?;
            return Ok(Some(kept));
        }
        let Some(from) = from else { return Ok(None) };
        let start = Instant::now();
        let is_address = from.starts_with("https://") || from.starts_with("http://");
        let archive = match is_address {
            true => index::fetch(home, checkout, tools, from)?,
            false => Some(PathBuf::from(from)),
        };
        let Some(archive) = archive else { return Ok(None) };
        let unpacked = unpack(home, &archive, |there| there.facts.misfits(&Facts::here(tools)))
            .with_context(|| format!("nothing was taken from {}", archive.display()))?;
        if is_address {
            remove_if_there(&archive)?;
        }
        let Some(manifest) = unpacked else { return Ok(None) };
        let new = Self { home: home.clone(), manifest };
        eprintln!("      {} unpacked after {}", archive.display(), human_time(start.elapsed()));
        new.forget_other_library(checkout)?;
        Ok(Some(new))
    }

    /// Another library than this checkout's is of no use here.
    fn forget_other_library(&self, checkout: &Checkout) -> Result<()> {
        if content_key(&checkout.support_crate())? == self.manifest.sources {
            return Ok(());
        }
        eprintln!("      the library is not the one that was packed: it will be compiled (one to four minutes)");
        let target = self.home.prebuilt().join(TARGET);
        for profile in
            fs::read_dir(&target).into_iter().flatten().flatten().map(|entry| entry.path().join("debug/deps"))
        {
            for file in fs::read_dir(profile).into_iter().flatten().flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                if name.strip_prefix("lib").unwrap_or(&name).starts_with("quantlab") {
                    remove_if_there(&file.path())?;
                }
            }
        }
        Ok(())
    }

    /// Puts the result of a step in place, if it was made from the same.
    pub fn take(&self, step: &str, key: &str) -> Result<bool> {
        let (from, to) = (self.home.prebuilt().join(step), self.home.root().join(step));
        if self.manifest.steps.get(step).is_none_or(|packed| packed != key) || !from.exists() {
            eprintln!("      {step}: a different version was packed; it will be made here");
            return Ok(false);
        }
        remove_if_there(&to)?;
        fs::rename(&from, &to).with_context(|| format!("cannot move {} into place", from.display()))?;
        Ok(true)
    }

    /// Makes a build with Cargo take what was compiled.
    pub fn apply(&self, checkout: &Checkout, tools: &Toolchain, command: &mut Command) -> Result<()> {
        replay::apply(&self.home, &Paths::of(&self.home, checkout.root(), &tools.sysroot)?, command)
    }

    /// To be called after such a build, whatever came of it.
    pub fn end_build(&self) -> Result<()> {
        replay::restore_build_scripts(&self.home)
    }
}

/// Unpacks an archive beside its place, and moves it there when all is there. None, with the reason on screen, if it
/// does not fit.
fn unpack(home: &Home, file: &Path, misfits: impl FnOnce(&Manifest) -> Vec<String>) -> Result<Option<Manifest>> {
    let side = home.root().join("unpacking");
    remove_if_there(&side)?;
    let unpacked = archive::read(file, &side, |text| {
        let manifest = Manifest::of_text(text)?;
        let misfits = misfits(&manifest);
        if !misfits.is_empty() {
            eprintln!(
                "{} does not fit this machine, so everything is compiled:\n  {}",
                file.display(),
                misfits.join("\n  ")
            );
            return Ok(None);
        }
        Ok(Some((manifest.entries, manifest)))
    });
    let moved = unpacked.and_then(|manifest| {
        if let Some(manifest) = &manifest {
            fs::write(side.join(MANIFEST), serde_json::to_vec(manifest)?)?;
            remove_if_there(&home.prebuilt())?;
            fs::rename(&side, home.prebuilt()).context("cannot move it into place")?;
        }
        Ok(manifest)
    });
    remove_if_there(&side)?;
    moved
}

#[cfg(test)]
mod tests;
