//! The results, one row for each combination: as JSON or as a table.

use quantlab::error::Result;
use quantlab::measure::BUILD;
use quantlab::model::threads;
use quantlab::report::{Estimate, Table};
use serde::Serialize;

use crate::Variant;
use crate::arguments::Arguments;
use crate::load::Load;
use crate::speed::{DECODE_PROMPT_TOKENS, PREFILL_TOKENS, Speed};

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
    engine: &'static str,
    precision: &'a str,
    batch: usize,
    prompt_tokens: usize,
    prefill_ms: f64,
    decode_tok_s: f64,
    load_s: f64,
    weights_mib: f64,
    peak_rss_mib: f64,
    bandwidth_gb_s: f64,
    fraction_of_limit: f64,
    model: &'a str,
    threads: usize,
    build: &'static str,
}

impl Row {
    pub fn new(variant: &Variant, load: Load, speed: Speed) -> Self {
        Self { variant: variant.clone(), load, speed }
    }

    fn line<'a>(&'a self, model: &'a str) -> Line<'a> {
        let Self { variant, load, speed } = self;
        Line {
            program: "quantlab",
            engine: variant.engine.name(),
            precision: variant.format.name(),
            batch: speed.batch,
            prompt_tokens: PREFILL_TOKENS,
            prefill_ms: rounded(speed.prefill_ms.median),
            decode_tok_s: rounded(speed.decode_tok_s.median),
            load_s: rounded(load.load_s),
            weights_mib: rounded(load.weights_mib),
            peak_rss_mib: rounded(load.peak_rss_mib),
            bandwidth_gb_s: rounded(speed.bandwidth_gb_s),
            fraction_of_limit: rounded(speed.fraction_of_limit),
            model,
            threads: threads(),
            build: BUILD,
        }
    }
}

/// To four decimals: more are noise.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Prints all rows.
pub fn print(rows: &[Row], arguments: &Arguments) -> Result<()> {
    if arguments.json {
        for row in rows {
            println!("{}", serde_json::to_string(&row.line(&arguments.model))?);
        }
    } else {
        println!("{}", table(rows, arguments)?.to_text());
    }
    Ok(())
}

fn table(rows: &[Row], arguments: &Arguments) -> Result<Table> {
    let mut table = Table::new(format!("Inference of {}", arguments.model)).headings([
        ("engine", ""),
        ("precision", ""),
        ("batch", ""),
        ("prefill", "ms"),
        ("decode", "tokens/s"),
        ("load", "s"),
        ("weights", "MiB"),
        ("peak RSS", "MiB"),
        ("bandwidth", "GB/s"),
        ("fraction of limit", ""),
    ])?;
    for Row { variant, load, speed } in rows {
        let [prefill, decode] = [speed.prefill_ms, speed.decode_tok_s].map(Estimate::from);
        let Speed { batch, bandwidth_gb_s, fraction_of_limit, .. } = *speed;
        let Load { load_s, weights_mib, peak_rss_mib } = *load;
        table = table.row((
            variant.engine.name(),
            variant.format.name(),
            batch,
            prefill,
            decode,
            load_s,
            weights_mib,
            peak_rss_mib,
            bandwidth_gb_s,
            fraction_of_limit,
        ))?;
    }
    Ok(table
        .note(format!("prefill of {PREFILL_TOKENS} tokens, decode after {DECODE_PROMPT_TOKENS}"))
        .note("limit: reading the weights from memory once for each step of decode")
        .note(format!("cpu | {} threads | {BUILD} build | medians of {} runs", threads(), arguments.repeats)))
}
