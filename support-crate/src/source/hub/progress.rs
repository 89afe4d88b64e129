//! What a notebook shows while a file is downloaded: whole lines, and few of them.
//!
//! A cell keeps every line that was printed, so a bar that redraws itself would fill it, and what goes to stderr
//! looks like an error there.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::output::harmless;

/// Smaller files are not announced: most of them have arrived before anybody wonders.
const SHOWN_FROM: u64 = 8 * 1024 * 1024;

/// Lines come at least this far apart: one for each of this many parts of the file, since a slow download has no more
/// to say than a fast one, and one whenever the time taken has doubled since the last line, so that it is never silent.
const INTERVAL: Duration = Duration::from_secs(5);
const PARTS: u64 = 20;

/// The lines about one file.
pub(super) struct Progress<'a> {
    name: &'a str,
    size: u64,
    /// The unit of all amounts, in bytes.
    unit: (u64, &'static str),
    /// Bytes that were there at the start.
    start_at: u64,
    start: Instant,
    /// Bytes and time of the last line.
    last: (u64, Duration),
    /// Whether a final line is to be printed.
    spoke: bool,
}

impl<'a> Progress<'a> {
    /// Announces the download of the bytes of `name` after the first `at`, to a file in `folder`.
    pub fn start(name: &'a str, at: u64, size: u64, folder: &Path) -> Self {
        let unit = match size {
            SHOWN_FROM.. => (1 << 20, "MiB"),
            0x1_0000.. => (1 << 10, "KiB"),
            _ => (1, "bytes"),
        };
        let last = (at, Duration::ZERO);
        let mut progress = Self { name, size, unit, start_at: at, start: Instant::now(), last, spoke: false };
        if size >= SHOWN_FROM {
            let act = if at > 0 { format!("resuming at {} of", progress.amount(at)) } else { "downloading".to_owned() };
            progress.say(&format!("{act} {}, to {}", progress.whole(), folder.display()));
        }
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
    pub fn interrupted(&mut self, at: u64) {
        self.last = (at, self.start.elapsed());
        self.say(&format!("interrupted at {} of {}; trying again", self.amount(at), self.whole()));
    }

    /// Says that what came is of no use.
    pub fn restarted(&mut self) {
        (self.start_at, self.last) = (0, (0, self.start.elapsed()));
        self.say("what arrived is not the file; trying again from the start");
    }

    /// Says that everything is there.
    pub fn finish(&mut self) {
        if self.spoke {
            self.say(&format!("complete, {} in {:.0} s", self.whole(), self.start.elapsed().as_secs_f64()));
        }
    }

    fn is_due(&self, at: u64, time: Duration) -> bool {
        let (last_at, last_time) = self.last;
        let has_come = at.saturating_sub(last_at) >= self.size / PARTS;
        at < self.size && time - last_time >= INTERVAL && (has_come || time >= 2 * last_time)
    }

    /// `124 of 498 MiB (24 %), 31 MiB/s, about 12 s left`
    fn state(&self, at: u64, time: Duration) -> String {
        let state =
            format!("{} of {} ({} %)", self.amount(at), self.whole(), 100 * u128::from(at) / u128::from(self.size));
        if at <= self.start_at {
            return format!("{state}, nothing new in {}", duration(time.as_secs_f64()));
        }
        let rate = (at - self.start_at) as f64 / time.as_secs_f64();
        let (unit, name) = self.unit;
        let left = duration((self.size - at) as f64 / rate);
        format!("{state}, {:.1} {name}/s, about {left} left", rate / unit as f64)
    }

    fn amount(&self, bytes: u64) -> u64 {
        let (unit, _) = self.unit;
        bytes.saturating_add(unit / 2) / unit
    }

    fn whole(&self) -> String {
        format!("{} {}", self.amount(self.size), self.unit.1)
    }

    fn say(&mut self, what: &str) {
        self.spoke = true;
        say(&format!("{}: {what}", self.name));
    }
}

/// The lines about an answer of unknown length.
pub(super) struct Waiting {
    what: String,
    start: Instant,
    next: Duration,
}

impl Waiting {
    /// `what` begins each line.
    pub fn new(what: String) -> Self {
        Self { what, start: Instant::now(), next: INTERVAL }
    }

    /// Says that it is still waiting, if it is time for a line.
    pub fn tick(&mut self) {
        if self.start.elapsed() >= self.next {
            say(&format!("{} ({} so far)", self.what, duration(self.next.as_secs_f64())));
            self.next *= 2;
        }
    }
}

/// Prints a line where a cell shows it.
pub(super) fn say(line: &str) {
    // `println!` would panic where nobody reads; the download is wanted all the same. Names of files are the repository's.
    let _ = writeln!(io::stdout(), "{}", harmless(line));
}

fn duration(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn progress(start_at: u64) -> Progress<'static> {
        Progress::start("w", start_at, 498 * MIB, Path::new("cache"))
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let state = progress(0).state(124 * MIB, Duration::from_secs(4));
        assert_eq!(state, "124 of 498 MiB (24 %), 31.0 MiB/s, about 12 s left");
        let resumed = progress(100 * MIB).state(124 * MIB, Duration::from_secs(12));
        assert_eq!(resumed, "124 of 498 MiB (24 %), 2.0 MiB/s, about 3 min left");
        let small = |size, at| Progress::start("c", 0, size, Path::new("cache")).state(at, Duration::from_secs(5));
        assert_eq!(small(665, 5), "5 of 665 bytes (0 %), 1.0 bytes/s, about 11 min left");
        assert_eq!(small(665, 0), "0 of 665 bytes (0 %), nothing new in 5 s");
        assert_eq!(small(2 * MIB, MIB / 10), "102 of 2048 KiB (4 %), 20.5 KiB/s, about 95 s left");
    }

    #[test]
    fn lines_are_sparse() {
        let mut progress = progress(0);
        progress.last = (0, Duration::from_secs(5));
        assert!(progress.is_due(30 * MIB, Duration::from_secs(11)));
        assert!(!progress.is_due(30 * MIB, Duration::from_secs(9)), "too soon");
        progress.last = (0, Duration::from_secs(40));
        assert!(!progress.is_due(20 * MIB, Duration::from_secs(60)), "too little");
        assert!(progress.is_due(20 * MIB, Duration::from_secs(80)), "but it goes on");
        assert!(!progress.is_due(498 * MIB, Duration::from_secs(80)), "the last line is another");
    }

    #[test]
    fn a_small_file_speaks_only_when_it_is_slow() {
        let mut small = Progress::start("c", 0, 665, Path::new("cache"));
        assert!(!small.spoke && !small.is_due(5, Duration::from_secs(4)) && small.is_due(5, Duration::from_secs(5)));
        small.interrupted(5);
        assert!(small.spoke);
    }
}
