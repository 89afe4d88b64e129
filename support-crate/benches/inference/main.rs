//! How fast models answer: one row for each combination of model, engine, precision and batch size.
//!
//! `cargo lab exec cargo bench -p quantlab --bench inference -- --json` prints a JSON object a line,
//! without `--json` a table; `--help` says what is measured how. What is timed is what a notebook times:
//! the library's `Loaded::time`.

mod arguments;
mod decode_cost;
mod format;
mod load;
mod row;
mod serving;
mod speed;
mod trade_off;

use std::process::ExitCode;

use arguments::Arguments;
use format::Format;
use quantlab::error::{Error, Result};
use quantlab::measure::{BUILD, available_memory};
use quantlab::model::{DecoderConfig, Device, Engine, LoadOptions, Loaded, load_model, set_threads};
use quantlab::source::ModelId;
use row::Row;

/// Where checkpoints are kept: in the build folder.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

const MIB: f64 = 1024.0 * 1024.0;

/// The share of the free memory that models may take at once; caches need some, and so does the buffer
/// that the memory bandwidth is measured with.
const SHARE_OF_MEMORY: f64 = 0.5;

/// One way to load the model.
#[derive(Debug, Clone)]
struct Variant {
    engine: Engine,
    device: Device,
    format: Format,
}

impl Variant {
    fn load(&self, model: &str) -> Result<Loaded> {
        let model = &*load::as_file(model, self)?;
        let (engine, precision) = (Some(self.engine), self.format.precision);
        let options = LoadOptions { engine, precision, device: self.device, ..LoadOptions::default() };
        let quantization = self.format.quantization(|| load_model(&[model], &options))?;
        load_model(&[model], &LoadOptions { quantization, ..options })
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Makes sure that the model reads texts as long as those that are measured, before the loads, which take
/// minutes.
fn check_context(model: &str, arguments: &Arguments) -> Result<()> {
    let context_len = DecoderConfig::read(&model.parse::<ModelId>()?.resolve()?.config)?.context_len;
    let of_rows = speed::context_needed(arguments);
    let needed = of_rows.max(arguments.plot.as_ref().map_or(0, |_| decode_cost::CONTEXT_NEEDED));
    if context_len < needed {
        return Err(Error::input(format!(
            "the context of {model} is {context_len} tokens, but the measurement needs {needed}"
        ))
        .hint(format!(
            "use a model with a longer context, or shorter `--prompt` and `--context`; with `--no-plot`, {of_rows} \
             tokens are enough"
        )));
    }
    Ok(())
}

fn run(arguments: &Arguments) -> Result<()> {
    if BUILD == "debug" {
        // Cargo writes the library of tests and of benchmarks to one file, and takes the former for the latter.
        return Err(Error::system("this library checks itself, as it does for tests, and is slow").hint(
            "`touch support-crate/src/lib.rs`, and run the benchmark again: Cargo then builds it for benchmarks",
        ));
    }
    quantlab::progress_on_stderr();
    if let Some(threads) = arguments.threads {
        set_threads(threads)?;
    }
    let variants = arguments.variants();
    let first = &arguments.models[0];
    if arguments.load_only {
        return load::measure_here(first, &variants[0]);
    }
    if !arguments.serve.is_empty() {
        return variants.iter().try_for_each(|variant| {
            serving::measure(&variant.load(first)?, first, variant.format.name(), &arguments.serve, arguments)
        });
    }
    arguments.models.iter().try_for_each(|model| check_context(model, arguments))?;
    for model in &arguments.models {
        let rows = measure(model, &variants, arguments)?;
        row::print(&rows, model, arguments)?;
        if let Some(path) = arguments.trade_off.as_ref().filter(|_| model == first) {
            trade_off::plot(&rows, path, model)?;
        }
    }
    match &arguments.plot {
        Some(path) => {
            // Under the name that was asked for, not that of the checkpoint made for it.
            let loaded = Loaded { model_id: first.clone(), ..variants[0].load(&load::on_disk(first)?)? };
            decode_cost::plot(&loaded, path, arguments)
        }
        None => Ok(()),
    }
}

/// The rows of one model.
fn measure(model: &str, variants: &[Variant], arguments: &Arguments) -> Result<Vec<Row>> {
    let model = load::on_disk(model)?;
    let loads = load::measure(&model, variants, arguments)?;
    let needed = loads.iter().map(|load| load.weights_mib * MIB).sum::<f64>();
    let is_room = available_memory().is_none_or(|free| needed < SHARE_OF_MEMORY * free as f64);
    let at_once = if is_room { variants.len() } else { 1 };
    let mut rows = Vec::new();
    for (variants, loads) in variants.chunks(at_once).zip(loads.chunks(at_once)) {
        let models = variants.iter().map(|variant| variant.load(&model)).collect::<Result<Vec<_>>>()?;
        let speeds = speed::measure(&models, arguments)?;
        for ((variant, &load), speeds) in variants.iter().zip(loads).zip(speeds) {
            rows.extend(speeds.into_iter().map(|speed| Row::new(variant, load, speed)));
        }
    }
    Ok(rows)
}
