//! Notebooks that workers of a Dask scheduler grade, each where there is a set-up like this one.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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
use crate::jupyter::processes;
use crate::jupyter::sources::{content_key, source_key};
use crate::lessons::Lesson;
use crate::python;
use crate::sandbox::Layer;
use crate::setup::digest;
use crate::ui::plain;

/// How a notebook is to be graded, whoever does it.
#[derive(Serialize, Deserialize)]
struct Task {
    /// What grades it: a worker in another state does not.
    state: String,
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
    let (state, mut tasks) = (state(&grader.support_crate)?, Vec::new());
    for &(number, submission, lesson) in sent {
        match grader.known(submission, lesson) {
            Ok(Known::Outcome(outcome)) => done(number, outcome, "unchanged since it was graded".to_owned()),
            Ok(Known::Key(key)) => tasks.push(task(grader, &state, number, submission, lesson, key)?),
            Err(error) => done(number, Outcome::of(GRADER_FAILED, &one_line(&error)), "not sent".to_owned()),
        }
    }
    if tasks.is_empty() {
        return Ok(());
    }
    let mut command = dask::client(&grader.home, "grade.py", scheduler)?;
    let lines: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    let begin = Instant::now();
    grader.follow_with_list(&mut command, &lines, |event| match event["event"].as_str() {
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
    })
}

/// What a worker is given, and where what it finds is to go; paths as bytes, for a learner's need not be UTF-8.
fn task(
    grader: &Grader,
    state: &str,
    number: usize,
    submission: &Submission,
    lesson: &Lesson,
    key: String,
) -> Result<Value> {
    let Grader { limits, checks_only, with_models, layer, .. } = grader;
    let bytes = |path: &Path| json!(path.as_os_str().as_bytes());
    let release = Path::new("release").join(&lesson.name);
    let mut files = json!({ "notebook.ipynb": bytes(&submission.file) });
    for entry in fs::read_dir(grader.output.join(&release))?.flatten().filter(|entry| entry.path().is_file()) {
        files[release.join(entry.file_name()).to_string_lossy().as_ref()] = bytes(&entry.path());
    }
    let place = bytes(&grader.place(&submission.id, &lesson.name));
    let task = Task {
        state: state.to_owned(),
        key,
        lesson: lesson.name.clone(),
        limits: *limits,
        checks_only: *checks_only,
        with_models: *with_models,
        unsandboxed: layer.is_none(),
    };
    Ok(json!({ "number": number, "place": place, "files": files, "task": task }))
}

/// The same wherever the same sources and scripts grade.
fn state(support_crate: &Path) -> Result<String> {
    Ok(digest(&(content_key(support_crate)? + &python::GRADING.concat())))
}

fn of_worker(grader: &Grader, submission: &Submission, lesson: &Lesson, error: Option<&str>) -> Outcome {
    let place = grader.place(&submission.id, &lesson.name);
    let outcome = match error {
        None => grader.kept(&place).context("the worker's answer is not complete"),
        Some(error) => grader.failed(&place, error),
    };
    outcome.unwrap_or_else(|error| Outcome::of(GRADER_FAILED, &one_line(&error)))
}

/// Grades the notebook of a folder that a worker wrote (`environment/dask/quantlab_tasks.py`): `task.json`,
/// `notebook.ipynb` and `release/LESSON`. What comes of it goes to `results`.
pub fn grade_one(folder: &Path) -> Result<ExitCode> {
    // A worker that dies takes its notebook with it: another one grades it.
    processes::end_with_parent();
    let text = fs::read(folder.join("task.json")).context("no task")?;
    let (grader, task) = match grader_here(folder, &text) {
        Ok(both) => both,
        Err(error) => {
            eprintln!("{error:#}");
            return Ok(ExitCode::from(dask::UNABLE));
        }
    };
    let place = folder.join("results").join("notebook");
    grader.run(&folder.join("notebook.ipynb"), &task.lesson, &place, &task.key)?;
    Ok(ExitCode::SUCCESS)
}

/// What grades here, if anything can.
fn grader_here(folder: &Path, task: &[u8]) -> Result<(Grader, Task)> {
    let task: Task = serde_json::from_slice(task).context("the grader that asks is of another version")?;
    let home = Home::find()?;
    let support_crate: PathBuf = Installed::read(&home)?.support_crate;
    if state(&support_crate)? != task.state {
        bail!("the checkout that {} is set up from is in another state than the grader's", home.root().display());
    }
    let Task { limits, checks_only, with_models, .. } = task;
    let layer = if task.unsandboxed { None } else { Some(Layer::best()?) };
    let (library, output) = (source_key(&support_crate)?, folder.to_owned());
    let grader = Grader { home, output, limits, library, support_crate, layer, again: true, checks_only, with_models };
    grader.make_ready()?;
    Ok((grader, task))
}
