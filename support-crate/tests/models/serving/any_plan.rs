//! Whatever is planned, each request has the tokens that it has alone; and a simulation has the steps of a server.

use proptest::prelude::*;
use quantlab::generate::GenerateOptions;
use quantlab::serve::{
    Plan, Request, RequestState, Server, ServerOptions, ServingReport, View, first_come, poisson_arrivals, simulate,
    static_batch,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::{FORMATS, MODELS, embedded, model, request};

/// Does anything that is allowed: preempts, computes some tokens of some requests, in any order.
fn anything(rng: &mut StdRng, preempt: f64, view: &View) -> Plan {
    let mut plan = Plan::default();
    let (mut free, mut budget) = (view.free_tokens, view.max_tokens_per_step);
    plan.preempt.extend(view.running.iter().filter(|_| rng.random_bool(preempt)).map(|request| request.id));
    if free == 0 && plan.preempt.is_empty() {
        // The first one is never in the way, so that it gets done.
        plan.preempt.extend(view.running.last().map(|request| request.id));
    }
    let preempted = view.running.iter().filter(|request| plan.preempt.contains(&request.id));
    free += preempted.map(|request| request.past_tokens).sum::<usize>();
    let mut places = view.max_running - view.running.len() + plan.preempt.len();
    let mut all: Vec<(&RequestState, bool)> = view.running.iter().map(|request| (request, true)).collect();
    all.retain(|(request, _)| !plan.preempt.contains(&request.id));
    all.extend(view.waiting.iter().map(|request| (request, false)));
    all.shuffle(rng);
    for (request, is_running) in all {
        let held = if is_running { 0 } else { request.past_tokens };
        let most = request.to_compute().min(budget).min(free.saturating_sub(held));
        if most == 0 || (!is_running && places == 0) || rng.random_bool(0.2) {
            continue;
        }
        let tokens = rng.random_range(1..=most);
        (free, budget, places) = (free - held - tokens, budget - tokens, places - usize::from(!is_running));
        plan.compute.push((request.id, tokens));
    }
    plan
}

/// Runs a server by hand until all is done; requests come at random before steps.
fn run(
    mut server: Server<'_>,
    requests: &[Request],
    rng: &mut StdRng,
    scheduler: &mut dyn FnMut(&View) -> Plan,
) -> ServingReport {
    let mut to_come = requests.iter();
    let mut steps = 0;
    while server.is_busy() || to_come.len() > 0 {
        if !server.is_busy() || rng.random_bool(0.3) {
            to_come.next().map(|request| server.submit(request.clone()).unwrap());
        }
        server.step(scheduler).unwrap();
        steps += 1;
        assert!(steps < 10_000, "the scheduler gets nowhere: {:?}", server.view());
    }
    server.into_report()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn each_request_has_the_tokens_that_it_has_alone(
        seed: u64, name in prop::sample::select(MODELS.to_vec()), format in prop::sample::select(FORMATS.to_vec()),
        prefix_cache: bool, max_running in 1..6_usize, max_tokens_per_step in 4..65_usize, spare in 0..150_usize,
        do_sample: bool,
    ) {
        let mut rng = StdRng::seed_from_u64(seed);
        // Some begin with the same tokens.
        let common: Vec<u32> = (0..70).map(|_| rng.random_range(0..250)).collect();
        let requests: Vec<Request> = (0..6).map(|index| {
            let shared = rng.random_range(0..common.len());
            let own = rng.random_range(1..60);
            let prompt = common[..shared].iter().copied().chain((0..own).map(|_| rng.random_range(0..250))).collect();
            let options = GenerateOptions {
                max_new_tokens: rng.random_range(1..16), do_sample, seed: seed ^ index, top_p: 0.9,
                repetition_penalty: 1.1, stop_at_eos: rng.random_bool(0.5), ..GenerateOptions::default()
            };
            Request { prompt, options }
        }).collect();
        let longest = requests.iter().map(|one| one.prompt.len() + one.options.max_new_tokens).max().unwrap();
        let options = ServerOptions {
            max_running, max_tokens_per_step, cache_tokens: longest + spare, cache_format: Some(format), prefix_cache,
        };
        let loaded = model(name);
        let server = Server::with_cost(&*loaded.model, &options, |_| 1.0).unwrap();
        let mut of_plans = StdRng::seed_from_u64(!seed);
        let report = run(server, &requests, &mut rng, &mut |view| {
            // Rarely, or those that come last would never be read.
            anything(&mut of_plans, 0.01, view)
        });
        for (id, (found, Request { prompt, options })) in report.requests.iter().zip(&requests).enumerate() {
            let alone = GenerateOptions { cache_format: Some(format), ..options.clone() };
            let alone = loaded.generate_tokens(prompt, &alone).unwrap();
            prop_assert_eq!(&found.tokens, &alone.tokens, "request {} of {} in {}", id, loaded.model_id, format);
            prop_assert_eq!((found.prompt_tokens, found.finish_reason), (alone.prompt_tokens, alone.finish_reason));
            prop_assert_eq!(found.tokens.len(), found.token_s.len());
        }
        prop_assert!(report.steps.iter().all(|step| step.held_tokens <= options.cache_tokens));
        let most = report.steps.iter().map(|step| (step.tokens, step.requests));
        prop_assert!(most.into_iter().all(|(tokens, running)| tokens <= max_tokens_per_step && running <= max_running));
        prop_assert!(prefix_cache || report.copied_tokens() == 0);
    }

    #[test]
    fn a_simulation_has_the_steps_of_a_server(
        seed: u64, prefix_cache: bool, is_static: bool, max_running in 1..6_usize, max_tokens_per_step in 1..40_usize,
        rate in 0.5..50.0_f64,
    ) {
        let loaded = embedded();
        let mut rng = StdRng::seed_from_u64(seed);
        let requests = (0..8).map(|_| {
            let prompt = (0..rng.random_range(1..90)).map(|at| at % 50).collect();
            request(prompt, rng.random_range(1..12))
        });
        let arrivals = poisson_arrivals(rate, seed, requests).unwrap();
        let options =
            ServerOptions { max_running, max_tokens_per_step, cache_tokens: 150, cache_format: None, prefix_cache };
        let scheduler = if is_static { static_batch } else { first_come };
        let cost = |work: &quantlab::serve::StepWork| 0.01 + 0.001 * work.tokens() as f64;
        let found = simulate(&arrivals, &options, scheduler, cost).unwrap();
        let mut server = Server::with_cost(&*loaded.model, &options, cost).unwrap();
        // The same by hand: a step, then who has come by now, or the next one if there is nothing to do.
        let mut to_come = arrivals.iter().peekable();
        for step in &found.steps {
            while let Some((_, request)) = to_come.next_if(|(at, _)| *at <= step.start_s) {
                server.submit(request.clone()).unwrap();
            }
            server.step(&mut { scheduler }).unwrap();
        }
        let real = server.into_report();
        prop_assert_eq!(real.requests.len(), 8);
        for (found, real) in found.steps.iter().zip(&real.steps) {
            prop_assert_eq!(
                (found.requests, found.tokens, found.copied_tokens, found.new_tokens, found.held_tokens),
                (real.requests, real.tokens, real.copied_tokens, real.new_tokens, real.held_tokens)
            );
        }
        // No token is computed twice or left out, unless it was preempted.
        if found.requests.iter().all(|request| request.preemptions == 0) {
            let needed: usize = arrivals.iter().map(|(_, one)| one.prompt.len() + one.options.max_new_tokens - 1).sum();
            prop_assert_eq!(found.computed_tokens() + found.copied_tokens(), needed);
        }
    }
}
