//! The side that downloads: a process of its own, so that each test has its own environment, its own output, and can
//! be killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::server::{COMMIT, Server};

pub const TOKEN: &str = "hf_notarealtokenbutnobodyshouldseeit";

/// What `main.rs` prints around what the library prints.
pub const START: &str = "START";
pub const RESULT: &str = "RESULT ";
pub const IDS: &str = "QUANTLAB_TEST_IDS";

/// A user with a cache.
pub struct Client {
    home: TempDir,
    variables: Vec<(&'static str, String)>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Outcome {
    /// What the library printed.
    pub printed: String,
    /// `Ok` with a description of what was found, or the error as people see it.
    pub result: Result<String, String>,
    pub took: Duration,
}

impl Client {
    pub fn of(server: &Server) -> Self {
        let variables = vec![("HF_ENDPOINT", server.address.clone()), ("HF_TOKEN", TOKEN.to_owned())];
        Self { home: tempfile::tempdir().unwrap(), variables }
    }

    pub fn set(&mut self, variable: &'static str, value: &str) {
        self.variables.retain(|(name, _)| *name != variable);
        self.variables.push((variable, value.to_owned()));
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Starts to fetch the model, or to load the first of several that can be loaded.
    pub fn start(&self, ids: &[&str]) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "hub::client", "--nocapture"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            let upper = name.to_string_lossy().to_ascii_uppercase();
            if upper.starts_with("HF_") || upper.starts_with("HUGGING") || upper.ends_with("_PROXY") {
                command.env_remove(name);
            }
        }
        command.env("NO_PROXY", "127.0.0.1").env("HF_HOME", self.home()).env(IDS, ids.join(" "));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.spawn().unwrap()
    }

    pub fn fetch(&self, ids: &[&str]) -> Outcome {
        Outcome::of(self.start(ids))
    }

    /// The error that fetching the model ends with. No token is in it, nor in what was printed.
    pub fn error(&self, id: &str) -> String {
        let outcome = self.fetch(&[id]);
        assert!(!outcome.printed.contains(TOKEN), "{}", outcome.printed);
        let error = outcome.result.unwrap_err();
        assert!(!error.contains(TOKEN), "{error}");
        error
    }

    /// The folder of the repository in the cache.
    pub fn cache(&self, repo: &str) -> PathBuf {
        self.home().join("hub").join(format!("models--{}", repo.replace('/', "--")))
    }

    /// Where the file is in the cache, under its own name.
    pub fn file(&self, repo: &str, name: &str) -> PathBuf {
        self.cache(repo).join("snapshots").join(COMMIT).join(name)
    }

    /// Bytes in the only partial download, if there is one.
    pub fn partial(&self, repo: &str) -> Option<u64> {
        let entries = std::fs::read_dir(self.cache(repo).join("blobs")).into_iter().flatten().map(Result::unwrap);
        let partial = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".incomplete"));
        // One that is complete by now has another name.
        let mut partial = partial.filter_map(|entry| entry.metadata().ok());
        let bytes = partial.next().map(|file| file.len());
        assert!(partial.next().is_none());
        bytes
    }
}

/// What `fetch` does in less than `limit`. What takes longer is tried again, twice: the machine may have been busy, but
/// something that waits for too long does so each time.
pub fn in_time(limit: Duration, fetch: impl Fn() -> Outcome) -> Outcome {
    let in_time = (0..3).map(|_| fetch()).find(|outcome| outcome.took < limit);
    in_time.unwrap_or_else(|| panic!("{limit:?} were not enough, three times"))
}

impl Outcome {
    pub fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.is_empty(), "a notebook shows as an error: {stderr}");
        let (_, printed) = stdout.split_once(&format!("{START}\n")).unwrap();
        let (printed, result) = printed.split_once(RESULT).unwrap();
        let mut lines = result.lines();
        let took = Duration::from_millis(lines.next().unwrap().parse().unwrap());
        let result = match lines.next().unwrap() {
            "ok" => Ok(lines.next().unwrap().to_owned()),
            _ => Err(lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")),
        };
        Self { printed: printed.to_owned(), result, took }
    }
}
