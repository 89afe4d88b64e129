//! Prefixes, the schedulers that are given, what is refused, texts that end, and real time.

use quantlab::generate::{FinishReason, GenerateOptions};
use quantlab::model::{CacheFormat, Engine, LoadOptions, load_model};
use quantlab::report::ServingTimeline;
use quantlab::serve::{
    Phase, Plan, Request, RequestState, Server, ServerOptions, ServingReport, View, first_come, poisson_arrivals,
    serve, simulate, static_batch,
};

use super::{embedded, request};
use crate::common::fake::{fake, only};

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

/// All requests of an interrupted step lose their caches, and the batch is read again before it goes on.
#[test]
fn a_static_batch_that_was_interrupted_is_read_again_in_whole_steps() {
    let state =
        |id, past_tokens, tokens| RequestState { id, tokens, past_tokens, new_tokens: 5, left_tokens: 5, age_s: 1.0 };
    let view = |running: &[RequestState], waiting: &[RequestState]| View {
        now_s: 1.0,
        waiting: waiting.to_vec(),
        running: running.to_vec(),
        max_running: 2,
        max_tokens_per_step: 64,
        free_tokens: 1000,
    };
    let plan = |running: &[RequestState], waiting: &[RequestState]| static_batch(&view(running, waiting)).compute;
    assert_eq!(plan(&[], &[state(0, 0, 100), state(1, 0, 50)]), [(0, 64)]);
    assert_eq!(plan(&[state(0, 64, 100)], &[state(1, 0, 50)]), [(0, 36), (1, 28)]);
    assert_eq!(plan(&[state(0, 100, 101), state(1, 28, 50)], &[]), [(1, 22)]);
    assert_eq!(plan(&[state(0, 100, 101), state(1, 50, 51)], &[state(2, 0, 9)]), [(0, 1), (1, 1)]);
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
    let all = ServerOptions { cache_tokens: usize::MAX, ..fits() };
    // No more than 8 contexts are ever held, unless earlier prompts are kept; and never more than there are requests for.
    assert!(Server::new(&*loaded.model, &all).is_ok());
    for cache_format in [None, Some(CacheFormat::Float16), Some(CacheFormat::Int8), Some(CacheFormat::Int4)] {
        for options in [
            ServerOptions { prefix_cache: true, cache_format, ..all.clone() },
            ServerOptions { max_running: usize::MAX, cache_format, ..all.clone() },
            ServerOptions { max_running: 1 << 60, cache_format, ..all.clone() },
        ] {
            let error = Server::new(&*loaded.model, &options).unwrap_err().to_string();
            assert!(error.contains("GiB are free"), "{error}");
            assert!(serve(&loaded, &[(0.0, one())], &options, first_come).is_ok(), "{options:?}");
        }
    }
    let codes = ServerOptions { cache_format: Some(CacheFormat::Int4), prefix_cache: true, ..fits() };
    refused(
        one(),
        ServerOptions { max_tokens_per_step: 65, ..codes.clone() },
        "with a prefix cache in int4 it must be at most 64",
    );
    assert!(serve(&loaded, &[(0.0, one())], &codes, first_come).is_ok());

    // What an engine cannot do is said before the first step.
    let candle = LoadOptions { engine: Some(Engine::Candle), ..LoadOptions::default() };
    let candle = load_model(&["embedded"], &candle).unwrap();
    let refusal = |options: ServerOptions| Server::new(&*candle.model, &options).err().unwrap().to_string();
    assert!(refusal(ServerOptions { prefix_cache: true, ..fits() }).contains("candle has no prefix cache"));
    assert!(refusal(ServerOptions { cache_format: Some(CacheFormat::Int8), ..fits() }).contains("int8"));

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

#[test]
fn a_report_before_anything_is_done_has_no_figures() {
    let loaded = embedded();
    let report = Server::new(&*loaded.model, &ServerOptions::default()).unwrap().into_report();
    assert!(report.ttft_s().at(50.0).is_none() && report.latency_s().median().is_nan() && report.tpot_s().is_none());
    assert_eq!((report.seconds(), report.tokens_per_s()), (0.0, 0.0));
    assert!(report.table().to_text().starts_with("0 requests"));
    let done = simulate(&[(0.0, request(vec![1; 4], 2))], &ServerOptions::default(), first_come, |_| 1.0).unwrap();
    assert_eq!(done.requests[0].id, 0);
    assert!(ServingTimeline::new("One").run("none", &report).run("one", &done).to_svg().unwrap().contains("none"));
}

/// One request is done at 2 s, and the other is not at 10 s.
#[test]
fn what_an_unfinished_server_does_after_the_last_request_is_no_part_of_its_time() {
    let model = fake(10, 64, |_, _| only(1, 10));
    let costs = std::cell::Cell::new(0);
    let mut server = Server::with_cost(&model, &ServerOptions::default(), |_| {
        costs.set(costs.get() + 1);
        if costs.get() == 5 { f64::NAN } else { 1.0 }
    })
    .unwrap();
    server.submit(request(vec![1; 2], 2)).unwrap();
    server.submit(request(vec![1; 2], 20)).unwrap();
    for step in 1..=10 {
        // A cost that is no time changes nothing.
        assert_eq!(server.step(&mut first_come).is_err(), step == 5);
    }
    let report = server.into_report();
    assert_eq!((report.requests.len(), report.seconds(), report.busy()), (1, 2.0, 1.0));
    assert_eq!(report.steps.last().map(|step| step.start_s), Some(8.0));
    let free = simulate(&[(0.0, request(vec![1; 4], 2))], &ServerOptions::default(), first_come, |_| 0.0).unwrap();
    assert_eq!((free.tokens_per_s(), free.busy(), free.mean_batch()), (0.0, 0.0, 1.0));
}

/// Two requests share steps, and only the one that came later is done.
#[test]
fn what_a_server_did_before_the_first_request_that_is_done_came_is_no_part_of_its_time() {
    let model = fake(10, 64, |_, _| only(1, 10));
    let mut server = Server::with_cost(&model, &ServerOptions::default(), |_| 1.0).unwrap();
    server.submit(request(vec![1; 2], 20)).unwrap();
    for _ in 0..3 {
        server.step(&mut first_come).unwrap();
    }
    server.submit(request(vec![1; 2], 2)).unwrap();
    for _ in 0..3 {
        server.step(&mut first_come).unwrap();
    }
    let report = server.into_report();
    assert_eq!((report.requests.len(), report.requests[0].arrival_s), (1, 3.0));
    assert_eq!((report.steps.len(), report.seconds(), report.busy()), (6, 2.0, 1.0));
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
