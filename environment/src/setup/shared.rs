//! `cargo lab setup --shared DIR`: one set-up for all users of a machine.
//!
//! ```text
//! DIR/current                     names the set-up that kernels start from
//! DIR/bin                         its programs
//! DIR/releases/ID                 a set-up as `QUANTLAB_HOME` is one, for its users to read only; and in it
//!     rust                        the toolchain, for the one that set it up may lie where nobody else can read
//!     course-ID                   the library's sources and the starters; no solutions, no answers
//! ```
//!
//! An update of the library builds it anew in the release, whose kernels each keep the one they started with. Any other
//! update makes another release; the one before is kept, and so are all that still have kernels.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::models::{self, Model};
use super::toolchain::Toolchain;
use super::{Plan, Request};
use crate::checkout::Checkout;
use crate::home::{CURRENT, Home, IN_USE, SHARED, check_path, non_empty_var, remove_if_there, write_atomically};
use crate::jupyter::links::copy_keeping_time;
use crate::jupyter::sources::content_key;
use crate::ui::{output_of, run_shown};

const RELEASES: &str = "releases";

/// The parts of a checkout that kernels and learners need. What else lies there is somebody's own: hand-ins, grades.
const PARTS: [&str; 15] = [
    ".cargo",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "docs",
    "embedded-model",
    "environment",
    "notebooks",
    "rust-toolchain.toml",
    "support-crate",
];

/// Whether users of the shared set-up have no use for something in these, or should not see it: answers, and what
/// programs and people leave beside notebooks.
fn is_private(name: &str) -> bool {
    let is_named = ["target", "results", "answers", "equivalent_mutants", "golden", "own"].contains(&name);
    is_named || name.starts_with(['.', '~']) || name.starts_with("solution.") || name.ends_with("-grades")
}

/// Makes or updates the set-up in `dir`, and makes it the one that is used.
pub fn setup(checkout: &Checkout, dir: &Path, request: &Request) -> Result<Home> {
    let dir = std::path::absolute(dir).with_context(|| format!("{} is not a usable path", dir.display()))?;
    if !dir.exists() {
        // SAFETY: umask has no preconditions and touches no memory.
        unsafe { libc::umask(0o022) };
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let dir = dir.canonicalize().with_context(|| format!("cannot read {}", dir.display()))?;
    check_path(&dir, "cargo lab setup --shared /srv/quantlab")?;
    let place = Home::at(&dir);
    super::room::check_place(&place)?;
    open_to_readers(&dir)?;
    fs::create_dir_all(dir.join(RELEASES)).with_context(|| format!("cannot write to {}", dir.display()))?;
    let _lock = place
        .lock("setup.lock", || eprintln!("waiting for another `cargo lab` that is setting up {}", dir.display()))?;
    let tools = Toolchain::find()?;
    tools.ensure_rust_src();
    check_readable(&tools, &dir)?;
    let before = fs::read_link(dir.join(CURRENT)).ok();
    // CUDA that was asked for once stays, and so does a model.
    let old = before.as_ref().map(|release| Home::at(&dir.join(release)));
    let has_cuda = old.as_ref().is_some_and(|old| old.libtorch().join("site").is_dir());
    let kept = Some(Model::Smollm2).filter(|model| old.as_ref().is_some_and(|old| model.path(old).is_file()));
    let model = request.model.or(kept);
    let cuda = request.cuda || has_cuda;
    let request = &Request { cuda, model, ..request.clone() };
    // A folder in which nothing is set up: an ID must not depend on itself.
    let release = Path::new(RELEASES).join(Plan::make(&place, checkout, request, tools.clone())?.id());
    let home = Home::at(&dir.join(&release));
    copy_rust(&tools, &home)?;
    let course = copy_course(checkout, &home)?;
    let tools = Toolchain { sysroot: home.rust(), ..tools };
    Plan::make(&home, &course, request, tools)?.carry_out()?;
    model.map_or(Ok(()), |model| models::fetch(&home, model))?;
    write_atomically(&home.root().join(SHARED), b"Changed by `cargo lab setup --shared` only.\n")?;
    switch(&dir, CURRENT, &release)?;
    switch(&dir, "bin", &Path::new(CURRENT).join("bin"))?;
    let keep = [Some(release), before].map(|kept| kept.map(|kept| dir.join(kept)));
    remove_unused(&dir.join(RELEASES), |path| keep.iter().flatten().any(|kept| kept == path))?;
    Ok(home)
}

/// What is made from here on can be read by all who can read the folder, and changed by those who can change it.
fn open_to_readers(dir: &Path) -> Result<()> {
    let mode = fs::metadata(dir)?.mode();
    // SAFETY: umask has no preconditions and touches no memory.
    unsafe { libc::umask(if mode & 0o020 == 0 { 0o022 } else { 0o002 }) };
    Ok(())
}

/// Errors if users could not read what the set-up takes from elsewhere.
fn check_readable(tools: &Toolchain, dir: &Path) -> Result<()> {
    let python = output_of(Command::new(&tools.python).args(["-c", "import sys; print(sys.base_prefix)"]))?;
    let libtorch = non_empty_var("LIBTORCH").map(PathBuf::from);
    for (path, what, hint) in [
        (
            Some(dir.to_owned()),
            "the shared folder",
            "name one inside folders that everyone can enter, such as /srv/quantlab",
        ),
        (Some(PathBuf::from(python.trim())), "Python", "install the system's Python, and name it with QUANTLAB_PYTHON"),
        (libtorch, "LIBTORCH", "unset it, and set-up gets libtorch from the package registry"),
    ] {
        if let Some(path) = path
            && let Some(closed) = closed(&path, dir)?
        {
            bail!(
                "{what}, {}, cannot be read by other users, because {} is closed to them\n  try: {hint}",
                path.display(),
                closed.display()
            );
        }
    }
    Ok(())
}

/// The folder on the way to a path that users of `dir` (its group, if others may not read it, otherwise everyone)
/// cannot enter.
fn closed(path: &Path, dir: &Path) -> Result<Option<PathBuf>> {
    let ours = fs::metadata(dir)?;
    let for_all = ours.mode() & 0o005 == 0o005;
    for folder in path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?.ancestors() {
        let meta = fs::metadata(folder)?;
        let open = meta.mode() & 0o001 != 0 || !for_all && meta.gid() == ours.gid() && meta.mode() & 0o010 != 0;
        if !open {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}

/// The toolchain, without its manuals.
fn copy_rust(tools: &Toolchain, home: &Home) -> Result<()> {
    if home.rust().exists() {
        return Ok(());
    }
    eprintln!("Copying Rust from {}", tools.sysroot.display());
    let side = home.root().join("rust.partial");
    remove_if_there(&side)?;
    fs::create_dir_all(&side).with_context(|| format!("cannot create {}", side.display()))?;
    for part in ["bin", "lib", "libexec"].map(|name| tools.sysroot.join(name)).iter().filter(|part| part.exists()) {
        run_shown(Command::new("cp").args(["-R", "--preserve=mode,timestamps,links"]).args([part, &side]))?;
    }
    // It may be closed to others where it lies; and whoever may write to the folder may remove it.
    let group = if fs::metadata(&side)?.mode() & 0o020 == 0 { "g+r" } else { "g+rw" };
    run_shown(Command::new("chmod").args(["-R", &format!("a+rX,{group}")]).arg(&side))?;
    fs::rename(&side, home.rust()).with_context(|| format!("cannot rename the copy to {}", home.rust().display()))
}

/// The checkout's files, in a folder of their own for each state of the library: kernels look at its sources.
fn copy_course(checkout: &Checkout, home: &Home) -> Result<Checkout> {
    let course = home.root().join(format!("course-{}", &content_key(&checkout.support_crate())?[..12]));
    let failed = || format!("cannot copy {} to {}", checkout.root().display(), course.display());
    fs::create_dir_all(&course).with_context(failed)?;
    for part in PARTS.map(|name| (checkout.root().join(name), course.join(name))) {
        copy(&part.0, &part.1).with_context(failed)?;
    }
    remove_others(home.root()).with_context(failed)?;
    Checkout::around(&course).context("the copy of the checkout has no lessons")
}

/// Removes what is no part of the course from its copies, in this release and others: earlier versions copied all that lay
/// in the checkout, hand-ins and gradebooks, too.
fn remove_others(release: &Path) -> Result<()> {
    // Nowhere else: what is not known there goes.
    let Some(releases) = release.parent().filter(|parent| parent.ends_with(RELEASES)) else { return Ok(()) };
    let inside = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    for course in inside(releases).flat_map(|release| inside(&release.path())) {
        if !course.file_name().to_string_lossy().starts_with("course-") {
            continue;
        }
        for part in inside(&course.path()) {
            if !PARTS.iter().any(|known| part.file_name() == *known) {
                remove_if_there(&part.path())?;
            }
        }
    }
    Ok(())
}

/// Copies a file or folder where it is missing or differs, and removes what is no longer in the folder.
fn copy(source: &Path, target: &Path) -> Result<()> {
    let Ok(meta) = source.symlink_metadata() else { return Ok(()) };
    if meta.is_file() {
        copy_file(source, target, meta.mode())?;
    }
    if !meta.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(target)?;
    let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let is_wanted = |entry: &fs::DirEntry| !is_private(&name(entry));
    for entry in fs::read_dir(source)?.collect::<std::io::Result<Vec<_>>>()?.iter().filter(|entry| is_wanted(entry)) {
        copy(&entry.path(), &target.join(entry.file_name()))?;
    }
    for there in fs::read_dir(target)?.collect::<std::io::Result<Vec<_>>>()? {
        if !is_wanted(&there) || source.join(there.file_name()).symlink_metadata().is_err() {
            remove_if_there(&there.path())?;
        }
    }
    Ok(())
}

fn copy_file(source: &Path, target: &Path, mode: u32) -> std::io::Result<()> {
    if fs::read(target).is_ok_and(|there| fs::read(source).is_ok_and(|new| new == there)) {
        return Ok(());
    }
    // One that another of the group has made cannot be changed, but replaced.
    let side = target.with_added_extension("partial");
    let _ = fs::remove_file(&side);
    copy_keeping_time(source, &side)?;
    let runs = mode & 0o100;
    fs::set_permissions(&side, Permissions::from_mode(mode | 0o444 | runs >> 3 | runs >> 6))?;
    fs::rename(&side, target)
}

/// Makes a symbolic link name something else, at once.
fn switch(dir: &Path, name: &str, to: &Path) -> Result<()> {
    let side = dir.join(format!(".{name}.{}", std::process::id()));
    let make = || {
        symlink(to, &side)?;
        fs::rename(&side, dir.join(name))
    };
    make().with_context(|| format!("cannot make {} point to {}", dir.join(name).display(), to.display()))
}

/// Removes releases that no kernel runs from.
fn remove_unused(releases: &Path, is_kept: impl Fn(&Path) -> bool) -> Result<()> {
    for entry in fs::read_dir(releases).with_context(|| format!("cannot read {}", releases.display()))?.flatten() {
        let path = entry.path();
        // For writing: on a network's file system, a lock for one alone needs that.
        let in_use = File::options().append(true).open(path.join(IN_USE)).is_ok_and(|lock| lock.try_lock().is_err());
        if !is_kept(&path) && !in_use {
            eprintln!("Removing {}, which is no longer used", path.display());
            if let Err(error) = remove_if_there(&path) {
                eprintln!("      left to whoever made it: {error:#}");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        write_atomically(path, text.as_bytes()).unwrap();
    }

    #[test]
    fn users_get_starters_and_sources_but_no_solutions_and_no_answers() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("checkout");
        for file in [
            ".git/config",
            ".cargo/config.toml",
            "notebooks/01-a/solution.ipynb",
            "notebooks/01-a/solution.html",
            "notebooks/01-a/.ipynb_checkpoints/solution-checkpoint.ipynb",
            "notebooks/own/mine.ipynb",
            "work/ada/lesson.ipynb",
            "work-grades/gradebook.db",
            "notebooks/work-grades/gradebook.db",
            "environment/src/solutions.rs",
            "embedded-model/tool",
            "notebooks/01-a/starter.ipynb",
            "notebooks/01-a/results/x.csv",
            "support-crate/Cargo.toml",
            "support-crate/src/lib.rs",
            "support-crate/course/tests/answers/a.rs",
            "target/debug/x",
        ] {
            write(&root.join(file), "x");
        }
        fs::set_permissions(root.join("embedded-model/tool"), Permissions::from_mode(0o700)).unwrap();
        let home = Home::at(&dir.path().join("releases/now"));
        // Of an earlier release, by a version that copied it.
        let leaked = dir.path().join("releases/before/course-0123/work-grades/gradebook.db");
        write(&leaked, "x");
        write(&dir.path().join("releases/before/course-0123/notebooks/x"), "x");
        let checkout = Checkout::around(&root).unwrap();
        let course = copy_course(&checkout, &home).unwrap();
        assert!(!leaked.exists() && dir.path().join("releases/before/course-0123/notebooks/x").exists());
        let there = |file: &str| course.root().join(file).exists();
        for shown in [
            "notebooks/01-a/starter.ipynb",
            "support-crate/src/lib.rs",
            "environment/src/solutions.rs",
            ".cargo/config.toml",
        ] {
            assert!(there(shown), "{shown}");
        }
        for hidden in [
            ".git",
            "target",
            "notebooks/01-a/solution.ipynb",
            "notebooks/01-a/solution.html",
            "notebooks/01-a/.ipynb_checkpoints",
            "notebooks/01-a/results",
            "notebooks/own",
            "notebooks/work-grades",
            "work",
            "work-grades",
            "support-crate/course/tests/answers",
        ] {
            assert!(!there(hidden), "{hidden}");
        }
        let tool = fs::metadata(course.root().join("embedded-model/tool")).unwrap();
        assert_eq!(tool.mode() & 0o777, 0o755, "what is closed to others here, and empty at that, is not closed there");
        let state = |checkout: &Checkout| {
            let file = fs::metadata(checkout.support_crate().join("src/lib.rs")).unwrap();
            (content_key(&checkout.support_crate()).unwrap(), file.modified().unwrap())
        };
        let before = state(&course);
        assert_eq!(state(&checkout), before, "times are part of what Cargo looks at");
        // Lessons change and go in place, the library in a folder of its own.
        write(&root.join("notebooks/02-b/starter.ipynb"), "x");
        copy_course(&checkout, &home).unwrap();
        assert!(there("notebooks/02-b/starter.ipynb"));
        fs::remove_dir_all(root.join("notebooks/02-b")).unwrap();
        write(&root.join("notebooks/01-a/starter.ipynb"), "better");
        assert_eq!(copy_course(&checkout, &home).unwrap().root(), course.root());
        assert!(!there("notebooks/02-b"));
        assert_eq!(fs::read_to_string(course.root().join("notebooks/01-a/starter.ipynb")).unwrap(), "better");
        write(&root.join("support-crate/src/lib.rs"), "better");
        assert_ne!(copy_course(&checkout, &home).unwrap().root(), course.root());
        assert_eq!(state(&course), before);
    }

    #[test]
    fn a_release_is_removed_only_when_nobody_uses_it() {
        let dir = tempfile::tempdir().unwrap();
        let releases = dir.path().join(RELEASES);
        for name in ["now", "used", "old"] {
            write(&releases.join(name).join(IN_USE), "");
            write(&releases.join(name).join(SHARED), "");
        }
        switch(dir.path(), CURRENT, Path::new("releases/old")).unwrap();
        switch(dir.path(), CURRENT, Path::new("releases/now")).unwrap();
        assert_eq!(fs::read_link(dir.path().join(CURRENT)).unwrap(), Path::new("releases/now"));
        let kernel = File::open(releases.join("used").join(IN_USE)).unwrap();
        kernel.lock_shared().unwrap();
        let sweep = || remove_unused(&releases, |path| path.ends_with("now")).unwrap();
        sweep();
        assert!(releases.join("used").exists() && releases.join("now").exists() && !releases.join("old").exists());
        drop(kernel);
        sweep();
        assert!(!releases.join("used").exists());
    }

    #[test]
    fn a_folder_that_is_closed_to_the_users_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let [private, shared] = ["private", "shared"].map(|name| dir.path().join(name));
        fs::create_dir_all(private.join("python")).unwrap();
        fs::create_dir(&shared).unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        open(dir.path(), 0o755);
        open(&shared, 0o755);
        open(&private, 0o750);
        assert_eq!(closed(&private.join("python"), &shared).unwrap(), Some(private.canonicalize().unwrap()));
        // A group's folder needs to be open to the group only.
        open(&shared, 0o2770);
        assert_eq!(closed(&private.join("python"), &shared).unwrap(), None);
        open(&private, 0o700);
        assert!(closed(&private.join("python"), &shared).unwrap().is_some());
    }
}
