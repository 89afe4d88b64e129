//! Opening a model's files: only regular ones, and never reading more than is plausible.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Context, Error, Result};

/// Opens a regular file, directly or through links.
///
/// # Errors
/// There is no such file, or it cannot be opened; the message names it and says what is there instead.
pub(crate) fn open(path: &Path) -> Result<File> {
    let instead = |what, hint| Err(Error::source(format!("cannot open {}: it is {what}", path.display())).hint(hint));
    // Opening a FIFO waits for somebody who writes to it, and what a device gives may have no end.
    match fs::metadata(path).map_err(|cause| cannot_open(path, cause))?.file_type() {
        kind if kind.is_file() => File::open(path).map_err(|cause| cannot_open(path, cause)),
        kind if kind.is_dir() => instead("a folder", "there should be a file of this name; is it inside the folder?"),
        _ => instead("a pipe, a socket or a device", "put a regular file in its place"),
    }
}

/// Maps a regular file into memory.
///
/// # Errors
/// As [`open`]; a pointer of Git LFS's.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let file = open(path)?;
    // SAFETY: the map is read-only. Like every program that maps weights, this relies on nobody cutting the file short
    // while it is mapped, which no program can prevent; this library never does, because it saves into new files only.
    let map = unsafe { Mmap::map(&file) }.context(|| format!("cannot map {}", path.display()))?;
    check_is_content(path.display(), &map)?;
    Ok(map)
}

/// What kept a path from being opened.
pub(super) fn cannot_open(path: &Path, cause: io::Error) -> Error {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let error = Error::from(cause);
    if is_link && !path.exists() {
        return error.context(format!("cannot open {}: it is a broken link", path.display())).hint(
            "copy what the links point to, not the links (`cp -rL`; the Hub's cache is made of links), or download it \
             again",
        );
    }
    error.context(format!("cannot open {}", path.display()))
}

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; a file that is larger, or a Git LFS pointer.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    let file = open(path)?;
    if file.metadata().context(cannot)?.len() > limit {
        return Err(Error::format(format!("{} has more than {} MiB", path.display(), limit >> 20))
            .hint("a file of that name is never that large; download or copy it again"));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).context(cannot)?;
    check_is_content(path.display(), &bytes)?;
    Ok(bytes)
}

/// Makes sure that a name in a file is of one line and without commands to whatever shows it.
///
/// # Errors
/// It has a control character; the message shows where.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if !name.chars().any(char::is_control) {
        return Ok(());
    }
    let start: String = name.chars().take(60).collect();
    Err(Error::format(format!("it has a name with a control character: {start:?}"))
        .hint("no program that saves models writes such names: the file is damaged, or made to deceive its reader"))
}

/// Makes sure that this is not the text that Git keeps in place of a large file.
///
/// Source: git-lfs, `docs/spec.md`.
pub(crate) fn check_is_content(name: impl fmt::Display, bytes: &[u8]) -> Result<()> {
    if bytes.starts_with(b"version https://git-lfs.github.com/spec/v1") {
        return Err(Error::format(format!("{name} is only a Git LFS pointer to the file"))
            .hint("run `git lfs install` and then `git lfs pull` in its folder, or give the model's id instead"));
    }
    Ok(())
}
