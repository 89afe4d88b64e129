//! `cargo lab start`: JupyterLab on loopback.

use std::fs;
use std::io::IsTerminal;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::checkout::Checkout;
use crate::home::{Home, path_behind, remove_if_there, write_atomically};
use crate::jupyter::processes::is_root;
use crate::setup;
use crate::setup::models::{self, Model};
use crate::ui::{is_confirmed, run_shown};

/// Becomes JupyterLab, opened at `notebooks/` or at one notebook. Returns only on failure.
pub fn start(notebook: Option<&Path>, no_browser: bool, from: Option<String>) -> Result<()> {
    let checkout = Checkout::find()?;
    let home = Home::find()?;
    let root = root(&checkout, &home)?;
    let opened = notebook.map(|path| inside(path, &root)).transpose()?;
    setup::setup(&checkout, &setup::Request::taking(from))?;
    offer_model(&home)?;
    let mut jupyter = Command::new(home.python_bin("jupyter"));
    // Not the kernel's environment: `lab kernel` sets that itself, and JupyterLab's terminals are the user's.
    jupyter
        .env("QUANTLAB_HOME", home.root())
        .env("PATH", path_behind([home.python().join("bin")]))
        .env_remove("JUPYTER_PATH")
        .current_dir(&root)
        .args(["lab", "--ip=127.0.0.1"])
        .arg(format!("--port={}", free_port()))
        .arg(format!("--ServerApp.root_dir={}", root.display()))
        // A kernel that builds an edited support crate first takes longer than Jupyter's minute.
        .arg("--MultiKernelManager.kernel_info_timeout=600")
        .arg("--MappingKernelManager.kernel_info_timeout=600")
        .arg("--LabApp.extension_manager=readonly")
        // The address stays: it is what one looks for among the lines.
        .arg("--log-level=WARN");
    if let Some(path) = opened {
        jupyter.arg(format!("--LabApp.default_url=/lab/tree/{path}"));
    }
    if no_browser || std::env::var_os("CI").is_some() {
        jupyter.arg("--no-browser");
    }
    if is_root() {
        jupyter.arg("--allow-root");
    }
    eprintln!("Starting JupyterLab; choose the kernel \"Rust (quantlab)\". Press Ctrl-C twice to stop it.");
    Err(jupyter.exec())
        .with_context(|| format!("cannot start {}\n  try: cargo lab setup", home.python_bin("jupyter").display()))
}

/// The folder of the lessons that JupyterLab shows: the checkout's, or the learner's copy of a shared set-up's.
pub fn root(checkout: &Checkout, home: &Home) -> Result<PathBuf> {
    if checkout.root().starts_with(home.root()) { own_lessons(checkout) } else { Ok(checkout.notebooks()) }
}

/// Asks once whether to fetch a real model.
fn offer_model(home: &Home) -> Result<()> {
    let asked = home.models().join("asked");
    let there = Model::Smollm2.path(home).is_file() || asked.exists();
    if there || !home.is_ours() || !std::io::stdin().is_terminal() || std::env::var_os("CI").is_some() {
        return Ok(());
    }
    if is_confirmed("Fetch SmolLM2-135M too, a real model for work without a hub (93 MB)?")? {
        match models::fetch(home, Model::Smollm2) {
            Ok(_) => return write_atomically(&asked, b""),
            // JupyterLab does without.
            Err(error) => eprintln!("warning: {error:#}"),
        }
    }
    println!("Later: cargo lab setup --model smollm2");
    write_atomically(&asked, b"")
}

/// A shared set-up's lessons, copied once to where their learner can write.
fn own_lessons(checkout: &Checkout) -> Result<PathBuf> {
    let own = std::env::home_dir().context("HOME is not set")?.join("quantlab");
    if !own.exists() {
        // Beside their place first: half of them are not taken for all.
        let side = own.with_file_name(format!("quantlab.{}.half", std::process::id()));
        let copied =
            run_shown(Command::new("cp").args(["-R", "--no-preserve=all"]).args([&checkout.notebooks(), &side]));
        let put = copied.and_then(|()| Ok(fs::rename(&side, &own)?));
        if put.is_err() {
            remove_if_there(&side)?;
        }
        // Another start may have been faster.
        if !own.is_dir() {
            put.with_context(|| format!("cannot put the lessons in {}", own.display()))?;
        }
        eprintln!("The lessons are in {}.", own.display());
    }
    Ok(own)
}

/// A notebook's path below `notebooks/`, for the address.
fn inside(path: &Path, root: &Path) -> Result<String> {
    ensure!(path.is_file(), "there is no notebook {}", path.display());
    let full = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    let root = root.canonicalize().with_context(|| format!("cannot read {}", root.display()))?;
    let inner = full.strip_prefix(&root).with_context(|| {
        format!("{} is not inside {}\n  try: copy it there, or `cargo lab run` it", path.display(), root.display())
    })?;
    Ok(inner.to_string_lossy().into_owned())
}

/// Jupyter's own search for a free port gives up after 50; a port that the system picks is free.
fn free_port() -> u16 {
    let bind = |port| TcpListener::bind(("127.0.0.1", port)).and_then(|l| l.local_addr()).map(|a| a.port());
    bind(8888).or_else(|_| bind(0)).unwrap_or(8888)
}
