//! Whose library a build folder holds.
//!
//! Cargo puts no hash into the name of a shared library, and the names of a checkout's other crates do not depend on
//! where it is. Two checkouts that build into one folder therefore write the same `libquantlab.so` and
//! `libquantlab_kernels-*.rlib`, and Cargo takes the other's for its own as long as its sources have not changed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::home::{remove_if_there, write_atomically};

const OWNER: &str = "quantlab-checkout";

/// Makes a build folder belong to this support crate: what was built from another checkout's is forgotten.
pub fn claim(target: &Path, support_crate: &Path) -> Result<()> {
    let owner = support_crate.to_string_lossy();
    let file = target.join(OWNER);
    if fs::read_to_string(&file).is_ok_and(|text| text == owner) {
        return Ok(());
    }
    for profile in profiles(target) {
        for entry in fs::read_dir(profile.join(".fingerprint")).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("quantlab-") {
                remove_if_there(&entry.path())?;
            }
        }
    }
    write_atomically(&file, owner.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
}

/// The folders with fingerprints: PROFILE of the host's own builds, TARGET/PROFILE of those for a named target.
fn profiles(target: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let first: Vec<PathBuf> = below(target);
    let second = first.iter().flat_map(|dir| below(dir));
    second.chain(first.clone()).filter(|dir| dir.join(".fingerprint").is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_checkouts_library_is_forgotten_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let fingerprints = dir.path().join("x86_64/debug/.fingerprint");
        let ours = ["quantlab-1a2b", "quantlab-kernels-5e6f"].map(|name| fingerprints.join(name));
        let make = || ours.iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
        let forgotten = || ours.iter().all(|dir| !dir.exists());
        make();
        fs::create_dir_all(fingerprints.join("tch-3c4d")).unwrap();
        claim(dir.path(), Path::new("/one")).unwrap();
        assert!(forgotten() && fingerprints.join("tch-3c4d").exists());
        make();
        claim(dir.path(), Path::new("/one")).unwrap();
        assert!(ours.iter().all(|dir| dir.exists()));
        claim(dir.path(), Path::new("/two")).unwrap();
        assert!(forgotten());
        // A folder that is yet to be made has its owner from the beginning.
        let new = dir.path().join("new");
        claim(&new, Path::new("/one")).unwrap();
        assert_eq!(fs::read_to_string(new.join(OWNER)).unwrap(), "/one");
    }
}
