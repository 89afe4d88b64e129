//! Other processes: as the system's `/proc` shows them, and what they are handed.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// Of the program that it was started from; it may be cut after 15 characters.
    pub name: String,
}

/// What the process that runs cells does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It waits for the next cell.
    Idle,
    /// It runs one.
    Busy,
    /// The system does not say.
    Unknown,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may have spaces and brackets of its own.
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        let mut rest = rest.split_whitespace();
        let is_dead = rest.next()? == "Z";
        let parent = rest.next()?.parse().ok()?;
        (!is_dead).then(|| Self { pid, parent, name: name.to_owned() })
    }
}

/// All processes that a process has started, directly or through others.
pub fn below(root: u32) -> Vec<Process> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = pids.filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?));
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    all.for_each(|process| children.entry(process.parent).or_default().push(process));
    let mut family = children.remove(&root).unwrap_or_default();
    let mut seen = 0;
    while let Some(process) = family.get(seen) {
        let more = children.remove(&process.pid).unwrap_or_default();
        family.extend(more);
        seen += 1;
    }
    family
}

/// Whether the first thread of a process is waiting for its standard input, which evcxr's process takes cells from.
pub fn activity(pid: u32) -> Activity {
    match fs::read_to_string(format!("/proc/{pid}/syscall")) {
        Ok(text) if text.starts_with(&format!("{} 0x0 ", libc::SYS_read)) => Activity::Idle,
        Ok(_) => Activity::Busy,
        Err(_) => Activity::Unknown,
    }
}

/// Whether a thread of the process is computing.
pub fn computes(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.into_iter().any(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('R')))
}

/// Sends a signal; the process may have ended already.
pub fn send(pid: u32, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: kill takes two numbers and touches no memory.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    // SAFETY: geteuid always succeeds and touches no memory.
    unsafe { libc::geteuid() == 0 }
}

/// Has the system end this process with the one that started it, however that ends. It may be called between fork and exec.
pub fn end_with_parent() {
    // SAFETY: prctl with integers touches no memory, and may be called between fork and exec.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Has the system end a program with this one, however that ends: what it does is of no use to anybody else.
pub fn end_with_this_process(command: &mut Command) {
    // SAFETY: `end_with_parent` may be called there.
    unsafe {
        command.pre_exec(|| {
            end_with_parent();
            Ok(())
        });
    }
}

/// Leaves a descriptor open in the programs that this one starts or becomes.
pub fn inherit(open: &impl AsRawFd) -> Result<()> {
    set_flags(open.as_raw_fd(), 0).context("cannot pass on a file descriptor")
}

/// Closes a descriptor, which this process was handed, in the programs that it starts.
pub fn keep(open: RawFd) -> Result<()> {
    set_flags(open, libc::FD_CLOEXEC).context("cannot keep a descriptor")
}

fn set_flags(open: RawFd, flags: i32) -> std::io::Result<()> {
    // SAFETY: fcntl with F_SETFD takes a number and an int, and touches no memory; an invalid descriptor is an error.
    if unsafe { libc::fcntl(open, libc::F_SETFD, flags) } == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_family_is_found_and_what_waits_for_input_is_idle() {
        let mut shell = Command::new("sh").args(["-c", "cat; exit"]).stdin(Stdio::piped()).spawn().unwrap();
        let cat = std::iter::repeat_with(|| below(shell.id()))
            .find_map(|family| family.into_iter().find(|process| process.name == "cat"));
        let cat = cat.unwrap();
        assert!(below(std::process::id()).contains(&cat));
        assert_eq!(cat.parent, shell.id());
        while activity(cat.pid) == Activity::Busy {}
        assert!(computes(std::process::id()) && !computes(cat.pid));
        assert_ne!(activity(shell.id()), Activity::Idle, "it waits for another process");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(below(shell.id()).is_empty());
    }
}
