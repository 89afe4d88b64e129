//! Requests that share steps: the tokens of each alone, whatever the scheduler does and however often it begins anew.

mod common;

use common::copy::Copy;
use common::fake::{fake, only};
use common::tiny;
use proptest::prelude::*;
use quantlab::error::Error;
use quantlab::generate::{FinishReason, GenerateOptions};
use quantlab::model::{
    CacheFormat, CausalLm, Engine, KvCache, LoadOptions, Loaded, LogitPositions, TokenBatch, load_model,
};
use quantlab::serve::{
    Phase, Plan, Request, RequestState, Server, ServerOptions, ServingReport, View, first_come, poisson_arrivals,
    serve, simulate, static_batch,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const FORMATS: [CacheFormat; 4] = [CacheFormat::Float32, CacheFormat::Float16, CacheFormat::Int8, CacheFormat::Int4];

fn embedded() -> Loaded {
    load_model(&["embedded"], &LoadOptions::default()).unwrap()
}

/// GPT-2; a Llama with heads in groups; windows; soft caps and norms after each part; parts beside each other; layers
/// without positions.
const MODELS: [&str; 6] = [
    "embedded",
    "tests/golden/llama-tiny",
    "tests/golden/mistral-tiny",
    "tests/families/golden/gemma2-window",
    "tests/families/golden/stablelm-parallel",
    "tests/families/golden/smollm3",
];

/// One of them, with a context of 512 tokens.
fn model(name: &str) -> Loaded {
    if name == "embedded" {
        return embedded();
    }
    let files = std::fs::read_dir(name).unwrap().map(|entry| entry.unwrap().path());
    let copy = Copy::of_files(&files.filter(|path| path.is_file()).collect::<Vec<_>>());
    copy.change_config(|config| config["max_position_embeddings"] = 512.into());
    copy.load().unwrap()
}

fn request(prompt: Vec<u32>, max_new_tokens: usize) -> Request {
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    Request { prompt, options }
}

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

fn read(model: &dyn CausalLm, cache: &mut KvCache, ids: &[u32]) -> Vec<f32> {
    model.forward(&TokenBatch::single(ids).unwrap(), Some(cache), LogitPositions::Last).unwrap().values().to_vec()
}

#[test]
fn sequences_go_on_together_as_each_alone() {
    let ids: Vec<u32> = (0..60).map(|at| at * 7 % 250).collect();
    let tiny = |engine| {
        let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        load_model(&[tiny().to_str().unwrap()], &options).unwrap()
    };
    for loaded in MODELS.map(model).into_iter().chain(Engine::ALL.map(tiny)) {
        let model = &*loaded.model;
        // Formats side by side.
        let formats = match model.info().engine {
            Engine::Kernels => FORMATS.map(Some),
            _ => [None; 4],
        };
        let new = |format| model.new_cache_in(format, 1, 60).unwrap();
        let (mut alone, mut together) = (formats.map(new), formats.map(new));
        let mut from = [0; 4];
        for counts in [[1, 9, 33, 2], [5, 1, 1, 30], [1, 1, 1, 1], [40, 3, 1, 20]] {
            let parts: Vec<&[u32]> = from.iter().zip(counts).map(|(&from, count)| &ids[from..from + count]).collect();
            let logits =
                model.forward_together(&mut parts.iter().copied().zip(&mut together).collect::<Vec<_>>()).unwrap();
            assert_eq!((logits.batch(), logits.positions()), (4, 1));
            for (row, (part, cache)) in parts.iter().zip(&mut alone).enumerate() {
                assert_eq!(logits.row(row, 0), read(model, cache, part), "{}: row {row}", loaded.model_id);
            }
            from.iter_mut().zip(counts).for_each(|(from, count)| *from += count);
            assert!(together.iter().zip(from).all(|(cache, from)| cache.past_len() == from));
        }
    }
}

#[test]
fn sequences_that_cannot_go_on_leave_all_as_they_were() {
    let loaded = embedded();
    let (model, other) = (&*loaded.model, embedded());
    let (mut first, mut two, mut foreign) =
        (model.new_cache(1, 4).unwrap(), model.new_cache(2, 4).unwrap(), other.model.new_cache(1, 4).unwrap());
    assert!(model.forward_together(&mut []).unwrap_err().to_string().contains("no sequences"));
    let mut refused = |ids: &[u32], cache: &mut KvCache, expected: &str| {
        let error = model.forward_together(&mut [(&[1, 2], &mut first), (ids, cache)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!((first.past_len(), cache.past_len()), (0, 0));
    };
    refused(&[], &mut model.new_cache(1, 4).unwrap(), "no tokens");
    refused(&[1, 2, 3, 4, 5], &mut model.new_cache(1, 4).unwrap(), "5 tokens exceed the cache's capacity of 4");
    refused(&[99_999], &mut model.new_cache(1, 4).unwrap(), "token id 99999");
    refused(&[1], &mut two, "the cache holds 2 sequences, the batch has 1");
    refused(&[1], &mut foreign, "another model");
}

#[test]
fn a_block_is_worth_its_tokens_in_every_format() {
    let ids: Vec<u32> = (0..200).map(|at| at * 11 % 250).collect();
    for loaded in MODELS.map(model) {
        let model = &*loaded.model;
        for format in FORMATS {
            let new = || model.new_cache_in(Some(format), 1, 240).unwrap();
            let (mut whole, mut copied) = (new(), new());
            for (from, to) in [(0, 64), (64, 70), (70, 100), (100, 160)] {
                read(model, &mut whole, &ids[from..to]);
                model.copy_in(&model.copy_out(&whole, from..to).unwrap(), &mut copied).unwrap();
            }
            for next in ids[160..].chunks(3) {
                assert!(
                    read(model, &mut whole, next) == read(model, &mut copied, next),
                    "{} in {format}",
                    loaded.model_id
                );
            }
        }
    }
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let loaded = embedded();
    let model = &*loaded.model;
    let ids: Vec<u32> = (0..200).collect();
    let new = |format, batch| model.new_cache_in(Some(format), batch, 240).unwrap();
    let mut cache = new(CacheFormat::Float32, 1);
    read(model, &mut cache, &ids[..40]);
    let refused = |result: Result<_, Error>, expected: &str| {
        let error = result.map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(model.copy_out(&cache, 30..41), "a cache of 40 tokens has no block of 30..41");
    refused(model.copy_out(&cache, 8..8), "no block of 8..8");
    refused(model.copy_out(&new(CacheFormat::Float32, 2), 0..1), "not of 2");
    let block = model.copy_out(&cache, 16..32).unwrap();
    assert_eq!(block.tokens(), 16..32);
    let into = |block, mut cache| model.copy_in(block, &mut cache).map(|()| block.tokens());
    let refused_in = |result: Result<std::ops::Range<usize>, Error>, expected: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused_in(into(&block, new(CacheFormat::Float32, 1)), "tokens 16 to 32 does not follow the 0");
    let first = model.copy_out(&cache, 0..16).unwrap();
    refused_in(into(&first, new(CacheFormat::Int8, 1)), "a block in float32 cannot go into a cache in int8");
    refused_in(into(&first, model.new_cache(1, 15).unwrap()), "room for 15");
    refused_in(into(&first, embedded().model.new_cache(1, 240).unwrap()), "another model");
    let mut codes = new(CacheFormat::Int4, 1);
    read(model, &mut codes, &ids);
    refused(model.copy_out(&codes, 64..80), "has only codes of tokens 64..80");
    assert!(model.copy_out(&codes, 80..96).is_ok());
    let candle = load_model(
        &[tiny().to_str().unwrap()],
        &LoadOptions { engine: Some(Engine::Candle), ..LoadOptions::default() },
    );
    let candle = candle.unwrap();
    let mut cache = candle.model.new_cache(1, 20).unwrap();
    read(&*candle.model, &mut cache, &ids[..16]);
    refused(candle.model.copy_out(&cache, 0..16), "cannot be copied out of a cache in candle");
}

#[test]
fn a_prompt_that_was_there_before_is_not_computed_again() {
    let loaded = embedded();
    let system: Vec<u32> = (1..=100).collect();
    let arrivals: Vec<(f64, Request)> =
        (0..10).map(|user| (0.0, request([&system[..], &[200 + user; 5]].concat(), 4))).collect();
    let report = |prefix_cache, cache_tokens| {
        let options = ServerOptions { prefix_cache, cache_tokens, max_running: 2, ..ServerOptions::default() };
        serve(&loaded, &arrivals, &options, first_come).unwrap()
    };
    let (with, without) = (report(true, 1000), report(false, 1000));
    // The second request comes when four blocks of the first have been read; the others find its six whole ones.
    assert_eq!((with.copied_tokens(), with.prefix_hits()), (64 + 8 * 96, 9));
    assert_eq!(with.computed_tokens() + with.copied_tokens(), without.computed_tokens());
    assert_eq!(without.computed_tokens(), 10 * 108);
    let tokens = |report: &ServingReport| report.requests.iter().map(|one| one.tokens.clone()).collect::<Vec<_>>();
    assert_eq!(tokens(&with), tokens(&without));
    // Blocks make way for requests that run.
    assert_eq!(tokens(&report(true, 2 * 108)), tokens(&without));
}

/// 3 requests of 10 prompt tokens and 4 new ones, 10 tokens a step, a second for each step.
#[test]
fn schedulers_do_what_they_say() {
    let arrivals = [(0.0, request(vec![1; 10], 4)), (0.0, request(vec![2; 10], 2)), (0.5, request(vec![3; 10], 4))];
    let report = |scheduler: fn(&View) -> Plan, cache_tokens| {
        let options =
            ServerOptions { max_running: 2, max_tokens_per_step: 10, cache_tokens, ..ServerOptions::default() };
        simulate(&arrivals, &options, scheduler, |_| 1.0).unwrap()
    };
    let tokens_s = |report: &ServingReport| report.requests.iter().map(|one| one.token_s.clone()).collect::<Vec<_>>();
    // Steps: the first prompt; a token and 9 of the second; a token each and so on; the third has the place of the
    // second.
    let continuous = report(first_come, 100);
    assert_eq!(tokens_s(&continuous), [vec![1.0, 2.0, 3.0, 4.0], vec![3.0, 4.0], vec![5.0 + 0.0, 6.0, 7.0, 8.0]]);
    assert_eq!(continuous.steps.iter().map(|step| step.tokens).collect::<Vec<_>>(), [10, 10, 2, 2, 10, 1, 1, 1]);
    // The batch is read, decoded to its end, and then the next one.
    let fixed = report(static_batch, 100);
    assert_eq!(tokens_s(&fixed), [vec![1.0, 3.0, 4.0, 5.0], vec![2.0, 3.0], vec![6.0, 7.0, 8.0, 9.0]]);
    assert_eq!(fixed.requests[2].phases, [(Phase::Waiting, 0.5), (Phase::Prefill, 5.0), (Phase::Decode, 6.0)]);
    assert_eq!((fixed.requests[2].ttft_s(), fixed.requests[2].tpot_s()), (5.5, Some(1.0)));
    assert_eq!((fixed.seconds(), fixed.new_tokens(), fixed.busy()), (9.0, 10, 1.0));
    assert_eq!((fixed.ttft_s().median(), fixed.gap_s().unwrap().at(100.0)), (2.0, Some(2.0)));
    // Room for one and a half: the one that came last is preempted, and gets its tokens all the same.
    let tight = report(first_come, 22);
    assert_eq!(tight.requests.iter().map(|one| one.preemptions).collect::<Vec<_>>(), [0, 1, 0]);
    let phases: Vec<Phase> = tight.requests[1].phases.iter().map(|(phase, _)| *phase).collect();
    let each = [Phase::Waiting, Phase::Prefill, Phase::Decode];
    assert_eq!(phases, [each, each].concat());
    assert!(report(static_batch, 22).requests.iter().all(|one| one.preemptions == 0));
}

#[test]
fn a_plan_that_breaks_a_rule_is_refused_by_name() {
    let loaded = embedded();
    let options =
        ServerOptions { max_running: 2, max_tokens_per_step: 8, cache_tokens: 12, ..ServerOptions::default() };
    let mut server = Server::new(&*loaded.model, &options).unwrap();
    for _ in 0..3 {
        server.submit(request(vec![1, 2, 3, 4, 5, 6], 3)).unwrap();
    }
    server.step(&mut |_| Plan { compute: vec![(0, 6), (1, 2)], ..Plan::default() }).unwrap();
    let refused = [
        (vec![2], vec![], "preempts request 2, which does not run"),
        (vec![0, 0], vec![], "preempts request 0 twice"),
        (vec![], vec![(0, 1), (0, 1)], "computes request 0 twice"),
        (vec![0], vec![(0, 1)], "preempts request 0 and computes it"),
        (vec![], vec![(3, 1)], "computes request 3, which neither runs nor waits"),
        (vec![], vec![(0, 2)], "computes 2 tokens of request 0, which has 1 to compute"),
        (vec![], vec![(1, 0)], "computes 0 tokens of request 1, which has 4 to compute"),
        (vec![], vec![(2, 1)], "runs 3 requests at once, and `max_running` is 2"),
        (vec![], vec![(0, 1), (1, 4)], "needs room for 5 tokens, and what is free is 4"),
        (vec![1], vec![(0, 1), (2, 6), (3, 2)], "request 3, which"),
    ];
    let before = server.view();
    for (preempt, compute, expected) in refused {
        let error = server.step(&mut |_| Plan { preempt: preempt.clone(), compute: compute.clone() }).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let now = server.view();
        assert_eq!((&now.running.len(), now.free_tokens), (&before.running.len(), before.free_tokens));
    }
    let mut server = Server::new(&*loaded.model, &ServerOptions { max_tokens_per_step: 5, ..options }).unwrap();
    server.submit(request(vec![1; 9], 3)).unwrap();
    let error = server.step(&mut |_| Plan { compute: vec![(0, 6)], ..Plan::default() }).unwrap_err().to_string();
    assert!(error.contains("computes 6 tokens, and `max_tokens_per_step` is 5"), "{error}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let loaded = embedded();
    let fits = ServerOptions::default;
    let refused = |request: Request, options: ServerOptions, expected: &str| {
        let error = serve(&loaded, &[(0.0, request)], &options, first_come).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let one = || request(vec![1, 2, 3], 3);
    let with = |change: fn(&mut GenerateOptions)| {
        let mut one = one();
        change(&mut one.options);
        one
    };
    refused(request(vec![], 3), fits(), "request 0: the prompt is empty");
    refused(request(vec![99_999], 3), fits(), "request 0: token id 99999");
    refused(request(vec![1; 600], 3), fits(), "exceed the model's context");
    refused(with(|options| options.top_p = 2.0), fits(), "`top_p` is 2");
    refused(with(|options| options.stop_strings = vec!["x".to_owned()]), fits(), "`stop_strings`");
    refused(with(|options| options.use_cache = false), fits(), "`use_cache` is false");
    refused(with(|options| options.cache_format = Some(CacheFormat::Int8)), fits(), "`cache_format` differs");
    refused(one(), ServerOptions { cache_tokens: 4, ..fits() }, "take 5 tokens of cache, and `cache_tokens` is 4");
    refused(one(), ServerOptions { max_running: 0, ..fits() }, "`max_running` is 0");
    refused(one(), ServerOptions { max_tokens_per_step: 0, ..fits() }, "`max_tokens_per_step` is 0");
    let codes = ServerOptions { cache_format: Some(CacheFormat::Int4), prefix_cache: true, ..fits() };
    refused(
        one(),
        ServerOptions { max_tokens_per_step: 65, ..codes.clone() },
        "with a prefix cache in int4 it must be at most 64",
    );
    assert!(serve(&loaded, &[(0.0, one())], &codes, first_come).is_ok());

    let error = |arrivals: &[(f64, Request)], scheduler: fn(&View) -> Plan, cost: f64| {
        simulate(arrivals, &fits(), scheduler, |_| cost).unwrap_err().to_string()
    };
    assert!(error(&[], first_come, 1.0).contains("no requests"));
    assert!(
        error(&[(1.0, one()), (0.5, one())], first_come, 1.0).contains("request 1 arrives at 0.5 s, after one at 1 s")
    );
    assert!(error(&[(f64::NAN, one())], first_come, 1.0).contains("arrives at NaN s"));
    assert!(error(&[(0.0, one())], first_come, -1.0).contains("cannot take -1 s"));
    assert!(error(&[(0.0, one())], |_| Plan::default(), 1.0).contains("the plan computes nothing"));
    assert!(poisson_arrivals(0.0, 1, []).unwrap_err().to_string().contains("a rate of 0"));
}

/// Counts down from the last token of the prompt to 0, then ends the text with 9.
#[test]
fn a_text_that_ends_makes_room() {
    let model = fake(10, 64, |last, _| only(if last == 0 { 9 } else { last - 1 }, 10));
    let options = ServerOptions { max_running: 1, ..ServerOptions::default() };
    let mut server = Server::with_cost(&model, &options, |_| 1.0).unwrap();
    for last in [3, 0] {
        let options = GenerateOptions { max_new_tokens: 20, ..GenerateOptions::default() };
        server.submit(Request { prompt: vec![7, last], options }).unwrap();
    }
    let mut events = Vec::new();
    while server.is_busy() {
        events.extend(server.step(&mut first_come).unwrap());
    }
    let of = |id| events.iter().filter(move |event| event.id == id).map(|event| (event.token, event.at_s));
    assert_eq!(of(0).collect::<Vec<_>>(), [(2, 1.0), (1, 2.0), (0, 3.0), (9, 4.0)]);
    assert_eq!(of(1).collect::<Vec<_>>(), [(9, 5.0)]);
    let ends: Vec<_> = events.iter().filter_map(|event| event.finish_reason).collect();
    assert_eq!(ends, [FinishReason::Eos; 2]);
    let report = server.into_report();
    assert_eq!((&report.requests[0].tokens[..], report.requests[1].tpot_s()), (&[2, 1, 0, 9][..], None));
}

#[test]
fn a_server_in_real_time_waits_for_who_comes() {
    let loaded = embedded();
    let ids = |text| loaded.tokenizer.encode(text).unwrap();
    let options = GenerateOptions { max_new_tokens: 60, ..GenerateOptions::default() };
    let texts = ["The capital of France is", "Once upon a time", "The capital of Italy is"];
    let arrivals: Vec<(f64, Request)> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| (0.03 * index as f64, Request { prompt: ids(text), options: options.clone() }))
        .collect();
    let report = serve(&loaded, &arrivals, &ServerOptions::default(), first_come).unwrap();
    for (found, (at, request)) in report.requests.iter().zip(&arrivals) {
        let alone = loaded.generate_tokens(&request.prompt, &options).unwrap();
        assert_eq!((&found.tokens, found.finish_reason), (&alone.tokens, alone.finish_reason));
        assert!(found.arrival_s == *at && found.ttft_s() > 0.0);
    }
    assert!(report.run.is_some() && report.busy() < 1.01);
    assert!(report.steps.windows(2).all(|pair| pair[0].start_s + pair[0].seconds <= pair[1].start_s));
}
