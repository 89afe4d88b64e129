//! One measurement, on this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Measured, Unit, state};
use crate::check;
use crate::checkout::Checkout;
use crate::home::remove_if_there;

/// Runs a benchmark of sources in this state, whose messages go where this program's do; what it writes itself goes through
/// `folder`.
///
/// # Errors
/// A benchmark that cannot be built, fails, or has no rows of this model; sources that were changed meanwhile.
pub fn measure(unit: &Unit, checkout: &Checkout, at: &str, folder: &Path) -> Result<Measured> {
    let Unit { benchmark, model, arguments } = unit;
    let file = folder.join("rows-of-quality");
    let mut command = check::bench(checkout, benchmark)?;
    match benchmark.as_str() {
        "inference" => command.args(["--json", "--no-plot", "--model", model]),
        "quality" => command.arg(model).arg("--json").arg(&file),
        other => bail!("there is no benchmark {other}"),
    };
    let done = command.args(arguments).stderr(Stdio::inherit()).output().context("cannot start Cargo")?;
    let from_file = fs::read(&file);
    remove_if_there(&file)?;
    if !done.status.success() {
        bail!("the benchmark ended with {}; its messages are above", done.status);
    }
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
    if rows.is_empty() || rows.iter().any(|row| row["model"] != model.as_str()) {
        bail!("the benchmark has no rows of this model\n  try: models in `models`, no `--json` among the arguments");
    }
    if state(checkout)? != at {
        bail!("the library or the benchmark was changed while it was measured");
    }
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let date = Command::new("date").args(["-u", "+%F"]).output().context("there is no `date`")?.stdout;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    Ok(Measured { unit: unit.clone(), processor: processor(), machine, date, state: at.to_owned(), rows })
}

/// What kind of processor this is, and how many of it are there: machines of which this is the same are taken for the same.
pub fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // x86 has the first three, ARM the others; a virtual machine may hide the name.
    let names = ["model name", "cpu family", "model", "CPU implementer", "CPU part"];
    let field = |name: &&str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == *name))?;
        let value = line.split_once(':')?.1.trim();
        Some(if *name == "model name" { value.to_owned() } else { format!("{name} {value}") })
    };
    let fields: Vec<String> = names.iter().filter_map(field).collect();
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{count} x {}", fields.join(", "))
}
