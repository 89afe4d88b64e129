//! A sandbox for the kernel of a notebook that a stranger wrote: evcxr, the compiler, and whatever cells start.
//!
//! `cargo lab grade` names it in an environment variable, which `lab kernel` reads. There are two layers that can make
//! one. Both hold the same limits where they can; `docs/grading.md` has the table of what each does not.
//!
//! ```text
//! driver (Python, gradebook)      outside; speaks Jupyter's protocol over Unix-domain sockets
//! `lab kernel`      [outer]       outside; listens on these sockets, starts the layer, waits
//! `lab sandboxed`   [inside]      inside; its own build folder, limits, a relay from the sockets to the kernel
//! evcxr_jupyter, rustc, cells     inside, behind a filter of system calls
//! ```
//!
//! Nothing inside can reach the driver except by answering it. The listening sockets are made outside and handed in, so
//! that no folder is written to by both sides.

mod bwrap;
pub mod cgroup;
mod inside;
mod landlock;
mod outer;
mod relay;
mod seccomp;
mod visible;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

pub use inside::run as run_inside;
pub use outer::launch;

/// Holds a [`Request`], as JSON, for the kernels that a driver starts.
pub const VARIABLE: &str = "QUANTLAB_SANDBOX";

/// What contains a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Namespaces, made by bubblewrap.
    Bubblewrap,
    /// Landlock, with capabilities dropped.
    Landlock,
}

/// The best one first.
pub const LAYERS: [Layer; 2] = [Layer::Bubblewrap, Layer::Landlock];

/// Overrides the choice of a layer; for tests of the second one.
pub const CHOSEN: &str = "QUANTLAB_SANDBOX_LAYER";

impl Layer {
    /// The best layer that runs here.
    ///
    /// # Errors
    /// No layer runs here; the message says what to install.
    pub fn best() -> Result<Self> {
        let chosen = std::env::var(CHOSEN).ok();
        let mut reasons = Vec::new();
        for layer in LAYERS {
            if chosen.as_ref().is_some_and(|name| *name != layer.name()) {
                continue;
            }
            match layer.probe() {
                Ok(()) => return Ok(layer),
                Err(error) => reasons.push(format!("{}: {error:#}", layer.name())),
            }
        }
        bail!(
            "no sandbox runs here, and learners' code would have your rights, files and network\n  {}\n  try: install \
             bubblewrap (the package's name on Debian, Ubuntu, Fedora and Arch), or grade in a container that holds \
             nothing else; --unsandboxed grades without one",
            reasons.join("\n  ")
        );
    }

    /// The name that people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
        }
    }

    /// Whether it runs here, and if not, why.
    pub fn probe(self) -> Result<()> {
        match self {
            Self::Bubblewrap => bwrap::probe(),
            Self::Landlock => landlock::probe(),
        }
    }
}

/// What a driver asks of the kernels that it starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// What contains the kernel.
    pub layer: Layer,
    /// The library, which cells use.
    pub support_crate: PathBuf,
    /// The lesson's folder as learners got it; its files but for notebooks are copied to where the kernel runs.
    pub files: Option<PathBuf>,
    /// Whether the models that were set up may be read.
    #[serde(default)]
    pub shows_models: bool,
    /// Limit on memory.
    pub memory_mib: u32,
    /// Limit on what is written.
    pub disk_mib: u32,
    /// Folders of the control groups that hold the limits, if there are any.
    pub cgroups: Vec<PathBuf>,
    /// Whether what Cargo said of cells may be kept for later kernels; never with a learner's code.
    #[serde(default)]
    pub keeps_answers: bool,
}

impl Request {
    /// What the environment asks for.
    ///
    /// # Errors
    /// It is not readable: a kernel that should be in a sandbox must not start without one.
    pub fn of_environment() -> Result<Option<Self>> {
        let Some(text) = crate::home::non_empty_var(VARIABLE) else { return Ok(None) };
        serde_json::from_str(&text.to_string_lossy()).map(Some).with_context(|| format!("{VARIABLE} is not readable"))
    }

    /// For a driver's environment.
    pub fn to_variable(&self) -> Result<String> {
        serde_json::to_string(self).context("a path is not UTF-8")
    }
}

/// What `lab kernel` tells `lab sandboxed`, through its standard input.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    request: Request,
    /// The kernel's own folder: build, home, temporary files, work.
    dir: PathBuf,
    /// Jupyter's connection file, with the ports at which the kernel listens inside.
    connection: serde_json::Value,
    /// Listening sockets by the number of their descriptor, and which of these ports each stands for.
    sockets: Vec<(i32, u16)>,
    /// What may be read.
    visible: Vec<PathBuf>,
    /// The most processes and threads that this user may have.
    processes: u64,
}

/// Processes and threads of one notebook.
pub const PROCESSES: u64 = 512;

/// The folder in which a learner's cells run.
fn work(dir: &Path) -> PathBuf {
    dir.join("work")
}
