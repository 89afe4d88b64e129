//! Limits that the system's kernel holds for all processes of a notebook together: control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PROCESSES;
use crate::jupyter::processes;
use crate::memory::{CGROUPS, group_folder, own_group};

const PREFIX: &str = "quantlab-";

/// One notebook's group: a folder in version 2, one for each controller in version 1.
#[derive(Debug)]
pub struct Cgroup {
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes a group with these limits; `None` where this user may not.
    pub fn create(memory_mib: u32) -> Option<Self> {
        // Several are graded at once.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let memory = (u64::from(memory_mib) << 20).to_string();
        let processes = PROCESSES.to_string();
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = |controller: &str| own_group(&groups, controller);
        let root = Path::new(CGROUPS);
        if root.join("cgroup.controllers").is_file() {
            // A group that holds processes cannot have limited ones below it, except where it is the root.
            let own = group_folder(root, own("")?);
            let limits = [("memory.max", memory.as_str()), ("memory.swap.max", "0"), ("pids.max", processes.as_str())];
            let mut parents = [Some(own.as_path()), own.parent()].into_iter().flatten();
            return parents
                .find_map(|parent| make(&parent.join(&name), &limits))
                .map(|one| Self { folders: vec![one] });
        }
        let in_version_1 = |controller: &str, limits: &[(&str, &str)]| {
            let parent = group_folder(&root.join(controller), own(controller)?);
            make(&parent.join(&name), limits)
        };
        // The first counts no swap; the second, which may not be less, counts both.
        let limits = [("memory.limit_in_bytes", memory.as_str()), ("memory.memsw.limit_in_bytes", memory.as_str())];
        let memory = in_version_1("memory", &limits)?;
        let group = Self { folders: vec![memory] };
        let processes = in_version_1("pids", &[("pids.max", &processes)])?;
        Some(Self { folders: [group.take(), vec![processes]].concat() })
    }

    fn take(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.folders)
    }

    /// Their folders, for [`join`].
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            end_all(folder);
            // One that is still in use is removed by a later run.
            let _: std::io::Result<()> = fs::remove_dir(folder);
        }
        for parent in self.folders.iter().filter_map(|folder| folder.parent()) {
            remove_forsaken(parent);
        }
    }
}

/// Puts this process, and all that it will start, into a group.
pub fn join(folders: &[PathBuf]) -> std::io::Result<()> {
    folders.iter().try_for_each(|folder| fs::write(folder.join("cgroup.procs"), std::process::id().to_string()))
}

/// A group with these limits, if all of them can be set. (Where swap is not counted, it has no limit.)
fn make(folder: &Path, limits: &[(&str, &str)]) -> Option<PathBuf> {
    fs::create_dir(folder).ok()?;
    let set = |(file, value): &(&str, &str)| {
        let file = folder.join(file);
        let is_of_swap = ["swap", "memsw"].iter().any(|part| file.to_string_lossy().contains(part));
        (is_of_swap && !file.exists()) || fs::write(file, value).is_ok()
    };
    if limits.iter().all(set) && fs::metadata(folder.join("cgroup.procs")).is_ok() {
        return Some(folder.to_owned());
    }
    let _: std::io::Result<()> = fs::remove_dir(folder);
    None
}

/// Ends the processes of a group, until there are none.
fn end_all(folder: &Path) {
    for _ in 0..100 {
        let Ok(processes) = fs::read_to_string(folder.join("cgroup.procs")) else { return };
        if processes.trim().is_empty() {
            return;
        }
        for pid in processes.lines().filter_map(|line| line.parse().ok()) {
            processes::send(pid, libc::SIGKILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Removes groups of runs that were killed.
fn remove_forsaken(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            end_all(&entry.path());
            let _: std::io::Result<()> = fs::remove_dir(entry.path());
        }
    }
}
