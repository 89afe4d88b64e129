//! Gives mutants to their checks, in a process of their own: they may hang, abort or eat all memory.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::parallel::side_by_side;

/// Most data that a process may have: what it maps of libraries does not count.
const MAX_BYTES: u64 = 6 << 30;

/// What a check made of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All points.
    Passed,
    /// Fewer.
    Caught,
    /// The check did not come to an end within the time, and would hang a learner's notebook.
    Hung,
    /// The check itself panicked, or its process ended.
    Broke,
}

/// Gives the mutants of each exercise to its check, several exercises at a time. `mutants` says how many each has;
/// what comes back begins with the verdict on its reference answer.
///
/// # Errors
/// The program cannot be started, or is not a program of mutants.
pub fn run(
    mutants: &[usize],
    most_time: Duration,
    program: impl Fn() -> Result<Command> + Sync,
) -> Result<Vec<Vec<Verdict>>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let verdicts =
        side_by_side(workers, mutants, |exercise, count| exercise_verdicts(exercise, count + 1, most_time, &program));
    verdicts.into_iter().collect()
}

/// Restarts the program after each mutant that ended it.
fn exercise_verdicts(
    exercise: usize,
    count: usize,
    most_time: Duration,
    program: &impl Fn() -> Result<Command>,
) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    while verdicts.len() < count {
        let (child, lines) = start(program()?, [exercise, verdicts.len(), count])?;
        let mut child = Ended(child);
        while verdicts.len() < count {
            match lines.recv_timeout(most_time) {
                Ok(line) => verdicts.extend(verdict(&line, verdicts.len())?),
                Err(RecvTimeoutError::Timeout) => {
                    verdicts.push(Verdict::Hung);
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    child.0.wait()?;
                    verdicts.push(Verdict::Broke);
                    break;
                }
            }
        }
    }
    Ok(verdicts)
}

/// A process that does not outlive this value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(mut program: Command, numbers: [usize; 3]) -> Result<(Child, Receiver<String>)> {
    program.args(numbers.map(|number| number.to_string()));
    program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: between fork and exec, the closure only makes a system call, which is async-signal-safe.
    unsafe {
        program.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: MAX_BYTES, rlim_max: MAX_BYTES };
            match libc::setrlimit(libc::RLIMIT_DATA, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut child = program.spawn().context("cannot start the mutants' program")?;
    let stdout = child.stdout.take().context("the mutants' program has no output")?;
    let (told, heard) = channel();
    std::thread::spawn(move || {
        // A mutant may print anything, even what is not text.
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.starts_with("mutant ") && told.send(line).is_err() {
                break;
            }
        }
    });
    Ok((child, heard))
}

/// Reads a line such as `mutant 3 got 5 of 6`; none if it is about another mutant than the one that is awaited.
fn verdict(line: &str, awaited: usize) -> Result<Option<Verdict>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["mutant", number, ..] if number.parse() != Ok(awaited) => Ok(None),
        ["mutant", _, "got", points, "of", most] if points == most => Ok(Some(Verdict::Passed)),
        ["mutant", _, "got", ..] => Ok(Some(Verdict::Caught)),
        ["mutant", _, "panicked"] => Ok(Some(Verdict::Broke)),
        _ => bail!("the mutants' program said: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its first exercise has mutants that hang and end the process.
    const PROGRAM: &str = r#"
        for mutant in $(seq $2 $(($3 - 1))); do
            case $1-$mutant in
                0-2) sleep 60 ;;
                0-3) exit 1 ;;
                0-4) echo; echo "mutant 4 panicked" ;;
                *-0) echo "mutant 0 got 3 of 3" ;;
                *) echo "noise"; echo "mutant $mutant got 2 of 3" ;;
            esac
        done"#;

    #[test]
    fn a_mutant_that_hangs_or_ends_the_process_does_not_stop_the_others() {
        let program = || {
            let mut command = Command::new("sh");
            command.args(["-c", PROGRAM, "sh"]);
            Ok(command)
        };
        let verdicts = run(&[5, 1], Duration::from_secs(10), program).unwrap();
        use Verdict::{Broke, Caught, Hung, Passed};
        assert_eq!(verdicts, [vec![Passed, Caught, Hung, Broke, Broke, Caught], vec![Passed, Caught]]);
    }
}
