//! The results, one row for each combination: as JSON or as a table.

use quantlab::error::Result;
use quantlab::measure::BUILD;
use quantlab::model::{CacheFormat, Device, threads};
use quantlab::report::Table;
use quantlab_kernels::thread_scope;
use serde::Serialize;

use crate::Variant;
use crate::arguments::Arguments;
use crate::load::Load;
use crate::speed::Speed;

/// What was measured of one combination.
pub struct Row {
    pub variant: Variant,
    pub load: Load,
    pub speed: Speed,
}

/// A row as it stands in the JSON, in this order.
#[derive(Serialize)]
struct Line<'a> {
    program: &'static str,
    model: &'a str,
    engine: &'static str,
    device: Device,
    precision: &'a str,
    batch: usize,
    prompt: usize,
    prefill_ms: f64,
    context: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheFormat>,
    cache_mib: f64,
    decode_tok_s: f64,
    load_s: f64,
    weights_mib: f64,
    peak_rss_mib: f64,
    bandwidth_gb_s: f64,
    fraction_of_limit: f64,
    threads: usize,
    /// Which instructions the engine `kernels` uses.
    isa: &'static str,
    build: &'static str,
}

impl Row {
    pub fn new(variant: &Variant, load: Load, speed: Speed) -> Self {
        Self { variant: variant.clone(), load, speed }
    }

    /// One for each length of the prompt.
    fn lines<'a>(&'a self, model: &'a str, arguments: &'a Arguments) -> impl Iterator<Item = Line<'a>> {
        let Self { variant, load, speed } = self;
        arguments.prompts.iter().zip(&speed.prefill_ms).map(move |(&prompt, prefill_ms)| Line {
            program: "quantlab",
            model,
            engine: variant.engine.name(),
            device: variant.device,
            precision: variant.format.name(),
            batch: speed.batch,
            prompt,
            prefill_ms: rounded(prefill_ms.median),
            context: arguments.context,
            cache: speed.cache,
            cache_mib: rounded(speed.cache_mib),
            decode_tok_s: rounded(speed.decode_tok_s.median),
            load_s: rounded(load.load_s),
            weights_mib: rounded(load.weights_mib),
            peak_rss_mib: rounded(load.peak_rss_mib),
            bandwidth_gb_s: rounded(speed.bandwidth_gb_s),
            fraction_of_limit: rounded(speed.fraction_of_limit),
            threads: threads(),
            isa: thread_scope().isa().name(),
            build: BUILD,
        })
    }
}

/// To four decimals: more are noise.
pub fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Prints all rows of a model.
pub fn print(rows: &[Row], model: &str, arguments: &Arguments) -> Result<()> {
    if arguments.json {
        for line in rows.iter().flat_map(|row| row.lines(model, arguments)) {
            println!("{}", serde_json::to_string(&line)?);
        }
    } else {
        println!("{}", table(rows, model, arguments).to_text());
    }
    Ok(())
}

fn table(rows: &[Row], model: &str, arguments: &Arguments) -> Table {
    let mut table = Table::new(format!("Inference of {model}"))
        .column("engine", "", rows.iter().map(|row| row.variant.engine.name()))
        .column("precision", "", rows.iter().map(|row| row.variant.format.name()))
        .column("batch", "", rows.iter().map(|row| row.speed.batch));
    if !arguments.caches.is_empty() {
        table =
            table.column("keys and values", "", rows.iter().map(|row| row.speed.cache.map(|cache| cache.to_string())));
    }
    for (i, tokens) in arguments.prompts.iter().enumerate() {
        let prefill = rows.iter().map(|row| row.speed.prefill_ms[i]);
        table = table.column(format!("prefill {tokens}"), "ms", prefill);
    }
    table
        .column("cache", "MiB", rows.iter().map(|row| row.speed.cache_mib))
        .column("decode", "tokens/s", rows.iter().map(|row| row.speed.decode_tok_s))
        .column("load", "s", rows.iter().map(|row| row.load.load_s))
        .column("weights", "MiB", rows.iter().map(|row| row.load.weights_mib))
        .column("peak RSS", "MiB", rows.iter().map(|row| row.load.peak_rss_mib))
        .column("bandwidth", "GB/s", rows.iter().map(|row| row.speed.bandwidth_gb_s))
        .column("fraction of limit", "", rows.iter().map(|row| row.speed.fraction_of_limit))
        .note(format!("prefill of that many tokens, decode after {}", arguments.context))
        .note("limit: reading the weights from memory once per decode step")
        .note(format!(
            "{} | {} threads | {BUILD} build | {}",
            arguments.device,
            threads(),
            rows.first().map_or_else(String::new, |row| row.speed.decode_tok_s.medians_of("run"))
        ))
}
