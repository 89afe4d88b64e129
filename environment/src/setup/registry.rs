//! The user's Cargo configuration: mirrors and proxies that it names hold for what set-up fetches too.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::home::{Home, non_empty_var, remove_if_there, write_with_mode};

const CONFIG: &str = "config.toml";
const CREDENTIALS: &str = "credentials.toml";

/// The user's Cargo configuration in another Cargo home, together with credentials, which are removed on drop.
#[must_use = "what is fetched needs it"]
pub struct Access {
    cargo_home: PathBuf,
    config: Option<String>,
}

impl Access {
    /// Copies, not links: a later edit must not change where a warm kernel's crates are.
    pub fn lend(home: &Home, cargo_home: &Path) -> Result<Self> {
        let access = Self { cargo_home: cargo_home.to_owned(), config: users_config(home) };
        access.write(CONFIG, access.config.as_deref(), 0o600)?;
        access.write(CREDENTIALS, users_file(home, CREDENTIALS).as_deref(), 0o600)?;
        Ok(access)
    }

    /// Takes the credentials back, and leaves what the kernel needs to find the same crates again, offline.
    pub fn end(self) -> Result<()> {
        self.take_back()
    }

    fn take_back(&self) -> Result<()> {
        self.write(CREDENTIALS, None, 0)?;
        // Other users' kernels read it too.
        self.write(CONFIG, self.config.as_deref().map(without_tokens).as_deref(), 0o644)
    }

    fn write(&self, name: &str, text: Option<&str>, mode: u32) -> Result<()> {
        let place = self.cargo_home.join(name);
        match text {
            Some(text) => write_with_mode(&place, text.as_bytes(), mode),
            None => remove_if_there(&place),
        }
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // After `end` there is nothing left to do; after a failure there is nobody left to tell.
        let _ = self.take_back();
    }
}

/// The user's Cargo configuration, if there is one.
pub fn users_config(home: &Home) -> Option<String> {
    users_file(home, CONFIG)
}

/// A file of the user's own Cargo home; inside `cargo lab exec` the variable names one of ours.
fn users_file(home: &Home, name: &str) -> Option<String> {
    let named = non_empty_var("CARGO_HOME").map(PathBuf::from).filter(|dir| !dir.starts_with(home.root()));
    let dir = named.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    fs::read_to_string(dir.join(name)).ok()
}

/// A Cargo config without its tokens: `token = "..."` on a line of its own or inside `{ ... }`, whatever stands before
/// the word in a dotted key.
fn without_tokens(config: &str) -> String {
    config.lines().map(|line| without_token(line) + "\n").collect()
}

fn without_token(line: &str) -> String {
    let mut from = 0;
    while let Some(at) = line[from..].find("token").map(|at| at + from) {
        from = at + "token".len();
        let value = line[from..].trim_start_matches(['"', '\'']).trim_start();
        let Some(value) = value.strip_prefix('=').map(str::trim_start) else { continue };
        let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else { continue };
        let Some(end) = value[1..].find(quote) else { continue };
        let rest = value[end + 2..].trim_start();
        let key =
            line[..at].trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '"' | '\''));
        // Of the two commas around it, one goes.
        let rest = rest.strip_prefix(',').unwrap_or(rest);
        let key = if rest.starts_with('}') { key.trim_end().trim_end_matches(',') } else { key };
        return without_token(&format!("{key}{rest}"));
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_and_all_else_stays() {
        let config = r#"[source.crates-io]
replace-with = "mirror"
[registries.mirror]
index = "sparse+https://mirror/"
token = "secret1"
registry.token = "secret2"
"token" = 'secret3'
registries.b = { index = "https://b", token = "secret4" }
registries.c = { token = "secret5", index = "https://c" }
[registry]
global-credential-providers = ["cargo:token"]
"#;
        let kept = without_tokens(config);
        assert!(!kept.contains("secret"), "{kept}");
        for line in [
            "replace-with = \"mirror\"",
            "index = \"sparse+https://mirror/\"",
            "registries.b = { index = \"https://b\"}",
            "registries.c = {  index = \"https://c\" }",
            "global-credential-providers = [\"cargo:token\"]",
        ] {
            assert!(kept.lines().any(|kept| kept == line), "{line} is missing in\n{kept}");
        }
    }

    #[test]
    fn credentials_are_there_only_while_they_are_needed() {
        let dir = tempfile::tempdir().unwrap();
        let cargo_home = dir.path().join("cargo-home");
        fs::create_dir_all(&cargo_home).unwrap();
        // What an earlier version left behind.
        fs::write(cargo_home.join(CREDENTIALS), "token = \"old\"").unwrap();
        let text = "[registry]\ntoken = \"secret\"\n[net]\nretry = 3\n";
        let access = Access { cargo_home: cargo_home.clone(), config: Some(text.to_owned()) };
        access.write(CONFIG, Some(text), 0o600).unwrap();
        drop(access);
        assert!(!cargo_home.join(CREDENTIALS).exists());
        assert_eq!(fs::read_to_string(cargo_home.join(CONFIG)).unwrap(), "[registry]\n\n[net]\nretry = 3\n");
    }
}
