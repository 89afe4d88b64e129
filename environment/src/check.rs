//! `cargo lab test`: everything that must hold before a change lands; and `cargo lab exec`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::home::{Home, write_atomically};
use crate::isa_tests;
use crate::jupyter::installed::Installed;
use crate::lessons::{self, Lesson, STARTER, release};
use crate::parts::Parts;
use crate::run::{self, Destination, Score};
use crate::setup;
use crate::setup::models::{self, Model};
use crate::ui::{Steps, human_time, run_shown, took};

/// Time limit for one cell of a lesson.
const CELL_TIMEOUT_S: u64 = 600;

/// Runs all checks and stops at the first failure. With `full`, also those of which otherwise only a sample runs.
pub fn check(full: bool) -> Result<()> {
    let checkout = Checkout::find()?;
    let root = checkout.root().to_owned();
    let (begin, mut parts) = (Instant::now(), Parts::default());
    let installed = parts.time("set-up", || setup::setup(&checkout, &setup::Request::default()))?;
    let home = Home::find()?;
    if let Err(error) = models::fetch(&home, Model::Smollm2) {
        eprintln!("tests of SmolLM2 will not run: {error:#}");
    }
    let cargo = |subcommand: &str, args: &[&str]| {
        let mut command = installed.cargo(&home, &root, subcommand)?;
        command.arg("--locked").args(args);
        anyhow::Ok(command)
    };
    let steps = Steps::new(10);

    let start = steps.begin("formatting", "cargo fmt --check");
    run_shown(Command::new("cargo").args(["fmt", "--all", "--check"]).current_dir(&root))?;
    took(start);

    let start = steps.begin("lints", "clippy on all targets, no warnings");
    let mut clippy = cargo("clippy", &["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    parts.time("lints", || run_shown(&mut clippy))?;
    took(start);

    let start =
        steps.begin("instruction sets", "the tests of quantlab-kernels, for each that this machine has or can emulate");
    isa_tests::run(&home, &installed, &checkout, &mut parts)?;
    took(start);

    let start = steps.begin("library tests", "unit, parity and property tests of library, course and trainer");
    let packages = ["quantlab", "quantlab-course", "quantlab-answers", "quantlab-embedded-model"];
    let packages = packages.map(|package| ["--package", package]).concat();
    let targets = ["--lib", "--bins", "--tests", "--", "--quiet"];
    parts.tests("library", cargo("test", &[packages.as_slice(), &targets].concat())?)?;
    took(start);

    let start =
        steps.begin("kernel tests", "this tool's own, some through the real kernel: failures, two at once, speed");
    // Without the kernel's flags: the program that is tested becomes the one that starts kernels.
    let mut own = Command::new("cargo");
    own.args(["test", "--locked", "--package", "quantlab-environment", "--", "--quiet", "--test-threads=2"]);
    if full {
        own.arg("--include-ignored");
    }
    own.current_dir(&root).env("QUANTLAB_HOME", home.root());
    parts.tests("kernel", own)?;
    took(start);

    let start = steps.begin("doc tests", "the examples in the library's documentation");
    let packages = ["--package", "quantlab", "--package", "quantlab-course", "--package", "quantlab-kernels"];
    parts.tests("documentation", cargo("test", &[packages.as_slice(), &["--doc", "--", "--quiet"]].concat())?)?;
    took(start);

    let start = steps
        .begin("claims", "what a lesson says of its run is printed from it, claimed beside it, or true of any run");
    let lessons = lessons::ready(None, None)?;
    lessons::claims::check(&lessons, &root)?;
    took(start);

    let start = steps.begin("starters", "each is what `cargo lab release` makes from its solution");
    release::write_starters(&lessons, true)?;
    took(start);

    let start = steps.begin("book", "its pages hold together: links, papers, and nothing that another machine serves");
    parts.time("book", || crate::book::book(None))?;
    took(start);

    let start = steps.begin(
        "notebooks",
        "solutions get all points, starters run on the embedded model and get none; two side by side",
    );
    let solutions: Vec<PathBuf> = lessons.iter().map(Lesson::source).collect();
    let starters = with_embedded_model(&lessons, &home)?;
    let copies = Destination::Folder(home.executed());
    let all = [solutions.as_slice(), &starters].concat();
    let ran = run::run_side_by_side(&all, &copies, CELL_TIMEOUT_S)?;
    for (notebook, ran) in all.iter().zip(&ran) {
        let name = notebook.strip_prefix(checkout.notebooks()).unwrap_or(notebook);
        parts.add(name.to_string_lossy(), ran.time);
    }
    let not_held: Vec<String> = solutions
        .iter()
        .zip(&ran)
        .flat_map(|(notebook, ran)| ran.not_held.iter().map(move |claim| format!("{} {claim}", notebook.display())))
        .collect();
    if !not_held.is_empty() {
        bail!("some claims of the solutions do not hold\n  {}", not_held.join("\n  "));
    }
    let scores: Vec<Vec<Score>> = ran.into_iter().map(|ran| ran.scores).collect();
    let (of_solutions, of_starters) = scores.split_at(solutions.len());
    expect_points(&solutions, of_solutions, |score| score.max)?;
    expect_points(&starters, of_starters, |_| 0.0)?;
    took(start);
    eprintln!("The longest parts of {}:\n{}", human_time(begin.elapsed()), parts.longest(10));
    eprintln!("All checks passed.");
    Ok(())
}

/// Copies of the starters that take the model that ships: what a learner has who fetched no other, in half the time.
fn with_embedded_model(lessons: &[Lesson], home: &Home) -> Result<Vec<PathBuf>> {
    let copy = |lesson: &Lesson| {
        let starter = lesson.dir.join(STARTER);
        let text = fs::read_to_string(&starter).with_context(|| format!("cannot read {}", starter.display()))?;
        let path = home.root().join("tests/starters").join(&lesson.name).join(STARTER);
        let embedded = text.replace(r#"\"smollm2:float32\", "#, "");
        anyhow::ensure!(embedded != text, "{} does not name its candidates as the others do", starter.display());
        write_atomically(&path, embedded.as_bytes())?;
        Ok(path)
    };
    lessons.iter().map(copy).collect()
}

/// An error that names the checks that gave other points than expected.
fn expect_points(notebooks: &[PathBuf], scores: &[Vec<Score>], expected: fn(&Score) -> f64) -> Result<()> {
    let unexpected: Vec<String> = notebooks
        .iter()
        .zip(scores)
        .flat_map(|(notebook, scores)| scores.iter().map(move |score| (notebook, score)))
        .filter(|(_, score)| score.points != Some(expected(score)))
        .map(|(notebook, score)| {
            let points = score.points.map_or("no number".to_owned(), |points| format!("{points} points"));
            format!("{}: {} gave {points}, not {}", notebook.display(), score.check, expected(score))
        })
        .collect();
    if unexpected.is_empty() {
        return Ok(());
    }
    bail!("some checks did not give the expected points\n  {}", unexpected.join("\n  "))
}

/// Runs a command in the environment of the kernel; a `cargo` gets the shared build folder and flags.
pub fn exec(command: &[OsString]) -> Result<ExitCode> {
    let home = Home::find()?;
    let installed = Installed::read(&home)?;
    let (program, args) = command.split_first().context("a command is needed")?;
    let here: PathBuf = std::env::current_dir().context("the current folder cannot be read")?;
    let (mut command, args) = match args.split_first() {
        Some((subcommand, args)) if program == "cargo" => {
            let mut command = installed.cargo(&home, &here, subcommand)?;
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
/// Cargo's own has a separate build folder, where everything would be compiled anew, which takes ten minutes. The
/// dependencies that tests and kernel share are already optimised and without checks; so is the library in the kernel,
/// which has its checks on only where the workspace builds it, for the tests.
fn bench_profile(subcommand: &OsStr, args: &[OsString]) -> &'static [&'static str] {
    let mut own = args.iter().take_while(|arg| *arg != "--").map(|arg| arg.to_string_lossy());
    if subcommand != "bench" || own.any(|arg| arg == "--profile" || arg.starts_with("--profile=")) {
        return &[];
    }
    &[
        "--profile=dev",
        "--config=profile.dev.package.quantlab.debug-assertions=false",
        "--config=profile.dev.package.quantlab.overflow-checks=false",
        "--config=profile.dev.package.quantlab-kernels.debug-assertions=false",
        "--config=profile.dev.package.quantlab-kernels.overflow-checks=false",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_must_be_those_expected() {
        let score = |points| Score { check: "l1-check".to_owned(), points, max: 3.0 };
        let notebooks = [PathBuf::from("a.ipynb")];
        let expect = |points, expected| expect_points(&notebooks, &[vec![score(points)]], expected);
        assert!(expect(Some(3.0), |score| score.max).is_ok() && expect(Some(0.0), |_| 0.0).is_ok());
        let error = expect(Some(2.0), |score| score.max).unwrap_err().to_string();
        assert!(error.contains("a.ipynb: l1-check gave 2 points, not 3"), "{error}");
        assert!(expect(None, |_| 0.0).unwrap_err().to_string().contains("no number"));
    }

    #[test]
    fn only_a_bench_without_a_profile_gets_one() {
        let profile = |subcommand: &str, args: &[&str]| {
            bench_profile(OsStr::new(subcommand), &args.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(profile("bench", &["-p", "quantlab"])[0], "--profile=dev");
        // What follows the dashes is the benchmark's own.
        assert_eq!(profile("bench", &["--", "--profile", "x"]).len(), 5);
        assert!(profile("bench", &["--profile", "bench"]).is_empty());
        assert!(profile("bench", &["--profile=release", "--", "--json"]).is_empty());
        assert!(profile("test", &["-p", "quantlab"]).is_empty());
    }
}
