//! The file: a tar archive with times to the nanosecond, compressed by the program `zstd`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tar::{Archive, Builder, Entry, EntryType, Header};

use crate::home::remove_if_there;

/// What of a home is packed, in the order in which it is moved into place: the stamps say that all is there.
pub const PARTS: [&str; 12] = [
    "bin",
    "cargo-home",
    "evcxr",
    "libtorch",
    "models",
    "python",
    "shim",
    "std-cargo-home",
    "target",
    "kernels",
    "installed.json",
    "stamps",
];

const MANIFEST: &str = "manifest.json";
/// A manifest names some hundred sources.
const MANIFEST_LIMIT: u64 = 1 << 20;
/// The key of a tar extension, and of a file's time in it.
const MODIFIED: &str = "mtime";

/// What is packed of the home, folders before what they hold.
pub fn list(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for part in PARTS.iter().map(Path::new).filter(|part| root.join(part).exists()) {
        add(root, part, &mut found).with_context(|| format!("cannot read {}", root.join(part).display()))?;
    }
    Ok(found)
}

fn add(root: &Path, inner: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let meta = fs::symlink_metadata(root.join(inner))?;
    if is_left_out(inner, &meta) {
        return Ok(());
    }
    found.push(inner.to_owned());
    if meta.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(root.join(inner))?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        entries.iter().try_for_each(|entry| add(root, &inner.join(entry.file_name()), found))?;
    }
    Ok(())
}

/// Live kernels, the compiler's sessions, tests and benchmarks; and what nobody else may have.
fn is_left_out(inner: &Path, meta: &fs::Metadata) -> bool {
    let name = inner.file_name().unwrap_or_default().to_string_lossy();
    let is_test = || meta.is_file() && meta.mode() & 0o111 != 0 && !name.contains('.');
    let in_deps = inner.parent().is_some_and(|parent| parent.ends_with("deps"));
    let in_target = inner.starts_with("target");
    inner == Path::new("kernels/live")
        || name == "credentials.toml"
        || in_target && (matches!(&*name, "incremental" | "tmp" | "examples") || in_deps && is_test())
        || !(meta.is_dir() || meta.is_file() || meta.is_symlink())
}

/// Writes the archive beside its place and renames it there.
pub fn write(file: &Path, manifest: &[u8], root: &Path, entries: &[PathBuf]) -> Result<()> {
    let side = file.with_extension("part");
    let mut zstd = zstd(Command::new("zstd").args(["-q", "-T0", "-f", "-o"]).arg(&side).stdin(Stdio::piped()))?;
    let input = zstd.stdin.take().context("zstd has no input")?;
    let written = append(Builder::new(io::BufWriter::with_capacity(1 << 20, input)), manifest, root, entries);
    let ended = zstd.wait().context("cannot wait for zstd")?;
    let done = written.and_then(|()| {
        if !ended.success() {
            bail!("zstd ended with {ended}");
        }
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
            let modified = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let time = format!("{}.{:09}", modified.as_secs(), modified.subsec_nanos());
            tar.append_pax_extensions([(MODIFIED, time.as_bytes())])?;
            tar.append_data(&mut header, inner, File::open(&path)?)
        };
        append().with_context(|| format!("cannot pack {}", path.display()))?;
    }
    Ok(tar.into_inner()?.flush()?)
}

/// Unpacks into a folder. `check` sees the manifest first, and says how many entries follow.
pub fn read<M>(file: &Path, into: &Path, check: impl FnOnce(&[u8]) -> Result<(usize, M)>) -> Result<M> {
    File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut zstd =
        zstd(Command::new("zstd").args(["-q", "-d", "-c"]).arg(file).stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let output = zstd.stdout.take().context("zstd has no output")?;
    let unpacked = extract(Archive::new(io::BufReader::with_capacity(1 << 20, output)), into, check);
    // Whatever it still has to say, nobody reads any more.
    let ended = zstd.wait().context("cannot wait for zstd")?;
    let unpacked = unpacked?;
    if !ended.success() {
        bail!("it is truncated or damaged (zstd ended with {ended})");
    }
    Ok(unpacked)
}

fn extract<M>(
    mut archive: Archive<impl Read>,
    into: &Path,
    check: impl FnOnce(&[u8]) -> Result<(usize, M)>,
) -> Result<M> {
    const DAMAGED: &str = "it is truncated, damaged, or not from `cargo lab pack`";
    let mut entries = archive.entries()?;
    let mut first = entries.next().context(DAMAGED)?.context(DAMAGED)?;
    let mut manifest = Vec::new();
    if first.path()? != Path::new(MANIFEST) || first.size() > MANIFEST_LIMIT {
        bail!("it does not begin with a manifest; it is not from `cargo lab pack`");
    }
    first.read_to_end(&mut manifest).context(DAMAGED)?;
    let (expected, made) = check(&manifest)?;
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut count = 0;
    for entry in entries {
        let mut entry = entry.context(DAMAGED)?;
        let inner = checked_path(&entry)?;
        let time = modified(&mut entry);
        let done = entry.unpack_in(into).with_context(|| format!("cannot unpack {}", inner.display()))?;
        if !done {
            bail!("{} would lead outside the folder", inner.display());
        }
        if let Some(time) = time {
            set_modified(&into.join(&inner), time)?;
        }
        count += 1;
    }
    if count != expected {
        bail!("it is truncated: {count} of {expected} files and folders");
    }
    Ok(made)
}

/// An entry's path, if it is one that packing could have written.
fn checked_path(entry: &Entry<impl Read>) -> Result<PathBuf> {
    let path = entry.path()?.into_owned();
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_ours = PARTS.iter().any(|part| path.starts_with(part));
    if !is_plain || !is_ours {
        bail!("{} is not a path below QUANTLAB_HOME that `cargo lab pack` writes", path.display());
    }
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Directory | EntryType::Symlink | EntryType::Link => Ok(path),
        other => bail!("{} is neither a file, a folder nor a link ({other:?})", path.display()),
    }
}

/// A file's time, to the nanosecond.
fn modified(entry: &mut Entry<impl Read>) -> Option<Duration> {
    let extensions = entry.pax_extensions().ok()??;
    let time = extensions.flatten().find(|extension| extension.key() == Ok(MODIFIED))?;
    let (seconds, nanos) = time.value().ok()?.split_once('.')?;
    Some(Duration::new(seconds.parse().ok()?, nanos.parse().ok()?))
}

fn zstd(command: &mut Command) -> Result<Child> {
    command
        .spawn()
        .context("cannot start zstd\n  try: on Debian or Ubuntu `apt-get install zstd`, on Fedora `dnf install zstd`")
}

/// `modified` is since 1970.
pub fn set_modified(path: &Path, modified: Duration) -> std::io::Result<()> {
    let time = UNIX_EPOCH + modified;
    // Its owner may set a file's time, also where nobody may write to it.
    File::open(path)?.set_modified(time)
}
