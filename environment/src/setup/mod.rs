//! `cargo lab setup`: everything that a notebook needs, step by step; a second call does what is missing.

mod crates;
mod evcxr;
pub mod libtorch;
pub mod models;
mod plan;
mod registry;
pub mod room;
mod shared;
pub mod toolchain;

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;

use crate::checkout::Checkout;
use crate::home::Home;
use crate::jupyter::installed::Installed;
use crate::jupyter::warm;
pub use evcxr::EVCXR_VERSION;
use plan::Plan;
pub use plan::digest;
use toolchain::Toolchain;

/// What set-up is asked for.
#[derive(Debug, Clone, Default, Args)]
pub struct Request {
    /// Install libtorch with its CUDA libraries (about 4 GB; set-up wants 20 GB free), even without a GPU
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
    /// Take what was compiled elsewhere: an archive of `cargo lab pack`, or the address of a folder of them
    /// [default: QUANTLAB_PREBUILT]
    #[arg(long, value_name = "URL|FILE")]
    from: Option<String>,
}

impl Request {
    /// With what was compiled elsewhere.
    pub fn taking(from: Option<String>) -> Self {
        Self { from, ..Self::default() }
    }
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
    ensure!(
        Installed::path(home).exists(),
        "nothing is set up in {}, and it is read-only for you\n  try: ask its owner for `cargo lab setup`, or set QUANTLAB_HOME to a folder of your own",
        home.root().display()
    );
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
