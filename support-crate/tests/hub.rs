//! Loading from a Hub that this test serves on loopback.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::tiny;
use quantlab::model::{Device, load_model_and_tokenizer};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_notarealtokenbutnobodyshouldseeit";

/// One test, because what it is about is read from the environment of the whole process.
#[test]
fn from_the_hub_from_its_cache_and_not_at_all() {
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::start();
    let variables = [
        ("HF_ENDPOINT", hub.address.as_str()),
        ("HF_HOME", cache.path().to_str().unwrap()),
        ("HF_TOKEN", TOKEN),
        ("NO_PROXY", "127.0.0.1"),
        ("no_proxy", "127.0.0.1"),
    ];
    for (name, value) in variables {
        // SAFETY: this is the only test of this process, and no thread reads the environment but
        // through `std::env`.
        unsafe { std::env::set_var(name, value) };
    }
    for name in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"] {
        // SAFETY: as above.
        unsafe { std::env::remove_var(name) };
    }
    let load = |id: &str| load_model_and_tokenizer(&[id], "float32", Device::Cpu);

    // 404: the repository is not there.
    let message = load("someone/absent").unwrap_err().to_string();
    assert!(message.contains("someone/absent") && message.contains("config.json"), "{message}");

    // 401: gated. The token is sent, and not shown.
    let message = load("someone/gated").unwrap_err().to_string();
    assert!(message.contains("401") && message.contains("HF_TOKEN") && !message.contains(TOKEN), "{message}");
    assert!(hub.saw(TOKEN));

    // 200: everything but the config is asked for by commit.
    let loaded = load("someone/tiny").unwrap();
    assert_eq!(loaded.model.info().vocab_size, 384);
    assert!(hub.saw("/someone/tiny/resolve/main/config.json"));
    assert!(hub.saw(&format!("/someone/tiny/resolve/{COMMIT}/model.safetensors")));

    // From the cache, without a question.
    let asked = hub.requests();
    load("someone/tiny").unwrap();
    load(&format!("someone/tiny@{COMMIT}")).unwrap();
    assert_eq!(hub.requests(), asked);

    // The network is gone: the cache still serves, everything else fails in time.
    hub.stop();
    load("someone/tiny").unwrap();
    let start = Instant::now();
    let message = load("someone/other").unwrap_err().to_string();
    assert!(message.contains("does not answer") && message.contains("embedded"), "{message}");
    assert!(start.elapsed() < Duration::from_secs(2));

    // SAFETY: as above.
    unsafe { std::env::set_var("HF_HUB_OFFLINE", "1") };
    load("someone/tiny").unwrap();
    let message = load("someone/other").unwrap_err().to_string();
    assert!(message.contains("HF_HUB_OFFLINE is set"), "{message}");
    let fallback = load_model_and_tokenizer(&["someone/other", "embedded"], "float32", Device::Cpu).unwrap();
    assert_eq!((fallback.model_id.as_str(), fallback.skipped.len()), ("embedded", 1));
}

/// A Hub with the repositories `someone/tiny` and `someone/gated`.
struct Hub {
    address: String,
    stop: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let hub = Self { address, stop: Arc::default(), log: Arc::default() };
        let (stop, log) = (Arc::clone(&hub.stop), Arc::clone(&hub.log));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) > 0 {
                    return;
                }
                let log = Arc::clone(&log);
                std::thread::spawn(move || answer(stream.unwrap(), &log));
            }
        });
        hub
    }

    fn stop(&self) {
        self.stop.store(1, Ordering::SeqCst);
        // Wakes the listener, which then closes.
        let address = self.address.trim_start_matches("http://");
        let _ = TcpStream::connect(address);
        while TcpStream::connect(address).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn requests(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    fn saw(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|request| request.contains(text))
    }
}

/// Reads one request and answers it.
fn answer(mut stream: TcpStream, log: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let request: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let Some(first) = request.first().cloned() else { return };
    log.lock().unwrap().push(request.join("\n"));
    let path = first.split(' ').nth(1).unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    let body = match path.split('/').nth(2) {
        Some("tiny") => std::fs::read(tiny().join(file)).map_err(|_| "404 Not Found"),
        Some("gated") => Err("401 Unauthorized"),
        _ => Err("404 Not Found"),
    };
    let (status, body) = body.map_or_else(|status| (status, Vec::new()), |body| ("200 OK", body));
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"{file}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    if !first.starts_with("HEAD") {
        let _ = stream.write_all(&body);
    }
}
