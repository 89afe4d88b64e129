//! Whether a file holds what its name in the cache says.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::remote::RemoteFile;
use crate::error::{Context, Result};
use crate::interrupt;

/// Whether these are the bytes of `file`: as many, and with its hash. A mirror may have names of another kind; then
/// the length has to do.
///
/// # Errors
/// The file cannot be read, or the cell was interrupted.
pub(super) fn is_whole(path: &Path, file: &RemoteFile) -> Result<bool> {
    if std::fs::metadata(path).map_or(true, |found| found.len() != file.size) {
        return Ok(false);
    }
    let hash = match file.etag.len() {
        64 => hash(Sha256::new(), path)?,
        // What git calls a file's content.
        40 => hash(Sha1::new_with_prefix(format!("blob {}\0", file.size)), path)?,
        _ => return Ok(true),
    };
    Ok(hash.eq_ignore_ascii_case(&file.etag))
}

/// The hash of what `hasher` already holds followed by the file, in hexadecimal digits.
fn hash(mut hasher: impl Digest, path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = File::open(path).context(cannot)?;
    let mut bytes = vec![0; 1 << 20];
    loop {
        interrupt::check()?;
        match file.read(&mut bytes).context(cannot)? {
            0 => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            len => hasher.update(&bytes[..len]),
        }
    }
}

/// How the file begins, as far as it is text: for messages about one that is not what it should be.
pub(super) fn beginning(path: &Path) -> Option<String> {
    let mut start = [0; 60];
    let len = File::open(path).ok()?.read(&mut start).ok()?;
    let text = String::from_utf8_lossy(&start[..len]);
    let is_text = |c: char| c.is_ascii_graphic() || c.is_ascii_whitespace();
    let text = text.trim();
    (!text.is_empty() && text.chars().all(is_text)).then(|| text.split_whitespace().collect::<Vec<_>>().join(" "))
}
