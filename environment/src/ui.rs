//! What a person sees of a long step: a heading that says what and why, then its output or a spinner.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};

/// A numbered sequence of steps, some of which may run side by side.
pub struct Steps {
    total: usize,
    begun: AtomicUsize,
}

impl Steps {
    /// Begins a sequence of `total` steps.
    pub fn new(total: usize) -> Self {
        Self { total, begun: AtomicUsize::new(0) }
    }

    /// Announces the next step: what it makes, and why it is needed or what it costs.
    pub fn begin(&self, what: &str, why: &str) -> Instant {
        eprintln!("[{}/{}] {what}: {why}", self.next(), self.total);
        Instant::now()
    }

    /// Says that a step's result is there already.
    pub fn present(&self, what: &str) {
        eprintln!("[{}/{}] {what}: already there", self.next(), self.total);
    }

    fn next(&self) -> usize {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Says how long a step took, when that is worth saying.
pub fn took(start: Instant) {
    let elapsed = start.elapsed();
    if elapsed >= Duration::from_secs(2) {
        eprintln!("      done in {}", human_time(elapsed));
    }
}

/// Asks on the terminal; anything but a y is a no.
pub fn is_confirmed(question: &str) -> Result<bool> {
    print!("{question} [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

/// A size in GB or MB.
pub fn human_size(bytes: u64) -> String {
    if bytes >= 1_000_000_000 { format!("{:.1} GB", bytes as f64 / 1e9) } else { format!("{} MB", bytes / 1_000_000) }
}

/// `11 min 40 s`, or `24 s`.
pub fn human_time(time: Duration) -> String {
    let s = time.as_secs();
    if s >= 60 { format!("{} min {} s", s / 60, s % 60) } else { format!("{s} s") }
}

/// Runs a command whose own output is the progress (cargo, pip).
pub fn run_shown(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {line}"))?;
    ensure!(status.success(), "{line} failed ({status}); its own messages are above");
    Ok(())
}

/// Runs a silent command behind a spinner; its output goes to `log`, whose end is shown on failure.
pub fn run_logged(command: &mut Command, log: &Path, message: &str) -> Result<()> {
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let line = describe(command);
    let spinner = spinner(message);
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot start {line}"))?;
    spinner.finish_and_clear();
    ensure!(status.success(), "{line} failed ({status}); the end of {}:\n{}", log.display(), end_of(log));
    Ok(())
}

/// The last lines of a log.
pub fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// A command's standard output as text; its standard error is part of the message when it fails.
pub fn output_of(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {line}"))?;
    ensure!(done.status.success(), "{line} failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    String::from_utf8(done.stdout).with_context(|| format!("{line} did not print UTF-8"))
}

fn spinner(message: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(message.to_owned());
    if let Ok(style) = ProgressStyle::with_template("      {spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Program and first arguments, for messages.
pub fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_else(|| command.get_program());
    // A script that is an argument is not for people.
    let args =
        command.get_args().take(3).map(|arg| if arg.as_bytes().contains(&b'\n') { OsStr::new("...") } else { arg });
    let args = args.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    format!("`{} {args}`", program.to_string_lossy()).replace(" `", "`")
}

/// An error with its causes, and behind them what to try: a hint belongs to what failed, not to why.
pub fn described(error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let split = |part: &'_ String| match part.split_once("\n  try: ") {
        Some((what, hint)) => (what.to_owned(), format!("\n  try: {hint}")),
        None => (part.clone(), String::new()),
    };
    let (what, hints): (Vec<String>, Vec<String>) = parts.iter().map(split).unzip();
    what.join(": ") + &hints.concat()
}

/// Text from outside, made safe for a terminal: without characters that move the cursor, set colours, or turn the
/// direction of what follows. Lines stay lines.
pub fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown =
        |c: char| if c != '\n' && (c.is_control() || turns(c)) { c.escape_default().to_string() } else { c.into() };
    text.replace('\t', "    ").chars().map(shown).collect()
}

/// A text that is cut behind so many characters, as a reader sees.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_shows_the_end_of_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("logs/x.log");
        let mut command = Command::new("sh");
        command.args(["-c", "for i in $(seq 100); do echo line $i; done; exit 3"]);
        let error = run_logged(&mut command, &log, "x").unwrap_err().to_string();
        assert!(error.contains("line 100") && !error.contains("line 50\n"), "{error}");
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 100);
    }

    #[test]
    fn hints_come_behind_causes() {
        let cause = anyhow::anyhow!("No such file");
        let error = cause.context("cannot start python\n  try: cargo lab setup").context("no release");
        assert_eq!(described(&error), "no release: cannot start python: No such file\n  try: cargo lab setup");
    }

    #[test]
    fn text_from_outside_does_nothing_to_a_terminal() {
        assert_eq!(plain("a\x1b[2Jb\nc\td\u{7}\u{9b}1m\u{202e}é"), "a\\u{1b}[2Jb\nc    d\\u{7}\\u{9b}1m\\u{202e}é");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run_shown(&mut Command::new("no-such-program-here")).unwrap_err().to_string();
        assert!(error.contains("no-such-program-here"), "{error}");
    }
}
