//! The lessons' own checks through the whole way that a hand-in takes: the real kernel, nbgrader, the table.
//!
//! The answers are those of `support-crate/course/tests/answers`, where each is also given to its check
//! directly. Here, the solutions and one wrong answer of each lesson in `cargo lab test`, and with `--full` all answers.
//! Needs a finished set-up.

#[path = "common/lab.rs"]
mod lab;

use std::collections::BTreeSet;
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
    fn is_right(&self) -> bool {
        self.code.lines().nth(1) == Some("// right")
    }

    fn student(&self) -> String {
        format!("{}--{}", self.exercise, self.name)
    }

    fn check(&self) -> String {
        format!("l{}-check-{}", self.lesson_number(), self.exercise)
    }

    fn lesson_number(&self) -> usize {
        number_of(&self.lesson)
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

/// A wrong answer to the last exercise of a lesson that has one: no other exercise calls it.
fn wrong_answer<'a>(answers: &'a [Answer], lesson: &str) -> &'a Answer {
    let notebook = fs::read_to_string(root().join("notebooks").join(lesson).join("solution.ipynb")).unwrap();
    let is_wrong = |answer: &&Answer| answer.code.lines().nth(1).is_some_and(|line| line.starts_with("// wrong"));
    let wrong = answers.iter().filter(|answer| answer.lesson == lesson).filter(is_wrong);
    let place = |answer: &&Answer| notebook.find(&format!("\"{}\"", answer.check()));
    wrong.max_by_key(place).unwrap_or_else(|| panic!("{lesson} has no wrong answer"))
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
    let id = format!("l{}-{}", answer.lesson_number(), answer.exercise);
    let cells = notebook["cells"].as_array_mut().unwrap();
    let cell = cells.iter_mut().find(|cell| cell["id"] == *id).unwrap_or_else(|| panic!("no cell {id}"));
    cell["source"] = json!(answer.code);
    let folder = work.join(answer.student()).join(&answer.lesson);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{}.ipynb", answer.lesson)), notebook.to_string()).unwrap();
}

/// Both layers find all that a kernel needs, and a wrong answer costs its own points through the whole way.
///
/// Of the first layer, lesson 1 as a whole, and each other lesson's checks with a wrong answer among right ones; of the
/// second, the checks of the solutions of lessons 1 to 4.
#[test]
fn each_sandbox_gives_every_answer_its_points() {
    let report: Value = serde_json::from_slice(&lab(&["doctor", "--json"], &[]).stdout).unwrap();
    let layers: Vec<&str> =
        ["bubblewrap", "landlock"].into_iter().filter(|layer| report[format!("sandbox_{layer}")] == "holds").collect();
    let (dir, notebooks, all) = (tempfile::tempdir().unwrap(), root().join("notebooks"), answers());
    let mut lessons: Vec<&str> = all.iter().map(|answer| answer.lesson.as_str()).collect();
    lessons.dedup();
    let work = |folder: &str| dir.path().join(folder);
    let mut wrong = Vec::new();
    for &lesson in &lessons {
        let is_whole = number_of(lesson) == 1;
        let folders = [("again", (1..=4).contains(&number_of(lesson))), ("whole", is_whole)];
        for (folder, _) in folders.into_iter().filter(|(_, is_there)| *is_there) {
            let to = work(folder).join("right").join(lesson);
            fs::create_dir_all(&to).unwrap();
            fs::copy(notebooks.join(lesson).join("solution.ipynb"), to.join("right.ipynb")).unwrap();
        }
        if !is_whole {
            let answer = wrong_answer(&all, lesson);
            hand_in(&work("rest"), &notebooks, answer);
            wrong.push(answer);
        }
    }
    // The exercises' points, and what the grader said.
    let graded = |layer: &str, folder: &str, options: &[&str]| {
        let output = work(&format!("{layer}-{folder}"));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lab"));
        // What a slow machine takes is not for this test to say.
        command.args(["grade", "--cell-timeout=600", "--time-limit=3600"]).args(options);
        command.arg("--output").arg(&output).arg(work(folder));
        let done = command.env("QUANTLAB_SANDBOX_LAYER", layer).output().unwrap();
        let said = format!("{layer}: {}{}", text(&done.stdout), text(&done.stderr));
        let table = fs::read_to_string(output.join("exercises.csv")).unwrap_or_else(|_| panic!("{said}"));
        (table, said)
    };
    let all_points = |layer: &str, folder: &str, options: &[&str]| {
        let (table, said) = graded(layer, folder, options);
        let handed_in = fs::read_dir(work(folder).join("right")).unwrap().count();
        let found: BTreeSet<&str> = table.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
        assert_eq!(found.len(), handed_in, "{table}\n{said}");
        assert_eq!(not_in_full(&table), [] as [&str; 0], "{said}");
    };
    for (number, layer) in layers.into_iter().enumerate() {
        if number > 0 {
            all_points(layer, "again", &["--checks-only", "--jobs=2"]);
            continue;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| all_points(layer, "whole", &[]));
            let (table, said) = graded(layer, "rest", &["--checks-only", "--jobs=2"]);
            let faults: Vec<String> = wrong.iter().filter_map(|answer| fault(answer, &table)).collect();
            assert!(faults.is_empty(), "{}\n{said}\n{table}", faults.join("\n"));
            assert_eq!(not_in_full(&table).len(), wrong.len(), "{:?}\n{said}", not_in_full(&table));
        });
    }
}

/// The rows of exercises that are not by hand and do not have all their points.
fn not_in_full(table: &str) -> Vec<&str> {
    let in_full = |line: &&str| {
        let fields: Vec<&str> = line.split(',').collect();
        fields[5] == "by hand" || (fields[5] == "graded" && fields[3] == fields[4])
    };
    table.lines().skip(1).filter(|line| !in_full(line)).collect()
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
    let check = answer.check();
    let mut own = None;
    for line in table.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let &[of, _, exercise, points, max, _] = fields.as_slice() else { continue };
        let (Ok(points), Ok(max)) = (points.parse::<f64>(), max.parse::<f64>()) else { continue };
        if of == student && exercise == check {
            own = Some((points, max));
        }
    }
    let Some((points, max)) = own else { return Some(format!("{student}: no points for {check}")) };
    let unfinished = answer.code.lines().nth(1) == Some("// not yet");
    let fits = if answer.is_right() { points == max } else { points < max && !(unfinished && points > 0.0) };
    (!fits).then(|| format!("{student}: {points} of {max} points"))
}
