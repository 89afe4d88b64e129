//! Whether there is room: processors and memory, a place outside of workspaces, space on the disk.

use std::fs;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};

use super::libtorch::Choice;
use crate::home::Home;
use crate::memory::available_memory;
use crate::ui::output_of;

/// What set-up takes at its widest, while evcxr is being built.
const DISK_NEEDED_GB: f64 = 8.0;

/// Whether two builds side by side are faster than one after the other: each takes two processors and 4 GB.
pub fn for_two_builds() -> bool {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors >= 4 && available_memory().is_some_and(|bytes| bytes >= 8_000_000_000)
}

/// Errors if Cargo would take the kernels' build folders for members of a workspace around them.
pub fn check_place(home: &Home) -> Result<()> {
    let manifests = home.root().ancestors().skip(1).map(|dir| dir.join("Cargo.toml"));
    for manifest in manifests {
        if fs::read_to_string(&manifest).is_ok_and(|text| text.contains("[workspace")) {
            bail!(
                "{} lies inside the Cargo workspace of {}\n  try: name a folder outside it with QUANTLAB_HOME",
                home.root().display(),
                manifest.display()
            );
        }
    }
    Ok(())
}

/// Errors if a first set-up would fill the disk.
pub fn check_disk(home: &Home, choice: &Choice) -> Result<()> {
    if home.stamp("build").is_some() {
        return Ok(());
    }
    let cuda_gb = if *choice == Choice::Cuda { 12.0 } else { 0.0 };
    // What an interrupted set-up has already made counts.
    let needed_gb = DISK_NEEDED_GB + cuda_gb - home.disk_used() as f64 / 1e9;
    fs::create_dir_all(home.root()).with_context(|| format!("cannot create {}", home.root().display()))?;
    let text = output_of(Command::new("df").args(["-Pk"]).arg(home.root()))?;
    let free = text.lines().nth(1).and_then(|l| l.split_whitespace().nth(3)).and_then(|kb| kb.parse::<f64>().ok());
    if let Some(free_gb) = free.map(|kb| kb / 1e6).filter(|gb| *gb < needed_gb) {
        bail!(
            "{} has {free_gb:.1} GB free; set-up needs {needed_gb:.1} GB more\n  try: free some space, or name another \
             folder with QUANTLAB_HOME",
            home.root().display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_inside_a_workspace_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(&dir.path().join("a/b"));
        check_place(&home).unwrap();
        fs::write(dir.path().join("Cargo.toml"), "[workspace]\n").unwrap();
        let error = check_place(&home).unwrap_err().to_string();
        assert!(error.contains("QUANTLAB_HOME") && error.contains("Cargo.toml"), "{error}");
    }
}
