//! What loading takes. Each load has a process of its own: in one that has loaded before, the allocator
//! has memory at hand, and the peak is that of everything so far.

use std::borrow::Cow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use quantlab::error::{Error, Result};
use quantlab::measure::{Statistics, peak_memory};
use quantlab::model::{Engine, LoadOptions, Precision, load_model};
use quantlab::source::{ModelFiles, ModelId, WeightSource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::{MIB, SCRATCH, Variant};

/// What loading a model took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Load {
    pub load_s: f64,
    pub weights_mib: f64,
    pub peak_rss_mib: f64,
}

/// The model's id, or the folder of a checkpoint of it if its weights would be made on the spot. That is in the format
/// that the model was published in, and is written once and kept with the build.
pub fn on_disk(model: &str) -> Result<Cow<'_, str>> {
    let files = model.parse::<ModelId>()?.resolve()?;
    if !matches!(files.weights, WeightSource::Random { .. }) {
        return Ok(model.into());
    }
    let folder = Path::new(SCRATCH).join(format!("made-{}", model.replace(':', "-")));
    // A folder is a checkpoint from when its config is there.
    if !folder.join("config.json").is_file() {
        eprintln!("writing {model} to {}", folder.display());
        let precision = published_in(&files)?;
        load_model(&[model], &LoadOptions { precision, ..LoadOptions::default() })?.save_pretrained(&folder)?;
    }
    Ok(folder.to_string_lossy().into_owned().into())
}

/// The model, or the GGUF file of it that the variant wants, which is written once and kept with the build.
///
/// # Errors
/// A GGUF file for another engine, which would restore its blocks; of a model that was not made on the spot.
pub fn as_file<'a>(model: &'a str, variant: &Variant) -> Result<Cow<'a, str>> {
    let Some(kind) = variant.format.gguf() else { return Ok(model.into()) };
    if variant.engine != Engine::Kernels || !variant.device.is_cpu() {
        return Err(Error::input(format!("{} is measured on the engine kernels only", variant.format))
            .hint("other engines restore the blocks of a GGUF file, to what float32 and bfloat16 measure"));
    }
    let folder = on_disk(model)?;
    if !Path::new(&*folder).starts_with(SCRATCH) {
        return Err(Error::input(format!("no GGUF file is made of {model}, only of random shapes"))
            .hint("`save_gguf` writes one; measure that by its path, with `--precision float32`"));
    }
    let file = format!("{folder}.{}.gguf", kind.name());
    if !Path::new(&file).is_file() {
        eprintln!("writing {file}");
        let precision = published_in(&folder.parse::<ModelId>()?.resolve()?)?;
        load_model(&[&*folder], &LoadOptions { precision, ..LoadOptions::default() })?.save_gguf(&file, kind, None)?;
    }
    Ok(file.into())
}

/// What the weights of a checkpoint were published in.
fn published_in(files: &ModelFiles) -> Result<Precision> {
    let config: Value = serde_json::from_slice(&files.config.read()?)?;
    config["torch_dtype"].as_str().unwrap_or("float32").parse()
}

/// Loads the model and prints what that took.
pub fn measure_here(model: &str, variant: &Variant) -> Result<()> {
    let start = Instant::now();
    let loaded = variant.load(model)?;
    let load_s = start.elapsed().as_secs_f64();
    let info = loaded.model.info();
    // With scales: blocks of a GGUF file have theirs inside.
    let weights_mib = (info.parameter_bytes + info.quant_state_bytes) as f64 / MIB;
    let load = Load { load_s, weights_mib, peak_rss_mib: peak_memory()? as f64 / MIB };
    println!("{}", serde_json::to_string(&load)?);
    Ok(())
}

/// The medians of what each variant's loading took, the variants in turn.
pub fn measure(model: &str, variants: &[Variant], arguments: &Arguments) -> Result<Vec<Load>> {
    eprintln!("loading {} variants, each {} times", variants.len(), arguments.repeats);
    // What is written for a first load is not part of it.
    variants.iter().try_for_each(|variant| as_file(model, variant).map(drop))?;
    // The same files for all: one load brings them into the system's cache.
    in_a_process(model, &variants[0], arguments)?;
    let mut loads = vec![Vec::new(); variants.len()];
    for _ in 0..arguments.repeats {
        for (variant, loads) in variants.iter().zip(&mut loads) {
            loads.push(in_a_process(model, variant, arguments)?);
        }
    }
    loads.iter().map(|loads| median(loads)).collect()
}

fn in_a_process(model: &str, variant: &Variant, arguments: &Arguments) -> Result<Load> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--load-only", "--model", model, "--engine", variant.engine.name()]);
    command.args(["--precision", &variant.format.to_string()]);
    command.args((!variant.device.is_cpu()).then_some("--gpu"));
    command.args(arguments.threads.map(|threads| format!("--threads={threads}")));
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Error::system(format!("loading {model} in a process of its own ended with {}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn median(loads: &[Load]) -> Result<Load> {
    let statistics = |value: fn(&Load) -> f64| Statistics::of(&loads.iter().map(value).collect::<Vec<_>>());
    Ok(Load {
        load_s: statistics(|load| load.load_s)?.median,
        weights_mib: statistics(|load| load.weights_mib)?.median,
        peak_rss_mib: statistics(|load| load.peak_rss_mib)?.median,
    })
}
