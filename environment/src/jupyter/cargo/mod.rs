//! Stands as `cargo` in the kernel's `CARGO_HOME`: what evcxr and its rust-analyzer ask Cargo goes through here.
//!
//! Three kinds of request are answered faster than Cargo would, and everything else is passed on untouched:
//! `metadata`, by what Cargo said to the same question before ([`kept`]), with what no cell names left out
//! ([`metadata`], [`skeleton`]); and `build` of a cell, by the call of rustc that Cargo made for the cell before ([`cell`]).

mod cell;
mod kept;
mod metadata;
pub mod skeleton;
mod tool;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use cell::RECORDER;
pub use metadata::STD_CARGO_HOME;
use tool::tool;
pub use tool::{TOOLCHAIN_BIN, become_program};

/// The names under which this program stands for another one.
pub const STAND_INS: [&str; 3] = ["cargo", "rustup", RECORDER];

/// Runs as the program of this name; `None` if it is not one of [`STAND_INS`].
pub fn run_as(name: &str, args: &[OsString]) -> Option<Result<ExitCode>> {
    match name {
        "cargo" => Some(cargo(args.to_vec())),
        "rustup" => Some(rustup(args)),
        RECORDER => Some(cell::record(args)),
        _ => None,
    }
}

fn cargo(mut args: Vec<OsString>) -> Result<ExitCode> {
    let cells = std::env::var_os("EVCXR_TMPDIR").map(PathBuf::from);
    if let Some(question) = metadata::Question::of(&args, cells.as_deref()) {
        return metadata::answer(&question, &args);
    }
    match cells.filter(|dir| std::env::current_dir().is_ok_and(|here| here == *dir)) {
        Some(dir) if args.iter().any(|arg| arg == "build" || arg == "check") => {
            // A check says what a build says. It would need another set of libraries, while those for the build are
            // already there.
            args.iter_mut().filter(|arg| *arg == "check").for_each(|arg| *arg = "build".into());
            cell::build(&dir, &args)
        }
        _ => Err(become_program(Command::new(tool("cargo")).args(args))),
    }
}

/// `rustup which` is how evcxr finds cargo and rustc.
fn rustup(args: &[OsString]) -> Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let own_folder = own.parent().unwrap_or(Path::new("/"));
    match args {
        [which, name] if which == "which" && name == "cargo" => println!("{}", own_folder.join("cargo").display()),
        [which, name] if which == "which" && name == "rustc" => println!("{}", tool("rustc").display()),
        _ => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let real = std::env::split_paths(&path).filter(|dir| dir != own_folder).map(|dir| dir.join("rustup"));
            let real = real.into_iter().find(|program| program.is_file()).context("there is no rustup on the PATH")?;
            return Err(become_program(Command::new(real).args(args)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
