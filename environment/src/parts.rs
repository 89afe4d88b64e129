//! How long the parts of a test run take: programs of tests, and what is built and run for them.

use std::io::{Read, Write, pipe};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::ui::{describe, human_time};

/// Parts that are done, and their times.
#[derive(Debug, Default)]
pub struct Parts(Vec<(String, Duration)>);

impl Parts {
    /// Another part that is done.
    pub fn add(&mut self, name: impl Into<String>, time: Duration) {
        self.0.push((name.into(), time));
    }

    /// Runs a part.
    pub fn time<T>(&mut self, name: &str, part: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = part()?;
        self.add(name, start.elapsed());
        Ok(result)
    }

    /// Runs `cargo test` and shows what it prints. A part for each program of tests, and one for what comes before them.
    pub fn tests(&mut self, what: &str, mut command: Command) -> Result<()> {
        let (start, line) = (Instant::now(), describe(&command));
        // One pipe for both, so that a program's name and its result stay in order.
        let (mut reader, writer) = pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().with_context(|| format!("cannot start {line}"))?;
        drop(command);
        let (mut printed, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let count = reader.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            std::io::stderr().write_all(&buffer[..count])?;
            printed.extend_from_slice(&buffer[..count]);
        }
        let status = child.wait()?;
        ensure!(status.success(), "{line} failed ({status}); its own messages are above");
        let programs = programs(&String::from_utf8_lossy(&printed));
        let running: Duration = programs.iter().map(|(_, time)| time).sum();
        self.add(format!("{what}: compiling"), start.elapsed().saturating_sub(running));
        self.0.extend(programs.into_iter().map(|(name, time)| (format!("{what}: {name}"), time)));
        Ok(())
    }

    /// The `count` longest, the longest first, a line each.
    pub fn longest(mut self, count: usize) -> String {
        self.0.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        self.0.iter().take(count).map(|(name, time)| format!("{:>11}  {name}\n", human_time(*time))).collect()
    }
}

/// The programs that `cargo test` ran, and how long each says that it took.
fn programs(printed: &str) -> Vec<(String, Duration)> {
    let mut current = "";
    let mut programs = Vec::new();
    for line in printed.lines().map(str::trim) {
        if let Some(program) = line.strip_prefix("Running ") {
            current = program.split(" (").next().unwrap_or(program).trim_start_matches("unittests ");
        } else if line.starts_with("Doc-tests ") {
            current = line;
        } else if let Some((_, seconds)) = line.split_once("; finished in ")
            && let Some(seconds) = seconds.strip_suffix('s').and_then(|seconds| seconds.parse().ok())
        {
            programs.push((current.to_owned(), Duration::from_secs_f64(seconds)));
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "   Compiling quantlab v0.1.0
     Running unittests src/lib.rs (target/debug/deps/quantlab-1a2b)

running 2 tests
..
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.13s

     Running tests/parity.rs (target/debug/deps/parity-3c4d)
test result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 71.50s
   Doc-tests quantlab
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn each_program_of_tests_is_a_part_and_the_longest_comes_first() {
        let mut parts = Parts(programs(PRINTED));
        parts.time("clippy", || Ok(())).unwrap();
        parts.tests("nothing", Command::new("true")).unwrap();
        assert_eq!(parts.0.len(), 5);
        assert_eq!(parts.longest(2), " 1 min 11 s  tests/parity.rs\n        2 s  src/lib.rs\n");
    }

    #[test]
    fn tests_that_fail_are_an_error() {
        let error = Parts::default().tests("x", Command::new("false")).unwrap_err().to_string();
        assert!(error.contains("`false`") && error.contains("failed"), "{error}");
    }
}
