//! `cargo lab mutants`: makes small mistakes in the reference answers and gives each to its check, which must see it.
//!
//! ```text
//! exercise    notebook -> reference answers and their checks
//! operators   answer -> edits; mutant: those that make a difference
//! program     all mutants -> one program; build: without those that do not compile
//! run         mutant -> verdict; allowed: those that are as good as the answer
//! report      verdicts -> table
//! ```

mod allowed;
mod build;
pub mod code;
pub mod exercise;
mod mutant;
mod operators;
mod program;
mod report;
mod run;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::home::{Home, non_empty_var};
use crate::jupyter::installed::Installed;
use crate::lessons::{self, Lesson, text_of};
use allowed::Allowed;
use exercise::Code;
use operators::Vocabulary;
use program::{Id, Subject};
use report::Row;
use run::Verdict;

/// Longest time for one check.
const MAX_TIME: Duration = Duration::from_secs(30);

/// What a person asks for.
#[derive(clap::Args)]
pub struct Request {
    /// Lessons, by name or the beginning of it [default: all]
    lessons: Vec<String>,
}

/// Tries all mutants. The exit code says whether a mutant survived that is not on its lesson's list, or one on the
/// list did not.
pub fn mutants(request: &Request) -> Result<ExitCode> {
    let checkout = Checkout::find()?;
    let home = Home::find()?;
    let installed = Installed::read(&home)?;
    let scratch = home.target().join("mutants");
    let source = scratch.join("mutants.rs");
    let subjects = subjects(&lessons::read_all(&checkout.notebooks())?, &request.lessons)?;
    let read_allowed = |subject: &Subject| read_allowed(&checkout, &subject.lesson);
    let mut allowed: Vec<Vec<Allowed>> = subjects.iter().map(read_allowed).collect::<Result<_>>()?;
    let made: usize = subjects.iter().flat_map(|subject| &subject.mutants).map(Vec::len).sum();
    eprintln!("{made} mutants; compiling ...");
    let built = build::build(&subjects, &source, || {
        let mut cargo = installed.cargo(&home, checkout.root(), "rustc")?;
        cargo.args(["--locked", "--package", "quantlab-course", "--test", "mutants", "--message-format", "json"]);
        cargo.args(["--", "--cfg", "mutants"]).env("QUANTLAB_MUTANTS", &source);
        Ok(cargo)
    })?;
    let compiled = compiled(&subjects, &built);
    eprintln!("{} compile; running ...", compiled.iter().map(Vec::len).sum::<usize>());
    let counts: Vec<usize> = compiled.iter().map(Vec::len).collect();
    let verdicts = run::run(&counts, MAX_TIME, || Ok(program(&installed, &home, &built.executable, &scratch)))?;
    tell(&subjects, &compiled, &verdicts, &mut allowed)
}

/// The selected lessons, with their mutants.
fn subjects(lessons: &[Lesson], wanted: &[String]) -> Result<Vec<Subject>> {
    let chosen: Vec<&Lesson> = match wanted {
        [] => lessons.iter().collect(),
        names => names.iter().map(|name| lessons::choose(lessons, name)).collect::<Result<_>>()?,
    };
    let mut vocabulary = Vocabulary::default();
    for cell in lessons.iter().flat_map(|lesson| lessons::code_cells(&lesson.notebook)) {
        if let Ok(statements) = code::statements(&text_of(cell)) {
            vocabulary.read(&statements);
        }
    }
    chosen.into_iter().map(|lesson| subject(lesson, &vocabulary)).collect()
}

fn subject(lesson: &Lesson, vocabulary: &Vocabulary) -> Result<Subject> {
    let code = Code::of(lesson)?;
    let mut mutants = Vec::new();
    for exercise in &code.exercises {
        let statements = code::statements(&exercise.cell)?;
        let edits = operators::edits(&exercise.cell, &statements, vocabulary);
        mutants.push(mutant::mutants(&exercise.cell, &exercise.region, edits));
    }
    Ok(Subject { lesson: lesson.name.clone(), code, mutants })
}

fn read_allowed(checkout: &Checkout, lesson: &str) -> Result<Vec<Allowed>> {
    let path = checkout.support_crate().join("course/tests/equivalent_mutants").join(format!("{lesson}.txt"));
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Allowed::read(&text).with_context(|| format!("in {}", path.display()))
}

/// For each exercise of all lessons, its mutants that are in the program, in the program's order.
fn compiled(subjects: &[Subject], built: &build::Built) -> Vec<Vec<Id>> {
    let mut compiled = Vec::new();
    for (lesson, subject) in subjects.iter().enumerate() {
        for (exercise, mutants) in subject.mutants.iter().enumerate() {
            let ids = (0..mutants.len()).map(|mutant| Id { lesson, exercise, mutant });
            compiled.push(ids.filter(|id| !built.dropped.contains(id)).collect());
        }
    }
    compiled
}

/// The program, in a folder where whatever a mutant writes does no harm.
fn program(installed: &Installed, home: &Home, executable: &Path, folder: &Path) -> Command {
    let mut command = Command::new(executable);
    installed.apply(home, &mut command);
    // Beside it lies the library.
    let beside = executable.parent().into_iter().map(Path::to_owned);
    let theirs = command.get_envs().find(|(name, _)| *name == "LD_LIBRARY_PATH").and_then(|(_, value)| value);
    let theirs = theirs.map(std::ffi::OsStr::to_owned).or_else(|| non_empty_var("LD_LIBRARY_PATH")).unwrap_or_default();
    if let Ok(path) = std::env::join_paths(beside.chain(std::env::split_paths(&theirs))) {
        command.env("LD_LIBRARY_PATH", path);
    }
    command.current_dir(folder);
    command
}

fn tell(
    subjects: &[Subject],
    compiled: &[Vec<Id>],
    verdicts: &[Vec<Verdict>],
    allowed: &mut [Vec<Allowed>],
) -> Result<ExitCode> {
    let mut rows = Vec::new();
    for (ids, verdicts) in compiled.iter().zip(verdicts) {
        let Some((reference, verdicts)) = verdicts.split_first() else { bail!("an exercise was not run") };
        let Some(Id { lesson, exercise, .. }) = ids.first().copied() else { continue };
        let (Some(subject), Some(allowed)) = (subjects.get(lesson), allowed.get_mut(lesson)) else { continue };
        let pairs: Vec<(Id, Verdict)> = ids.iter().copied().zip(verdicts.iter().copied()).collect();
        let Some(row) = Row::new(subject, exercise, &pairs, allowed) else { continue };
        if *reference != Verdict::Passed {
            bail!("{} {}: the reference answer does not get all points", row.lesson, row.exercise);
        }
        rows.push(row);
    }
    for row in &rows {
        row.survivors.iter().for_each(|survivor| println!("{survivor}\n"));
    }
    print!("{}", report::table(&rows));
    let stale: Vec<String> = allowed.iter().flatten().map(Allowed::to_string).collect();
    if !stale.is_empty() {
        eprintln!("\non a list of equivalent mutants, but caught or no longer made:\n\n{}", stale.join("\n\n"));
    }
    let survived = rows.iter().any(|row| !row.survivors.is_empty());
    Ok(if survived || !stale.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
