//! Trains the small GPT-2 that ships with quantlab, from text that every Rust machine has.
//!
//! The stages, each of which picks up what the one before it left in the work folder:
//! the texts and the tokenizer (`corpus`), the weights (`train`), the files that ship (`export`, `finish`, `card`).
//! Those can be measured again at any time (`card`).

mod batches;
mod card;
mod corpus;
mod evaluate;
mod export;
mod history;
mod model;
mod optimizer;
mod phase;
mod quantize;
mod tokenizer;
mod train;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tch::{Cuda, Device, Kind};
use tokenizers::Tokenizer;

use crate::batches::Batches;
use crate::corpus::docs::Documentation;
use crate::corpus::english::English;
use crate::corpus::facts::Facts;
use crate::model::Shape;
use crate::phase::{Budget, Phase};
use crate::train::{Plan, Run};

/// Trains the small GPT-2 that ships with quantlab: texts, tokenizer, weights, measures, model card.
///
/// Run it again to continue after a stop; remove the work folder to start over.
#[derive(Parser)]
struct Arguments {
    /// What to do; everything if not given.
    #[arg(value_enum, default_value_t = Stage::All)]
    stage: Stage,
    /// Where the finished model goes.
    #[arg(long, default_value = "support-crate/embedded")]
    out: PathBuf,
    /// Where checkpoints and texts are kept [default: embedded-model in quantlab's cache folder].
    #[arg(long)]
    work: Option<PathBuf>,
    /// Stop after this many tokens.
    #[arg(long, default_value_t = 22_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    tokens: u64,
    /// Stop after this many minutes of training instead.
    #[arg(long)]
    minutes: Option<f64>,
    /// Steps of finishing.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..))]
    finish_steps: u64,
    /// Where to compute.
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Kind of number for matrix products while training.
    #[arg(long, value_enum, default_value_t = Precision::Bfloat16)]
    precision: Precision,
    /// Threads [default: one per core].
    #[arg(long)]
    threads: Option<u16>,
    /// Rows of 512 tokens per step; a run that is continued must keep the number it was started with.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=4096))]
    rows: u64,
    /// Seed of the weights and of the order of the texts.
    #[arg(long, default_value_t = 42)]
    seed: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Everything.
    All,
    /// Extract the documentation and train the tokenizer.
    Corpus,
    /// Train the weights.
    Train,
    /// Write the trained model as it ships.
    Export,
    /// Train on from what ships, with rounded weights, so that quantization costs less, and without: the control.
    Finish,
    /// Measure the files that ship again, and write the measures into their card.
    Card,
}

#[derive(Clone, Copy, ValueEnum)]
enum DeviceChoice {
    /// A GPU where there is one.
    Auto,
    /// The processor.
    Cpu,
    /// The first GPU.
    Cuda,
}

#[derive(Clone, Copy, ValueEnum)]
enum Precision {
    /// Fast on recent processors and GPUs.
    Bfloat16,
    /// Exact; faster on processors without instructions for bfloat16.
    Float32,
}

/// How often each fact is in the text that the tokenizer is trained on.
const FACT_REPETITIONS: usize = 300;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(threads) = arguments.threads {
        tch::set_num_threads(i32::from(threads));
    }
    let device = device(arguments.device)?;
    if arguments.stage == Stage::Card {
        return export::measure(&arguments.out, arguments.finish_steps, device);
    }
    let work = arguments.work.clone().map_or_else(default_work_folder, Ok)?;
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;

    let documentation = Documentation::cached(&work.join("documentation.json"))?;
    let tokenizer = cached_tokenizer(&work.join("tokenizer.json"), &documentation, arguments.seed)?;
    let held_out = export::held_out_sample(&documentation.held_out);
    report_texts(&documentation, &held_out);
    if arguments.stage == Stage::Corpus {
        return Ok(());
    }

    let does = |stage| arguments.stage == Stage::All || arguments.stage == stage;
    let mut trained = Run::resume(&work, u64::from(arguments.seed), device)?;
    let train = |run: &mut Run, phase, tokenizer: &Tokenizer| -> Result<()> {
        let length = Shape::EMBEDDED.positions as usize;
        let batches = Batches::new(tokenizer.clone(), &documentation.train, length, u64::from(arguments.seed))?;
        println!(
            "{} tokens of documentation to train on; {} parameters",
            batches.documentation_tokens(),
            run.model.size()
        );
        run.train(plan(&arguments, phase, device), &batches, &tokenizer::encode(tokenizer, &held_out)?)
    };
    if does(Stage::Train) {
        train(&mut trained, Phase::Train(budget(&arguments)?), &tokenizer)?;
    }
    if arguments.stage == Stage::Train {
        return Ok(());
    }
    if does(Stage::Export) {
        let texts = card::Texts { documentation: &documentation, held_out: &held_out };
        export::export(&trained, &tokenizer, texts, device, &arguments.out)?;
    }
    if does(Stage::Finish) {
        let tokenizer = tokenizer::load(&arguments.out.join("tokenizer.json"))?;
        // Rows that training has not come to.
        let per_step = arguments.rows * Shape::EMBEDDED.positions as u64;
        let (after, steps) = (arguments.tokens.div_ceil(per_step), arguments.finish_steps);
        for (shipped, rounded) in [(export::FINISHED, true), (export::CONTROL, false)] {
            let folder = work.join(shipped.file.trim_end_matches(".safetensors"));
            let mut run = Run::onward(&folder, &arguments.out.join(export::TRAINED.file), after, device)?;
            train(&mut run, Phase::Finish { after, steps, rounded }, &tokenizer)?;
            export::write_weights(&run.model, &arguments.out, shipped)?;
            // The next time it starts from what ships then.
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        export::measure(&arguments.out, arguments.finish_steps, device)?;
    }
    Ok(())
}

/// The folder for embedded-model work in quantlab's cache, or in that of the user.
fn default_work_folder() -> Result<PathBuf> {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let quantlab = from("QUANTLAB_HOME")
        .or_else(|| Some(from("XDG_CACHE_HOME")?.join("quantlab")))
        .or_else(|| Some(from("HOME")?.join(".cache/quantlab")))
        .or_else(|| Some(from("LOCALAPPDATA")?.join("quantlab")));
    let folder = quantlab.context("cannot find your home folder; name a folder with --work")?;
    Ok(folder.join("embedded-model"))
}

fn device(choice: DeviceChoice) -> Result<Device> {
    match choice {
        DeviceChoice::Auto => Ok(Device::cuda_if_available()),
        DeviceChoice::Cpu => Ok(Device::Cpu),
        DeviceChoice::Cuda if Cuda::is_available() => Ok(Device::Cuda(0)),
        DeviceChoice::Cuda => bail!("this libtorch finds no CUDA device; use --device cpu"),
    }
}

fn budget(arguments: &Arguments) -> Result<Budget> {
    match arguments.minutes {
        Some(minutes) if minutes > 0.0 => Ok(Budget::Seconds(minutes * 60.0)),
        Some(_) => bail!("--minutes must be above 0"),
        None => Ok(Budget::Tokens(arguments.tokens)),
    }
}

fn plan(arguments: &Arguments, phase: Phase, device: Device) -> Plan {
    Plan {
        phase,
        rows: arguments.rows,
        // On a CPU few rows at once keep the logits in its cache.
        rows_at_once: if device.is_cuda() { arguments.rows } else { 2 },
        device,
        kind: match arguments.precision {
            Precision::Bfloat16 => Kind::BFloat16,
            Precision::Float32 => Kind::Float,
        },
    }
}

/// The tokenizer of an earlier run, or a new one, trained on what the model will read.
fn cached_tokenizer(path: &Path, documentation: &Documentation, seed: u32) -> Result<Tokenizer> {
    if path.is_file() {
        return tokenizer::load(path);
    }
    let english = English::new();
    let mut rng = StdRng::seed_from_u64(u64::from(seed));
    let size: usize = documentation.train.iter().map(String::len).sum();
    let mut texts = documentation.train.clone();
    let mut generated = 0;
    while generated < size / 4 {
        let text = english.document(&mut rng);
        generated += text.len();
        texts.push(text);
    }
    // Often enough that most answers become one token, which makes them easy to look at.
    for fact in Facts::new().questions() {
        let sentence = format!("{}{}. ", fact.prompt, fact.answer);
        texts.push(sentence.repeat(FACT_REPETITIONS));
    }
    let tokenizer = tokenizer::train(texts.into_iter())?;
    tokenizer::save(&tokenizer, path)?;
    Ok(tokenizer)
}

fn report_texts(documentation: &Documentation, held_out: &str) {
    let bytes = |texts: &[String]| texts.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    println!(
        "{}: {} pages, {:.1} MB to train on; {} pages, {:.2} MB held out, of which {:.2} MB are measured",
        documentation.rust,
        documentation.train.len(),
        bytes(&documentation.train),
        documentation.held_out.len(),
        bytes(&documentation.held_out),
        held_out.len() as f64 / 1e6
    );
}
