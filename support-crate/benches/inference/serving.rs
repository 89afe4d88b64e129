//! Requests that come at random, at different rates: continuous batching against static batches.

use quantlab::error::Result;
use quantlab::generate::GenerateOptions;
use quantlab::measure::{BUILD, Percentiles, RunInfo};
use quantlab::model::{Loaded, threads};
use quantlab::report::Table;
use quantlab::serve::{
    Plan, Request, ServerOptions, ServingReport, View, first_come, poisson_arrivals, serve, static_batch,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::speed::prompts;

/// Requests of each rate, the tokens of their prompts, and their new tokens.
const REQUESTS: usize = 32;
const PROMPT: std::ops::Range<usize> = 16..192;
const NEW_TOKENS: std::ops::Range<usize> = 8..64;

type Scheduler = fn(&View) -> Plan;

const SCHEDULERS: [(&str, Scheduler); 2] = [("static", static_batch), ("continuous", first_come)];

/// A row of the table, and a line of the JSON, in this order.
#[derive(Serialize)]
struct Line<'a> {
    program: &'static str,
    model: &'a str,
    engine: &'static str,
    precision: &'a str,
    scheduler: &'static str,
    requests_s: f64,
    batch: usize,
    step_tokens: usize,
    new_tok_s: f64,
    ttft_p50_ms: f64,
    ttft_p90_ms: f64,
    ttft_p99_ms: f64,
    /// None where no request has a second token.
    tpot_p50_ms: Option<f64>,
    tpot_p99_ms: Option<f64>,
    mean_batch: f64,
    busy: f64,
    threads: usize,
    build: &'static str,
}

/// Serves the same requests at each rate with each scheduler, and prints what came of it.
pub fn measure(loaded: &Loaded, model: &str, precision: &str, rates: &[f64], arguments: &Arguments) -> Result<()> {
    let mut lines = Vec::new();
    let options =
        ServerOptions { max_running: *arguments.batches.iter().max().unwrap_or(&8), ..ServerOptions::default() };
    let all = requests(loaded);
    // The first steps of a process also start threads and map memory.
    serve(loaded, &[(0.0, all[0].clone())], &options, first_come)?;
    for (index, &rate) in rates.iter().enumerate() {
        let arrivals = poisson_arrivals(rate, 0, all.clone())?;
        for (scheduler, plan) in SCHEDULERS {
            eprintln!("{scheduler}, {rate} requests a second ({} of {} rates)", index + 1, rates.len());
            let report = serve(loaded, &arrivals, &options, plan)?;
            lines.push(line(loaded, &report, [model, precision], scheduler, rate));
        }
    }
    if arguments.json {
        for line in &lines {
            println!("{}", serde_json::to_string(line)?);
        }
    } else {
        println!("{}", table(&lines, model, &RunInfo::of(loaded)).to_text());
    }
    Ok(())
}

/// Requests of any lengths, the same in every run.
fn requests(loaded: &Loaded) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(1);
    let prompts = prompts(loaded, REQUESTS, PROMPT.end);
    let request = |prompt: Vec<u32>| {
        let max_new_tokens = random.random_range(NEW_TOKENS);
        let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
        Request { prompt: prompt[..random.random_range(PROMPT)].to_vec(), options }
    };
    prompts.into_iter().map(request).collect()
}

fn line<'a>(
    loaded: &Loaded,
    report: &ServingReport,
    [model, precision]: [&'a str; 2],
    scheduler: &'static str,
    requests_s: f64,
) -> Line<'a> {
    let ms =
        |percentiles: &Percentiles, percent| crate::row::rounded(1e3 * percentiles.at(percent).unwrap_or(f64::NAN));
    let (ttft, tpot) = (report.ttft_s(), report.tpot_s());
    Line {
        program: "quantlab",
        model,
        engine: loaded.model.info().engine.name(),
        precision,
        scheduler,
        requests_s,
        batch: report.options.max_running,
        step_tokens: report.options.max_tokens_per_step,
        new_tok_s: crate::row::rounded(report.tokens_per_s()),
        ttft_p50_ms: ms(&ttft, 50.0),
        ttft_p90_ms: ms(&ttft, 90.0),
        ttft_p99_ms: ms(&ttft, 99.0),
        tpot_p50_ms: tpot.as_ref().map(|tpot| ms(tpot, 50.0)),
        tpot_p99_ms: tpot.as_ref().map(|tpot| ms(tpot, 99.0)),
        mean_batch: crate::row::rounded(report.mean_batch()),
        busy: crate::row::rounded(report.busy()),
        threads: threads(),
        build: BUILD,
    }
}

fn table(lines: &[Line<'_>], model: &str, run: &RunInfo) -> Table {
    Table::new(format!("Serving {model}"))
        .column("requests", "1/s", lines.iter().map(|line| line.requests_s))
        .column("scheduler", "", lines.iter().map(|line| line.scheduler))
        .column("throughput", "tokens/s", lines.iter().map(|line| line.new_tok_s))
        .column("TTFT p50", "ms", lines.iter().map(|line| line.ttft_p50_ms))
        .column("TTFT p90", "ms", lines.iter().map(|line| line.ttft_p90_ms))
        .column("TTFT p99", "ms", lines.iter().map(|line| line.ttft_p99_ms))
        .column("TPOT p50", "ms", lines.iter().map(|line| line.tpot_p50_ms))
        .column("TPOT p99", "ms", lines.iter().map(|line| line.tpot_p99_ms))
        .column("mean batch", "", lines.iter().map(|line| line.mean_batch))
        .note(format!(
            "{REQUESTS} requests, prompts of {} to {} tokens, {} to {} new ones",
            PROMPT.start,
            PROMPT.end - 1,
            NEW_TOKENS.start,
            NEW_TOKENS.end - 1
        ))
        .note("TTFT: from arrival to the first token; TPOT: mean time between two tokens of a request")
        .note(run.to_string())
}
