//! `cargo lab setup`: everything that a notebook needs, step by step; a second call does what is missing.

mod crates;
mod evcxr;
pub mod libtorch;
pub mod models;
mod registry;
pub mod room;
mod shared;
pub mod toolchain;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::checkout::Checkout;
use crate::home::Home;
use crate::jupyter::installed::{Installed, rustflags};
use crate::jupyter::{links, spec, warm};
use crate::progress::{View, run_build};
use crate::python;
use crate::ui::{Steps, human_time, run_shown};
use crates::{locked_version, prune};
pub use evcxr::EVCXR_VERSION;
use libtorch::Choice;
use registry::Access;
use toolchain::Toolchain;

/// What a step reports if it was ended because one beside it had failed.
const ENDED: &str = "stopped, because another step failed";

/// What set-up is asked for.
#[derive(Debug, Default, Args)]
pub struct Request {
    /// Install libtorch with its CUDA libraries (about 4 GB), even without a GPU
    #[arg(long)]
    cuda: bool,
    /// Show what Cargo prints while it builds
    #[arg(long)]
    verbose: bool,
    /// Also fetch a model from the package registry, for work without a model hub
    #[arg(long, value_name = "ID")]
    pub model: Option<models::Model>,
    /// Set up in this folder, for all users of the machine, or bring it up to date; they can only read it
    #[arg(long, value_name = "DIR")]
    shared: Option<PathBuf>,
}

/// `cargo lab setup`; says what to do next.
pub fn run(request: &Request) -> Result<()> {
    let checkout = Checkout::find()?;
    match &request.shared {
        None => {
            setup(&checkout, request)?;
            request.model.map_or(Ok(()), |model| models::fetch(&Home::find()?, model))?;
            println!("Set up in {}. Next: cargo lab start", Home::find()?.root().display());
        }
        Some(dir) => {
            let home = shared::setup(&checkout, dir, request)?;
            println!("Set up in {}. Its users start with {}/bin/lab start", home.root().display(), dir.display());
        }
    }
    Ok(())
}

/// Sets up what is missing.
pub fn setup(checkout: &Checkout, request: &Request) -> Result<Installed> {
    let home = Home::find()?;
    if !home.is_ours() {
        return usable(&home, checkout);
    }
    room::check_place(&home)?;
    let _lock = home.lock("setup.lock", || {
        eprintln!(
            "waiting for another `cargo lab` that is setting up, or checking whether it must, in {}",
            home.root().display()
        );
    })?;
    Plan::make(&home, checkout, request, Toolchain::find()?)?.carry_out()
}

/// Somebody else's set-up, if kernels can start from it in this checkout.
fn usable(home: &Home, checkout: &Checkout) -> Result<Installed> {
    if !Installed::path(home).exists() {
        bail!(
            "nothing is set up in {}, and it is read-only for you\n  try: ask its owner for `cargo lab setup`, or set QUANTLAB_HOME to a folder of your own",
            home.root().display()
        );
    }
    let installed = Installed::read(home)?;
    warm::refresh(home, &installed, &installed.library_for(home, checkout))?;
    Ok(installed)
}

/// Errors unless a set-up for this checkout has nothing left to do.
pub fn check_finished(checkout: &Checkout) -> Result<()> {
    let home = Home::find()?;
    if !home.is_ours() {
        return usable(&home, checkout).map(drop);
    }
    if !Plan::make(&home, checkout, &Request::default(), Toolchain::find()?)?.is_finished() {
        bail!("not set up in {}, or not for this checkout's versions\n  try: cargo lab setup", home.root().display());
    }
    Ok(())
}

/// What each step of a set-up for this checkout is made from, by the step's title.
pub fn keys(checkout: &Checkout) -> Result<BTreeMap<String, String>> {
    let home = Home::find()?;
    let plan = Plan::make(&home, checkout, &Request::default(), Toolchain::find()?)?;
    Ok(plan.steps().into_iter().map(|step| (step.title.to_owned(), step.key)).collect())
}

/// What is to be there, and from what it is made.
struct Plan<'a> {
    home: &'a Home,
    checkout: &'a Checkout,
    tools: Toolchain,
    choice: Choice,
    installed: Installed,
    /// What the Python environment is made from.
    requirements: Vec<PathBuf>,
    keys: Keys,
    verbose: bool,
    /// Whether a step has failed: what runs beside it need not go on.
    failed: AtomicBool,
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
    fn make(home: &'a Home, checkout: &'a Checkout, request: &Request, tools: Toolchain) -> Result<Self> {
        tools.ensure_rust_src();
        let choice = Choice::make(home, request.cuda)?;
        // A server for many users is for a set-up for many.
        let hub = request.shared.as_ref().map(|_| "environment/hub/requirements.txt");
        let requirements: Vec<PathBuf> =
            ["environment/requirements.txt"].into_iter().chain(hub).map(|file| checkout.root().join(file)).collect();
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
        let mirrors = registry::users_config(home).unwrap_or_default();
        let crates = format!("{} {} {} {}", digest(&lock), digest(&mirrors), tools.rustc, tools.has_rust_src());
        let keys = Keys {
            python: digest(&requirements.iter().map(|file| read(file)).collect::<Result<String>>()?),
            build: digest(&format!("{crates} {shim} {} {}", rustflags(), spec::cargo_config(home, &installed))),
            crates,
            libtorch,
            shim,
            evcxr,
        };
        Ok(Self {
            home,
            checkout,
            tools,
            choice,
            installed,
            requirements,
            keys,
            verbose: request.verbose,
            failed: AtomicBool::new(false),
        })
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
                "compiled once, so that no later build has to (a minute)",
                &keys.shim,
                home.shim().join("libtch.so"),
                |plan| libtorch::build_shim(&plan.choice, plan.home, &plan.tools, &plan.torch_sys()?),
            ),
            step(
                "evcxr",
                "evcxr_jupyter",
                "the Rust kernel for Jupyter (a quarter of the time, alongside the next steps)",
                &keys.evcxr,
                home.evcxr().join("bin/evcxr_jupyter"),
                |plan| evcxr::install(plan.home, plan.verbose, &plan.failed),
            ),
            step(
                "build",
                "the support crate and its dependencies",
                "built once, for tests and kernel alike (more than half of the time)",
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

    /// Changes with anything that a step is made from.
    fn id(&self) -> String {
        let keys: Vec<String> = self.steps().into_iter().map(|step| step.key).collect();
        digest(&keys.join("\n"))[..12].to_owned()
    }

    fn is_finished(&self) -> bool {
        self.steps().iter().all(|step| self.is_there(step)) && Installed::read(self.home).is_ok()
    }

    /// What must be right however fresh everything is: this program's copies, and the record.
    fn finish(self) -> Result<Installed> {
        spec::install_lab(self.home)?;
        python::install(self.home)?;
        spec::write_kernelspec(self.home)?;
        spec::write_jupyter_settings(self.home)?;
        spec::write_cargo_config(self.home, &self.installed)?;
        self.home.make_locks()?;
        self.installed.write(self.home)?;
        warm::refresh(self.home, &self.installed, &self.checkout.support_crate())?;
        Ok(self.installed)
    }

    /// Does what is missing.
    fn carry_out(self) -> Result<Installed> {
        if self.is_finished() {
            return self.finish();
        }
        eprintln!("Setting up in {} (once: 15 to 35 minutes on two processors, and 5 GB)", self.home.root().display());
        room::check_disk(self.home, &self.choice)?;
        let start = Instant::now();
        let steps = self.steps();
        let shown = Steps::new(steps.len());
        let run = |step: &Step| self.run(step, &shown);
        let [python, libtorch, crates, shim, evcxr, build, kernel] = &steps;
        run(python)?;
        let two_builds = room::for_two_builds();
        let (here, beside) = thread::scope(|scope| {
            let beside = scope.spawn(|| run(evcxr));
            let mut here = [libtorch, crates, shim].into_iter().try_for_each(run);
            if here.is_ok() && two_builds {
                here = run(build);
            }
            (here, join(beside))
        });
        match here {
            // If both failed, this error is only a consequence of the other.
            Err(error) if error.to_string() == ENDED => beside?,
            done => done.and(beside)?,
        }
        if !two_builds {
            run(build)?;
        }
        run(kernel)?;
        eprintln!("Done in {}.", human_time(start.elapsed()));
        self.finish()
    }

    /// Does a step, unless it is done.
    fn run(&self, step: &Step, shown: &Steps) -> Result<()> {
        if self.is_there(step) {
            shown.present(step.title);
            return Ok(());
        }
        shown.begin(step.title, step.why);
        let make = || {
            self.home.mark_undone(step.name)?;
            (step.make)(self)?;
            self.home.mark_done(step.name, &step.key)
        };
        make().map_err(|error| match self.failed.swap(true, Ordering::Relaxed) {
            true => anyhow!(ENDED),
            false => error.context(format!(
                "set-up stopped at: {} (finished steps are kept; the next run resumes here)",
                step.title
            )),
        })
    }

    fn install_python(&self) -> Result<()> {
        python::make_environment(&self.tools.python, &self.home.python(), &self.requirements)
    }

    fn fetch_crates(&self) -> Result<()> {
        let cargo_home = self.home.cargo_home();
        prune(&cargo_home.join("registry"), &read(&self.checkout.root().join("Cargo.lock"))?)?;
        fs::create_dir_all(&cargo_home).with_context(|| format!("cannot create {}", cargo_home.display()))?;
        // For all platforms: evcxr asks `cargo metadata` without naming one, and offline.
        let fetch = |home: &Path, manifest: &Path| {
            let access = Access::lend(self.home, home)?;
            let mut command = Command::new("cargo");
            command.args(["fetch", "--locked", "--quiet", "--manifest-path"]).arg(manifest).env("CARGO_HOME", home);
            // The standard library's manifests use features of Cargo's own that are not stable.
            run_shown(command.env("RUSTC_BOOTSTRAP", "1"))?;
            access.end()
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

    /// The library as cells link it, and all that it depends on.
    fn build(&self) -> Result<()> {
        spec::write_cargo_config(self.home, &self.installed)?;
        // The kernel is warmed from what is built here.
        self.home.mark_undone("kernel")?;
        links::let_cargo_replace(&self.home.target());
        let package = warm::first_package(self.home, &self.installed)?;
        let mut command = self.installed.cargo(self.home, &package, "build")?;
        let log = self.home.logs().join("build.log");
        let view = if self.verbose { View::Everything } else { View::Bar };
        run_build(command.arg("--offline"), &log, view, &self.failed)
    }

    fn make_kernel(&self) -> Result<()> {
        spec::install_lab(self.home)?;
        spec::write_kernelspec(self.home)?;
        self.installed.write(self.home)?;
        warm::make(self.home, &self.installed)
    }
}

/// The result of a step that ran beside others.
fn join(step: ScopedJoinHandle<Result<()>>) -> Result<()> {
    step.join().unwrap_or_else(|_| bail!("a step of set-up panicked"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A short name for a text: equal for equal ones.
pub fn digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}
