//! One build folder per live kernel: cloned cheaply from the warm one, removed when the kernel ends.
//!
//! Two kernels in one folder would overwrite each other's code. What a clone is made of is said in [`links`].
//!
//! A kernel holds a lock on its folder for as long as any of its processes lives. A janitor process
//! waits for that lock and then removes the folder, also after a crash; if the janitor is killed too,
//! the next kernel to start sweeps up. The janitor also ends a kernel whose driver was killed.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::{links, processes};
use crate::home::{Home, remove_if_there};

/// A kernel's build folder, and the lock that says it lives.
pub struct Live {
    /// The build folder.
    pub dir: PathBuf,
    /// Locked; the kernel inherits it.
    pub lock: File,
}

/// The lock file beside a live folder.
pub fn lock_path(dir: &Path) -> PathBuf {
    dir.with_extension("lock")
}

/// Makes the folder of a new kernel, with nothing in it.
pub fn empty(home: &Home) -> Result<Live> {
    let live = home.live();
    fs::create_dir_all(&live).with_context(|| format!("cannot create {}", live.display()))?;
    // Process numbers are reused, and containers that share a home each have their own.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let dir = live.join(format!("kernel-{}-{now}", std::process::id()));
    // Locked before it has its name: a sweep takes a lock that is free for a dead kernel's.
    let (lock_file, side) = (lock_path(&dir), live.with_file_name(format!("starting-{}-{now}", std::process::id())));
    let lock = File::create_new(&side).with_context(|| format!("cannot create {}", side.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", side.display()))?;
    fs::rename(&side, &lock_file).with_context(|| format!("cannot create {}", lock_file.display()))?;
    fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(Live { dir, lock })
}

/// Makes the build folder of a new kernel.
pub fn clone_warm(home: &Home) -> Result<Live> {
    let Live { dir, lock } = empty(home)?;
    links::clone(&home.warm().join("target"), &dir.join("target"), links::link_or_copy).with_context(|| {
        format!(
            "cannot clone the warm kernel into {}\n  try: free some disk space, then `cargo lab setup`",
            dir.display()
        )
    })?;
    Ok(Live { dir, lock })
}

/// Removes the folders of kernels that no longer live.
pub fn sweep(home: &Home) -> Result<()> {
    let Ok(entries) = fs::read_dir(home.live()) else { return Ok(()) };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "lock") {
            let free = open_lock(&path).is_ok_and(|file| file.try_lock().is_ok());
            if free {
                warn(remove(&path.with_extension("")).and_then(|()| remove_if_there(&path)));
            }
        } else if !lock_path(&path).exists() {
            warn(remove(&path));
        }
    }
    Ok(())
}

/// What one kernel left does not keep another from starting; its janitor, or another sweep, may have been faster.
fn warn(removed: Result<()>) {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    if let Err(error) = removed
        && !error.root_cause().downcast_ref::<io::Error>().is_some_and(is_gone)
    {
        eprintln!("{error:#}");
    }
}

/// Removes a live folder, whatever a cell has made of it: folders that are closed to their owner, or deeper than a path is
/// long and a process has descriptors, down to which [`remove_if_there`] would go. They are opened, and those within
/// brought up, one level at a time.
pub fn remove(dir: &Path) -> Result<()> {
    let failed = || format!("cannot remove {}", dir.display());
    let open = |folder: &Path| fs::set_permissions(folder, Permissions::from_mode(0o700)).with_context(failed);
    if !fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()) {
        return remove_if_there(dir);
    }
    open(dir)?;
    let (mut number, mut waiting) = (0_usize, vec![dir.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            if !entry.file_type().with_context(failed)?.is_dir() {
                fs::remove_file(entry.path()).with_context(failed)?;
                continue;
            }
            // Only who may write to a folder may give it another parent.
            open(&entry.path())?;
            let beside = loop {
                number += 1;
                let beside = dir.with_extension(format!("removed-{number}"));
                if fs::symlink_metadata(&beside).is_err() {
                    break beside;
                }
            };
            fs::rename(entry.path(), &beside).with_context(failed)?;
            waiting.push(beside);
        }
        fs::remove_dir(&folder).with_context(failed)?;
    }
    Ok(())
}

/// Waits until the kernel of `dir` has ended, then removes the folder. If its driver (JupyterLab, an editor, a run
/// without a browser) ends first, however that happens, ends the kernel.
pub fn janitor(dir: &Path, driver: u32) -> Result<()> {
    let lock_file = lock_path(dir);
    let Ok(lock) = open_lock(&lock_file) else { return Ok(()) };
    let held = lock_file.clone();
    // It ends with this process.
    std::thread::spawn(move || {
        wait_for_end(driver);
        // A kernel that was told to end is given the time to do so.
        std::thread::sleep(GRACE);
        loop {
            holders(&held).into_iter().for_each(|pid| processes::send(pid, libc::SIGKILL));
            continue_supervisor();
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    lock.lock()?;
    remove(dir)?;
    remove_if_there(&lock_file)
}

/// A spare kernel may have been standing still; its supervisor, which is this process's parent, ends once it goes on.
fn continue_supervisor() {
    let parent = std::os::unix::process::parent_id();
    let program = |process: &str| fs::read_link(Path::new("/proc").join(process).join("exe")).ok();
    if program(&parent.to_string()).is_some_and(|theirs| Some(theirs) == program("self")) {
        processes::send(parent, libc::SIGCONT);
    }
}

const GRACE: Duration = Duration::from_secs(2);

/// Returns when a process has ended; never for one that cannot be seen from here.
fn wait_for_end(pid: u32) {
    if pid == 0 {
        loop {
            std::thread::park();
        }
    }
    // SAFETY: pidfd_open takes two integers and touches no memory.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if process < 0 {
        // It has ended already, or this Linux is older than 5.3.
        while Path::new("/proc").join(pid.to_string()).exists() {
            std::thread::sleep(Duration::from_secs(1));
        }
        return;
    }
    let mut event = libc::pollfd { fd: process as i32, events: libc::POLLIN, revents: 0 };
    // SAFETY: `event` lives through the call, and its length of one is given.
    while unsafe { libc::poll(&raw mut event, 1, -1) } < 1 {}
}

/// The processes that have a lock file open, except other copies of this program, which only look at it.
fn holders(lock_file: &Path) -> Vec<u32> {
    let own = std::env::current_exe().ok();
    let holds = |process: &Path| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        fs::read_link(process.join("exe")).ok() != own
            && open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|path| path == lock_file)
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.filter_map(|entry| Some((entry.path(), entry.file_name().to_str()?.parse().ok()?)));
    numbered.filter(|(process, _)| holds(process)).map(|(_, pid)| pid).collect()
}

/// Opened for writing: on network file systems, only that can be locked.
fn open_lock(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_sweep_takes_dead_kernels_only() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        fs::create_dir_all(home.warm().join("target/debug/deps")).unwrap();
        let live = clone_warm(&home).unwrap();
        let dead = home.live().join("kernel-0");
        fs::create_dir_all(&dead).unwrap();
        fs::write(lock_path(&dead), "").unwrap();
        let stray = home.live().join("kernel-1");
        fs::create_dir_all(&stray).unwrap();
        sweep(&home).unwrap();
        assert!(live.dir.exists() && !dead.exists() && !stray.exists() && !lock_path(&dead).exists());
        let dir = live.dir.clone();
        drop(live);
        janitor(&dir, 0).unwrap();
        assert!(!dir.exists() && !lock_path(&dir).exists());
    }

    #[test]
    fn a_sweep_takes_nothing_of_a_kernel_that_is_starting() {
        let dir = tempfile::tempdir().unwrap();
        let (home, is_done) = (Home::at(dir.path()), AtomicBool::new(false));
        let started = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    sweep(&home).unwrap();
                }
            });
            let started: Vec<Result<Live>> = (0..300).map(|_| empty(&home)).collect();
            is_done.store(true, Ordering::Relaxed);
            started
        });
        for live in started {
            let dir = live.as_ref().unwrap().dir.as_path();
            assert!(dir.exists() && lock_path(dir).exists());
        }
    }

    #[test]
    fn what_a_cell_left_is_removed_however_deep_or_closed() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("kernel-2");
        fs::create_dir(&dir).unwrap();
        let closed = dir.join("closed/within");
        fs::create_dir_all(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("/", dir.join("link")).unwrap();
        fs::set_permissions(dir.join("closed"), Permissions::from_mode(0o000)).unwrap();
        // Deeper than there are descriptors; made from the inside out.
        let mut deep = home.path().join("deep-0");
        fs::create_dir(&deep).unwrap();
        for level in 1..3000 {
            let outer = home.path().join(format!("deep-{level}"));
            fs::create_dir(&outer).unwrap();
            fs::rename(&deep, outer.join("d")).unwrap();
            deep = outer;
        }
        fs::rename(&deep, dir.join("deep")).unwrap();
        remove(&dir).unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        remove(&dir).unwrap();
    }
}
