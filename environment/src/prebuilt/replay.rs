//! Cargo's build of the library where somebody else has compiled it: each call of rustc, and each run of a build script,
//! puts in place what it made there.
//!
//! Cargo asks for everything itself, in its own order, and notes what it got as after any build. So nothing depends on
//! how Cargo keeps its notes, and whatever is not in the archive is simply compiled. What Cargo calls a crate (the number
//! behind its name) says from what and how it is built, and not where; only crates of a checkout are called by its path.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow};

use super::{Manifest, Paths, TARGET};
use crate::home::{Home, remove_if_there, write_atomically, write_with_mode};
use crate::jupyter::cargo::become_program;
use crate::jupyter::links::link_or_copy;

/// The name under which this program stands for rustc.
const WRAPPER: &str = "quantlab-rustc-replay";
/// How Cargo calls the program of a build script, with the name of its file behind it.
const BUILD_SCRIPT: &str = "build-script-";

/// Of [`Paths`] as they are here, below the folder of what was unpacked.
const HERE: &str = "here.json";

/// Makes Cargo take what was unpacked.
pub fn apply(home: &Home, here: &Paths, command: &mut Command) -> Result<()> {
    let wrapper = home.prebuilt().join(WRAPPER);
    write_with_mode(&wrapper, &fs::read("/proc/self/exe").context("cannot read this program")?, 0o755)?;
    write_atomically(&home.prebuilt().join(HERE), &serde_json::to_vec(here)?)?;
    command.env("RUSTC_WRAPPER", wrapper).env("QUANTLAB_HOME", home.root());
    Ok(())
}

/// Puts the real build scripts where this program stood for them.
pub fn restore_build_scripts(home: &Home) -> Result<()> {
    let build = Path::new("debug/build");
    for folder in files(&home.prebuilt().join(TARGET).join(build)) {
        let place = home.target().join(build).join(folder.file_name().unwrap_or_default());
        // The stand-ins share one file, and with it the time of the last one. Their lists of sources do not.
        let list = files(&place).into_iter().find(|path| path.extension().is_some_and(|end| end == "d"));
        let Some(time) = list.and_then(|list| fs::metadata(list).ok()?.modified().ok()) else { continue };
        for program in files(&folder).iter().filter(|path| is_build_script(path)) {
            let place = place.join(program.file_name().unwrap_or_default());
            fs::rename(program, &place).with_context(|| format!("cannot write {}", place.display()))?;
            File::open(&place)?.set_modified(time)?;
        }
    }
    Ok(())
}

/// What is in a folder, if it is one.
fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// `build-script-build` and `build_script_build-0123456789abcdef`, which are one file.
fn is_build_script(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().replace('_', "-");
    name.starts_with(BUILD_SCRIPT) && !name.ends_with(".d")
}

/// Runs as the program of this name; `None` if it is not one that this program stands for here.
pub fn run_as(name: &str, args: &[OsString]) -> Option<Result<ExitCode>> {
    match name {
        WRAPPER => Some(rustc(args)),
        _ if name.starts_with(BUILD_SCRIPT) => Some(build_script(args)),
        _ => None,
    }
}

/// What was unpacked, as the programs that Cargo calls see it.
struct Replay {
    home: Home,
    manifest: Manifest,
    here: Paths,
}

impl Replay {
    fn open() -> Result<Self> {
        let home = Home::find()?;
        let manifest = Manifest::read(&home.prebuilt())?;
        let here = serde_json::from_slice(&fs::read(home.prebuilt().join(HERE))?)?;
        Ok(Self { home, manifest, here })
    }

    /// A text of there, as it would be here.
    fn moved(&self, text: &str) -> String {
        self.manifest.paths.moved(text, &self.here)
    }

    /// Where the archive has a path of the build folder.
    fn there(&self, path: &Path) -> Option<PathBuf> {
        Some(self.home.prebuilt().join(TARGET).join(path.strip_prefix(self.home.target()).ok()?))
    }
}

fn rustc(args: &[OsString]) -> Result<ExitCode> {
    let [rustc, args @ ..] = args else { return Err(anyhow!("called without a rustc")) };
    if let Some(unit) = Unit::of(args)
        && unit.replay(&Replay::open()?)?
    {
        return Ok(ExitCode::SUCCESS);
    }
    Err(become_program(Command::new(rustc).args(args)))
}

/// What a call of rustc makes.
#[derive(Debug, PartialEq, Eq)]
struct Unit {
    crate_name: String,
    /// Its files' common name without the beginning `lib`.
    stem: String,
    folder: PathBuf,
}

impl Unit {
    /// None for a question such as `-vV`.
    fn of(args: &[OsString]) -> Option<Self> {
        let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
        let after = |name: &str| args.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        let crate_name = after("--crate-name")?.to_owned();
        let number = args.iter().find_map(|arg| arg.strip_prefix("extra-filename=")).unwrap_or_default();
        Some(Self { stem: crate_name.clone() + number, crate_name, folder: PathBuf::from(after("--out-dir")?) })
    }

    /// Whether it was there.
    fn replay(&self, replay: &Replay) -> Result<bool> {
        let Some(there) = replay.there(&self.folder) else { return Ok(false) };
        let Some(stem) = self.stem_in(&there) else { return Ok(false) };
        let Ok(sources) = fs::read_to_string(there.join(format!("{stem}.d"))) else { return Ok(false) };
        let names = |stem: &str| ["rlib", "rmeta", "so"].map(|end| format!("lib{stem}.{end}"));
        for (name, new) in names(&stem).iter().zip(&names(&self.stem)) {
            let file = there.join(name);
            if file.is_file() {
                put(&file, &self.folder.join(new))?;
                // Under the old name, too: it stands in the libraries that were linked to it.
                put(&file, &self.folder.join(name))?;
            }
        }
        if self.crate_name.starts_with(&BUILD_SCRIPT.replace('-', "_")) {
            put(&std::env::current_exe()?, &self.folder.join(&self.stem))?;
        }
        let sources = replay.moved(&sources).replace(&stem, &self.stem);
        fs::write(self.folder.join(format!("{}.d", self.stem)), sources)?;
        Ok(true)
    }

    /// How its files are called in the archive: as here, but for crates of the checkout, of which there is one each.
    fn stem_in(&self, there: &Path) -> Option<String> {
        if there.join(format!("{}.d", self.stem)).is_file() {
            return Some(self.stem.clone());
        }
        let beginning = format!("{}-", self.crate_name);
        let names = fs::read_dir(there).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let stem = |name: String| Some(name.strip_suffix(".d").filter(|stem| stem.starts_with(&beginning))?.to_owned());
        names.filter_map(stem).next().filter(|_| self.crate_name.starts_with("quantlab"))
    }
}

/// Prints what the script printed, and puts in place what it wrote.
fn build_script(args: &[OsString]) -> Result<ExitCode> {
    let replay = Replay::open()?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("Cargo sets OUT_DIR for a build script")?);
    let printed = out.parent().and_then(|folder| replay.there(folder)).map(|there| there.join("output"));
    let Some(Ok(text)) = printed.as_ref().map(fs::read_to_string) else {
        let me = std::env::current_exe()?;
        let real = replay.there(&me).context("it is not in the build folder")?;
        return Err(become_program(Command::new(&real).arg0(me).args(args)));
    };
    if let Some(there) = replay.there(&out).filter(|there| there.is_dir()) {
        put_all(&there, &out)?;
    }
    io::stdout().write_all(replay.moved(&text).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn put_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() { put_all(&entry.path(), &target)? } else { put(&entry.path(), &target)? }
    }
    Ok(())
}

/// As if it had been made now: Cargo compares times.
fn put(from: &Path, to: &Path) -> Result<()> {
    remove_if_there(to)?;
    link_or_copy(from, to).with_context(|| format!("cannot put {} in place", to.display()))?;
    touch(to).with_context(|| format!("cannot set the time of {}", to.display()))
}

/// By the clock of the file system, which may be milliseconds behind the one that programs read: a file that Cargo writes
/// after this one must not look older.
fn touch(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: the descriptor is open, and no times are passed, which stands for now.
    match unsafe { libc::futimens(file.as_raw_fd(), std::ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
