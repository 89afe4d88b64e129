//! `cargo lab grade`: what learners handed in, through the real kernel and nbgrader.
//!
//! The output folder is an nbgrader course directory (gradebook, feedback), so written answers can be
//! graded there with formgrader; the next run takes their points over. Each notebook is run by a Python
//! process of its own, with its kernel in a sandbox: whatever one does, the others are graded. Meanwhile the gradebook is
//! written, by one process that runs nobody's code.

mod anonymous;
mod elsewhere;
mod grader;
mod inspect;
mod names;
mod platform;
mod recording;
mod report;
mod solutions;
mod submission;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::checkout::Checkout;
use crate::home::{Home, write_atomically};
use crate::jupyter::installed::Installed;
use crate::jupyter::sources::source_key;
use crate::lessons::{self, Exercise, Lesson};
use crate::parallel::side_by_side;
use crate::sandbox::{LAYERS, Layer};
use crate::ui::plain;
pub use elsewhere::grade_one;
use grader::Grader;
pub use inspect::print_remarks;
use platform::Platform;
use recording::Ran;
pub use report::csv_lines;
use report::{BY_HAND, Row, Score};
pub use solutions::solutions;
use submission::Submission;
pub use submission::read_regular;

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
    /// Run only what checks need, and learners' own cells; the course's other cells keep the outputs that they came with
    #[arg(long)]
    checks_only: bool,
    /// Let notebooks read the models that are set up here; without it they run on `embedded`, in about half the time
    #[arg(long)]
    with_models: bool,
    /// Grade this many notebooks at a time, as far as memory allows; points for speed suffer from more than one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// Have it done by the workers of this Dask scheduler, each with a set-up of the same state (`cargo lab dask`)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    scheduler: Option<String>,
    /// Also write a table that this platform imports
    #[arg(long, value_name = "PLATFORM")]
    format: Option<Platform>,
    /// Replace students' names with ids; this file says whose each is
    #[arg(long, value_name = "KEYFILE")]
    anonymous: Option<PathBuf>,
    /// Give learners' code your rights, files and network
    #[arg(long)]
    unsandboxed: bool,
}

/// How much one notebook may take.
#[derive(Debug, Clone, Copy, clap::Args, Serialize, Deserialize)]
pub struct Limits {
    /// Time limit for one cell; each cell that reaches it halves it for the rest of the notebook
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    cell_timeout: u32,
    /// Time limit for one notebook, not counting the kernel's start
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Limit on the memory of a kernel and all that it starts
    #[arg(long, value_name = "MIB", default_value_t = 6144, value_parser = clap::value_parser!(u32).range(1000..))]
    memory_limit: u32,
    /// Limit on what a notebook writes
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(100..))]
    disk_limit: u32,
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
    /// Whether the gradebook has it.
    #[serde(default)]
    recorded: bool,
}

const UNREADABLE: &str = "unreadable";
const NO_LESSON: &str = "no lesson";
const SUPERSEDED: &str = "superseded";
const GRADER_FAILED: &str = "grader failed";
/// For these, the gradebook holds nothing, or only what an earlier notebook of the student earned.
const NOT_GRADED: [&str; 3] = [UNREADABLE, NO_LESSON, GRADER_FAILED];

/// Grades all notebooks of a folder; an error says how many could not be.
pub fn grade(request: &Request) -> Result<()> {
    // Before anything else: what is missing may have to be installed. Where workers run the code, they look for theirs.
    let layer = match &request.scheduler {
        _ if request.unsandboxed => None,
        Some(_) => Some(LAYERS[0]),
        None => Some(Layer::best()?),
    };
    let lessons = lessons::ready(request.lessons.as_deref(), None)?;
    let rows = grade_in(layer, &lessons, request)?;
    match rows.iter().filter(|row| NOT_GRADED.contains(&row.status.as_str())).count() {
        0 => Ok(()),
        count => bail!("{count} of {} notebooks could not be graded; the table says why", rows.len()),
    }
}

/// Grades all notebooks of a folder, each kernel in a sandbox of this layer if there is one.
fn grade_in(layer: Option<Layer>, lessons: &[Lesson], request: &Request) -> Result<Vec<Row>> {
    let folder = request.folder.as_path();
    let output = std::path::absolute(request.output.clone().unwrap_or_else(|| beside(folder, "grades")))?;
    let mut found = submission::find(folder, &output, lessons)?;
    if let Some(wanted) = &request.lesson {
        let wanted = &lessons::choose(lessons, wanted)?.name;
        found.retain(|s| s.lesson.as_ref() == Some(wanted));
        ensure!(!found.is_empty(), "no notebook in {} is for {wanted}", folder.display());
    }
    if let Some(key_file) = &request.anonymous {
        anonymous::rename(&mut found, key_file, &output)?;
    }
    let lesson_of = |s: &Submission| lessons.iter().find(|lesson| Some(&lesson.name) == s.lesson.as_ref());
    let home = Home::find()?;
    let support_crate = Installed::read(&home)?.library_for(&home, &Checkout::find()?);
    let library = source_key(&support_crate)?;
    let Request { limits, again, checks_only, with_models, .. } = *request;
    // Two would take each other's results away. Where a file system has no locks, it goes without.
    let waiting = || println!("Waiting for another `cargo lab grade`, which writes to {}", output.display());
    let _alone = Home::at(&output).lock("grading.lock", waiting).ok();
    let grader = Grader { home, output, limits, library, support_crate, layer, again, checks_only, with_models };
    grader.prepare(lessons.iter().filter(|l| found.iter().any(|s| s.lesson.as_ref() == Some(&l.name))))?;
    let work: Vec<Work> = with_what_to_do(&found, lesson_of);
    let mut outcomes = recording::meanwhile(&grader, &work, |ran| match &request.scheduler {
        Some(scheduler) => run_elsewhere(&grader, &work, scheduler, ran),
        None => run_all(&grader, &work, request.jobs, ran),
    })?;
    if request.anonymous.is_none() {
        grader.pass_on_notes(&work, &mut outcomes);
    }
    let scores = grader.scores().unwrap_or_else(|error| {
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.recorded) {
            *outcome = Outcome::of(GRADER_FAILED, &format!("the gradebook cannot be read: {error:#}"));
        }
        Scores::new()
    });
    let rows: Vec<Row> = work
        .iter()
        .zip(outcomes)
        .map(|(work, outcome)| row(work.submission, lesson_of(work.submission), outcome, &scores))
        .collect();
    println!("\n{}", report::table(&rows));
    write_atomically(&grader.output.join("grades.csv"), report::grades_csv(&rows).as_bytes())?;
    write_atomically(&grader.output.join("exercises.csv"), report::exercises_csv(&rows).as_bytes())?;
    let mut files = "grades.csv, exercises.csv, ".to_owned();
    if let Some(platform) = request.format {
        let name = format!("{platform:?}.csv").to_lowercase();
        write_atomically(&grader.output.join(&name), platform::table(platform, &rows).as_bytes())?;
        files = format!("{files}{name}, ");
    }
    println!("In {}: {files}feedback/STUDENT/LESSON/LESSON.html", grader.output.display());
    Ok(rows)
}

/// A notebook, and what is to be done with it.
struct Work<'a> {
    submission: &'a Submission,
    todo: Todo<'a>,
}

enum Todo<'a> {
    Run(&'a Lesson),
    /// There is nothing to run; the outcome is known already.
    Nothing(Outcome),
}

fn with_what_to_do<'a>(
    found: &'a [Submission],
    lesson_of: impl Fn(&Submission) -> Option<&'a Lesson>,
) -> Vec<Work<'a>> {
    let mut seen = HashSet::new();
    let todo = |submission: &'a Submission| match lesson_of(submission) {
        _ if submission.problem.is_some() => {
            Todo::Nothing(Outcome::of(UNREADABLE, submission.problem.as_deref().unwrap_or_default()))
        }
        None => {
            Todo::Nothing(Outcome::of(NO_LESSON, "it has none of the course's cells, and its path names no lesson"))
        }
        Some(_) if !seen.insert((&submission.id, &submission.lesson)) => Todo::Nothing(Outcome::of(
            SUPERSEDED,
            "the same student handed in a newer one for this lesson; that one counts",
        )),
        Some(lesson) => Todo::Run(lesson),
    };
    found.iter().map(todo).zip(found).map(|(todo, submission)| Work { submission, todo }).collect()
}

/// Runs what is to be run, several at a time; the outcomes are in the order of the work.
fn run_all(grader: &Grader, work: &[Work], jobs: u8, ran: &Ran) -> Result<Vec<Outcome>> {
    let jobs = grader.jobs_that_fit(jobs)?;
    if work.iter().any(|work| matches!(work.todo, Todo::Run(_))) {
        grader.make_ready()?;
    }
    let done = AtomicUsize::new(0);
    Ok(side_by_side(jobs.into(), work, |at, Work { submission, todo }| {
        let start = Instant::now();
        let (outcome, kept) = match todo {
            Todo::Nothing(outcome) => (outcome.clone(), false),
            Todo::Run(lesson) => grader.outcome(submission, lesson),
        };
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let took = if kept {
            "unchanged since it was graded".into()
        } else {
            format!("{:.0} s", start.elapsed().as_secs_f64())
        };
        println!("[{done}/{}] {}: {} ({took})", work.len(), plain(&submission.shown), outcome.status);
        ran(at, &outcome);
        outcome
    }))
}

/// Has workers run what is to be run; the outcomes are in the order of the work.
fn run_elsewhere<'a>(grader: &Grader, work: &[Work<'a>], scheduler: &str, ran: &Ran) -> Result<Vec<Outcome>> {
    let known = |Work { todo, .. }: &Work| if let Todo::Nothing(outcome) = todo { Some(outcome.clone()) } else { None };
    let mut outcomes: Vec<Option<Outcome>> = work.iter().map(known).collect();
    let to_run = |(at, work): (usize, &Work<'a>)| match work.todo {
        Todo::Run(lesson) => Some((at, work.submission, lesson)),
        Todo::Nothing(_) => None,
    };
    let sent: Vec<elsewhere::Sent<'a>> = work.iter().enumerate().filter_map(to_run).collect();
    let mut done = 0;
    elsewhere::grade_all(grader, scheduler, &sent, &mut |at, outcome, how| {
        done += 1;
        println!("[{done}/{}] {}: {} ({how})", sent.len(), plain(&work[at].submission.shown), outcome.status);
        ran(at, &outcome);
        outcomes[at] = Some(outcome);
    })?;
    let lost = || Outcome::of(GRADER_FAILED, "no worker said anything about it");
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect())
}

/// `work` becomes `work-grades`: not inside the folder, where it would be taken for more of what was handed in.
pub fn beside(folder: &Path, what: &str) -> PathBuf {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    full.with_file_name(format!("{}-{what}", full.file_name().unwrap_or_default().to_string_lossy()))
}

/// Points by student, lesson and exercise, and whether they wait for a person.
type Scores = HashMap<[String; 3], (f64, bool)>;

fn row(submission: &Submission, lesson: Option<&Lesson>, mut outcome: Outcome, scores: &Scores) -> Row {
    let exercises = match lesson {
        Some(lesson) if outcome.status != SUPERSEDED => lesson.exercises(),
        _ => Vec::new(),
    };
    let key_of = |exercise: &Exercise| {
        [submission.id.clone(), submission.lesson.clone().unwrap_or_default(), exercise.grade_id.clone()]
    };
    // It was recorded once, in a gradebook that is gone or older.
    if outcome.is_graded() && !exercises.is_empty() && !exercises.iter().any(|e| scores.contains_key(&key_of(e))) {
        outcome = Outcome::of(GRADER_FAILED, "the gradebook does not have it any more; try: --again");
    }
    let graded = outcome.is_graded();
    let score = |exercise: Exercise| {
        let key = key_of(&exercise);
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
        file: submission.shown.clone(),
        scores: exercises.into_iter().map(score).collect(),
        status: outcome.status,
        notes: outcome.notes,
    }
}

impl Outcome {
    fn of(status: &str, note: &str) -> Self {
        let (status, notes) = (status.to_owned(), vec![note.to_owned()]);
        Self { key: String::new(), status, notes, unscored: HashMap::new(), recorded: false }
    }

    fn is_graded(&self) -> bool {
        !NOT_GRADED.contains(&self.status.as_str())
    }
}
