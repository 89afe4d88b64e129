//! The server: requests, their caches, and steps.

use std::fmt;

use serde::Serialize;

use super::prefix::PrefixCache;
use super::time::Time;
use super::{BLOCK, Phase, Plan, Request, RequestState, ServedRequest, ServedStep, ServerOptions, ServingReport};
use super::{StepPart, StepWork, View};
use crate::error::{Error, Result};
use crate::generate::{FinishReason, GenerateOptions, Sampler, Sequence};
use crate::interrupt;
use crate::model::{CausalLm, Engine, KvCache};

/// A server of one model, step by step; [`serve`](super::serve) makes all steps.
///
/// ```
/// use quantlab::generate::GenerateOptions;
/// use quantlab::model::{LoadOptions, load_model};
/// use quantlab::serve::{Plan, Request, Server, ServerOptions, View};
///
/// let model = load_model(&["embedded"], &LoadOptions::default())?.model;
/// let mut server = Server::new(&*model, &ServerOptions::default())?;
/// let options = GenerateOptions { max_new_tokens: 2, ..GenerateOptions::default() };
/// let id = server.submit(Request { prompt: vec![5, 6, 7], options })?;
/// // A prompt of three tokens in chunks of two: the first token comes after the second step.
/// let mut by_two = |view: &View| {
///     let all = view.running.iter().chain(&view.waiting);
///     Plan { compute: all.map(|request| (request.id, request.to_compute().min(2))).collect(), ..Plan::default() }
/// };
/// assert!(server.step(&mut by_two)?.is_empty());
/// assert_eq!(server.step(&mut by_two)?[0].id, id);
/// assert!(server.step(&mut by_two)?[0].finish_reason.is_some());
/// # Ok::<(), quantlab::error::Error>(())
/// ```
pub struct Server<'m> {
    /// `None` in a simulation.
    model: Option<&'m dyn CausalLm>,
    options: ServerOptions,
    time: Time<'m>,
    /// By id.
    requests: Vec<Tracked>,
    /// Those that are not done, in order.
    active: Vec<usize>,
    prefixes: Option<PrefixCache>,
    /// One for all requests, which choose their tokens one after the other.
    sampler: Sampler,
    steps: Vec<ServedStep>,
}

/// A new token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Event {
    /// The request.
    pub id: usize,
    /// The token.
    pub token: u32,
    /// When it was known, in seconds since the server began.
    pub at_s: f64,
    /// Why it is the request's last one, if it is.
    pub finish_reason: Option<FinishReason>,
}

impl fmt::Debug for Server<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, requests, active, steps, .. } = self;
        let (requests, steps) = (requests.len(), steps.len());
        write!(f, "Server {{ options: {options:?}, requests: {requests}, active: {active:?}, steps: {steps} }}")
    }
}

/// A request and what there is of it.
struct Tracked {
    sequence: Sequence,
    options: GenerateOptions,
    /// As long as it runs, with a model.
    cache: Option<KvCache>,
    is_running: bool,
    is_done: bool,
    /// Tokens whose keys and values are there.
    past_tokens: usize,
    /// Tokens whose blocks the prefix cache was given.
    shared_tokens: usize,
    record: ServedRequest,
}

impl Tracked {
    /// Tokens that its cache holds at the end, at most.
    fn capacity(&self) -> usize {
        self.sequence.prompt_tokens + self.options.max_new_tokens - 1
    }

    fn enter(&mut self, phase: Phase, at: f64) {
        if self.record.phases.last().is_none_or(|(last, _)| *last != phase) {
            self.record.phases.push((phase, at));
        }
    }

    /// Gives its memory up.
    fn stop(&mut self) {
        (self.cache, self.is_running, self.past_tokens, self.shared_tokens) = (None, false, 0, 0);
    }
}

impl<'m> Server<'m> {
    /// A server in real time.
    ///
    /// # Errors
    /// Options that are not allowed, or that ask for what the engine cannot do, or for more memory than there is.
    pub fn new(model: &'m dyn CausalLm, options: &ServerOptions) -> Result<Self> {
        Self::for_tokens(model, options, usize::MAX)
    }

    /// The same, for requests whose prompts and new tokens are no more than these.
    pub(super) fn for_tokens(model: &'m dyn CausalLm, options: &ServerOptions, tokens: usize) -> Result<Self> {
        Self::with(Some((model, tokens)), options, Time::wall())
    }

    /// A server whose steps take `cost` seconds each, by a clock of its own. The model computes the tokens, however
    /// long that takes.
    ///
    /// # Errors
    /// Options that are not allowed, or that ask for what the engine cannot do, or for more memory than there is.
    pub fn with_cost(
        model: &'m dyn CausalLm,
        options: &ServerOptions,
        cost: impl FnMut(&StepWork) -> f64 + 'm,
    ) -> Result<Self> {
        Self::with(Some((model, usize::MAX)), options, Time::Virtual { now: 0.0, cost: Box::new(cost) })
    }

    pub(super) fn simulated(options: &ServerOptions, cost: impl FnMut(&StepWork) -> f64 + 'm) -> Result<Self> {
        Self::with(None, options, Time::Virtual { now: 0.0, cost: Box::new(cost) })
    }

    fn with(model: Option<(&'m dyn CausalLm, usize)>, options: &ServerOptions, time: Time<'m>) -> Result<Self> {
        options.check()?;
        if let Some((model, tokens)) = model {
            options.check_memory(model, tokens)?;
            if options.prefix_cache && model.info().engine != Engine::Kernels {
                return Err(Error::input(format!("the engine {} has no prefix cache", model.info().engine))
                    .hint("use `Engine::Kernels`, or set `prefix_cache` to false"));
            }
        }
        let prefixes = options.prefix_cache.then(PrefixCache::new);
        Ok(Self {
            model: model.map(|(model, _)| model),
            options: options.clone(),
            time,
            requests: Vec::new(),
            active: Vec::new(),
            prefixes,
            sampler: Sampler::default(),
            steps: Vec::new(),
        })
    }

    /// Seconds since the server began.
    pub fn now_s(&self) -> f64 {
        self.time.now()
    }

    /// Whether there are requests that are not done.
    pub fn is_busy(&self) -> bool {
        !self.active.is_empty()
    }

    /// Takes a request, which waits then; returns its id.
    ///
    /// # Errors
    /// Options that are not allowed (see [`GenerateOptions::check`]), or `stop_strings`, no cache, or another format of
    /// the cache than the server's; an empty prompt, a token beyond the vocabulary, or no room for prompt and new tokens
    /// in the model's context or in `cache_tokens`.
    pub fn submit(&mut self, request: Request) -> Result<usize> {
        self.submit_at(request, self.now_s())
    }

    pub(super) fn submit_at(&mut self, request: Request, arrival_s: f64) -> Result<usize> {
        let id = self.requests.len();
        let tracked = self.tracked(request, arrival_s).map_err(|error| error.context(format!("request {id}")))?;
        self.requests.push(tracked);
        self.active.push(id);
        Ok(id)
    }

    fn tracked(&self, Request { prompt, options }: Request, arrival_s: f64) -> Result<Tracked> {
        options.check()?;
        options.check_without_text()?;
        if !options.use_cache {
            return Err(Error::input("`use_cache` is false, and a server keeps keys and values"));
        }
        if options.cache_format.is_some() && options.cache_format != self.options.cache_format {
            return Err(Error::input("`cache_format` differs from the server's").hint("leave it to the server"));
        }
        let info = self.model.map(CausalLm::info);
        let context_len = info.map_or(usize::MAX, |info| info.context_len);
        let sequence = Sequence::start(&prompt, &options, context_len, 0)?;
        info.map_or(Ok(()), |info| info.check_ids(&prompt))?;
        let record = ServedRequest {
            id: self.requests.len(),
            prompt_tokens: sequence.prompt_tokens,
            copied_tokens: 0,
            arrival_s,
            tokens: Vec::new(),
            token_s: Vec::new(),
            finish_reason: FinishReason::Length,
            preemptions: 0,
            phases: vec![(Phase::Waiting, arrival_s)],
        };
        let tracked = Tracked {
            sequence,
            options,
            cache: None,
            is_running: false,
            is_done: false,
            past_tokens: 0,
            shared_tokens: 0,
            record,
        };
        match tracked.capacity() {
            needed if needed > self.options.cache_tokens => Err(Error::input(format!(
                "prompt and new tokens take {needed} tokens of cache, and `cache_tokens` is {}",
                self.options.cache_tokens
            ))),
            _ => Ok(tracked),
        }
    }

    /// What the scheduler sees before the next step.
    pub fn view(&self) -> View {
        let now_s = self.now_s();
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for &id in &self.active {
            let request = &self.requests[id];
            let matching = || self.prefixes.as_ref().map_or(0, |prefixes| prefixes.matching(&request.sequence.ids));
            let new_tokens = request.sequence.new_tokens();
            let state = RequestState {
                id,
                tokens: request.sequence.ids.len(),
                past_tokens: if request.is_running { request.past_tokens } else { matching() },
                new_tokens,
                left_tokens: request.options.max_new_tokens - new_tokens,
                age_s: now_s - request.record.arrival_s,
            };
            if request.is_running { running.push(state) } else { waiting.push(state) }
        }
        let ServerOptions { max_running, max_tokens_per_step, cache_tokens, .. } = self.options;
        let free_tokens = cache_tokens - self.held_tokens();
        View { now_s, waiting, running, max_running, max_tokens_per_step, free_tokens }
    }

    fn held_tokens(&self) -> usize {
        self.active.iter().map(|&id| self.requests[id].past_tokens).sum()
    }

    /// Asks the scheduler and does what it plans. Returns the new tokens.
    ///
    /// # Errors
    /// A plan that breaks a rule (see [`Plan`]): a request that is not there or named twice, too many tokens, too many
    /// requests, no room; then nothing has happened. An interruption: requests of this step wait again, and are computed
    /// anew. What the model reports: no memory, logits that are NaN; drop the server then.
    pub fn step(&mut self, scheduler: &mut dyn FnMut(&View) -> Plan) -> Result<Vec<Event>> {
        Ok(self.advance(scheduler)?.unwrap_or_default())
    }

    /// The same; `None` if the scheduler planned nothing.
    pub(super) fn advance(&mut self, scheduler: &mut dyn FnMut(&View) -> Plan) -> Result<Option<Vec<Event>>> {
        interrupt::check()?;
        let view = self.view();
        let plan = scheduler(&view);
        plan.check(&view)?;
        let start_s = self.now_s();
        for &id in &plan.preempt {
            let request = &mut self.requests[id];
            request.stop();
            request.record.preemptions += 1;
            request.enter(Phase::Waiting, start_s);
        }
        if plan.compute.is_empty() {
            return Ok((!plan.preempt.is_empty()).then(Vec::new));
        }
        let mut work = StepWork::default();
        for &(id, tokens) in &plan.compute {
            if !self.requests[id].is_running {
                work.copied_tokens += self.admit(id, start_s)?;
            }
            work.parts.push(StepPart { id, past_tokens: self.requests[id].past_tokens, tokens });
        }
        let held_tokens = self.held_tokens() + work.tokens();
        self.make_room_for(held_tokens);
        let waiting = self.active.iter().filter(|&&id| !self.requests[id].is_running).count();
        let events = self.compute(&work)?;
        self.steps.push(ServedStep {
            start_s,
            seconds: self.now_s() - start_s,
            requests: work.parts.len(),
            tokens: work.tokens(),
            copied_tokens: work.copied_tokens,
            new_tokens: events.len(),
            held_tokens,
            waiting,
        });
        Ok(Some(events))
    }

    pub(super) fn wait_until(&mut self, at_s: f64) -> Result<()> {
        self.time.wait_until(at_s)
    }

    /// Gives a request a cache, with what the prefix cache has of it; returns how many tokens that is.
    fn admit(&mut self, id: usize, at_s: f64) -> Result<usize> {
        let request = &mut self.requests[id];
        let new_cache = |model: &dyn CausalLm| model.new_cache_in(self.options.cache_format, 1, request.capacity());
        let mut cache = self.model.map(new_cache).transpose()?;
        let mut copied = 0;
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.take(&request.sequence.ids, &mut |block| {
                copied += BLOCK;
                match (self.model, block, &mut cache) {
                    (Some(model), Some(block), Some(cache)) => model.copy_in(block, cache),
                    _ => Ok(()),
                }
            })?;
        }
        (request.cache, request.is_running) = (cache, true);
        (request.past_tokens, request.shared_tokens) = (copied, copied);
        request.record.copied_tokens += copied;
        request.enter(Phase::Prefill, at_s);
        Ok(copied)
    }

    /// Lets the prefix cache have what running requests leave.
    fn make_room_for(&mut self, held_tokens: usize) {
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.shrink_to(self.options.cache_tokens.saturating_sub(held_tokens));
        }
    }

    fn compute(&mut self, work: &StepWork) -> Result<Vec<Event>> {
        let Self { model, requests, time, sampler, .. } = self;
        // Before a cache has changed.
        let cost = time.cost(work)?;
        let mut logits = None;
        if let Some(model) = model {
            let mut caches: Vec<_> = work.parts.iter().map(|part| requests[part.id].cache.take()).collect();
            let ids = work.parts.iter().map(|&StepPart { id, past_tokens, tokens }| {
                &requests[id].sequence.ids[past_tokens..past_tokens + tokens]
            });
            let mut sequences: Vec<(&[u32], &mut KvCache)> = ids.zip(caches.iter_mut().flatten()).collect();
            let computed = model.forward_together(&mut sequences);
            for (part, cache) in work.parts.iter().zip(caches) {
                let request = &mut requests[part.id];
                request.cache = cache;
                // What is in it is not known: an interrupted step has replaced some.
                if computed.is_err() {
                    request.stop();
                    request.enter(Phase::Waiting, time.now());
                }
            }
            logits = Some(computed?);
        }
        time.pass(cost);
        let eos = model.map_or(&[][..], |model| &model.info().eos_token_ids);
        let mut events = Vec::new();
        for (row, part) in work.parts.iter().enumerate() {
            let request = &mut requests[part.id];
            request.past_tokens += part.tokens;
            if request.past_tokens < request.sequence.ids.len() {
                continue;
            }
            let token = match &logits {
                Some(logits) => request.sequence.choose(sampler, &request.options, logits.row(row, 0), eos),
                None => {
                    request.sequence.ids.push(0);
                    Ok(0)
                }
            };
            let token = token.map_err(|error| error.context(format!("request {}", part.id)))?;
            let at_s = time.now();
            let stops = request.options.stops(eos);
            request.is_done = request.sequence.ends(stops, false, request.options.max_new_tokens);
            request.record.token_s.push(at_s);
            request.enter(Phase::Decode, at_s);
            let finish_reason = request.is_done.then_some(request.sequence.finish_reason);
            events.push(Event { id: part.id, token, at_s, finish_reason });
        }
        self.share(work)?;
        for event in events.iter().filter(|event| event.finish_reason.is_some()) {
            let request = &mut self.requests[event.id];
            request.stop();
            request.record.finish_reason = request.sequence.finish_reason;
            request.record.tokens = request.sequence.ids[request.sequence.prompt_tokens..].to_vec();
        }
        self.active.retain(|&id| !self.requests[id].is_done);
        self.make_room_for(self.held_tokens());
        Ok(events)
    }

    /// Gives the prefix cache the blocks that this step completed.
    fn share(&mut self, work: &StepWork) -> Result<()> {
        let Some(prefixes) = &mut self.prefixes else { return Ok(()) };
        for part in &work.parts {
            let request = &mut self.requests[part.id];
            let whole = request.past_tokens / BLOCK * BLOCK;
            if whole > request.shared_tokens {
                let copy = |tokens| match (self.model, &request.cache) {
                    (Some(model), Some(cache)) => model.copy_out(cache, tokens).map(Some),
                    _ => Ok(None),
                };
                prefixes.add(&request.sequence.ids[..whole], request.shared_tokens, &mut { copy })?;
                request.shared_tokens = whole;
            }
        }
        Ok(())
    }

    /// What was done with the requests that are done; steps that others took part in are among `steps`.
    pub fn into_report(self) -> ServingReport {
        let done = self.requests.into_iter().filter(|request| request.is_done);
        ServingReport {
            requests: done.map(|request| request.record).collect(),
            steps: self.steps,
            options: self.options,
            run: None,
        }
    }
}
