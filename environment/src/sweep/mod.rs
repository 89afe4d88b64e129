//! `cargo lab sweep`: the same measurements of many models in one table, to which other machines may add theirs.

mod elsewhere;
mod table;
mod unit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::home::{Home, write_atomically};
use crate::jupyter::sources::{content_key, content_key_of};
use crate::setup::{self, digest};
use crate::ui::plain;
pub use elsewhere::measure_one;
pub use unit::processor;

/// What `cargo lab sweep` is asked for.
#[derive(Debug, clap::Args)]
pub struct Request {
    /// A TOML file that says what is measured of which models
    settings: PathBuf,
    /// Folder for the tables, and for what they are made from [default: SETTINGS without its ending]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Have it measured by the workers of this Dask scheduler, by each kind of processor (`cargo lab dask`)
    #[arg(long, value_name = "ADDRESS")]
    scheduler: Option<String>,
    /// Also write each table as Parquet
    #[arg(long)]
    parquet: bool,
}

/// What a settings file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    models: Vec<String>,
    /// Arguments of the benchmark `inference`, but for its model.
    inference: Option<Vec<String>>,
    /// Those of the benchmark `quality`.
    quality: Option<Vec<String>>,
}

/// What is measured at once: rows of one model, which the benchmark takes in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Unit {
    benchmark: String,
    model: String,
    arguments: Vec<String>,
}

/// What came of a unit.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    unit: Unit,
    processor: String,
    machine: String,
    /// UTC, as 2026-12-31.
    date: String,
    /// Of the library and all that it is built from.
    state: String,
    rows: Vec<Value>,
}

/// Measures what has not been measured yet, and writes the tables.
///
/// # Errors
/// Settings that cannot be read; units that could not be measured, of which each is named.
pub fn sweep(request: &Request) -> Result<()> {
    let checkout = Checkout::find()?;
    setup::setup(&checkout, &setup::Request::default())?;
    let home = Home::find()?;
    let units = units(&home, &request.settings)?;
    let output = request.output.clone().unwrap_or_else(|| request.settings.with_extension(""));
    if output == request.settings {
        bail!("{} has no ending\n  try: --output FOLDER", output.display());
    }
    let output = std::path::absolute(output)?;
    let folder = output.join("measured");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let failed = match &request.scheduler {
        Some(scheduler) => by_workers(&home, scheduler, &units, &checkout, &folder),
        None => here(&units, &checkout, &folder),
    };
    // Of what there is, however that ended.
    for file in table::write(&folder, &output)? {
        println!("{}", file.display());
        if request.parquet {
            println!("{}", table::parquet(&home, &checkout, &file)?.display());
        }
    }
    let failed = failed?;
    if !failed.is_empty() {
        bail!("{} failed; the same command tries again\n  {}", failed.len(), failed.join("\n  "));
    }
    Ok(())
}

/// Measures on this machine; returns what failed.
fn here(units: &[Unit], checkout: &Checkout, folder: &Path) -> Result<Vec<String>> {
    let (processor, mut failed) = (processor(), Vec::new());
    for (number, unit) in units.iter().enumerate() {
        let Unit { benchmark, model, .. } = unit;
        let title = format!("[{}/{}] {benchmark} of {}", number + 1, units.len(), plain(model));
        let state = state(checkout)?;
        if place(folder, unit, &processor, &state).exists() {
            println!("{title}: measured before");
            continue;
        }
        println!("{title}");
        let done = unit::ready(unit, checkout)
            .and_then(|ready| unit::measure(ready, unit, checkout, &state, folder))
            .and_then(|measured| keep(folder, &measured));
        failed.extend(done.err().map(|error| format!("{benchmark} of {}: {error:#}", plain(model))));
    }
    Ok(failed)
}

/// Has workers measure; returns what failed.
fn by_workers(home: &Home, scheduler: &str, units: &[Unit], checkout: &Checkout, folder: &Path) -> Result<Vec<String>> {
    let (state, before) = (state(checkout)?, table::measured(folder)?);
    elsewhere::measure_all(home, scheduler, units, &state, &before, &mut |measured| keep(folder, measured))
}

/// Puts a measurement where the next run, and the tables, find it.
fn keep(folder: &Path, measured: &Measured) -> Result<()> {
    let text = serde_json::to_vec_pretty(measured).context("a row is not JSON")?;
    write_atomically(&place(folder, &measured.unit, &measured.processor, &measured.state), &text)
}

/// The state of all that measures.
fn state(checkout: &Checkout) -> Result<String> {
    let support_crate = checkout.support_crate();
    Ok(digest(&(content_key(&support_crate)? + &content_key_of(&support_crate, &["benches"])?)))
}

/// Every model with every benchmark.
fn units(home: &Home, settings: &Path) -> Result<Vec<Unit>> {
    let named = || settings.display().to_string();
    // Python knows TOML.
    let mut python = Command::new(home.python_bin("python"));
    let program = "import json, sys, tomllib; print(json.dumps(tomllib.load(open(sys.argv[1], 'rb')), default=str))";
    python.args(["-P", "-c", program]).arg(settings);
    let done = python.output().context("cannot start Python\n  try: cargo lab setup")?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("{}: {}", named(), plain(said.lines().last().unwrap_or("it is no TOML")));
    }
    let settings: Settings = serde_json::from_slice(&done.stdout).with_context(named)?;
    let mut units = Vec::new();
    for (benchmark, arguments) in [("inference", settings.inference), ("quality", settings.quality)] {
        let Some(arguments) = arguments else { continue };
        for model in &settings.models {
            let unit = Unit { benchmark: benchmark.to_owned(), model: model.clone(), arguments: arguments.clone() };
            // Named twice, it is measured once.
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
    }
    if units.is_empty() {
        bail!(
            "{}: nothing is to be measured\n  try: `models` and one of `inference` and `quality`, lists of strings",
            named()
        );
    }
    Ok(units)
}

/// The same for the same measurement of the same library on the same kind of processor.
fn place(folder: &Path, unit: &Unit, processor: &str, state: &str) -> PathBuf {
    let Unit { benchmark, model, arguments } = unit;
    let key = digest(&[benchmark.as_str(), model, &arguments.join("\0"), processor, state].join("\n"));
    folder.join(&key[..32]).with_extension("json")
}
