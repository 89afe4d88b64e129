//! Serving in the process: requests that arrive at any time share the steps of one model.
//!
//! [`serve`] runs a server until all requests are done, in real time; [`simulate`] does the same without a model, with
//! the time that you say a step takes. Before each step a scheduler looks at the [`View`] and answers with a [`Plan`]:
//! a function, [`first_come`] or your own. Whatever it plans, each request's tokens are those that
//! [`generate_tokens`](fn@crate::generate::generate_tokens) gives for it alone, on engine `kernels`, with the
//! exceptions that [`CausalLm::forward`] names.
//!
//! Source: Yu et al. 2022, "Orca: A Distributed Serving System for Transformer-Based Generative Models" (OSDI).

mod arrivals;
mod plan;
mod prefix;
mod record;
mod scheduler;
mod server;
mod time;

use quantlab_kernels::{QuantizedKv, threads_granted};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::generate::GenerateOptions;
use crate::measure::RunInfo;
use crate::model::{CacheFormat, CausalLm, Loaded, available_memory};

pub use arrivals::poisson_arrivals;
pub use prefix::BLOCK;
pub use record::{Phase, ServedRequest, ServedStep, ServingReport};
pub use scheduler::{Plan, RequestState, View, first_come, static_batch};
pub use server::{Event, Server};
pub use time::{StepPart, StepWork};

/// What somebody wants to be continued.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    /// Token ids.
    pub prompt: Vec<u32>,
    /// How it is continued. Its tokens are drawn as those of a prompt alone.
    pub options: GenerateOptions,
}

/// What a server may use. `ServerOptions::default()`: 8 requests at once, 64 tokens a step, 8192 tokens in caches,
/// no prefix cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerOptions {
    /// Requests that run at once; at least 1.
    pub max_running: usize,
    /// Tokens that a step computes, of all requests together: longer prompts are read in chunks. At least 1.
    pub max_tokens_per_step: usize,
    /// Tokens whose keys and values are kept, of all requests together and in the prefix cache, whose blocks are
    /// float16 where `cache_format` is int8 or int4. (A request's cache is allocated for all that it may become; the
    /// system provides memory only for what has been written.)
    pub cache_tokens: usize,
    /// Their format; `None` for float32 on the CPU, whatever the precision of the weights, and for that precision on a GPU.
    pub cache_format: Option<CacheFormat>,
    /// Whether keys and values of earlier prompts are kept, in blocks of [`BLOCK`] tokens, for requests that begin with
    /// the same tokens. They fill the room that running requests leave. A request starts with a copy, which costs
    /// memory bandwidth and no arithmetic. Only with engine `kernels`; with a quantized format, `max_tokens_per_step`
    /// must be at most 64, since older tokens cannot be copied exactly.
    pub prefix_cache: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { max_running: 8, max_tokens_per_step: 64, cache_tokens: 8192, cache_format: None, prefix_cache: false }
    }
}

/// The most tokens at once whose keys and values can still be copied out of a quantized cache in whole blocks.
const MOST_QUANTIZED: usize = QuantizedKv::MOST;

impl ServerOptions {
    /// # Errors
    /// A value that is not allowed, with its name.
    fn check(&self) -> Result<()> {
        let sizes = [
            ("max_running", self.max_running),
            ("max_tokens_per_step", self.max_tokens_per_step),
            ("cache_tokens", self.cache_tokens),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::input(format!("`{name}` is 0; it must be at least 1")));
        }
        match self.codes() {
            Some(format) if self.prefix_cache && self.max_tokens_per_step > MOST_QUANTIZED => {
                Err(Error::input(format!(
                    "`max_tokens_per_step` is {}; with a prefix cache in {format} it must be at most {MOST_QUANTIZED}",
                    self.max_tokens_per_step
                ))
                .hint("a cache in codes keeps only the last tokens exactly; use a smaller step, or float16"))
            }
            _ => Ok(()),
        }
    }

    /// The format, if caches are in codes.
    fn codes(&self) -> Option<CacheFormat> {
        self.cache_format.filter(|format| matches!(format, CacheFormat::Int8 | CacheFormat::Int4))
    }

    /// Makes sure that there is memory for all that requests, of at most so many tokens in all, may hold at once. Each
    /// cache is checked when it is made, but the system provides its memory only later, so that several may pass that do
    /// not fit together.
    ///
    /// # Errors
    /// More `cache_tokens` than there is memory for; a format in which the engine cannot keep keys and values.
    fn check_memory(&self, model: &dyn CausalLm, most: usize) -> Result<()> {
        let Self { max_running, cache_tokens, cache_format, prefix_cache, .. } = *self;
        let info = model.info();
        let of_one = |capacity| Ok::<_, Error>(model.new_cache_in(cache_format, 1, capacity)?.bytes() as f64);
        // What the engine cannot do is said now, and not in the middle of a request.
        let of_token = of_one(1)?;
        let Some(free) = available_memory().filter(|_| info.device.is_cpu()) else { return Ok(()) };
        let running = if prefix_cache { usize::MAX } else { max_running.saturating_mul(info.context_len) };
        let tokens = cache_tokens.min(running).min(most.max(1));
        let needed = match self.codes() {
            // Codes take less than the float16 that the last tokens are kept in, and all of the prefix cache.
            Some(_) if !prefix_cache => {
                let sequences = max_running.min(tokens);
                of_one(tokens.div_ceil(sequences))? * sequences as f64
            }
            _ => of_token * tokens as f64,
        };
        if needed <= free as f64 {
            return Ok(());
        }
        let [needed, free] = [needed, free as f64].map(|bytes| bytes / f64::from(1 << 30));
        Err(Error::input(format!(
            "`cache_tokens` is {cache_tokens}, and keys and values of {tokens} tokens take {needed:.2} GiB, but only \
             {free:.2} GiB are free"
        ))
        .hint("use fewer `cache_tokens`, or a `cache_format` of fewer bits"))
    }
}

/// Serves requests that arrive at given times, in seconds from the start, until all are done. The server sleeps while
/// there is nothing to do. Waiting counts from the time of arrival, though a step that is running must end first. There
/// is no warm-up: the first steps take longer unless the model has computed before.
///
/// ```
/// use quantlab::generate::GenerateOptions;
/// use quantlab::model::{LoadOptions, load_model};
/// use quantlab::serve::{Request, ServerOptions, first_come, serve};
///
/// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
/// let options = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
/// let request = |text| Ok::<_, quantlab::error::Error>(Request {
///     prompt: loaded.tokenizer.encode(text)?,
///     options: options.clone(),
/// });
/// let arrivals = [(0.0, request("Once upon a time")?), (0.001, request("The capital of France is")?)];
/// let report = serve(&loaded, &arrivals, &ServerOptions::default(), first_come)?;
/// let alone = loaded.generate_tokens(&arrivals[1].1.prompt, &options)?;
/// assert_eq!(report.requests[1].tokens, alone.tokens);
/// println!("{:.1} ms to the first token", 1e3 * report.requests[1].ttft_s());
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// No requests; times that are not finite, negative, or not in order; what [`Server::new`] refuses; a request that
/// [`Server::submit`] refuses; a plan that [`Server::step`] refuses, or that computes nothing when nothing will come
/// any more; logits that are NaN.
pub fn serve(
    loaded: &Loaded,
    arrivals: &[(f64, Request)],
    options: &ServerOptions,
    scheduler: impl FnMut(&View) -> Plan,
) -> Result<ServingReport> {
    let needed = |request: &Request| request.prompt.len().saturating_add(request.options.max_new_tokens);
    let tokens = arrivals.iter().fold(0_usize, |sum, (_, request)| sum.saturating_add(needed(request)));
    let server = Server::for_tokens(&*loaded.model, options, tokens)?;
    let (report, threads_granted) = threads_granted(|| run(server, arrivals, scheduler));
    Ok(ServingReport { run: Some(RunInfo { threads_granted, ..RunInfo::of(loaded) }), ..report? })
}

/// What [`serve`] would do, without a model: a step takes `cost` seconds, and each request has `max_new_tokens` new
/// tokens, all of them 0. A day of requests takes a moment.
///
/// ```
/// use quantlab::generate::GenerateOptions;
/// use quantlab::serve::{Request, ServerOptions, StepWork, first_come, simulate};
///
/// let options = GenerateOptions { max_new_tokens: 10, ..GenerateOptions::default() };
/// let arrivals = [(0.0, Request { prompt: vec![1; 100], options })];
/// // 10 ms for the weights, and a tenth of a millisecond for each token.
/// let cost = |work: &StepWork| 0.010 + 0.0001 * work.tokens() as f64;
/// let report = simulate(&arrivals, &ServerOptions::default(), first_come, cost)?;
/// // The prompt of 100 takes two steps, of 64 and 36 tokens.
/// assert!((report.requests[0].ttft_s() - 0.030).abs() < 1e-12);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`serve`]; a cost that is negative or not finite.
pub fn simulate(
    arrivals: &[(f64, Request)],
    options: &ServerOptions,
    scheduler: impl FnMut(&View) -> Plan,
    cost: impl FnMut(&StepWork) -> f64,
) -> Result<ServingReport> {
    run(Server::simulated(options, cost)?, arrivals, scheduler)
}

fn run(
    mut server: Server<'_>,
    arrivals: &[(f64, Request)],
    mut scheduler: impl FnMut(&View) -> Plan,
) -> Result<ServingReport> {
    if arrivals.is_empty() {
        return Err(Error::input("there are no requests").hint("give at least one"));
    }
    let mut last = 0.0;
    for (index, (at, _)) in arrivals.iter().enumerate() {
        if !at.is_finite() || *at < last {
            return Err(Error::input(format!("request {index} arrives at {at} s, after one at {last} s"))
                .hint("times of arrival are finite, not negative, and in ascending order"));
        }
        last = *at;
    }
    let mut to_come = arrivals.iter().peekable();
    while to_come.peek().is_some() || server.is_busy() {
        while let Some((at, request)) = to_come.next_if(|(at, _)| *at <= server.now_s()) {
            server.submit_at(request.clone(), *at)?;
        }
        let is_idle = !server.is_busy() || server.advance(&mut scheduler)?.is_none();
        match to_come.peek() {
            Some((at, _)) if is_idle => server.wait_until(*at)?,
            None if is_idle && server.is_busy() => {
                return Err(Error::input("the plan computes nothing, and no more requests will come")
                    .hint("plan at least one token for a request that runs or waits"));
            }
            _ => (),
        }
    }
    Ok(server.into_report())
}

#[cfg(test)]
mod tests {
    use quantlab_kernels::thread_scope;

    use super::*;
    use crate::model::{LoadOptions, load_model, threads};

    #[test]
    fn a_run_beside_another_computation_says_so() {
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let options = GenerateOptions { max_new_tokens: 2, ..GenerateOptions::default() };
        let arrivals = [(0.0, Request { prompt: vec![1, 2, 3], options })];
        // Other tests may have the helpers for a moment.
        let another = std::iter::repeat_with(thread_scope).find(|scope| scope.threads() == threads());
        let server = ServerOptions::default();
        let report = std::thread::scope(|scope| {
            scope.spawn(|| serve(&loaded, &arrivals, &server, first_come).unwrap()).join().unwrap()
        });
        drop(another);
        assert_eq!(report.run.unwrap().threads_granted, 1);
    }
}
