//! Downloads a file from the Hub into the cache, written as it arrives, so that an interruption loses nothing that had
//! come.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::check::{beginning, is_whole};
use super::fault::{Fault, Patience};
use super::progress::Progress;
use super::remote::{Remote, RemoteFile};
use crate::error::{Context, Result};

/// A connection that brought this many bytes before it broke was worth making: the attempts are counted afresh.
const WORTH_IT: u64 = 64 * 1024;

/// The path of `file` in the cache, at this commit, once all of its bytes are there.
///
/// # Errors
/// The Hub cannot be read, or sends bytes other than those it announced; the disk cannot be written.
pub(super) fn download(remote: &Remote, cache: &Cache, commit: &str, file: &RemoteFile) -> Result<PathBuf> {
    let _lock = cache.lock(&file.etag, &file.name)?;
    let blob = cache.blob(&file.etag);
    // Whoever held the lock may have downloaded it. If its content is different, a library that does not check left it.
    if !is_whole(&blob, file)? {
        let partial = cache.partial(&file.etag)?;
        complete(&partial, remote, cache, commit, file)?;
        fs::rename(&partial, &blob).context(|| format!("cannot rename {}", partial.display()))?;
    }
    cache.link(commit, &file.name, &file.etag)
}

/// Adds to `partial` what it lacks of the file.
fn complete(partial: &Path, remote: &Remote, cache: &Cache, commit: &str, file: &RemoteFile) -> Result<()> {
    let there = fs::metadata(partial).map_or(0, |found| found.len());
    let mut progress = Progress::start(&file.name, there, file.size, &cache.root);
    let mut was_wrong = false;
    loop {
        match fill(partial, &mut progress, remote, commit, file) {
            Err(Fault::Wrong(what)) => {
                let shown = beginning(partial).map(|text| format!("; it begins with `{text}`")).unwrap_or_default();
                // What was there before may be wrong as well. If it cannot be removed, that shows again.
                let _ = fs::remove_file(partial);
                if was_wrong {
                    return Err(remote.explain(&file.name, Fault::Wrong(what + &shown)));
                }
                was_wrong = true;
                progress.restarted();
            }
            outcome => {
                outcome.map_err(|fault| remote.explain(&file.name, fault))?;
                progress.finish();
                return Ok(());
            }
        }
    }
}

fn fill(
    partial: &Path,
    progress: &mut Progress<'_>,
    remote: &Remote,
    commit: &str,
    file: &RemoteFile,
) -> Result<(), Fault> {
    let cannot = || format!("cannot write {}", partial.display());
    let mut output = OpenOptions::new().create(true).append(true).open(partial).context(cannot)?;
    let mut at = output.metadata().context(cannot)?.len();
    let (name, size) = (&file.name, file.size);
    let mut patience = Patience::default();
    while at < size {
        let before = at;
        let outcome = remote.read(commit, name, at, size, &mut |bytes| {
            let (bytes, more) = bytes.split_at(bytes.len().min((size - at) as usize));
            output.write_all(bytes).context(cannot)?;
            at += bytes.len() as u64;
            progress.reached(at);
            if more.is_empty() { Ok(()) } else { Err(Fault::Wrong(format!("it has more than {size} bytes"))) }
        });
        match outcome {
            Ok(()) if at < size => return Err(Fault::Wrong(format!("it ends after {at} of {size} bytes"))),
            Ok(()) => {}
            Err(Fault::Refused(refusal)) if refusal.status == 416 => {
                return Err(Fault::Wrong(format!("there is nothing after the first {at} of {size} bytes")));
            }
            Err(fault) => {
                if at - before >= WORTH_IT {
                    patience = Patience::default();
                }
                patience.pause_after(fault)?;
                progress.interrupted(at);
            }
        }
    }
    // The name that comes next says that everything is there; it should not reach the disk before the bytes do.
    output.sync_all().context(cannot)?;
    if is_whole(partial, file)? { Ok(()) } else { Err(Fault::Wrong(format!("its {size} bytes have the wrong hash"))) }
}
