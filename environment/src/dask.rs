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

/// Exit status of what a worker starts where nothing can be done, whatever it is (`UNABLE` in quantlab_tasks.py).
pub const UNABLE: u8 = 3;

/// The folder with what is for Dask.
pub fn source() -> Result<PathBuf> {
    Ok(Checkout::find()?.root().join("environment/dask"))
}

/// The Python that has Dask, made if it is not there.
pub fn python(home: &Home) -> Result<PathBuf> {
    tools(home, "dask", &source()?).context("Dask is not there, and cannot be fetched")
}

/// One of the scripts that have workers of a scheduler do what standard input says.
pub fn client(home: &Home, script: &str, scheduler: &str) -> Result<Command> {
    let (mut client, source) = (Command::new(python(home)?), source()?);
    client.arg("-P").arg(source.join(script)).arg(scheduler).env("PYTHONPATH", source);
    Ok(client)
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
