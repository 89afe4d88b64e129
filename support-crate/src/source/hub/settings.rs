//! What the environment says about the Hub, read in one place.

use std::path::PathBuf;
use std::time::Duration;

use super::proxy::Proxies;

/// As in `huggingface_hub`. A Hub that does not answer costs four times this, plus the pauses in between.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the Hub is, where its cache is, and who asks.
pub(super) struct Settings {
    /// Address of the Hub.
    pub endpoint: String,
    /// The folder that holds one folder per repository.
    pub cache: PathBuf,
    /// The access token, from the environment or from the file that `hf auth login` writes.
    pub token: Option<String>,
    /// Whether the network must not be asked.
    pub offline: bool,
    /// How long too little may come from the Hub before it is asked again.
    pub timeout: Duration,
    /// The proxies between here and other hosts.
    pub proxies: Proxies,
}

impl Settings {
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// The rules are those of `huggingface_hub` (`constants.py`, `utils/_auth.py`), of which hf-hub knows `HF_HOME`.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let says_yes = |name: &str| {
            text(name).is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str()))
        };
        let user = text("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = |name: &str| {
            text(name).map(|path| match path.strip_prefix("~/") {
                Some(inside) => user.join(inside),
                None => PathBuf::from(path),
            })
        };
        let home = folder("HF_HOME")
            .unwrap_or_else(|| folder("XDG_CACHE_HOME").unwrap_or_else(|| user.join(".cache")).join("huggingface"));
        let token_file = folder("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let token = || {
            text("HF_TOKEN").or_else(|| std::fs::read_to_string(token_file).ok().map(|token| token.trim().to_owned()))
        };
        Self {
            endpoint: text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned()),
            cache: folder("HF_HUB_CACHE")
                .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
                .unwrap_or_else(|| home.join("hub")),
            token: if text("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some() { None } else { token() }
                .filter(|token| !token.is_empty()),
            offline: says_yes("HF_HUB_OFFLINE"),
            timeout: text("HF_HUB_DOWNLOAD_TIMEOUT")
                .and_then(|seconds| seconds.parse().ok())
                .filter(|seconds| (1..=3600).contains(seconds))
                .map_or(TIMEOUT, Duration::from_secs),
            proxies: Proxies::read(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_variables_everything_is_where_python_has_it() {
        let settings = read(&[("HOME", "/home/me")]);
        assert_eq!(settings.endpoint, "https://huggingface.co");
        assert_eq!(settings.cache, PathBuf::from("/home/me/.cache/huggingface/hub"));
        assert_eq!((settings.token, settings.offline), (None, false));
    }

    #[test]
    fn the_nearer_variable_wins() {
        let cache = |variables| read(variables).cache;
        assert_eq!(cache(&[("HF_HOME", "/a"), ("XDG_CACHE_HOME", "/b")]), PathBuf::from("/a/hub"));
        assert_eq!(cache(&[("HF_HOME", "/a"), ("HF_HUB_CACHE", "/c")]), PathBuf::from("/c"));
        assert_eq!(cache(&[("HF_HOME", ""), ("XDG_CACHE_HOME", "/b")]), PathBuf::from("/b/huggingface/hub"));
        assert_eq!(cache(&[("HF_HOME", "~/a"), ("HOME", "/home/me")]), PathBuf::from("/home/me/a/hub"));
    }

    #[test]
    fn the_token_comes_from_the_variable_or_the_file() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "from-the-file\n").unwrap();
        let home = ("HF_HOME", home.path().to_str().unwrap());
        assert_eq!(read(&[home]).token.as_deref(), Some("from-the-file"));
        assert_eq!(read(&[home, ("HF_TOKEN", " given\n")]).token.as_deref(), Some("given"));
        assert_eq!(read(&[home, ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).token, None);
    }

    #[test]
    fn patience_is_a_number_of_seconds() {
        for (value, seconds) in [("60", 60), (" 1 ", 1), ("", 10), ("0", 10), ("-1", 10), ("long", 10), ("1e9", 10)] {
            assert_eq!(read(&[("HF_HUB_DOWNLOAD_TIMEOUT", value)]).timeout.as_secs(), seconds, "{value}");
        }
    }

    #[test]
    fn offline_is_a_yes_in_words() {
        for (value, offline) in [("1", true), ("TRUE", true), ("on", true), ("0", false), ("", false), ("no", false)] {
            assert_eq!(read(&[("HF_HUB_OFFLINE", value)]).offline, offline, "{value}");
        }
    }
}
