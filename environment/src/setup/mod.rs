//! `cargo lab setup`: everything that a notebook needs, step by step; a second call does what is missing.

mod crates;
pub mod libtorch;
pub mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::checkout::Checkout;
use crate::home::{Home, remove_if_there};
use crate::kernel::installed::{Installed, rustflags};
use crate::kernel::{spec, warm};
use crate::progress::run_build;
use crate::ui::{Steps, output_of, run_shown, took};
use crates::{locked_version, prune};
use libtorch::Choice;
use toolchain::Toolchain;

/// The version of the kernel that everything here is written for.
pub const EVCXR_VERSION: &str = "0.22.0";
/// What set-up takes at its widest, while evcxr is being built.
const DISK_NEEDED_GB: f64 = 8.0;

/// What set-up is asked for.
#[derive(Debug, Default, Args)]
pub struct Request {
    /// Install libtorch with its CUDA libraries (about 4 GB), even without a GPU
    #[arg(long)]
    cuda: bool,
    /// Show what Cargo prints while it builds
    #[arg(long)]
    verbose: bool,
}

/// Sets up what is missing.
pub fn setup(checkout: &Checkout, request: &Request) -> Result<Installed> {
    let home = Home::find()?;
    check_place(&home)?;
    let _lock = home.lock("setup.lock", || {
        eprintln!(
            "waiting for another `cargo lab` that sets up, or looks whether it must, in {}",
            home.root().display()
        );
    })?;
    let plan = Plan::make(&home, checkout, request)?;
    if plan.is_finished() {
        return if home.is_ours() { plan.finish() } else { Installed::read(&home) };
    }
    if !home.is_ours() && home.root().exists() {
        bail!(
            "{} is not set up for this checkout, and read-only for you\n  try: ask its owner, or set QUANTLAB_HOME to a folder of your own",
            home.root().display()
        );
    }
    eprintln!(
        "Setting up in {} (the first time takes 15 to 45 minutes and 4 GB, later ones seconds)",
        home.root().display()
    );
    plan.carry_out()
}

/// Whether a set-up for this checkout has nothing left to do.
pub fn is_finished(checkout: &Checkout) -> bool {
    let finished = || anyhow::Ok(Plan::make(&Home::find()?, checkout, &Request::default())?.is_finished());
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
    verbose: bool,
}

/// A part of a set-up.
struct Step {
    name: &'static str,
    title: &'static str,
    /// What it is for, or costs.
    why: &'static str,
    /// The step is done when its stamp holds exactly this.
    key: String,
    /// A file or folder that it makes.
    product: PathBuf,
    make: fn(&Plan) -> Result<()>,
}

/// What the steps' results depend on.
struct Keys {
    python: String,
    libtorch: String,
    crates: String,
    shim: String,
    evcxr: String,
    build: String,
}

impl<'a> Plan<'a> {
    fn make(home: &'a Home, checkout: &'a Checkout, request: &Request) -> Result<Self> {
        let tools = Toolchain::find()?;
        tools.ensure_rust_src();
        let choice = Choice::make(home, request.cuda)?;
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
        Ok(Self { home, checkout, tools, choice, installed, keys, verbose: request.verbose })
    }

    /// All steps, in order.
    fn steps(&self) -> [Step; 7] {
        let (home, keys) = (self.home, &self.keys);
        let step =
            |name, title, why, key: &str, product, make| Step { name, title, why, key: key.to_owned(), product, make };
        [
            step(
                "python",
                "Python environment",
                "JupyterLab, nbclient and nbgrader, as pinned in environment/requirements.txt",
                &keys.python,
                home.python_bin("python"),
                |plan| plan.install_python(),
            ),
            step(
                "libtorch",
                "libtorch 2.13.0",
                "the C++ library under tch, from the registry's torch wheel (430 to 530 MB to download, 500 MB kept)",
                &keys.libtorch,
                self.installed.libtorch.join("lib/libtorch_cpu.so"),
                |plan| libtorch::install(&plan.choice, plan.home),
            ),
            step(
                "crates",
                "Rust crates",
                "the versions that Cargo.lock pins, kept for offline use",
                &keys.crates,
                home.cargo_home().join("registry/src"),
                |plan| plan.fetch_crates(),
            ),
            step(
                "shim",
                "torch's C++ shim",
                "compiled once, as a shared library, so that no later build has to (a minute)",
                &keys.shim,
                home.shim().join("libtch.so"),
                |plan| libtorch::build_shim(&plan.choice, plan.home, &plan.tools, &plan.torch_sys()?),
            ),
            step(
                "evcxr",
                "evcxr_jupyter",
                "the Rust kernel for Jupyter (3 to 8 minutes)",
                &keys.evcxr,
                home.evcxr().join("bin/evcxr_jupyter"),
                |plan| plan.install_evcxr(),
            ),
            step(
                "build",
                "the support crate and its dependencies",
                "built once, for tests and kernel alike (8 to 20 minutes)",
                &keys.build,
                home.target().join(&self.tools.host),
                |plan| plan.build(),
            ),
            step(
                "kernel",
                "warm kernel",
                "a first cell through evcxr; each kernel starts from a clone of this one",
                &format!("{}\n{}", keys.build, keys.evcxr),
                home.warm().join("target").join(&self.tools.host),
                |plan| plan.make_kernel(),
            ),
        ]
    }

    /// Whether a step is done, and what it made is still there: people and programs empty cache folders.
    fn is_there(&self, step: &Step) -> bool {
        self.home.is_done(step.name, &step.key) && step.product.exists()
    }

    fn is_finished(&self) -> bool {
        self.steps().iter().all(|step| self.is_there(step)) && Installed::read(self.home).is_ok()
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
        check_disk(self.home, &self.choice)?;
        let steps = self.steps();
        let mut shown = Steps::new(steps.len());
        for step in &steps {
            if self.is_there(step) {
                shown.present(step.title);
                continue;
            }
            let start = shown.begin(step.title, step.why);
            self.home.mark_undone(step.name)?;
            (step.make)(&self).with_context(|| {
                format!("set-up stopped at: {} (finished steps are kept; the next call resumes here)", step.title)
            })?;
            self.home.mark_done(step.name, &step.key)?;
            took(start);
        }
        self.finish()
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
        run_build(
            Command::new("cargo")
                .args(["install", "evcxr_jupyter", "--locked", "--force", "--version", EVCXR_VERSION, "--root"])
                .arg(self.home.evcxr())
                .arg("--target-dir")
                .arg(build.join("evcxr"))
                .current_dir(self.home.root())
                .env("CARGO_HOME", &cargo_home)
                .env_remove("RUSTFLAGS")
                .env_remove("CARGO_BUILD_TARGET"),
            &self.home.logs().join("evcxr.log"),
            self.verbose,
        )?;
        remove_if_there(&build)
    }

    fn build(&self) -> Result<()> {
        spec::write_cargo_config(self.home, &self.installed)?;
        // The kernel is warmed from what is built here.
        self.home.mark_undone("kernel")?;
        let mut command = self.installed.cargo(self.home, self.checkout.root(), "build")?;
        let log = self.home.logs().join("build.log");
        run_build(command.args(["--locked", "--package", "quantlab"]), &log, self.verbose)
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
