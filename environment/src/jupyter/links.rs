//! A build folder made of links to another one, for everything in it that cannot change.
//!
//! The warm folder holds, by hard links, what set-up has built and a cell needs. A kernel's folder is a clone of it by
//! symbolic links, which work across file systems, for other users, and on the overlays that containers have (there, a
//! hard link would copy each file). A link leads a careless write to the one shared file: libraries are read-only.
//!
//! To keep the support crate that it started with, a kernel has copies of Cargo's notes on that crate, and names of its
//! own (hard links, or else copies) for what is built from it: a newer one takes over only the old one's name.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Makes hard links in `to` for everything in `from` that a kernel needs, as far as it is `current`; what kernels share
/// becomes read-only.
pub fn gather(from: &Path, to: &Path, current: &Current) -> io::Result<()> {
    each(from, to, &|name| current.names(name), &|source, target, kind| {
        match kind {
            Kind::Folder => return Ok(false),
            // Cargo keeps writing to the notes of the workspace's builds.
            Kind::Note if source.iter().any(|part| part == ".fingerprint") => copy_keeping_time(source, target)?,
            Kind::Note | Kind::Library | Kind::Own => link_or_copy(source, target)?,
        }
        if kind == Kind::Library && !fs::metadata(target)?.permissions().readonly() {
            fs::set_permissions(target, Permissions::from_mode(0o444))?;
        }
        Ok(true)
    })
}

/// Lets Cargo rebuild what kernels share: rustc refuses to replace a library that is read-only. Another user's files
/// stay read-only; rustc reports it if one is in the way.
pub fn let_cargo_replace(target: &Path) {
    let entries = fs::read_dir(target).into_iter().flatten().flatten();
    for built_for in entries.map(|entry| entry.path()).chain([target.to_owned()]) {
        for library in fs::read_dir(built_for.join("debug/deps")).into_iter().flatten().flatten() {
            if library.metadata().is_ok_and(|meta| meta.permissions().readonly()) {
                let _ = fs::set_permissions(library.path(), Permissions::from_mode(0o644));
            }
        }
    }
}

/// Makes a kernel's own folder `to` from the warm one. `own` gives it what it may write to: [`link_or_copy`], or a `symlink`
/// for a kernel that may only read what it shares, and has no name of its own for any of it.
pub fn clone(from: &Path, to: &Path, own: fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    each(from, to, &|_| true, &|source, target, kind| {
        match kind {
            Kind::Folder | Kind::Library => symlink(source, target)?,
            Kind::Note => copy_keeping_time(source, target)?,
            Kind::Own => own(source, target)?,
        }
        Ok(true)
    })
}

/// A copy to build on, that leaves `from` as it is: what compilers write is linked, since they replace it by name, and what
/// Cargo writes into is copied.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        let is_built = ["so", "rlib", "rmeta", "o"].iter().any(|end| source.extension().is_some_and(|own| own == *end));
        if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if is_built || source.iter().any(|part| part == "incremental") {
            link_or_copy(&source, &target)?;
        } else if kind.is_file() {
            copy_keeping_time(&source, &target)?;
        }
    }
    Ok(())
}

/// A second name for a file, or a copy where that cannot be.
pub fn link_or_copy(source: &Path, target: &Path) -> io::Result<()> {
    fs::hard_link(source, target).or_else(|_| copy_keeping_time(source, target))
}

/// What Cargo's last build was made of.
pub struct Current(HashSet<String>);

impl Current {
    /// From the messages that `cargo build --message-format json` prints.
    pub fn of_messages(messages: &str) -> Self {
        Self(numbers(messages).into_iter().map(str::to_owned).collect())
    }

    /// Whether a file or folder belongs to it. What has no number does, and so does everything built from the support
    /// crate, some of which has its number only in Cargo's notes.
    fn names(&self, name: &str) -> bool {
        let number = name.rsplit_once('-').map(|(_, rest)| rest.split('.').next().unwrap_or(rest));
        of_support_crate(name) || !number.is_some_and(|number| is_number(number) && !self.0.contains(number))
    }
}

/// The numbers in what `cargo build --message-format json` prints: in `deps/libcandle_core-0123456789abcdef.rlib` and the
/// like, the number is the same for all that belongs together.
pub fn numbers(messages: &str) -> HashSet<&str> {
    let is_end = |c: char| !c.is_ascii_alphanumeric();
    messages.split('-').filter_map(|part| part.split(is_end).next()).filter(|part| is_number(part)).collect()
}

fn is_number(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a file or folder is to a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All that a build script, or Cargo about a crate, has written.
    Folder,
    Library,
    /// Built of the support crate.
    Own,
    /// Cargo's.
    Note,
}

/// Makes an entry of this kind, or says that it is to be made file by file.
type Make<'a> = dyn Fn(&Path, &Path, Kind) -> io::Result<bool> + 'a;

/// Makes each file of `from` in `to`, without what no kernel needs.
fn each(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool, make: &Make<'_>) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, source) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        let target = to.join(&name);
        let is_dir = entry.file_type()?.is_dir();
        if is_left_out(&name, is_dir) || !wanted(&name) {
            continue;
        }
        let is_made = kind(&source, is_dir).map_or(Ok(false), |kind| make(&source, &target, kind))?;
        if !is_made && is_dir {
            each(&source, &target, wanted, make)?;
        }
    }
    Ok(())
}

/// None for a folder of many things, and for a file that no kernel needs.
fn kind(path: &Path, is_dir: bool) -> Option<Kind> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (own, parent) = (name(path), path.parent().map(name).unwrap_or_default());
    let is_of_one_crate = [".fingerprint", "build"].contains(&parent.as_str());
    match is_dir {
        true if is_of_one_crate && !of_support_crate(&own) => Some(Kind::Folder),
        true => None,
        false if parent == "deps" && !of_support_crate(&own) => Some(Kind::Library),
        // Outside `deps` are other names for the same files, for people.
        false if of_support_crate(&own) => (parent == "deps").then_some(Kind::Own),
        false => Some(Kind::Note),
    }
}

/// The cells' own crate, which each kernel writes, and the one that set-up builds like it (Cargo may have to build that
/// one anew); what compiler and tests keep, lists of sources that only people's tools read, tests and the other crates of
/// the workspace.
fn is_left_out(name: &str, is_dir: bool) -> bool {
    let krate = crate_of(name);
    let is_cells = ["ctx", "code", "first"].contains(&krate) || krate.starts_with("code_") || name == "cell-call.json";
    let is_idle = ["incremental", ".cargo-lock", "examples", "tmp"].contains(&name) || !is_dir && name.ends_with(".d");
    let is_other_crate = krate.starts_with("quantlab") && !of_support_crate(name);
    // Executables beside the libraries in `deps` are tests.
    let is_test = of_support_crate(name) && !is_dir && !name.contains('.');
    is_cells || is_idle || is_other_crate || is_test
}

fn of_support_crate(name: &str) -> bool {
    ["quantlab", "quantlab-course", "quantlab-kernels"].contains(&&*crate_of(name).replace('_', "-"))
}

/// The crate that a file or folder is named after: `candle_core` of `libcandle_core-0123456789abcdef.rlib`.
fn crate_of(name: &str) -> &str {
    let stem = name.strip_prefix("lib").unwrap_or(name);
    let stem = stem.split('.').next().unwrap_or(stem);
    stem.rsplit_once('-').filter(|(_, number)| is_number(number)).map_or(stem, |(krate, _)| krate)
}

/// Cargo compares the times of fingerprints with those of sources.
pub fn copy_keeping_time(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let metadata = fs::metadata(from)?;
    let copy = fs::File::options().write(true).open(to);
    copy.or_else(|_| fs::File::open(to))?.set_modified(metadata.modified()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    const N: &str = "0123456789abcdef";

    #[test]
    fn each_file_is_what_its_name_says() {
        let left_out = |name: &str| is_left_out(&name.replace('#', N), false);
        for name in ["libctx.so", "libcode_3.so", "quantlab-#", "quantlab_kernels-#", "quantlab-#.d", "serde-#.d"] {
            assert!(left_out(name), "{name}");
        }
        for name in [
            "libquantlab_environment-#.rlib",
            "quantlab-embedded-model-#",
            "quantlab-checkout",
            ".cargo-lock",
            "libfirst-#.rmeta",
        ] {
            assert!(left_out(name), "{name}");
        }
        for name in
            ["libquantlab.so", "libquantlab-#.rmeta", "libcandle_core-#.rlib", "build-script-build", "libc-#.rlib"]
        {
            assert!(!left_out(name), "{name}");
        }
        assert!(!is_left_out(&format!("quantlab-{N}"), true) && is_left_out(&format!("ctx-{N}"), true));
        let kind = |path: &str, is_dir| kind(Path::new(&path.replace('#', N)), is_dir);
        assert_eq!(kind("debug/deps/libcandle_core-#.rlib", false), Some(Kind::Library));
        assert_eq!(kind("debug/.fingerprint/candle-core-#", true), Some(Kind::Folder));
        assert_eq!(kind("debug/build/tch-#", true), Some(Kind::Folder));
        assert_eq!(kind("debug/deps/libquantlab.so", false), Some(Kind::Own));
        assert_eq!(kind("debug/deps/libquantlab_kernels-#.rlib", false), Some(Kind::Own));
        assert_eq!(kind("debug/deps/libquantlab_course.so", false), Some(Kind::Own));
        assert_eq!(kind("debug/.fingerprint/quantlab-#", true), None);
        assert_eq!(kind("debug/.fingerprint/quantlab-#/lib-quantlab", false), Some(Kind::Note));
        assert_eq!(kind("debug/build/quantlab-#/output", false), Some(Kind::Note));
        assert_eq!((kind("debug", true), kind("debug/libquantlab.so", false)), (None, None));
    }

    #[test]
    fn what_an_earlier_build_left_is_not_current() {
        let current = Current::of_messages(&format!(
            r#"{{"filenames":["/t/deps/libtch-{N}.rlib"],"out_dir":"/t/build/tch-aaaaaaaaaaaaaaaa/out"}}"#
        ));
        for name in
            ["libtch-#.rlib", "tch-#", "tch-aaaaaaaaaaaaaaaa", "output", "libquantlab.so", "quantlab-bbbbbbbbbbbbbbbb"]
        {
            assert!(current.names(&name.replace('#', N)), "{name}");
        }
        assert!(!current.names("libtch-bbbbbbbbbbbbbbbb.rlib") && !current.names("tch-bbbbbbbbbbbbbbbb"));
    }

    #[test]
    fn a_clone_shares_libraries_and_nothing_that_changes() {
        let dir = tempfile::tempdir().unwrap();
        let [built, warm, live] = ["built", "warm", "live"].map(|name| dir.path().join(name));
        let library = Path::new("debug/deps").join(format!("libcandle-{N}.rlib"));
        let note = Path::new("debug/.fingerprint").join(format!("quantlab-{N}/lib-quantlab"));
        let shared = Path::new("debug/.fingerprint").join(format!("candle-{N}"));
        let own = Path::new("debug/deps/libquantlab.so");
        let write = |file: &Path, text: &str| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for file in [&library, &note, &shared.join("lib-candle"), Path::new("debug/deps/libctx.so"), own] {
            write(&built.join(file), "old");
        }
        gather(&built, &warm, &Current::of_messages(&format!("libcandle-{N}.rlib"))).unwrap();
        clone(&warm, &live, link_or_copy).unwrap();
        assert!(!live.join("debug/deps/libctx.so").exists());
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&built.join(&library)), inode(&live.join(&library)));
        assert!(live.join(&library).is_symlink() && live.join(&shared).is_symlink());
        assert_eq!(fs::metadata(live.join(&library)).unwrap().mode() & 0o777, 0o444);
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&built.join(&note)), time(&live.join(&note)));
        // Cargo notes something; a newer support crate takes the old one's name.
        write(&live.join(&note), "new");
        write(&warm.join("side"), "new");
        fs::rename(warm.join("side"), warm.join(own)).unwrap();
        assert_eq!(fs::read_to_string(warm.join(&note)).unwrap(), "old");
        assert_eq!(fs::read_to_string(live.join(own)).unwrap(), "old");
        let_cargo_replace(&built);
        assert_eq!(fs::metadata(built.join(&library)).unwrap().mode() & 0o777, 0o644);
    }
}
