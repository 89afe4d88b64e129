//! A Hub that takes its time.

use std::time::Duration;

use super::client::Client;
use super::server::Response;
use super::{TINY, WEIGHTS, assert_complete, serve_with, tiny_repository};

const TIMEOUT: &str = "HF_HUB_DOWNLOAD_TIMEOUT";

#[test]
fn a_small_file_that_trickles_is_given_up_and_resumed() {
    let served = tiny_repository();
    let hub = serve_with(move |request| {
        let pace = Some((1, Duration::from_millis(200)));
        request.gets("/config.json").then(|| Response { pace, ..served.answer(request) })
    });
    let mut client = Client::of(&hub);
    client.set(TIMEOUT, "1");
    let outcome = client.fetch(&[TINY]);
    let error = outcome.result.unwrap_err();
    assert!(error.contains("the Hub is too slow in sending config.json of someone/tiny: "), "{error}");
    assert!(error.contains(" bytes within 1 s") && error.contains(TIMEOUT), "{error}");
    let size = tiny_repository().files["config.json"].len();
    let firsts = hub.firsts("/config.json");
    assert!(firsts.len() == 4 && firsts.is_sorted() && firsts[3] > 0, "{firsts:?}");
    for first in &firsts[1..] {
        let line = format!("config.json: interrupted at {first} of {size} bytes; trying again\n");
        assert!(outcome.printed.contains(&line), "{}", outcome.printed);
    }
    // Four seconds, and the pauses between.
    assert!(outcome.took < Duration::from_secs(15), "{:?}", outcome.took);
    assert!(client.partial(TINY).unwrap() > firsts[3] as u64);
}

#[test]
fn a_small_file_that_is_late_says_so() {
    let hub = serve_with(|request| {
        if request.gets("/config.json") {
            std::thread::sleep(Duration::from_secs(6));
        }
        None
    });
    let client = Client::of(&hub);
    let outcome = client.fetch(&[TINY]);
    outcome.result.unwrap();
    let size = tiny_repository().files["config.json"].len();
    let (waiting, complete) = outcome.printed.split_once('\n').unwrap();
    let waited = seconds(waiting, &format!("config.json: 0 of {size} bytes (0 %), nothing new in "), " s");
    let took = seconds(complete, &format!("config.json: complete, {size} bytes in "), " s\n");
    let whole = outcome.took.as_secs_f64().round() as u64;
    assert!((6..=whole).contains(&took) && (5..=took).contains(&waited), "{} in {whole} s", outcome.printed);
}

/// The number between what stands before and after it. A busy machine is late.
fn seconds(text: &str, before: &str, after: &str) -> u64 {
    let number = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_list_of_files_that_is_late_says_so() {
    let hub = serve_with(|request| {
        if request.path.starts_with("/api/") {
            std::thread::sleep(Duration::from_secs(6));
        }
        None
    });
    let outcome = Client::of(&hub).fetch(&[TINY]);
    outcome.result.unwrap();
    assert_eq!(outcome.printed, "someone/tiny: waiting for the list of its files (5 s so far)\n");
}

#[test]
fn a_network_that_is_slow_but_steady_will_do() {
    let served = tiny_repository();
    let hub = serve_with(move |request| {
        let pace = Some((10_000, Duration::from_millis(100)));
        request.gets(WEIGHTS).then(|| Response { pace, ..served.answer(request) })
    });
    let mut client = Client::of(&hub);
    client.set(TIMEOUT, "5");
    let outcome = client.fetch(&[TINY]);
    outcome.result.unwrap();
    assert!(outcome.took > Duration::from_secs(5), "{:?}", outcome.took);
    assert_complete(&client, &tiny_repository());
    assert_eq!(hub.firsts(WEIGHTS), [0], "it is not interrupted");
}
