//! The second layer: where no namespaces can be made, Landlock says which paths may be opened and which ports used.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::jupyter::processes::is_root;

/// Linux 6.12: from there on, signals to processes outside can be refused.
const NEEDED: ABI = ABI::V6;

/// Whether this system's kernel can do all of it.
pub fn probe() -> Result<()> {
    ruleset().map(drop).context("this Linux has no Landlock, or one older than Linux 6.12's")
}

fn ruleset() -> Result<RulesetCreated> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.handle_access(AccessFs::from_all(NEEDED))?.handle_access(AccessNet::from_all(NEEDED))?;
    Ok(rules.scope(Scope::from_all(NEEDED))?.create()?)
}

/// Restricts this process and all that it starts, for good: to reading `visible`, to the names of files below `listed`, to
/// writing below `own`, and to these ports.
pub fn enter(visible: &[PathBuf], listed: &[PathBuf], own: &[&Path], ports: &[u16]) -> Result<()> {
    drop_capabilities()?;
    let files = AccessFs::from_file(NEEDED);
    let read = AccessFs::from_read(NEEDED);
    // Links to elsewhere would mislead whoever looks from outside; devices are never made.
    let write = AccessFs::from_all(NEEDED) & !(AccessFs::MakeSym | AccessFs::MakeChar | AccessFs::MakeBlock);
    let devices = ["null", "zero", "full", "random", "urandom"].map(|name| Path::new("/dev").join(name));
    // A process finds itself only by its number, and lessons measure memory there. Of processes outside, Landlock shows
    // names and sizes, but neither memory, environment nor open files.
    let processes = [PathBuf::from("/proc")];
    let names = listed.iter().map(|path| (path, AccessFs::ReadDir.into()));
    let rules = visible.iter().chain(&processes).map(|path| (path, read)).chain(names);
    let rules = rules.chain(devices.iter().map(|path| (path, read | AccessFs::WriteFile)));
    let rules = rules.map(|(path, access)| (path.as_path(), access)).chain(own.iter().map(|path| (*path, write)));
    let mut set = ruleset()?;
    for (path, access) in rules {
        let Ok(opened) = PathFd::new(path) else { continue };
        let access: BitFlags<AccessFs> = if path.is_dir() { access } else { access & files };
        set = set.add_rule(PathBeneath::new(opened, access)).with_context(|| format!("{}", path.display()))?;
    }
    for port in ports {
        set = set.add_rule(NetPort::new(*port, AccessNet::BindTcp | AccessNet::ConnectTcp))?;
    }
    let status = set.restrict_self()?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        bail!("Landlock is enforced only in part");
    }
    Ok(())
}

/// The rights beyond files that root has.
fn drop_capabilities() -> Result<()> {
    let error = || std::io::Error::last_os_error();
    for capability in 0..=63 {
        // SAFETY: prctl with integers touches no memory.
        let held = unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) };
        // SAFETY: prctl with integers touches no memory.
        if held == 1 && unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            // An ordinary user may not drop what a program of root's would have. No such program gains it from here:
            // restricting oneself takes that away.
            if error().raw_os_error() == Some(libc::EPERM) && !is_root() {
                break;
            }
            return Err(error()).context("cannot drop root's rights");
        }
    }
    let header = CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let none = [CapabilitySets::default(); 2];
    // SAFETY: both structures are laid out as capset(2) has them for version 3, and live through the call.
    if unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) } != 0 {
        return Err(error()).context("cannot drop root's rights");
    }
    Ok(())
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}
