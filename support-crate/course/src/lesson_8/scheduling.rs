//! `plan`: who computes how many tokens in the next step.

use std::cell::Cell;

use rand::Rng;
use rand::rngs::StdRng;

use quantlab::serve::{Plan, RequestState, ServerOptions, View, simulate};

use super::simulation::{Job, arrivals};
use super::trials::{all_same, slips};
use crate::cases::{random, size};
use crate::figure::Given;
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Who has been promised something already? What is left of the step after them, and of the room?",
    "First 1 token for each running request that `is_decoding`; then those that still read their prompts, up to `to_compute()` \
     each; at last those that wait, in order. Of the room, set aside what running requests will still need, `final_tokens() - \
     past_tokens` each, and admit a request only if its own `final_tokens()` fit into the rest. The first that does not ends it.",
    "`let mut take = |request: &RequestState| { let tokens = request.to_compute().min(budget); budget -= tokens; if tokens > 0 { \
     plan.compute.push((request.id, tokens)); } };`, first for the running ones in two rounds. Then `for request in \
     &view.waiting { if places == 0 || budget == 0 || request.final_tokens() > room { break; } .. }`",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    Right,
    ReadingFirst,
    OneLeft,
    WholePrompts,
    NoBudget,
    NoPlaces,
    NoRoom,
    PromptOnly,
    NotSetAside,
    NotUsedUp,
    UsedByChunk,
    AsideInAll,
    AsideOneMore,
    JustNot,
    Overtakes,
    DecodingOnly,
    Static,
    LastFirst,
    IgnoresPast,
    NothingNew,
}

const SLIPS: [(Slip, &str); 19] = [
    (Slip::NoBudget, "a step computes at most `max_tokens_per_step` tokens, of all requests together"),
    (Slip::NoPlaces, "at most `max_running` requests run at once"),
    (Slip::ReadingFirst, "who decodes goes first: a long prompt must not keep the others waiting for their next token"),
    (Slip::OneLeft, "who reads its prompt does not decode yet, though only 1 token of it is left: `is_decoding()`"),
    (Slip::DecodingOnly, "a running request that still reads its prompt goes on, too"),
    (Slip::WholePrompts, "a prompt is read in chunks: as many of its tokens as the step has left"),
    (Slip::IgnoresPast, "what is in the cache already is not computed again: `to_compute()`"),
    (Slip::NothingNew, "those that wait are admitted while others run, too"),
    (Slip::Static, "those that wait are admitted while others run, too"),
    (Slip::LastFirst, "first come, first served: in the order of `waiting`"),
    (Slip::NoRoom, "a request is admitted only if there is room for its tokens"),
    (
        Slip::PromptOnly,
        "a request needs room for all tokens that it will have, `final_tokens()`, or it ends up without",
    ),
    (Slip::NotSetAside, "running requests will still grow: set room aside for `final_tokens() - past_tokens` of each"),
    (Slip::AsideInAll, SET_ASIDE),
    (Slip::AsideOneMore, SET_ASIDE),
    (Slip::JustNot, "`final_tokens()` may be all the room that there is"),
    (Slip::NotUsedUp, "who has just been admitted takes room, and a place, from the next"),
    (
        Slip::UsedByChunk,
        "who has just been admitted takes room for its `final_tokens()`, not only for what is computed now",
    ),
    (
        Slip::Overtakes,
        "if a request does not fit, those after it wait, too: else small ones would pass it again and again",
    ),
];

const SET_ASIDE: &str =
    "`free_tokens` is without what running requests have: set `final_tokens() - past_tokens` of each aside";

const PREEMPTS: &str = "nobody needs to be preempted: who runs has room to its end";

fn planned(view: &View, slip: Slip) -> Vec<(usize, usize)> {
    let mut budget = if slip == Slip::NoBudget { usize::MAX } else { view.max_tokens_per_step };
    let mut compute = Vec::new();
    let mut take = |request: &RequestState, budget: &mut usize| {
        let left = if slip == Slip::IgnoresPast { request.tokens } else { request.to_compute() };
        let tokens = left.min(*budget);
        if tokens > 0 && (slip != Slip::WholePrompts || tokens == left) {
            compute.push((request.id, tokens));
            *budget -= tokens;
        }
    };
    let (first, second): (Vec<_>, Vec<_>) = view.running.iter().partition(|request| match slip {
        Slip::ReadingFirst => !request.is_decoding(),
        Slip::OneLeft => request.to_compute() == 1,
        _ => request.is_decoding(),
    });
    first.into_iter().for_each(|request| take(request, &mut budget));
    second.into_iter().filter(|_| slip != Slip::DecodingOnly).for_each(|request| take(request, &mut budget));

    let needed = |request: &RequestState| match slip {
        Slip::NoRoom => 0,
        Slip::PromptOnly => request.tokens,
        _ => request.final_tokens(),
    };
    let set_aside = |request: &RequestState| match slip {
        Slip::NotSetAside => 0,
        Slip::AsideInAll => request.final_tokens(),
        Slip::AsideOneMore => request.final_tokens() - request.past_tokens + 1,
        _ => request.final_tokens() - request.past_tokens,
    };
    let mut room = view.free_tokens.saturating_sub(view.running.iter().map(set_aside).sum());
    let mut places = view.max_running.saturating_sub(view.running.len());
    if slip == Slip::NoPlaces {
        places = usize::MAX;
    }
    let mut waiting = view.waiting.clone();
    match slip {
        Slip::LastFirst => waiting.reverse(),
        Slip::NothingNew => waiting.clear(),
        Slip::Static if !view.running.is_empty() => waiting.clear(),
        _ => (),
    }
    for request in &waiting {
        let fits = places > 0 && budget > 0 && needed(request) + usize::from(slip == Slip::JustNot) <= room;
        if !fits && slip == Slip::Overtakes {
            continue;
        }
        if !fits {
            break;
        }
        let before = budget;
        take(request, &mut budget);
        let used = if slip == Slip::UsedByChunk { before - budget } else { needed(request) };
        if slip != Slip::NotUsedUp {
            (room, places) = (room - used, places - 1);
        }
    }
    compute.sort_unstable();
    compute
}

/// The rules that `plan` has to follow, for tests of what uses one.
pub(super) fn in_order(view: &View) -> Plan {
    Plan { compute: planned(view, Slip::Right), ..Plan::default() }
}

/// Some moment of a server. `wait`: whether anybody waits; `tight`: whether there may be too little room for all of them.
fn moment(rng: &mut StdRng, wait: bool, tight: bool) -> View {
    let (n_running, n_waiting) = (rng.random_range(0..6), if wait { rng.random_range(1..6) } else { 0 });
    let mut state = |id: usize, runs: bool| {
        let prompt = size(rng, 90);
        let decodes = runs && rng.random_bool(0.6);
        let new_tokens = if decodes { size(rng, 20) } else { 0 };
        let tokens = prompt + new_tokens;
        let past_tokens = match (runs, decodes) {
            (true, true) => tokens - 1,
            (true, false) => rng.random_range(0..prompt),
            (false, _) => prompt.saturating_sub(1) / 16 * 16 * rng.random_range(0..2),
        };
        let left_tokens = size(rng, 40);
        RequestState { id, tokens, past_tokens, new_tokens, left_tokens, age_s: 0.5 }
    };
    let running: Vec<RequestState> = (0..n_running).map(|id| state(3 * id, true)).collect();
    let waiting: Vec<RequestState> = (0..n_waiting).map(|id| state(3 * (n_running + id), false)).collect();
    let set_aside: usize = running.iter().map(|request| request.final_tokens() - request.past_tokens).sum();
    let needed: usize = waiting.iter().map(RequestState::final_tokens).sum();
    let free_tokens = set_aside + if tight { rng.random_range(0..=needed) } else { needed + 500 };
    let places = if tight { 6 } else { rng.random_range(0..=n_waiting + 1) };
    // At times just as many as the first ones need, or one or two more.
    let max_tokens_per_step = if tight {
        400
    } else if rng.random_bool(0.5) {
        size(rng, 120)
    } else {
        let first = running.iter().chain(&waiting).take(n_running + rng.random_range(0..=n_waiting));
        (first.map(RequestState::to_compute).sum::<usize>() + rng.random_range(0..3)).max(1)
    };
    View { now_s: 2.0, waiting, running, max_running: n_running + places, max_tokens_per_step, free_tokens }
}

fn shown(view: &View) -> String {
    let list = |requests: &[RequestState]| {
        let one = |r: &RequestState| {
            let doing = if r.is_decoding() { "decodes".to_owned() } else { format!("{} to compute", r.to_compute()) };
            format!("{} ({doing}, {} in the end)", r.id, r.final_tokens())
        };
        if requests.is_empty() { "none".to_owned() } else { requests.iter().map(one).collect::<Vec<_>>().join(", ") }
    };
    format!(
        "the plan with running: {}; waiting: {}; at most {} tokens and {} requests, {} tokens free, sorted by id,",
        list(&view.running),
        list(&view.waiting),
        view.max_tokens_per_step,
        view.max_running,
        view.free_tokens
    )
}

/// Checks `plan(view)`.
pub fn check_plan(yours: fn(&View) -> Plan) -> Score {
    let of = |seed: u64, wait: bool, tight: bool| -> Result<Vec<_>, Complaint> {
        let mut rng = random(seed);
        let trial = |_| {
            let view = moment(&mut rng, wait, tight);
            let Plan { mut compute, preempt } = ask(|| Ok(yours(&view)))?;
            compute.sort_unstable();
            if !preempt.is_empty() {
                return Err(Complaint::wrong(PREEMPTS));
            }
            if compute.iter().any(|(_, tokens)| *tokens == 0) {
                return Err(Complaint::wrong("a request that computes 0 tokens does not belong into the plan"));
            }
            let expected = planned(&view, Slip::Right);
            let mistakes = slips(&SLIPS, |slip| planned(&view, slip));
            Ok(Given { what: shown(&view), got: compute, expected, mistakes })
        };
        (0..80).map(trial).collect()
    };
    Score::new("plan", HINTS)
        .point("running requests go on: who decodes first, then prompts in chunks", all_same(of(91, false, false)))
        .point("who waits is admitted in order, while places and tokens last", all_same(of(92, true, false)))
        .point("and only with room for all that it will need", all_same(of(93, true, true)))
        .point("a server with it gets all requests done, as soon as it can", to_the_end(&yours))
}

/// Serves requests on a virtual clock.
fn to_the_end(yours: &dyn Fn(&View) -> Plan) -> Verdict {
    let mut rng = random(94);
    for (max_running, max_tokens_per_step, cache_tokens) in [(1, 8, 200), (4, 16, 300), (8, 64, 100_000), (3, 2, 150)] {
        let mut at = 0.0;
        let mut job = |_| {
            at += if rng.random_bool(0.2) { 3.0 } else { rng.random_range(0.0..0.2) };
            Job { arrival_s: at, prompt_tokens: size(&mut rng, 80), new_tokens: size(&mut rng, 30) }
        };
        let jobs: Vec<Job> = (0..25).map(&mut job).collect();
        let options = ServerOptions { max_running, max_tokens_per_step, cache_tokens, ..ServerOptions::default() };
        let cost = |tokens: usize| 0.02 + 0.001 * tokens as f64;
        let run = |scheduler: &dyn Fn(&View) -> Plan| {
            simulate(&arrivals(&jobs), &options, scheduler, |work| cost(work.tokens()))
        };
        // Who is preempted again and again would never be done.
        let preempts = Cell::new(false);
        let without_preempting = |view: &View| {
            let plan = yours(view);
            preempts.set(preempts.get() || !plan.preempt.is_empty());
            if preempts.get() { Plan::default() } else { plan }
        };
        let got = ask(|| run(&without_preempting));
        if preempts.get() {
            return Err(Complaint::wrong(PREEMPTS));
        }
        let (got, expected) = (got?, run(&in_order)?);
        for (id, (got, expected)) in got.requests.iter().zip(&expected.requests).enumerate() {
            let finish = [got, expected].map(|request| request.finish_s());
            if (finish[0] - finish[1]).abs() > 1e-9 {
                return wrong!(
                    "of 25 requests with at most {max_running} at once, {max_tokens_per_step} tokens a step and a cache of \
                     {cache_tokens}, request {id} is done after {:.3} s, expected {:.3} s",
                    finish[0],
                    finish[1]
                );
            }
        }
    }
    Ok(())
}
