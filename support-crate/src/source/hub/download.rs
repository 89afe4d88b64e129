//! A file from the Hub into the cache, piece by piece, so that an interruption costs one piece and not the file.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hf_hub::{HFError, HFResult};

use super::cache::Cache;
use super::progress::Progress;
use super::remote::{Remote, RemoteFile, persist};
use crate::error::{Context, Result};

/// Bytes of a piece. It is held in memory and lost when the connection breaks, and costs four requests; so it grows
/// while the network is fast.
const SMALLEST_PIECE: u64 = 256 * 1024;
const LARGEST_PIECE: u64 = 64 * 1024 * 1024;

/// After a piece that took less than `QUICK` comes a larger one, after one that took more than `SLOW` a smaller one.
const QUICK: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(4);

/// The path of `file` in the cache, at this commit, once all of its bytes are there.
///
/// # Errors
/// The Hub cannot be read, or sends more or fewer bytes than it announced; the disk cannot be written.
pub(super) fn download(remote: &Remote, cache: &Cache, commit: &str, file: &RemoteFile) -> Result<PathBuf> {
    let _lock = cache.lock(&file.etag, &file.name)?;
    let blob = cache.blob(&file.etag);
    // Whoever held the lock may have brought it. One of another length was left by a library that does not check.
    if fs::metadata(&blob).map_or(true, |found| found.len() != file.size) {
        let partial = cache.partial(&file.etag)?;
        complete(&partial, remote, cache, commit, file)?;
        fs::rename(&partial, &blob).context(|| format!("cannot rename {}", partial.display()))?;
    }
    cache.link(commit, &file.name, &file.etag)
}

/// Adds to `partial` what it lacks of the file.
fn complete(partial: &Path, remote: &Remote, cache: &Cache, commit: &str, file: &RemoteFile) -> Result<()> {
    let cannot = || format!("cannot write {}", partial.display());
    let mut output = OpenOptions::new().create(true).append(true).open(partial).context(cannot)?;
    let mut at = output.metadata().context(cannot)?.len();
    if at > file.size {
        output.set_len(0).context(cannot)?;
        at = 0;
    }
    let mut progress = Progress::start(&file.name, at, file.size, &cache.root);
    let mut piece = SMALLEST_PIECE;
    while at < file.size {
        let start = Instant::now();
        let bytes = persist(|failures| {
            if failures > 0 {
                progress.interrupted(at);
                piece = SMALLEST_PIECE;
            }
            read_piece(remote, commit, file, at, piece)
        })
        .map_err(|cause| {
            if matches!(cause, HFError::MalformedResponse { .. }) {
                // What came before may be wrong as well. If it cannot be removed, the next call finds that out again.
                let _ = fs::remove_file(partial);
            }
            remote.explain(&file.name, &cause)
        })?;
        output.write_all(&bytes).context(cannot)?;
        at += bytes.len() as u64;
        progress.reached(at);
        match start.elapsed() {
            time if time < QUICK => piece = (piece * 2).min(LARGEST_PIECE),
            time if time > SLOW => piece = (piece / 2).max(SMALLEST_PIECE),
            _ => {}
        }
    }
    // The name that comes next says that everything is there; it should not reach the disk before the bytes do.
    output.sync_all().context(cannot)?;
    progress.finish();
    Ok(())
}

/// The bytes of `file` from `at` on: `piece` of them, or fewer at its end.
fn read_piece(remote: &Remote, commit: &str, file: &RemoteFile, at: u64, piece: u64) -> HFResult<Vec<u8>> {
    let end = file.size.min(at + piece);
    // At its end, one byte more than there should be: this shows a file that is longer than announced.
    let asked = if end == file.size { end + 1 } else { end };
    let mut bytes = remote.read(commit, &file.name, at..asked).map_err(|cause| match cause {
        HFError::Http { context } if context.status.as_u16() == 416 => {
            HFError::malformed_response(format!("there is nothing from byte {at} on, of {} bytes", file.size))
        }
        other => other,
    })?;
    // A server that knows no ranges sends everything.
    if bytes.len() as u64 == file.size {
        bytes.drain(..at as usize);
    }
    let came = bytes.len() as u64;
    if came != end - at && came != file.size - at {
        return Err(HFError::malformed_response(format!(
            "asked for {} bytes from byte {at} on, of {}, and got {came}",
            end - at,
            file.size
        )));
    }
    Ok(bytes)
}
