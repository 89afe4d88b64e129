//! `cargo lab sweep`: the same measurements of many models in one table, to which other machines may add theirs.

mod elsewhere;
mod page;
mod table;
mod unit;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
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
    /// Measure nothing: write the tables of what there is, as where folders of several machines were copied into one
    #[arg(long, conflicts_with = "scheduler")]
    tables: bool,
    /// Also write each table as Parquet
    #[arg(long)]
    parquet: bool,
    /// Also write speeds, program beside program, into a Markdown page, between `<!-- sweep: NAME -->` and `<!-- end -->`,
    /// where NAME is the folder's
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
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
    /// Other programs that are measured as `inference` is, each with its formats: `llama.cpp:q8_0,q4_0`.
    #[serde(default)]
    peers: Vec<String>,
    /// How many times everything is measured; a model's programs take turns.
    turns: Option<usize>,
}

/// What is measured at once: rows of one model, which the benchmark takes in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Unit {
    /// One of the library's, or the name of another program.
    benchmark: String,
    model: String,
    arguments: Vec<String>,
    /// From 1.
    #[serde(default = "first_turn")]
    turn: usize,
}

/// What was measured before there were turns.
fn first_turn() -> usize {
    1
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { benchmark, model, turn, .. } = self;
        write!(f, "{} of {}", plain(benchmark), plain(model))?;
        if *turn > 1 { write!(f, ", turn {turn}") } else { Ok(()) }
    }
}

/// What came of a unit.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    unit: Unit,
    processor: String,
    machine: String,
    /// When it began, as `date`; what was measured before does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<String>,
    /// When it ended: UTC, as 2026-12-31 23:59.
    date: String,
    /// Of the library and all that it is built from.
    state: String,
    /// Where the rows are from, if they were not measured by a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
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
    ensure!(output != request.settings, "{} has no ending\n  try: --output FOLDER", output.display());
    let output = std::path::absolute(output)?;
    let folder = output.join("measured");
    if let Some(page) = &request.page {
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        page::place(&text, &output, page)?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let failed = match &request.scheduler {
        _ if request.tables => Ok(Vec::new()),
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
    ensure!(failed.is_empty(), "{} failed; the same command tries again\n  {}", failed.len(), failed.join("\n  "));
    // Of all that the settings say: in the place of a table that had it all, half of one would be a loss.
    request.page.as_ref().map_or(Ok(()), |page| page::write(&table::measured(&folder)?, &output, page))
}

/// Measures on this machine; returns what failed.
fn here(units: &[Unit], checkout: &Checkout, folder: &Path) -> Result<Vec<String>> {
    let (processor, mut failed) = (processor(), Vec::new());
    for (number, unit) in units.iter().enumerate() {
        let title = format!("[{}/{}] {unit}", number + 1, units.len());
        let state = state(checkout)?;
        if place(folder, unit, &processor, &state).exists() {
            println!("{title}: measured before");
            continue;
        }
        println!("{title}");
        let done = unit::ready(unit, checkout)
            .and_then(|ready| unit::measure(ready, unit, checkout, &state, folder))
            .and_then(|measured| keep(folder, &measured));
        failed.extend(done.err().map(|error| format!("{unit}: {error:#}")));
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
    let peers = content_key_of(checkout.root(), &[unit::PEERS])?;
    Ok(digest(&(content_key(&support_crate)? + &content_key_of(&support_crate, &["benches"])? + &peers)))
}

/// Every model with every benchmark and program, and that as many times as there are turns.
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
    let Settings { models, inference, quality, peers, turns } = settings;
    let mut programs = Vec::new();
    for peer in &peers {
        let (name, formats) = peer
            .split_once(':')
            .with_context(|| format!("{}: {peer:?} names no formats\n  try: {peer}:FORMAT,FORMAT", named()))?;
        let own = ["--precision".to_owned(), formats.to_owned()];
        programs.push((name, inference.clone().unwrap_or_default().into_iter().chain(own).collect()));
    }
    let own = [("inference", inference), ("quality", quality)];
    let own = own.into_iter().filter_map(|(benchmark, arguments)| Some((benchmark, arguments?)));
    let programs: Vec<(&str, Vec<String>)> = own.chain(programs).collect();
    let mut units = Vec::new();
    for turn in 1..=turns.unwrap_or(1) {
        for model in &models {
            for (benchmark, arguments) in &programs {
                let (benchmark, model, arguments) = ((*benchmark).to_owned(), model.clone(), arguments.clone());
                let unit = Unit { benchmark, model, arguments, turn };
                // Named twice, it is measured once; and quality is the same each time.
                if !units.contains(&unit) && (turn == 1 || unit.benchmark != "quality") {
                    units.push(unit);
                }
            }
        }
    }
    ensure!(
        !units.is_empty(),
        "{}: nothing is to be measured\n  try: `models` and one of `inference` and `quality`, lists of strings",
        named()
    );
    Ok(units)
}

/// The same for the same measurement of the same library on the same kind of processor.
fn place(folder: &Path, unit: &Unit, processor: &str, state: &str) -> PathBuf {
    let Unit { benchmark, model, arguments, turn } = unit;
    let key = digest(&[benchmark, model, &arguments.join("\0"), &turn.to_string(), processor, state].join("\n"));
    folder.join(&key[..32]).with_extension("json")
}
