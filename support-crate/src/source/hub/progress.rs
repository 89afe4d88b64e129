//! What a notebook shows while a file is downloaded: whole lines, and few of them.
//!
//! A cell keeps every line that was printed, so a bar that redraws itself would fill it, and what goes to stderr
//! looks like an error there.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Smaller files are there before anybody wonders.
const SHOWN_FROM: u64 = 8 * 1024 * 1024;

/// Lines come at least this far apart, and at most one for each of this many parts of the file: a slow download has no
/// more to say than a fast one.
const INTERVAL: Duration = Duration::from_secs(5);
const PARTS: u64 = 20;

/// The lines about one file.
pub(super) struct Progress<'a> {
    name: &'a str,
    size: u64,
    /// Bytes that were there at the start.
    start_at: u64,
    start: Instant,
    /// Bytes and time of the last line.
    last: (u64, Duration),
}

impl<'a> Progress<'a> {
    /// Announces the download of the bytes of `name` after the first `at`, to a file in `folder`.
    pub fn start(name: &'a str, at: u64, size: u64, folder: &Path) -> Self {
        let progress = Self { name, size, start_at: at, start: Instant::now(), last: (at, Duration::ZERO) };
        let act = if at > 0 { format!("resuming at {} of", mib(at)) } else { "downloading".to_owned() };
        progress.say(&format!("{act} {} MiB, to {}", mib(size), folder.display()));
        progress
    }

    /// Says how far it has got, if it is time for a line.
    pub fn reached(&mut self, at: u64) {
        let time = self.start.elapsed();
        if self.is_due(at, time) {
            self.last = (at, time);
            self.say(&self.state(at, time));
        }
    }

    /// Says that a request failed and is being repeated.
    pub fn interrupted(&self, at: u64) {
        self.say(&format!("interrupted at {} of {} MiB; trying again", mib(at), mib(self.size)));
    }

    /// Says that everything is there.
    pub fn finish(&self) {
        self.say(&format!("complete, {} MiB in {:.0} s", mib(self.size), self.start.elapsed().as_secs_f64()));
    }

    fn is_due(&self, at: u64, time: Duration) -> bool {
        let (last_at, last_time) = self.last;
        at < self.size && time - last_time >= INTERVAL && at - last_at >= self.size / PARTS
    }

    /// `124 of 498 MiB (24 %), 31 MiB/s, about 12 s left`
    fn state(&self, at: u64, time: Duration) -> String {
        let rate = (at - self.start_at) as f64 / time.as_secs_f64();
        let left = (self.size - at) as f64 / rate;
        let percent = 100 * at / self.size;
        format!(
            "{} of {} MiB ({percent} %), {:.1} MiB/s, about {} left",
            mib(at),
            mib(self.size),
            rate / f64::from(1 << 20),
            duration(left)
        )
    }

    fn say(&self, what: &str) {
        if self.size >= SHOWN_FROM {
            say(&format!("{}: {what}", self.name));
        }
    }
}

/// Prints a line where a cell shows it.
pub(super) fn say(line: &str) {
    // `println!` would panic where nobody reads; the download is wanted all the same.
    let _ = writeln!(io::stdout(), "{line}");
}

fn mib(bytes: u64) -> u64 {
    (bytes + (1 << 19)) >> 20
}

fn duration(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn progress(start_at: u64) -> Progress<'static> {
        Progress { name: "w", size: 498 * MIB, start_at, start: Instant::now(), last: (start_at, Duration::ZERO) }
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let state = progress(0).state(124 * MIB, Duration::from_secs(4));
        assert_eq!(state, "124 of 498 MiB (24 %), 31.0 MiB/s, about 12 s left");
        let resumed = progress(100 * MIB).state(124 * MIB, Duration::from_secs(12));
        assert_eq!(resumed, "124 of 498 MiB (24 %), 2.0 MiB/s, about 3 min left");
    }

    #[test]
    fn lines_are_sparse() {
        let progress = progress(0);
        assert!(progress.is_due(30 * MIB, Duration::from_secs(6)));
        assert!(!progress.is_due(30 * MIB, Duration::from_secs(4)), "too soon");
        assert!(!progress.is_due(20 * MIB, Duration::from_secs(60)), "too little");
        assert!(!progress.is_due(498 * MIB, Duration::from_secs(60)), "the last line is another");
    }
}
