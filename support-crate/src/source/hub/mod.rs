//! A model on the Hugging Face Hub, through its cache.
//!
//! The ecosystem's conventions hold: `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT`,
//! `HF_HUB_OFFLINE`, `HF_HUB_DOWNLOAD_TIMEOUT`. A file in the cache is used without asking the network, and
//! the other files are then taken from the same commit, so that a model is never put together from two
//! versions. A download that was interrupted resumes where it stopped.

mod cache;
mod check;
mod client;
mod download;
mod fault;
mod progress;
mod proxy;
mod redact;
mod remote;
mod settings;

use std::path::PathBuf;

use self::cache::{Cache, is_commit};
use self::download::download;
use self::remote::{Listing, Remote};
use self::settings::Settings;
use super::folder::{self, CONFIG, TOKENIZER, WEIGHTS, WEIGHTS_INDEX};
use super::{ModelFile, ModelFiles, OTHERS, WeightSource};
use crate::error::{Error, Result};

/// The files of `repo` at `revision`, downloaded where they are not in the cache.
pub(super) fn files(repo: &str, revision: Option<&str>) -> Result<ModelFiles> {
    let mut repository = Repository::new(Settings::from_env(), repo, revision, CONFIG)?;
    let config = repository.fetch(CONFIG)?;
    let tokenizer = repository.fetch(TOKENIZER)?;
    let mut others = Vec::new();
    for name in OTHERS {
        others.extend(repository.fetch_other(name)?.map(|path| (name, ModelFile::Path(path))));
    }
    let weights = repository.fetch_weights()?;
    Ok(ModelFiles {
        config: ModelFile::Path(config),
        tokenizer: ModelFile::Path(tokenizer),
        weights: WeightSource::Safetensors(weights.into_iter().map(ModelFile::Path).collect()),
        others,
    })
}

/// A GGUF file of `repo`, downloaded if it is not in the cache.
pub(super) fn gguf_file(repo: &str, revision: Option<&str>, file: &str) -> Result<PathBuf> {
    if !folder::is_inside(file) {
        return Err(Error::input(format!("`{file}` is not the name of a file"))
            .hint("after the `:` comes a file's path in the repository"));
    }
    Repository::new(Settings::from_env(), repo, revision, file)?.fetch(file)
}

struct Repository {
    settings: Settings,
    repo: String,
    revision: String,
    cache: Cache,
    /// The commit that every file is taken from: what the cache knows, or else what the Hub says.
    commit: Option<String>,
    /// The Hub's side; asked only when the cache does not have a file.
    remote: Option<(Remote, Listing)>,
}

impl Repository {
    /// `first` is the file without which nothing was ever loaded.
    fn new(settings: Settings, repo: &str, revision: Option<&str>, first: &str) -> Result<Self> {
        let revision = revision.unwrap_or("main");
        if !folder::is_inside(revision) {
            return Err(Error::input(format!("`{revision}` is not a revision"))
                .hint("after the `@` comes a branch, a tag or a commit"));
        }
        let cache = Cache::new(&settings.cache, repo);
        // A commit without that file was never loaded from; then the newest is as good.
        let commit = cache.commit(revision).filter(|commit| cache.file(commit, first).is_some());
        Ok(Self { settings, repo: repo.to_owned(), revision: revision.to_owned(), cache, commit, remote: None })
    }

    fn fetch_weights(&mut self) -> Result<Vec<PathBuf>> {
        // With the index in the cache, the Hub need not be asked whether there is a file without shards.
        let whole =
            if self.in_cache(WEIGHTS_INDEX).is_some() { self.in_cache(WEIGHTS) } else { self.fetch_if_there(WEIGHTS)? };
        if let Some(path) = whole {
            return Ok(vec![path]);
        }
        let Some(index) = self.fetch_if_there(WEIGHTS_INDEX)? else {
            let error = self.missing(WEIGHTS);
            return Err(if self.listed().any(folder::is_pickle) {
                error.hint(
                    "its weights are pickles, which are not supported; save it with safe_serialization=True, or use \
                            another",
                )
            } else {
                error
            });
        };
        folder::shard_names(&index)?.iter().map(|name| self.fetch(name)).collect()
    }

    /// The file's path in the cache, after a download if need be.
    fn fetch(&mut self, name: &str) -> Result<PathBuf> {
        self.fetch_if_there(name)?.ok_or_else(|| self.missing(name))
    }

    /// As `fetch`; `None` when the repository does not have the file.
    fn fetch_if_there(&mut self, name: &str) -> Result<Option<PathBuf>> {
        if let Some(path) = self.in_cache(name) {
            return Ok(Some(path));
        }
        if self.remote.is_none() {
            self.remote = Some(self.ask_hub(name)?);
        }
        let Some((remote, listing)) = &self.remote else { return Ok(None) };
        // The Hub may have named a commit whose files are here already.
        if let Some(path) = self.in_cache(name) {
            return Ok(Some(path));
        }
        let file = listing.files.iter().find(|file| file.name == name);
        file.map(|file| download(remote, &self.cache, &listing.commit, file)).transpose()
    }

    /// As `fetch_if_there`, but for a model in the cache, the Hub is not asked for files that the model can run
    /// without.
    fn fetch_other(&mut self, name: &str) -> Result<Option<PathBuf>> {
        if self.remote.is_some() { self.fetch_if_there(name) } else { Ok(self.in_cache(name)) }
    }

    fn in_cache(&self, name: &str) -> Option<PathBuf> {
        self.commit.as_ref().and_then(|commit| self.cache.file(commit, name))
    }

    /// Connects to the Hub because of a file that is missing here, and settles which commit is meant.
    fn ask_hub(&mut self, name: &str) -> Result<(Remote, Listing)> {
        if self.settings.offline {
            return Err(Error::source(format!(
                "{name} of {} is not in the Hub's cache, and HF_HUB_OFFLINE is set",
                self.repo
            ))
            .hint("unset HF_HUB_OFFLINE to download it, or use `embedded`"));
        }
        let remote = Remote::connect(&self.settings, &self.repo)?;
        let listing = remote.list(self.commit.as_ref().unwrap_or(&self.revision))?;
        if self.commit.is_none() && !is_commit(&self.revision) {
            self.cache.remember(&self.revision, &listing.commit)?;
        }
        self.commit = Some(listing.commit.clone());
        Ok((remote, listing))
    }

    fn missing(&self, name: &str) -> Error {
        let error = Error::source(format!("the Hub has no {name} for {}", self.repo));
        if name == TOKENIZER {
            return error.hint(folder::how_to_get_tokenizer(&self.repo, |name| self.listed().any(|file| file == name)));
        }
        if name.ends_with(".gguf") {
            let mut others: Vec<&str> = self.listed().filter(|file| file.ends_with(".gguf")).collect();
            others.truncate(12);
            return error.hint(match others[..] {
                [] => "the repository has no GGUF file; give its id without a file's name".to_owned(),
                _ => format!("it has {}", others.join(", ")),
            });
        }
        error.hint("a model needs config.json, tokenizer.json and weights as safetensors")
    }

    /// The names of the files that the Hub has, if it was asked.
    fn listed(&self) -> impl Iterator<Item = &str> {
        let files = self.remote.as_ref().map(|(_, listing)| &listing.files);
        files.into_iter().flatten().map(|file| file.name.as_str())
    }
}
