//! `lab kernel CONNECTION_FILE`: what `kernel.json` starts.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use super::installed::Installed;
use super::interrupt::{self, Flag};
use super::processes::inherit;
use super::signals::{Signals, leave_interrupts_to_parent};
use super::{evcxr, live, spec, warm};
use crate::checkout::Checkout;
use crate::home::Home;
use crate::sandbox;

/// Runs evcxr_jupyter, in a build folder of its own, until it ends.
pub fn launch(connection_file: &Path) -> Result<ExitCode> {
    // First of all: once it has ended, another process is the parent.
    let driver = std::os::unix::process::parent_id();
    let home = Home::find()?;
    let installed = Installed::read(&home)?;
    installed.check_tools()?;
    // Held until this program ends, so that an update leaves the set-up alone.
    let _in_use = home.use_shared()?;
    let request = sandbox::Request::of_environment()?;
    let support_crate = match &request {
        Some(request) => request.support_crate.clone(),
        None => support_crate(&home, &installed)?,
    };
    let dir = if request.is_none() && std::env::var_os(warm::WARMING).is_some() {
        home.warm()
    } else {
        let starting = home.lock("kernel-start.lock", || eprintln!("waiting for another kernel to start"))?;
        warm::refresh(&home, &installed, &support_crate)?;
        live::sweep(&home)?;
        spec::share_cargo_config(&home)?;
        let unchanged = warm::unchanged(&home)?;
        if let Some(request) = request {
            drop(starting);
            return sandbox::launch(&home, &installed, request, connection_file);
        }
        let live = live::clone_warm(&home)?;
        drop(unchanged);
        // In this order: the process that waits for the lock must not hold it itself.
        spawn_janitor(&live.dir, driver)?;
        inherit(&live.lock)?;
        drop(starting);
        // Open until the kernel's last process ends: that is what the janitor waits for.
        std::mem::forget(live.lock);
        live.dir
    };
    let flag_file = dir.join("interrupt");
    let flag = Flag::create(&flag_file)?;
    let mut command = evcxr::command(&home, &installed, &support_crate, &dir, connection_file)?;
    // All that evcxr itself prints there is which file it read; what cells print goes through Jupyter.
    command.env(interrupt::FLAG, &flag_file).stdout(Stdio::null());
    // SAFETY: the closure runs between fork and exec; it makes system calls only.
    unsafe { command.pre_exec(leave_interrupts_to_parent) };
    let mut signals = Signals::heed()?;
    let evcxr =
        command.spawn().with_context(|| format!("cannot start {}\n  try: cargo lab setup", home.evcxr().display()))?;
    interrupt::supervise(evcxr, &mut signals, &flag)
}

/// What a kernel of the current folder would be made from, to compare with one that was started ahead; `null` while its
/// library has yet to be built.
pub fn state() -> Result<serde_json::Value> {
    let home = Home::find()?;
    let installed = Installed::read(&home)?;
    installed.check_tools()?;
    let support_crate = support_crate(&home, &installed)?;
    let program = std::env::current_exe().and_then(std::fs::metadata).and_then(|meta| meta.modified())?;
    let made_from = || [warm::STAMP, "kernel"].map(|step| home.stamp(step));
    let key = warm::is_fresh(&home, &support_crate)?.then(|| format!("{:?} {program:?}", made_from()));
    Ok(serde_json::json!({"key": key, "lock": home.own_kernels().join("spare.lock")}))
}

/// The support crate of the checkout that the notebook lies in, else of the one that was set up.
fn support_crate(home: &Home, installed: &Installed) -> Result<PathBuf> {
    let here = std::env::current_dir().context("the current folder cannot be read")?;
    let checkout = Checkout::around(&here);
    Ok(checkout.map_or_else(|| installed.support_crate.clone(), |checkout| installed.library_for(home, &checkout)))
}

/// Starts the process that ends the kernel if whoever started it ends, and removes the folder after the kernel's end;
/// in a session of its own, so that what kills the kernel's process group does not kill it.
fn spawn_janitor(dir: &Path, driver: u32) -> Result<()> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's own path")?);
    command
        .arg("janitor")
        .arg(dir)
        .arg(driver.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: the closure runs between fork and exec; setsid is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    command.spawn().context("cannot start the kernel's janitor")?;
    Ok(())
}
