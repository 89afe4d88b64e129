//! What a server did, request by request and step by step.

use serde::Serialize;

use super::ServerOptions;
use crate::generate::FinishReason;
use crate::measure::{Percentiles, RunInfo};

/// What a request is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has no cache: it is new, or was preempted.
    Waiting,
    /// Its tokens are read, until the next one is chosen.
    Prefill,
    /// New tokens come.
    Decode,
}

/// A request that is done. Times are seconds since the server began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServedRequest {
    /// Its number: the requests of a server are counted from 0 as they are pushed.
    pub id: usize,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens whose keys and values were copied from the prefix cache, each time that it was admitted.
    pub copied_tokens: usize,
    /// When it arrived.
    pub arrival_s: f64,
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// When each of them was known.
    pub token_s: Vec<f64>,
    /// Why there are no more.
    pub finish_reason: FinishReason,
    /// How often it was preempted.
    pub preemptions: usize,
    /// What it was doing, and since when; the last phase ends with the last token.
    pub phases: Vec<(Phase, f64)>,
}

impl ServedRequest {
    /// Time to first token: from arrival, waiting included, in seconds.
    pub fn ttft_s(&self) -> f64 {
        self.token_s[0] - self.arrival_s
    }

    /// Time per output token: the mean time between two new tokens, in seconds; `None` if there is only one.
    pub fn tpot_s(&self) -> Option<f64> {
        let gaps = self.token_s.len() - 1;
        (gaps > 0).then(|| (self.finish_s() - self.token_s[0]) / gaps as f64)
    }

    /// Times between two new tokens, in seconds.
    pub fn gaps_s(&self) -> impl Iterator<Item = f64> {
        self.token_s.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// From arrival to the last token, in seconds.
    pub fn latency_s(&self) -> f64 {
        self.finish_s() - self.arrival_s
    }

    /// When the last token was known.
    pub fn finish_s(&self) -> f64 {
        self.token_s[self.token_s.len() - 1]
    }
}

/// A step of a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServedStep {
    /// When it began, in seconds since the server did.
    pub start_s: f64,
    /// How long it took: copies, computing and choosing tokens, not the scheduler.
    pub seconds: f64,
    /// Requests that took part.
    pub requests: usize,
    /// Tokens that were computed.
    pub tokens: usize,
    /// Tokens that were copied from the prefix cache.
    pub copied_tokens: usize,
    /// New tokens that were chosen.
    pub new_tokens: usize,
    /// Tokens in the caches of running requests at its end, before those that are done were dropped.
    pub held_tokens: usize,
    /// Requests that waited.
    pub waiting: usize,
}

/// What a server did with some requests.
///
/// Percentiles are over requests, or over gaps, interpolated linearly between the measured values
/// ([`Percentiles`]): of 20 requests, p99 is almost the worst.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingReport {
    /// The requests that are done, by id. If all are, a request's place is its id.
    pub requests: Vec<ServedRequest>,
    /// The steps, in order.
    pub steps: Vec<ServedStep>,
    /// What the server could use.
    pub options: ServerOptions,
    /// What was measured on; `None` for a simulation.
    pub run: Option<RunInfo>,
}

impl ServingReport {
    /// Time to first token of each request, in seconds.
    pub fn ttft_s(&self) -> Percentiles {
        Percentiles::of(self.requests.iter().map(ServedRequest::ttft_s))
    }

    /// Time per output token of each request, in seconds; `None` if none has two.
    ///
    /// Source: `TPOT` of vLLM's `benchmark_serving`.
    pub fn tpot_s(&self) -> Option<Percentiles> {
        some(self.requests.iter().filter_map(ServedRequest::tpot_s))
    }

    /// Time between two tokens of a request, in seconds, of all requests together: what a prompt that is read meanwhile
    /// costs the others shows here. `None` if there are no two.
    ///
    /// Source: `ITL` of vLLM's `benchmark_serving`.
    pub fn gap_s(&self) -> Option<Percentiles> {
        some(self.requests.iter().flat_map(ServedRequest::gaps_s))
    }

    /// From arrival to the last token of each request, in seconds.
    pub fn latency_s(&self) -> Percentiles {
        Percentiles::of(self.requests.iter().map(ServedRequest::latency_s))
    }

    /// From the first arrival to the last token, in seconds; 0 if no request is done.
    pub fn seconds(&self) -> f64 {
        (self.end_s() - self.start_s()).max(0.0)
    }

    /// When the first request that is done came.
    fn start_s(&self) -> f64 {
        self.requests.iter().map(|request| request.arrival_s).fold(f64::INFINITY, f64::min)
    }

    /// When the last token of a request that is done was known, in seconds since the server began.
    fn end_s(&self) -> f64 {
        self.requests.iter().map(ServedRequest::finish_s).fold(0.0, f64::max)
    }

    /// New tokens of all requests.
    pub fn new_tokens(&self) -> usize {
        self.requests.iter().map(|request| request.tokens.len()).sum()
    }

    /// New tokens per second, from the first arrival to the last token; 0 if no request is done.
    pub fn tokens_per_s(&self) -> f64 {
        share(self.new_tokens() as f64, self.seconds())
    }

    /// Tokens that were computed: prompts, new tokens that were fed back, and again what was preempted.
    pub fn computed_tokens(&self) -> usize {
        self.steps.iter().map(|step| step.tokens).sum()
    }

    /// Tokens that were copied from the prefix cache instead.
    pub fn copied_tokens(&self) -> usize {
        self.steps.iter().map(|step| step.copied_tokens).sum()
    }

    /// Requests that found the beginning of their prompt in the prefix cache.
    pub fn prefix_hits(&self) -> usize {
        self.requests.iter().filter(|request| request.copied_tokens > 0).count()
    }

    /// Requests that took part in each step; `None` without steps.
    pub fn batch(&self) -> Option<Percentiles> {
        some(self.steps.iter().map(|step| step.requests as f64))
    }

    /// Requests that took part in a step, on average over steps; 0 without steps.
    pub fn mean_batch(&self) -> f64 {
        share(self.steps.iter().map(|step| step.requests).sum::<usize>() as f64, self.steps.len() as f64)
    }

    /// The share of the time, from the first arrival to the last token, in which a step ran: near 1, the server is
    /// full. 0 if no request is done.
    pub fn busy(&self) -> f64 {
        let (start, end) = (self.start_s(), self.end_s());
        // Of a server that was not finished, steps are counted from the arrival of the first request that was to the
        // last token.
        let within = |step: &ServedStep| (end.min(step.start_s + step.seconds) - start.max(step.start_s)).max(0.0);
        share(self.steps.iter().map(within).sum(), self.seconds())
    }
}

/// 0 of nothing.
fn share(part: f64, of: f64) -> f64 {
    if of == 0.0 { 0.0 } else { part / of }
}

fn some(values: impl Iterator<Item = f64>) -> Option<Percentiles> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| Percentiles::of(values.into_iter()))
}
