//! `cargo lab grade`: what learners handed in, through the real kernel and nbgrader.
//!
//! The output folder is an nbgrader course directory (gradebook, feedback), so written answers can be
//! graded there with formgrader; the next run takes their points over. Each notebook is graded by a Python
//! process of its own: whatever one does, the others are graded.

mod inspect;
mod report;
mod submission;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::checkout::Checkout;
use crate::course::release::write_course;
use crate::course::{self, Exercise, Lesson, STARTER};
use crate::home::{Home, remove_if_there, write_atomically};
use crate::kernel::warm;
use crate::python;
use report::{BY_HAND, Row, Score};
use submission::Submission;

/// What `cargo lab grade` is asked for.
#[derive(Debug, clap::Args)]
pub struct Request {
    /// Holds STUDENT/LESSON/NOTEBOOK.ipynb, or loose notebooks named after students
    folder: PathBuf,
    /// Where points and feedback go [default: FOLDER-grades]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Only this lesson, by its name or the beginning of it
    #[arg(long)]
    lesson: Option<String>,
    /// Folder of the lessons, if not the checkout's
    #[arg(long, value_name = "DIR")]
    lessons: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    /// Also grade again what has not changed since the last run
    #[arg(long)]
    again: bool,
}

/// How much one notebook may take.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Limits {
    /// Time limit for one cell; each cell that reaches it halves it for the rest of the notebook
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    cell_timeout: u32,
    /// Time limit for one notebook, not counting the kernel's start
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Limit on the resident memory of a kernel and all that it starts
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1000..))]
    memory_limit: u32,
}

/// How a notebook's grading went; kept in the output folder, so that a run can be taken up again.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outcome {
    /// What it was made from.
    key: String,
    status: String,
    notes: Vec<String>,
    /// Checks that gave no score, and why.
    unscored: HashMap<String, String>,
}

const UNREADABLE: &str = "unreadable";
const NO_LESSON: &str = "no lesson";
const SUPERSEDED: &str = "superseded";
const GRADER_FAILED: &str = "grader failed";
/// Of these, the gradebook holds nothing, or what an earlier notebook of the student's earned.
const NOT_GRADED: [&str; 3] = [UNREADABLE, NO_LESSON, GRADER_FAILED];

/// Grades all notebooks of a folder; an error says how many could not be.
pub fn grade(request: &Request) -> Result<()> {
    let lessons = course::ready(request.lessons.as_deref(), None)?;
    let folder = request.folder.as_path();
    let output = std::path::absolute(request.output.clone().unwrap_or_else(|| beside(folder)))?;
    let mut found = submission::find(folder, &output, &lessons)?;
    if let Some(wanted) = &request.lesson {
        let wanted = &course::choose(&lessons, wanted)?.name;
        found.retain(|s| s.lesson.as_ref() == Some(wanted));
        if found.is_empty() {
            bail!("no notebook in {} is for {wanted}", folder.display());
        }
    }
    let lesson_of = |s: &Submission| lessons.iter().find(|lesson| Some(&lesson.name) == s.lesson.as_ref());
    let library = warm::source_key(&Checkout::find()?.support_crate())?;
    let grader = Grader { home: Home::find()?, output, limits: request.limits, library, again: request.again };
    grader.prepare(lessons.iter().filter(|l| found.iter().any(|s| s.lesson.as_ref() == Some(&l.name))))?;
    let mut outcomes = Vec::new();
    let mut seen = HashSet::new();
    for (number, submission) in (1..).zip(&found) {
        print!("[{number}/{}] {}: ", found.len(), submission.shown(folder));
        std::io::stdout().flush()?;
        let start = Instant::now();
        let (outcome, kept) = match lesson_of(submission) {
            _ if !submission.is_json => (Outcome::of(UNREADABLE, "not a notebook: it is not JSON"), false),
            None => (Outcome::of(NO_LESSON, "it has none of the course's cells, and its path names no lesson"), false),
            Some(_) if !seen.insert((&submission.student, &submission.lesson)) => (
                Outcome::of(SUPERSEDED, "the same student handed in a newer one for this lesson; that one counts"),
                false,
            ),
            Some(lesson) => grader.outcome(submission, lesson)?,
        };
        let took = if kept {
            "unchanged since it was graded".into()
        } else {
            format!("{:.0} s", start.elapsed().as_secs_f64())
        };
        println!("{} ({took})", outcome.status);
        outcomes.push(outcome);
    }
    let scores = grader.scores()?;
    let rows: Vec<Row> = found
        .iter()
        .zip(outcomes)
        .map(|(submission, outcome)| row(submission, lesson_of(submission), outcome, &scores, folder))
        .collect();
    write_atomically(&grader.output.join("grades.csv"), report::grades_csv(&rows).as_bytes())?;
    write_atomically(&grader.output.join("exercises.csv"), report::exercises_csv(&rows).as_bytes())?;
    println!("\n{}", report::table(&rows));
    println!("In {}: grades.csv, exercises.csv, feedback/STUDENT/LESSON/LESSON.html", grader.output.display());
    match rows.iter().filter(|row| NOT_GRADED.contains(&row.status.as_str())).count() {
        0 => Ok(()),
        count => bail!("{count} of {} notebooks could not be graded; the table says why", rows.len()),
    }
}

/// `work` becomes `work-grades`: not inside, where it would be taken for more of the same.
fn beside(folder: &Path) -> PathBuf {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    full.with_file_name(format!("{}-grades", full.file_name().unwrap_or_default().to_string_lossy()))
}

/// Points by student, lesson and exercise, and whether they wait for a person.
type Scores = HashMap<[String; 3], (f64, bool)>;

fn row(submission: &Submission, lesson: Option<&Lesson>, outcome: Outcome, scores: &Scores, folder: &Path) -> Row {
    let exercises = match lesson {
        Some(lesson) if outcome.status != SUPERSEDED => lesson.exercises(),
        _ => Vec::new(),
    };
    let graded = !NOT_GRADED.contains(&outcome.status.as_str());
    let score = |exercise: Exercise| {
        let key =
            [submission.student.clone(), submission.lesson.clone().unwrap_or_default(), exercise.grade_id.clone()];
        let (points, by_hand) = scores.get(&key).copied().filter(|_| graded).unwrap_or_default();
        let status = match outcome.unscored.get(&exercise.grade_id) {
            _ if !graded => outcome.status.clone(),
            _ if by_hand => BY_HAND.to_owned(),
            Some(reason) => reason.clone(),
            None => "graded".to_owned(),
        };
        Score { exercise: exercise.grade_id, points, max: exercise.points, status }
    };
    Row {
        student: submission.student.clone(),
        lesson: submission.lesson.clone().unwrap_or_default(),
        file: submission.shown(folder),
        scores: exercises.into_iter().map(score).collect(),
        status: outcome.status,
        notes: outcome.notes,
    }
}

impl Outcome {
    fn of(status: &str, note: &str) -> Self {
        let (status, notes) = (status.to_owned(), vec![note.to_owned()]);
        Self { key: String::new(), status, notes, unscored: HashMap::new() }
    }
}

/// Where a run's results go, and what it may take.
struct Grader {
    home: Home,
    output: PathBuf,
    limits: Limits,
    /// Changes with the library, which holds the checks.
    library: String,
    again: bool,
}

impl Grader {
    /// Makes the output folder a course directory with these lessons.
    fn prepare<'a>(&self, lessons: impl Iterator<Item = &'a Lesson> + Clone) -> Result<()> {
        write_course(&self.output, lessons.clone())?;
        let mut command = python::grader(&self.home, "prepare");
        command.arg(&self.output).args(lessons.map(|lesson| &lesson.name));
        python::follow(&mut command, |_| ())?.into_result().with_context(|| {
            format!(
                "nbgrader cannot add the lessons to {}\n  try: another --output, if a lesson's checks have changed since",
                self.output.display()
            )
        })
    }

    /// How the notebook's grading went, and whether that was known already.
    fn outcome(&self, submission: &Submission, lesson: &Lesson) -> Result<(Outcome, bool)> {
        let place = self.output.join("results").join(&submission.student).join(&lesson.name);
        let record = place.with_added_extension("json");
        let key = self.key(submission, lesson)?;
        let known = fs::read(&record).ok().and_then(|text| serde_json::from_slice::<Outcome>(&text).ok());
        if let Some(known) = known.filter(|known| known.key == key && !self.again) {
            return Ok((known, true));
        }
        remove_if_there(&record)?;
        let mut command = python::grader(&self.home, "grade");
        command.arg(&self.output).arg(&lesson.name).arg(&submission.student).arg(&submission.file);
        let Limits { cell_timeout, time_limit, memory_limit } = self.limits;
        for (name, value) in
            [("cell-timeout", cell_timeout), ("time-limit", time_limit), ("memory-limit", memory_limit)]
        {
            command.arg(format!("--{name}={value}"));
        }
        let log = place.with_added_extension("log");
        fs::create_dir_all(place.parent().unwrap_or(&place))?;
        let log_file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        // The kernel's own messages, which a reader of the table has no use for.
        command.stderr(log_file.try_clone()?);
        let mut graded: Option<Outcome> = None;
        let ended = python::follow(&mut command, |event| {
            if event["event"] == "graded" {
                let mut event = event.clone();
                event["key"] = key.clone().into();
                graded = serde_json::from_value(event).ok();
            }
        })?;
        match (ended.into_result(), graded) {
            (Ok(()), Some(mut outcome)) => {
                let read = |path: &Path| anyhow::Ok(serde_json::from_slice::<Value>(&fs::read(path)?)?);
                outcome.notes.extend(inspect::remarks(&read(&submission.file)?, &read(&lesson.dir.join(STARTER))?));
                write_atomically(&record, &serde_json::to_vec_pretty(&outcome)?)?;
                Ok((outcome, false))
            }
            (result, _) => {
                let message = result.err().map_or_else(String::new, |error| error.to_string());
                (&log_file).write_all(message.as_bytes())?;
                let last = message.lines().last().unwrap_or_default();
                Ok((Outcome::of(GRADER_FAILED, &format!("{last} (all of it: {})", log.display())), false))
            }
        }
    }

    /// Changes with whatever an outcome depends on.
    fn key(&self, submission: &Submission, lesson: &Lesson) -> Result<String> {
        let mut hash = Sha256::new();
        for path in [&submission.file, &lesson.source()] {
            hash.update(Sha256::digest(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?));
        }
        hash.update(format!("{:?}", self.limits));
        hash.update(&self.library);
        hash.update(python::GRADE_PY);
        Ok(format!("{:x}", hash.finalize()))
    }

    /// What the gradebook holds; points that a person gave meanwhile are in it.
    fn scores(&self) -> Result<Scores> {
        let mut scores = Scores::new();
        let mut command = python::grader(&self.home, "scores");
        python::follow(command.arg(&self.output), |event| {
            if event["event"] == "score" {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                let points = event["points"].as_f64().unwrap_or_default();
                let by_hand = event["by_hand"] == true;
                scores.insert(["student", "lesson", "exercise"].map(text), (points, by_hand));
            }
        })?
        .into_result()?;
        Ok(scores)
    }
}
