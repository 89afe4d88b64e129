//! What set-up installed, as the kernel and the workspace's builds need to know it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::claim::claim;
use super::sources::content_key;
use crate::checkout::Checkout;
use crate::home::{Home, non_empty_var, path_behind, write_atomically};
use crate::ui::output_of;

/// Written at the end of set-up as `installed.json`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Installed {
    /// Host triple that everything is built for.
    pub host: String,
    /// `rustc -vV`'s first line when it was built.
    pub rustc: String,
    /// The toolchain's sysroot, which holds the shared standard library.
    pub sysroot: PathBuf,
    /// Folder with libtorch's `lib` and `include`.
    pub libtorch: PathBuf,
    /// Whether that libtorch has CUDA.
    pub cuda: bool,
    /// The `RUSTFLAGS` that everything was built with.
    pub rustflags: String,
    /// The support crate that kernels outside a checkout use.
    pub support_crate: PathBuf,
}

/// Variables of the user's that would change what is built, or where.
const FOREIGN: [&str; 26] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
    "CARGO_INCREMENTAL",
    "RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "RUSTUP_TOOLCHAIN_SOURCE",
    "EVCXR_TMPDIR",
    // Build scripts of crates with C in them run again, in every kernel's folder, when one of these changes.
    "AR",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "PKG_CONFIG_PATH",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_BUILD_DIR",
];

/// For programs that share their processors with others: libtorch's threads look for each other some thousand times before
/// they sleep, as they do of themselves in a process with more threads than processors. Otherwise they look 300,000 times,
/// each time that a thread of another process runs where one of theirs should: beside a second such program, 25 times as
/// long for a prompt. Alone, it costs libtorch a tenth of its decode, so whoever measures alone goes without.
pub const SHARED_PROCESSORS: (&str, &str) = ("GOMP_SPINCOUNT", "1000");

impl Installed {
    /// Reads the record of the last set-up.
    pub fn read(home: &Home) -> Result<Self> {
        let path = Self::path(home);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("no finished set-up in {}\n  try: cargo lab setup", home.root().display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged\n  try: cargo lab setup", path.display()))
    }

    /// Writes the record.
    pub fn write(&self, home: &Home) -> Result<()> {
        write_atomically(&Self::path(home), serde_json::to_string_pretty(self)?.as_bytes())
    }

    /// Where the record lies.
    pub fn path(home: &Home) -> PathBuf {
        home.root().join("installed.json")
    }

    /// The library that a kernel in this checkout uses: the checkout's, unless somebody else's set-up has the same one,
    /// which is built already.
    pub fn library_for(&self, home: &Home, checkout: &Checkout) -> PathBuf {
        let theirs = checkout.support_crate();
        let is_same = || Some(content_key(&theirs).ok()? == content_key(&self.support_crate).ok()?);
        if !home.is_ours() && is_same() == Some(true) { self.support_crate.clone() } else { theirs }
    }

    /// The environment that kernels, tests and benches run in.
    pub fn apply(&self, home: &Home, command: &mut Command) {
        for name in FOREIGN.map(OsString::from).into_iter().chain(of_package()) {
            command.env_remove(name);
        }
        command
            .env("QUANTLAB_HOME", home.root())
            .env("PATH", self.search_path())
            .env("RUSTUP_TOOLCHAIN", &self.sysroot)
            .env("CARGO_HOME", home.cargo_home())
            .env("LIBTORCH", &self.libtorch)
            .env("LD_LIBRARY_PATH", self.library_path(home));
    }

    /// `cargo SUBCOMMAND` on the workspace, with the flags that evcxr uses, so that tests and kernel share
    /// one build of each dependency.
    ///
    /// # Errors
    /// What another checkout has built there cannot be removed.
    pub fn cargo(&self, home: &Home, checkout: &Path, subcommand: impl AsRef<OsStr>) -> Result<Command> {
        let target = &home.target();
        if let Some(checkout) = Checkout::around(checkout) {
            claim(target, &checkout.support_crate())?;
        }
        let mut command = Command::new("cargo");
        command.current_dir(checkout);
        self.apply(home, &mut command);
        command
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_BUILD_BUILD_DIR", target)
            .env("CARGO_BUILD_TARGET", &self.host)
            .env("RUSTFLAGS", rustflags())
            // After the subcommand: clippy would not pass on what comes before it.
            .arg(subcommand)
            .arg("--config")
            .arg(home.cargo_config());
        Ok(command)
    }

    /// The `PATH` of a kernel.
    pub fn kernel_path(&self, home: &Home) -> OsString {
        [home.cargo_home().join("bin").into_os_string(), self.search_path()].join(OsStr::new(":"))
    }

    /// Cargo and rustc of the toolchain that everything was built with come first, even if a program that was started
    /// from a desktop does not know them at all.
    fn search_path(&self) -> OsString {
        let rustup = std::env::home_dir().map(|home| home.join(".cargo/bin"));
        path_behind([self.sysroot.join("bin")].into_iter().chain(rustup))
    }

    /// Errors if the kernel would be built with other tools than the libraries it links: everything would silently be
    /// built anew in every kernel's folder, which takes ten minutes.
    pub fn check_tools(&self) -> Result<()> {
        let rustc = output_of(Command::new(self.sysroot.join("bin/rustc")).arg("-vV"))
            .context("the Rust toolchain that was set up is gone\n  try: cargo lab setup")?;
        if rustc.lines().next() != Some(self.rustc.as_str()) || rustflags() != self.rustflags {
            bail!("Rust or the linker has changed since set-up\n  try: cargo lab setup");
        }
        Ok(())
    }

    fn library_path(&self, home: &Home) -> OsString {
        // Libraries linked in another folder find the shared standard library by this, not by their rpath.
        let std = self.sysroot.join("lib/rustlib").join(&self.host).join("lib");
        let ours = [home.shim(), self.libtorch.join("lib"), std].map(OsString::from).into_iter();
        ours.chain(non_empty_var("LD_LIBRARY_PATH")).collect::<Vec<_>>().join(OsStr::new(":"))
    }
}

/// The variables by which `cargo run`, which `cargo lab` is, describes its package to the program that it runs. Build
/// scripts of crates with C in them run again where a kernel is started without these. And a user's own settings of
/// profiles, which Cargo would prefer to the kernels'.
fn of_package() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_PROFILE_"].iter().any(|start| name.starts_with(start))
    })
}

/// The `RUSTFLAGS` that evcxr 0.22 sets: other flags would mean another build of everything.
pub fn rustflags() -> &'static str {
    if on_path("mold") || !on_path("lld") { "-Cprefer-dynamic" } else { "-Cprefer-dynamic -Clink-arg=-fuse-ld=lld" }
}

/// Whether a program is in one of the folders of `PATH`.
pub fn on_path(program: &str) -> bool {
    find_on(&std::env::var_os("PATH").unwrap_or_default(), program).is_some()
}

/// The first program of this name in the folders of a search path.
pub fn find_on(path: &OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_of_this_package_does_not_reach_what_is_built() {
        // Cargo says it to tests too.
        let names: Vec<OsString> = of_package().collect();
        for name in ["CARGO_PKG_NAME", "CARGO_PKG_VERSION_PRE", "CARGO_MANIFEST_DIR"] {
            assert!(std::env::var_os(name).is_some() && names.contains(&name.into()), "{name}");
        }
    }
}
