//! A repository on the Hub: which files it has, and their bytes.
//!
//! hf-hub's own download starts again from the first byte when it was interrupted, does not look at sizes, and
//! stores the page of an error as if it were the file. Its requests are good, though, and made here one range at
//! a time; what is done with the bytes is in `download`.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use hf_hub::repository::RepoTypeModel;
use hf_hub::{HFClient, HFClientSync, HFError, HFRepositorySync, HFResult, split_id};
use serde::Deserialize;

use super::cache::{is_commit, is_hash};
use super::redact::redact;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::source::folder::CONFIG;

/// A Hub that does not answer within this time counts as absent: trying the next candidate should not take longer
/// than two seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);

/// hf-hub waits forever; a list of files should be there within this time, and a piece of a file within the other.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How many times a request is tried that fails for a reason that may pass, and the pause before the second try; each
/// further pause is twice as long.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A connection to one repository.
pub(super) struct Remote {
    repo: String,
    token: Option<String>,
    client: HFClientSync,
    model: HFRepositorySync<RepoTypeModel>,
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

impl Remote {
    /// Connects to the Hub for the sake of `repo`.
    ///
    /// # Errors
    /// The Hub does not answer, or its address is not one.
    pub fn connect(settings: &Settings, repo: &str) -> Result<Self> {
        let token = settings.token.clone();
        let endpoint = redact(&settings.endpoint, token.as_deref());
        let mut builder = HFClient::builder().endpoint(&settings.endpoint).retry_max_attempts(0);
        if let Some(token) = &token {
            builder = builder.token(token);
        }
        let client = builder.build_sync().map_err(|cause| {
            let cause = redact(&cause.to_string(), token.as_deref());
            Error::source(format!("cannot talk to the Hub at {endpoint}: {cause}")).hint("check HF_ENDPOINT")
        })?;
        let (owner, name) = split_id(repo);
        let model = client.model(owner, name);
        let remote = Self { repo: repo.to_owned(), token, client, model };
        remote.check_answers(&endpoint)?;
        Ok(remote)
    }

    /// Asks for something small, once. A resolver, a proxy or a gateway without a network behind it may take
    /// connections and then be silent for minutes, or say that it cannot; only a Hub is worth more patience.
    fn check_answers(&self, endpoint: &str) -> Result<()> {
        let model = self.model.clone();
        match in_time(ANSWER_TIMEOUT, move || model.get_file_metadata().filepath(CONFIG).send()) {
            Err(cause @ HFError::Http { .. }) if passes(&cause) => Err(self.explain(CONFIG, &cause)),
            Err(cause) if passes(&cause) => {
                let (repo, cause) = (&self.repo, self.redact(&innermost(&cause).to_string()));
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
        // hf-hub has no call that tells the hash of every file. This makes its call for the text of a comparison ask
        // for something else: what it adds comes after a `#`, and that part of an address is never sent.
        let path = format!("{}/revision/{}?blobs=true#", self.repo, percent_encoded(revision));
        let text = persist(|_| {
            let request = self.client.model("", path.as_str());
            in_time(LIST_TIMEOUT, move || request.get_commit_diff().compare("").send())
        })
        .map_err(|cause| match &cause {
            HFError::RepoNotFound { context: Some(context), .. }
                if context.error_code.as_deref() == Some("RevisionNotFound") =>
            {
                Error::source(format!("{} has no revision `{revision}` (404)", self.repo))
                    .hint("leave out what follows the `@` to get the newest")
            }
            _ => self.explain("the list of files", &cause),
        })?;
        parse_listing(&text).ok_or_else(|| {
            Error::source(format!("cannot understand the Hub's list of the files of {}", self.repo))
                .hint("check HF_ENDPOINT: is it a Hub?")
        })
    }

    /// Some of the bytes of a file. Where the Hub sends the request on to another host, the token does not go there.
    pub fn read(&self, commit: &str, name: &str, range: Range<u64>) -> HFResult<Vec<u8>> {
        let (model, commit, name) = (self.model.clone(), commit.to_owned(), name.to_owned());
        in_time(READ_TIMEOUT, move || {
            model.download_file_to_bytes().filename(name).revision(commit).range(range).send().map(Vec::from)
        })
    }

    /// What went wrong with `what`, and what to try.
    pub fn explain(&self, what: &str, cause: &HFError) -> Error {
        let repo = &self.repo;
        match cause {
            HFError::Io(cause) if cause.kind() == io::ErrorKind::Interrupted => {
                Error::interrupted().hint("run the cell again: the download resumes where it stopped")
            }
            HFError::AuthRequired { .. } => {
                Error::source(format!("the Hub wants a token for {repo} (401): it is private, gated, or not there"))
                    .hint("check the spelling; accept the model's terms on its page and set HF_TOKEN")
            }
            HFError::Forbidden { .. } => Error::source(format!("the Hub does not let you read {repo} (403)"))
                .hint("accept the model's terms on its page, with the account that HF_TOKEN belongs to"),
            HFError::RepoNotFound { .. } => Error::source(format!("the Hub has no model {repo} (404)"))
                .hint("check the spelling of the id; it is `owner/name`"),
            HFError::EntryNotFound { .. } => {
                Error::source(format!("the Hub lists {what} of {repo}, but does not have it (404)"))
                    .hint("the repository may be changing; try again in a minute")
            }
            HFError::RateLimited { retry_after, .. } => {
                let time = retry_after.map_or_else(|| "a minute".to_owned(), |time| format!("{} s", time.as_secs()));
                Error::source(format!("the Hub asks for fewer requests (429) while reading {repo}"))
                    .hint(format!("wait {time} and run it again; with HF_TOKEN set, the Hub allows more"))
            }
            HFError::Http { context } if context.status.is_server_error() => {
                let status = context.status.as_u16();
                Error::source(format!("the Hub failed on {what} of {repo} with an error of its own ({status})"))
                    .hint("run it again in a few minutes: the download resumes where it stopped")
            }
            HFError::Request { .. } | HFError::Io(_) => {
                let cause = self.redact(&innermost(cause).to_string());
                Error::source(format!("the connection to the Hub broke at {what} of {repo}: {cause}"))
                    .hint("run it again: the download resumes where it stopped")
            }
            other => {
                let cause = self.redact(&other.to_string());
                Error::source(format!("cannot fetch {what} of {repo}: {cause}"))
                    .hint("run it again; if that does not help, is there a proxy or a mirror on the way?")
            }
        }
    }

    fn redact(&self, message: &str) -> String {
        redact(message, self.token.as_deref())
    }
}

/// Makes a request until it succeeds, or fails for a reason that stays, or has failed too often. It is told how often
/// it failed before.
pub(super) fn persist<T>(mut request: impl FnMut(u32) -> HFResult<T>) -> HFResult<T> {
    let mut pause = FIRST_PAUSE;
    for failures in 0..ATTEMPTS - 1 {
        match request(failures) {
            Err(cause) if passes(&cause) => wait(pause)?,
            outcome => return outcome,
        }
        pause *= 2;
    }
    request(ATTEMPTS - 1)
}

fn wait(pause: Duration) -> HFResult<()> {
    let start = Instant::now();
    let is_over = |moment| {
        thread::sleep(pause.min(moment));
        (start.elapsed() >= pause).then_some(())
    };
    interrupt::until(is_over).map_err(|_| interrupted())
}

/// How an interruption passes through what returns hf-hub's errors; [`Remote::explain`] knows it again.
fn interrupted() -> HFError {
    HFError::Io(io::ErrorKind::Interrupted.into())
}

/// Whether the same request may succeed a moment later.
fn passes(cause: &HFError) -> bool {
    match cause {
        HFError::Http { context } => context.status.is_server_error(),
        HFError::Request { source, .. } => !source.is_builder() && !source.is_redirect(),
        HFError::Io(cause) => cause.kind() == io::ErrorKind::TimedOut,
        _ => false,
    }
}

/// Waits for `call` no longer than `limit`, or until the cell is interrupted; it then ends unheard, on its own thread.
fn in_time<T: Send + 'static>(limit: Duration, call: impl FnOnce() -> HFResult<T> + Send + 'static) -> HFResult<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(call()));
    let silence = || {
        let message = format!("no answer within {} s", limit.as_secs_f32());
        HFError::Io(io::Error::new(io::ErrorKind::TimedOut, message))
    };
    let start = Instant::now();
    let answer = |moment: Duration| match receiver.recv_timeout(limit.min(moment)) {
        Err(RecvTimeoutError::Timeout) if start.elapsed() < limit => None,
        answer => Some(answer.unwrap_or_else(|_| Err(silence()))),
    };
    interrupt::until(answer).unwrap_or_else(|_| Err(interrupted()))
}

fn innermost(error: &dyn std::error::Error) -> &dyn std::error::Error {
    error.source().map_or(error, innermost)
}

/// The revision as one part of an address: a branch may have a `/` in its name.
fn percent_encoded(revision: &str) -> String {
    let encode = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    revision.bytes().map(encode).collect()
}

/// Reads `GET /api/models/{repo}/revision/{revision}?blobs=true`.
fn parse_listing(text: &str) -> Option<Listing> {
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
    let model: Model = serde_json::from_str(text).ok()?;
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
    fn a_call_that_hangs_is_given_up() {
        let cause = in_time(Duration::from_millis(20), || {
            thread::sleep(Duration::from_secs(5));
            Ok(())
        })
        .unwrap_err();
        assert!(passes(&cause), "{cause}");
        assert_eq!(in_time(Duration::from_secs(5), || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn revisions_become_one_part_of_an_address() {
        assert_eq!(percent_encoded("main"), "main");
        assert_eq!(percent_encoded("refs/pr/1"), "refs%2Fpr%2F1");
        assert_eq!(percent_encoded("ä#?"), "%C3%A4%23%3F");
    }

    #[test]
    fn a_listing_with_names_that_lead_elsewhere_is_refused() {
        let listing = |sha: &str, blob: &str| {
            let file = format!(r#"{{"rfilename": "config.json", "size": 2, "blobId": "{blob}"}}"#);
            parse_listing(&format!(r#"{{"sha": "{sha}", "siblings": [{file}]}}"#))
        };
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(listing(commit, "0a1b").unwrap().files[0].etag, "0a1b");
        assert!(listing("../../etc", "0a1b").is_none());
        assert!(listing(commit, "../../../passwd").is_none());
        assert!(parse_listing("<html>").is_none());
    }
}
