//! One build folder per live kernel: cloned cheaply from the warm one, removed when the kernel ends.
//!
//! Two kernels in one folder would overwrite each other's code. A clone is made of hard links; what
//! Cargo writes in place is copied, so that no kernel writes through a link into the warm folder.
//!
//! A kernel holds a lock on its folder for as long as any of its processes lives. A janitor process
//! waits for that lock and then removes the folder, also after a crash; if the janitor is killed too,
//! the next kernel to start sweeps up.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::home::{Home, remove_if_there};

/// A kernel's build folder, and the lock that says it lives.
pub struct Live {
    /// The build folder.
    pub dir: PathBuf,
    /// Locked; the kernel inherits it.
    pub lock: File,
}

/// The lock file beside a live folder.
pub fn lock_path(dir: &Path) -> PathBuf {
    dir.with_extension("lock")
}

/// Makes the build folder of a new kernel.
pub fn clone_warm(home: &Home) -> Result<Live> {
    let live = home.live();
    fs::create_dir_all(&live).with_context(|| format!("cannot create {}", live.display()))?;
    // Process numbers come again, and containers that share a home have each their own.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let dir = live.join(format!("kernel-{}-{now}", std::process::id()));
    let lock_file = lock_path(&dir);
    let lock = File::create_new(&lock_file).with_context(|| format!("cannot create {}", lock_file.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", lock_file.display()))?;
    link_tree(&home.warm().join("target"), &dir.join("target")).with_context(|| {
        format!(
            "cannot clone the warm kernel into {}\n  try: free some disk space, then `cargo lab setup`",
            dir.display()
        )
    })?;
    Ok(Live { dir, lock })
}

/// Removes the folders of kernels that no longer live.
pub fn sweep(home: &Home) -> Result<()> {
    let Ok(entries) = fs::read_dir(home.live()) else { return Ok(()) };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "lock") {
            let free = open_lock(&path).is_ok_and(|file| file.try_lock().is_ok());
            if free {
                remove_if_there(&path.with_extension(""))?;
                remove_if_there(&path)?;
            }
        } else if !lock_path(&path).exists() {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

/// Waits until the kernel of `dir` has ended, then removes the folder.
pub fn janitor(dir: &Path) -> Result<()> {
    let lock_file = lock_path(dir);
    let Ok(lock) = open_lock(&lock_file) else { return Ok(()) };
    lock.lock()?;
    remove_if_there(dir)?;
    remove_if_there(&lock_file)
}

/// For writing: on network file systems only that can be locked.
fn open_lock(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// Clones a tree by hard links; see `treatment` for what is left out or copied.
pub fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let source = entry.path();
        let target = to.join(&name);
        let is_dir = entry.file_type()?.is_dir();
        match treatment(&name.to_string_lossy(), is_dir) {
            Treatment::LeaveOut => {}
            Treatment::Copy => copy_tree(&source, &target, is_dir)?,
            Treatment::Link if is_dir => link_tree(&source, &target)?,
            Treatment::Link => fs::hard_link(&source, &target).or_else(|_| copy_keeping_time(&source, &target))?,
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Treatment {
    Link,
    Copy,
    LeaveOut,
}

/// The cells' own crate is left out (each kernel writes it), as are compiler sessions, tests and the
/// other crates of the workspace. What Cargo and rustc rewrite in place for the support crate and its kernels,
/// fingerprints and dependency lists, is copied; libraries are replaced by renaming, so a link will do.
fn treatment(name: &str, is_dir: bool) -> Treatment {
    let stem = name.strip_prefix("lib").unwrap_or(name);
    let of = |krate: &str| stem.strip_prefix(krate).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']));
    if name == "incremental"
        || name == ".cargo-lock"
        || name == "examples"
        || of("ctx")
        || of("code")
        || name.starts_with("libcode_")
        || name == "cell-call.json"
    {
        return Treatment::LeaveOut;
    }
    let support = of("quantlab") || of("quantlab_kernels");
    if !support && stem.starts_with("quantlab") {
        return Treatment::LeaveOut;
    }
    if support && (is_dir || name.ends_with(".d")) {
        return Treatment::Copy;
    }
    // Executables beside the libraries in `deps` are tests.
    if support && !name.contains('.') {
        return Treatment::LeaveOut;
    }
    Treatment::Link
}

fn copy_tree(from: &Path, to: &Path, is_dir: bool) -> io::Result<()> {
    if !is_dir {
        return copy_keeping_time(from, to);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_tree(&entry.path(), &to.join(entry.file_name()), entry.file_type()?.is_dir())?;
    }
    Ok(())
}

/// Cargo compares the times of fingerprints with those of sources.
fn copy_keeping_time(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let modified = fs::metadata(from)?.modified()?;
    File::options().write(true).open(to)?.set_modified(modified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_rewritten_in_place_is_never_a_link() {
        assert_eq!(treatment("quantlab-0123", true), Treatment::Copy);
        assert_eq!(treatment("quantlab-0123.d", false), Treatment::Copy);
        assert_eq!(treatment("libquantlab-0123.so", false), Treatment::Link);
        assert_eq!(treatment("quantlab-0123", false), Treatment::LeaveOut);
        assert_eq!(treatment("quantlab-kernels-0123", true), Treatment::Copy);
        assert_eq!(treatment("quantlab_kernels-0123.d", false), Treatment::Copy);
        assert_eq!(treatment("libquantlab_kernels-0123.rlib", false), Treatment::Link);
        assert_eq!(treatment("quantlab_kernels-0123", false), Treatment::LeaveOut);
        assert_eq!(treatment("quantlab_environment-01.d", false), Treatment::LeaveOut);
        assert_eq!(treatment("libctx.so", false), Treatment::LeaveOut);
        assert_eq!(treatment("ctx-77", true), Treatment::LeaveOut);
        assert_eq!(treatment("libcode_3.so", false), Treatment::LeaveOut);
        assert_eq!(treatment("libcandle_core-9.rmeta", false), Treatment::Link);
        assert_eq!(treatment("candle-core-9", true), Treatment::Link);
        assert_eq!(treatment("libpolars_core-1.rlib", false), Treatment::Link);
    }

    fn home_with_warm_folder() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let deps = home.warm().join("target/debug/deps");
        fs::create_dir_all(&deps).unwrap();
        fs::write(deps.join("libcandle-1.rlib"), "library").unwrap();
        fs::write(deps.join("libctx.so"), "cell").unwrap();
        let print = home.warm().join("target/debug/.fingerprint/quantlab-1");
        fs::create_dir_all(&print).unwrap();
        fs::write(print.join("lib-quantlab"), "old").unwrap();
        (dir, home)
    }

    #[test]
    fn a_clone_shares_libraries_and_nothing_it_may_change() {
        let (_dir, home) = home_with_warm_folder();
        let live = clone_warm(&home).unwrap();
        let inode = |p: &Path| fs::metadata(p).unwrap().ino();
        let library = Path::new("target/debug/deps/libcandle-1.rlib");
        assert_eq!(inode(&home.warm().join(library)), inode(&live.dir.join(library)));
        assert!(!live.dir.join("target/debug/deps/libctx.so").exists());
        let print = Path::new("target/debug/.fingerprint/quantlab-1/lib-quantlab");
        fs::write(live.dir.join(print), "new").unwrap();
        assert_eq!(fs::read_to_string(home.warm().join(print)).unwrap(), "old");
        let time = |p: PathBuf| fs::metadata(p).unwrap().modified().unwrap();
        let _ = time(home.warm().join(print));
    }

    #[test]
    fn the_sweep_takes_dead_kernels_only() {
        let (_dir, home) = home_with_warm_folder();
        let live = clone_warm(&home).unwrap();
        let dead = home.live().join("kernel-0");
        fs::create_dir_all(&dead).unwrap();
        fs::write(lock_path(&dead), "").unwrap();
        let stray = home.live().join("kernel-1");
        fs::create_dir_all(&stray).unwrap();
        sweep(&home).unwrap();
        assert!(live.dir.exists() && !dead.exists() && !stray.exists() && !lock_path(&dead).exists());
        let dir = live.dir.clone();
        drop(live);
        janitor(&dir).unwrap();
        assert!(!dir.exists() && !lock_path(&dir).exists());
    }
}
