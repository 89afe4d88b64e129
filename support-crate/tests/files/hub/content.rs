//! What comes in place of a file: other bytes than were asked for, or bytes without an end.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::client::Client;
use super::server::{COMMIT, Response, Server, etag};
use super::{MIDDLE, TINY, WEIGHTS, assert_complete, serve, serve_with, tiny_repository};

/// What a network says before one has logged in, as long as the file that was asked for.
fn page(len: usize) -> Vec<u8> {
    let mut page = b"<html>\n<title>Please log in".to_vec();
    page.resize(len, b' ');
    page
}

#[test]
fn a_page_of_the_right_length_is_not_kept() {
    for name in ["tokenizer.json", WEIGHTS] {
        let page = page(tiny_repository().files[name].len());
        let hub = serve_with(move |request| request.gets(name).then(|| Response::bytes(request, &page)));
        let client = Client::of(&hub);
        let error = client.error(TINY);
        let said = format!("what arrived as {name} of {TINY} is something else");
        assert!(error.contains(&said) && error.contains("have the wrong hash"), "{error}");
        assert!(error.contains("begins with `<html> <title>Please log in`"), "{error}");
        assert!(error.contains("a proxy or a login page"), "{error}");
        assert_eq!(hub.firsts(name), [0, 0], "it is tried once more");
        assert!(!client.file(TINY, name).exists());
        assert_eq!(client.partial(TINY), None);
    }
}

#[test]
fn a_page_that_came_once_gives_way_to_the_file() {
    let repository = tiny_repository();
    for name in ["config.json", WEIGHTS] {
        let (page, pages) = (page(repository.files[name].len()), AtomicUsize::new(0));
        let hub = serve_with(move |request| {
            let first = request.gets(name) && pages.fetch_add(1, Ordering::SeqCst) == 0;
            first.then(|| Response::bytes(request, &page))
        });
        let client = Client::of(&hub);
        let outcome = client.fetch(&[TINY]);
        outcome.result.unwrap();
        assert_complete(&client, &repository);
        let line = format!("{name}: what arrived is not the file; trying again from the start\n");
        assert!(outcome.printed.contains(&line), "{}", outcome.printed);
    }
}

#[test]
fn a_damaged_part_is_not_gone_on_with_and_other_content_in_the_cache_is_replaced() {
    let repository = tiny_repository();
    for (config, part, firsts) in [
        (page(repository.files["config.json"].len()), page(MIDDLE), &[MIDDLE, 0][..]),
        // Of another length than the file, and longer than it.
        (page(30), vec![1; 800_000], &[0][..]),
    ] {
        let hub = serve(repository.clone());
        let client = Client::of(&hub);
        let blobs = client.cache(TINY).join("blobs");
        fs::create_dir_all(&blobs).unwrap();
        let hash = |name: &str| etag(name, &repository.files[name]);
        fs::write(blobs.join(hash("config.json")), config).unwrap();
        fs::write(blobs.join(format!("{}.quantlab.incomplete", hash(WEIGHTS))), part).unwrap();
        client.fetch(&[TINY]).result.unwrap();
        assert_complete(&client, &repository);
        assert_eq!(hub.firsts(WEIGHTS), firsts);
    }
}

/// A mirror may call its files by something else than their hashes.
#[test]
fn a_name_of_another_length_than_a_hash_is_not_compared() {
    let repository = tiny_repository();
    let listing = |request: &super::Request| {
        let listing = String::from_utf8(tiny_repository().answer(request).body).unwrap();
        let mut listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        for (i, file) in listing["siblings"].as_array_mut().unwrap().iter_mut().enumerate() {
            file["blobId"] = format!("{i:032x}").into();
            file.as_object_mut().unwrap().remove("lfs");
        }
        Response::new(200, listing.to_string().as_bytes())
    };
    let hub = serve_with(move |request| request.path.starts_with("/api/").then(|| listing(request)));
    let client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
}

#[test]
fn an_answer_without_an_end_is_not_read_to_its_end() {
    const MIB: usize = 1 << 20;
    for (status, part, expected, limit) in [
        (200, format!("/resolve/{COMMIT}/config.json"), "it has more than 730 bytes; it begins with `<html> ", 2),
        (200, format!("/resolve/{COMMIT}/{WEIGHTS}"), "has more than 718768 bytes", 3),
        (200, "/api/models/".to_owned(), "has more than 32 MiB", 33),
        (500, "/api/models/".to_owned(), "(500)", 1),
        (404, "/api/models/".to_owned(), "(404)", 1),
        (404, format!("/resolve/{COMMIT}/config.json"), "(404)", 1),
        (200, "/resolve/main/config.json".to_owned(), "", 1),
    ] {
        let is_metadata = expected.is_empty();
        // Slowly enough that a client which is kept waiting for the processor has little to catch up with.
        let pace = Some((1 << 16, Duration::from_millis(1)));
        let hub = serve_with(move |request| {
            let page = &page(1 << 16);
            request.path.contains(&part).then(|| Response { endless: true, pace, ..Response::new(status, page) })
        });
        let client = Client::of(&hub);
        if is_metadata {
            client.fetch(&[TINY]).result.unwrap();
        } else {
            let error = client.error(TINY);
            assert!(error.contains(expected), "{error}");
        }
        std::thread::sleep(Duration::from_millis(100));
        // The system holds a few MiB of each connection that nobody has read.
        let requests = hub.requests().len();
        assert!(hub.sent() < (limit + 8 * requests) * MIB, "{status}: {} bytes for {requests}", hub.sent());
    }
}

#[test]
fn a_length_that_no_memory_has_is_no_reason_to_try() {
    let hub = Server::start(|request| {
        if request.path.ends_with("config.json") && request.method == "GET" {
            return Response::new(206, b"{}").with("X-Linked-Size", u64::MAX.to_string());
        }
        tiny_repository().answer(request)
    });
    let error = Client::of(&hub).error(TINY);
    assert!(error.contains("it ends after 2 of "), "{error}");
}
