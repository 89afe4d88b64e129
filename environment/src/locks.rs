//! Locks of a home: files that are locked by whoever changes what is in it, or uses it.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::home::Home;

impl Home {
    /// Waits for, then holds, the lock `name`; `waiting` is called once if someone else holds it. In somebody else's
    /// home, it keeps the owner from changing what is used, and blocks no other user.
    pub fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<File> {
        self.locked(name, false, waiting)
    }

    /// As [`Self::lock`], but together with others who share it.
    pub fn share(&self, name: &str, waiting: impl FnOnce()) -> Result<File> {
        self.locked(name, true, waiting)
    }

    fn locked(&self, name: &str, shared: bool, waiting: impl FnOnce()) -> Result<File> {
        let (path, mut waiting) = (self.root().join(name), Some(waiting));
        let failed = || format!("cannot lock {}", path.display());
        if !self.is_ours() {
            let file = File::open(&path).with_context(|| {
                format!("no finished set-up in {}, which is read-only for you", self.root().display())
            })?;
            file.lock_shared().with_context(failed)?;
            return Ok(file);
        }
        loop {
            fs::create_dir_all(self.root())
                .with_context(|| format!("cannot create the folder {}", self.root().display()))?;
            let file = File::options()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)
                .with_context(|| format!("cannot open the lock file {}", path.display()))?;
            let tried = if shared { file.try_lock_shared() } else { file.try_lock() };
            match tried {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    if let Some(waiting) = waiting.take() {
                        waiting();
                    }
                    let held = if shared { file.lock_shared() } else { file.lock() };
                    held.with_context(failed)?;
                }
                Err(TryLockError::Error(e)) => return Err(e).with_context(failed),
            }
            // `lab clean` removes locks: who comes now would lock another file of this name.
            if is_at(&file, &path) {
                return Ok(file);
            }
        }
    }
}

/// Whether a path still names an open file.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |meta: fs::Metadata| (meta.dev(), meta.ino());
    fs::metadata(path).is_ok_and(|there| file.metadata().is_ok_and(|own| id(own) == id(there)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::home::remove_if_there;

    #[test]
    fn a_second_holder_of_the_lock_waits() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let first = home.lock("lock", || panic!("nobody holds it yet")).unwrap();
        let other = home.clone();
        let (told, heard) = mpsc::channel();
        let second = thread::spawn(move || {
            let waited = std::cell::Cell::new(false);
            let _lock = other.lock("lock", || {
                waited.set(true);
                told.send(()).unwrap();
            });
            waited.get()
        });
        heard.recv().unwrap();
        drop(first);
        assert!(second.join().unwrap());
    }

    #[test]
    fn those_who_share_a_lock_keep_out_who_wants_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let share = || home.share("lock", || panic!("nobody has it alone")).unwrap();
        let both = (share(), share());
        let file = File::open(dir.path().join("lock")).unwrap();
        assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        drop(both);
        home.lock("lock", || panic!("nobody holds it")).unwrap();
    }

    #[test]
    fn a_lock_that_was_removed_while_two_waited_is_held_by_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("home");
        let home = Home::at(&root);
        let cleaning = home.lock("lock", || ()).unwrap();
        let holders = AtomicUsize::new(0);
        let (told, heard) = mpsc::channel();
        thread::scope(|scope| {
            for told in [told.clone(), told.clone()] {
                let (home, holders) = (&home, &holders);
                scope.spawn(move || {
                    let _lock = home.lock("lock", || told.send(()).unwrap()).unwrap();
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    assert!(home.root().join("lock").exists(), "who comes now waits for it");
                    thread::sleep(Duration::from_millis(50));
                    holders.fetch_sub(1, Ordering::SeqCst);
                });
            }
            heard.recv().unwrap();
            heard.recv().unwrap();
            remove_if_there(&root).unwrap();
            drop(cleaning);
        });
    }
}
