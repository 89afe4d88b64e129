//! How a grader tells the score of a check from a number that a cell has printed.
//!
//! A check and the answer that it looks at share a process, and so does whatever else the notebook defines: traits that
//! are found before a type's own methods, modules and functions under the course's names, threads that print. What can
//! be named, displayed, cloned or shadowed there can be made there. So the key that proves a score is a private static
//! of this library. A grader has the key printed once, before any of the learner's code runs in the process, on
//! standard output, which the process cannot read back; after that nothing gives it away, and only a [`Score`] of the
//! library's own checks uses it. In a sandbox, the process then writes only where it works: a cell's call of a check is
//! compiled from what lies in the kernel's build folder. There is no promise that code which reads or writes the
//! process's memory cannot find the key, be it through `unsafe`, the file of that memory, or a fault of the compiler or of
//! a crate.
//!
//! [`Score`]: super::Score

use std::sync::OnceLock;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use quantlab::error::{Error, Result};

type Key = [u8; 32];

static KEY: OnceLock<Key> = OnceLock::new();

/// For graders: from now on, scores carry a proof; prints the key that it is made with. Works once per process. In a sandbox,
/// this then writes only below its current folder and that of temporary files, where the system can see to that.
///
/// # Errors
/// The key was told before; rules for files that the system refuses.
pub fn tell_key(in_sandbox: bool) -> Result<()> {
    let key: Key = StdRng::from_os_rng().random();
    KEY.set(key).map_err(|_| Error::input("this process has already told its key").hint("restart the kernel"))?;
    close_memory();
    #[cfg(target_os = "linux")]
    if in_sandbox {
        keep_to_own_files().map_err(|error| Error::system(format!("cannot keep cells from files: {error}")))?;
    }
    println!("{}", hexadecimal(&key));
    Ok(())
}

/// Keeps other processes of the same user, such as a shell that a cell starts, from reading this one's memory.
fn close_memory() {
    // SAFETY: it takes numbers, and changes only who may look at this process.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0)
    };
}

/// Lets this thread, and all that it starts, write only below the current folder, among temporary files and to devices.
/// Before Linux 5.13, nothing changes.
#[cfg(target_os = "linux")]
fn keep_to_own_files() -> std::result::Result<(), landlock::RulesetError> {
    use landlock::{ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};

    let write = AccessFs::from_write(ABI::V3);
    let own = [std::env::current_dir().unwrap_or_default(), std::env::temp_dir(), "/dev".into()];
    let rules = path_beneath_rules(own, write);
    Ruleset::default().handle_access(write)?.create()?.add_rules(rules)?.restrict_self().map(drop)
}

/// The proof that `exercise` earned `points` in this process, if a grader asked for proofs.
pub(super) fn of(exercise: &str, points: usize) -> Option<String> {
    KEY.get().map(|key| prove(key, exercise, points))
}

/// `SHA-256(key SHA-256(key exercise "\n" points))`, in hexadecimal digits. (Hashed once only, a proof could be extended to
/// one of a longer text.)
fn prove(key: &Key, exercise: &str, points: usize) -> String {
    let inner = Sha256::new().chain_update(key).chain_update(format!("{exercise}\n{points}")).finalize();
    hexadecimal(&Sha256::new().chain_update(key).chain_update(inner).finalize())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_exercise_its_points_and_one_key() {
        let key: Key = std::array::from_fn(|i| i as u8);
        // By Python's hashlib, as the grader computes it.
        let expected = "2fce906460ea54e88b5f2054dca950ee5fd1eed99af644e650281de7d835392c";
        assert_eq!(prove(&key, "resolve_dtype", 7), expected);
        for other in [prove(&key, "resolve_dtype", 6), prove(&key, "evaluate", 7), prove(&[0; 32], "resolve_dtype", 7)]
        {
            assert_ne!(other, expected);
        }
    }
}
