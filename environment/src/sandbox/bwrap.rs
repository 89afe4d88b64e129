//! The first layer: bubblewrap makes namespaces in which there is nothing but what it is told to show.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Plan;
use crate::jupyter::installed::find_on;

/// For temporary files that ask for no folder, and for shared memory.
const SMALL_MIB: u64 = 256;

/// Its own namespaces, an identity without rights, and an end together with whoever started it.
const ALONE: [&str; 12] = [
    "--unshare-all",
    "--unshare-user",
    "--uid",
    "1000",
    "--gid",
    "1000",
    "--hostname",
    "sandbox",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
];

/// The program by its full path: what is inside gets a search path of its own, which the system would use to look for
/// it.
fn program(search_path: &OsStr) -> Result<PathBuf> {
    let found = find_on(search_path, "bwrap").context("bubblewrap is not installed, or not on the PATH")?;
    Ok(std::path::absolute(found)?)
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Whether it is there and may make namespaces.
pub fn probe() -> Result<()> {
    let shown = ["/usr", "/bin", "/lib", "/lib64"].map(PathBuf::from);
    let program = program(&search_path())?;
    let mut command = Command::new(&program);
    command.args(ALONE);
    show(&mut command, &shown.into_iter().filter(|path| path.exists()).collect::<Vec<_>>());
    command.args(["--size", "4096", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", "true"]);
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot start {}", program.display()))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("bubblewrap does not run here: {}", said.lines().next().unwrap_or("it gives no reason"));
    }
    Ok(())
}

/// `PROGRAM ARGUMENTS` in namespaces as the plan says.
pub fn command(plan: &Plan, inside: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(program(&search_path())?);
    command.args(ALONE);
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    let room = |command: &mut Command, mib: u64, at: &Path| {
        command.args(["--size", &(mib << 20).to_string(), "--tmpfs"]).arg(at);
    };
    room(&mut command, SMALL_MIB, Path::new("/dev/shm"));
    room(&mut command, SMALL_MIB, Path::new("/tmp"));
    // After these: what is shown may lie below.
    show(&mut command, &plan.visible);
    // All that a kernel writes lies in memory, below the folder in which kernels live, and ends with it.
    room(&mut command, plan.request.disk_mib.into(), plan.dir.parent().unwrap_or(&plan.dir));
    if plan.request.keeps_answers
        && let Some(answers) = plan.visible.iter().find(|path| path.ends_with("answers"))
    {
        command.arg("--bind").arg(answers).arg(answers);
    }
    // Root's settings of the system stay root's in a namespace of root's own: none is written to from here.
    command.args(["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"]);
    command.arg(inside).args(arguments);
    Ok(command)
}

/// Shows these at the same places, read-only; a link stays a link, and what it leads to is shown, too.
fn show(command: &mut Command, paths: &[PathBuf]) {
    for path in paths {
        match std::fs::read_link(path) {
            Ok(target) => {
                // Past other links on the way there, which are not shown.
                let end = path.canonicalize().unwrap_or(target);
                if end.exists() && !paths.iter().any(|shown| end.starts_with(shown)) {
                    command.args([OsStr::new("--ro-bind"), end.as_os_str(), end.as_os_str()]);
                }
                command.args([OsStr::new("--symlink"), end.as_os_str(), path.as_os_str()])
            }
            Err(_) => command.args([OsStr::new("--ro-bind"), path.as_os_str(), path.as_os_str()]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_called_by_its_full_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("bwrap"), "").unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), dir.path()]).unwrap();
        assert_eq!(program(&path).unwrap(), dir.path().join("bwrap"));
        assert!(program(OsStr::new("/nowhere")).unwrap_err().to_string().contains("not on the PATH"));
    }
}
