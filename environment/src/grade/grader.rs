//! Runs notebooks, keeps what came of them, and writes the gradebook.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::submission::Submission;
use super::{GRADER_FAILED, Limits, Outcome, Scores, Todo, Work, inspect};
use crate::home::{Home, remove_if_there, write_atomically};
use crate::jupyter::live;
use crate::lessons::release::write_course;
use crate::lessons::{Lesson, companions};
use crate::memory::available_memory;
use crate::python;
use crate::sandbox::cgroup::Cgroup;
use crate::sandbox::{self, Layer};

/// The most that is kept of the messages of a kernel and its driver.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// What is known of a notebook before it runs.
pub enum Known {
    Outcome(Outcome),
    /// Nothing; this is what an outcome would depend on.
    Key(String),
}

/// Where a run's results go, and what it may take.
pub struct Grader {
    pub home: Home,
    pub output: PathBuf,
    pub limits: Limits,
    /// Changes with the library, which holds the checks.
    pub library: String,
    pub support_crate: PathBuf,
    /// The sandbox layer that contains kernels, if any; where workers run them, some layer.
    pub layer: Option<Layer>,
    pub again: bool,
    pub checks_only: bool,
    pub with_models: bool,
}

impl Grader {
    /// Makes the output folder a course directory with these lessons.
    pub fn prepare<'a>(&self, lessons: impl Iterator<Item = &'a Lesson> + Clone) -> Result<()> {
        write_course(&self.output, lessons.clone())?;
        let mut command = python::gradebook(&self.home, "prepare")?;
        command.arg(&self.output).args(lessons.map(|lesson| &lesson.name));
        python::follow(&mut command, |_| ())?.into_result().with_context(|| {
            format!(
                "nbgrader cannot add the lessons to {}\n  try: another --output, if a lesson's checks have changed since",
                self.output.display()
            )
        })
    }

    /// How many notebooks at a time the memory is enough for.
    pub fn jobs_that_fit(&self, wanted: u8) -> Result<u8> {
        let available_mib = available_memory().context("cannot read how much memory is available")? >> 20;
        let limit = self.limits.memory_limit;
        let fitting = (available_mib / limit as usize).min(u8::MAX.into()) as u8;
        if fitting == 0 {
            println!(
                "{available_mib} MiB of memory are free, and one notebook may take {limit}: it may be ended before it \
                 has that much"
            );
        }
        let fitting = fitting.max(1);
        if fitting < wanted {
            println!(
                "Grading {fitting} at a time, not {wanted}: {available_mib} MiB of memory are free, and each may take \
                 {limit} MiB"
            );
        }
        Ok(wanted.min(fitting))
    }

    /// Says what contains learners' code, and asks Cargo once what sandboxed kernels, which may not keep its answers,
    /// would ask each time.
    pub fn make_ready(&self) -> Result<()> {
        let Some(layer) = self.layer else {
            println!("No sandbox: learners' code has your rights, files and network");
            return Ok(());
        };
        // One of the graders of this program is enough.
        static FIRST: Mutex<()> = Mutex::new(());
        let _first = FIRST.lock();
        let stamp = self.home.answers().join("for-sandboxes");
        if fs::read_to_string(&stamp).is_ok_and(|text| text == self.library) {
            return Ok(());
        }
        println!(
            "Starting a first kernel in a sandbox ({}); this happens once after each change of the library",
            layer.name()
        );
        let mut command = python::grader(&self.home, "prime")?;
        self.limit(&mut command);
        let request = self.request(layer, None, None, true);
        command.env(sandbox::VARIABLE, request.to_variable()?);
        // Not among the results, where any name may be a student's.
        let log = self.output.join("first-kernel.log");
        command.stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
        fs::create_dir_all(self.home.answers())?;
        let ended = python::follow(&mut command, |_| ())?;
        ended.into_result().with_context(|| {
            format!("cannot run a kernel in a sandbox ({}); its messages are in {}", layer.name(), log.display())
        })?;
        write_atomically(&stamp, self.library.as_bytes())
    }

    fn limit(&self, command: &mut Command) {
        let Limits { cell_timeout, time_limit, memory_limit, .. } = self.limits;
        for (name, value) in
            [("cell-timeout", cell_timeout), ("time-limit", time_limit), ("memory-limit", memory_limit)]
        {
            command.arg(format!("--{name}={value}"));
        }
    }

    fn request(
        &self,
        layer: Layer,
        lesson: Option<&str>,
        group: Option<&Cgroup>,
        keeps_answers: bool,
    ) -> sandbox::Request {
        sandbox::Request {
            layer,
            support_crate: self.support_crate.clone(),
            files: lesson.map(|lesson| self.output.join("release").join(lesson)),
            shows_models: self.with_models,
            memory_mib: self.limits.memory_limit,
            disk_mib: self.limits.disk_limit,
            cgroups: group.map(|group| group.folders().to_vec()).unwrap_or_default(),
            keeps_answers,
        }
    }

    /// The place of a notebook's results, without an extension.
    pub fn place(&self, student: &str, lesson: &str) -> PathBuf {
        self.output.join("results").join(student).join(lesson)
    }

    /// How the notebook's grading went, and whether that was known already. A failure is this notebook's only, and
    /// stops no other.
    pub fn outcome(&self, submission: &Submission, lesson: &Lesson) -> (Outcome, bool) {
        let outcome = self.graded(submission, lesson);
        outcome.unwrap_or_else(|error| (Outcome::of(GRADER_FAILED, &one_line(&error)), false))
    }

    fn graded(&self, submission: &Submission, lesson: &Lesson) -> Result<(Outcome, bool)> {
        let key = match self.known(submission, lesson)? {
            Known::Outcome(known) => return Ok((known, true)),
            Known::Key(key) => key,
        };
        let place = self.place(&submission.id, &lesson.name);
        let outcome = self.run(&submission.file, &lesson.name, &place, &key);
        Ok((outcome.or_else(|error| self.failed(&place, &error.to_string()))?, false))
    }

    /// What an earlier run found, unless something has changed since.
    pub fn known(&self, submission: &Submission, lesson: &Lesson) -> Result<Known> {
        let place = self.place(&submission.id, &lesson.name);
        let key = self.key(submission, lesson)?;
        if let Some(known) = self.kept(&place).filter(|known| known.key == key && !self.again) {
            return Ok(Known::Outcome(known));
        }
        Ok(Known::Key(key))
    }

    /// The outcome at a place.
    pub fn kept(&self, place: &Path) -> Option<Outcome> {
        serde_json::from_slice(&fs::read(place.with_added_extension("json")).ok()?).ok()
    }

    /// The outcome of a grading that failed; its log says why.
    pub fn failed(&self, place: &Path, message: &str) -> Result<Outcome> {
        let log = place.with_added_extension("log");
        let mut file = File::options().create(true).append(true).open(&log)?;
        file.write_all(message.as_bytes()).with_context(|| format!("cannot write {}", log.display()))?;
        let last = message.lines().last().unwrap_or_default();
        Ok(Outcome::of(GRADER_FAILED, &format!("{last} (in full: {})", log.display())))
    }

    /// Runs a notebook and keeps what came of it beside `place`: outcome, executed copy, log.
    pub fn run(&self, file: &Path, lesson: &str, place: &Path, key: &str) -> Result<Outcome> {
        let [record, executed, log] = ["json", "ipynb", "log"].map(|extension| place.with_added_extension(extension));
        remove_if_there(&record)?;
        remove_if_there(&executed)?;
        fs::create_dir_all(place.parent().unwrap_or(place))?;
        let log_file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = python::grader(&self.home, "grade")?;
        command.arg(&self.output).arg(lesson).arg(file).arg(&executed);
        if self.checks_only {
            command.arg("--checks-only");
        }
        self.limit(&mut command);
        // Removed, with its processes, when the notebook has been graded.
        let group = self.layer.and_then(|_| Cgroup::create(self.limits.memory_limit));
        match self.layer {
            Some(layer) => {
                let request = self.request(layer, Some(lesson), group.as_ref(), false);
                command.env(sandbox::VARIABLE, request.to_variable()?);
            }
            None => drop(command.env_remove(sandbox::VARIABLE)),
        }
        // The kernel's own messages, which are of no use to a reader of the table. They go through a pipe: a file would
        // be open in the kernel's process, and a cell could reopen it and write to it without end.
        let (said, says) = std::io::pipe()?;
        command.stderr(says);
        let mut log_of_kernel = log_file.try_clone()?;
        let (is_written, written) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut kept, mut rest) = (said.take(MAX_LOG_BYTES), std::io::sink());
            let _: std::io::Result<u64> = std::io::copy(&mut kept, &mut log_of_kernel);
            let _: std::io::Result<u64> = std::io::copy(&mut kept.into_inner(), &mut rest);
            is_written.send(()).unwrap_or_default();
        });
        let mut graded: Option<Outcome> = None;
        let ended = python::follow(&mut command, |event| {
            if event["event"] == "graded" {
                let mut event = event.clone();
                event["key"] = key.into();
                graded = serde_json::from_value(event).ok();
            }
        })?;
        drop((group, command));
        // What a cell left running may hold the pipe open.
        let _: Result<(), mpsc::RecvTimeoutError> = written.recv_timeout(Duration::from_secs(1));
        live::sweep(&self.home)?;
        ended.into_result()?;
        let mut outcome = graded.context("the grader said nothing")?;
        // An invalid notebook has nothing to record.
        outcome.recorded = !executed.exists();
        if !outcome.recorded {
            // As it was run, whatever format it came in.
            let starter = self.output.join("release").join(lesson).join(format!("{lesson}.ipynb"));
            outcome.notes.extend(inspect::remarks(&executed, &starter));
        }
        write_atomically(&record, &serde_json::to_vec_pretty(&outcome)?)?;
        Ok(outcome)
    }

    /// Runs a script that reads a list, a line for each notebook.
    pub fn follow_with_list(&self, command: &mut Command, list: &str, on_event: impl FnMut(&Value)) -> Result<()> {
        // Not among the results, where any name may be a student's.
        let list_file = self.output.join("to-do");
        write_atomically(&list_file, list.as_bytes())?;
        python::follow(command.stdin(File::open(&list_file)?), on_event)?.into_result()?;
        remove_if_there(&list_file)
    }

    /// Passes on nbgrader's notes, so that it can return the feedback on notebooks that came through its exchange. The
    /// notes are new each time that somebody hands in, even the same notebook once more.
    pub fn pass_on_notes(&self, work: &[Work], outcomes: &mut [Outcome]) {
        for (Work { submission, todo }, outcome) in work.iter().zip(outcomes) {
            if let Todo::Run(lesson) = todo {
                let feedback = self.output.join("feedback").join(&submission.id).join(&lesson.name);
                // What lies there otherwise is the feedback on an earlier one.
                let is_new = outcome.recorded && outcome.is_graded();
                if let Err(error) = submission.pass_on_notes(&feedback, is_new) {
                    outcome.notes.push(format!("nbgrader cannot return the feedback: {}", one_line(&error)));
                }
            }
        }
    }

    /// A key that changes with everything an outcome depends on.
    fn key(&self, submission: &Submission, lesson: &Lesson) -> Result<String> {
        let mut hash = Sha256::new();
        // The files that the notebook runs beside, as they were handed out.
        let mut beside = companions(&self.output.join("release").join(&lesson.name));
        beside.sort();
        for path in [submission.file.clone(), lesson.source()].iter().chain(&beside) {
            hash.update(Sha256::digest(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?));
        }
        for name in beside.iter().filter_map(|path| path.file_name()) {
            hash.update(name.as_encoded_bytes());
            hash.update([0]);
        }
        hash.update(format!("{:?} {:?} {} {}", self.limits, self.layer, self.checks_only, self.with_models));
        hash.update(&self.library);
        for module in python::GRADING {
            hash.update(module);
        }
        Ok(format!("{:x}", hash.finalize()))
    }

    /// What the gradebook holds; points that a person gave meanwhile are in it.
    pub fn scores(&self) -> Result<Scores> {
        let mut scores = Scores::new();
        let mut command = python::gradebook(&self.home, "scores")?;
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

/// An error as a note in a table.
pub fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_notebook_runs_beside_is_part_of_what_its_grade_depends_on() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| write_atomically(&dir.path().join(name), text.as_bytes()).unwrap();
        write("lesson/solution.ipynb", "{}");
        write("ada.ipynb", "{}");
        let lesson = Lesson { name: "01-a".into(), dir: dir.path().join("lesson"), notebook: Value::Null };
        let submission = Submission {
            student: "ada".into(),
            id: "ada".into(),
            lesson: Some("01-a".into()),
            problem: None,
            file: dir.path().join("ada.ipynb"),
            shown: "ada.ipynb".into(),
            modified: SystemTime::UNIX_EPOCH,
        };
        let grader = Grader {
            home: Home::at(dir.path()),
            output: dir.path().join("out"),
            limits: Limits { cell_timeout: 1, time_limit: 1, memory_limit: 1000, disk_limit: 100 },
            library: String::new(),
            support_crate: dir.path().to_owned(),
            layer: None,
            again: false,
            checks_only: false,
            with_models: false,
        };
        let key = || grader.key(&submission, &lesson).unwrap();
        let mut keys = vec![key()];
        for (name, text) in [("data.csv", "1"), ("data.csv", "2"), ("more.csv", "1")] {
            write(&format!("out/release/01-a/{name}"), text);
            keys.push(key());
        }
        fs::rename(dir.path().join("out/release/01-a/more.csv"), dir.path().join("out/release/01-a/new.csv")).unwrap();
        keys.push(key());
        // The starter is made from the solution.
        write("out/release/01-a/01-a.ipynb", "{}");
        assert_eq!(key(), keys[4]);
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
    }
}
