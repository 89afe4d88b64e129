//! `percentile` and `simulated`: a server on paper, and what its users see.

use std::cell::Cell;

use rand::Rng;

use quantlab::generate::GenerateOptions;
use quantlab::report::significant;
use quantlab::serve::{Plan, Request, RequestState, ServerOptions, View, first_come, simulate, static_batch};

use crate::cases::{KINDS, random, row, size};
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, Verdict, ask};

/// What a request takes, and when it comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// Seconds since the server began.
    pub arrival_s: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: usize,
    /// New tokens that it wants, at least 1.
    pub new_tokens: usize,
}

/// How far a request is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The request.
    pub job: Job,
    /// Tokens that were computed: what is in its cache.
    pub past_tokens: usize,
    /// When each of its new tokens was known, in seconds since the server began.
    pub token_s: Vec<f64>,
}

impl Progress {
    /// Nothing is done yet.
    pub fn of(job: &Job) -> Self {
        Self { job: *job, past_tokens: 0, token_s: Vec::new() }
    }

    /// Tokens that are known: the prompt and the new ones.
    pub fn tokens(&self) -> usize {
        self.job.prompt_tokens + self.token_s.len()
    }

    /// Whether all new tokens are known.
    pub fn is_done(&self) -> bool {
        self.token_s.len() >= self.job.new_tokens
    }

    /// From its arrival to its first token, in seconds; NaN as long as there is none.
    pub fn ttft_s(&self) -> f64 {
        self.token_s.first().map_or(f64::NAN, |first| first - self.job.arrival_s)
    }
}

/// What a scheduler sees at some time, of requests in order of their arrival: those that have not arrived or are done are left
/// out, those of which nothing was computed wait.
pub fn view_at(now_s: f64, requests: &[Progress], options: &ServerOptions) -> View {
    let is_here = |(_, request): &(usize, &Progress)| request.job.arrival_s <= now_s && !request.is_done();
    let state = |(id, request): (usize, &Progress)| RequestState {
        id,
        tokens: request.tokens(),
        past_tokens: request.past_tokens,
        new_tokens: request.token_s.len(),
        left_tokens: request.job.new_tokens - request.token_s.len(),
        age_s: now_s - request.job.arrival_s,
    };
    let all: Vec<RequestState> = requests.iter().enumerate().filter(is_here).map(state).collect();
    let (waiting, running): (Vec<_>, Vec<_>) = all.into_iter().partition(|request| request.past_tokens == 0);
    let held: usize = running.iter().map(|request| request.past_tokens).sum();
    let ServerOptions { max_running, max_tokens_per_step, cache_tokens, .. } = *options;
    View { now_s, waiting, running, max_running, max_tokens_per_step, free_tokens: cache_tokens.saturating_sub(held) }
}

/// Requests of any tokens that take as much.
pub(super) fn arrivals(jobs: &[Job]) -> Vec<(f64, Request)> {
    let request = |job: &Job| {
        let options = GenerateOptions { max_new_tokens: job.new_tokens, ..GenerateOptions::default() };
        (job.arrival_s, Request { prompt: vec![1; job.prompt_tokens], options })
    };
    jobs.iter().map(request).collect()
}

const PERCENTILE_HINTS: [&str; 3] = [
    "Of five values in order, the first is 0 % and the last is 100 %. Where does the third stand, and where does 90 % lie?",
    "Sorted, value i of n stands at 100 i / (n - 1) percent. So percent p lies at place p / 100 * (n - 1), mostly between two \
     values: go on a straight line from the one to the other.",
    "`sorted.sort_by(f64::total_cmp); let place = percent / 100.0 * (sorted.len() - 1) as f64; let low = place as usize; let high \
     = (low + 1).min(sorted.len() - 1);`, then `sorted[low] + (place - low as f64) * (sorted[high] - sorted[low])`",
];

/// Checks `percentile(values, percent)`.
pub fn check_percentile(yours: fn(&[f64], f64) -> f64) -> Score {
    let figure = |values: &[f64], percent: f64| -> Result<Figure, Complaint> {
        let got = ask(|| Ok(yours(values, percent)))?;
        let at = |values: &[f64], place: f64| {
            let (low, last) = (place.floor().clamp(0.0, 1e9) as usize, values.len() - 1);
            let (low, high) = (low.min(last), (low + 1).min(last));
            values[low] + (place - place.floor()) * (values[high] - values[low])
        };
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut once = sorted.clone();
        once.dedup();
        let (n, part) = (values.len() as f64, percent / 100.0);
        let place = part * (n - 1.0);
        let nearest = |place: f64| sorted[(place.max(0.0) as usize).min(values.len() - 1)];
        let [places, ends, between] = [
            "by places in the order, not between the two ends",
            "the first value stands at 0 %, the last at 100 %: place percent / 100 * (n - 1)",
            "between two values, go on a straight line from one to the other",
        ];
        let mistakes = vec![
            (at(values, place), "sort the values first"),
            (at(&sorted, part * n), "the largest value is number n - 1, so 100 % lies at place n - 1"),
            (nearest(place.floor()), between),
            (nearest(place.round()), between),
            (nearest((part * n).ceil() - 1.0), between),
            (nearest((part * n).floor()), between),
            (at(&sorted, (part * (n + 1.0) - 1.0).clamp(0.0, n - 1.0)), ends),
            (at(&sorted, (part * n - 0.5).clamp(0.0, n - 1.0)), ends),
            (at(&once, part * (once.len() as f64 - 1.0)), "values that come twice count twice"),
            (at(&sorted, (1.0 - part) * (n - 1.0)), "from the smallest value on, not from the largest"),
            (nearest(place.floor()) + nearest(place.floor() + 1.0) - at(&sorted, place), "the nearer one counts more"),
            (sorted[0] + part * (sorted[values.len() - 1] - sorted[0]), places),
        ];
        let what = if values.len() <= 5 {
            let shown: Vec<String> = values.iter().map(|value| significant(*value, 6)).collect();
            format!("percentile(&[{}], {percent})", shown.join(", "))
        } else {
            format!("percentile({} values, {percent})", values.len())
        };
        Ok(Figure { what, got, expected: at(&sorted, place), mistakes })
    };
    let of = |lengths: &[usize], percents: &[f64]| -> Result<(), Complaint> {
        let mut rng = random(95);
        let mut figures = Vec::new();
        for (&n, kind) in lengths.iter().flat_map(|n| (1..=KINDS).map(move |kind| (n, kind))) {
            let values: Vec<f64> = row(&mut rng, kind, n).into_iter().map(f64::from).collect();
            for &percent in percents {
                figures.push(figure(&values, percent)?);
            }
        }
        all_right(&figures, |a, b| (a - b).abs() <= 1e-9)
    };
    Score::new("percentile", PERCENTILE_HINTS)
        .point("between two values", of(&[2, 5, 20, 101], &[50.0, 90.0, 99.0, 12.5, 33.0]))
        .point(
            "at both ends, and of one value",
            of(&[1, 2, 3, 40], &[0.0, 100.0]).and_then(|()| of(&[1], &[50.0, 99.0])),
        )
}

const HINTS: [&str; 3] = [
    "What happens in a step, in which order: who is there, what is planned, how long it takes, and what is known afterwards?",
    "As long as a request is not done: the plan for `view_at(now, ..)`. If it computes nothing, it is the next arrival after \
     `now`. Otherwise `now` grows by the seconds for all tokens of the plan, each request's `past_tokens` by its own, and where \
     `past_tokens` has reached `tokens()`, a new token is known at the *new* `now`.",
    "`let tokens = plan.compute.iter().map(|(_, tokens)| tokens).sum(); now += seconds(tokens); for (id, tokens) in plan.compute \
     { requests[id].past_tokens += tokens; if requests[id].past_tokens == requests[id].tokens() { requests[id].token_s.push(now); \
     } }`",
];

type Scheduler<'a> = dyn Fn(&View) -> Plan + 'a;
type Seconds<'a> = dyn Fn(usize) -> f64 + 'a;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    AtStart,
    ByChunk,
    ByRequests,
    EachAlone,
    InTurn,
    OneByOne,
    FromZero,
    SinceArrival,
    StopsIdle,
}

const SLIPS: [(Slip, &str); 9] = [
    (Slip::AtStart, "a step's tokens are known at its end: let the time pass first"),
    (Slip::ByChunk, "a prompt gives its first token when its last token is computed, not with each chunk"),
    (Slip::ByRequests, "a step takes the time of its tokens, not of its requests"),
    (Slip::EachAlone, "the requests of a step share it: one call of `seconds` with the tokens of all of them"),
    (Slip::InTurn, "the requests of a step are not computed one after another: all its tokens are known at its end"),
    (Slip::OneByOne, "if there is nothing to do, the next step begins with the next arrival, and not later"),
    (Slip::SinceArrival, "`token_s` counts from when the server began, not from the request's arrival"),
    (Slip::StopsIdle, "if there is nothing to do, go on at the next arrival; stop only if none is to come"),
    (Slip::FromZero, "a request cannot be served before it arrives: wait for the next arrival"),
];

/// Written apart from the library's, with each mistake.
fn served(
    jobs: &[Job],
    options: &ServerOptions,
    scheduler: &Scheduler<'_>,
    seconds: &Seconds<'_>,
    slip: Slip,
) -> Vec<Progress> {
    let mut requests: Vec<Progress> = jobs.iter().map(Progress::of).collect();
    let mut now = if slip == Slip::FromZero { jobs.last().map_or(0.0, |job| job.arrival_s) } else { 0.0 };
    let offset = now;
    while requests.iter().any(|request| !request.is_done()) {
        let plan = scheduler(&view_at(now, &requests, options)).compute;
        if plan.is_empty() && slip == Slip::StopsIdle {
            break;
        }
        if plan.is_empty() {
            let later = jobs.iter().map(|job| job.arrival_s).filter(|at| *at > now);
            now = later.fold(f64::INFINITY, f64::min) + if slip == Slip::OneByOne { 0.01 } else { 0.0 };
            continue;
        }
        let tokens: usize = plan.iter().map(|(_, tokens)| tokens).sum();
        let before = now;
        now += match slip {
            Slip::ByRequests => seconds(plan.len()),
            Slip::EachAlone => plan.iter().map(|(_, tokens)| seconds(*tokens)).sum(),
            Slip::InTurn => 0.0,
            _ => seconds(tokens),
        };
        for (id, tokens) in plan {
            if slip == Slip::InTurn {
                now += seconds(tokens);
            }
            let request = &mut requests[id];
            request.past_tokens += tokens;
            if request.past_tokens == request.tokens() || slip == Slip::ByChunk {
                let known = match slip {
                    Slip::AtStart => before,
                    Slip::SinceArrival => now - request.job.arrival_s,
                    _ => now - offset,
                };
                request.token_s.push(known);
            }
        }
    }
    requests
}

/// Checks `simulated(jobs, options, scheduler, seconds)`.
pub fn check_simulated(
    yours: fn(&[Job], &ServerOptions, &dyn Fn(&View) -> Plan, &dyn Fn(usize) -> f64) -> Vec<Progress>,
) -> Score {
    let mut rng = random(96);
    let mut loads = Vec::new();
    // One text of more than a thousand steps; and short ones with hardly a pause between them.
    for (n, gap, prompt, new) in [
        (1, 0.0, 90, 1200),
        (9, 0.0, 90, 20),
        (12, 0.05, 90, 20),
        (12, 2.0, 90, 20),
        (30, 0.3, 90, 20),
        (25, 0.04, 2, 1),
    ] {
        let mut at = if n == 9 { 0.0 } else { 0.7 };
        let mut job = |_| {
            at += if gap > 0.0 { rng.random_range(0.0..gap) } else { 0.0 };
            let new_tokens = if n == 1 { new } else { size(&mut rng, new) };
            Job { arrival_s: at, prompt_tokens: size(&mut rng, prompt), new_tokens }
        };
        let jobs: Vec<Job> = (0..n).map(&mut job).collect();
        let options = ServerOptions { max_running: 1 + n / 2, max_tokens_per_step: 24, ..ServerOptions::default() };
        loads.push((jobs, options));
    }
    let seconds = |tokens: usize| 0.013 + 0.0021 * tokens as f64;
    let figures = |scheduler: &Scheduler<'_>, time: fn(&[f64]) -> f64, what: &str| -> Result<Vec<Figure>, Complaint> {
        let mut figures = Vec::new();
        for (jobs, options) in &loads {
            let got = ask(|| Ok(yours(jobs, options, scheduler, &seconds)))?;
            let expected = simulate(&arrivals(jobs), options, scheduler, |work| seconds(work.tokens()))?.requests;
            let slipped: Vec<_> =
                SLIPS.iter().map(|(slip, why)| (served(jobs, options, scheduler, &seconds, *slip), *why)).collect();
            if got.len() != expected.len() {
                return wrong!("{} requests came, and you returned {}", expected.len(), got.len());
            }
            for (id, (got, expected)) in got.iter().zip(&expected).enumerate() {
                if got.token_s.len() != expected.tokens.len() {
                    let (has, wants) = (got.token_s.len(), expected.tokens.len());
                    let slip = slipped.iter().find(|(slipped, _)| slipped[id].token_s.len() == has);
                    let why = slip.map(|(_, why)| format!(": {why}")).unwrap_or_default();
                    return wrong!("request {id} wants {wants} tokens, and has {has}{why}");
                }
                figures.push(Figure {
                    what: format!("{what} of request {id} of {}", jobs.len()),
                    got: time(&got.token_s),
                    expected: time(&expected.token_s),
                    mistakes: slipped.iter().map(|(slipped, why)| (time(&slipped[id].token_s), *why)).collect(),
                });
            }
        }
        Ok(figures)
    };
    let verdict = |scheduler: &Scheduler<'_>, time: fn(&[f64]) -> f64, what| {
        figures(scheduler, time, what).and_then(|figures| all_right(&figures, |a, b| (a - b).abs() <= 1e-9))
    };
    // It must end though requests are left, when a scheduler admits nobody.
    let ends = || -> Verdict {
        let (jobs, options) = &loads[2];
        let asked = Cell::new(0);
        let nobody = |_: &View| {
            asked.set(asked.get() + 1);
            assert!(asked.get() < 1000, "the plan is empty and no request is to arrive any more: stop");
            Plan::default()
        };
        let got = ask(|| Ok(yours(jobs, options, &nobody, &seconds)))?;
        let tokens: usize = got.iter().map(|request| request.token_s.len()).sum();
        if tokens > 0 { wrong!("nothing was ever planned, and there are {tokens} tokens") } else { Ok(()) }
    };
    let first = |t: &[f64]| t.first().copied().unwrap_or(f64::NAN);
    let last = |t: &[f64]| t.last().copied().unwrap_or(f64::NAN);
    Score::new("simulated", HINTS)
        .point("when first tokens are known", verdict(&first_come, first, "the first token"))
        .point("when last tokens are", verdict(&first_come, last, "the last token"))
        .point("with another scheduler, too", {
            verdict(&static_batch, last, "the last token, in static batches,").and_then(|()| ends())
        })
}
