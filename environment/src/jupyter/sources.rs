//! What the library is built from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What library and course are built from, seen from its folder.
const SOURCES: [&str; 10] = [
    "Cargo.toml",
    "src",
    "embedded",
    "fonts",
    "course/Cargo.toml",
    "course/src",
    "kernels/Cargo.toml",
    "kernels/src",
    "../Cargo.toml",
    "../Cargo.lock",
];

/// Changes whenever a file that the support crate is built from does: paths, sizes and times, as Cargo
/// looks at them.
pub fn source_key(support_crate: &Path) -> Result<String> {
    let mut entries = Vec::new();
    for part in SOURCES {
        list(&support_crate.join(part), &mut entries)?;
    }
    entries.sort();
    let mut hash = Sha256::new();
    hash.update(support_crate.to_string_lossy().as_bytes());
    for entry in entries {
        hash.update(entry.as_bytes());
        hash.update([0]);
    }
    Ok(format!("{:x}", hash.finalize()))
}

fn list(path: &Path, entries: &mut Vec<String>) -> Result<()> {
    let Ok(meta) = fs::metadata(path) else { return Ok(()) };
    if meta.is_dir() {
        for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
            list(&entry?.path(), entries)?;
        }
    } else {
        entries.push(format!("{} {} {:?}", path.display(), meta.len(), meta.modified()?));
    }
    Ok(())
}

/// A file of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The hash of its content.
    pub sha256: String,
    /// Since 1970.
    pub modified: Duration,
}

/// What the library is built from, by its path below the support crate.
pub fn sources(support_crate: &Path) -> Result<BTreeMap<PathBuf, Source>> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<PathBuf> = SOURCES.iter().map(PathBuf::from).collect();
    while let Some(inner) = waiting.pop() {
        let path = support_crate.join(&inner);
        let Ok(meta) = fs::metadata(&path) else { continue };
        if meta.is_dir() {
            let entries = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            waiting.extend(entries.flatten().map(|entry| inner.join(entry.file_name())));
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let modified = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        found.insert(inner, Source { sha256: format!("{:x}", Sha256::digest(bytes)), modified });
    }
    Ok(found)
}

/// Whether what [`sources`] found in two places is the same but for its times.
pub fn is_same(one: &BTreeMap<PathBuf, Source>, other: &BTreeMap<PathBuf, Source>) -> bool {
    let contents = |sources: &BTreeMap<PathBuf, Source>| -> Vec<(PathBuf, String)> {
        sources.iter().map(|(path, source)| (path.clone(), source.sha256.clone())).collect()
    };
    contents(one) == contents(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_changes_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let krate = dir.path().join("support-crate");
        fs::create_dir_all(krate.join("src/model")).unwrap();
        fs::write(krate.join("src/model/gpt2.rs"), "a").unwrap();
        let before = source_key(&krate).unwrap();
        assert_eq!(before, source_key(&krate).unwrap());
        fs::write(krate.join("src/model/gpt2.rs"), "ab").unwrap();
        let edited = source_key(&krate).unwrap();
        assert_ne!(before, edited);
        fs::write(krate.join("src/new.rs"), "").unwrap();
        let more = source_key(&krate).unwrap();
        assert_ne!(edited, more);
        fs::create_dir_all(krate.join("kernels/src")).unwrap();
        fs::write(krate.join("kernels/src/lib.rs"), "").unwrap();
        assert_ne!(more, source_key(&krate).unwrap());
    }
}
