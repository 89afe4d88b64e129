//! `cargo lab run`: notebooks through the kernel, without a browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::home::Home;
use crate::jupyter::installed::SHARED_PROCESSORS;
use crate::lessons::{claims, is_python, read_notebook};
use crate::parallel::side_by_side;
use crate::python;
use crate::setup;
use crate::ui::{plain, shortened};

/// Where executed copies go.
#[derive(Debug, Clone)]
pub enum Destination {
    /// Into this folder, under the notebook's lesson and name.
    Folder(PathBuf),
    /// Over the notebook itself.
    InPlace,
}

/// What a check cell gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The check's name in nbgrader's metadata.
    pub check: String,
    /// Points; none if the cell's value was not a number.
    pub points: Option<f64>,
    /// The most points it can give.
    pub max: f64,
}

/// A notebook that ran to its end.
#[derive(Debug)]
pub struct Ran {
    /// What its checks gave.
    pub scores: Vec<Score>,
    /// How long it took, including its kernel's start.
    pub time: Duration,
}

/// Runs each notebook, with `page` also into a page beside its copy; the error counts those that failed.
pub fn run(notebooks: &[PathBuf], destination: &Destination, timeout_s: u64, page: bool) -> Result<()> {
    let targets = targets_of(notebooks, destination)?;
    let home = ready(notebooks)?;
    let mut endings = Vec::new();
    for (notebook, target) in notebooks.iter().zip(targets) {
        let ending =
            run_one(python::script(&home, "run")?, notebook, &target, timeout_s, page, &mut |line| println!("{line}"))?;
        if let Ending::Interrupted = ending {
            bail!("interrupted at {}", notebook.display());
        }
        endings.push(ending);
    }
    all_whole(notebooks, endings).map(drop)
}

/// Like [`run`], two at a time, for notebooks that are not to be timed: what each prints is shown when it has ended.
pub fn run_side_by_side(notebooks: &[PathBuf], destination: &Destination, timeout_s: u64) -> Result<Vec<Ran>> {
    let targets = targets_of(notebooks, destination)?;
    let home = ready(notebooks)?;
    let endings = side_by_side(2, notebooks, |at, notebook| {
        let mut printed = String::new();
        let ending = python::script(&home, "run").and_then(|mut command| {
            command.envs([SHARED_PROCESSORS]);
            run_one(command, notebook, &targets[at], timeout_s, false, &mut |line| {
                printed.push_str(line);
                printed.push('\n');
            })
        });
        print!("{printed}");
        ending
    });
    all_whole(notebooks, endings.into_iter().collect::<Result<_>>()?)
}

/// Checks what must hold before notebooks are run.
fn ready(notebooks: &[PathBuf]) -> Result<Home> {
    let checkout = Checkout::find()?;
    for notebook in notebooks {
        check_notebook(notebook, &checkout)?;
    }
    setup::setup(&checkout, &setup::Request::default())?;
    // Ctrl-C is for the cell: the script beside this program interrupts the kernel, and reports how the cell ended.
    heed_no_interrupts();
    Home::find()
}

fn all_whole(notebooks: &[PathBuf], endings: Vec<Ending>) -> Result<Vec<Ran>> {
    let (mut whole, mut failed) = (Vec::new(), Vec::new());
    for (notebook, ending) in notebooks.iter().zip(endings) {
        match ending {
            Ending::Whole(ran) => whole.push(ran),
            Ending::Failed | Ending::Interrupted => failed.push(notebook.display().to_string()),
        }
    }
    ensure!(failed.is_empty(), "{} of {} notebooks failed: {}", failed.len(), notebooks.len(), failed.join(", "));
    Ok(whole)
}

/// An error for a notebook that does not exist, with those that do, or for one that no kernel here runs, with the
/// reason.
fn check_notebook(path: &Path, checkout: &Checkout) -> Result<()> {
    if path.is_file() {
        if is_python(&read_notebook(path)?) {
            bail!("{} is a Python notebook, and the kernel here is Rust\n  try: jupyter execute {0}", path.display());
        }
        return Ok(());
    }
    let mut known = Vec::new();
    find_notebooks(&checkout.notebooks(), &mut known);
    known.sort();
    let list: Vec<String> =
        known.iter().map(|p| format!("  {}", p.strip_prefix(checkout.root()).unwrap_or(p).display())).collect();
    bail!("there is no notebook {}\nthe course has:\n{}", path.display(), list.join("\n"));
}

/// All notebooks below a folder, and what is called like one; links to folders are not followed, for they may lead back.
pub fn find_notebooks(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        // Checkpoints, and what some systems keep beside a file.
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_notebooks(&path, found);
        } else if path.extension().is_some_and(|e| e == "ipynb") {
            found.push(path);
        }
    }
}

/// Where their copies go, each to a place of its own.
fn targets_of(notebooks: &[PathBuf], destination: &Destination) -> Result<Vec<PathBuf>> {
    let mut targets: Vec<PathBuf> = Vec::new();
    for notebook in notebooks {
        let target = target_of(notebook, destination)?;
        if let Some(other) = targets.iter().position(|there| *there == target) {
            let (first, second) = (notebooks[other].display(), notebook.display());
            bail!(
                "{first} and {second} would both go to {}\n  try: one call for each, with its own --output",
                target.display()
            );
        }
        targets.push(target);
    }
    Ok(targets)
}

/// `FOLDER/LESSON/NAME.ipynb`: lessons share the names of their notebooks.
fn target_of(notebook: &Path, destination: &Destination) -> Result<PathBuf> {
    let Destination::Folder(folder) = destination else { return Ok(notebook.to_owned()) };
    let full = std::path::absolute(notebook).with_context(|| format!("{} is not a usable path", notebook.display()))?;
    let name = full.file_name().context("a notebook needs a name")?;
    let lesson = full.parent().and_then(Path::file_name);
    Ok(lesson.map_or_else(|| folder.join(name), |lesson| folder.join(lesson).join(name)))
}

/// How a notebook's run ended.
enum Ending {
    Whole(Ran),
    Failed,
    Interrupted,
}

/// A handler, not `SIG_IGN`: what this program starts does not inherit it.
fn heed_no_interrupts() {
    extern "C" fn heed_not(_: libc::c_int) {}
    // SAFETY: the handler does nothing, which it may do at any time.
    unsafe { libc::signal(libc::SIGINT, heed_not as *const () as libc::sighandler_t) };
}

fn run_one(
    mut command: Command,
    notebook: &Path,
    target: &Path,
    timeout_s: u64,
    page: bool,
    show: &mut dyn FnMut(&str),
) -> Result<Ending> {
    let begin = Instant::now();
    show(&plain(&notebook.display().to_string()));
    command.arg(notebook).arg(target).args(["--timeout", &timeout_s.to_string()]);
    if page {
        command.arg("--page").arg(target.with_extension("html"));
    }
    let mut first_line = String::new();
    let mut started = 0.0;
    let mut scores: Vec<Score> = Vec::new();
    let ended = python::follow(&mut command, |event| {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let seconds = event["seconds"].as_f64().unwrap_or_default();
        match text("event") {
            "ready" => {
                started = seconds;
                show(&format!("  kernel ready after {seconds:.1} s"));
            }
            "cell_start" => first_line = text("first_line").to_owned(),
            "cell_end" => show(&format!(
                "  cell {:>3} {seconds:>7.2} s  {}",
                event["cell"].as_u64().unwrap_or_default(),
                plain(&shortened(&first_line, 60))
            )),
            "score" => {
                let max = event["max"].as_f64().unwrap_or_default();
                scores.push(Score { check: text("check").to_owned(), points: event["points"].as_f64(), max });
            }
            "page" => {
                show(&plain(&format!("  page: {}", text("path"))));
                let left = event["left"].as_array().into_iter().flatten().filter_map(Value::as_str);
                left.for_each(|line| show(&plain(&format!("    {line}"))));
            }
            "done" if event["ok"] == true => {
                show(&format!("  all cells ran, {seconds:.1} s in all ({started:.1} s of it the kernel's start)"))
            }
            _ => {}
        }
    })?;
    if let Some(failure) = &ended.failure {
        show(&plain(&describe_failure(failure)));
        if target.is_file() {
            show(&format!("  the copy so far: {}", target.display()));
        }
        return Ok(if failure["kind"] == "interrupted" { Ending::Interrupted } else { Ending::Failed });
    }
    ended.into_result()?;
    if !scores.is_empty() {
        let points: f64 = scores.iter().filter_map(|score| score.points).sum();
        show(&format!("  checks: {points} of {} points", scores.iter().map(|score| score.max).sum::<f64>()));
    }
    claims::not_so(&read_notebook(target)?).iter().for_each(|claim| show(&plain(&format!("  cell {claim}"))));
    show(&format!("  executed copy: {}", target.display()));
    Ok(Ending::Whole(Ran { scores, time: begin.elapsed() }))
}

/// Number, first line and error of the cell that stopped a run.
fn describe_failure(failure: &Value) -> String {
    let kind = match failure["kind"].as_str() {
        Some("error") => "an Err left the cell (or it wrote to standard error, which is how the kernel reports one)",
        other => other.unwrap_or("failed"),
    };
    let message = failure["message"].as_str().unwrap_or_default();
    let indented: Vec<String> = message.lines().map(|l| format!("    {l}")).collect();
    match failure["cell"].as_u64() {
        Some(cell) => format!(
            "  FAILED at cell {cell}: {kind}\n    {}\n{}",
            failure["first_line"].as_str().unwrap_or_default(),
            indented.join("\n")
        ),
        None => format!("  FAILED: {kind}\n{}", indented.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::write_atomically;
    use serde_json::json;

    #[test]
    fn copies_of_two_lessons_do_not_meet() {
        let out = Destination::Folder("out".into());
        let one = target_of(Path::new("notebooks/01-a/solution.ipynb"), &out).unwrap();
        let two = target_of(Path::new("notebooks/02-b/solution.ipynb"), &out).unwrap();
        assert_eq!(one, Path::new("out/01-a/solution.ipynb"));
        assert_ne!(one, two);
        assert_eq!(target_of(Path::new("x.ipynb"), &Destination::InPlace).unwrap(), Path::new("x.ipynb"));
    }

    #[test]
    fn a_failure_names_cell_line_and_error() {
        let text =
            describe_failure(&json!({"kind": "panic", "cell": 7, "first_line": "let x = f();", "message": "a\nb"}));
        assert_eq!(text, "  FAILED at cell 7: panic\n    let x = f();\n    a\n    b");
    }

    #[test]
    fn an_unknown_notebook_is_answered_with_those_there_are() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["support-crate/Cargo.toml", "notebooks/01-x/solution.ipynb"] {
            write_atomically(&dir.path().join(file), b"").unwrap();
        }
        let checkout = Checkout::around(dir.path()).unwrap();
        let error = |path: &Path| check_notebook(path, &checkout).unwrap_err().to_string();
        let file = dir.path().join("x.ipynb");
        std::fs::write(&file, json!({"metadata": {"language_info": {"name": "python"}}}).to_string()).unwrap();
        assert!(error(&file).contains("is a Python notebook"));
        std::fs::write(&file, "{").unwrap();
        assert!(error(&file).contains("is not a notebook"));
        let error = error(Path::new("nope.ipynb"));
        assert!(error.contains("nope.ipynb") && error.contains("  notebooks/01-x/solution.ipynb"), "{error}");
    }
}
