//! Models from a Hub that these tests serve on loopback, with the faults that a network and a Hub can have.

mod client;
mod content;
mod faults;
mod server;
mod slow;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::tiny;
use client::{Client, Outcome, TOKEN, in_time};
use quantlab::model::{Device, load_model_and_tokenizer};
use quantlab::source::ModelId;
use serde_json::json;
use server::{COMMIT, Repository, Request, Response, Server, etag};

const TINY: &str = "someone/tiny";
const WEIGHTS: &str = "model.safetensors";
/// Somewhere in the weights.
const MIDDLE: usize = 256 * 1024;

/// What the other tests start, each time in a process of its own.
#[test]
#[ignore = "only does something for the other tests"]
fn client() {
    let Ok(ids) = std::env::var(client::IDS) else { return };
    println!("{}", client::START);
    let start = Instant::now();
    let ids: Vec<&str> = ids.split(' ').collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let result = match ids[..] {
        // As in a cell that has its own runtime.
        [id] => runtime.block_on(async { id.parse::<ModelId>()?.resolve() }).map(|files| format!("{files:?}")),
        _ => load_model_and_tokenizer(&ids, "float32", Device::Cpu).map(|loaded| loaded.model_id),
    };
    println!("{}{}", client::RESULT, start.elapsed().as_millis());
    match result {
        Ok(found) => println!("ok\n{found}\n"),
        Err(error) => println!("error\n{error}\n"),
    }
}

/// The checkpoint that always is there, as a repository.
fn tiny_repository() -> Repository {
    let read = |name: &str| (name.to_owned(), fs::read(tiny().join(name)).unwrap());
    // What other programs read is fetched too.
    let other = ("generation_config.json".to_owned(), b"{}".to_vec());
    let files = ["config.json", "tokenizer.json", WEIGHTS].map(read).into_iter().chain([other]);
    Repository { name: TINY, files: files.collect() }
}

fn serve(repository: Repository) -> Server {
    Server::start(move |request| repository.answer(request))
}

/// A Hub that answers with the fault where it has one.
fn serve_with(fault: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static) -> Server {
    let repository = tiny_repository();
    Server::start(move |request| fault(request).unwrap_or_else(|| repository.answer(request)))
}

fn assert_complete(client: &Client, repository: &Repository) {
    for (name, bytes) in &repository.files {
        assert!(fs::read(client.file(repository.name, name)).unwrap() == *bytes, "{name}");
    }
    assert_eq!(client.partial(repository.name), None);
}

#[test]
fn what_was_loaded_is_in_the_cache_of_python_and_not_asked_for_again() {
    let repository = tiny_repository();
    let hub = serve(repository.clone());
    let client = Client::of(&hub);
    client.fetch(&[TINY, "no/fallback"]).result.unwrap();
    assert_complete(&client, &repository);
    for (name, bytes) in &repository.files {
        let link = fs::read_link(client.file(TINY, name)).unwrap();
        assert_eq!(link.to_str().unwrap(), format!("../../blobs/{}", etag(name, bytes)));
    }
    assert_eq!(fs::read_to_string(client.cache(TINY).join("refs/main")).unwrap(), COMMIT);
    let requests = hub.requests();
    assert!(requests.iter().all(|request| request.header("Authorization") == Some(&format!("Bearer {TOKEN}"))));
    assert_eq!(hub.firsts(WEIGHTS), [0]);

    for id in [TINY, &format!("{TINY}@main"), &format!("{TINY}@{COMMIT}")] {
        let outcome = client.fetch(&[id]);
        assert!(outcome.result.unwrap().contains(COMMIT));
        assert_eq!(outcome.printed, "", "small files need no words");
    }
    assert_eq!(hub.requests().len(), requests.len());
}

#[test]
fn one_gguf_file_of_a_repository_is_a_model() {
    let name = "folder/tiny.Q4_K_M.gguf";
    let bytes = fs::read(crate::common::golden().join("llama-tiny-gguf/q4_k_m.gguf")).unwrap();
    let files = [(name.to_owned(), bytes), ("other.gguf".to_owned(), b"GGUF".to_vec())].into();
    let hub = serve(Repository { name: "someone/tiny-GGUF", files });
    let client = Client::of(&hub);
    let id = format!("someone/tiny-GGUF:{name}");
    assert_eq!(client.fetch(&[&id, "no/fallback"]).result.unwrap(), id);
    assert!(hub.firsts("other.gguf").is_empty(), "only the file that was named");
    let before = hub.requests().len();
    client.fetch(&[&id]).result.unwrap();
    assert_eq!(hub.requests().len(), before, "it is in the cache");
    let error = client.error("someone/tiny-GGUF:tiny.gguf");
    assert!(error.contains("no tiny.gguf") && error.contains(name) && error.contains("other.gguf"), "{error}");
    let error = client.error("someone/tiny-GGUF:../tiny.gguf");
    assert!(error.contains("not the name of a file"), "{error}");
}

#[test]
fn a_revision_may_be_a_branch_with_a_slash() {
    let hub = serve(tiny_repository());
    let client = Client::of(&hub);
    client.fetch(&[&format!("{TINY}@refs/pr/1")]).result.unwrap();
    assert_eq!(fs::read_to_string(client.cache(TINY).join("refs/refs/pr/1")).unwrap(), COMMIT);
    let error = client.error(&format!("{TINY}@v9"));
    assert!(error.contains("no revision `v9`"), "{error}");
    let error = client.error(&format!("{TINY}@/etc/passwd"));
    assert!(error.contains("`/etc/passwd` is not a revision"), "{error}");
}

#[test]
fn a_file_left_out_is_fetched_from_the_commit_of_the_others() {
    let repository = tiny_repository();
    let hub = serve(repository.clone());
    let client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    fs::remove_file(client.file(TINY, "tokenizer.json")).unwrap();
    let before = hub.questions().len();
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
    let asked: Vec<String> = hub.questions()[before..].iter().map(|request| request.path.clone()).collect();
    assert_eq!(asked, [format!("/api/models/{TINY}/revision/{COMMIT}?blobs=true")], "the bytes are still there");
}

#[test]
fn two_processes_share_one_download() {
    let repository = tiny_repository();
    let free = Arc::new(AtomicBool::new(false));
    let released = Arc::clone(&free);
    let hub = serve_with(move |request| {
        while request.gets(WEIGHTS) && !released.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    });
    let client = Client::of(&hub);
    let first = client.start(&[TINY]);
    while hub.firsts(WEIGHTS).is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut second = client.start(&[TINY]);
    let mut lines = BufReader::new(second.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == format!("{WEIGHTS}: waiting for another process that is downloading it")));
    free.store(true, Ordering::SeqCst);
    assert!(lines.any(|line| line == "ok"));
    second.wait().unwrap();
    Outcome::of(first).result.unwrap();
    assert_complete(&client, &repository);
    assert_eq!(hub.firsts(WEIGHTS), [0]);
}

#[test]
fn a_large_file_is_announced_and_a_resumed_one_says_from_where() {
    let mut repository = tiny_repository();
    let bytes: Vec<u8> = (0..12_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    repository.files.insert(WEIGHTS.to_owned(), bytes);
    let (healed, served) = (Arc::new(AtomicBool::new(false)), repository.clone());
    let heal = Arc::clone(&healed);
    let hub = Server::start(move |request| {
        if request.gets(WEIGHTS) && !healed.load(Ordering::SeqCst) {
            let cut = if request.first() == Some(0) { 3 << 20 } else { 10 };
            Response { cut: Some(cut), ..served.answer(request) }
        } else {
            served.answer(request)
        }
    });
    let client = Client::of(&hub);
    let outcome = client.fetch(&[TINY]);
    outcome.result.unwrap_err();
    let announced = format!("{WEIGHTS}: downloading 12 MiB, to {}\n", client.home().join("hub").display());
    assert!(outcome.printed.starts_with(&announced), "{}", outcome.printed);
    let interrupted = "interrupted at 3 of 12 MiB; trying again";
    assert_eq!(outcome.printed.matches(interrupted).count(), 3, "{}", outcome.printed);
    assert_eq!(client.partial(TINY), Some((3 << 20) + 30));

    heal.store(true, Ordering::SeqCst);
    let outcome = client.fetch(&[TINY]);
    outcome.result.unwrap();
    assert!(outcome.printed.contains("resuming at 3 of 12 MiB, to "), "{}", outcome.printed);
    assert!(outcome.printed.contains("complete, 12 MiB in "), "{}", outcome.printed);
    assert_complete(&client, &repository);
}

#[test]
fn redirects_are_followed_but_the_token_stays_at_the_hub() {
    let repository = tiny_repository();
    let weights = repository.files[WEIGHTS].clone();
    let cdn = Server::start(move |request| Response::bytes(request, &weights));
    let (elsewhere, config) = (cdn.address.clone(), repository.files["config.json"].clone());
    let hub = serve_with(move |request| {
        let redirect = |status, to: String| Some(Response::new(status, b"").with("Location", to));
        match request.path.rsplit('/').next()? {
            WEIGHTS => redirect(302, format!("{elsewhere}/bucket/{WEIGHTS}?Signature=abc")),
            "config.json" => redirect(307, "/api/resolve-cache/config".to_owned()),
            "config" => Some(Response::bytes(request, &config)),
            _ => None,
        }
    });
    let client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
    assert!(hub.requests().iter().all(|request| request.header("Authorization").unwrap().contains(TOKEN)));
    let there = cdn.requests();
    assert!(there.iter().any(|request| request.first() == Some(0)));
    assert!(there.iter().all(|request| request.header("Authorization").is_none()));
}

/// Many let tunnels lead to port 443 only.
#[test]
fn what_is_asked_for_by_http_a_proxy_fetches_without_a_tunnel() {
    let repository = tiny_repository();
    let served = repository.clone();
    let proxy = Server::start(move |request| {
        let mut at_hub = request.clone();
        at_hub.path = request.path.strip_prefix("http://hub.invalid:81").unwrap_or_default().to_owned();
        served.answer(&at_hub)
    });
    let mut client = Client::of(&proxy);
    client.set("HF_ENDPOINT", "http://hub.invalid:81");
    client.set("HTTP_PROXY", &proxy.address.replace("//", "//me:secret@"));
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
    for request in proxy.requests() {
        assert_eq!(request.header("Proxy-Authorization"), Some("Basic bWU6c2VjcmV0"));
        assert_eq!(request.header("Host"), Some("hub.invalid:81"));
    }
}

#[test]
fn a_server_without_ranges_will_do() {
    let repository = tiny_repository();
    let (weights, cuts) = (repository.files[WEIGHTS].clone(), AtomicUsize::new(0));
    // Even one that breaks off in the middle.
    let hub = serve_with(move |request| {
        let cut = (request.gets(WEIGHTS) && cuts.fetch_add(1, Ordering::SeqCst) == 0).then_some(MIDDLE);
        request.gets(WEIGHTS).then(|| Response { cut, ..Response::new(200, &weights) })
    });
    let client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &repository);
    assert_eq!(hub.firsts(WEIGHTS), [0, MIDDLE]);
}

#[test]
fn shards_are_fetched_by_the_index_and_found_again_without_a_network() {
    let mut repository = tiny_repository();
    repository.files.remove(WEIGHTS);
    let names = ["part-1.safetensors", "deep/part-2.safetensors"];
    for name in names {
        repository.files.insert(name.to_owned(), name.as_bytes().to_owned());
    }
    let index = json!({ "weight_map": { "a": names[0], "b": names[1], "c": names[0] } }).to_string();
    repository.files.insert("model.safetensors.index.json".to_owned(), index.into_bytes());
    let hub = serve(repository.clone());
    let mut client = Client::of(&hub);
    let found = client.fetch(&[TINY]).result.unwrap();
    assert!(names.iter().all(|name| found.contains(name)), "{found}");
    assert_complete(&client, &repository);

    let requests = hub.requests().len();
    assert_eq!(client.fetch(&[TINY]).result.unwrap(), found);
    assert_eq!(hub.requests().len(), requests);
    client.set("HF_HUB_OFFLINE", "1");
    assert_eq!(client.fetch(&[TINY]).result.unwrap(), found);
}

#[test]
fn an_index_may_name_only_safetensors_files_of_the_repository() {
    for bad in ["../../outside.safetensors", "/tmp/absolute.safetensors", "pytorch_model.bin"] {
        let mut repository = tiny_repository();
        repository.files.remove(WEIGHTS);
        repository.files.insert(bad.to_owned(), b"bad".to_vec());
        let index = json!({ "weight_map": { "a": bad } }).to_string();
        repository.files.insert("model.safetensors.index.json".to_owned(), index.into_bytes());
        let hub = serve(repository);
        let error = Client::of(&hub).error(TINY);
        assert!(error.contains(bad) && error.contains("not the name of a safetensors file"), "{error}");
        let name = bad.rsplit('/').next().unwrap();
        assert!(hub.requests().iter().all(|request| !request.path.contains(name)));
    }
}

#[test]
fn pickles_are_not_read() {
    let mut repository = tiny_repository();
    let weights = repository.files.remove(WEIGHTS).unwrap();
    repository.files.insert("pytorch_model.bin".to_owned(), weights);
    let hub = serve(repository);
    let error = Client::of(&hub).error(TINY);
    assert!(error.contains("no model.safetensors") && error.contains("its weights are pickles"), "{error}");
    assert!(hub.requests().iter().all(|request| !request.path.contains("pytorch_model")));
}

#[test]
fn a_repository_without_a_tokenizer_is_told_how_to_make_one() {
    let mut repository = tiny_repository();
    repository.files.remove("tokenizer.json");
    let error = Client::of(&serve(repository.clone())).error(TINY);
    assert!(error.contains("no tokenizer.json") && error.contains("the model that this one was trained"), "{error}");
    repository.files.insert("tokenizer.model".to_owned(), b"pieces".to_vec());
    let error = Client::of(&serve(repository)).error(TINY);
    assert!(error.contains("makes it from tokenizer.model: in Python, `AutoTokenizer"), "{error}");
    assert!(error.contains(&format!("from_pretrained(\"{TINY}\", use_fast=True).save_pretrained(")), "{error}");
}

#[test]
fn without_a_network_the_cache_serves_and_the_rest_fails_at_once() {
    let hub = serve(tiny_repository());
    let mut client = Client::of(&hub);
    client.fetch(&[TINY]).result.unwrap();
    hub.stop();
    client.fetch(&[TINY]).result.unwrap();
    let error = in_time(Duration::from_secs(2), || client.fetch(&["someone/other"])).result.unwrap_err();
    assert!(error.contains("does not answer") && error.contains("embedded"), "{error}");

    client.set("HF_HUB_OFFLINE", "1");
    client.fetch(&[TINY]).result.unwrap();
    assert!(client.error("someone/other").contains("HF_HUB_OFFLINE is set"));
    assert_eq!(client.fetch(&["someone/other", "embedded"]).result.unwrap(), "embedded");
}

#[test]
fn an_interrupted_download_stops_and_is_taken_up_again() {
    let flag = tempfile::NamedTempFile::new().unwrap();
    fs::write(flag.path(), [0]).unwrap();
    let path = flag.path().to_owned();
    // The Hub sends a part of the weights; when no more comes, the reader has had enough.
    let served = tiny_repository();
    let hub = serve_with(move |request| {
        let path = path.clone();
        request.gets(WEIGHTS).then(|| {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(1500));
                fs::OpenOptions::new().write(true).open(path).unwrap().write_all(&[1]).unwrap();
            });
            Response { cut: Some(MIDDLE), hangs: true, ..served.answer(request) }
        })
    });
    let mut client = Client::of(&hub);
    client.set("QUANTLAB_INTERRUPT", flag.path().to_str().unwrap());
    // No other candidate is tried: that is not what was asked for.
    let outcome = client.fetch(&[TINY, "embedded"]);
    assert_eq!(
        outcome.result.unwrap_err(),
        "interrupted; hint: run the cell again: the download resumes where it stopped"
    );
    assert!(outcome.took < Duration::from_secs(6), "{:?}", outcome.took);
    assert_eq!(client.partial(TINY), Some(MIDDLE as u64));

    let hub = serve(tiny_repository());
    client.set("HF_ENDPOINT", &hub.address);
    client.set("QUANTLAB_INTERRUPT", "");
    client.fetch(&[TINY]).result.unwrap();
    assert_complete(&client, &tiny_repository());
    assert_eq!(hub.firsts(WEIGHTS), [MIDDLE]);
}
