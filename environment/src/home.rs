//! The one folder that holds everything `cargo lab` makes, and the stamps that say what is finished.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Layout of the folder named by `QUANTLAB_HOME`, else `quantlab` in the user's cache folder.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
    /// A shared set-up, which only `cargo lab setup --shared` changes.
    fixed: bool,
}

/// In a shared folder, names the set-up that is used.
pub const CURRENT: &str = "current";
/// In a set-up, says that it is a shared one.
pub const SHARED: &str = "shared";
/// Held by kernels that a shared set-up must outlive.
pub const IN_USE: &str = "in-use.lock";
/// Says where a user's kernels write.
pub const OWN_KERNELS: &str = "QUANTLAB_KERNELS";
/// What is locked in a set-up.
const LOCKS: [&str; 4] = ["setup.lock", "warm.lock", "kernel-start.lock", IN_USE];

/// Errors if a path could not be the root of a set-up: it ends up in Cargo configs, rpaths and space-separated flags.
pub fn check_path(root: &Path, hint: &str) -> Result<()> {
    if root.to_str().is_none_or(|s| s.contains([' ', '"', '\'', '\\', ':', ',', '$', '\n'])) {
        bail!(
            "the folder {} has a space, quote, colon, comma or non-UTF-8 character in its path, which the C++ linker cannot handle\n  try: {hint}",
            root.display()
        );
    }
    Ok(())
}

impl Home {
    /// Finds the folder: `QUANTLAB_HOME`, else the shared set-up that this program belongs to, else
    /// `$XDG_CACHE_HOME/quantlab`, else `~/.cache/quantlab`. Of a shared folder, the set-up that it names. Symbolic links
    /// are followed: what the system says of open files and folders has the real path.
    pub fn find() -> Result<Self> {
        let named = non_empty_var("QUANTLAB_HOME").map(PathBuf::from);
        let root = named.or_else(set_up_of_program).or_else(|| Some(cache()?.join("quantlab"))).context(
            "no folder for what set-up makes: neither QUANTLAB_HOME nor HOME is set\n  try: export QUANTLAB_HOME=/some/folder with 8 GB free",
        )?;
        let root = std::path::absolute(&root)
            .with_context(|| format!("QUANTLAB_HOME={} is not a usable path", root.display()))?;
        let root = real_path(&root);
        check_path(&root, "export QUANTLAB_HOME=/some/plain/path")?;
        let root = fs::read_link(root.join(CURRENT)).map_or(root.clone(), |release| root.join(release));
        let fixed = root.join(SHARED).exists();
        Ok(Self { root, fixed })
    }

    /// A home at a given folder, which may be changed.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), fixed: false }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// This program, copied here so that kernels do not depend on a checkout's build folder.
    pub fn lab(&self) -> PathBuf {
        self.root.join("bin/lab")
    }
    /// The Python virtual environment.
    pub fn python(&self) -> PathBuf {
        self.root.join("python")
    }
    /// A program of the virtual environment.
    pub fn python_bin(&self, name: &str) -> PathBuf {
        self.python().join("bin").join(name)
    }
    /// libtorch from the registry's wheel (unused when `LIBTORCH` is set).
    pub fn libtorch(&self) -> PathBuf {
        self.root.join("libtorch")
    }
    /// Folder of `libtch.so`, torch-sys's C++ shim built as a shared library.
    pub fn shim(&self) -> PathBuf {
        self.root.join("shim")
    }
    /// Install root of evcxr_jupyter.
    pub fn evcxr(&self) -> PathBuf {
        self.root.join("evcxr")
    }
    /// The kernel's own `CARGO_HOME`, filled from the committed lock file.
    pub fn cargo_home(&self) -> PathBuf {
        self.root.join("cargo-home")
    }
    /// A `CARGO_HOME` that holds the standard library's dependencies, for type inference.
    pub fn std_cargo_home(&self) -> PathBuf {
        self.root.join("std-cargo-home")
    }
    /// Build folder of the workspace, shared by tests and kernel.
    pub fn target(&self) -> PathBuf {
        self.root.join("target")
    }
    /// Parent of all kernels' build folders; its `.cargo/config.toml` applies to each.
    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }
    /// The Cargo config with the links override for torch-sys and the profile of dependencies.
    pub fn cargo_config(&self) -> PathBuf {
        self.kernels().join(".cargo/config.toml")
    }
    /// The build folder that live kernels are cloned from.
    pub fn warm(&self) -> PathBuf {
        self.kernels().join("warm")
    }
    /// Whether this user may change what is here, or there is nothing yet: several may share one home, and containers
    /// have it read-only. A shared one is nobody's.
    pub fn is_ours(&self) -> bool {
        let Ok(path) = std::ffi::CString::new(self.root.as_os_str().as_bytes()) else { return false };
        // SAFETY: access reads a string that ends with 0 and lives through the call.
        let may_write = unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 };
        !self.fixed && (may_write || !self.root.exists())
    }

    /// Where this user's kernels write: in the home, or, if that is somebody else's, in a cache folder of the user's
    /// own. In a sandbox, the one outside it.
    pub fn own_kernels(&self) -> PathBuf {
        if let Some(outside) = non_empty_var(OWN_KERNELS) {
            return outside.into();
        }
        if self.is_ours() {
            return self.kernels();
        }
        let place = self.root.to_string_lossy().replace('/', "-");
        cache().unwrap_or_else(std::env::temp_dir).join(format!("quantlab-kernels{place}"))
    }
    /// Parent of the live kernels' build folders.
    pub fn live(&self) -> PathBuf {
        self.own_kernels().join("live")
    }
    /// The Cargo config above them.
    pub fn live_cargo_config(&self) -> PathBuf {
        self.own_kernels().join(".cargo/config.toml")
    }
    /// What Cargo said of the cells' and the standard library's packages.
    pub fn answers(&self) -> PathBuf {
        self.own_kernels().join("answers")
    }
    /// Sources of packages as rust-analyzer is shown them.
    pub fn skeletons(&self) -> PathBuf {
        self.kernels().join("skeletons")
    }
    /// Models that came from the package registry, a folder each.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }
    /// What makes the book, and the book.
    pub fn book(&self) -> PathBuf {
        self.root.join("book")
    }
    /// Half-finished and finished downloads.
    pub fn downloads(&self) -> PathBuf {
        self.root.join("downloads")
    }
    /// Executed copies of notebooks, unless another folder is named.
    pub fn executed(&self) -> PathBuf {
        if self.is_ours() { self.root.join("executed") } else { self.own_kernels().join("executed") }
    }
    /// The Rust toolchain of a shared set-up.
    pub fn rust(&self) -> PathBuf {
        self.root.join("rust")
    }
    /// What was compiled elsewhere, while set-up takes it.
    pub fn prebuilt(&self) -> PathBuf {
        self.root.join("prebuilt")
    }

    /// Output of long steps.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Bytes that it takes on the disk; a file with several names counts once.
    pub fn disk_used(&self) -> u64 {
        let mut seen = HashSet::new();
        let mut stack = vec![self.root.clone()];
        let mut total = 0;
        while let Some(path) = stack.pop() {
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            if meta.is_dir() {
                stack.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
            } else if meta.nlink() < 2 || seen.insert(meta.ino()) {
                total += meta.blocks() * 512;
            }
        }
        total
    }

    fn stamp_path(&self, step: &str) -> PathBuf {
        self.root.join("stamps").join(step)
    }

    /// Whether `step` was finished from exactly the inputs that `key` names.
    pub fn is_done(&self, step: &str, key: &str) -> bool {
        fs::read_to_string(self.stamp_path(step)).is_ok_and(|found| found == key)
    }

    /// Records that `step` is finished; written to a side file first, so that a stamp is never half written.
    pub fn mark_done(&self, step: &str, key: &str) -> Result<()> {
        write_atomically(&self.stamp_path(step), key.as_bytes())
    }

    /// Takes back that `step` is finished.
    pub fn mark_undone(&self, step: &str) -> Result<()> {
        remove_if_there(&self.stamp_path(step))
    }

    /// What `step` was last finished from.
    pub fn stamp(&self, step: &str) -> Option<String> {
        fs::read_to_string(self.stamp_path(step)).ok()
    }

    /// Creates the files that are locked by those who cannot create files here.
    pub fn make_locks(&self) -> Result<()> {
        for path in LOCKS.map(|name| self.root.join(name)) {
            let made = File::options().append(true).create(true).open(&path);
            made.with_context(|| format!("cannot create {}", path.display()))?;
        }
        Ok(())
    }

    /// Keeps a shared set-up from being removed.
    pub fn use_shared(&self) -> Result<Option<File>> {
        if !self.fixed {
            return Ok(None);
        }
        let path = self.root.join(IN_USE);
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        file.lock_shared().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Some(file))
    }
}

/// The shared set-up that this program was installed in.
fn set_up_of_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let root = program.parent()?.parent()?;
    root.join(SHARED).exists().then(|| root.to_owned())
}

/// A path without symbolic links, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    let mut there = path.ancestors();
    let real = there.find_map(|there| Some(there.canonicalize().ok()?.join(path.strip_prefix(there).ok()?)));
    // Collected anew, it has no slash at its end.
    real.map_or_else(|| path.to_owned(), |real| real.components().collect())
}

/// The user's cache folder.
fn cache() -> Option<PathBuf> {
    let named = non_empty_var("XDG_CACHE_HOME").map(PathBuf::from);
    named.or_else(|| Some(std::env::home_dir()?.join(".cache")))
}

/// The variable's value, unless it is unset or empty.
pub fn non_empty_var(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|v| !v.is_empty())
}

/// `PATH` with these folders in front.
pub fn path_behind(folders: impl IntoIterator<Item = PathBuf>) -> OsString {
    let theirs = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().chain(std::env::split_paths(&theirs));
    std::env::join_paths(all).unwrap_or(theirs)
}

/// Writes a file beside its place and renames it there, so that a reader never sees half of it. One that has these
/// contents already is left alone: it may lie where nobody can write, and its time says when it changed.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == contents) {
        return Ok(());
    }
    write_with_mode(path, contents, 0o644)
}

/// [`write_atomically`] with the file's permissions.
pub fn write_with_mode(path: &Path, contents: &[u8], mode: u32) -> Result<()> {
    let parent = path.parent().context("a file needs a folder")?;
    let side =
        parent.join(format!(".{}.{}", path.file_name().unwrap_or_default().to_string_lossy(), std::process::id()));
    // A file that an earlier process with this number left behind would keep its own permissions.
    remove_if_there(&side)?;
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(parent)?;
        let mut file = File::options().write(true).create_new(true).mode(mode).open(&side)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&side, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Removes a file or folder; it may be missing already.
pub fn remove_if_there(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => Err(e),
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_holds_only_for_the_inputs_it_was_made_from() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        assert!(!home.is_done("python", "a"));
        home.mark_done("python", "a").unwrap();
        assert!(home.is_done("python", "a"));
        assert!(!home.is_done("python", "b"));
        home.mark_undone("python").unwrap();
        assert!(!home.is_done("python", "a"));
    }

    #[test]
    fn links_on_the_way_are_followed_and_what_is_not_there_yet_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("disk/user")).unwrap();
        std::os::unix::fs::symlink("disk/user", root.join("home")).unwrap();
        assert_eq!(real_path(&root.join("home")).as_os_str(), root.join("disk/user").as_os_str());
        assert_eq!(real_path(&root.join("home/.cache/quantlab")), root.join("disk/user/.cache/quantlab"));
    }

    #[test]
    fn an_atomic_write_leaves_no_side_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        write_atomically(&path, b"x").unwrap();
        write_atomically(&path, b"y").unwrap();
        let file = fs::metadata(&path).unwrap().ino();
        write_atomically(&path, b"y").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), file, "the same contents were written again");
        assert_eq!(fs::read(&path).unwrap(), b"y");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
