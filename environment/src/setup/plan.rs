//! The steps of a set-up: what each is made from, and in which order they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use super::crates::{locked_version, prune};
use super::evcxr::{self, EVCXR_VERSION};
use super::libtorch::{self, Choice};
use super::registry::{self, Access};
use super::toolchain::Toolchain;
use super::{Request, room};
use crate::checkout::Checkout;
use crate::home::{Home, non_empty_var, remove_if_there};
use crate::jupyter::installed::{Installed, rustflags};
use crate::jupyter::{links, spec, warm};
use crate::prebuilt::Prebuilt;
use crate::progress::{View, run_build};
use crate::python;
use crate::ui::{Steps, human_time, run_shown};

/// What a step reports if it was ended because one beside it had failed.
const ENDED: &str = "stopped, because another step failed";

/// What is to be there, and from what it is made.
pub struct Plan<'a> {
    home: &'a Home,
    checkout: &'a Checkout,
    tools: Toolchain,
    choice: Choice,
    installed: Installed,
    /// What the Python environment is made from.
    requirements: Vec<PathBuf>,
    keys: Keys,
    verbose: bool,
    /// Where to get what was compiled elsewhere, and what came of it.
    from: Option<String>,
    prebuilt: OnceLock<Prebuilt>,
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
    pub fn make(home: &'a Home, checkout: &'a Checkout, request: &Request, tools: Toolchain) -> Result<Self> {
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
            // Its packages lie in a folder of that version's.
            python: digest(&format!(
                "{}{}",
                requirements.iter().map(|file| read(file)).collect::<Result<String>>()?,
                tools.python_version
            )),
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
            from: request.from.clone().or_else(|| non_empty_var("QUANTLAB_PREBUILT")?.into_string().ok()),
            prebuilt: OnceLock::new(),
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
                |plan| python::make_environment(&plan.tools.python, &plan.home.python(), &plan.requirements),
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
                |plan| plan.make_shim(),
            ),
            step(
                "evcxr",
                "evcxr_jupyter",
                "the Rust kernel for Jupyter (a quarter of the time, alongside the next steps)",
                &keys.evcxr,
                home.evcxr().join("bin/evcxr_jupyter"),
                |plan| plan.make_evcxr(),
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
    pub fn id(&self) -> String {
        let keys: Vec<String> = self.steps().into_iter().map(|step| step.key).collect();
        digest(&keys.join("\n"))[..12].to_owned()
    }

    pub fn is_finished(&self) -> bool {
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
        // Before the record says so: others' kernels start from it.
        warm::refresh(self.home, &self.installed, &self.checkout.support_crate())?;
        self.installed.write(self.home)?;
        Ok(self.installed)
    }

    /// Does what is missing.
    pub fn carry_out(self) -> Result<Installed> {
        if self.is_finished() {
            return self.finish();
        }
        let costs = match &self.from {
            Some(from) => format!("some minutes, if what {from} has fits this machine"),
            None => "once: 11 to 33 minutes on two processors, and 5 GB".to_owned(),
        };
        eprintln!("Setting up in {} ({costs})", self.home.root().display());
        room::check_disk(self.home, &self.choice)?;
        let start = Instant::now();
        let steps = self.steps();
        let shown = Steps::new(steps.len());
        let run = |step: &Step| self.run(step, &shown);
        let [python, libtorch, crates, shim, evcxr, build, kernel] = &steps;
        let prebuilt = Prebuilt::open(self.home, self.checkout, &self.tools, self.from.as_deref())?;
        if let Some(prebuilt) = prebuilt {
            let _ = self.prebuilt.set(prebuilt);
            self.side_by_side(|| [python, libtorch].into_iter().try_for_each(run), || run(crates))?;
            [shim, evcxr, build].into_iter().try_for_each(run)?;
        } else {
            run(python)?;
            let first = || [libtorch, crates, shim].into_iter().try_for_each(run);
            if room::for_two_builds() {
                self.side_by_side(|| first().and_then(|()| run(build)), || run(evcxr))?;
            } else {
                self.side_by_side(first, || run(evcxr))?;
                run(build)?;
            }
        }
        run(kernel)?;
        remove_if_there(&self.home.prebuilt())?;
        eprintln!("Done in {}.", human_time(start.elapsed()));
        self.finish()
    }

    /// Does two things at a time.
    fn side_by_side(
        &self,
        here: impl FnOnce() -> Result<()>,
        beside: impl FnOnce() -> Result<()> + Send,
    ) -> Result<()> {
        let (here, beside) = thread::scope(|scope| {
            let beside = scope.spawn(beside);
            (here(), beside.join().unwrap_or_else(|_| bail!("a step of set-up panicked")))
        });
        match here {
            // If both failed, this error is only a consequence of the other.
            Err(error) if error.to_string() == ENDED => beside,
            done => done.and(beside),
        }
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

    /// Whether a step's result came from elsewhere.
    fn is_taken(&self, step: &str, key: &str) -> Result<bool> {
        self.prebuilt.get().map_or(Ok(false), |prebuilt| prebuilt.take(step, key))
    }

    fn make_shim(&self) -> Result<()> {
        if self.is_taken("shim", &self.keys.shim)? {
            return Ok(());
        }
        libtorch::build_shim(&self.choice, self.home, &self.tools, &self.torch_sys()?)
    }

    fn make_evcxr(&self) -> Result<()> {
        if self.is_taken("evcxr", &self.keys.evcxr)? {
            return Ok(());
        }
        evcxr::install(self.home, self.verbose, &self.failed)
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
        if let Some(prebuilt) = self.prebuilt.get() {
            prebuilt.apply(self.checkout, &self.tools, &mut command)?;
        }
        let log = self.home.logs().join("build.log");
        let view = if self.verbose { View::Everything } else { View::Bar };
        let built = run_build(command.arg("--offline"), &log, view, &self.failed);
        self.prebuilt.get().map_or(Ok(()), Prebuilt::end_build)?;
        built
    }

    fn make_kernel(&self) -> Result<()> {
        spec::install_lab(self.home)?;
        spec::write_kernelspec(self.home)?;
        self.installed.write(self.home)?;
        warm::make(self.home, &self.installed)
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A short name for a text: equal for equal ones.
pub fn digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}
