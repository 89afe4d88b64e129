//! The tool itself, as a person calls it.

use std::path::Path;
use std::process::{Command, Output};

/// `lab ARGS`, then each path behind the option that it belongs to.
pub fn lab(args: &[&str], paths: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.args(args);
    for (option, path) in paths {
        command.arg(option).arg(path);
    }
    command.output().unwrap()
}

/// What a program printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
