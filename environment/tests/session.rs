//! The kernel as JupyterLab and VS Code use it: from kernel.json alone, interrupted, and started ahead. Needs a finished
//! set-up.

#[path = "common/home.rs"]
mod home;

use std::process::Command;

use home::home;

#[test]
fn an_interrupted_kernel_keeps_its_variables_or_says_what_is_gone() {
    holds(include_str!("session.py"));
}

#[test]
fn a_spare_kernel_is_handed_to_the_next_notebook_of_its_folder() {
    holds(include_str!("spare.py"));
}

/// Runs a script that prints nothing if all is well.
fn holds(script: &str) {
    let python = home().join("python/bin/python");
    let outside = tempfile::tempdir().unwrap();
    let mut session = Command::new(python);
    let done = session.args(["-c", script]).current_dir(outside.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
