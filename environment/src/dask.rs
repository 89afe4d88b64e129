//! `cargo lab dask`: schedulers and workers, for what is graded on several machines.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::home::Home;
use crate::jupyter::installed::Installed;
use crate::python::tools;

/// The folder with what is for Dask.
pub fn source() -> Result<PathBuf> {
    Ok(Checkout::find()?.root().join("environment/dask"))
}

/// The Python that has Dask, made if it is not there.
pub fn python(home: &Home) -> Result<PathBuf> {
    // Beside somebody else's set-up, in this user's own cache.
    let place = if home.is_ours() { home.clone() } else { Home::at(&home.own_kernels()) };
    let _alone = place.lock("dask.lock", || ())?;
    tools(&place, "dask", &source()?).context("Dask is not there, and cannot be fetched")
}

/// Becomes `dask ARGS`; workers find this set-up, and what they are to do, by their environment.
pub fn dask(args: &[OsString]) -> Result<()> {
    let home = Home::find()?;
    // Whoever computes needs a set-up, and is told now.
    Installed::read(&home)?;
    let mut dask = Command::new(python(&home)?.with_file_name("dask"));
    // Its own limit is for a worker's memory, in which no notebook runs.
    dask.args(args)
        .env("QUANTLAB_HOME", home.root())
        .env("PYTHONPATH", source()?)
        .env("DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE", "False");
    Err(dask.exec()).context("cannot start dask")
}
