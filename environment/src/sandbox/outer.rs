//! `lab kernel` where a sandbox is asked for: starts the layer, and waits for its end.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::visible::visible;
use super::{Layer, PROCESSES, Plan, Request, bwrap, cgroup};
use crate::home::{Home, OWN_KERNELS, remove_if_there};
use crate::jupyter::installed::{Installed, SHARED_PROCESSORS};
use crate::jupyter::live;
use crate::jupyter::processes::{end_with_parent, inherit};

/// Runs the kernel of a connection file in a sandbox, to its end.
pub fn launch(home: &Home, installed: &Installed, request: Request, connection_file: &Path) -> Result<ExitCode> {
    // The kernel ends with its driver.
    end_with_parent();
    let text =
        fs::read_to_string(connection_file).with_context(|| format!("cannot read {}", connection_file.display()))?;
    let mut connection: Value = serde_json::from_str(&text).context("the connection file is not JSON")?;
    // Its lock is held here, outside; there is no janitor, for this process itself removes the folder.
    let live::Live { dir, lock } = live::empty(home)?;
    let sockets = listen(&mut connection)?;
    let layer = request.layer;
    let plan = Plan {
        visible: visible(home, installed, &request),
        processes: processes_at_most(layer),
        sockets,
        connection,
        dir: dir.clone(),
        request,
    };
    let lab = home.lab();
    let inside = ["sandboxed"];
    let mut command = match layer {
        Layer::Bubblewrap => bwrap::command(&plan, &lab, &inside)?,
        Layer::Landlock => {
            let mut command = Command::new(lab);
            command.args(inside);
            command
        }
    };
    command.env_clear().envs(environment(home, &dir));
    let groups = plan.request.cgroups.clone();
    // SAFETY: between fork and exec, the group's files are written by plain calls, and `end_with_parent` may be called.
    unsafe {
        command.pre_exec(move || {
            end_with_parent();
            cgroup::join(&groups)
        });
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().context("cannot start the sandbox")?;
    let told = child.stdin.take().context("the sandbox takes no input")?.write_all(&serde_json::to_vec(&plan)?);
    let status = child.wait().context("cannot wait for the sandbox")?;
    live::remove(&dir)?;
    remove_if_there(&live::lock_path(&dir))?;
    drop(lock);
    told.context("the sandbox did not start; its messages are above")?;
    if !status.success() {
        bail!("the kernel in the sandbox ended with {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Listens where the driver connects; the connection then says where the kernel, inside, is to listen itself.
fn listen(connection: &mut Value) -> Result<Vec<(i32, u16)>> {
    if connection["transport"] != "ipc" {
        bail!("a sandboxed kernel speaks through Unix-domain sockets, not {}", connection["transport"]);
    }
    let outside = connection["ip"].as_str().context("the connection file names no place")?.to_owned();
    connection["transport"] = "tcp".into();
    connection["ip"] = Ipv4Addr::LOCALHOST.to_string().into();
    let names = ["shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"];
    // All opened at once, so that they are five different ones.
    let free: Vec<TcpListener> =
        names.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    let mut sockets = Vec::new();
    for (name, free) in names.iter().zip(&free) {
        let number = connection[name].as_u64().with_context(|| format!("the connection file has no {name}"))?;
        let at = format!("{outside}-{number}");
        // A driver that starts its kernel again connects to the same place.
        remove_if_there(Path::new(&at))?;
        let listener = UnixListener::bind(&at).with_context(|| format!("cannot listen at {at}"))?;
        inherit(&listener)?;
        let port = free.local_addr()?.port();
        connection[name] = port.into();
        sockets.push((listener.into_raw_fd(), port));
    }
    Ok(sockets)
}

/// All that there is of the environment.
fn environment(home: &Home, dir: &Path) -> BTreeMap<&'static str, String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let at = |name: &str| text(&dir.join(name));
    BTreeMap::from([
        ("QUANTLAB_HOME", text(home.root())),
        (OWN_KERNELS, text(&home.own_kernels())),
        ("HOME", at("home")),
        ("TMPDIR", at("tmp")),
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        // Beside it there are the sandboxes of other notebooks.
        (SHARED_PROCESSORS.0, SHARED_PROCESSORS.1.to_owned()),
    ])
}

/// In its own namespaces, a kernel's processes are counted alone; otherwise with all of the user's.
fn processes_at_most(layer: Layer) -> u64 {
    match layer {
        Layer::Bubblewrap => PROCESSES,
        Layer::Landlock => PROCESSES + threads_of_user(),
    }
}

fn threads_of_user() -> u64 {
    // SAFETY: getuid always succeeds and touches no memory.
    let user = unsafe { libc::getuid() }.to_string();
    let threads = |status: String| {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        (field("Uid:") == Some(&user)).then(|| field("Threads:")?.parse::<u64>().ok()).flatten()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| threads(fs::read_to_string(entry.path().join("status")).ok()?)).sum()
}
