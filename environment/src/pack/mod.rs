//! `cargo lab pack` and `cargo lab unpack`: a finished set-up as one file, for machines that are alike.
//!
//! Cargo's fingerprints and the libraries' search paths contain absolute paths and times, so home and checkout must be
//! where they were, and times are kept to the nanosecond. What does not fit is refused before anything is written.

mod archive;
mod facts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::checkout::Checkout;
use crate::home::{Home, remove_if_there};
use crate::jupyter::sources::{Source, is_same, sources};
use crate::setup::{self, Request};
use crate::ui::{human_size, human_time};
use archive::set_modified;
use facts::Facts;

/// The archive's first entry.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    /// Of the archive's own format.
    format: u32,
    facts: Facts,
    /// The sources that the library was built from.
    sources: BTreeMap<PathBuf, Source>,
    /// How many entries follow.
    entries: usize,
}

const FORMAT: u32 = 1;

/// Writes the finished set-up into a file.
pub fn pack(file: &Path) -> Result<()> {
    let (home, checkout) = (Home::find()?, Checkout::find()?);
    setup::check_finished(&checkout).context("there is no finished set-up to pack")?;
    let start = Instant::now();
    // The library as it is now, not as it was before the last edit.
    setup::setup(&checkout, &Request::default())?;
    let _lock = home.lock("setup.lock", || eprintln!("a set-up is running; waiting for it"))?;
    let facts = Facts::of(&home, &checkout)?;
    let entries = archive::list(home.root())?;
    eprintln!(
        "Packing {} files and folders of {} ({})",
        entries.len(),
        home.root().display(),
        human_size(home.disk_used())
    );
    let sources = sources(&checkout.support_crate())?;
    let manifest = Manifest { format: FORMAT, facts, sources, entries: entries.len() };
    archive::write(file, &serde_json::to_vec(&manifest)?, home.root(), &entries)?;
    let size = fs::metadata(file).map_or(0, |meta| meta.len());
    println!("{} ({}), in {}", file.display(), human_size(size), human_time(start.elapsed()));
    Ok(())
}

/// Makes the set-up in a file this machine's own.
pub fn unpack(file: &Path) -> Result<()> {
    let (home, checkout) = (Home::find()?, Checkout::find()?);
    let start = Instant::now();
    let lock = home.lock("setup.lock", || eprintln!("a set-up is running; waiting for it"))?;
    check_empty(&home)?;
    let manifest = unpack_into(&home, file, |there| {
        let here = Facts::of_machine(&there.facts, &home, &checkout)?;
        Ok(there.facts.misfits(&here))
    })?;
    drop(lock);
    if !restore_times(&checkout.support_crate(), &manifest.sources)? {
        eprintln!("the support crate is not the one that was packed; rebuilding it (a minute)");
    }
    setup::setup(&checkout, &Request::default())?;
    println!("Set up in {}, in {}. Next: cargo lab start", home.root().display(), human_time(start.elapsed()));
    Ok(())
}

/// Errors if there is anything that unpacking would overwrite.
fn check_empty(home: &Home) -> Result<()> {
    let there: Vec<&str> = archive::PARTS.into_iter().filter(|part| home.root().join(part).exists()).collect();
    if there.is_empty() {
        return Ok(());
    }
    bail!(
        "{} already has {}\n  try: cargo lab clean, or name another folder with QUANTLAB_HOME",
        home.root().display(),
        there.join(", ")
    );
}

/// Unpacks beside the home's parts, and moves them into place once all is there.
fn unpack_into(home: &Home, file: &Path, misfits: impl FnOnce(&Manifest) -> Result<Vec<String>>) -> Result<Manifest> {
    let side = home.root().join("unpacking");
    remove_if_there(&side)?;
    let unpacked = archive::read(file, &side, |manifest| {
        let manifest: Manifest = serde_json::from_slice(manifest).context("its manifest is damaged")?;
        if manifest.format != FORMAT {
            bail!("it has format {}, and this `cargo lab` reads format {FORMAT}", manifest.format);
        }
        let misfits = misfits(&manifest)?;
        if !misfits.is_empty() {
            bail!("it does not fit this machine:\n  {}", misfits.join("\n  "));
        }
        Ok((manifest.entries, manifest))
    });
    let moved = unpacked.and_then(|manifest| {
        // The stamps last: without them, nothing counts as there.
        for part in archive::PARTS {
            let from = side.join(part);
            if from.exists() {
                fs::rename(&from, home.root().join(part)).with_context(|| format!("cannot move {part} into place"))?;
            }
        }
        Ok(manifest)
    });
    remove_if_there(&side)?;
    moved.with_context(|| format!("nothing was unpacked from {}", file.display()))
}

/// Gives sources with the same content the times that they had when the library was built; returns whether they are the
/// same.
fn restore_times(support_crate: &Path, packed: &BTreeMap<PathBuf, Source>) -> Result<bool> {
    let here = sources(support_crate)?;
    if !is_same(&here, packed) {
        return Ok(false);
    }
    for (inner, source) in packed {
        let path = support_crate.join(inner);
        set_modified(&path, source.modified).with_context(|| format!("cannot set the time of {}", path.display()))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
