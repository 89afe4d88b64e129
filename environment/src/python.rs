//! The Python script that speaks Jupyter's protocol, and the events it prints.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::home::Home;

const KERNEL_PY: &str = include_str!("../python/kernel.py");

/// `kernel.py COMMAND` in the virtual environment.
pub fn script(home: &Home, command: &str) -> Command {
    let mut python = Command::new(home.python_bin("python"));
    python
        .args(["-c", KERNEL_PY, command])
        .env("QUANTLAB_HOME", home.root())
        .env("PYTHONUTF8", "1")
        .env_remove("JUPYTER_PATH")
        .stdin(Stdio::null());
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

/// Runs the script and hands each event on as it comes.
pub fn follow(command: &mut Command, mut on_event: impl FnMut(&Value)) -> Result<Ended> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start Python\n  try: cargo lab setup")?;
    let mut failure = None;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("the kernel's driver printed no UTF-8")?;
            match serde_json::from_str::<Value>(&line) {
                Ok(event) => {
                    on_event(&event);
                    if event["event"] == "failure" {
                        failure = Some(event);
                    }
                }
                Err(_) => eprintln!("{line}"),
            }
        }
    }
    let status = child.wait().context("the kernel's driver got lost")?;
    Ok(Ended { status, failure })
}
