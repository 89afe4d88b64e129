//! The solutions, as if learners had handed them in: whole, through the kernel, a sandbox and nbgrader.

use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Result, bail};
use serde_json::Value;

use super::{BY_HAND, Limits, Request, Row, grade_in};
use crate::home::{Home, remove_if_there};
use crate::lessons::{Lesson, cells, claims, read_notebook};
use crate::sandbox::{LAYERS, Layer};

/// What a slow machine takes is not for this run to say; the memory is what a teacher's grading has.
const LIMITS: Limits = Limits { cell_timeout: 600, time_limit: 3600, memory_limit: 6144, disk_limit: 1024 };

/// Each has a score.
const STUDENT: &str = "solution";

/// Grades the solutions, two at a time: half of them whole in one sandbox, the others whole in the other, where the
/// checks of the first half run too.
///
/// # Errors
/// The solutions that do not get all points, whose cells failed, whose run contradicts a claim, or that the grader
/// remarks upon.
pub fn solutions(lessons: &[Lesson], home: &Home) -> Result<()> {
    let layers: Vec<Option<Layer>> = LAYERS.into_iter().filter(|layer| layer.probe().is_ok()).map(Some).collect();
    if layers.len() < LAYERS.len() {
        eprintln!("      NOT run in each sandbox: `cargo lab doctor` says which is missing, and why");
    }
    let [best, other] = [layers.first(), layers.last()].map(|layer| layer.copied().flatten());
    let dir = home.root().join("tests/solutions");
    remove_if_there(&dir)?;
    let (first_half, second_half) = lessons.split_at(lessons.len().div_ceil(2));
    let faults = thread::scope(|scope| {
        let in_other = scope.spawn(|| faults_of(other, &dir.join("first-half"), first_half, false));
        let mut faults = faults_of(best, &dir.join("second-half"), second_half, false)?;
        if layers.len() > 1 {
            faults.extend(faults_of(best, &dir.join("checks"), first_half, true)?);
        }
        faults.extend(in_other.join().map_err(|_| anyhow::anyhow!("grading the solutions panicked"))??);
        anyhow::Ok(faults)
    })?;
    if !faults.is_empty() {
        bail!("some solutions are not graded as they should be\n  {}", faults.join("\n  "));
    }
    Ok(())
}

fn faults_of(layer: Option<Layer>, dir: &Path, lessons: &[Lesson], checks_only: bool) -> Result<Vec<String>> {
    let (folder, output) = (dir.join("handed-in"), dir.join("grades"));
    for lesson in lessons {
        let to = folder.join(STUDENT).join(&lesson.name);
        fs::create_dir_all(&to)?;
        fs::copy(lesson.source(), to.join(format!("{}.ipynb", lesson.name)))?;
    }
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
        format: None,
        anonymous: None,
        unsandboxed: layer.is_none(),
    };
    let rows = grade_in(layer, lessons, &request)?;
    anyhow::ensure!(rows.len() == lessons.len(), "{} of {} solutions are in the table", rows.len(), lessons.len());
    let mut faults = Vec::new();
    for row in &rows {
        let executed = output.join("results").join(STUDENT).join(&row.lesson).with_added_extension("ipynb");
        // Cells that did not run keep what the solution was committed with.
        let of_run = if checks_only { Vec::new() } else { of_run(&read_notebook(&executed)?) };
        faults.extend([of_row(row), of_run].concat().into_iter().map(|fault| format!("{}: {fault}", row.lesson)));
    }
    Ok(faults)
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
