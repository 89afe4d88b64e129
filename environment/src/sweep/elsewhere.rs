//! Measurements by the workers of a Dask scheduler, each where there is a set-up like this one.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Measured, Unit, state, unit};
use crate::checkout::Checkout;
use crate::dask;
use crate::home::Home;
use crate::jupyter::installed::Installed;
use crate::jupyter::processes;
use crate::python;
use crate::ui::plain;

/// What a worker is asked.
#[derive(Serialize, Deserialize)]
struct Question {
    /// Of the library that is to be measured: a worker in another state measures nothing.
    state: String,
    /// What is to be measured; without it, what the machine is.
    unit: Option<Unit>,
}

/// Has every kind of processor among the workers measure what it has not measured yet; calls `measured` for each as it
/// comes, and returns what failed.
///
/// # Errors
/// A scheduler that cannot be reached for ten minutes.
pub fn measure_all(
    home: &Home,
    scheduler: &str,
    units: &[Unit],
    state: &str,
    before: &[Measured],
    measured: &mut dyn FnMut(&Measured) -> Result<()>,
) -> Result<Vec<String>> {
    let mut command = dask::client(home, "sweep.py", scheduler)?;
    let (list, mut to_list) = io::pipe().context("cannot make a pipe")?;
    command.stdin(list);
    let before: Vec<Value> = before
        .iter()
        .filter(|measured| measured.state == state)
        .map(|measured| json!({"unit": measured.unit, "processor": measured.processor}))
        .collect();
    let question = json!({"units": units, "state": state, "measured": before}).to_string();
    let mut failed = Vec::new();
    let ended = thread::scope(|scope| {
        // Where the script has ended, what it said says why.
        scope.spawn(move || drop::<io::Result<()>>(to_list.write_all(question.as_bytes())));
        let ended = python::follow(&mut command, |event| {
            let text = |key: &str| plain(event[key].as_str().unwrap_or_default());
            match event["event"].as_str() {
                Some("waiting") => println!("{}", text("why")),
                Some("kind") => println!(
                    "{}: {} to be measured, {} measured before",
                    text("processor"),
                    event["units"],
                    event["before"]
                ),
                Some("measured") => {
                    let one = serde_json::from_value(event["measured"].clone()).context("a worker's answer is none");
                    let kept = one.and_then(|one: Measured| {
                        println!("{} by {}, {}", one.unit, plain(&one.machine), plain(&one.processor));
                        measured(&one)
                    });
                    failed.extend(kept.err().map(|error| format!("{error:#}")));
                }
                Some("failed") => {
                    let unit = serde_json::from_value(event["unit"].clone()).ok();
                    let unit = unit.map_or_else(|| "a measurement".to_owned(), |unit: Unit| unit.to_string());
                    let line = format!("{unit} on {}: {}", text("processor"), text("why"));
                    println!("{line}");
                    failed.push(line);
                }
                _ => {}
            }
        });
        // This end of the pipe is open in it: writing would wait for a reader that is gone.
        drop(command);
        ended
    });
    ended?.into_result()?;
    Ok(failed)
}

/// Answers the [`Question`] of standard input: what this machine is, or what came of a unit.
pub fn measure_one() -> Result<ExitCode> {
    // What a worker measures ends with it: another one does it.
    processes::end_with_parent();
    let question = io::read_to_string(io::stdin()).context("no question")?;
    let unable = |error: anyhow::Error| {
        eprintln!("{error:#}");
        Ok(ExitCode::from(dask::UNABLE))
    };
    let (checkout, question) = match here(&question) {
        Ok(both) => both,
        Err(error) => return unable(error),
    };
    let Some(unit) = &question.unit else {
        println!("{}", json!({"processor": unit::processor(), "machine": machine()}));
        return Ok(ExitCode::SUCCESS);
    };
    let ready = match unit::ready(unit, &checkout) {
        Ok(ready) => ready,
        Err(error) if unit::is_ours(unit) => return unable(error),
        // Who cannot have another program measures this one.
        Err(error) => return Err(error),
    };
    let measured = unit::measure(ready, unit, &checkout, &question.state, &std::env::current_dir()?);
    if let Err(error) = check_state(&checkout, &question.state) {
        return unable(error);
    }
    println!("{}", serde_json::to_string(&measured?)?);
    Ok(ExitCode::SUCCESS)
}

fn check_state(checkout: &Checkout, wanted: &str) -> Result<()> {
    ensure!(state(checkout)? == wanted, "{} is in another state than who asks", checkout.root().display());
    Ok(())
}

/// The checkout whose library can be measured here.
fn here(question: &str) -> Result<(Checkout, Question)> {
    let question: Question = serde_json::from_str(question).context("who asks is of another version")?;
    let home = Home::find()?;
    ensure!(home.is_ours(), "{} is somebody else's set-up, in which nothing can be built", home.root().display());
    let support_crate: PathBuf = Installed::read(&home)?.support_crate;
    let checkout = Checkout::around(&support_crate)
        .with_context(|| format!("{}, from which the set-up was made, is gone", support_crate.display()))?;
    check_state(&checkout, &question.state)?;
    Ok((checkout, question))
}

/// The same for all workers of one machine, in containers too, and another one wherever another kernel runs.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if boot.is_empty() { unit::host_name() } else { boot.trim().to_owned() }
}
