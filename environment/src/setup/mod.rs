//! `cargo lab setup`: everything that a notebook needs, step by step; a second call does what is missing.

pub mod libtorch;
pub mod toolchain;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::checkout::Checkout;
use crate::home::{Home, remove_if_there};
use crate::kernel::installed::{Installed, rustflags};
use crate::kernel::{spec, warm};
use crate::ui::{Steps, output_of, run_shown, took};
use libtorch::Choice;
use toolchain::Toolchain;

/// The version of the kernel that everything here is written for.
pub const EVCXR_VERSION: &str = "0.22.0";
/// What set-up takes at its widest, while evcxr is being built.
const DISK_NEEDED_GB: f64 = 8.0;

/// Sets up what is missing. `cuda` asks for libtorch's CUDA libraries even without a GPU.
pub fn setup(checkout: &Checkout, cuda: bool) -> Result<Installed> {
    let home = Home::find()?;
    check_place(&home)?;
    let _lock = home.lock("setup.lock", || {
        eprintln!("another `cargo lab` is setting up in {}; waiting for it", home.root().display());
    })?;
    let plan = Plan::make(&home, checkout, cuda)?;
    if plan.is_finished()? {
        return plan.finish();
    }
    eprintln!(
        "Setting up in {} (the first time takes 15 to 45 minutes and 4 GB, later ones seconds)",
        home.root().display()
    );
    plan.carry_out()
}

/// Whether a set-up for this checkout has nothing left to do.
pub fn is_finished(checkout: &Checkout) -> bool {
    let finished = || -> Result<bool> { Plan::make(&Home::find()?, checkout, false)?.is_finished() };
    finished().unwrap_or(false)
}

/// What is to be there, and from what it is made.
struct Plan<'a> {
    home: &'a Home,
    checkout: &'a Checkout,
    tools: Toolchain,
    choice: Choice,
    installed: Installed,
    keys: Keys,
}

/// One key per step: the step is done when its stamp holds exactly this.
struct Keys {
    python: String,
    libtorch: String,
    crates: String,
    shim: String,
    evcxr: String,
    build: String,
}

impl<'a> Plan<'a> {
    fn make(home: &'a Home, checkout: &'a Checkout, cuda: bool) -> Result<Self> {
        let tools = Toolchain::find()?;
        tools.ensure_rust_src();
        let choice = Choice::make(home, cuda)?;
        let requirements = read(&checkout.root().join("environment/requirements.txt"))?;
        let lock = read(&checkout.root().join("Cargo.lock"))?;
        let libtorch = choice.key();
        let shim = format!("{libtorch} {}", locked_version(&lock, "torch-sys")?);
        let evcxr = format!("{EVCXR_VERSION} {}", tools.rustc);
        let installed = Installed {
            host: tools.host.clone(),
            rustc: tools.rustc.clone(),
            sysroot: tools.sysroot.clone(),
            libtorch: choice.folder(home),
            cuda: choice == Choice::Cuda || choice.folder(home).join("lib/libtorch_cuda.so").is_file(),
            rustflags: rustflags().to_owned(),
            support_crate: checkout.support_crate(),
        };
        // Another mirror means other folders of crates.
        let mirrors = spec::users_cargo_file(home, "config.toml").unwrap_or_default();
        let crates = format!("{} {} {} {}", digest(&lock), digest(&mirrors), tools.rustc, tools.has_rust_src());
        let keys = Keys {
            python: digest(&requirements),
            build: digest(&format!("{crates} {shim} {} {}", rustflags(), spec::cargo_config(home, &installed))),
            crates,
            libtorch,
            shim,
            evcxr,
        };
        Ok(Self { home, checkout, tools, choice, installed, keys })
    }

    fn steps(&self) -> [(&'static str, &str); 6] {
        let k = &self.keys;
        [
            ("python", &k.python),
            ("libtorch", &k.libtorch),
            ("crates", &k.crates),
            ("shim", &k.shim),
            ("evcxr", &k.evcxr),
            ("build", &k.build),
        ]
    }

    fn is_finished(&self) -> Result<bool> {
        let steps = self.steps().iter().all(|(step, key)| self.is_there(step, key));
        Ok(steps && self.is_there("kernel", &self.kernel_key()) && Installed::read(self.home).is_ok())
    }

    /// Whether a step is done, and what it made is still there: people and programs empty cache folders.
    fn is_there(&self, step: &str, key: &str) -> bool {
        let (home, host) = (self.home, &self.tools.host);
        let product = match step {
            "python" => home.python_bin("python"),
            "libtorch" => self.installed.libtorch.join("lib/libtorch_cpu.so"),
            "crates" => home.cargo_home().join("registry/src"),
            "shim" => home.shim().join("libtch.so"),
            "evcxr" => home.evcxr().join("bin/evcxr_jupyter"),
            "build" => home.target().join(host),
            _ => home.warm().join("target").join(host),
        };
        home.is_done(step, key) && product.exists()
    }

    fn kernel_key(&self) -> String {
        format!("{}\n{}", self.keys.build, self.keys.evcxr)
    }

    /// What must be right however fresh everything is: this program's copies, and the record.
    fn finish(self) -> Result<Installed> {
        spec::install_lab(self.home)?;
        spec::write_kernelspec(self.home)?;
        spec::write_jupyter_settings(self.home)?;
        spec::write_cargo_config(self.home, &self.installed)?;
        self.installed.write(self.home)?;
        warm::refresh(self.home, &self.installed, &self.checkout.support_crate())?;
        Ok(self.installed)
    }

    fn carry_out(self) -> Result<Installed> {
        let mut steps = Steps::new(7);
        check_disk(self.home, &self.choice)?;
        self.step(
            &mut steps,
            "python",
            "Python environment",
            "JupyterLab, nbclient and nbgrader, as pinned in environment/requirements.txt",
            |p| p.install_python(),
        )?;
        self.step(
            &mut steps,
            "libtorch",
            "libtorch 2.13.0",
            "the C++ library under tch, from the registry's torch wheel (430 to 530 MB to download, 500 MB kept)",
            |p| libtorch::install(&p.choice, p.home),
        )?;
        self.step(
            &mut steps,
            "crates",
            "Rust crates",
            "the versions that Cargo.lock pins, kept for offline use",
            |p| p.fetch_crates(),
        )?;
        self.step(
            &mut steps,
            "shim",
            "torch's C++ shim",
            "compiled once, as a shared library, so that no later build has to (a minute)",
            |p| libtorch::build_shim(&p.choice, p.home, &p.tools, &p.torch_sys()?),
        )?;
        self.step(&mut steps, "evcxr", "evcxr_jupyter", "the Rust kernel for Jupyter (3 to 8 minutes)", |p| {
            p.install_evcxr()
        })?;
        self.step(
            &mut steps,
            "build",
            "the support crate and its dependencies",
            "built once, for tests and kernel alike (8 to 25 minutes)",
            |p| p.build(),
        )?;
        self.step(
            &mut steps,
            "kernel",
            "warm kernel",
            "a first cell through evcxr; each kernel starts from a clone of this one",
            |p| p.make_kernel(),
        )?;
        self.finish()
    }

    fn step(
        &self,
        steps: &mut Steps,
        name: &str,
        what: &str,
        why: &str,
        make: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let key = match self.steps().into_iter().find(|(step, _)| *step == name) {
            Some((_, key)) => key.to_owned(),
            None => self.kernel_key(),
        };
        if self.is_there(name, &key) {
            steps.present(what);
            return Ok(());
        }
        let start = steps.begin(what, why);
        self.home.mark_undone(name)?;
        make(self).with_context(|| {
            format!("set-up stopped at: {what} (finished steps are kept; the next call resumes here)")
        })?;
        self.home.mark_done(name, &key)?;
        took(start);
        Ok(())
    }

    fn install_python(&self) -> Result<()> {
        remove_if_there(&self.home.python())?;
        run_shown(Command::new(&self.tools.python).args(["-m", "venv"]).arg(self.home.python()))?;
        let requirements = self.checkout.root().join("environment/requirements.txt");
        run_shown(
            Command::new(self.home.python_bin("python"))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"])
                .arg(requirements),
        )
    }

    fn fetch_crates(&self) -> Result<()> {
        let cargo_home = self.home.cargo_home();
        prune(&cargo_home.join("registry"), &read(&self.checkout.root().join("Cargo.lock"))?)?;
        fs::create_dir_all(&cargo_home).with_context(|| format!("cannot create {}", cargo_home.display()))?;
        // For all platforms: evcxr asks `cargo metadata` without naming one, and offline.
        let fetch = |home: &Path, manifest: &Path| {
            spec::copy_users_cargo_config(self.home, home)?;
            let mut command = Command::new("cargo");
            command.args(["fetch", "--locked", "--quiet", "--manifest-path"]).arg(manifest).env("CARGO_HOME", home);
            // The standard library's manifests use features of Cargo's own that are not stable.
            run_shown(command.env("RUSTC_BOOTSTRAP", "1"))
        };
        fetch(&cargo_home, &self.checkout.root().join("Cargo.toml"))?;
        if self.tools.has_rust_src() {
            fetch(&self.home.std_cargo_home(), &self.tools.std_manifest())?;
        }
        Ok(())
    }

    /// torch-sys's source, as fetched.
    fn torch_sys(&self) -> Result<PathBuf> {
        let lock = read(&self.checkout.root().join("Cargo.lock"))?;
        let name = format!("torch-sys-{}", locked_version(&lock, "torch-sys")?);
        let registries = self.home.cargo_home().join("registry/src");
        let entries = fs::read_dir(&registries).with_context(|| format!("cannot read {}", registries.display()))?;
        entries
            .flatten()
            .map(|entry| entry.path().join(&name))
            .find(|path| path.is_dir())
            .with_context(|| format!("{name} is not among the fetched crates"))
    }

    /// Built in a Cargo home of its own: its crates must not be what the kernel resolves offline from.
    fn install_evcxr(&self) -> Result<()> {
        let build = self.home.root().join("build");
        let cargo_home = build.join("cargo-home");
        spec::copy_users_cargo_config(self.home, &cargo_home)?;
        run_shown(
            Command::new("cargo")
                .args(["install", "evcxr_jupyter", "--locked", "--force", "--version", EVCXR_VERSION, "--root"])
                .arg(self.home.evcxr())
                .arg("--target-dir")
                .arg(build.join("evcxr"))
                .current_dir(self.home.root())
                .env("CARGO_HOME", &cargo_home)
                .env_remove("RUSTFLAGS")
                .env_remove("CARGO_BUILD_TARGET"),
        )?;
        remove_if_there(&build)
    }

    fn build(&self) -> Result<()> {
        spec::write_cargo_config(self.home, &self.installed)?;
        // The kernel is warmed from what is built here.
        self.home.mark_undone("kernel")?;
        let mut command = self.installed.cargo(self.home, self.checkout.root(), "build")?;
        run_shown(command.args(["--locked", "--package", "quantlab"]))
    }

    fn make_kernel(&self) -> Result<()> {
        spec::install_lab(self.home)?;
        spec::write_kernelspec(self.home)?;
        self.installed.write(self.home)?;
        warm::make(self.home, &self.installed)
    }
}

/// Errors if Cargo would take the kernels' build folders for members of a workspace around them.
fn check_place(home: &Home) -> Result<()> {
    let manifests = home.root().ancestors().skip(1).map(|dir| dir.join("Cargo.toml"));
    for manifest in manifests {
        if fs::read_to_string(&manifest).is_ok_and(|text| text.contains("[workspace")) {
            bail!(
                "{} lies inside the Cargo workspace of {}\n  try: name a folder outside of it with QUANTLAB_HOME",
                home.root().display(),
                manifest.display()
            );
        }
    }
    Ok(())
}

/// Errors if a first set-up would fill the disk.
fn check_disk(home: &Home, choice: &Choice) -> Result<()> {
    if home.stamp("build").is_some() {
        return Ok(());
    }
    let cuda_gb = if *choice == Choice::Cuda { 12.0 } else { 0.0 };
    // What a set-up that broke off has made already counts.
    let needed_gb = DISK_NEEDED_GB + cuda_gb - crate::disk_used(home) as f64 / 1e9;
    fs::create_dir_all(home.root()).with_context(|| format!("cannot create {}", home.root().display()))?;
    let text = output_of(Command::new("df").args(["-Pk"]).arg(home.root()))?;
    let free = text.lines().nth(1).and_then(|l| l.split_whitespace().nth(3)).and_then(|kb| kb.parse::<f64>().ok());
    if let Some(free_gb) = free.map(|kb| kb / 1e6).filter(|gb| *gb < needed_gb) {
        bail!(
            "{} has {free_gb:.1} GB free; set-up needs {needed_gb:.1} GB more\n  try: free some, or name another folder with QUANTLAB_HOME",
            home.root().display()
        );
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

/// Removes fetched crates that the lock no longer names: offline, Cargo takes the newest version it has.
fn prune(registry: &Path, lock: &str) -> Result<()> {
    let locked = locked_crates(lock);
    for part in ["src", "cache"] {
        for index in fs::read_dir(registry.join(part)).into_iter().flatten().flatten() {
            for krate in fs::read_dir(index.path()).into_iter().flatten().flatten() {
                let name = krate.file_name().to_string_lossy().into_owned();
                if !locked.contains(name.strip_suffix(".crate").unwrap_or(&name)) {
                    remove_if_there(&krate.path())?;
                }
            }
        }
    }
    Ok(())
}

/// `NAME-VERSION` of each package in Cargo.lock.
fn locked_crates(lock: &str) -> HashSet<String> {
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let lines: Vec<&str> = lock.lines().collect();
    lines
        .windows(2)
        .filter_map(|pair| Some(format!("{}-{}", value(pair[0], "name = ")?, value(pair[1], "version = ")?)))
        .collect()
}

/// The version of a package in Cargo.lock.
fn locked_version(lock: &str, package: &str) -> Result<String> {
    let start = format!("name = \"{package}\"\nversion = \"");
    let rest = lock.split_once(&start).map(|(_, rest)| rest);
    rest.and_then(|r| r.split_once('"'))
        .map(|(version, _)| version.to_owned())
        .with_context(|| format!("Cargo.lock names no {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_names_a_packages_version() {
        let lock = "[[package]]\nname = \"torch-sys\"\nversion = \"0.26.0\"\n";
        assert_eq!(locked_version(lock, "torch-sys").unwrap(), "0.26.0");
        assert!(locked_version(lock, "tch").unwrap_err().to_string().contains("tch"));
    }

    #[test]
    fn only_crates_that_the_lock_names_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (src, cache) = (dir.path().join("src/index-1"), dir.path().join("cache/index-1"));
        for version in ["1.0.0", "1.2.0"] {
            fs::create_dir_all(src.join(format!("half-{version}"))).unwrap();
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join(format!("half-{version}.crate")), "").unwrap();
        }
        prune(dir.path(), "[[package]]\nname = \"half\"\nversion = \"1.0.0\"\n").unwrap();
        assert!(src.join("half-1.0.0").exists() && cache.join("half-1.0.0.crate").exists());
        assert!(!src.join("half-1.2.0").exists() && !cache.join("half-1.2.0.crate").exists());
    }
}
