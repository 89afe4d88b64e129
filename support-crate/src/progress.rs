//! How far a long task has got, for whoever waits for it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A short run needs no line.
const FIRST: Duration = Duration::from_secs(2);

/// A line at most this often: a notebook keeps every line.
const INTERVAL: Duration = Duration::from_secs(5);

static ON_STDERR: AtomicBool = AtomicBool::new(false);

/// Prints lines of progress to standard error from now on: for programs whose output is data.
pub fn progress_on_stderr() {
    ON_STDERR.store(true, Ordering::Relaxed);
}

/// Prints from time to time how much of something is done.
pub(crate) struct Progress {
    what: &'static str,
    total: usize,
    unit: &'static str,
    done: usize,
    start: Instant,
    last: Option<Duration>,
}

impl Progress {
    pub fn new(what: &'static str, total: usize, unit: &'static str) -> Self {
        Self { what, total, unit, done: 0, start: Instant::now(), last: None }
    }

    /// Adds `more` to what is done.
    pub fn advance(&mut self, more: usize) {
        if let Some(line) = self.line(more, self.start.elapsed()) {
            // That nobody reads along is no reason to stop.
            let _ = if ON_STDERR.load(Ordering::Relaxed) {
                writeln!(io::stderr(), "{line}")
            } else {
                writeln!(io::stdout(), "{line}")
            };
        }
    }

    /// The line to print, if it is time for one. The last step needs none: the result follows.
    fn line(&mut self, more: usize, elapsed: Duration) -> Option<String> {
        self.done += more;
        let next = self.last.map_or(FIRST, |last| last + INTERVAL);
        if elapsed < next || self.done >= self.total {
            return None;
        }
        self.last = Some(elapsed);
        let (what, done, total, unit) = (self.what, self.done, self.total, self.unit);
        Some(format!("{what}: {done} of {total} {unit} after {:.0} s", elapsed.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_sparingly() {
        let mut progress = Progress::new("perplexity", 100, "tokens");
        let mut line = |more, seconds| progress.line(more, Duration::from_secs(seconds));
        assert_eq!(line(10, 1), None);
        assert_eq!(line(10, 3).as_deref(), Some("perplexity: 20 of 100 tokens after 3 s"));
        assert_eq!(line(10, 7), None);
        assert_eq!(line(10, 8).as_deref(), Some("perplexity: 40 of 100 tokens after 8 s"));
        assert_eq!(line(60, 99), None);
    }
}
