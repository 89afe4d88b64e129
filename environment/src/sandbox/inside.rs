//! `lab sandboxed`: the first process inside. Makes the kernel's folder, gives up what is left to give up, starts evcxr,
//! and relays between it and the driver.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use super::visible::listed;
use super::{Layer, Plan, landlock, relay, seccomp, work};
use crate::home::{Home, write_with_mode};
use crate::jupyter::installed::Installed;
use crate::jupyter::{evcxr, links, processes};
use crate::lessons::companions;

/// Runs a kernel by the plan on standard input, to its end.
pub fn run() -> Result<ExitCode> {
    let plan: Plan = serde_json::from_reader(std::io::stdin().lock()).context("`lab kernel` sent no plan")?;
    let home = Home::find()?;
    let installed = Installed::read(&home)?;
    // SAFETY: prctl with integers touches no memory. No cell must look into this process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    processes::end_with_parent();
    // Whoever holds these sockets can answer the driver in the kernel's place.
    plan.sockets.iter().try_for_each(|(socket, _)| processes::keep(*socket))?;
    furnish(&plan, &home)?;
    if plan.request.layer == Layer::Landlock {
        let ports: Vec<u16> = plan.sockets.iter().map(|(_, port)| *port).collect();
        let answers = home.answers();
        let own = if plan.request.keeps_answers { vec![&*plan.dir, &*answers] } else { vec![&*plan.dir] };
        landlock::enter(&plan.visible, &listed(&plan.request.support_crate), &own, &ports)?;
    }
    let connection_file = plan.dir.join("connection.json");
    write_with_mode(&connection_file, &serde_json::to_vec(&plan.connection)?, 0o600)?;
    let mut command = evcxr::command(&home, &installed, &plan.request.support_crate, &plan.dir, &connection_file)?;
    let libraries = library_path(&command, &plan.dir, &installed.host);
    command.current_dir(work(&plan.dir)).env("LD_LIBRARY_PATH", libraries);
    let filter = seccomp::programs()?;
    let limits = limits(&plan);
    // SAFETY: between fork and exec, setrlimit and the filter's installation allocate nothing, as `end_with_parent`.
    unsafe {
        command.pre_exec(move || {
            processes::end_with_parent();
            // A file that grows too large is an error to who writes it, not the end of the process.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            for &(resource, limit) in &limits {
                let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
                if libc::setrlimit(resource, &raw const limit) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            seccomp::apply(&filter)
        });
    }
    let mut kernel = command.spawn().context("cannot start evcxr_jupyter")?;
    for (from, port) in plan.sockets {
        relay::serve(from, port);
    }
    let status = kernel.wait().context("cannot wait for the kernel")?;
    if !status.success() {
        bail!("evcxr_jupyter ended with {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The kernel's search path, and the folder of the build. A cell's library looks for the one that it links where that
/// was when it was linked; if a link is in that place, it looks where the link leads from there, which is not where it
/// leads from here.
fn library_path(kernel: &Command, dir: &Path, host: &str) -> OsString {
    let known = kernel.get_envs().find(|(name, _)| *name == "LD_LIBRARY_PATH").and_then(|(_, value)| value);
    let mut path = dir.join("target").join(host).join("debug").into_os_string();
    if let Some(known) = known {
        path.push(":");
        path.push(known);
    }
    path
}

/// The kernel's folders: its build, cloned by links to what is read-only here, and the learner's.
fn furnish(plan: &Plan, home: &Home) -> Result<()> {
    let dir = &plan.dir;
    for name in ["home", "tmp"].map(|name| dir.join(name)).into_iter().chain([work(dir)]) {
        fs::create_dir_all(&name).with_context(|| format!("cannot create {}", name.display()))?;
    }
    links::clone(&home.warm().join("target"), &dir.join("target"), |from, to| symlink(from, to))
        .context("cannot clone the warm kernel")?;
    for file in plan.request.files.as_deref().map(companions).into_iter().flatten() {
        let to = work(dir).join(file.file_name().unwrap_or_default());
        fs::copy(&file, &to).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

/// The limits that the system's kernel enforces on each process.
fn limits(plan: &Plan) -> Vec<(libc::__rlimit_resource_t, u64)> {
    let mib = |mib: u32| u64::from(mib) << 20;
    vec![
        (libc::RLIMIT_DATA, mib(plan.request.memory_mib)),
        (libc::RLIMIT_FSIZE, mib(plan.request.disk_mib)),
        (libc::RLIMIT_NPROC, plan.processes),
        (libc::RLIMIT_NOFILE, 4096),
        (libc::RLIMIT_CORE, 0),
    ]
}
