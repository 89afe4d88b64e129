//! The lessons as teachers see them: exercises, checks and points, in nbgrader's format.

pub mod claims;
pub mod markers;
pub mod release;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::setup;

/// The notebook of a lesson that everything else is made from.
pub const SOURCE: &str = "solution.ipynb";
/// The notebook that learners get.
pub const STARTER: &str = "starter.ipynb";

/// Whether a notebook's cells are Python, as it says itself.
pub fn is_python(notebook: &Value) -> bool {
    let metadata = &notebook["metadata"];
    [&metadata["kernelspec"]["language"], &metadata["language_info"]["name"]].iter().any(|name| *name == "python")
}

/// A lesson's source notebook.
#[derive(Debug, Clone)]
pub struct Lesson {
    /// The folder's name, `01-latency-and-precision`.
    pub name: String,
    /// The folder.
    pub dir: PathBuf,
    /// The source, as JSON.
    pub notebook: Value,
}

/// A cell that gives points.
#[derive(Debug, Clone, PartialEq)]
pub struct Exercise {
    /// nbgrader's name of the cell.
    pub grade_id: String,
    /// What it is worth.
    pub points: f64,
}

impl Lesson {
    fn read(dir: &Path) -> Result<Self> {
        let notebook = read_notebook(&dir.join(SOURCE))?;
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, dir: dir.to_owned(), notebook })
    }

    /// Where its source lies.
    pub fn source(&self) -> PathBuf {
        self.dir.join(SOURCE)
    }

    /// Its checks and written answers, in order.
    pub fn exercises(&self) -> Vec<Exercise> {
        cells(&self.notebook)
            .iter()
            .filter(|cell| is(cell, "grade"))
            .filter_map(|cell| {
                Some(Exercise { grade_id: grade_id(cell)?.to_owned(), points: nbgrader(cell)["points"].as_f64()? })
            })
            .collect()
    }
}

/// All lessons in a folder, by name.
pub fn read_all(dir: &Path) -> Result<Vec<Lesson>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut dirs: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|d| d.join(SOURCE).is_file()).collect();
    dirs.sort();
    ensure!(!dirs.is_empty(), "no lesson in {} has a {SOURCE}", dir.display());
    dirs.iter().map(|dir| Lesson::read(dir)).collect()
}

/// The selected lessons (of the checkout, unless a folder is named), once none has a fault and set-up is finished.
pub fn ready(lessons_dir: Option<&Path>, wanted: Option<&str>) -> Result<Vec<Lesson>> {
    let checkout = Checkout::find()?;
    let all = read_all(lessons_dir.unwrap_or(&checkout.notebooks()))?;
    let faults = markers::faults(&all);
    ensure!(faults.is_empty(), "the lessons have {} faults\n  {}", faults.len(), faults.join("\n  "));
    let chosen = wanted.map(|name| choose(&all, name)).transpose()?;
    setup::setup(&checkout, &setup::Request::default())?;
    Ok(chosen.map_or_else(|| all.clone(), |one| vec![one.clone()]))
}

/// The lesson that a person names, in full or by the beginning of its name.
pub fn choose<'a>(lessons: &'a [Lesson], wanted: &str) -> Result<&'a Lesson> {
    let exact = lessons.iter().filter(|l| l.name == wanted);
    let begun = lessons.iter().filter(|l| l.name.starts_with(wanted));
    let found: Vec<&Lesson> = if exact.clone().count() == 1 { exact.collect() } else { begun.collect() };
    match found.as_slice() {
        [one] => Ok(one),
        _ => {
            let names: Vec<&str> = lessons.iter().map(|l| l.name.as_str()).collect();
            bail!("{wanted} matches no lesson, or more than one\n  the course has: {}", names.join(", "))
        }
    }
}

/// A notebook from its file.
pub fn read_notebook(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not a notebook", path.display()))
}

/// A notebook's cells.
pub fn cells(notebook: &Value) -> &[Value] {
    notebook["cells"].as_array().map_or(&[], Vec::as_slice)
}

/// The code cells of a notebook.
pub fn code_cells(notebook: &Value) -> impl Iterator<Item = &Value> {
    cells(notebook).iter().filter(|cell| cell["cell_type"] == "code")
}

/// A cell's nbgrader metadata; null without.
pub fn nbgrader(cell: &Value) -> &Value {
    &cell["metadata"]["nbgrader"]
}

/// nbgrader's name of a cell.
pub fn grade_id(cell: &Value) -> Option<&str> {
    nbgrader(cell)["grade_id"].as_str().filter(|id| !id.is_empty())
}

/// One of nbgrader's flags: `grade`, `solution`, `locked`.
pub fn is(cell: &Value, flag: &str) -> bool {
    nbgrader(cell)[flag] == true
}

/// A cell's text.
pub fn text_of(cell: &Value) -> String {
    joined(&cell["source"])
}

/// A text, which notebooks keep as one string or as lines.
pub fn joined(text: &Value) -> String {
    match text {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

/// The files beside a lesson's notebooks; not what was made of its solution.
pub fn companions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_solutions = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("solution.");
    let paths = entries.filter(|entry| !is_solutions(entry)).map(|entry| entry.path());
    paths.filter(|path| path.is_file() && path.extension().is_none_or(|e| e != "ipynb")).collect()
}
