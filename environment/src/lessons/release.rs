//! `cargo lab release`: starters from the solutions, or a course directory for nbgrader.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Lesson, STARTER, companions, ready};
use crate::home::{Home, write_atomically};
use crate::python;

/// What `cargo lab release` is asked for.
#[derive(Debug, clap::Args)]
pub struct Request {
    /// A lesson, by its name or the beginning of it [default: all]
    lesson: Option<String>,
    /// Only compare, and fail if a starter is missing or stale
    #[arg(long)]
    check: bool,
    /// Make a course directory for nbgrader's own commands and formgrader instead
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    nbgrader: Option<PathBuf>,
    /// Folder of the lessons, if not the checkout's
    #[arg(long, value_name = "DIR")]
    lessons: Option<PathBuf>,
}

/// Does what is asked for.
pub fn release(request: &Request) -> Result<()> {
    let lessons = ready(request.lessons.as_deref(), request.lesson.as_deref())?;
    match &request.nbgrader {
        Some(dir) => course_directory(&lessons, dir),
        None => write_starters(&lessons, request.check),
    }
}

/// Writes each lesson's starter, or only compares (`check`).
pub fn write_starters(lessons: &[Lesson], check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for (lesson, text) in lessons.iter().zip(&starters(lessons)?) {
        let path = lesson.dir.join(STARTER);
        let points: f64 = lesson.exercises().iter().map(|e| e.points).sum();
        let worth = if points > 0.0 { format!("{points} points") } else { "no checks, so no points".into() };
        let there = fs::read_to_string(&path).is_ok_and(|there| there == *text);
        if !there && check {
            stale.push(lesson.name.as_str());
        } else if there {
            println!("{}: {STARTER} is up to date ({worth})", lesson.name);
        } else {
            write_atomically(&path, text.as_bytes())?;
            println!("{}: wrote {} ({worth})", lesson.name, path.display());
        }
    }
    if !stale.is_empty() {
        bail!("{STARTER} is missing or older than its solution: {}\n  try: cargo lab release", stale.join(", "));
    }
    Ok(())
}

/// Makes a course directory in which nbgrader's own commands and formgrader work.
fn course_directory(lessons: &[Lesson], dir: &Path) -> Result<()> {
    write_course(dir, lessons)?;
    let names: Vec<&str> = lessons.iter().map(|lesson| lesson.name.as_str()).collect();
    println!("{}: nbgrader_config.py and the source of {}", dir.display(), names.join(", "));
    println!("Next, in that folder: nbgrader generate_assignment LESSON");
    Ok(())
}

/// nbgrader's layout: `source/LESSON/LESSON.ipynb`, with the lesson's other files beside it.
pub fn write_course<'a>(dir: &Path, lessons: impl IntoIterator<Item = &'a Lesson>) -> Result<()> {
    for lesson in lessons {
        let target = dir.join("source").join(&lesson.name);
        fs::create_dir_all(&target).with_context(|| format!("cannot create {}", target.display()))?;
        let copy = |from: &Path, name: &OsStr| {
            let to = target.join(name);
            fs::copy(from, &to).with_context(|| format!("cannot write {}", to.display()))
        };
        copy(&lesson.source(), format!("{}.ipynb", lesson.name).as_ref())?;
        for file in companions(&lesson.dir) {
            copy(&file, file.file_name().unwrap_or_default())?;
        }
    }
    let config = dir.join("nbgrader_config.py");
    // An existing file is kept: it may name the course's exchange or its own time-outs.
    if config.exists() { Ok(()) } else { write_atomically(&config, python::NBGRADER_CONFIG_PY.as_bytes()) }
}

/// The starters' texts, in the lessons' order; the same solution gives the same bytes.
fn starters(lessons: &[Lesson]) -> Result<Vec<String>> {
    let mut command = python::gradebook(&Home::find()?, "release")?;
    command.args(lessons.iter().map(Lesson::source));
    let mut texts = Vec::new();
    python::follow(&mut command, |event| {
        texts.extend(event["text"].as_str().filter(|_| event["event"] == "starter").map(str::to_owned));
    })?
    .into_result()?;
    Ok(texts)
}
