//! What a sandboxed kernel may read: the system's programs, the toolchain, and the parts of the set-up that it needs.

use std::path::{Path, PathBuf};

use super::Request;
use crate::home::Home;
use crate::jupyter::installed::Installed;

/// Programs and libraries; no configuration but what programs are found and linked by.
const SYSTEM: [&str; 15] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/sys/devices/system/cpu",
];

/// Whatever exists of it. No notebooks, no other kernels, no credentials, and none of the course's own tests.
pub fn visible(home: &Home, installed: &Installed, request: &Request) -> Vec<PathBuf> {
    let support_crate = request.support_crate.as_path();
    let mut paths: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    paths.extend([installed.sysroot.clone(), installed.libtorch.clone()]);
    paths.extend([home.evcxr(), home.std_cargo_home(), home.shim(), home.lab(), Installed::path(home)]);
    // It may hold more than kernels and their settings.
    paths.extend([home.cargo_config(), home.live_cargo_config(), home.warm(), home.answers(), home.skeletons()]);
    paths.extend(entries_but(&home.cargo_home(), &["credentials", "credentials.toml"]));
    if request.shows_models {
        paths.push(home.models());
    }
    // The lesson's own, which are copied to where the notebook runs.
    paths.extend(request.files.clone());
    // Cargo's workspace, of which the library is a member.
    if let Some(checkout) = support_crate.parent() {
        paths.extend(["Cargo.toml", "Cargo.lock"].map(|name| checkout.join(name)));
    }
    paths.extend(entries_but(support_crate, &["course", "tests"]));
    paths.extend(entries_but(&support_crate.join("course"), &["tests"]));
    paths.retain(|path| path.exists());
    paths
}

/// Folders of which only some entries are shown, and whose names may be read: rust-analyzer looks for a package's
/// sources from its root on, and if it may not, it knows none of the library's types.
pub fn listed(support_crate: &Path) -> Vec<PathBuf> {
    vec![support_crate.to_owned(), support_crate.join("course")]
}

fn entries_but(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| !names.iter().any(|name| entry.file_name() == *name)).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Layer;
    use super::*;
    use crate::home::write_atomically;

    #[test]
    fn credentials_and_answers_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(&dir.path().join("home"));
        for path in [
            "home/cargo-home/credentials.toml",
            "home/cargo-home/config.toml",
            "home/executed/x.ipynb",
            "home/models/x",
        ] {
            write_atomically(&dir.path().join(path), b"").unwrap();
        }
        let library = dir.path().join("checkout/support-crate");
        for part in ["src", "course/src", "course/tests/answers"] {
            std::fs::create_dir_all(library.join(part)).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("checkout/notebooks")).unwrap();
        let installed = Installed { support_crate: library.clone(), ..Installed::default() };
        let mut request = Request {
            layer: Layer::Landlock,
            support_crate: library,
            files: None,
            shows_models: false,
            memory_mib: 0,
            disk_mib: 0,
            cgroups: Vec::new(),
            keeps_answers: false,
        };
        let seen = visible(&home, &installed, &request);
        let is_in = |seen: &[PathBuf], path: &str| seen.iter().any(|shown| dir.path().join(path).starts_with(shown));
        let shows = |path| is_in(&seen, path);
        assert!(shows("home/cargo-home/config.toml") && shows("checkout/support-crate/src"), "{seen:?}");
        assert!(shows("checkout/support-crate/course/src"), "{seen:?}");
        for hidden in ["home/cargo-home/credentials.toml", "home/executed", "home/models/x", "checkout/notebooks"] {
            assert!(!shows(hidden), "{hidden}");
        }
        assert!(!shows("checkout/support-crate/course/tests/answers"));
        request.shows_models = true;
        assert!(is_in(&visible(&home, &installed, &request), "home/models/x"));
    }
}
