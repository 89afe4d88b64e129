//! A repository on the Hub: which files it has, and their bytes.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use ureq::http::{Method, Uri};

use super::cache::{is_commit, is_hash};
use super::client::{Client, Piece};
use super::fault::{Fault, Patience, Refusal};
use super::progress::Waiting;
use super::redact::redact;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::source::folder::CONFIG;

/// A Hub that does not answer within this time counts as absent: trying the next candidate should not take longer
/// than two seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);

/// A network that brings fewer bytes per second than this, on average over [`Settings::timeout`], counts as bringing
/// nothing.
const SLOWEST: u64 = 1024;

/// The most bytes of a list of files: a list of a hundred thousand files has fewer.
const LONGEST_LIST: usize = 32 << 20;

/// A connection to one repository.
pub(super) struct Remote {
    repo: String,
    endpoint: String,
    token: Option<String>,
    timeout: Duration,
    client: Client,
}

/// The files of a repository at one commit.
pub(super) struct Listing {
    pub commit: String,
    pub files: Vec<RemoteFile>,
}

/// A file that the Hub has.
pub(super) struct RemoteFile {
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Its hash, which names it in the cache: SHA-256 of a large file, git's SHA-1 of a small one.
    pub etag: String,
}

/// Takes the bytes of a response; it is given none at each moment in which none arrived.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Fault>;

impl Remote {
    /// Connects to the Hub for the sake of `repo`.
    ///
    /// # Errors
    /// The Hub does not answer, or its address is invalid.
    pub fn connect(settings: &Settings, repo: &str) -> Result<Self> {
        let token = settings.token.clone();
        if !settings.endpoint.parse::<Uri>().is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https"))) {
            let endpoint = redact(&settings.endpoint, token.as_deref());
            return Err(Error::source(format!("cannot reach the Hub at {endpoint}: that is not a valid address"))
                .hint("check HF_ENDPOINT: it must be `https://` and a host, nothing else"));
        }
        let remote = Self {
            repo: repo.to_owned(),
            endpoint: settings.endpoint.trim_end_matches('/').to_owned(),
            client: Client::new(settings),
            token,
            timeout: settings.timeout,
        };
        remote.check_answers()?;
        Ok(remote)
    }

    /// Asks for something small, once. A resolver, a proxy or a gateway without a network behind it may take
    /// connections and then be silent for minutes, or say that it cannot; only a Hub is worth more patience.
    fn check_answers(&self) -> Result<()> {
        let address = format!("{}/{}/resolve/main/{CONFIG}", self.endpoint, self.repo);
        let pace = Pace::new(ANSWER_TIMEOUT);
        let answer = self.client.ask(Method::HEAD, &address, None);
        match answer.and_then(|pieces| self.next(&pieces, &pace, &mut |_| Ok(()))) {
            Err(fault @ (Fault::Here(_) | Fault::Refused(Refusal { status: 500.., .. }))) => {
                Err(self.explain(CONFIG, fault))
            }
            Err(Fault::Broken(cause) | Fault::Slow(cause)) => {
                let (repo, endpoint, cause) = (&self.repo, self.redact(&self.endpoint), self.redact(&cause));
                Err(Error::source(format!(
                    "{repo} is not complete in the Hub's cache, and {endpoint} does not answer: {cause}"
                ))
                .hint("check the network or the proxy settings, or use `embedded`, which needs no network"))
            }
            // A refusal is an answer too: what it means shows when the list of files is refused.
            _ => Ok(()),
        }
    }

    /// What the repository has at `revision`: a branch, a tag or a commit.
    pub fn list(&self, revision: &str) -> Result<Listing> {
        let (endpoint, repo) = (&self.endpoint, &self.repo);
        let address = format!("{endpoint}/api/models/{repo}/revision/{}?blobs=true", percent_encoded(revision, ""));
        let mut waiting = Waiting::new(format!("{repo}: waiting for the list of its files"));
        let mut patience = Patience::default();
        let text = loop {
            let mut text = Vec::new();
            let outcome = self.get(&address, None, &mut |bytes| {
                waiting.tick();
                text.extend_from_slice(bytes);
                if text.len() > LONGEST_LIST {
                    return Err(Fault::Wrong(format!("it has more than {} MiB", LONGEST_LIST >> 20)));
                }
                Ok(())
            });
            match outcome {
                Ok(()) => break text,
                Err(fault) => patience.pause_after(fault).map_err(|fault| match fault {
                    Fault::Refused(refusal) if refusal.code.as_deref() == Some("RevisionNotFound") => {
                        Error::source(format!("{repo} has no revision `{revision}` (404)"))
                            .hint("leave out what follows the `@` to get the newest")
                    }
                    fault => self.explain("the list of files", fault),
                })?,
            }
        };
        parse_listing(&text).ok_or_else(|| {
            Error::source(format!("cannot understand the Hub's list of the files of {repo}"))
                .hint("check HF_ENDPOINT: is it a Hub?")
        })
    }

    /// The bytes of a file of `size` from `at` on, and one more if it has more. Where the Hub sends the request on to
    /// another host, the token does not go there.
    pub fn read(&self, commit: &str, name: &str, at: u64, size: u64, sink: Sink) -> Result<(), Fault> {
        let (endpoint, repo) = (&self.endpoint, &self.repo);
        let address = format!("{endpoint}/{repo}/resolve/{commit}/{}", percent_encoded(name, "/"));
        self.get(&address, Some((at, size)), sink)
    }

    /// What is at an address: the whole, or the bytes from the first of `range` to the second.
    fn get(&self, address: &str, range: Option<(u64, u64)>, sink: Sink) -> Result<(), Fault> {
        let mut pace = Pace::new(self.timeout);
        let pieces = self.client.ask(Method::GET, address, range)?;
        let mut skipped = 0;
        loop {
            match self.next(&pieces, &pace, sink)? {
                Piece::Start { partial: true } => {}
                // A server that does not support ranges sends everything.
                Piece::Start { partial: false } => skipped = range.map_or(0, |(at, _)| at as usize),
                Piece::Bytes(bytes) => {
                    pace.came(bytes.len() as u64);
                    let there = skipped.min(bytes.len());
                    skipped -= there;
                    sink(&bytes[there..])?;
                }
                Piece::End => return Ok(()),
            }
        }
    }

    /// Waits for the next piece as long as the pace allows, or until the cell is interrupted.
    fn next(&self, pieces: &Receiver<Result<Piece, Fault>>, pace: &Pace, sink: Sink) -> Result<Piece, Fault> {
        let outcome = interrupt::until(|moment| match pieces.recv_timeout(moment.min(pace.left())) {
            Ok(piece) => Some(piece),
            Err(RecvTimeoutError::Disconnected) => Some(Err(Fault::Broken("it ended without an answer".to_owned()))),
            Err(RecvTimeoutError::Timeout) if pace.left().is_zero() => Some(Err(pace.fault())),
            Err(RecvTimeoutError::Timeout) => sink(&[]).err().map(Err),
        });
        outcome.unwrap_or_else(|_| Err(Fault::interrupted()))
    }

    /// What went wrong with `what`, and what to try.
    pub fn explain(&self, what: &str, fault: Fault) -> Error {
        let repo = &self.repo;
        let resumes = "run it again: the download resumes where it stopped";
        match fault {
            Fault::Here(cause) => cause,
            Fault::Refused(refusal) => self.explain_refusal(what, &refusal),
            Fault::Broken(cause) => {
                let cause = self.redact(&cause);
                Error::source(format!("the connection to the Hub broke while fetching {what} of {repo}: {cause}"))
                    .hint(resumes)
            }
            Fault::Slow(cause) => Error::source(format!("the Hub is too slow in sending {what} of {repo}: {cause}"))
                .hint(format!("check the network and {resumes}; HF_HUB_DOWNLOAD_TIMEOUT=60 waits longer")),
            Fault::Wrong(cause) => {
                let cause = self.redact(&cause);
                Error::source(format!("what arrived as {what} of {repo} is something else: {cause}"))
                    .hint("is there a proxy or a login page in between, or an incomplete mirror (HF_ENDPOINT)?")
            }
            Fault::Impossible(cause) => {
                let cause = self.redact(&cause);
                Error::source(format!("cannot fetch {what} of {repo}: {cause}"))
                    .hint("check HF_ENDPOINT; is there a proxy or a mirror in between?")
            }
        }
    }

    fn explain_refusal(&self, what: &str, refusal: &Refusal) -> Error {
        let (repo, status) = (&self.repo, refusal.status);
        match status {
            401 => Error::source(format!(
                "the Hub wants a token for {repo} (401): it is private, gated, or does not exist"
            ))
            .hint("check the spelling; accept the model's terms on its page and set HF_TOKEN"),
            403 => Error::source(format!("the Hub does not let you read {repo} (403)"))
                .hint("accept the model's terms on its page, with the account that HF_TOKEN belongs to"),
            404 if refusal.url.contains("/api/models/") => Error::source(format!("the Hub has no model {repo} (404)"))
                .hint("check the spelling of the id; it is `owner/name`"),
            404 => Error::source(format!("the Hub lists {what} of {repo}, but does not have it (404)"))
                .hint("the repository may be changing; try again in a minute"),
            429 => {
                let time = refusal.retry_after.map_or_else(|| "a minute".to_owned(), |time| format!("{time} s"));
                Error::source(format!("the Hub asks for fewer requests (429) while reading {repo}"))
                    .hint(format!("wait {time} and run it again; with HF_TOKEN set, the Hub allows more"))
            }
            500.. => Error::source(format!("the Hub failed to send {what} of {repo}, with a server error ({status})"))
                .hint("run it again in a few minutes; the download resumes where it stopped"),
            _ => {
                let message = refusal.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
                let cause = self.redact(&format!("status {status} from {}{message}", refusal.url));
                Error::source(format!("cannot fetch {what} of {repo}: {cause}"))
                    .hint("run it again; if that does not help, is there a proxy or a mirror in between?")
            }
        }
    }

    pub fn redact(&self, message: &str) -> String {
        redact(message, self.token.as_deref())
    }
}

/// Whether an answer comes fast enough to wait for more of it.
struct Pace {
    limit: Duration,
    start: Instant,
    bytes: u64,
}

impl Pace {
    fn new(limit: Duration) -> Self {
        Self { limit, start: Instant::now(), bytes: 0 }
    }

    fn came(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= SLOWEST * self.limit.as_secs() {
            *self = Self::new(self.limit);
        }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    fn fault(&self) -> Fault {
        let limit = self.limit.as_secs_f32();
        Fault::Slow(match self.bytes {
            0 => format!("no answer within {limit} s"),
            bytes => format!("{bytes} bytes within {limit} s"),
        })
    }
}

/// The text as a part of an address, percent-encoded except for the characters in `kept`: a branch may have a `/` in
/// its name.
fn percent_encoded(text: &str, kept: &str) -> String {
    let encode = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other if kept.as_bytes().contains(&other) => char::from(other).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Reads `GET /api/models/{repo}/revision/{revision}?blobs=true`.
fn parse_listing(text: &[u8]) -> Option<Listing> {
    #[derive(Deserialize)]
    struct Model {
        sha: String,
        siblings: Vec<Sibling>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Sibling {
        rfilename: String,
        size: u64,
        blob_id: String,
        lfs: Option<Lfs>,
    }
    #[derive(Deserialize)]
    struct Lfs {
        sha256: String,
    }
    let model: Model = serde_json::from_slice(text).ok()?;
    let files = model.siblings.into_iter().map(|file| RemoteFile {
        name: file.rfilename,
        size: file.size,
        etag: file.lfs.map_or(file.blob_id, |lfs| lfs.sha256),
    });
    let listing = Listing { commit: model.sha, files: files.collect() };
    // Both become names of files here.
    (is_commit(&listing.commit) && listing.files.iter().all(|file| is_hash(&file.etag))).then_some(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_trickles_counts_as_none() {
        let mut pace = Pace::new(Duration::from_secs(2));
        pace.start -= Duration::from_secs(3);
        pace.came(2047);
        assert!(pace.left().is_zero() && matches!(pace.fault(), Fault::Slow(_)));
        pace.came(1);
        assert!(!pace.left().is_zero(), "two kilobytes in two seconds");
    }

    #[test]
    fn revisions_become_one_part_of_an_address() {
        assert_eq!(percent_encoded("main", ""), "main");
        assert_eq!(percent_encoded("refs/pr/1", ""), "refs%2Fpr%2F1");
        assert_eq!(percent_encoded("ä#?", ""), "%C3%A4%23%3F");
        assert_eq!(percent_encoded("deep/part 2", "/"), "deep/part%202");
    }

    #[test]
    fn a_listing_with_names_that_lead_elsewhere_is_refused() {
        let listing = |sha: &str, blob: &str| {
            let file = format!(r#"{{"rfilename": "config.json", "size": 2, "blobId": "{blob}"}}"#);
            parse_listing(format!(r#"{{"sha": "{sha}", "siblings": [{file}]}}"#).as_bytes())
        };
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(listing(commit, "0a1b").unwrap().files[0].etag, "0a1b");
        assert!(listing("../../etc", "0a1b").is_none());
        assert!(listing(commit, "../../../passwd").is_none());
        assert!(parse_listing(b"<html>").is_none());
    }
}
