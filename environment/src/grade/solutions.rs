//! The solutions, as if learners had handed them in: whole, through the kernel, a sandbox and nbgrader.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::{BY_HAND, Limits, Request, Row, grade_in};
use crate::home::{Home, remove_if_there};
use crate::lessons::{Lesson, cells, claims, read_notebook};
use crate::sandbox::{LAYERS, Layer};

/// What a slow machine takes is not for this run to say; the memory is what a teacher's grading has.
const LIMITS: Limits = Limits { cell_timeout: 600, time_limit: 3600, memory_limit: 6144, disk_limit: 1024 };

/// Each has a score.
const STUDENT: &str = "solution";

/// Lessons whose solutions are also graded by their checks alone, in the sandbox that did not run them whole.
const BY_CHECKS: usize = 2;

/// Grades the solutions, two at a time: in each of two sandboxes one, whole, and then some by their checks.
///
/// # Errors
/// The solutions that do not get all points, whose cells failed, whose run contradicts a claim, or that the grader
/// remarks upon.
pub fn solutions(lessons: &[Lesson], home: &Home) -> Result<()> {
    let layers: Vec<Option<Layer>> = LAYERS.into_iter().filter(|layer| layer.probe().is_ok()).map(Some).collect();
    if layers.len() < LAYERS.len() {
        eprintln!("      NOT run in each sandbox: `cargo lab doctor` says which is missing, and why");
    }
    let dir = home.root().join("tests/solutions");
    remove_if_there(&dir)?;
    let by_checks = if layers.len() > 1 { BY_CHECKS.min(lessons.len()) } else { 0 };
    let waiting = Mutex::new(Waiting { lessons, ran: Vec::new(), by_checks: (0..by_checks).collect() });
    // The first and the last: where only one runs, it has both.
    let sandboxes = [(0, layers.first()), (1, layers.last())].map(|(at, layer)| (at, layer.copied().flatten()));
    let in_sandbox = |(at, layer): (usize, Option<Layer>)| -> Result<Vec<String>> {
        let mut faults = Vec::new();
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next(at);
        while let Some((lesson, checks_only)) = next() {
            let dir = dir.join(if checks_only { "checks" } else { "whole" }).join(&lesson.name);
            faults.extend(faults_of(layer, &dir, lesson, checks_only)?);
        }
        Ok(faults)
    };
    let faults: Vec<Vec<String>> = thread::scope(|scope| {
        let both = sandboxes.map(|sandbox| scope.spawn(move || in_sandbox(sandbox)));
        both.into_iter()
            .map(|one| one.join().map_err(|_| anyhow::anyhow!("grading the solutions panicked"))?)
            .collect::<Result<_>>()
    })?;
    let faults = faults.concat();
    ensure!(faults.is_empty(), "some solutions are not graded as they should be\n  {}", faults.join("\n  "));
    Ok(())
}

/// What has yet to be graded.
struct Waiting<'a> {
    lessons: &'a [Lesson],
    /// In which sandbox a lesson was run whole, from the first on.
    ran: Vec<usize>,
    /// Lessons that are graded by their checks, too.
    by_checks: Vec<usize>,
}

impl<'a> Waiting<'a> {
    /// The next for this sandbox, and whether it is graded by its checks alone.
    fn next(&mut self, sandbox: usize) -> Option<(&'a Lesson, bool)> {
        if let Some(lesson) = self.lessons.get(self.ran.len()) {
            self.ran.push(sandbox);
            return Some((lesson, false));
        }
        let others = self.by_checks.iter().position(|&lesson| self.ran[lesson] != sandbox)?;
        Some((&self.lessons[self.by_checks.remove(others)], true))
    }
}

fn faults_of(layer: Option<Layer>, dir: &Path, lesson: &Lesson, checks_only: bool) -> Result<Vec<String>> {
    let (folder, output) = (dir.join("handed-in"), dir.join("grades"));
    let to = folder.join(STUDENT).join(&lesson.name);
    fs::create_dir_all(&to)?;
    fs::copy(lesson.source(), to.join(format!("{}.ipynb", lesson.name)))?;
    let request = Request {
        folder,
        output: Some(output.clone()),
        lesson: None,
        lessons: None,
        limits: LIMITS,
        again: true,
        checks_only,
        with_models: true,
        jobs: 1,
        scheduler: None,
        format: None,
        anonymous: None,
        unsandboxed: layer.is_none(),
    };
    let rows = grade_in(layer, std::slice::from_ref(lesson), &request)?;
    let [row] = rows.as_slice() else { bail!("{} of 1 solutions are in the table", rows.len()) };
    let executed = output.join("results").join(STUDENT).join(&row.lesson).with_added_extension("ipynb");
    // Cells that did not run keep what the solution was committed with.
    let of_run = if checks_only { Vec::new() } else { of_run(&read_notebook(&executed)?) };
    Ok([of_row(row), of_run].concat().into_iter().map(|fault| format!("{}: {fault}", row.lesson)).collect())
}

fn of_row(row: &Row) -> Vec<String> {
    let in_full = |status: &str, points, max| status == BY_HAND || (status == "graded" && points == max);
    let missed = row.scores.iter().filter(|s| !in_full(&s.status, s.points, s.max));
    let missed = missed.map(|s| format!("{} of {} points for {} ({})", s.points, s.max, s.exercise, s.status));
    let none = row.scores.is_empty().then(|| format!("no points: {}", row.status));
    missed.chain(none).chain(row.notes.clone()).collect()
}

/// Claims that do not hold, and cells that failed.
fn of_run(executed: &Value) -> Vec<String> {
    let failed = cells(executed).iter().enumerate().filter(|(_, cell)| {
        let mut outputs = cell["outputs"].as_array().into_iter().flatten();
        outputs.any(|out| out["output_type"] == "error" || out["name"] == "stderr")
    });
    let failed = failed.map(|(number, cell)| format!("[{number}] failed: {}", cell["outputs"]));
    [claims::not_so(executed), claims::unmeasured(executed), failed.collect()].concat()
}

#[cfg(test)]
mod tests {
    use super::super::report::Score;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_solution_runs_whole_once_and_some_by_their_checks_in_the_other_sandbox() {
        let lessons: Vec<Lesson> =
            ["0", "1", "2"].map(|name| Lesson { name: name.into(), dir: name.into(), notebook: Value::Null }).into();
        let mut waiting = Waiting { lessons: &lessons, ran: Vec::new(), by_checks: vec![0, 1, 2] };
        let next = |sandbox| waiting.next(sandbox).map(|(lesson, checks_only)| (lesson.name.as_str(), checks_only));
        let order = [0, 1, 0, 0, 0, 1, 1, 1].map(next);
        let [a, b, c] = ["0", "1", "2"].map(|name| Some((name, false)));
        let [a_checked, b_checked, c_checked] = ["0", "1", "2"].map(|name| Some((name, true)));
        assert_eq!(order, [a, b, c, b_checked, None, a_checked, c_checked, None]);
    }

    #[test]
    fn points_that_are_missing_and_remarks_are_faults() {
        let score = |points, status: &str| Score { exercise: "l1-a".into(), points, max: 2.0, status: status.into() };
        let row = |scores, notes: &[&str]| Row {
            student: STUDENT.into(),
            lesson: "01".into(),
            file: String::new(),
            scores,
            status: "graded".into(),
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
        };
        assert!(of_row(&row(vec![score(2.0, "graded"), score(0.0, BY_HAND)], &[])).is_empty());
        assert_eq!(of_row(&row(vec![score(1.0, "graded")], &["x"])), ["1 of 2 points for l1-a (graded)", "x"]);
        assert_eq!(of_row(&row(vec![score(2.0, "no score")], &[])).len(), 1);
        assert_eq!(of_row(&row(Vec::new(), &[])), ["no points: graded"]);
    }

    #[test]
    fn a_cell_that_failed_and_a_claim_that_does_not_hold_are_faults() {
        let of = |output| of_run(&json!({"cells": [{"cell_type": "code", "source": "f()", "outputs": [output]}]}));
        let stream = |name: &str, text: &str| json!({"output_type": "stream", "name": name, "text": text});
        assert!(of(stream("stdout", "On this run\n  + it is so")).is_empty());
        assert_eq!(of(stream("stdout", "  - not so here: it is so")), ["[0] not so: it is so"]);
        assert!(of(stream("stderr", "x"))[0].starts_with("[0] failed"));
        assert!(of(json!({"output_type": "error", "ename": "x"}))[0].starts_with("[0] failed"));
    }
}
