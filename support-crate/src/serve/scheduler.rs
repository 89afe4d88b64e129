//! What a scheduler sees and what it answers, and two schedulers.

use serde::Serialize;

/// What a scheduler sees before a step. It answers with a [`Plan`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// Seconds since the server began.
    pub now_s: f64,
    /// Requests that have no cache: new ones, and those that were preempted. In order of their ids, and so of arrival.
    pub waiting: Vec<RequestState>,
    /// Requests that have one, in order of their ids.
    pub running: Vec<RequestState>,
    /// At most so many requests run at once.
    pub max_running: usize,
    /// A step computes at most so many tokens, of all requests together.
    pub max_tokens_per_step: usize,
    /// Tokens for which there is still room in caches. (What the prefix cache holds makes way, and does not count.)
    pub free_tokens: usize,
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RequestState {
    /// Its number: requests are counted from 0 in the order in which they arrive.
    pub id: usize,
    /// Tokens that are known: the prompt and what has been generated.
    pub tokens: usize,
    /// How many of them need not be computed, from the first on: they are in its cache or, while it waits, in the
    /// prefix cache. At least one is always to be computed.
    pub past_tokens: usize,
    /// How many of the known tokens were generated.
    pub new_tokens: usize,
    /// How many more will be generated, at most; at least 1.
    pub left_tokens: usize,
    /// Seconds since it arrived.
    pub age_s: f64,
}

impl RequestState {
    /// Tokens to compute before the next one can be chosen: the rest of a prompt, or the 1 that was chosen last.
    pub fn to_compute(&self) -> usize {
        self.tokens - self.past_tokens
    }

    /// Whether it has been read, and goes on token by token.
    pub fn is_decoding(&self) -> bool {
        self.new_tokens > 0 && self.to_compute() == 1
    }

    /// Tokens that its cache holds at the end, at most. (The last one is not fed back.)
    pub fn final_tokens(&self) -> usize {
        self.tokens + self.left_tokens - 1
    }
}

/// What happens in a step.
///
/// Reading a prompt and decoding are not told apart: either way, a request has tokens that are known and not yet
/// computed, and some of them are computed now. When none is left, its next token is chosen.
///
/// Source: the scheduler of vLLM V1, which plans a number of tokens for each request in the same way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Running requests whose caches are given up first. They wait again, and all their tokens are computed anew.
    pub preempt: Vec<usize>,
    /// Requests, and how many tokens of each to compute: from 1 to [`to_compute`](RequestState::to_compute). Who waits
    /// is admitted by it, and takes room for its past tokens too.
    pub compute: Vec<(usize, usize)>,
}

/// Continuous batching, first come, first served: in every step each running request goes on, as long as the step has
/// tokens left, a long prompt in chunks that fit into it, and who waits is admitted as soon as there is room for its
/// tokens. When room runs out, the request that came last is preempted.
///
/// Source: Yu et al. 2022, "Orca" (OSDI); Agrawal et al. 2023, "Sarathi", arXiv:2308.16369 (chunks); the default of
/// vLLM.
///
/// ```
/// use quantlab::serve::{RequestState, View, first_come};
///
/// let decoding =
///     RequestState { id: 0, tokens: 9, past_tokens: 8, new_tokens: 3, left_tokens: 5, age_s: 0.2 };
/// let new = RequestState { id: 1, tokens: 100, past_tokens: 0, new_tokens: 0, left_tokens: 5, age_s: 0.0 };
/// let view = View {
///     now_s: 1.0,
///     waiting: vec![new],
///     running: vec![decoding],
///     max_running: 8,
///     max_tokens_per_step: 64,
///     free_tokens: 500,
/// };
/// assert_eq!(first_come(&view).compute, [(0, 1), (1, 63)]);
/// ```
pub fn first_come(view: &View) -> Plan {
    let (mut plan, mut free, mut budget) = (Plan::default(), view.free_tokens, view.max_tokens_per_step);
    let mut running = view.running.as_slice();
    while let [request, rest @ ..] = running {
        let tokens = request.to_compute().min(budget);
        if tokens <= free {
            plan.compute.extend((tokens > 0).then_some((request.id, tokens)));
            (free, budget) = (free - tokens, budget - tokens);
            running = rest;
        } else {
            // Maybe this one itself.
            let last = running[running.len() - 1];
            plan.preempt.push(last.id);
            free += last.past_tokens;
            running = &running[..running.len() - 1];
        }
    }
    if !plan.preempt.is_empty() {
        return plan;
    }
    let places = view.max_running.saturating_sub(view.running.len());
    for request in view.waiting.iter().take(places) {
        if budget == 0 || request.tokens > free {
            break;
        }
        let tokens = request.to_compute().min(budget);
        plan.compute.push((request.id, tokens));
        (free, budget) = (free - request.tokens, budget - tokens);
    }
    plan
}

/// Static batching, the baseline: requests that wait are read into a batch, as many as have room, then all are decoded
/// together until the last one is done, as many as a step has tokens for; who comes meanwhile waits.
pub fn static_batch(view: &View) -> Plan {
    let mut plan = Plan::default();
    // After an interrupted step, requests that had been decoded are read again.
    let is_reading = view.running.iter().any(|request| !request.is_decoding());
    if is_reading || view.running.iter().all(|request| request.new_tokens <= 1) {
        let mut budget = view.max_tokens_per_step;
        // Room for all that each will ever need: nobody is preempted.
        let still_needed = view.running.iter().map(|request| request.final_tokens() - request.past_tokens).sum();
        let mut free = view.free_tokens.saturating_sub(still_needed);
        let places = view.max_running.saturating_sub(view.running.len());
        let admitted = view.waiting.iter().take(places).take_while(|request| {
            let fits = request.final_tokens() <= free;
            free = free.saturating_sub(request.final_tokens());
            fits
        });
        for request in view.running.iter().filter(|request| !request.is_decoding()).chain(admitted) {
            let tokens = request.to_compute().min(budget);
            plan.compute.extend((tokens > 0).then_some((request.id, tokens)));
            budget -= tokens;
        }
    }
    if plan.compute.is_empty() {
        let all = view.running.iter().take(view.max_tokens_per_step);
        plan.compute = all.map(|request| (request.id, 1)).collect();
    }
    plan
}
