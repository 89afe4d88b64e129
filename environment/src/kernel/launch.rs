//! `lab kernel CONNECTION_FILE`: what `kernel.json` starts.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use super::cargo::{STD_CARGO_HOME, TOOLCHAIN_BIN, skeleton};
use super::installed::Installed;
use super::interrupt::{self, Flag};
use super::signals::{Signals, leave_interrupts_to_parent};
use super::{crates, live, spec, warm};
use crate::checkout::Checkout;
use crate::home::{Home, write_atomically};
use crate::sandbox;

/// Set while set-up warms the kernel: the warm folder itself is used instead of a clone.
pub const WARMING: &str = "QUANTLAB_WARM";

/// Tells rust-analyzer where the standard library's sources are.
const LIBRARY_SOURCES: &str = "RUST_SRC_PATH";

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
    let dir = if request.is_none() && std::env::var_os(WARMING).is_some() {
        home.warm()
    } else {
        let starting = home.lock("kernel-start.lock", || eprintln!("waiting for another kernel to start"))?;
        warm::refresh(&home, &installed, &support_crate)?;
        live::sweep(&home)?;
        spec::share_cargo_config(&home)?;
        if let Some(request) = request {
            drop(starting);
            return sandbox::launch(&home, &installed, request, connection_file);
        }
        let unchanged = warm::lock(&home)?;
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
    let mut command = kernel_command(&home, &installed, &support_crate, &dir, connection_file)?;
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

/// evcxr_jupyter, with `dir` as its build folder.
pub fn kernel_command(
    home: &Home,
    installed: &Installed,
    support_crate: &Path,
    dir: &Path,
    connection_file: &Path,
) -> Result<Command> {
    let config = dir.join("config");
    write_atomically(&config.join("evcxr.toml"), evcxr_toml(support_crate).as_bytes())?;
    let mut command = Command::new(home.evcxr().join("bin/evcxr_jupyter"));
    command.arg("--control_file").arg(connection_file);
    installed.apply(home, &mut command);
    command
        .env("EVCXR_TMPDIR", dir)
        .env("EVCXR_CONFIG_DIR", &config)
        .env("CARGO_NET_OFFLINE", "true")
        // There evcxr finds the programs that stand for cargo and rustup.
        .env("PATH", installed.kernel_path(home))
        .env(TOOLCHAIN_BIN, installed.sysroot.join("bin"))
        .env(STD_CARGO_HOME, home.std_cargo_home())
        .env_remove(LIBRARY_SOURCES)
        // evcxr's allocator: it takes memory page by page, and gives it back at once. (Forbidding it huge pages would
        // do the same, but would forbid them to the cells too.)
        .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
        .env("MIMALLOC_PURGE_DELAY", "0")
        // evcxr rewrites a stock installation of itself that it finds in Jupyter's data folder.
        .env("JUPYTER_PATH", home.root().join("no-jupyter"));
    if let Ok(library) = skeleton::of_library(&installed.sysroot, &home.skeletons()) {
        command.env(LIBRARY_SOURCES, library);
    }
    Ok(command)
}

/// The support crate of the checkout that the notebook lies in, else of the one that was set up.
fn support_crate(home: &Home, installed: &Installed) -> Result<PathBuf> {
    let here = std::env::current_dir().context("the current folder cannot be read")?;
    let checkout = Checkout::around(&here);
    Ok(checkout.map_or_else(|| installed.support_crate.clone(), |checkout| installed.library_for(home, &checkout)))
}

/// evcxr's start-up configuration: library and course are there before the first cell runs.
fn evcxr_toml(support_crate: &Path) -> String {
    let dependencies = crates::dependencies(support_crate);
    format!(
        "[evcxr]\noffline_mode = true\npreserve_vars_on_panic = true\nopt_level = \"2\"\n\n[dependencies]\n{dependencies}"
    )
}

/// Leaves a descriptor open in the programs that this one starts or becomes.
pub fn inherit(open: &impl AsRawFd) -> Result<()> {
    set_flags(open.as_raw_fd(), 0).context("cannot pass on a file descriptor")
}

/// Closes a descriptor, which this process was handed, in the programs that it starts.
pub fn keep(open: RawFd) -> Result<()> {
    set_flags(open, libc::FD_CLOEXEC).context("cannot keep a file descriptor")
}

fn set_flags(open: RawFd, flags: i32) -> std::io::Result<()> {
    // SAFETY: fcntl with F_SETFD takes a number and an int, and touches no memory; an invalid descriptor is an error.
    if unsafe { libc::fcntl(open, libc::F_SETFD, flags) } == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
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
