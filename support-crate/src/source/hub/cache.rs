//! The cache on disk, laid out as Python's `huggingface_hub` has it, so that both share their downloads.
//!
//! ```text
//! models--owner--name/refs/main                         the commit that `main` is at
//! models--owner--name/snapshots/<commit>/config.json    a link to ../../blobs/<etag>
//! models--owner--name/blobs/<etag>                      the bytes, named after their hash
//! .locks/models--owner--name/<etag>.lock                held while a blob is downloaded
//! ```
//!
//! Source: <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use hf_hub::{Repo, RepoType};

use super::progress::say;
use crate::error::{Context, Result};
use crate::interrupt;

/// The part of the cache that belongs to one model.
pub(super) struct Cache {
    /// The cache of all models.
    pub root: PathBuf,
    repo: String,
    folder: PathBuf,
    locks: PathBuf,
}

impl Cache {
    /// The cache of `repo` in the folder `root`.
    pub fn new(root: &Path, repo: &str) -> Self {
        let name = Repo::model(repo.to_owned()).folder_name();
        let (folder, locks) = (root.join(&name), root.join(".locks").join(name));
        Self { root: root.to_owned(), repo: repo.to_owned(), folder, locks }
    }

    /// The commit that `revision` was at when it was last asked for; a commit stands for itself.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let text = fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(text.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Remembers which commit `revision` is at.
    pub fn remember(&self, revision: &str, commit: &str) -> Result<()> {
        let repo = Repo::with_revision(self.repo.clone(), RepoType::Model, revision.to_owned());
        let written = hf_hub::Cache::new(self.root.clone()).repo(repo).create_ref(commit);
        written.context(|| cannot("write", &self.folder.join("refs").join(revision)))
    }

    /// Where the file is, if it is there.
    pub fn file(&self, commit: &str, name: &str) -> Option<PathBuf> {
        Some(self.snapshot(commit, name)).filter(|path| path.exists())
    }

    /// Waits until no other process downloads this blob, and keeps others waiting while the result lives.
    pub fn lock(&self, etag: &str, name: &str) -> Result<File> {
        let path = self.locks.join(format!("{etag}.lock"));
        let file = create_parent(&path).and_then(|()| File::create(&path)).context(|| cannot("create", &path))?;
        let attempt = || match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(cause)) => Some(Err(cause)),
            Ok(()) => Some(Ok(())),
        };
        let wait = || {
            say(&format!("{name}: waiting for another process that is downloading it"));
            interrupt::until(|moment| {
                thread::sleep(moment);
                attempt()
            })
        };
        attempt().map_or_else(wait, Ok)?.context(|| cannot("lock", &path))?;
        Ok(file)
    }

    /// Where the bytes with this hash belong.
    pub fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// Where they are until they are complete. Not the `<etag>.incomplete` of other libraries: those do not
    /// always write from front to back, so their length does not tell what is there.
    pub fn partial(&self, etag: &str) -> Result<PathBuf> {
        let path = self.folder.join("blobs").join(format!("{etag}.quantlab.incomplete"));
        create_parent(&path).context(|| cannot("create the folder for", &path))?;
        Ok(path)
    }

    /// Gives the blob its name in the commit, and says where that is.
    pub fn link(&self, commit: &str, name: &str, etag: &str) -> Result<PathBuf> {
        let path = self.snapshot(commit, name);
        let up = "../".repeat(2 + name.matches('/').count());
        let link = || {
            create_parent(&path)?;
            if fs::symlink_metadata(&path).is_ok() {
                fs::remove_file(&path)?;
            }
            // On a file system without links the file itself goes there, as in Python.
            std::os::unix::fs::symlink(format!("{up}blobs/{etag}"), &path)
                .or_else(|_| fs::rename(self.blob(etag), &path))
        };
        link().context(|| cannot("link", &path))?;
        Ok(path)
    }

    fn snapshot(&self, commit: &str, name: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit).join(name)
    }
}

/// Whether this names a commit, and not a branch or a tag.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && is_hash(revision)
}

/// Whether this is a hash in hexadecimal digits, and thereby a harmless file name.
pub(super) fn is_hash(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn cannot(act: &str, path: &Path) -> String {
    format!("cannot {act} {}", path.display())
}
