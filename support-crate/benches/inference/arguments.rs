//! What the command line says.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, value_parser};
use quantlab::model::{CacheFormat, Device, Engine, best_device};

use crate::Variant;
use crate::format::Format;

const METHOD: &str = "\
Each row is one engine, one precision, one batch size and one format of keys and values, on one device, and in JSON also one length of the prompt:
  prefill_ms         time to the first new token after a prompt of that many tokens (prompt)
  decode_tok_s       tokens of all sequences per second from the first new one to the 64th, after a prompt of
                     --context tokens (context): after a long one, attention counts
  cache_mib          memory of the keys and values of that decode
  load_s             loading from disk, with all files in the system's cache, in a process of its own
  weights_mib        memory that the weights take, with the scales of quantized ones; biases and norms are float32
                     whatever the precision, and a quantized head of a model that ties it to the embedding is a second
                     copy of that
  peak_rss_mib       the most resident memory of that process, libraries included
  bandwidth_gb_s     what that many threads, or the GPU, read from memory, measured before each round
  fraction_of_limit  decode steps per second, as a fraction of what this bandwidth allows if each reads all weights
                     once; keys and values of the context come on top of these, and are not counted

Quantized formats are made while loading, in bitsandbytes' default configuration, except for the format that 4-bit
weights are multiplied in: that, the embeddings, and the head unless the name says otherwise, are bfloat16, or float32
with +float32. static-int8 is first calibrated on a few sentences, per tensor and by the absolute maximum: its load_s
and peak_rss_mib include the model in full precision that this takes. q8_0, q4_0+head6 and q4_k_m are GGUF files of a
random shape, written once, as llama-quantize makes them, and loaded as they are. The environment variable
QUANTLAB_CPU_ISA (scalar, avx2, avx2-vnni, avx512, avx512-vnni, avx512-bf16; on ARM64 neon, neon-dotprod, neon-bf16)
keeps the kernels from using later instructions; amx makes them use Intel's tiles without trying first
whether they are faster.

Prompts are random tokens, the most likely token is taken each time, and nothing stops early. Numbers are medians of the
repeats, which are taken in rounds in which each row has its turn, so that a drifting machine affects all alike; one
round before them does not count. (Models that together need more than half of the free memory are measured one after
the other.)

At the end, the first model decodes with the first engine and precision, with and without the KV cache: a plot of how
the time grows.";

/// Where the plot goes unless told otherwise: into the build folder.
const PLOT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/decode-cost.svg");

/// The arguments, checked as far as that needs no model.
pub struct Arguments {
    pub models: Vec<String>,
    pub engines: Vec<Engine>,
    /// Where they compute.
    pub device: Device,
    pub formats: Vec<Format>,
    pub batches: Vec<usize>,
    /// Lengths of the prompts that prefill is timed with, in tokens.
    pub prompts: Vec<usize>,
    /// Length of the prompt that decode starts from, in tokens.
    pub context: usize,
    /// Formats of keys and values; that of the model if there are none.
    pub caches: Vec<CacheFormat>,
    pub threads: Option<usize>,
    pub repeats: usize,
    pub json: bool,
    /// Where the plot goes, if one is wanted.
    pub plot: Option<PathBuf>,
    /// Where the plot of memory, speed and quality goes, if it is wanted.
    pub trade_off: Option<PathBuf>,
    /// Rates of requests to serve, per second; if there are any, nothing else is measured.
    pub serve: Vec<f64>,
    /// Load the model, say what that took, and end: what the process of one load does.
    pub load_only: bool,
}

impl Arguments {
    /// The arguments of this process. Ends it after printing help, or what is wrong with them.
    pub fn parse() -> Self {
        let mut matches = command().get_matches();
        let plot = matches.remove_one("plot").filter(|_| !matches.get_flag("no-plot"));
        let gpu = matches.get_flag("gpu");
        let device = if gpu { best_device() } else { Device::Cpu };
        if gpu && device.is_cpu() {
            command().error(ErrorKind::InvalidValue, "--gpu: libtorch sees no GPU that it can use").exit();
        }
        Self {
            device,
            models: matches.remove_many("model").into_iter().flatten().collect(),
            engines: matches.remove_many("engine").into_iter().flatten().collect(),
            formats: matches.remove_many("precision").into_iter().flatten().collect(),
            batches: matches.remove_many("batch").into_iter().flatten().collect(),
            prompts: matches.remove_many("prompt").into_iter().flatten().collect(),
            context: matches.remove_one("context").unwrap_or_default(),
            caches: matches.remove_many("cache").into_iter().flatten().collect(),
            threads: matches.remove_one("threads"),
            repeats: matches.remove_one("repeats").unwrap_or_default(),
            json: matches.get_flag("json"),
            plot,
            trade_off: matches.remove_one("trade-off"),
            serve: matches.remove_many("serve").into_iter().flatten().collect(),
            load_only: matches.get_flag("load-only"),
        }
    }

    /// Every engine with every precision.
    pub fn variants(&self) -> Vec<Variant> {
        let device = self.device;
        let with_each =
            |&engine| self.formats.iter().map(move |format| Variant { engine, device, format: format.clone() });
        self.engines.iter().flat_map(with_each).collect()
    }
}

fn command() -> Command {
    let list = |name: &'static str, default: &'static str| {
        Arg::new(name).long(name).value_name("LIST").value_delimiter(',').default_value(default)
    };
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let at_least_one = RangedU64ValueParser::<usize>::new().range(1..);
    Command::new("inference")
        .about("Measures how fast models answer, for each combination of model, engine, precision and batch size.")
        .after_help(METHOD)
        .arg(list("model", "random:gpt2").help(
            "Repositories on the Hub, folders, .gguf files, `smollm2`, `smollm2:float32`, `embedded`, or a random \
             shape such as random:gpt2, which is written to disk first",
        ))
        .arg(list("engine", "kernels").alias("backend").value_parser(value_parser!(Engine)).help(
            "What computes: kernels (this library's own), candle, tch (libtorch). Static int8 is computed only by \
             kernels. candle-ops and tch-ops are former names of candle and tch",
        ))
        .arg(flag("gpu").help("Compute on the GPU, by --engine tch"))
        .arg(list("precision", "float32,bfloat16").value_parser(value_parser!(Format)).help(
            "Formats of the weights: float32, bfloat16, int8, static-int8, nf4, fp4, int4-32, w4a8-32, ...; nf4+head8 \
             with the head in int8, nf4+head with the head in nf4, \
             nf4+float32 with all but the quantized weights in float32 instead of bfloat16, ...; and q8_0, q4_0+head6 \
             and q4_k_m, GGUF files of a random shape",
        ))
        .arg(list("batch", "1,8").value_parser(at_least_one).help("How many sequences are generated at once"))
        .arg(list("prompt", "128").value_parser(at_least_one).help("Tokens in the prompts that prefill is timed with"))
        .arg(
            option("context", "N")
                .value_parser(at_least_one)
                .default_value("16")
                .help("Tokens in the prompt that decode starts from"),
        )
        .arg(
            option("cache", "LIST")
                .value_delimiter(',')
                .value_parser(value_parser!(CacheFormat))
                .help("Formats of keys and values: float32, float16, int8, int4 [default: float32; GPU: the model's]"),
        )
        .arg(
            option("threads", "N")
                .value_parser(value_parser!(usize))
                .help("Threads that compute [default: one for each physical core]"),
        )
        .arg(option("repeats", "N").value_parser(at_least_one).default_value("7").help("How many runs count"))
        .arg(flag("json").help("Print one JSON object per line instead of a table"))
        .arg(
            option("plot", "SVG")
                .value_parser(value_parser!(PathBuf))
                .default_value(PLOT)
                .help("Where to write the plot of the decode cost"),
        )
        .arg(
            option("trade-off", "FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Also plot memory against speed, with the perplexity of the embedded model, as PNG or SVG"),
        )
        .arg(option("serve", "LIST").value_delimiter(',').value_parser(value_parser!(f64)).help(
            "Instead of all this, serve requests of the first model that come at random, so many a second: static \
                 batches of at most the largest --batch against continuous batching",
        ))
        .arg(flag("no-plot").help("Draw no plot"))
        .arg(flag("load-only").hide(true))
        // Cargo adds it.
        .arg(flag("bench").hide(true))
}
