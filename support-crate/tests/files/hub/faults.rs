//! What goes wrong on the way or at the Hub: each has its message, and none leaves a broken file.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::client::{Client, TOKEN, in_time};
use super::server::{Request, Response, Server};
use super::{MIDDLE, TINY, WEIGHTS, assert_complete, serve_with, tiny_repository};

#[test]
fn each_refusal_of_the_hub_has_its_own_message() {
    for (status, expected) in [
        (401, ["(401)", "HF_TOKEN"]),
        (403, ["(403)", "accept the model's terms"]),
        (404, ["no model someone/tiny (404)", "spelling"]),
        (429, ["(429)", "wait 17 s"]),
        (418, ["418", "list of files"]),
    ] {
        let hub = Server::start(move |_| Response::new(status, b"").with("Retry-After", "17"));
        let error = Client::of(&hub).error(TINY);
        assert!(expected.iter().all(|part| error.contains(part)), "{status}: {error}");
        assert_eq!(hub.questions().len(), 1, "a refusal stays: {status}");
    }
}

#[test]
fn a_gated_model_is_listed_but_not_given() {
    let hub = serve_with(|request| request.path.contains("/resolve/").then(|| Response::new(401, b"")));
    let mut client = Client::of(&hub);
    // The token of `hf auth login`, instead of the variable.
    client.set("HF_TOKEN", "");
    fs::write(client.home().join("token"), format!("{TOKEN}\n")).unwrap();
    let error = client.error(TINY);
    assert!(error.contains("(401)") && error.contains("gated"), "{error}");
    assert!(hub.requests().iter().all(|request| request.header("Authorization").unwrap().contains(TOKEN)));
    assert!(!client.file(TINY, "config.json").exists());
}

#[test]
fn a_token_that_the_hub_repeats_is_not_shown() {
    let answer = |_: &Request| Response::new(400, b"").with("X-Error-Message", format!("what is {TOKEN}?"));
    let hub = Server::start(answer);
    let mut client = Client::of(&hub);
    assert!(client.error(TINY).contains("what is ***?"));
    client.set("HF_TOKEN", "");
    fs::write(client.home().join("token"), TOKEN).unwrap();
    assert!(client.error(TINY).contains("what is ***?"));
}

#[test]
fn a_hub_with_problems_is_asked_again_but_not_forever() {
    let failures = AtomicUsize::new(0);
    let hub = serve_with(move |request| {
        let fails = request.gets(WEIGHTS) && failures.fetch_add(1, Ordering::SeqCst) < 2;
        fails.then(|| Response::new(503, b"<html>an error page</html>"))
    });
    let client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &tiny_repository());

    let hub = serve_with(|request| request.gets(WEIGHTS).then(|| Response::new(500, b"<html>an error page</html>")));
    let client = Client::of(&hub);
    let error = client.error(TINY);
    assert!(error.contains("(500)") && error.contains(WEIGHTS) && error.contains("in a few minutes"), "{error}");
    assert_eq!(hub.firsts(WEIGHTS), [0; 4]);
    assert!(!client.file(TINY, WEIGHTS).exists(), "an error page is not the file");
    assert_eq!(client.partial(TINY), Some(0));
}

/// The time in which the next candidate should be tried.
const GIVEN_UP: Duration = Duration::from_secs(2);

#[test]
fn what_takes_connections_and_stays_silent_is_given_up() {
    let silent = Server::start(|_| {
        loop {
            std::thread::park();
        }
    });
    let error = in_time(GIVEN_UP, || Client::of(&silent).fetch(&[TINY])).result.unwrap_err();
    assert!(error.contains("does not answer: no answer within 1.5 s") && error.contains("embedded"), "{error}");
}

#[test]
fn a_gateway_without_a_network_behind_it_is_given_up() {
    let gateway = Server::start(|_| Response::new(502, b""));
    let through_proxy = |variable: &'static str, hub: &str| {
        let mut client = Client::of(&gateway);
        client.set("HF_ENDPOINT", hub);
        client.set(variable, &gateway.address);
        client
    };
    for (client, expected) in [
        (Client::of(&gateway), "(502)"),
        (through_proxy("HTTP_PROXY", "http://hub.invalid"), "(502)"),
        // Where the proxy is only asked for a connection, its status is not the Hub's.
        (through_proxy("HTTPS_PROXY", "https://hub.invalid"), "https://hub.invalid does not answer"),
    ] {
        let outcome = in_time(GIVEN_UP, || {
            let before = gateway.requests().len();
            let outcome = client.fetch(&[TINY]);
            assert_eq!(gateway.requests().len(), before + 1, "it was asked once");
            outcome
        });
        let error = outcome.result.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_hub_that_answers_may_be_slow_and_fail_at_first() {
    let failures = AtomicUsize::new(0);
    let hub = serve_with(move |request| {
        if !request.path.starts_with("/api/") {
            return None;
        }
        std::thread::sleep(GIVEN_UP);
        (failures.fetch_add(1, Ordering::SeqCst) == 0).then(|| Response::new(503, b""))
    });
    let client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &tiny_repository());
}

#[test]
fn a_cut_connection_is_made_again_from_the_same_byte() {
    let repository = tiny_repository();
    let (cuts, served) = (AtomicUsize::new(0), repository.clone());
    let hub = serve_with(move |request| {
        let cut = request.gets(WEIGHTS) && cuts.fetch_add(1, Ordering::SeqCst) == 0;
        cut.then(|| Response { cut: Some(MIDDLE), ..served.answer(request) })
    });
    let client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
    assert_eq!(hub.firsts(WEIGHTS), [0, MIDDLE]);
}

#[test]
fn a_download_that_failed_goes_on_where_it_stopped() {
    let repository = tiny_repository();
    let (healed, served) = (Arc::new(AtomicBool::new(false)), repository.clone());
    let heal = Arc::clone(&healed);
    let hub = serve_with(move |request| {
        let cut = if request.first() == Some(0) { MIDDLE } else { 0 };
        let is_cut = request.gets(WEIGHTS) && !healed.load(Ordering::SeqCst);
        is_cut.then(|| Response { cut: Some(cut), ..served.answer(request) })
    });
    let client = Client::of(&hub);
    let error = client.error(TINY);
    assert!(error.contains("the connection to the Hub broke") && error.contains("resumes where it stopped"), "{error}");
    assert_eq!(client.partial(TINY), Some(MIDDLE as u64));
    assert!(!client.file(TINY, WEIGHTS).exists());

    heal.store(true, Ordering::SeqCst);
    let before = hub.firsts(WEIGHTS).len();
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
    assert_eq!(hub.firsts(WEIGHTS)[before..], [MIDDLE]);
}

#[test]
fn a_process_that_is_killed_leaves_what_the_next_one_goes_on_with() {
    let repository = tiny_repository();
    let (healed, served) = (Arc::new(AtomicBool::new(false)), repository.clone());
    let heal = Arc::clone(&healed);
    let hub = serve_with(move |request| {
        let hangs = request.gets(WEIGHTS) && !healed.load(Ordering::SeqCst);
        hangs.then(|| Response { cut: Some(MIDDLE), hangs: true, ..served.answer(request) })
    });
    let client = Client::of(&hub);
    let mut killed = client.start(&[TINY]);
    while client.partial(TINY) != Some(MIDDLE as u64) {
        assert!(killed.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!client.file(TINY, WEIGHTS).exists());
    assert_eq!(client.partial(TINY), Some(MIDDLE as u64));

    heal.store(true, Ordering::SeqCst);
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
    assert_eq!(hub.firsts(WEIGHTS), [0, MIDDLE]);
}

#[test]
fn a_signature_in_an_address_is_not_shown() {
    let cdn = Server::start(|_| Response::new(403 + 15, b""));
    let elsewhere = cdn.address.clone();
    let hub = serve_with(move |request| {
        let to = format!("{elsewhere}/{WEIGHTS}?Signature=secret");
        request.path.ends_with(WEIGHTS).then(|| Response::new(302, b"").with("Location", to))
    });
    let error = Client::of(&hub).error(TINY);
    assert!(error.contains("418") && error.contains(&cdn.address) && !error.contains("secret"), "{error}");
}

#[test]
fn a_file_of_another_length_than_announced_is_refused() {
    let whole = tiny_repository();
    for change in [-300_000, -1, 1, 300_000_i64] {
        // The list is of the file as it should be, the bytes are of one that was changed.
        let mut changed = whole.clone();
        let weights = changed.files.get_mut(WEIGHTS).unwrap();
        weights.resize((weights.len() as i64 + change) as usize, 7);
        let hub = serve_with(move |request| request.gets(WEIGHTS).then(|| changed.answer(request)));
        let client = Client::of(&hub);
        let error = client.error(TINY);
        assert!(error.contains("718768") && error.contains(WEIGHTS), "{change}: {error}");
        assert!(!client.file(TINY, WEIGHTS).exists());
        assert_eq!(client.partial(TINY), None, "what came may be wrong");
    }
}

#[test]
fn what_is_no_hub_is_said_to_be_none() {
    let hub = Server::start(|_| Response::new(200, b"<html>Please log in to this network</html>"));
    let error = Client::of(&hub).error(TINY);
    assert!(error.contains("cannot understand") && error.contains("HF_ENDPOINT"), "{error}");
    let mut client = Client::of(&hub);
    client.set("HF_ENDPOINT", "no address");
    let error = client.error(TINY);
    assert!(error.contains("not a valid address") && error.contains("HF_ENDPOINT"), "{error}");
}
