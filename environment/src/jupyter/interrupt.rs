//! An interrupt ends the cell and keeps the variables.
//!
//! evcxr ends a cell by killing the process that runs it, and every variable is gone with it. So this program stays
//! between Jupyter and evcxr_jupyter: it alone handles SIGINT, and asks the cell first. A flag in a file tells the
//! library, whose long-running work checks it again and again and returns an error. A cell that has not ended after
//! [`PATIENCE`], or is interrupted again, is ended the way evcxr does it. A build is ended at once: it holds no
//! variables.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::processes::{self, Activity, Process};
use super::signals::Signals;

/// Tells the library where the flag is.
pub const FLAG: &str = "QUANTLAB_INTERRUPT";

/// How long a cell has to end on its own.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a cell that was asked to end is checked.
const TICK: Duration = Duration::from_millis(20);

/// A byte in a file that cells have mapped: not 0 while the running cell is to end.
pub struct Flag(File);

impl Flag {
    /// Makes the file.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::options().create(true).truncate(true).write(true).open(path);
        let flag = Self(file.with_context(|| format!("cannot create {}", path.display()))?);
        flag.set(false).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(flag)
    }

    fn set(&self, value: bool) -> io::Result<()> {
        self.0.write_all_at(&[u8::from(value)], 0)
    }
}

/// An interrupt that has not taken effect yet.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Instant,
    /// Whether the cell has been seen running since.
    ran: bool,
    /// Whether there was another interrupt.
    again: bool,
}

/// What a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// evcxr itself works: it finds the types of a cell's variables, before or after its build.
    Preparing,
    Building,
    Running,
    /// The system does not say whether a cell runs.
    Unknown,
}

/// What is to be done about an interrupt.
#[derive(Debug, PartialEq, Eq)]
enum Act {
    Wait,
    /// The cell is over, or there was none.
    Forget,
    /// Ends the cell as evcxr does it.
    EndCell,
    EndBuild,
}

impl Asked {
    fn act(&mut self, doing: Doing, now: Instant) -> Act {
        let has_waited = now - self.at >= PATIENCE;
        self.ran |= doing == Doing::Running;
        match doing {
            Doing::Running if self.again || has_waited => Act::EndCell,
            Doing::Unknown if self.again => Act::EndCell,
            Doing::Running => Act::Wait,
            // This cell is over, and what is being done now belongs to the next one.
            _ if self.ran => Act::Forget,
            // Then evcxr builds once more, to see what was wrong with the code.
            Doing::Building if !has_waited => Act::EndBuild,
            // Whether the cell is over cannot be seen here. Ending one that is not over takes a second interrupt.
            Doing::Preparing | Doing::Unknown if !has_waited => Act::Wait,
            _ => Act::Forget,
        }
    }
}

/// evcxr and what it has started.
struct Kernel {
    pid: u32,
    /// evcxr runs cells in a copy of itself;
    cells: Vec<Process>,
    /// whatever else it starts builds them.
    builds: Vec<Process>,
}

impl Kernel {
    fn look(pid: u32) -> Self {
        let children = processes::below(pid).into_iter().filter(|process| process.parent == pid);
        let (cells, builds) = children.partition(|process| process.name == "evcxr_jupyter");
        Self { pid, cells, builds }
    }

    fn doing(&self) -> Doing {
        match self.cells.first().map_or(Activity::Idle, |cells| processes::activity(cells.pid)) {
            Activity::Busy => Doing::Running,
            Activity::Unknown => Doing::Unknown,
            Activity::Idle if !self.builds.is_empty() => Doing::Building,
            Activity::Idle if processes::computes(self.pid) => Doing::Preparing,
            Activity::Idle => Doing::Nothing,
        }
    }

    /// The compiler and Cargo; the program that stands for Cargo stays to tell evcxr.
    fn end_build(&self) {
        let tools = self.builds.iter().flat_map(|build| processes::below(build.pid));
        tools.for_each(|tool| processes::send(tool.pid, libc::SIGTERM));
    }
}

/// Stays until evcxr ends, handling interrupts; returns the kernel's exit code.
pub fn supervise(mut evcxr: Child, signals: &mut Signals, flag: &Flag) -> Result<ExitCode> {
    let pid = evcxr.id();
    let mut asked: Option<Asked> = None;
    loop {
        match signals.next(asked.map(|_| TICK))? {
            // Looked at below before the cell hears of it: it may be over at once.
            Some(libc::SIGINT) => {
                let first = Asked { at: Instant::now(), ran: false, again: false };
                asked = Some(asked.map_or(first, |asked| Asked { again: true, ..asked }));
            }
            Some(libc::SIGCHLD) => {
                if let Some(status) = evcxr.try_wait().context("cannot wait for evcxr")? {
                    let code = status.code().and_then(|code| u8::try_from(code).ok());
                    return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
                }
            }
            Some(_) => processes::send(pid, libc::SIGTERM),
            None => {}
        }
        let Some(interrupt) = &mut asked else { continue };
        let kernel = Kernel::look(pid);
        let act = interrupt.act(kernel.doing(), Instant::now());
        match act {
            Act::EndCell => kernel.cells.iter().for_each(|process| processes::send(process.pid, libc::SIGKILL)),
            Act::EndBuild => kernel.end_build(),
            Act::Wait | Act::Forget => {}
        }
        let goes_on = matches!(act, Act::Wait | Act::EndBuild);
        flag.set(goes_on).context("cannot tell the cell that it is interrupted")?;
        if !goes_on {
            asked = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is done at these moments, in milliseconds after the interrupt.
    fn acts(again: bool, seen: &[(u64, Doing)]) -> Vec<Act> {
        let at = Instant::now();
        let mut asked = Asked { at, ran: false, again };
        seen.iter().map(|&(ms, doing)| asked.act(doing, at + Duration::from_millis(ms))).collect()
    }

    #[test]
    fn a_cell_is_asked_first_and_ended_only_when_it_does_not_end() {
        use Doing::{Building, Nothing, Preparing, Running, Unknown};
        assert_eq!(acts(false, &[(0, Running), (900, Nothing)]), [Act::Wait, Act::Forget]);
        assert_eq!(acts(false, &[(1990, Running), (2000, Running)]), [Act::Wait, Act::EndCell]);
        assert_eq!(acts(true, &[(20, Running)]), [Act::EndCell]);
        // The next cell of several is not the one that was meant.
        assert_eq!(acts(false, &[(0, Running), (900, Building)]), [Act::Wait, Act::Forget]);
        assert_eq!(acts(false, &[(0, Running), (900, Preparing)]), [Act::Wait, Act::Forget]);
        // This one is.
        assert_eq!(acts(false, &[(0, Building), (100, Nothing)]), [Act::EndBuild, Act::Forget]);
        assert_eq!(acts(false, &[(0, Building), (2000, Building)]), [Act::EndBuild, Act::Forget]);
        assert_eq!(acts(false, &[(0, Preparing), (500, Building)]), [Act::Wait, Act::EndBuild]);
        assert_eq!(acts(false, &[(0, Preparing), (500, Running)]), [Act::Wait, Act::Wait]);
        assert_eq!(acts(false, &[(0, Preparing), (2000, Preparing)]), [Act::Wait, Act::Forget]);
        assert_eq!(acts(false, &[(0, Nothing)]), [Act::Forget]);
        assert_eq!(acts(false, &[(0, Unknown), (2000, Unknown)]), [Act::Wait, Act::Forget]);
        assert_eq!(acts(true, &[(0, Unknown)]), [Act::EndCell]);
    }
}
