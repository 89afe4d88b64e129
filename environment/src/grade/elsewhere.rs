//! Notebooks that workers of a Dask scheduler grade, each where there is a set-up like this one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::grader::{Grader, Known, one_line};
use super::submission::Submission;
use super::{GRADER_FAILED, Limits, Outcome};
use crate::dask;
use crate::home::Home;
use crate::jupyter::installed::Installed;
use crate::jupyter::sources::source_key;
use crate::lessons::Lesson;
use crate::python;
use crate::sandbox::Layer;
use crate::ui::plain;

/// How a notebook is to be graded, whoever does it.
#[derive(Serialize, Deserialize)]
struct Task {
    /// What checks it, and what its outcome depends on.
    library: String,
    key: String,
    lesson: String,
    limits: Limits,
    checks_only: bool,
    with_models: bool,
    unsandboxed: bool,
}

/// A notebook that is to be graded, and its place in the work.
pub type Sent<'a> = (usize, &'a Submission, &'a Lesson);

/// Has workers grade them, and calls `done` for each as it is known.
///
/// # Errors
/// A scheduler that cannot be reached for ten minutes.
pub fn grade_all(
    grader: &Grader,
    scheduler: &str,
    sent: &[Sent],
    done: &mut dyn FnMut(usize, Outcome, String),
) -> Result<()> {
    let mut tasks = Vec::new();
    for &(number, submission, lesson) in sent {
        match grader.known(submission, lesson) {
            Ok(Known::Outcome(outcome)) => done(number, outcome, "unchanged since it was graded".to_owned()),
            Ok(Known::Key(key)) => tasks.push(task(grader, number, submission, lesson, key)?),
            Err(error) => done(number, Outcome::of(GRADER_FAILED, &one_line(&error)), "not sent".to_owned()),
        }
    }
    if tasks.is_empty() {
        return Ok(());
    }
    let interpreter = dask::python(&grader.home)?;
    let mut command = Command::new(interpreter);
    command.arg("-P").arg(dask::source()?.join("tasks.py")).arg(scheduler);
    let lines: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    let begin = Instant::now();
    let ended = python::follow_with(&mut command, lines.as_bytes(), |event| match event["event"].as_str() {
        Some("waiting") => println!("{}", plain(event["why"].as_str().unwrap_or_default())),
        Some("done") => {
            let number = event["number"].as_u64().and_then(|number| usize::try_from(number).ok());
            let Some((number, submission, lesson)) = sent.iter().find(|sent| Some(sent.0) == number) else { return };
            let outcome = of_worker(grader, submission, lesson, event["error"].as_str());
            let seconds = begin.elapsed().as_secs();
            let place = event["where"].as_str().unwrap_or_default();
            done(*number, outcome, format!("by {}, {seconds} s from the beginning", plain(place)));
        }
        _ => {}
    })?;
    ended.into_result()
}

/// What a worker is given, and where what it finds is to go.
fn task(grader: &Grader, number: usize, submission: &Submission, lesson: &Lesson, key: String) -> Result<Value> {
    let Grader { library, limits, checks_only, with_models, layer, .. } = grader;
    let (library, lesson, unsandboxed) = (library.clone(), lesson.name.clone(), layer.is_none());
    let release = Path::new("release").join(&lesson);
    let mut files = json!({ "notebook.ipynb": submission.file });
    for entry in fs::read_dir(grader.output.join(&release))?.flatten().filter(|entry| entry.path().is_file()) {
        files[release.join(entry.file_name()).to_string_lossy().as_ref()] = json!(entry.path());
    }
    let place = grader.place(&submission.id, &lesson);
    let task = Task {
        library,
        key,
        lesson,
        limits: *limits,
        checks_only: *checks_only,
        with_models: *with_models,
        unsandboxed,
    };
    Ok(json!({ "number": number, "place": place, "files": files, "task": task }))
}

fn of_worker(grader: &Grader, submission: &Submission, lesson: &Lesson, error: Option<&str>) -> Outcome {
    let place = grader.place(&submission.id, &lesson.name);
    let outcome = match error {
        None => grader.kept(&place).context("the worker's answer is not complete"),
        Some(error) => grader.failed(&place, error),
    };
    outcome.unwrap_or_else(|error| Outcome::of(GRADER_FAILED, &one_line(&error)))
}

/// Grades the notebook of a folder that `tasks.py` wrote: `task.json`, `notebook.ipynb` and `release/LESSON`. What comes
/// of it goes to `results`.
pub fn grade_one(folder: &Path) -> Result<()> {
    // SAFETY: prctl touches no memory. A worker that dies takes its notebook with it: another one grades it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let text = fs::read(folder.join("task.json")).context("no task")?;
    let task: Task = serde_json::from_slice(&text).context("the task is none of this version's")?;
    let home = Home::find()?;
    let support_crate: PathBuf = Installed::read(&home)?.support_crate;
    let library = source_key(&support_crate)?;
    if library != task.library {
        bail!(
            "the library set up in {} is in another state than the grader's: there, `cargo lab setup` in the same state of the checkout",
            home.root().display()
        );
    }
    let layer = if task.unsandboxed { None } else { Some(Layer::best()?) };
    let Task { limits, checks_only, with_models, .. } = task;
    let output = folder.to_owned();
    let grader = Grader { home, output, limits, library, support_crate, layer, again: true, checks_only, with_models };
    grader.make_ready()?;
    let place = folder.join("results").join("notebook");
    let number = std::process::id() as usize;
    grader.run(&folder.join("notebook.ipynb"), &task.lesson, &place, &task.key, number).map(drop)
}
