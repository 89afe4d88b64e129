//! The kernel as JupyterLab and VS Code use it: from kernel.json alone, and interrupted. Needs a finished set-up.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn an_interrupted_kernel_keeps_its_variables_or_says_what_is_gone() {
    let home = std::env::var_os("QUANTLAB_HOME").map(PathBuf::from);
    let cache = || std::env::home_dir().unwrap().join(".cache/quantlab");
    let python = home.unwrap_or_else(cache).join("python/bin/python");
    let outside = tempfile::tempdir().unwrap();
    let mut session = Command::new(python);
    let done = session.args(["-c", include_str!("session.py")]).current_dir(outside.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
