//! Which notebook is whose, and for which lesson: from an nbgrader folder, or loose files as learning
//! platforms export them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use super::names;
use crate::home::{remove_if_there, write_atomically};
use crate::lessons::{Lesson, cells, grade_id, is_python};
use crate::run::find_notebooks;
use crate::ui::plain;

/// A notebook that was handed in.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The student's name, as far as the file's place tells it.
    pub student: String,
    /// What stands for it in folders and in the gradebook.
    pub id: String,
    /// The lesson's name, if it is one of the course's.
    pub lesson: Option<String>,
    /// Why it cannot be a notebook at all, if so.
    pub problem: Option<String>,
    /// Where it lies.
    pub file: PathBuf,
    /// Where it lies, as seen from the folder that is graded.
    pub shown: String,
    /// Of two for one lesson, the newer counts.
    pub modified: SystemTime,
}

/// Far more than any notebook of a lesson has; a larger file is not read.
const MAX_BYTES: u64 = 50 << 20;
const MAX_CELLS: usize = 2000;
/// Each stands between two values, and each value takes far more memory than in the file.
const MAX_COMMAS: usize = 1_000_000;

/// nbgrader's notes on a notebook that came through its exchange; it needs them to return the feedback.
const NOTES: [&str; 2] = ["timestamp.txt", "submission_secret.txt"];
const MAX_NOTE_BYTES: u64 = 1000;

/// All notebooks below `folder`, but not in `output`; by student and lesson, the newest of each first.
pub fn find(folder: &Path, output: &Path, lessons: &[Lesson]) -> Result<Vec<Submission>> {
    ensure!(
        folder.is_dir(),
        "{} is not a folder\n  try: the folder that holds STUDENT/LESSON/NOTEBOOK.ipynb, or loose notebooks",
        folder.display()
    );
    let mut files = Vec::new();
    find_notebooks(folder, &mut files);
    let without = without_notebook(folder, &files);
    if !without.is_empty() {
        let some = &without[..without.len().min(5)];
        let more = if some.len() < without.len() { " ..." } else { "" };
        println!("Without a notebook (*.ipynb), so that nobody is graded for them: {}{more}", some.join(", "));
    }
    let output = output.canonicalize().ok();
    files.retain(|file| output.as_ref().is_none_or(|out| !file.canonicalize().is_ok_and(|f| f.starts_with(out))));
    let names: Vec<&str> = lessons.iter().map(|l| l.name.as_str()).collect();
    let mut found = files
        .into_iter()
        .map(|file| {
            let inner = file.strip_prefix(folder).unwrap_or(&file);
            // Whether it is a valid notebook turns out when it is graded, where it gets a line of its own.
            let read = read(&file)
                .map_err(|error| anyhow!("not a notebook: {error}"))
                .and_then(|notebook| if is_foreign(&notebook, lessons) { bail!(FOREIGN) } else { Ok(notebook) });
            let modified = fs::symlink_metadata(&file).and_then(|meta| meta.modified());
            let lesson = lesson_of(read.as_ref().unwrap_or(&Value::Null), inner, lessons);
            Submission {
                student: student_of(inner, &names, lesson.as_deref()),
                id: String::new(),
                lesson,
                problem: read.err().map(|error| error.to_string()),
                modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
                shown: inner.display().to_string(),
                file,
            }
        })
        .collect::<Vec<_>>();
    name_folders(&mut found);
    ensure!(!found.is_empty(), "there is no notebook (*.ipynb) in {}", folder.display());
    found.sort_by(|a, b| {
        (&a.student, &a.lesson)
            .cmp(&(&b.student, &b.lesson))
            .then(b.modified.cmp(&a.modified))
            .then(a.file.cmp(&b.file))
    });
    Ok(found)
}

/// What lies in the folder and has no notebook in it: an archive, a link, another spelling.
fn without_notebook(folder: &Path, files: &[PathBuf]) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let without = entries.filter(|entry| !files.iter().any(|file| file.starts_with(entry.path())));
    let names = without.map(|entry| plain(&entry.file_name().to_string_lossy()));
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

impl Submission {
    /// Puts what nbgrader noted of it, when it was handed in, beside its feedback, if that is its own: all or nothing.
    pub fn pass_on_notes(&self, feedback: &Path, is_own: bool) -> Result<()> {
        let note = |name| read_regular(&self.file.with_file_name(name), MAX_NOTE_BYTES).ok();
        let notes = NOTES.map(|name| note(name).filter(|text| str::from_utf8(text).is_ok()));
        let is_whole = is_own && feedback.is_dir() && notes.iter().all(Option::is_some);
        for (name, text) in NOTES.iter().zip(notes) {
            match text.filter(|_| is_whole) {
                Some(text) => write_atomically(&feedback.join(name), &text)?,
                None => remove_if_there(&feedback.join(name))?,
            }
        }
        Ok(())
    }
}

/// A notebook's JSON.
fn read(file: &Path) -> Result<Value> {
    let text = read_regular(file, MAX_BYTES)?;
    if text.iter().filter(|byte| **byte == b',').count() > MAX_COMMAS {
        bail!("it has more than {MAX_COMMAS} values, so it is not read");
    }
    let notebook: Value = serde_json::from_slice(&text).ok().context("it is not JSON")?;
    match cells(&notebook).len() {
        number if number > MAX_CELLS => bail!("it has {number} cells, so it is not read"),
        _ => Ok(notebook),
    }
}

/// Refuses anything but a regular file: a pipe would be waited for, a device read without end, and a link may lead
/// anywhere.
pub fn read_regular(file: &Path, most: u64) -> Result<Vec<u8>> {
    // Opened without waiting, so that what was opened can be looked at.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = match fs::File::options().read(true).custom_flags(flags).open(file) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => bail!("it is a link"),
        other => other.context("it cannot be read")?,
    };
    let meta = opened.metadata()?;
    ensure!(meta.is_file(), "it is not a regular file");
    ensure!(meta.len() <= most, "it has {} MB, so it is not read", meta.len() / 1_000_000);
    let mut text = Vec::new();
    opened.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// Gives each student an id.
pub fn name_folders(found: &mut [Submission]) {
    let students: Vec<String> = found.iter().map(|submission| submission.student.clone()).collect();
    let ids = names::ids(students.iter().map(String::as_str));
    for (submission, student) in found.iter_mut().zip(&students) {
        submission.id.clone_from(&ids[student.as_str()]);
    }
}

/// The first folder, else the file's name without what names the lesson: `smith_01-latency.ipynb` is smith's.
fn student_of(inner: &Path, lessons: &[&str], own: Option<&str>) -> String {
    let parts: Vec<String> = inner.iter().map(text).collect();
    match parts.as_slice() {
        // LESSON/STUDENT.ipynb and LESSON/STUDENT/x.ipynb, as some platforms sort it.
        [first, .., _] if !lessons.contains(&first.as_str()) => first.clone(),
        [_, student, _, ..] => student.clone(),
        _ => {
            let stem = text(inner.file_stem().unwrap_or_default());
            let lesson = |rest: &str| {
                // Short forms are those of the notebook's own lesson: `group_01` to `group_04` are four groups.
                let is_short = |lesson: &str| own == Some(lesson) && rest.len() > 1 && lesson.starts_with(rest);
                let names = |lesson: &&str| rest.starts_with(*lesson) || is_short(lesson);
                ["starter", "solution"].iter().any(|name| rest.starts_with(name)) || lessons.iter().any(names)
            };
            let cut = stem.match_indices(['_', '-', ' ']).find(|(at, _)| *at > 0 && lesson(&stem[at + 1..]));
            cut.map_or_else(|| stem.clone(), |(at, _)| stem[..at].to_owned())
        }
    }
}

/// A name; one that is not UTF-8 is shown with its bytes, because no two may look the same.
fn text(name: &OsStr) -> String {
    name.to_str().map_or_else(|| name.as_encoded_bytes().escape_ascii().to_string(), str::to_owned)
}

/// From what the release wrote, else the nbgrader names of its cells, else their ids, else its path.
fn lesson_of(notebook: &Value, inner: &Path, lessons: &[Lesson]) -> Option<String> {
    let named = |name: &str| lessons.iter().find(|lesson| lesson.name == name).map(|lesson| lesson.name.clone());
    let written = notebook["metadata"]["quantlab"]["lesson"].as_str().and_then(named);
    written
        .or_else(|| most_of(notebook, lessons, grade_id))
        .or_else(|| most_of(notebook, lessons, |cell| cell["id"].as_str()))
        .or_else(|| lessons.iter().map(|l| l.name.clone()).find(|name| inner.to_string_lossy().contains(name)))
}

const FOREIGN: &str = "a Python notebook, with no cell of a lesson";

/// Whether it is another course's, whatever folder it lies in.
fn is_foreign(notebook: &Value, lessons: &[Lesson]) -> bool {
    is_python(notebook) && lesson_of(notebook, Path::new(""), lessons).is_none()
}

/// The lesson that shares the most names with a notebook.
fn most_of<'a>(
    notebook: &'a Value,
    lessons: &'a [Lesson],
    name: impl Fn(&'a Value) -> Option<&'a str>,
) -> Option<String> {
    let mut owner = HashMap::new();
    for (at, lesson) in lessons.iter().enumerate() {
        for own in cells(&lesson.notebook).iter().filter_map(&name) {
            // Two lessons may both have a cell called "title".
            owner.entry(own).and_modify(|owner| *owner = None).or_insert(Some(at));
        }
    }
    let mut shared = vec![0; lessons.len()];
    for at in cells(notebook).iter().filter_map(&name).filter_map(|name| *owner.get(name)?) {
        shared[at] += 1;
    }
    let (best, count) = shared.iter().enumerate().max_by_key(|(_, count)| **count)?;
    (*count > 0).then(|| lessons[best].name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAMES: [&str; 2] = ["01-latency-and-precision", "03-perplexity"];

    #[test]
    fn students_are_found_in_folders_and_file_names() {
        for (path, student) in [
            ("smith/01-latency-and-precision/starter.ipynb", "smith"),
            ("smith/starter.ipynb", "smith"),
            ("smith.ipynb", "smith"),
            ("smith_01-latency-and-precision.ipynb", "smith"),
            ("smith_01-latency-and-precision (1).ipynb", "smith"),
            ("ann-marie smith_03.ipynb", "ann-marie smith"),
            ("smith-starter.ipynb", "smith"),
            ("01-latency-and-precision/smith.ipynb", "smith"),
            ("03-perplexity/smith/x.ipynb", "smith"),
            ("müller_7.ipynb", "müller_7"),
            ("a[1]*+b.ipynb", "a[1]*+b"),
            // Groups, of which only one is called like the lesson.
            ("group_01.ipynb", "group_01"),
            ("group_03.ipynb", "group"),
            ("-smith.ipynb", "-smith"),
        ] {
            assert_eq!(student_of(Path::new(path), &NAMES, Some("03-perplexity")), student, "{path}");
        }
    }

    fn lesson(name: &str, ids: &[&str]) -> Lesson {
        let cell = |id: &&str| json!({"id": format!("{id}-cell"), "metadata": {"nbgrader": {"grade_id": id}}});
        let title = json!({"id": "title", "metadata": {}});
        let cells: Vec<Value> = [title].into_iter().chain(ids.iter().map(cell)).collect();
        Lesson { name: name.into(), dir: name.into(), notebook: json!({ "cells": cells }) }
    }

    #[test]
    fn a_lesson_is_found_by_whatever_is_left_of_it() {
        let lessons = [lesson(NAMES[0], &["time", "sweep"]), lesson(NAMES[1], &["ppl"])];
        let of = |notebook: &Value, path: &str| lesson_of(notebook, Path::new(path), &lessons);
        let mut notebook = lessons[1].notebook.clone();
        notebook["metadata"]["quantlab"]["lesson"] = json!(NAMES[0]);
        assert_eq!(of(&notebook, "x.ipynb").unwrap(), NAMES[0]);
        notebook["metadata"] = json!({"quantlab": {"lesson": "another course's"}});
        assert_eq!(of(&notebook, "x.ipynb").unwrap(), NAMES[1]);
        notebook["cells"][1]["metadata"] = json!({});
        assert_eq!(of(&notebook, "x.ipynb").unwrap(), NAMES[1], "by the cell's id");
        notebook["cells"][1]["id"] = json!("new");
        assert_eq!(of(&notebook, "smith/x.ipynb"), None, "a title that all lessons have names none");
        assert_eq!(of(&Value::Null, "smith/03-perplexity/x.ipynb").unwrap(), NAMES[1]);
        // Jupyter may write another kernel's name into a lesson that is opened without ours.
        let python = json!({"kernelspec": {"language": "python", "name": "python3"}});
        let foreign = json!({"metadata": python, "cells": [{"id": "x", "metadata": {}}]});
        assert!(is_foreign(&foreign, &lessons));
        notebook["cells"][1]["id"] = json!("ppl-cell");
        notebook["metadata"] = python;
        assert!(!is_foreign(&notebook, &lessons));
    }

    #[test]
    fn only_nbgraders_own_notes_are_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let [work, feedback, none] = ["work", "feedback", "none"].map(|name| dir.path().join(name));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir(&feedback).unwrap();
        fs::write(work.join("x.ipynb"), "{}").unwrap();
        let submission = find(&work, &none, &[]).unwrap().remove(0);
        let passed_on = || {
            submission.pass_on_notes(&feedback, true).unwrap();
            NOTES.map(|name| fs::read_to_string(feedback.join(name)).unwrap_or_default())
        };
        fs::write(work.join("other.txt"), "mine").unwrap();
        fs::write(work.join("timestamp.txt"), "2026-01-01").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", work.join("submission_secret.txt")).unwrap();
        assert_eq!(passed_on(), ["", ""], "nbgrader needs both");
        fs::remove_file(work.join("submission_secret.txt")).unwrap();
        fs::write(work.join("submission_secret.txt"), "secret").unwrap();
        assert_eq!(passed_on(), ["2026-01-01", "secret"]);
        assert_eq!(fs::read_dir(&feedback).unwrap().count(), 2);
        submission.pass_on_notes(&feedback, false).unwrap();
        assert_eq!(fs::read_dir(&feedback).unwrap().count(), 0, "the feedback on an earlier one");
        for wrong in ["s".repeat(2000).into_bytes(), vec![0xff]] {
            fs::write(work.join("submission_secret.txt"), wrong).unwrap();
            assert_eq!(passed_on(), ["", ""], "not those of an earlier one");
        }
        submission.pass_on_notes(&none, true).unwrap();
        assert!(!none.exists(), "what was not graded has no feedback");
    }

    #[test]
    fn the_newest_of_two_comes_first_and_the_output_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, age: u64| {
            let path = dir.path().join(path);
            write_atomically(&path, b"{}").unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 - age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        put("smith/03-perplexity/old.ipynb", 10);
        put("smith/03-perplexity/young.ipynb", 1);
        put("jones_03.ipynb", 5);
        put("grades/submitted/smith/x.ipynb", 0);
        put(".ipynb_checkpoints/smith.ipynb", 0);
        let lessons = [lesson(NAMES[1], &["ppl"])];
        let found = find(dir.path(), &dir.path().join("grades"), &lessons).unwrap();
        let names: Vec<String> = found.iter().map(|s| s.file.file_name().unwrap().to_string_lossy().into()).collect();
        assert_eq!(names, ["jones_03.ipynb", "young.ipynb", "old.ipynb"]);
        assert!(find(&dir.path().join("none"), dir.path(), &lessons).unwrap_err().to_string().contains("not a folder"));
    }
}
