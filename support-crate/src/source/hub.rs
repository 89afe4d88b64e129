//! A model on the Hugging Face Hub, through its cache.
//!
//! The ecosystem's conventions hold: `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT`,
//! `HF_HUB_OFFLINE`. A file in the cache is used without asking the network, and the other files are
//! then taken from the same commit, so that a model is never put together from two versions.

use std::cell::OnceCell;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hf_hub::repository::RepoTypeModel;
use hf_hub::{HFClient, HFError, HFRepositorySync};

use super::folder::{self, CONFIG, TOKENIZER, WEIGHTS, WEIGHTS_INDEX};
use super::{ModelFile, ModelFiles, WeightSource};
use crate::error::{Error, Result};

/// A network that does not answer within this time counts as absent: trying the next candidate
/// should not take longer than two seconds.
const REACH_TIMEOUT: Duration = Duration::from_millis(1500);

/// The files of `repo` at `revision`, downloaded where they are not in the cache.
pub(super) fn files(repo: &str, revision: Option<&str>) -> Result<ModelFiles> {
    let mut hub = Hub::new(repo, revision)?;
    let config = hub.fetch(CONFIG)?;
    hub.stay_at_commit_of(&config);
    let tokenizer = hub.fetch(TOKENIZER)?;
    let weights = match hub.try_fetch(WEIGHTS)? {
        Some(path) => vec![path],
        None => match hub.try_fetch(WEIGHTS_INDEX)? {
            Some(index) => folder::shard_names(&index)?.iter().map(|name| hub.fetch(name)).collect::<Result<_>>()?,
            None => {
                return Err(hub
                    .missing(WEIGHTS)
                    .hint("only safetensors weights are read; this repository may hold pickles only"));
            }
        },
    };
    Ok(ModelFiles {
        config: ModelFile::Path(config),
        tokenizer: ModelFile::Path(tokenizer),
        weights: WeightSource::Safetensors(weights.into_iter().map(ModelFile::Path).collect()),
    })
}

struct Hub {
    repo: String,
    revision: Option<String>,
    handle: HFRepositorySync<RepoTypeModel>,
    endpoint: String,
    offline: bool,
    /// Whether the endpoint answers; asked once, and only when the cache does not have a file.
    reachable: OnceCell<bool>,
}

impl Hub {
    fn new(repo: &str, revision: Option<&str>) -> Result<Self> {
        let client = HFClient::builder()
            .retry_max_attempts(1)
            .retry_base_delay(Duration::from_millis(50))
            .build_sync()
            .map_err(|cause| Error::source(format!("cannot set up the Hub client: {}", clean(&cause.to_string()))))?;
        let endpoint = std::env::var("HF_ENDPOINT").unwrap_or_else(|_| "https://huggingface.co".to_owned());
        let (owner, name) = hf_hub::split_id(repo);
        Ok(Self {
            repo: repo.to_owned(),
            revision: revision.map(str::to_owned),
            handle: client.model(owner, name),
            endpoint,
            offline: is_set("HF_HUB_OFFLINE"),
            reachable: OnceCell::new(),
        })
    }

    /// The file's path in the cache, after a download if need be.
    fn fetch(&self, name: &str) -> Result<PathBuf> {
        self.try_fetch(name)?.ok_or_else(|| self.missing(name))
    }

    /// As `fetch`; `None` when the repository does not have the file.
    fn try_fetch(&self, name: &str) -> Result<Option<PathBuf>> {
        match self.request(name, true) {
            Ok(path) => return Ok(Some(path)),
            Err(HFError::LocalEntryNotFound { .. } | HFError::EntryNotFound { .. }) => {}
            Err(cause) => return Err(self.explain(name, &cause)),
        }
        if self.offline {
            return Err(Error::source(format!(
                "{name} of {} is not in the Hub's cache, and HF_HUB_OFFLINE is set",
                self.repo
            ))
            .hint("unset HF_HUB_OFFLINE to download it, or take `embedded`"));
        }
        if !*self.reachable.get_or_init(|| is_reachable(&self.endpoint)) {
            return Err(Error::source(format!(
                "{name} of {} is not in the Hub's cache, and {} does not answer",
                self.repo,
                clean(&self.endpoint)
            ))
            .hint("check the network or the proxy settings, or take `embedded`, which needs no network"));
        }
        match self.request(name, false) {
            Ok(path) => Ok(Some(path)),
            Err(HFError::EntryNotFound { .. }) => Ok(None),
            Err(cause) => Err(self.explain(name, &cause)),
        }
    }

    fn request(&self, name: &str, local_files_only: bool) -> hf_hub::HFResult<PathBuf> {
        self.handle
            .download_file()
            .filename(name)
            .maybe_revision(self.revision.clone())
            .local_files_only(local_files_only)
            .send()
    }

    /// Takes every further file from the commit that `path` in the cache belongs to.
    fn stay_at_commit_of(&mut self, path: &Path) {
        let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        // The last one: the cache itself may lie in a folder of that name.
        if let Some(commit) = parts.iter().rposition(|part| part == "snapshots").and_then(|at| parts.get(at + 1)) {
            self.revision = Some(commit.to_string());
        }
    }

    fn missing(&self, name: &str) -> Error {
        Error::source(format!("the Hub has no {name} for {}", self.repo))
            .hint("check the spelling of the id; it is `owner/name`")
    }

    fn explain(&self, name: &str, cause: &HFError) -> Error {
        let repo = &self.repo;
        match cause {
            HFError::AuthRequired { .. } => {
                Error::source(format!("the Hub wants a token for {repo} (401): it is private, gated, or not there"))
                    .hint("accept the model's terms on its page and set HF_TOKEN")
            }
            HFError::Forbidden { .. } => {
                Error::source(format!("the Hub does not allow this token to read {repo} (403)"))
                    .hint("accept the model's terms on its page, with the account that HF_TOKEN belongs to")
            }
            HFError::RepoNotFound { .. } => {
                Error::source(format!("the Hub has no model {repo} (404)")).hint("check the spelling of the id")
            }
            HFError::RevisionNotFound { revision, .. } => Error::source(format!("{repo} has no revision `{revision}`")),
            HFError::RateLimited { .. } => {
                Error::source(format!("the Hub asks to slow down (429) while reading {repo}")).hint("wait a minute")
            }
            other => Error::source(format!("cannot fetch {name} of {repo}: {}", clean(&other.to_string()))),
        }
    }
}

/// A variable of the environment that says yes, as the Hub's own library reads it.
fn is_set(variable: &str) -> bool {
    std::env::var(variable)
        .is_ok_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true"))
}

/// Whether a connection to the endpoint, or to the proxy in front of it, comes about in time.
///
/// The name is looked up on a thread of its own, because a resolver without a network can take many
/// seconds to give up and cannot be told not to.
fn is_reachable(endpoint: &str) -> bool {
    let target = proxy_for(endpoint).unwrap_or_else(|| endpoint.to_owned());
    let Some((host, port)) = host_and_port(&target) else { return true };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let connects = (host.as_str(), port).to_socket_addrs().is_ok_and(|mut addresses| {
            addresses.any(|address| TcpStream::connect_timeout(&address, REACH_TIMEOUT).is_ok())
        });
        // The receiver is gone if this took too long; then nobody wants to know.
        let _ = sender.send(connects);
    });
    receiver.recv_timeout(REACH_TIMEOUT).unwrap_or(false)
}

/// The proxy that the environment names for this address, as HTTP clients read it.
fn proxy_for(endpoint: &str) -> Option<String> {
    let variable = |name: &str| {
        [name.to_ascii_lowercase(), name.to_owned()]
            .iter()
            .find_map(|name| std::env::var(name).ok())
            .filter(|value| !value.is_empty())
    };
    let (host, _) = host_and_port(endpoint)?;
    let exempt = variable("NO_PROXY").is_some_and(|list| {
        list.split(',')
            .map(|entry| entry.trim().trim_start_matches('.'))
            .any(|entry| entry == "*" || (!entry.is_empty() && (host == entry || host.ends_with(&format!(".{entry}")))))
    });
    if exempt {
        return None;
    }
    let scheme_proxy = if endpoint.starts_with("https:") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    variable(scheme_proxy).or_else(|| variable("ALL_PROXY"))
}

/// Host and port of an address such as `https://user@host:8080/path`.
fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let default_port = if scheme == "https" { 443 } else { 80 };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// A message without what must not be shown: the token, passwords in addresses, signed queries.
fn clean(message: &str) -> String {
    let mut shown = message.to_owned();
    if let Ok(token) = std::env::var("HF_TOKEN")
        && !token.trim().is_empty()
    {
        shown = shown.replace(token.trim(), "***");
    }
    let words: Vec<String> = shown.split(' ').map(clean_address).collect();
    words.join(" ")
}

fn clean_address(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let path = path.split('?').next().unwrap_or(path);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let host = |address| host_and_port(address).unwrap();
        assert_eq!(host("https://huggingface.co"), ("huggingface.co".to_owned(), 443));
        assert_eq!(host("http://me:secret@proxy.local:3128/x?y"), ("proxy.local".to_owned(), 3128));
        assert_eq!(host("http://[::1]:80/"), ("::1".to_owned(), 80));
        assert_eq!(host("proxy:8080"), ("proxy".to_owned(), 8080));
        assert_eq!(host_and_port("http://"), None);
    }

    #[test]
    fn messages_hide_passwords_and_signatures() {
        assert_eq!(clean("at https://me:secret@hub.co/a?sig=1 (x)"), "at https://hub.co/a (x)");
    }

    #[test]
    fn an_address_that_does_not_answer_is_given_up_in_time() {
        let start = std::time::Instant::now();
        // 192.0.2.0/24 is reserved for documentation (RFC 5737): nothing answers there.
        if proxy_for("http://192.0.2.1:9").is_none() {
            assert!(!is_reachable("http://192.0.2.1:9"));
        }
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}
