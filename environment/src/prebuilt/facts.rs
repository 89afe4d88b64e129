//! What a machine must have in common with the one that compiled.

#[cfg(target_env = "gnu")]
use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::jupyter::installed::rustflags;
use crate::setup::toolchain::{Toolchain, version_pair};

/// What must be the same, or no older, for anything in an archive to be of use. The processor is not part of it: what
/// it can do is queried when the program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Version of the C library; a newer one will do.
    pub glibc: String,
    /// `rustc -vV`'s first line.
    pub rustc: String,
    /// They differ where there is another linker.
    pub rustflags: String,
}

impl Facts {
    /// The facts of this machine.
    pub fn here(tools: &Toolchain) -> Self {
        Self {
            architecture: std::env::consts::ARCH.to_owned(),
            glibc: glibc(),
            rustc: tools.rustc.clone(),
            rustflags: rustflags().to_owned(),
        }
    }

    /// What does not fit here, each with the reason.
    pub fn misfits(&self, here: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (what, packed, here) in [
            ("processor", &self.architecture, &here.architecture),
            ("Rust", &self.rustc, &here.rustc),
            ("Rust's flags", &self.rustflags, &here.rustflags),
        ] {
            if packed != here {
                found.push(format!("{what}: {packed} was packed, but here it is {here}"));
            }
        }
        if version_pair(&here.glibc) < version_pair(&self.glibc) {
            found.push(format!("C library: glibc {} or newer is needed, but here it is {}", self.glibc, here.glibc));
        }
        found
    }
}

#[cfg(target_env = "gnu")]
fn glibc() -> String {
    // SAFETY: has no preconditions; what it returns is a string that lives as long as the program.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

#[cfg(not(target_env = "gnu"))]
fn glibc() -> String {
    "0.0".to_owned()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn facts() -> Facts {
        Facts {
            architecture: "x86_64".to_owned(),
            glibc: "2.36".to_owned(),
            rustc: "rustc 1.95.0".to_owned(),
            rustflags: "-Cprefer-dynamic".to_owned(),
        }
    }

    #[test]
    fn each_difference_is_named() {
        let packed = facts();
        assert_eq!(packed.misfits(&facts()), [""; 0]);
        type Change = (&'static str, fn(&mut Facts));
        let changes: [Change; 4] = [
            ("aarch64", |here| here.architecture = "aarch64".to_owned()),
            ("glibc 2.36 or newer is needed, but here it is 2.31", |here| here.glibc = "2.31".to_owned()),
            ("1.96", |here| here.rustc = "rustc 1.96.0".to_owned()),
            ("lld", |here| here.rustflags += " -Clink-arg=-fuse-ld=lld"),
        ];
        for (word, change) in changes {
            let mut here = facts();
            change(&mut here);
            let found = packed.misfits(&here);
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
        }
        let newer = Facts { glibc: "2.41".to_owned(), ..facts() };
        assert_eq!(packed.misfits(&newer), [""; 0]);
    }
}
