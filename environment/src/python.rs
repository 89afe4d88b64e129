//! The Python script that speaks Jupyter's protocol, and the events it prints.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::home::{Home, path_behind};
use crate::ui::plain;

const KERNEL_PY: &str = include_str!("../python/kernel.py");
/// What grades notebooks.
pub const GRADE_PY: &str = include_str!("../python/grade.py");
/// What runs one of them.
pub const EXECUTE_PY: &str = include_str!("../python/execute.py");
/// nbgrader's configuration, for course directories too.
pub const NBGRADER_CONFIG_PY: &str = include_str!("../nbgrader_config.py");

/// Makes modules of the first three arguments, which the fourth, the program, imports.
const WITH_MODULES: &str = r#"
import sys, types
from traitlets.config import Config
for name in ("kernel", "nbgrader_config", "execute"):
    module = sys.modules[name] = types.ModuleType(name)
    module.get_config = Config
    exec(sys.argv.pop(1), module.__dict__)
exec(compile(sys.argv.pop(1), "grade.py", "exec"))
"#;

/// `kernel.py COMMAND` in the virtual environment.
pub fn script(home: &Home, command: &str) -> Command {
    let mut python = python(home);
    python.args(["-c", KERNEL_PY, command]);
    python
}

/// `grade.py COMMAND` in the virtual environment.
pub fn grader(home: &Home, command: &str) -> Command {
    let mut python = python(home);
    // nbgrader starts `alembic` from the search path.
    python.args(["-c", WITH_MODULES, KERNEL_PY, NBGRADER_CONFIG_PY, EXECUTE_PY, GRADE_PY, command]);
    python.env("PATH", path_behind([home.python().join("bin")]));
    python
}

fn python(home: &Home) -> Command {
    let mut python = Command::new(home.python_bin("python"));
    python.env("QUANTLAB_HOME", home.root()).env("PYTHONUTF8", "1").env_remove("JUPYTER_PATH").stdin(Stdio::null());
    python
}

/// How a script ended.
pub struct Ended {
    status: ExitStatus,
    failure: Option<Value>,
}

impl Ended {
    /// The `failure` event, if there was one.
    pub fn failure(&self) -> Option<&Value> {
        self.failure.as_ref()
    }

    /// An error unless all went well.
    pub fn into_result(self) -> Result<()> {
        if let Some(failure) = self.failure {
            bail!("{}", failure["message"].as_str().unwrap_or("the kernel failed"));
        }
        if !self.status.success() {
            bail!("the kernel's driver ended with {}; its messages are above", self.status);
        }
        Ok(())
    }
}

/// Runs the script and passes on each event as it comes.
pub fn follow(command: &mut Command, mut on_event: impl FnMut(&Value)) -> Result<Ended> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start Python\n  try: cargo lab setup")?;
    let mut failure = None;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("the kernel's driver did not print UTF-8")?;
            match serde_json::from_str::<Value>(&line) {
                Ok(event) => {
                    on_event(&event);
                    if event["event"] == "failure" {
                        failure = Some(event);
                    }
                }
                Err(_) => eprintln!("{}", plain(&line)),
            }
        }
    }
    let status = child.wait().context("cannot wait for the kernel's driver")?;
    Ok(Ended { status, failure })
}
