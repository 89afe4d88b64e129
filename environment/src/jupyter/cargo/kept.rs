//! What Cargo answered before: to the same question about the same files it would answer the same, after a second of
//! work.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::home::{Home, write_atomically};
use crate::jupyter::crates;

/// Stands for a kernel's own folder, which is another one each time.
const FOLDER: &str = "{the kernel's folder}";

/// The place of an answer; its name stands for all that the answer depends on.
pub struct Kept {
    file: PathBuf,
    folder: Option<String>,
}

impl Kept {
    /// About the cells' crate in `dir`; `None` where an answer depends on more than is looked at here.
    pub fn of_cells(dir: &Path, args: &[OsString]) -> Option<Self> {
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).ok()?;
        if names_other_folders(&manifest) {
            return None;
        }
        let mut parts = vec![variables(), fs::read_to_string(dir.join("Cargo.lock")).unwrap_or_default()];
        if crates::are_named(&manifest) {
            parts.push(built_library(dir)?);
        }
        parts.push(manifest);
        for config in dir.ancestors().map(|folder| folder.join(".cargo/config.toml")) {
            parts.extend(fs::read_to_string(config).ok());
        }
        Self::at(parts, args, Some(dir.to_str()?.to_owned()))
    }

    /// About the standard library, whose manifest this is.
    pub fn of_library(manifest: &Path, args: &[OsString]) -> Option<Self> {
        let lock = fs::read_to_string(manifest.with_file_name("Cargo.lock")).ok()?;
        Self::at(vec![variables(), lock], args, None)
    }

    fn at(parts: Vec<String>, args: &[OsString], folder: Option<String>) -> Option<Self> {
        let mut hash = Sha256::new();
        // How answers are edited and kept is up to this program, and may change with an update.
        let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
        let version = format!("{} {:?}", program.len(), program.modified().ok()?);
        let args = args.iter().map(|arg| arg.to_string_lossy().into_owned());
        for part in [version].into_iter().chain(parts).chain(args) {
            let part = folder.as_ref().map_or_else(|| part.clone(), |folder| part.replace(folder, FOLDER));
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Some(Self { file: Home::find().ok()?.answers().join(format!("{:x}.json", hash.finalize())), folder })
    }

    /// The answer, if there is one.
    pub fn recall<T: DeserializeOwned>(&self) -> Option<T> {
        let text = fs::read_to_string(&self.file).ok()?;
        let text = self.folder.as_ref().map_or_else(|| text.clone(), |folder| text.replace(FOLDER, folder));
        serde_json::from_str(&text).ok()
    }

    /// Keeps an answer. In a home that cannot be written to, the question is asked again next time.
    pub fn remember<T: Serialize>(&self, answer: &T) {
        let Ok(text) = serde_json::to_string(answer) else { return };
        let text = self.folder.as_ref().map_or_else(|| text.clone(), |folder| text.replace(folder, FOLDER));
        let _ = write_atomically(&self.file, text.as_bytes());
    }
}

/// The variables that Cargo and rustc read.
fn variables() -> String {
    // Variables that `cargo run` sets for the program that it runs, and one that names a new file each time.
    let is_told = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
            || ["CARGO", "CARGO_RESOLVER_LOCKFILE_PATH"].contains(&name)
    };
    let is_read = |name: &str| {
        ["CARGO", "RUST"].iter().any(|prefix| name.starts_with(prefix))
            || ["PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBTORCH", "HOME"].contains(&name)
    };
    let mut read: Vec<String> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, _)| is_read(name) && !is_told(name))
        .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
        .collect();
    read.sort();
    read.join("\n")
}

/// Library and course as they were built for this kernel. Their sources are not looked at: a running kernel keeps the library
/// that it started with, which its cells link and have loaded.
fn built_library(dir: &Path) -> Option<String> {
    let mut hosts = fs::read_dir(dir.join("target")).ok()?.flatten().map(|host| host.path().join("debug/deps"));
    let files = crates::files();
    let built = hosts.find(|deps| deps.join(&files[0]).exists())?;
    let metadata = files.iter().map(|file| {
        let meta = fs::metadata(built.join(file)).ok()?;
        Some(format!("{} {:?}", meta.len(), meta.modified().ok()?))
    });
    metadata.collect::<Option<Vec<String>>>().map(|parts| parts.join("\n"))
}

/// Whether a dependency other than library and course is in a folder, where its sources may change.
fn names_other_folders(manifest: &str) -> bool {
    manifest.lines().filter_map(|line| line.split_once('=')).any(|(name, value)| {
        !crates::are_called(name.trim()) && value.trim_start().starts_with('{') && value.contains("path")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_cargo_would_look_at_makes_another_question() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| write_atomically(&dir.path().join(file), text.as_bytes()).unwrap();
        let manifest = "[package]\nname = \"ctx\"\n[dependencies]\nquantlab = {path = \"/support-crate\"}\n";
        write("cells/Cargo.toml", manifest);
        let cells = dir.path().join("cells");
        let ask = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            Kept::of_cells(&cells, &args).map(|kept| kept.file)
        };
        assert_eq!(ask(&["build"]), None, "the library is not there yet");
        write("cells/target/x86_64/debug/deps/libquantlab.so", "library");
        assert_eq!(ask(&["build"]), None, "nor is the course");
        write("cells/target/x86_64/debug/deps/libquantlab_course.so", "course");
        let mut seen = vec![ask(&["build"]).unwrap()];
        assert_eq!(ask(&["build"]), seen.last().cloned());
        let mut is_new = |args: &[&str], what: &str| {
            let file = ask(args).unwrap();
            assert!(!seen.contains(&file), "{what}");
            seen.push(file);
        };
        is_new(&["build", "--release"], "arguments");
        write("cells/target/x86_64/debug/deps/libquantlab.so", "another library");
        is_new(&["build"], "the library");
        write("cells/target/x86_64/debug/deps/libquantlab_course.so", "another course");
        is_new(&["build"], "the course");
        write("cells/Cargo.lock", "version = 4");
        is_new(&["build"], "the lock");
        write(".cargo/config.toml", "[build]");
        is_new(&["build"], "the configuration above");
        write("cells/Cargo.toml", &format!("{manifest}rand = \"0.9\"\n"));
        is_new(&["build"], "the manifest");
        write("cells/Cargo.toml", &format!("{manifest}mine = {{ path = \"/mine\" }}\n"));
        assert_eq!(ask(&["build"]), None, "sources that are not looked at");
    }

    #[test]
    fn an_answer_is_about_the_kernel_that_asks() {
        let dir = tempfile::tempdir().unwrap();
        let kept = |folder: &str| Kept { file: dir.path().join("a.json"), folder: Some(folder.to_owned()) };
        assert_eq!(kept("/live/1").recall::<String>(), None);
        kept("/live/1").remember(&"in /live/1/target".to_owned());
        assert_eq!(kept("/live/2").recall::<String>().as_deref(), Some("in /live/2/target"));
        fs::write(dir.path().join("a.json"), "\"in /li").unwrap();
        assert_eq!(kept("/live/2").recall::<String>(), None);
    }
}
