//! The crates that Cargo.lock pins.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::home::remove_if_there;

/// Removes fetched crates that the lock no longer names: offline, Cargo takes the newest version it has.
pub fn prune(registry: &Path, lock: &str) -> Result<()> {
    let locked = locked_crates(lock);
    for part in ["src", "cache"] {
        for index in fs::read_dir(registry.join(part)).into_iter().flatten().flatten() {
            for krate in fs::read_dir(index.path()).into_iter().flatten().flatten() {
                let name = krate.file_name().to_string_lossy().into_owned();
                if !locked.contains(name.strip_suffix(".crate").unwrap_or(&name)) {
                    remove_if_there(&krate.path())?;
                }
            }
        }
    }
    Ok(())
}

/// `NAME-VERSION` of each package in Cargo.lock.
fn locked_crates(lock: &str) -> HashSet<String> {
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let lines: Vec<&str> = lock.lines().collect();
    lines
        .windows(2)
        .filter_map(|pair| Some(format!("{}-{}", value(pair[0], "name = ")?, value(pair[1], "version = ")?)))
        .collect()
}

/// The version of a package in Cargo.lock.
pub fn locked_version(lock: &str, package: &str) -> Result<String> {
    let start = format!("name = \"{package}\"\nversion = \"");
    let rest = lock.split_once(&start).map(|(_, rest)| rest);
    rest.and_then(|r| r.split_once('"'))
        .map(|(version, _)| version.to_owned())
        .with_context(|| format!("Cargo.lock names no {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_names_a_packages_version() {
        let lock = "[[package]]\nname = \"torch-sys\"\nversion = \"0.26.0\"\n";
        assert_eq!(locked_version(lock, "torch-sys").unwrap(), "0.26.0");
        assert!(locked_version(lock, "tch").unwrap_err().to_string().contains("tch"));
    }

    #[test]
    fn only_crates_that_the_lock_names_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (src, cache) = (dir.path().join("src/index-1"), dir.path().join("cache/index-1"));
        for version in ["1.0.0", "1.2.0"] {
            fs::create_dir_all(src.join(format!("half-{version}"))).unwrap();
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join(format!("half-{version}.crate")), "").unwrap();
        }
        prune(dir.path(), "[[package]]\nname = \"half\"\nversion = \"1.0.0\"\n").unwrap();
        assert!(src.join("half-1.0.0").exists() && cache.join("half-1.0.0.crate").exists());
        assert!(!src.join("half-1.2.0").exists() && !cache.join("half-1.2.0.crate").exists());
    }
}
