//! What a set-up depends on beyond its own files.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::checkout::Checkout;
use crate::home::Home;
use crate::setup;
use crate::setup::toolchain::{Toolchain, version_pair};
use crate::ui::output_of;

/// What must be the same, or no older, where a set-up is unpacked. The processor is not part of it: what it can do is
/// queried when the program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Version of the C library; a newer one will do.
    pub glibc: String,
    /// Where everything is installed.
    pub home: PathBuf,
    pub checkout: PathBuf,
    /// `rustc -vV`'s first line.
    pub rustc: String,
    pub sysroot: PathBuf,
    /// Folder of the interpreter that the virtual environment was made from.
    pub python_folder: PathBuf,
    /// Its version.
    pub python: String,
    /// What each step of set-up was made from, by the step's title.
    pub steps: BTreeMap<String, String>,
}

impl Facts {
    /// The facts of a finished set-up.
    pub fn of(home: &Home, checkout: &Checkout) -> Result<Self> {
        let config = home.python().join("pyvenv.cfg");
        let text = fs::read_to_string(&config).with_context(|| format!("cannot read {}", config.display()))?;
        let folder = text.lines().find_map(|line| line.strip_prefix("home = "));
        let folder = folder.with_context(|| format!("{} names no interpreter", config.display()))?;
        Self::with_python(PathBuf::from(folder), home, checkout)
    }

    /// The facts of this machine, as far as they matter to what was packed.
    pub fn of_machine(packed: &Self, home: &Home, checkout: &Checkout) -> Result<Self> {
        Self::with_python(packed.python_folder.clone(), home, checkout)
    }

    fn with_python(python_folder: PathBuf, home: &Home, checkout: &Checkout) -> Result<Self> {
        let tools = Toolchain::find()?;
        let code = "import sys; print('%d.%d' % sys.version_info[:2])";
        let python = output_of(Command::new(python_folder.join("python3")).args(["-c", code]));
        Ok(Self {
            architecture: std::env::consts::ARCH.to_owned(),
            glibc: glibc(),
            home: home.root().to_owned(),
            checkout: checkout.root().to_owned(),
            rustc: tools.rustc,
            sysroot: tools.sysroot,
            python_folder,
            python: python.map_or_else(|_| "none".to_owned(), |version| version.trim().to_owned()),
            steps: setup::keys(checkout)?,
        })
    }

    /// What does not fit here, each with the reason.
    pub fn misfits(&self, here: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut same = |what: &str, packed: String, here: String, hint: &str| {
            if packed != here {
                found.push(format!("{what}: {packed} was packed, but here it is {here}{hint}"));
            }
        };
        let path = |path: &PathBuf| path.display().to_string();
        same("processor", self.architecture.clone(), here.architecture.clone(), "");
        same("QUANTLAB_HOME", path(&self.home), path(&here.home), "; it must be the same folder");
        same("checkout", path(&self.checkout), path(&here.checkout), "; it must be the same folder");
        same("Rust", self.rustc.clone(), here.rustc.clone(), "");
        same("Rust's folder", path(&self.sysroot), path(&here.sysroot), "");
        let python = |facts: &Self| format!("{} in {}", facts.python, facts.python_folder.display());
        same("Python", python(self), python(here), "");
        if version_pair(&here.glibc) < version_pair(&self.glibc) {
            found.push(format!("C library: glibc {} or newer is needed, but here it is {}", self.glibc, here.glibc));
        }
        // All else may be a consequence of these.
        if found.is_empty() {
            let others = self.steps.iter().filter(|(title, key)| here.steps.get(*title) != Some(key));
            found.extend(others.map(|(title, _)| {
                format!(
                    "{title}: a different version, or made from a different Cargo.lock, list of packages or registry"
                )
            }));
        }
        found
    }
}

#[cfg(target_env = "gnu")]
fn glibc() -> String {
    // SAFETY: has no preconditions; what it returns is a string that lives as long as the program.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

#[cfg(not(target_env = "gnu"))]
fn glibc() -> String {
    "0.0".to_owned()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn facts() -> Facts {
        Facts {
            architecture: "x86_64".to_owned(),
            glibc: "2.36".to_owned(),
            home: "/opt/home".into(),
            checkout: "/opt/checkout".into(),
            rustc: "rustc 1.95.0".to_owned(),
            sysroot: "/opt/rust".into(),
            python_folder: "/usr/bin".into(),
            python: "3.11".to_owned(),
            steps: [("Rust crates".to_owned(), "abc".to_owned())].into(),
        }
    }

    #[test]
    fn each_difference_is_named() {
        let packed = facts();
        assert_eq!(packed.misfits(&facts()), [""; 0]);
        type Change = (&'static str, fn(&mut Facts));
        let changes: [Change; 9] = [
            ("aarch64", |here| here.architecture = "aarch64".to_owned()),
            ("glibc 2.36 or newer is needed, but here it is 2.31", |here| here.glibc = "2.31".to_owned()),
            ("/home/b", |here| here.home = "/home/b".into()),
            ("/home/b", |here| here.checkout = "/home/b".into()),
            ("1.96", |here| here.rustc = "rustc 1.96.0".to_owned()),
            ("/usr/rust", |here| here.sysroot = "/usr/rust".into()),
            ("3.12", |here| here.python = "3.12".to_owned()),
            ("/usr/local", |here| here.python_folder = "/usr/local".into()),
            ("Rust crates", |here| drop(here.steps.insert("Rust crates".to_owned(), "b".to_owned()))),
        ];
        for (word, change) in changes {
            let mut here = facts();
            change(&mut here);
            let found = packed.misfits(&here);
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
        }
        let newer = Facts { glibc: "2.41".to_owned(), ..facts() };
        assert_eq!(packed.misfits(&newer), [""; 0]);
    }
}
