//! A Cargo build as one line that changes, or a line a minute where there is no terminal.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::ui::{describe, end_of, run_shown};

/// How often a line is printed where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// If no crate has been finished for this long, those that are being compiled are named.
const STANDS_STILL: Duration = Duration::from_secs(15);

/// How often a silent build is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What a person sees of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// All that Cargo prints.
    Everything,
    /// A bar that grows, where there is a terminal.
    Bar,
    /// A line a minute, under this name: another step has the terminal.
    Lines(&'static str),
}

/// Runs a command that builds with Cargo. Its messages go to `log`, whose end is shown on failure. `stop` ends it early.
pub fn run_build(command: &mut Command, log: &Path, view: View, stop: &AtomicBool) -> Result<()> {
    if view == View::Everything {
        return run_shown(command);
    }
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let line = describe(command);
    command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "100");
    command.env("CARGO_TERM_COLOR", "never").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {line}"))?;
    let mut shown = Shown::begin(view);
    if let Some(messages) = child.stderr.take() {
        let (sender, states) = channel();
        let reader = thread::spawn(move || read_messages(messages, file, &sender));
        loop {
            match states.recv_timeout(LOOK) {
                Ok(state) => shown.reached(state),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            shown.show();
            if stop.load(Ordering::Relaxed) {
                child.kill()?;
            }
        }
        reader.join().unwrap_or_else(|_| bail!("the reader of Cargo's messages panicked"))?;
    }
    let status = child.wait()?;
    shown.bar.finish_and_clear();
    ensure!(status.success(), "{line} failed ({status}); the end of {}:\n{}", log.display(), end_of(log));
    Ok(())
}

/// Where Cargo's bar is.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    done: u64,
    total: u64,
    /// The crates that are being compiled, as many as Cargo had room for.
    compiling: String,
}

/// Cargo's bars become states, all else goes to `log`.
fn read_messages(mut messages: impl Read, mut log: impl Write, states: &Sender<State>) -> Result<()> {
    let (mut piece, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = match messages.read(&mut buffer)? {
            0 => return Ok(()),
            count => count,
        };
        for &byte in &buffer[..count] {
            // Cargo overwrites its progress bar by carriage returns.
            if byte != b'\n' && byte != b'\r' {
                piece.push(byte);
                continue;
            }
            let text = String::from_utf8_lossy(&piece);
            match State::of(&text) {
                // An error means that nobody watches any more.
                Some(state) => drop(states.send(state)),
                None if byte == b'\n' => writeln!(log, "{}", text.trim_start_matches("\u{1b}[K"))?,
                None => {}
            }
            piece.clear();
        }
    }
}

impl State {
    /// `Building [====>   ] 123/456: crates being compiled`.
    fn of(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("Building [")?;
        let (_, rest) = rest.split_once("] ")?;
        let (done, rest) = rest.split_once('/')?;
        let (total, compiling) = rest.split_once(": ").unwrap_or((rest, ""));
        Some(Self {
            done: done.trim().parse().ok()?,
            total: total.trim().parse().ok()?,
            compiling: compiling.trim().to_owned(),
        })
    }
}

/// What a person sees of it.
struct Shown {
    bar: ProgressBar,
    name: String,
    start: Instant,
    last_line: Instant,
    state: State,
    /// Since when so many crates are done.
    since: Instant,
}

impl Shown {
    fn begin(view: View) -> Self {
        let name = if let View::Lines(name) = view { format!("{name}: ") } else { String::new() };
        let has_bar = view == View::Bar && io::stderr().is_terminal();
        let bar = if has_bar { ProgressBar::new(0) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("      {bar:30} {pos} of {len} crates, {elapsed}{msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        let now = Instant::now();
        Self { bar, name, start: now, last_line: now, state: State::default(), since: now }
    }

    fn reached(&mut self, state: State) {
        if state.done != self.state.done {
            self.since = Instant::now();
        }
        self.state = state;
    }

    fn show(&mut self) {
        let State { done, total, .. } = self.state;
        if total == 0 {
            return;
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
        let rest = self.rest();
        if self.bar.is_hidden() && self.last_line.elapsed() >= BETWEEN_LINES {
            self.last_line = Instant::now();
            let minutes = self.start.elapsed().as_secs() / 60;
            eprintln!("      {}{done} of {total} crates after {minutes} min{rest}", self.name);
        }
        self.bar.set_message(rest);
    }

    /// Everything except how far it is: how long it will take, and what it waits for.
    fn rest(&self) -> String {
        let State { done, total, compiling } = &self.state;
        let left = time_left(self.start.elapsed(), *done, *total).map(|left| format!(", {left}"));
        let stands_still = self.since.elapsed() >= STANDS_STILL && !compiling.is_empty();
        let names = stands_still.then(|| format!("; compiling {compiling}"));
        left.into_iter().chain(names).collect()
    }
}

/// Assumes that each crate takes as long as those so far: the large ones come late, so it is "at least".
fn time_left(elapsed: Duration, done: u64, total: u64) -> Option<String> {
    if done * 10 < total || done == 0 {
        return None;
    }
    let left = elapsed.as_secs_f64() * (total.saturating_sub(done)) as f64 / done as f64;
    Some(format!("at least {:.0} min left", (left / 60.0).ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(done: u64, total: u64, compiling: &str) -> State {
        State { done, total, compiling: compiling.to_owned() }
    }

    #[test]
    fn cargos_bar_is_read() {
        let bar = "    Building [====>      ] 123/456: polars, tch(build.rs)";
        assert_eq!(State::of(bar), Some(state(123, 456, "polars, tch(build.rs)")));
        assert_eq!(State::of("\u{1b}[K    Building [=======>] 455/456"), Some(state(455, 456, "")));
        assert_eq!(State::of("   Compiling serde v1.0.0"), None);
    }

    #[test]
    fn a_count_that_stands_still_names_what_is_compiled() {
        let mut shown = Shown::begin(View::Lines("a"));
        shown.reached(state(325, 552, "polars-core, candle-core"));
        assert!(!shown.rest().contains("polars-core"), "it has just moved");
        shown.since -= STANDS_STILL;
        assert!(shown.rest().ends_with("; compiling polars-core, candle-core"));
        shown.reached(state(325, 552, "polars-core"));
        assert!(shown.rest().ends_with("; compiling polars-core"), "another crate was begun, none is done");
        shown.reached(state(326, 552, "polars-io"));
        assert!(!shown.rest().contains("polars"));
    }

    #[test]
    fn the_time_left_waits_until_there_is_something_to_go_by() {
        assert_eq!(time_left(Duration::from_secs(60), 10, 500), None);
        assert_eq!(time_left(Duration::from_secs(60), 100, 500).as_deref(), Some("at least 4 min left"));
        assert_eq!(time_left(Duration::from_secs(60), 500, 500).as_deref(), Some("at least 0 min left"));
    }

    #[test]
    fn messages_go_to_the_log_and_a_failure_shows_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("logs/build.log");
        let script = "printf '   Compiling a v1\\n\\r    Building [=>  ] 1/2: a\\rerror: no linker\\n' >&2; exit 101";
        let error = run_build(Command::new("sh").args(["-c", script]), &log, View::Bar, &AtomicBool::new(false));
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("   Compiling a v1\nerror: no linker"), "{error}");
        assert_eq!(fs::read_to_string(&log).unwrap(), "   Compiling a v1\nerror: no linker\n");
    }

    #[test]
    fn a_build_ends_when_another_step_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("build.log");
        // The second says nothing for as long as a large crate takes.
        for script in ["while :; do echo '   Compiling a v1' >&2; sleep 0.05; done", "exec sleep 60"] {
            let (mut command, start) = (Command::new("sh"), Instant::now());
            let error = run_build(command.args(["-c", script]), &log, View::Lines("a"), &AtomicBool::new(true));
            assert!(error.unwrap_err().to_string().contains("signal: 9"));
            assert!(start.elapsed() < Duration::from_secs(30));
        }
    }
}
