//! The lessons' own checks through the whole way that a hand-in takes: the real kernel, nbgrader, the table.
//!
//! The answers are those of `support-crate/course/tests/answers`, where each is also given to its check
//! directly. `cargo lab test` grades the solutions, whole; this, with `--full` only, all answers. Needs a finished set-up.

#[path = "common/lab.rs"]
mod lab;

use std::fs;
use std::path::{Path, PathBuf};

use lab::{lab, text};
use serde_json::{Value, json};

/// An answer to one exercise, and what its second line says about it.
struct Answer {
    lesson: String,
    /// `time-generate`, as in the grade ids `l1-time-generate` and `l1-check-time-generate`.
    exercise: String,
    name: String,
    code: String,
}

impl Answer {
    fn student(&self) -> String {
        format!("{}--{}", self.exercise, self.name)
    }
}

/// `00-transformer` is lesson 0.
fn number_of(lesson: &str) -> usize {
    lesson[..2].parse().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn answers() -> Vec<Answer> {
    let lessons = entries(&root().join("notebooks")).into_iter().filter(|dir| dir.join("solution.ipynb").is_file());
    let mut answers = Vec::new();
    for lesson in lessons {
        let of_lesson = format!("support-crate/course/tests/answers/lesson_{}", number_of(&name_of(&lesson)));
        let of_lesson = root().join(of_lesson);
        for exercise in entries(&of_lesson).into_iter().filter(|path| path.is_dir()) {
            for file in entries(&exercise) {
                answers.push(Answer {
                    lesson: name_of(&lesson),
                    exercise: name_of(&exercise).replace('_', "-"),
                    name: name_of(&file),
                    code: fs::read_to_string(&file).unwrap(),
                });
            }
        }
    }
    answers
}

/// The lessons without their experiments: what is read in first, the exercises and their checks.
fn short_course(dir: &Path, lessons: &[String]) -> PathBuf {
    let course = dir.join("course");
    for lesson in lessons {
        let mut notebook = read(&root().join("notebooks").join(lesson).join("solution.ipynb"));
        notebook["cells"].as_array_mut().unwrap().retain(|cell| {
            let is_code = cell["cell_type"] == "code";
            let is_setup = cell["source"].to_string().contains("use quantlab::prelude::*");
            is_code && (is_setup || cell["metadata"]["nbgrader"].is_object())
        });
        fs::create_dir_all(course.join(lesson)).unwrap();
        fs::write(course.join(lesson).join("solution.ipynb"), notebook.to_string()).unwrap();
    }
    course
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The solution with one exercise answered differently, under a name of that answer's own.
fn hand_in(work: &Path, course: &Path, answer: &Answer) {
    let mut notebook = read(&course.join(&answer.lesson).join("solution.ipynb"));
    let id = format!("l{}-{}", number_of(&answer.lesson), answer.exercise);
    let cells = notebook["cells"].as_array_mut().unwrap();
    let cell = cells.iter_mut().find(|cell| cell["id"] == *id).unwrap_or_else(|| panic!("no cell {id}"));
    cell["source"] = json!(answer.code);
    let folder = work.join(answer.student()).join(&answer.lesson);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{}.ipynb", answer.lesson)), notebook.to_string()).unwrap();
}

#[test]
#[ignore = "all answers of learners: hours, and each is given to its check in the course's own tests"]
fn answers_that_learners_give_score_as_they_should() {
    let answers = answers();
    let mut lessons: Vec<String> = answers.iter().map(|answer| answer.lesson.clone()).collect();
    lessons.dedup();
    let dir = tempfile::tempdir().unwrap();
    let (course, work, output) = (short_course(dir.path(), &lessons), dir.path().join("work"), dir.path().join("out"));
    for answer in &answers {
        hand_in(&work, &course, answer);
    }
    let released = lab(&["release"], &[("--lessons", &course)]);
    assert!(released.status.success(), "{}", text(&released.stderr));
    let graded = lab(&["grade"], &[("--lessons", &course), ("--output", &output), ("--", &work)]);
    let said = text(&graded.stdout) + &text(&graded.stderr);
    let table = fs::read_to_string(output.join("exercises.csv")).unwrap_or_else(|_| panic!("{said}"));
    let faults: Vec<String> = answers.iter().filter_map(|answer| fault(answer, &table)).collect();
    assert!(faults.is_empty(), "{}\n{said}\n{table}", faults.join("\n"));
}

/// What is wrong with the points of one answer, and of the solutions around it.
fn fault(answer: &Answer, table: &str) -> Option<String> {
    let student = answer.student();
    let check = format!("l{}-check-{}", number_of(&answer.lesson), answer.exercise);
    let own = table.lines().rev().find_map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let &[of, _, exercise, points, max, _] = fields.as_slice() else { return None };
        (of == student && exercise == check).then_some((points.parse::<f64>().ok()?, max.parse::<f64>().ok()?))
    });
    let Some((points, max)) = own else { return Some(format!("{student}: no points for {check}")) };
    let fits = match answer.code.lines().nth(1) {
        Some("// right") => points == max,
        Some("// not yet") => points < max && points <= 0.0,
        _ => points < max,
    };
    (!fits).then(|| format!("{student}: {points} of {max} points"))
}
