//! Limits that the system's kernel holds for all processes of a notebook together: control groups.

use std::fs;
use std::path::{Path, PathBuf};

use super::PROCESSES;
use crate::kernel::processes;

/// Where they are mounted everywhere.
const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "quantlab-";
/// Says which groups this process is in.
const OWN: &str = "/proc/self/cgroup";

/// One notebook's group: a folder in version 2, one for each controller in version 1.
#[derive(Debug)]
pub struct Cgroup {
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes a group with these limits; `None` where this user may not.
    pub fn create(memory_mib: u32, number: usize) -> Option<Self> {
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let memory = (u64::from(memory_mib) << 20).to_string();
        let processes = PROCESSES.to_string();
        let groups = fs::read_to_string(OWN).ok()?;
        let own = |controller: &str| own_group(&groups, controller);
        if Path::new(ROOT).join("cgroup.controllers").is_file() {
            // A group that holds processes cannot have limited ones below it, except where it is the root.
            let own = below(Path::new(ROOT), own("")?);
            let limits = [("memory.max", memory.as_str()), ("memory.swap.max", "0"), ("pids.max", processes.as_str())];
            let mut parents = [Some(own.as_path()), own.parent()].into_iter().flatten();
            return parents
                .find_map(|parent| make(&parent.join(&name), &limits))
                .map(|one| Self { folders: vec![one] });
        }
        let in_version_1 = |controller: &str, limits: &[(&str, &str)]| {
            let parent = below(&Path::new(ROOT).join(controller), own(controller)?);
            make(&parent.join(&name), limits)
        };
        let memory = in_version_1("memory", &[("memory.limit_in_bytes", &memory)])?;
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

/// Bytes that the limits of the groups around this process leave it; `None` without a limit.
pub fn memory_left() -> Option<u64> {
    memory_left_in(&fs::read_to_string(OWN).ok()?, Path::new(ROOT))
}

/// Counted like `quantlab::model::available_memory`: memory for files that were read, and for what is kept about them,
/// is free.
fn memory_left_in(groups: &str, root: &Path) -> Option<u64> {
    let (root, own, [limit, used], prefix) = match own_group(groups, "memory") {
        Some(own) => (root.join("memory"), own, ["memory.limit_in_bytes", "memory.usage_in_bytes"], "total_"),
        None => (root.to_owned(), own_group(groups, "")?, ["memory.max", "memory.current"], ""),
    };
    let left = |folder: &Path| {
        let number = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        let facts = fs::read_to_string(folder.join("memory.stat")).ok()?;
        let facts = facts.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once(' '));
        let reclaimable = facts.filter(|(name, _)| ["inactive_file", "active_file", "slab_reclaimable"].contains(name));
        let reclaimable: u64 = reclaimable.filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum();
        Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(reclaimable)))
    };
    let folder = below(&root, own);
    folder.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(left).min()
}

/// The path of the group that this process is in, of a controller of version 1, or `""` for version 2.
fn own_group<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    lines.find(|(names, _)| names.split(',').any(|name| name == controller)).map(|(_, path)| path)
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// A group with these limits, if all of them can be set. (Where there is no swap, it has no limit.)
fn make(folder: &Path, limits: &[(&str, &str)]) -> Option<PathBuf> {
    fs::create_dir(folder).ok()?;
    let set = |(file, value): &(&str, &str)| {
        let file = folder.join(file);
        (file.to_string_lossy().contains("swap") && !file.exists()) || fs::write(file, value).is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tightest_group_leaves_counts_and_files_make_room() {
        let root = tempfile::tempdir().unwrap();
        let group = |folder: &str, contents: [(&str, &str); 3]| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            contents.iter().for_each(|(file, content)| fs::write(folder.join(file), content).unwrap());
        };
        let stat = ("memory.stat", "anon 1\ninactive_file 100\nactive_file 40\nslab_reclaimable 10\n");
        group("hub", [("memory.max", "2000\n"), ("memory.current", "1900\n"), stat]);
        group("hub/any", [("memory.max", "max\n"), ("memory.current", "800\n"), stat]);
        group("hub/one", [("memory.max", "850\n"), ("memory.current", "800\n"), stat]);
        assert_eq!(memory_left_in("0::/hub/any\n", root.path()), Some(250));
        assert_eq!(memory_left_in("0::/hub/one\n", root.path()), Some(200));
        assert_eq!(memory_left_in("0::/\n", root.path()), None);
        let stat = ("memory.stat", "inactive_file 7\ntotal_inactive_file 100\ntotal_active_file 50\n");
        group("memory", [("memory.limit_in_bytes", "1000\n"), ("memory.usage_in_bytes", "800\n"), stat]);
        assert_eq!(memory_left_in("4:cpu,memory:/docker/0123\n0::/\n", root.path()), Some(350));
        group("memory/one", [("memory.limit_in_bytes", "900\n"), ("memory.usage_in_bytes", "800\n"), stat]);
        assert_eq!(memory_left_in("4:cpu,memory:/one\n0::/\n", root.path()), Some(250));
    }
}
