//! The Python package that speaks Jupyter's protocol, and the events it prints.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::home::{Home, path_behind, remove_if_there, write_atomically};
use crate::setup::{digest, toolchain};
use crate::ui::{plain, run_shown};

/// The module that grades a notebook.
const GRADE_PY: &str = include_str!("../python/quantlab_jupyter/grade.py");
/// The module that puts what came of it into the gradebook.
const GRADEBOOK_PY: &str = include_str!("../python/quantlab_jupyter/gradebook.py");
/// The module that runs one.
const EXECUTE_PY: &str = include_str!("../python/quantlab_jupyter/execute.py");
/// The module that says what came of a cell.
const OUTCOME_PY: &str = include_str!("../python/quantlab_jupyter/outcome.py");
/// The module that keeps as much of their outputs as they may have.
const OUTPUTS_PY: &str = include_str!("../python/quantlab_jupyter/outputs.py");
/// The module that makes them harmless to whoever reads them.
const HARMLESS_PY: &str = include_str!("../python/quantlab_jupyter/harmless.py");
/// The module that speaks to kernels.
const KERNEL_PY: &str = include_str!("../python/quantlab_jupyter/kernel.py");
/// The module that looks after processes.
const PROCESSES_PY: &str = include_str!("../python/quantlab_jupyter/processes.py");
/// All of these: what an outcome depends on.
pub const GRADING: [&str; 8] =
    [GRADE_PY, GRADEBOOK_PY, EXECUTE_PY, HARMLESS_PY, KERNEL_PY, OUTCOME_PY, OUTPUTS_PY, PROCESSES_PY];
/// nbgrader's configuration, for course directories too.
pub const NBGRADER_CONFIG_PY: &str = include_str!("../python/quantlab_jupyter/nbgrader_config.py");

/// The package's files as pip would lay them out, by their path in `site-packages`.
const PACKAGE: [(&str, &str); 15] = [
    ("quantlab_jupyter/__init__.py", include_str!("../python/quantlab_jupyter/__init__.py")),
    ("quantlab_jupyter/connection.py", include_str!("../python/quantlab_jupyter/connection.py")),
    ("quantlab_jupyter/kernel.py", KERNEL_PY),
    ("quantlab_jupyter/execute.py", EXECUTE_PY),
    ("quantlab_jupyter/grade.py", GRADE_PY),
    ("quantlab_jupyter/gradebook.py", GRADEBOOK_PY),
    ("quantlab_jupyter/harmless.py", HARMLESS_PY),
    ("quantlab_jupyter/outcome.py", OUTCOME_PY),
    ("quantlab_jupyter/outputs.py", OUTPUTS_PY),
    ("quantlab_jupyter/nbgrader_config.py", NBGRADER_CONFIG_PY),
    ("quantlab_jupyter/page.py", include_str!("../python/quantlab_jupyter/page.py")),
    ("quantlab_jupyter/processes.py", PROCESSES_PY),
    ("quantlab_jupyter/spare.py", include_str!("../python/quantlab_jupyter/spare.py")),
    ("quantlab_jupyter-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: quantlab-jupyter\nVersion: 1\n"),
    (
        "quantlab_jupyter-1.dist-info/entry_points.txt",
        "[jupyter_client.kernel_provisioners]\nquantlab = quantlab_jupyter.spare:Provisioner\n",
    ),
];

/// Makes a virtual environment of what these files pin, in place of what is there.
pub fn make_environment(python: &str, place: &Path, requirements: &[PathBuf]) -> Result<()> {
    remove_if_there(place)?;
    run_shown(Command::new(python).args(["-m", "venv"]).arg(place))?;
    let mut install = Command::new(place.join("bin/python"));
    // The files list everything. Asked for what a package needs, pip would look for the newest version of it where an
    // extra is named, and refuse that for not being pinned.
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]);
    run_shown(install.args(requirements.iter().flat_map(|file| [Path::new("-r"), file])))
}

/// Where an environment of [`tools`] is, and what goes with it: in the home, or beside somebody else's.
pub fn place_of_tools(home: &Home, name: &str) -> PathBuf {
    if home.is_ours() { home.root().join(name) } else { home.own_kernels().join(name) }
}

/// The Python that has what a folder's `requirements.txt` pins: an environment of its own, made once, for learners do without.
pub fn tools(home: &Home, name: &str, source: &Path) -> Result<PathBuf> {
    let requirements = source.join("requirements.txt");
    let pinned = fs::read_to_string(&requirements).with_context(|| format!("no {}", requirements.display()))?;
    let (place, key) = (place_of_tools(home, name).join("python"), digest(&pinned));
    let home = if home.is_ours() { home.clone() } else { Home::at(&home.own_kernels()) };
    let waits = || eprintln!("another process fetches what {name} needs; waiting for it");
    let (_alone, interpreter) = (home.lock(&format!("{name}.lock"), waits)?, place.join("bin/python"));
    if home.is_done(name, &key) && interpreter.is_file() {
        return Ok(interpreter);
    }
    home.mark_undone(name)?;
    make_environment(&toolchain::python()?, &place, &[requirements])?;
    home.mark_done(name, &key)?;
    Ok(interpreter)
}

/// `kernel.py COMMAND` in the virtual environment.
pub fn script(home: &Home, command: &str) -> Result<Command> {
    module(home, "kernel", command)
}

/// `grade.py COMMAND` in the virtual environment.
pub fn grader(home: &Home, command: &str) -> Result<Command> {
    module(home, "grade", command)
}

/// `gradebook.py COMMAND` in the virtual environment.
pub fn gradebook(home: &Home, command: &str) -> Result<Command> {
    let mut python = module(home, "gradebook", command)?;
    // nbgrader starts `alembic` from the search path.
    python.env("PATH", path_behind([home.python().join("bin")]));
    Ok(python)
}

/// Puts the package into the virtual environment; where that is somebody else's and may hold another version, into the
/// user's own cache. Returns the folder.
pub fn install(home: &Home) -> Result<PathBuf> {
    let place = if home.is_ours() { site_packages(home)? } else { home.own_kernels().join("python") };
    for (path, text) in PACKAGE {
        write_atomically(&place.join(path), text.as_bytes())?;
    }
    Ok(place)
}

fn site_packages(home: &Home) -> Result<PathBuf> {
    let lib = home.python().join("lib");
    let versions = fs::read_dir(&lib).into_iter().flatten().flatten();
    let found = versions.map(|entry| entry.path().join("site-packages")).find(|path| path.is_dir());
    found.with_context(|| format!("no Python environment in {}\n  try: cargo lab setup", home.python().display()))
}

fn module(home: &Home, name: &str, command: &str) -> Result<Command> {
    let place = install(home)?;
    let mut python = Command::new(home.python_bin("python"));
    // Not from the working directory, where a learner may have a json.py.
    python.args(["-P", "-m", &format!("quantlab_jupyter.{name}"), command]);
    python.env("QUANTLAB_HOME", home.root()).env("PYTHONUTF8", "1").env_remove("JUPYTER_PATH").stdin(Stdio::null());
    if !home.is_ours() {
        python.env("PYTHONPATH", place);
    }
    Ok(python)
}

/// How a script ended.
pub struct Ended {
    status: ExitStatus,
    /// The `failure` event, if there was one.
    pub failure: Option<Value>,
}

impl Ended {
    /// An error unless all went well.
    pub fn into_result(self) -> Result<()> {
        if let Some(failure) = self.failure {
            bail!("{}", failure["message"].as_str().unwrap_or("the kernel failed"));
        }
        if let Some(libc::SIGXCPU | libc::SIGALRM) = self.status.signal() {
            bail!("it took longer than one notebook may take");
        }
        ensure!(self.status.success(), "the kernel's driver ended with {}; its messages are above", self.status);
        Ok(())
    }
}

/// Runs the script and passes on each event as it comes.
pub fn follow(command: &mut Command, mut on_event: impl FnMut(&Value)) -> Result<Ended> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start Python\n  try: cargo lab setup")?;
    let mut failure = None;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("cannot read what the kernel's driver prints")?;
            let line = String::from_utf8_lossy(&line);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_is_in_the_package() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("python");
        for entry in fs::read_dir(folder.join("quantlab_jupyter")).unwrap().flatten() {
            let path = entry.path();
            let inner = path.strip_prefix(&folder).unwrap().to_str().unwrap();
            if inner.ends_with(".py") {
                let text = PACKAGE.iter().find(|(name, _)| *name == inner).map(|(_, text)| *text);
                assert_eq!(text, fs::read_to_string(&path).ok().as_deref(), "{inner}");
            }
        }
    }
}
