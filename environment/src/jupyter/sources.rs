//! What the library is built from.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
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
    let entries = files_of(support_crate, &SOURCES)?;
    let mut hash = Sha256::new();
    hash.update(support_crate.to_string_lossy().as_bytes());
    for entry in entries {
        hash.update(entry.as_bytes());
        hash.update([0]);
    }
    Ok(format!("{:x}", hash.finalize()))
}

/// The files in these parts of a folder, with their sizes and times, in order.
pub fn files_of(folder: &Path, parts: &[&str]) -> Result<Vec<String>> {
    let mut entries = Vec::new();
    parts.iter().try_for_each(|part| list(&folder.join(part), &mut entries))?;
    entries.sort();
    Ok(entries)
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

/// A hash of what is in these files, and of their paths below the support crate: the same in each checkout of one state.
pub fn content_key(support_crate: &Path) -> Result<String> {
    content_key_of(support_crate, &SOURCES)
}

/// The same of these files and folders, seen from the support crate.
pub fn content_key_of(support_crate: &Path, parts: &[&str]) -> Result<String> {
    let mut files = BTreeSet::new();
    let mut waiting: Vec<PathBuf> = parts.iter().map(PathBuf::from).collect();
    while let Some(inner) = waiting.pop() {
        let path = support_crate.join(&inner);
        if path.is_dir() {
            let entries = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            waiting.extend(entries.flatten().map(|entry| inner.join(entry.file_name())));
        } else if path.exists() {
            files.insert(inner);
        }
    }
    let mut hash = Sha256::new();
    for inner in files {
        let path = support_crate.join(&inner);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        hash.update(format!("{} {}\0", inner.display(), bytes.len()));
        hash.update(bytes);
    }
    Ok(format!("{:x}", hash.finalize()))
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
    #[test]
    fn a_content_has_one_key_wherever_and_whenever_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let key = |name: &str, text: &str| {
            let file = dir.path().join(name).join("support-crate/src/lib.rs");
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            content_key(&dir.path().join(name).join("support-crate")).unwrap()
        };
        assert_eq!(key("one", "a"), key("other", "a"));
        assert_ne!(key("one", "a"), key("other", "b"));
    }
}
