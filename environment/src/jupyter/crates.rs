//! The crates that cells have without asking for them: the library, and what the lessons add to it.

use std::path::{Path, PathBuf};

/// Each one's name, and its folder in that of the library.
const CRATES: [(&str, &str); 2] = [("quantlab", ""), ("quantlab-course", "course")];

/// Lines of a manifest that name all of them.
pub fn dependencies(support_crate: &Path) -> String {
    CRATES.map(|(name, folder)| dependency(support_crate, name, folder)).concat()
}

fn dependency(support_crate: &Path, name: &str, folder: &str) -> String {
    // Chained, because joining an empty path would end the folder in a slash. A JSON string is a TOML basic string.
    let folder: PathBuf = support_crate.iter().chain(Path::new(folder)).collect();
    format!("{name} = {{ path = {} }}\n", serde_json::Value::from(folder.to_string_lossy()))
}

/// The manifest, with the lines that name one of them changed to name another support crate's.
pub fn pointed_at(manifest: &str, support_crate: &Path) -> String {
    let line = |line: &str| match CRATES.iter().find(|(name, _)| is_named(line, name)) {
        Some((name, folder)) => dependency(support_crate, name, folder),
        None => format!("{line}\n"),
    };
    manifest.lines().map(line).collect()
}

/// Whether a manifest names one of them.
pub fn are_named(manifest: &str) -> bool {
    manifest.lines().any(|line| CRATES.iter().any(|(name, _)| is_named(line, name)))
}

/// Whether a package of this name is one of them, or a part of the library.
pub fn belongs(name: &str) -> bool {
    are_called(name) || name == "quantlab-kernels"
}

/// Whether it is one of these names.
pub fn are_called(name: &str) -> bool {
    CRATES.iter().any(|(known, _)| *known == name)
}

/// The files that cells link and load.
pub fn files() -> [String; 2] {
    CRATES.map(|(name, _)| format!("lib{}.so", name.replace('-', "_")))
}

fn is_named(line: &str, name: &str) -> bool {
    line.trim_start().strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_their_own_lines_are_pointed_elsewhere() {
        let old = dependencies(Path::new("/old"));
        assert_eq!(old, "quantlab = { path = \"/old\" }\nquantlab-course = { path = \"/old/course\" }\n");
        let manifest = format!("[dependencies]\n{old}quantlab-x = \"1\"\n");
        let new = pointed_at(&manifest, Path::new("/new \"place\""));
        assert_eq!(new, manifest.replace("/old", "/new \\\"place\\\""));
        assert!(are_named(&new) && !are_named("quantlab-x = \"1\""));
    }
}
