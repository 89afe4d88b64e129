//! The file: a tar archive, compressed by the program `gzip`, which every Linux has.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tar::{Archive, Builder, Entry, EntryType, Header};

use super::MANIFEST;
use crate::home::remove_if_there;

/// What of a home is packed.
pub const PARTS: [&str; 3] = ["evcxr", "shim", "target"];

/// Of the manifest.
const LIMIT: u64 = 1 << 16;

/// Writes what lies at these paths below `root`, beside the archive's place, and renames it there.
pub fn write(file: &Path, manifest: &[u8], root: &Path, entries: &[PathBuf]) -> Result<()> {
    let side = file.with_extension("part");
    let output = File::create(&side).with_context(|| format!("cannot write {}", side.display()))?;
    let mut gzip = gzip(Command::new("gzip").args(["-c", "-6"]).stdin(Stdio::piped()).stdout(output))?;
    let input = gzip.stdin.take().context("gzip has no input")?;
    let written = append(Builder::new(io::BufWriter::with_capacity(1 << 20, input)), manifest, root, entries);
    let ended = gzip.wait().context("cannot wait for gzip")?;
    let done = written.and_then(|()| {
        ensure!(ended.success(), "gzip ended with {ended}");
        Ok(fs::rename(&side, file)?)
    });
    if done.is_err() {
        remove_if_there(&side)?;
    }
    done.with_context(|| format!("cannot write {}", file.display()))
}

fn append(mut tar: Builder<impl Write>, manifest: &[u8], root: &Path, entries: &[PathBuf]) -> Result<()> {
    tar.follow_symlinks(false);
    let mut header = Header::new_gnu();
    header.set_size(manifest.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, MANIFEST, manifest)?;
    let mut first_names: HashMap<(u64, u64), &Path> = HashMap::new();
    for inner in entries {
        let path = root.join(inner);
        let mut append = || -> io::Result<()> {
            let meta = fs::symlink_metadata(&path)?;
            let mut header = Header::new_gnu();
            header.set_metadata(&meta);
            // Whoever unpacks it owns it.
            header.set_uid(0);
            header.set_gid(0);
            if meta.is_file() && meta.nlink() > 1 {
                if let Some(first) = first_names.get(&(meta.dev(), meta.ino())) {
                    header.set_entry_type(EntryType::Link);
                    header.set_size(0);
                    return tar.append_link(&mut header, inner, first);
                }
                first_names.insert((meta.dev(), meta.ino()), inner);
            }
            if meta.is_symlink() {
                header.set_size(0);
                return tar.append_link(&mut header, inner, fs::read_link(&path)?);
            }
            if meta.is_dir() {
                header.set_size(0);
                return tar.append_data(&mut header, inner, io::empty());
            }
            tar.append_data(&mut header, inner, File::open(&path)?)
        };
        append().with_context(|| format!("cannot pack {}", path.display()))?;
    }
    Ok(tar.into_inner()?.flush()?)
}

/// Unpacks into a folder. `check` sees the manifest first, and says how many entries follow, or that none is wanted.
pub fn read<M>(file: &Path, into: &Path, check: impl FnOnce(&[u8]) -> Result<Option<(usize, M)>>) -> Result<Option<M>> {
    File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut gzip = gzip(Command::new("gzip").arg("-dc").arg(file).stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let output = gzip.stdout.take().context("gzip has no output")?;
    let unpacked = extract(Archive::new(io::BufReader::with_capacity(1 << 20, output)), into, check);
    // Whatever it still has to say, nobody reads any more.
    let ended = gzip.wait().context("cannot wait for gzip")?;
    let unpacked = unpacked?;
    if unpacked.is_some() && !ended.success() {
        bail!("it is truncated or damaged (gzip ended with {ended})");
    }
    Ok(unpacked)
}

fn extract<M>(
    mut archive: Archive<impl Read>,
    into: &Path,
    check: impl FnOnce(&[u8]) -> Result<Option<(usize, M)>>,
) -> Result<Option<M>> {
    const DAMAGED: &str = "it is truncated, damaged, or not from `cargo lab pack`";
    let mut entries = archive.entries()?;
    let mut first = entries.next().context(DAMAGED)?.context(DAMAGED)?;
    let mut manifest = Vec::new();
    if first.path()? != Path::new(MANIFEST) || first.size() > LIMIT {
        bail!("it does not begin with a manifest; it is not from `cargo lab pack`");
    }
    first.read_to_end(&mut manifest).context(DAMAGED)?;
    let Some((expected, made)) = check(&manifest)? else { return Ok(None) };
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut count = 0;
    for entry in entries {
        let mut entry = entry.context(DAMAGED)?;
        let inner = checked_path(&entry)?;
        let done = entry.unpack_in(into).with_context(|| format!("cannot unpack {}", inner.display()))?;
        ensure!(done, "{} would lead outside the folder", inner.display());
        count += 1;
    }
    ensure!(count == expected, "it is truncated: {count} of {expected} files and folders");
    Ok(Some(made))
}

/// An entry's path, if it is one that packing could have written.
fn checked_path(entry: &Entry<impl Read>) -> Result<PathBuf> {
    let path = entry.path()?.into_owned();
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_ours = PARTS.iter().any(|part| path.starts_with(part));
    ensure!(is_plain && is_ours, "{} is not a path below QUANTLAB_HOME that `cargo lab pack` writes", path.display());
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Directory | EntryType::Symlink | EntryType::Link => Ok(path),
        other => bail!("{} is neither a file, a folder nor a link ({other:?})", path.display()),
    }
}

fn gzip(command: &mut Command) -> Result<Child> {
    command.spawn().context("cannot start gzip")
}
