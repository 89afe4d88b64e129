//! `cargo lab test`: everything that must hold before a change lands; and `cargo lab exec`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::course::{self, Lesson, release};
use crate::home::Home;
use crate::kernel::installed::Installed;
use crate::run::{self, Destination};
use crate::setup;
use crate::ui::{Steps, run_shown, took};

/// Longest time for one cell of a lesson.
const CELL_TIMEOUT_S: u64 = 600;

/// Runs all checks; the first failure ends it.
pub fn check() -> Result<()> {
    let checkout = Checkout::find()?;
    let root = checkout.root().to_owned();
    let installed = setup::setup(&checkout, false)?;
    let home = Home::find()?;
    let cargo = |subcommand: &str, args: &[&str]| {
        let mut command = installed.cargo(&home, &root, subcommand);
        command.arg("--locked").args(args);
        command
    };
    let mut steps = Steps::new(7);

    let start = steps.begin("formatting", "cargo fmt --check");
    run_shown(Command::new("cargo").args(["fmt", "--all", "--check"]).current_dir(&root))?;
    took(start);

    let start = steps.begin("lints", "clippy on all targets, no warnings");
    run_shown(&mut cargo("clippy", &["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    took(start);

    let start = steps.begin("library tests", "unit, parity and property tests of the library and the trainer");
    let packages = ["--package", "quantlab", "--package", "quantlab-embedded-model"];
    let targets = ["--lib", "--bins", "--tests", "--quiet"];
    run_shown(&mut cargo("test", &[packages.as_slice(), &targets].concat()))?;
    took(start);

    let start =
        steps.begin("kernel tests", "this tool's own, some through the real kernel: failures, two at once, speed");
    // Not with the kernel's flags: the program that is tested becomes the one that kernels are started by.
    let mut own = Command::new("cargo");
    own.args(["test", "--locked", "--package", "quantlab-environment", "--quiet", "--", "--test-threads=2"]);
    run_shown(own.current_dir(&root).env("QUANTLAB_HOME", home.root()))?;
    took(start);

    let start = steps.begin("doc tests", "the examples in the library's documentation");
    run_shown(&mut cargo("test", &["--package", "quantlab", "--doc", "--quiet"]))?;
    took(start);

    let start = steps.begin("starters", "each is what `cargo lab release` makes of its solution");
    let lessons = course::ready(None, None)?;
    release::write_starters(&lessons, true)?;
    took(start);

    let start: Instant = steps.begin("notebooks", "each solution through the real kernel, copies kept in the home");
    let notebooks: Vec<PathBuf> = lessons.iter().map(Lesson::source).collect();
    run::run(&notebooks, &Destination::Folder(home.executed()), CELL_TIMEOUT_S)?;
    took(start);
    eprintln!("All checks passed.");
    Ok(())
}

/// Runs a command in the environment of the kernel; a `cargo` gets the shared build folder and flags.
pub fn exec(command: &[OsString]) -> Result<ExitCode> {
    let home = Home::find()?;
    let installed = Installed::read(&home)?;
    let (program, args) = command.split_first().context("a command is needed")?;
    let here: PathBuf = std::env::current_dir().context("the current folder cannot be read")?;
    let (mut command, args) = match args.split_first() {
        Some((subcommand, args)) if program == "cargo" => {
            let mut command = installed.cargo(&home, &here, subcommand);
            command.args(bench_profile(subcommand, args));
            (command, args)
        }
        _ => {
            let mut command = Command::new(program);
            installed.apply(&home, &mut command);
            (command, args)
        }
    };
    let status = command.args(args).status().with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
    Ok(ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1)))
}

/// The profile for `cargo bench`, unless the user names one.
///
/// Cargo's own has a build folder to itself, where everything would be compiled anew, for ten minutes. The
/// dependencies that tests and kernel share are optimised already, without checks; the library is too,
/// in the kernel, and has its checks on only where the workspace builds it, for the tests.
fn bench_profile(subcommand: &OsStr, args: &[OsString]) -> &'static [&'static str] {
    let mut own = args.iter().take_while(|arg| *arg != "--").map(|arg| arg.to_string_lossy());
    if subcommand != "bench" || own.any(|arg| arg == "--profile" || arg.starts_with("--profile=")) {
        return &[];
    }
    &[
        "--profile=dev",
        "--config=profile.dev.package.quantlab.debug-assertions=false",
        "--config=profile.dev.package.quantlab.overflow-checks=false",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bench_without_a_profile_gets_one() {
        let profile = |subcommand: &str, args: &[&str]| {
            bench_profile(OsStr::new(subcommand), &args.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(profile("bench", &["-p", "quantlab"])[0], "--profile=dev");
        // What stands behind the dashes is the benchmark's own.
        assert_eq!(profile("bench", &["--", "--profile", "x"]).len(), 3);
        assert!(profile("bench", &["--profile", "bench"]).is_empty());
        assert!(profile("bench", &["--profile=release", "--", "--json"]).is_empty());
        assert!(profile("test", &["-p", "quantlab"]).is_empty());
    }
}
