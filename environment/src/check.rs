//! `cargo lab test`: everything that must hold before a change lands; and `cargo lab exec`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::grade;
use crate::home::{Home, write_atomically};
use crate::isa_tests;
use crate::jupyter::installed::{Installed, SHARED_PROCESSORS};
use crate::jupyter::processes::end_with_this_process;
use crate::jupyter::sources::{content_key, content_key_of};
use crate::lessons::{self, Lesson, STARTER, release};
use crate::parts::Parts;
use crate::run::{self, Destination, Ran};
use crate::setup::models::{self, Model};
use crate::setup::{self, digest};
use crate::sweep::processor;
use crate::ui::{Steps, human_time, run_shown, took};

/// Time limit for one cell of a lesson.
const CELL_TIMEOUT_S: u64 = 600;

/// Part of what is tested: its name, what it shows, and how it is run.
type Part = (&'static str, &'static str, fn(&mut Tests) -> Result<()>);

/// In the order in which they run: what is soon known comes first.
const PARTS: [Part; 11] = [
    ("formatting", "cargo fmt --check", |tests| {
        run_shown(Command::new("cargo").args(["fmt", "--all", "--check"]).current_dir(tests.checkout.root()))
    }),
    ("lints", "clippy on all targets, no warnings", |tests| {
        run_shown(&mut tests.cargo("clippy", &["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?)
    }),
    ("claims", "what a lesson says of its run is printed from it, claimed beside it, or true of any run", |tests| {
        lessons::claims::check(&tests.lessons, tests.checkout.root())
    }),
    ("releases", "each starter is what `cargo lab release` makes from its solution", |tests| {
        release::write_starters(&tests.lessons, true)
    }),
    ("instruction-sets", "the tests of quantlab-kernels, for each that this machine has or can emulate", |tests| {
        isa_tests::run(&tests.home, &tests.installed, &tests.checkout, tests.full, &mut tests.parts)
    }),
    ("library", "unit, parity and property tests of library, course and trainer", |tests| {
        let packages = ["quantlab", "quantlab-course", "quantlab-answers", "quantlab-embedded-model"];
        let packages = packages.map(|package| ["--package", package]).concat();
        let targets = ["--lib", "--bins", "--tests", "--", "--quiet"];
        let command = tests.cargo("test", &[packages.as_slice(), &targets].concat())?;
        tests.parts.tests("library", command)
    }),
    // The library is built as these are linked with: the kernel's part builds it otherwise, in the same place.
    ("documentation", "the examples in the library's documentation", |tests| {
        let packages =
            ["quantlab", "quantlab-course", "quantlab-kernels"].map(|package| ["--package", package]).concat();
        let command = tests.cargo("test", &[packages.as_slice(), &["--doc", "--", "--quiet"]].concat())?;
        tests.parts.tests("documentation", command)
    }),
    ("kernel", "this tool's own tests, some through the real kernel: failures, attacks, speed", |tests| {
        // Without the kernel's flags: the program that is tested becomes the one that starts kernels.
        let mut own = Command::new("cargo");
        own.args(["test", "--locked", "--package", "quantlab-environment", "--", "--quiet", "--test-threads=2"]);
        if tests.full {
            own.arg("--include-ignored");
        }
        own.current_dir(tests.checkout.root()).env("QUANTLAB_HOME", tests.home.root());
        tests.parts.tests("kernel", own)
    }),
    ("book", "its pages hold together: links, papers, and nothing that another machine serves", |tests| {
        let pdf = tests.home.book().join("quantlab.pdf");
        let printed = crate::book::browser().map(|_| pdf.as_path());
        if let Err(none) = &printed {
            eprintln!("      its PDF is not tried: {none:#}");
        }
        crate::book::book(None, printed.ok()).map(drop)
    }),
    ("solutions", "graded in the sandboxes that run here: all points, and every claim holds", |tests| {
        grade::solutions(&tests.lessons, &tests.home)
    }),
    ("starters", "they run on the embedded model, and get no points; two side by side", starters),
];

/// What parts are run with.
struct Tests {
    checkout: Checkout,
    home: Home,
    installed: Installed,
    lessons: Vec<Lesson>,
    /// Whether all is to run of what otherwise only a sample runs.
    full: bool,
    /// What decides which cases property tests draw, if chance does not.
    cases: Option<(&'static str, String)>,
    parts: Parts,
}

impl Tests {
    /// `cargo SUBCOMMAND --locked ARGS` in the kernel's environment.
    fn cargo(&self, subcommand: &str, args: &[&str]) -> Result<Command> {
        let mut command = self.installed.cargo(&self.home, self.checkout.root(), subcommand)?;
        // Tests run side by side, in one process or two.
        command.envs([SHARED_PROCESSORS]).envs(self.cases.clone()).arg("--locked").args(args);
        Ok(command)
    }
}

/// What `cargo lab test` is asked for.
#[derive(Debug, clap::Args)]
pub struct Request {
    /// Also hand in every answer of the course's tests, through kernel and nbgrader (an hour); run the kernels' tests and the
    /// starters though they passed here as they are; try other cases of properties than the last time
    #[arg(long)]
    full: bool,
    /// Only these parts; all of them must hold before a change lands
    #[arg(value_name = "PART", value_parser = PARTS.map(|(name, ..)| name))]
    only: Vec<String>,
}

/// Runs the parts that are asked for, or all, and stops at the first failure.
pub fn check(request: &Request) -> Result<()> {
    let checkout = Checkout::find()?;
    let (begin, mut parts) = (Instant::now(), Parts::default());
    let installed = parts.time("set-up", || setup::setup(&checkout, &setup::Request::default()))?;
    let home = Home::find()?;
    if let Err(error) = models::fetch(&home, Model::Smollm2) {
        eprintln!("tests of SmolLM2 will not run: {error:#}");
    }
    let lessons = lessons::ready(None, None)?;
    let full = request.full;
    let sources = (!full).then(|| content_key_of(&checkout.support_crate(), &["src", "kernels", "course", "tests"]));
    let cases = sources.transpose()?.map(|sources| isa_tests::cases_of(&sources));
    let mut tests = Tests { checkout, home, installed, lessons, full, cases, parts };
    let wanted = |name: &str| request.only.is_empty() || request.only.iter().any(|only| only == name);
    let wanted: Vec<&Part> = PARTS.iter().filter(|(name, ..)| wanted(name)).collect();
    let steps = Steps::new(wanted.len());
    for (name, shows, run) in wanted {
        let start = steps.begin(name, shows);
        run(&mut tests)?;
        took(start);
        tests.parts.add(format!("{name}, as a whole"), start.elapsed());
    }
    eprintln!("The longest parts of {}:\n{}", human_time(begin.elapsed()), tests.parts.longest(20));
    eprintln!("All checks passed.");
    Ok(())
}

/// What decides how a starter runs, seen from the support crate; itself, the library and the compiler aside.
const STARTERS_DEPEND_ON: [&str; 5] = [
    "../environment/src",
    "../environment/python/quantlab_jupyter",
    "../environment/Cargo.toml",
    "../environment/libtorch.txt",
    "../environment/requirements.txt",
];

/// Runs the starters. Those that have passed here run again only if something has changed, or with `--full`: what they
/// compute differs from run to run less than that of any other part.
fn starters(tests: &mut Tests) -> Result<()> {
    let Tests { home, installed, checkout, lessons, full, parts, .. } = tests;
    let support_crate = checkout.support_crate();
    let (library, rest) = (content_key(&support_crate)?, content_key_of(&support_crate, &STARTERS_DEPEND_ON)?);
    let own = with_embedded_model(lessons, home)?;
    let texts = own.iter().map(fs::read_to_string).collect::<Result<String, _>>()?;
    let machine = [&processor(), &installed.rustc, &installed.rustflags].map(String::as_str).join("\n");
    let state = digest(&[library, rest, texts, machine].join("\n"));
    if !*full && home.is_done("starters", &state) {
        eprintln!("      passed here as they are; `cargo lab test --full` runs them again");
        return Ok(());
    }
    home.mark_undone("starters")?;
    let copies = Destination::Folder(home.executed());
    let ran = run::run_side_by_side(&own, &copies, CELL_TIMEOUT_S)?;
    for (lesson, ran) in lessons.iter().zip(&ran) {
        parts.add(format!("starter of {}", lesson.name), ran.time);
    }
    no_points(&own, &ran)?;
    home.mark_done("starters", &state)
}

/// Copies of the starters that take the model that ships: what a learner has who fetched no other, in half the time.
fn with_embedded_model(lessons: &[Lesson], home: &Home) -> Result<Vec<PathBuf>> {
    let copy = |lesson: &Lesson| {
        let starter = lesson.dir.join(STARTER);
        let text = fs::read_to_string(&starter).with_context(|| format!("cannot read {}", starter.display()))?;
        let path = home.root().join("tests/starters").join(&lesson.name).join(STARTER);
        let embedded = text.replace(r#"\"smollm2:float32\", "#, "");
        ensure!(embedded != text, "{} does not name its candidates as the others do", starter.display());
        write_atomically(&path, embedded.as_bytes())?;
        Ok(path)
    };
    lessons.iter().map(copy).collect()
}

/// An error that names the checks that gave points.
fn no_points(notebooks: &[PathBuf], ran: &[Ran]) -> Result<()> {
    let scores = notebooks.iter().zip(ran).flat_map(|(notebook, ran)| ran.scores.iter().map(move |s| (notebook, s)));
    let given: Vec<String> = scores
        .filter(|(_, score)| score.points != Some(0.0))
        .map(|(notebook, score)| {
            let points = score.points.map_or("no number".to_owned(), |points| format!("{points} points"));
            format!("{}: {} gave {points}, not 0", notebook.display(), score.check)
        })
        .collect();
    ensure!(given.is_empty(), "some checks of starters did not give 0 points\n  {}", given.join("\n  "));
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

/// A benchmark of a checkout's library, built; as Cargo would start it, to which its arguments are to be added.
pub fn bench(checkout: &Checkout, home: &Home, name: &str) -> Result<Command> {
    let (subcommand, installed) = (OsStr::new("bench"), Installed::read(home)?);
    let mut cargo = installed.cargo(home, checkout.root(), subcommand)?;
    cargo.args(bench_profile(subcommand, &[])).args(["-p", "quantlab", "--bench", name, "--no-run"]);
    cargo.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    end_with_this_process(&mut cargo);
    let built = cargo.output().context("cannot start Cargo")?;
    ensure!(built.status.success(), "the benchmark cannot be built; the messages are above");
    let said = String::from_utf8_lossy(&built.stdout);
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    let mut command = Command::new(program.context("Cargo built no benchmark")?);
    installed.apply(home, &mut command);
    command.current_dir(checkout.support_crate());
    Ok(command)
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
    use crate::run::Score;

    #[test]
    fn a_starter_that_gets_points_is_named() {
        let ran = |points| {
            let scores = vec![Score { check: "l1-check".to_owned(), points, max: 3.0 }];
            [Ran { scores, time: std::time::Duration::ZERO }]
        };
        let notebooks = [PathBuf::from("a.ipynb")];
        assert!(no_points(&notebooks, &ran(Some(0.0))).is_ok());
        let error = no_points(&notebooks, &ran(Some(2.0))).unwrap_err().to_string();
        assert!(error.contains("a.ipynb: l1-check gave 2 points, not 0"), "{error}");
        assert!(no_points(&notebooks, &ran(None)).unwrap_err().to_string().contains("no number"));
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
