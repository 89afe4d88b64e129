//! What Python's packages make of the same model, where Python has them.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quantlab::model::threads;
use quantlab::report::Table;

use super::{FormatSpeed, short_name};

const SCRIPT: &str = include_str!("peers.py");

/// After this long, whatever Python is doing is ended: exporting a model to ONNX can take minutes.
const LIMIT: Duration = Duration::from_secs(240);

/// The decode rates of this run beside those of bitsandbytes, ONNX Runtime and OpenVINO in Python, at the same size, with as
/// many threads and random weights: `python` is the name or path of an interpreter. What it does not have is said below the
/// table. The packages did not take turns with the rows, so that nothing small is told apart here.
pub fn peers_table(python: &str, speed: &[FormatSpeed]) -> Table {
    let ours = speed.iter().map(|one| (short_name(&one.name), one.timing.decode_tokens_per_s.median));
    let said = ask(python);
    let (rates, missing): (Vec<_>, Vec<_>) =
        said.iter().map(|(name, said)| (name, said, said.parse::<f64>())).partition(|(.., rate)| rate.is_ok());
    let theirs = rates.into_iter().filter_map(|(name, _, rate)| Some((format!("{name} (Python)"), rate.ok()?)));
    let table = Table::new("Decode beside other packages")
        .headings([("format", ""), ("decode", "tokens/s")])
        .note(format!("GPT-2's size, random weights | cpu | {} threads | medians, not in turns", threads()));
    let table = ours.chain(theirs).fold(table, |table, row| table.row(row));
    missing.into_iter().fold(table, |table, (name, why, _)| table.note(format!("not measured: {name}: {why}")))
}

/// What the script says: a name, and a rate or why there is none.
fn ask(python: &str) -> Vec<(String, String)> {
    let failed = |what: &str, why: String| vec![(what.to_owned(), why)];
    let mut command = Command::new(python);
    command.arg("-c").arg(SCRIPT).arg(threads().to_string());
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return failed(python, error.to_string()),
    };
    let begin = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(None) if begin.elapsed() < LIMIT && quantlab::interrupt::check().is_ok() => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(Some(_)) => break true,
            _ => break false,
        }
    };
    if !ended {
        // It may have ended meanwhile, which is as good.
        child.kill().ok();
        child.wait().ok();
    }
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut text).ok();
    }
    let mut said: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, said)| (name.to_owned(), said.to_owned()))
        .collect();
    if !ended {
        said.push(("the rest".to_owned(), format!("not ready after {} s", LIMIT.as_secs())));
    } else if said.is_empty() {
        said.push((python.to_owned(), "it said nothing".to_owned()));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_python_the_table_says_so() {
        let text = peers_table("no-such-python", &[]).to_text();
        assert!(text.contains("not measured: no-such-python: "), "{text}");
        // A program that ends at once and says nothing.
        let text = peers_table("true", &[]).to_text();
        assert!(text.contains("true: it said nothing"), "{text}");
    }
}
