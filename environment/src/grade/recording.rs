//! Puts notebooks into the gradebook, and writes their feedback, while others are still run.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::{io, thread};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use super::grader::{Grader, one_line};
use super::submission::Submission;
use super::{GRADER_FAILED, Outcome, Todo, Work};
use crate::home::write_atomically;
use crate::lessons::Lesson;
use crate::python;

/// What is told of a notebook when it has been run: its number in the work, and how that went.
pub type Ran<'a> = dyn Fn(usize, &Outcome) + Sync + 'a;

/// The outcomes of all work, which `run` finds and tells of as they come: what was run, now or in a run that was
/// interrupted, is put into the gradebook meanwhile. If something cannot be recorded, its outcome says so.
///
/// # Errors
/// Those of `run`.
pub fn meanwhile(
    grader: &Grader,
    work: &[Work],
    run: impl FnOnce(&Ran) -> Result<Vec<Outcome>>,
) -> Result<Vec<Outcome>> {
    let (to_record, lines) = mpsc::channel();
    let recording = Recording { grader, sent: Mutex::default() };
    let (outcomes, done) = thread::scope(|scope| {
        let recorder = scope.spawn(|| recording.record(lines));
        let outcomes = run(&|at, outcome| {
            let Work { submission, todo } = &work[at];
            if let Todo::Run(lesson) = todo
                && !outcome.recorded
                && outcome.status != GRADER_FAILED
            {
                let executed = grader.place(&submission.id, &lesson.name).with_added_extension("ipynb");
                recording.sent().push(Sent { at, submission, lesson, outcome: outcome.clone(), is_done: false });
                let line =
                    json!({"student": submission.id, "lesson": lesson.name, "executed": executed.to_string_lossy()});
                to_record.send(format!("{line}\n")).unwrap_or_default();
            }
        });
        drop(to_record);
        let left = recording.sent().iter().filter(|sent| !sent.is_done).count();
        if left > 0 {
            println!("Writing the gradebook and the feedback of {left} notebooks");
        }
        (outcomes, recorder.join().unwrap_or_else(|_| Err(anyhow!("writing the gradebook panicked"))))
    });
    let mut outcomes = outcomes?;
    let why = done.map_or_else(|error| one_line(&error), |()| "nbgrader reported nothing about it".to_owned());
    for Sent { at, outcome, is_done, .. } in recording.sent.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let lost = || Outcome::of(GRADER_FAILED, &format!("not in the gradebook: {why}"));
        outcomes[at] = if is_done { outcome } else { lost() };
    }
    Ok(outcomes)
}

struct Recording<'a> {
    grader: &'a Grader,
    sent: Mutex<Vec<Sent<'a>>>,
}

/// A notebook that is to be recorded.
struct Sent<'a> {
    at: usize,
    submission: &'a Submission,
    lesson: &'a Lesson,
    outcome: Outcome,
    /// Whether nbgrader has it, or has refused it.
    is_done: bool,
}

impl<'a> Recording<'a> {
    fn sent(&self) -> MutexGuard<'_, Vec<Sent<'a>>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what each line names, until no more will come.
    fn record(&self, lines: mpsc::Receiver<String>) -> Result<()> {
        let Ok(first) = lines.recv() else { return Ok(()) };
        let mut command = python::gradebook(&self.grader.home, "record")?;
        let (list, mut to_list) = io::pipe().context("cannot make a pipe")?;
        command.arg(&self.grader.output).stdin(list);
        thread::scope(|scope| {
            scope.spawn(move || {
                for line in std::iter::once(first).chain(lines) {
                    // Where the script has ended, what it said says why.
                    let _: io::Result<()> = to_list.write_all(line.as_bytes());
                }
            });
            let ended = python::follow(&mut command, |event| self.take(event));
            // This end of the pipe is open in it: writing would wait for a reader that is gone.
            drop(command);
            ended?.into_result()
        })
    }

    /// Takes in what the script says of a notebook.
    fn take(&self, event: &Value) {
        let mut all = self.sent();
        let is_of = |sent: &&mut Sent| {
            event["event"] == "recorded"
                && event["student"] == sent.submission.id.as_str()
                && event["lesson"] == sent.lesson.name.as_str()
        };
        let Some(Sent { submission, lesson, outcome, is_done, .. }) = all.iter_mut().find(is_of) else { return };
        *is_done = true;
        if let Some(error) = event["error"].as_str() {
            let last = error.lines().last().unwrap_or_default();
            *outcome = Outcome::of(GRADER_FAILED, &format!("nbgrader does not accept it: {last}"));
            return;
        }
        outcome.recorded = true;
        let record = self.grader.place(&submission.id, &lesson.name).with_added_extension("json");
        let text = serde_json::to_vec_pretty(outcome).context("an outcome is not JSON");
        if let Err(error) = text.and_then(|text| write_atomically(&record, &text)) {
            *outcome = Outcome::of(GRADER_FAILED, &one_line(&error));
        }
    }
}
