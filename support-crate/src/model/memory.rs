//! How much memory there is, as the system counts it.
//!
//! Source: proc(5), `/proc/meminfo`; Linux's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.

use std::fs;
use std::path::Path;

use crate::error::{Context, Error, Result};

const MEMINFO: &str = "/proc/meminfo";

/// Memory that this process could still have, in bytes: what the machine could give without swapping, or less where a
/// limit of its control group leaves less, as in a container. `None` where that is not known.
pub fn available_memory() -> Option<usize> {
    let machine = entry(MEMINFO, "MemAvailable").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(machine.min(left_by_groups(&groups, Path::new("/sys/fs/cgroup"))))
}

/// What the limits of control groups leave: of those that `groups` names, as `/proc/self/cgroup` does, and of those
/// around them. `root` is where the system shows them; to a container it may show its own group there.
fn left_by_groups(groups: &str, root: &Path) -> usize {
    let group = |controller: &str| {
        let mut groups = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        groups.find(|(names, _)| names.split(',').any(|name| name == controller)).map(|(_, path)| path)
    };
    let (root, path, files) = match (group("memory"), group("")) {
        (Some(path), _) => (root.join("memory"), path, VERSION_1),
        (None, Some(path)) => (root.to_owned(), path, VERSION_2),
        (None, None) => return usize::MAX,
    };
    let folder = root.join(path.trim_start_matches('/'));
    let folders = folder.ancestors().take_while(|folder| folder.starts_with(&root));
    folders.filter_map(|folder| left_by_group(folder, &files)).min().unwrap_or(usize::MAX)
}

/// Where a control group says what may be used and what is, and in which lines of `memory.stat` what is only there
/// until something else needs the room: files that were read.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    caches: [&'static str; 2],
}

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    caches: ["total_inactive_file", "total_active_file"],
};
const VERSION_2: GroupFiles =
    GroupFiles { limit: "memory.max", used: "memory.current", caches: ["inactive_file", "active_file"] };

/// `None` without a limit.
fn left_by_group(folder: &Path, files: &GroupFiles) -> Option<usize> {
    let number = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<usize>().ok();
    let (limit, used) = (number(files.limit)?, number(files.used)?);
    let facts = fs::read_to_string(folder.join("memory.stat")).ok()?;
    let of_files = facts.lines().filter_map(|line| line.split_once(' '));
    let of_files =
        of_files.filter(|(name, _)| files.caches.contains(name)).filter_map(|(_, n)| n.parse::<usize>().ok());
    Some(limit.saturating_sub(used.saturating_sub(of_files.sum())))
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
    fn system(files: &GroupFiles, groups: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (folder, limit, used, stat) in groups {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for (file, content) in [(files.limit, limit), (files.used, used), ("memory.stat", stat)] {
                fs::write(folder.join(file), format!("{content}\n")).unwrap();
            }
        }
        root
    }

    #[test]
    fn the_tightest_limit_around_a_process_counts() {
        let stat = "anon 700\ninactive_file 100\nactive_file 50\nfile 900";
        let limits = [("a", "2000", "1900", stat), ("a/b", "max", "800", stat), ("a/b/c", "1000", "800", stat)];
        let left = |group: &str, root: &tempfile::TempDir| left_by_groups(group, root.path());
        let root = system(&VERSION_2, &limits);
        assert_eq!(left("0::/a/b/c\n", &root), 2000 - (1900 - 150));
        assert_eq!(left("0::/a/b\n", &root), 2000 - (1900 - 150));
        let root = system(&VERSION_2, &limits[2..]);
        assert_eq!(left("0::/a/b/c\n", &root), 1000 - (800 - 150));
        assert_eq!(left("0::/elsewhere\n", &root), usize::MAX);
        assert_eq!(left("", &root), usize::MAX);
        // More than is allowed is used for a moment when a limit is lowered.
        let root = system(&VERSION_2, &[("", "1000", "5000", "inactive_file 0")]);
        assert_eq!(left("0::/\n", &root), 0);
    }

    #[test]
    fn version_1_and_containers_that_see_their_own_group_as_the_root() {
        let stat = "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50";
        let groups = "9:name=systemd:/\n4:cpu,memory:/docker/0123\n0::/\n";
        let root = system(&VERSION_1, &[("memory", "1000", "800", stat)]);
        assert_eq!(left_by_groups(groups, root.path()), 1000 - (800 - 150));
        let root = system(&VERSION_1, &[("memory", "9223372036854771712", "800", stat)]);
        assert!(left_by_groups(groups, root.path()) > 1 << 60);
    }

    #[test]
    fn a_system_without_the_files_says_so() {
        let error = entry("/no/such/status", "VmRSS").unwrap_err();
        assert!(error.to_string().contains("/no/such/status") && error.hint_text().is_some(), "{error}");
    }
}
