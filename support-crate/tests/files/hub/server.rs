//! A Hub on loopback: it serves one repository, and remembers what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What a client asked.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The first byte that is asked for, and the last.
    fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("Range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().unwrap(), last.parse().unwrap()))
    }

    /// The first of them.
    pub fn first(&self) -> Option<usize> {
        Some(self.range()?.0)
    }

    /// Whether this asks for bytes of the file.
    pub fn gets(&self, file: &str) -> bool {
        self.method == "GET" && self.path.ends_with(file)
    }
}

/// What a client gets.
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Bytes after which the connection is cut.
    pub cut: Option<usize>,
    /// Whether the connection stays open, with nothing more to come.
    pub hangs: bool,
    /// So many bytes at a time, with a pause behind them.
    pub pace: Option<(usize, Duration)>,
    /// Whether the body is sent over and over, without saying how long it is.
    pub endless: bool,
}

impl Response {
    pub fn new(status: u16, body: &[u8]) -> Self {
        Self { status, headers: Vec::new(), body: body.to_owned(), cut: None, hangs: false, pace: None, endless: false }
    }

    pub fn with(mut self, header: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }

    /// The bytes that are asked for, as a server that knows ranges answers.
    pub fn bytes(request: &Request, body: &[u8]) -> Self {
        let Some((first, last)) = request.range() else { return Self::new(200, body) };
        if first >= body.len() {
            return Self::new(416, b"").with("Content-Range", format!("bytes */{}", body.len()));
        }
        let length = body.len();
        let last = last.min(length - 1);
        Self::new(206, &body[first..=last]).with("Content-Range", format!("bytes {first}-{last}/{length}"))
    }
}

/// A model on the Hub.
#[derive(Clone)]
pub struct Repository {
    pub name: &'static str,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Repository {
    /// What a Hub without faults answers.
    pub fn answer(&self, request: &Request) -> Response {
        for revision in ["main", "refs%2Fpr%2F1", COMMIT] {
            if request.path == format!("/api/models/{}/revision/{revision}?blobs=true", self.name) {
                return Response::new(200, self.listing().as_bytes());
            }
        }
        if request.path.starts_with(&format!("/api/models/{}/revision/", self.name)) {
            return Response::new(404, b"").with("X-Error-Code", "RevisionNotFound");
        }
        match request.path.strip_prefix(&format!("/{}/resolve/{COMMIT}/", self.name)) {
            Some(file) => match self.files.get(file) {
                Some(bytes) => Response::bytes(request, bytes),
                None => Response::new(404, b"").with("X-Error-Code", "EntryNotFound"),
            },
            None => Response::new(404, b"").with("X-Error-Code", "RepoNotFound"),
        }
    }

    fn listing(&self) -> String {
        let siblings: Vec<_> = self
            .files
            .iter()
            .map(|(name, bytes)| {
                let mut file = json!({ "rfilename": name, "size": bytes.len(), "blobId": "ab".repeat(20) });
                if name.ends_with(".safetensors") {
                    file["lfs"] = json!({ "sha256": etag(name, bytes), "size": bytes.len(), "pointerSize": 1 })
                } else {
                    file["blobId"] = json!(etag(name, bytes))
                }
                file
            })
            .collect();
        json!({ "id": self.name, "sha": COMMIT, "siblings": siblings }).to_string()
    }
}

/// The hash of a file: SHA-256 of the large ones, the names that git gives to the others.
pub fn etag(name: &str, bytes: &[u8]) -> String {
    let hash = if name.ends_with(".safetensors") {
        Sha256::digest(bytes).to_vec()
    } else {
        Sha1::digest([format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat()).to_vec()
    };
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server on loopback, until it is stopped.
pub struct Server {
    pub address: String,
    stopped: Arc<AtomicBool>,
    requests: Arc<Mutex<Vec<Request>>>,
    sent: Arc<AtomicUsize>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { address, stopped: Arc::default(), requests: Arc::default(), sent: Arc::default() };
        let (stopped, requests) = (Arc::clone(&server.stopped), Arc::clone(&server.requests));
        let sent = Arc::clone(&server.sent);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (answer, requests, sent) = (Arc::clone(&answer), Arc::clone(&requests), Arc::clone(&sent));
                // An error here is the client's doing: it left.
                std::thread::spawn(move || serve(&stream.unwrap(), &*answer, &requests, &sent));
            }
        });
        server
    }

    /// From here on, connections are refused.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        // The first connection wakes the listener, which then closes.
        let address = self.address.trim_start_matches("http://");
        while TcpStream::connect(address).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// What was asked so far but whether there is an answer at all.
    pub fn questions(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.method != "HEAD").collect()
    }

    /// From which bytes of the file on it was asked for so far.
    pub fn firsts(&self, file: &str) -> Vec<usize> {
        self.requests().iter().filter(|request| request.gets(file)).filter_map(Request::first).collect()
    }

    /// Bytes of answers that clients took so far.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

fn serve(
    mut stream: &TcpStream,
    answer: &(dyn Fn(&Request) -> Response + Send + Sync),
    requests: &Mutex<Vec<Request>>,
    sent: &AtomicUsize,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let head: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let Some((first, headers)) = head.split_first() else { return Ok(()) };
    let mut words = first.split(' ').map(str::to_owned);
    let request = Request {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        headers: headers
            .iter()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    requests.lock().unwrap().push(request.clone());
    let response = answer(&request);
    write!(stream, "HTTP/1.1 {} x\r\n", response.status)?;
    if !response.endless {
        write!(stream, "Content-Length: {}\r\n", response.body.len())?;
    }
    for (name, value) in &response.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    write!(stream, "Connection: close\r\n\r\n")?;
    if request.method != "HEAD" {
        let body = &response.body[..response.cut.unwrap_or(response.body.len())];
        let (piece, pause) = response.pace.unwrap_or((body.len().max(1), Duration::ZERO));
        loop {
            for piece in body.chunks(piece) {
                stream.write_all(piece)?;
                sent.fetch_add(piece.len(), Ordering::SeqCst);
                std::thread::sleep(pause);
            }
            if !response.endless {
                break;
            }
        }
        if response.hangs {
            loop {
                std::thread::park();
            }
        }
    }
    Ok(())
}
