//! A class of one lesson, whose learners hand in what a test says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};

/// Right answers to the lesson's two exercises; worth 3.5 points, and 2 without the first.
pub const MEAN: &str =
    "fn mean(v: &[f64]) -> f64 { if v.is_empty() { 0.0 } else { v.iter().sum::<f64>() / v.len() as f64 } }";
pub const SQUARE: &str = "fn square(x: i64) -> i64 { x * x }";

/// The layers of a sandbox that run here; says once which do not.
pub fn layers() -> &'static [String] {
    static LAYERS: OnceLock<Vec<String>> = OnceLock::new();
    LAYERS.get_or_init(|| {
        let report = lab().args(["doctor", "--json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let mut held = Vec::new();
        for layer in ["bubblewrap", "landlock"] {
            match report[format!("sandbox_{layer}")].as_str().unwrap() {
                "holds" => held.push(layer.to_owned()),
                why => eprintln!("skipped, for the sandbox of {layer} does not run here ({why})"),
            }
        }
        if held.is_empty() {
            eprintln!("without a sandbox: what cells can do is not tested here");
        }
        held
    })
}

fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lab"))
}

pub struct Class {
    dir: tempfile::TempDir,
    starter: Value,
}

impl Class {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lesson = dir.path().join("course/01-mini");
        fs::create_dir_all(&lesson).unwrap();
        fs::create_dir_all(dir.path().join("work")).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mini-course/01-mini/solution.ipynb");
        fs::copy(source, lesson.join("solution.ipynb")).unwrap();
        let done = lab().arg("release").arg("--lessons").arg(dir.path().join("course")).output().unwrap();
        assert!(done.status.success(), "{}", text(&done));
        let starter = serde_json::from_slice(&fs::read(lesson.join("starter.ipynb")).unwrap()).unwrap();
        Self { dir, starter }
    }

    /// A folder beside the class's own: what is below it is the teacher's.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Answers to the exercises, behind cells of the learner's own.
    pub fn notebook(&self, cells: &[&str], mean: &str, square: &str) -> Value {
        let mut notebook = self.starter.clone();
        let all = notebook["cells"].as_array_mut().unwrap();
        for (id, answer) in [("mean", mean), ("square", square)] {
            all.iter_mut().find(|cell| cell["id"] == id).unwrap()["source"] = json!(answer);
        }
        for (number, source) in cells.iter().enumerate().rev() {
            let id = format!("mine-{number}");
            let kind = if source.starts_with('#') { "markdown" } else { "code" };
            let mut cell = json!({"cell_type": kind, "id": id, "metadata": {}, "source": source});
            if kind == "code" {
                cell["outputs"] = json!([]);
                cell["execution_count"] = Value::Null;
            }
            all.insert(2, cell);
        }
        notebook
    }

    pub fn hand_in(&self, name: &str, cells: &[&str], mean: &str, square: &str) {
        fs::write(self.path("work").join(name), self.notebook(cells, mean, square).to_string()).unwrap();
    }

    /// `lab grade` with these arguments, in this layer; without one, unsandboxed.
    pub fn grade(&self, layer: Option<&str>, args: &[&str]) -> Grades {
        self.grades(&mut self.grading(layer, args))
    }

    /// The command for that.
    pub fn grading(&self, layer: Option<&str>, args: &[&str]) -> Command {
        let mut command = lab();
        command.args(["grade", "--cell-timeout=20", "--time-limit=400", "--memory-limit=2500"]).args(args);
        match layer {
            Some(layer) => command.env("QUANTLAB_SANDBOX_LAYER", layer),
            None => command.arg("--unsandboxed"),
        };
        command.env("TEACHERS_SECRET", "canary-in-the-environment");
        command.arg("--lessons").arg(self.path("course")).arg("--output").arg(self.path("out"));
        command.arg("--").arg(self.path("work"));
        command
    }

    /// What it came to.
    pub fn grades(&self, command: &mut Command) -> Grades {
        let done = command.output().unwrap();
        Grades { said: text(&done), out: self.path("out") }
    }
}

pub struct Grades {
    pub said: String,
    pub out: PathBuf,
}

impl Grades {
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.said))
    }

    /// A field of a student's line in `grades.csv`: 2 is the points, 5 the status.
    pub fn field(&self, student: &str, at: usize) -> String {
        let csv = self.read("grades.csv");
        let line = csv.lines().find(|line| line.starts_with(&format!("{student},01-mini,")));
        let line = line.unwrap_or_else(|| panic!("{csv}\n{}", self.said));
        line.split(',').nth(at).unwrap().to_owned()
    }

    /// What a student's cells printed, as it was executed.
    pub fn printed(&self, student: &str) -> String {
        let copy: Value = serde_json::from_str(&self.read(&format!("results/{student}/01-mini.ipynb"))).unwrap();
        let outputs = copy["cells"].as_array().unwrap().iter().filter_map(|cell| cell["outputs"].as_array()).flatten();
        let lines = |text: &Value| match text {
            Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<String>(),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        outputs.map(|out| lines(&out["text"]) + &lines(&out["traceback"])).collect()
    }
}

pub fn text(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}
