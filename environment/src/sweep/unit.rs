//! One measurement, on this machine.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Measured, Unit, state};
use crate::check;
use crate::checkout::Checkout;
use crate::home::{Home, non_empty_var, remove_if_there};
use crate::jupyter::processes::end_with_this_process;
use crate::python;
use crate::setup::models::Model;
use crate::ui::output_of;

/// A benchmark that is built, while nobody else measures on this machine.
pub struct Ready {
    command: Command,
    _alone: UnixListener,
}

/// The folder of what measures other programs.
pub const PEERS: &str = "environment/sweep/peers";

/// Waits until nobody measures, and builds the unit's benchmark, or fetches the program.
///
/// # Errors
/// That is not to be had.
pub fn ready(unit: &Unit, checkout: &Checkout) -> Result<Ready> {
    let (alone, home) = (alone()?, Home::find()?);
    let command = match unit.benchmark.as_str() {
        own if is_ours(unit) => check::bench(checkout, &home, own)?,
        peer => program(peer, &home, checkout)?,
    };
    Ok(Ready { command, _alone: alone })
}

/// Whether this library is measured, not another program.
pub fn is_ours(unit: &Unit) -> bool {
    ["inference", "quality"].contains(&unit.benchmark.as_str())
}

/// What measures another program.
fn program(peer: &str, home: &Home, checkout: &Checkout) -> Result<Command> {
    let (source, place) = (checkout.root().join(PEERS), python::place_of_tools(home, "peers"));
    // Once is enough: it would be the same for each of them.
    static FAILED: OnceLock<String> = OnceLock::new();
    if let Some(why) = FAILED.get() {
        bail!("{why}");
    }
    if !place.is_dir() {
        eprintln!("fetching other programs, 6 GB, and compiling llama.cpp; this happens once");
    }
    let fetched = python::tools(home, "peers", &source).context("other programs cannot be fetched");
    let mut command = Command::new(fetched.inspect_err(|error| drop(FAILED.set(format!("{error:#}"))))?);
    command.arg("-P").arg(source.join("peers.py")).arg(peer).arg("--files").arg(place.join("models"));
    command.arg("--smollm2").arg(Model::Smollm2.path(home));
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    command.arg("--processors").arg(processors.to_string());
    command.env("PYTHONPATH", &source).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(checkout.support_crate());
    Ok(command)
}

/// The right to measure on this machine, whoever asks and from whatever home; it ends with the process at the latest.
fn alone() -> Result<UnixListener> {
    let name = SocketAddr::from_abstract_name("quantlab-measuring")?;
    let mut waits = false;
    loop {
        match UnixListener::bind_addr(&name) {
            Ok(alone) => return Ok(alone),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if !std::mem::replace(&mut waits, true) {
                    eprintln!("waiting for another measurement on this machine");
                }
                thread::sleep(Duration::from_secs(1));
            }
            Err(error) => return Err(error).context("cannot see whether somebody measures on this machine"),
        }
    }
}

/// Runs a benchmark of sources in the state `at`, whose messages go where this program's do; what it writes itself goes
/// through `folder`.
///
/// # Errors
/// A benchmark that fails, or has no rows of this model; sources that were changed meanwhile.
pub fn measure(ready: Ready, unit: &Unit, checkout: &Checkout, at: &str, folder: &Path) -> Result<Measured> {
    let Unit { benchmark, model, arguments, .. } = unit;
    let Ready { mut command, _alone } = ready;
    let file = folder.join("rows-of-quality");
    match benchmark.as_str() {
        "inference" => command.args(["--json", "--no-plot", "--model", model]),
        "quality" => command.arg(model).arg("--json").arg(&file),
        _ => command.args(["--model", model]),
    };
    end_with_this_process(&mut command);
    let began = Some(now()?);
    let done = command.args(arguments).stderr(Stdio::inherit()).output().context("cannot start the benchmark")?;
    let from_file = fs::read(&file);
    remove_if_there(&file)?;
    ensure!(done.status.success(), "the benchmark ended with {}; its messages are above", done.status);
    let rows = match benchmark.as_str() {
        "quality" => {
            let all: Value = serde_json::from_slice(&from_file.context("the benchmark wrote no file")?)?;
            let of_model = |row: &Value| {
                let mut row = row.clone();
                row["model"] = all["model"].clone();
                row
            };
            all["rows"].as_array().into_iter().flatten().map(of_model).collect()
        }
        _ => {
            let said = String::from_utf8_lossy(&done.stdout);
            let lines = said.lines().filter(|line| line.starts_with('{'));
            lines.map(serde_json::from_str).collect::<serde_json::Result<Vec<Value>>>()?
        }
    };
    // Another program may have none: what takes it too long is left out.
    if rows.is_empty() && is_ours(unit) || rows.iter().any(|row| row["model"] != model.as_str()) {
        bail!("the benchmark has no rows of this model\n  try: models in `models`, no `--json` among the arguments");
    }
    ensure!(state(checkout)? == at, "the library or the benchmark was changed while it was measured");
    let (machine, date, state) = (host_name(), now()?, at.to_owned());
    Ok(Measured { unit: unit.clone(), processor: processor(), machine, began, date, state, note: None, rows })
}

/// UTC, as 2026-12-31 23:59.
fn now() -> Result<String> {
    let date = Command::new("date").args(["-u", "+%F %R"]).output().context("there is no `date`")?.stdout;
    Ok(String::from_utf8_lossy(&date).trim().to_owned())
}

/// What this machine calls itself.
pub fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// What changes speeds and numbers on one processor, where it is set.
const SETTINGS: [&str; 2] = ["QUANTLAB_CPU_ISA", "RAYON_NUM_THREADS"];

/// What kind of processor this is, how many of it are there, what is set otherwise, and which GPUs are beside it:
/// machines of which this is the same are taken for the same.
pub fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let gpus = output_of(Command::new("nvidia-smi").args(["--query-gpu=name", "--format=csv,noheader"]));
    described(count, &cpuinfo, non_empty_var, &gpus.unwrap_or_default())
}

fn described(count: usize, cpuinfo: &str, setting: impl Fn(&str) -> Option<OsString>, gpus: &str) -> String {
    // x86 has the first three, ARM the others; a virtual machine may hide the name.
    let names = ["model name", "cpu family", "model", "CPU implementer", "CPU part"];
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        let value = line.split_once(':')?.1.trim();
        Some(if name == "model name" { value.to_owned() } else { format!("{name} {value}") })
    };
    let settings = SETTINGS.into_iter().filter_map(|name| Some(format!("{name}={}", setting(name)?.to_string_lossy())));
    let gpus: BTreeSet<String> = gpus.lines().map(|name| format!("GPU {}", name.trim())).collect();
    let all: Vec<String> = names.into_iter().filter_map(field).chain(settings).chain(gpus).collect();
    format!("{count} x {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_differ_by_whatever_changes_a_number() {
        let cpuinfo = "processor\t: 0\nmodel name\t: P\ncpu family\t: 6\nmodel\t\t: 143\n";
        let none = |_: &str| None;
        assert_eq!(described(2, cpuinfo, none, ""), "2 x P, cpu family 6, model 143");
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(described(4, arm, none, ""), "4 x CPU implementer 0x41, CPU part 0xd0c");
        let avx2 = |name: &str| (name == "QUANTLAB_CPU_ISA").then(|| "avx2".into());
        let found = described(2, cpuinfo, avx2, "H\nH\n");
        assert_eq!(found, "2 x P, cpu family 6, model 143, QUANTLAB_CPU_ISA=avx2, GPU H");
    }
}
