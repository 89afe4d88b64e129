//! evcxr_jupyter's command: its build folder, configuration and environment.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::cargo::{STD_CARGO_HOME, TOOLCHAIN_BIN, skeleton};
use super::crates;
use super::installed::Installed;
use crate::home::{Home, write_atomically};

/// Tells rust-analyzer where the standard library's sources are.
const LIBRARY_SOURCES: &str = "RUST_SRC_PATH";

/// evcxr_jupyter, with `dir` as its build folder.
pub fn command(
    home: &Home,
    installed: &Installed,
    support_crate: &Path,
    dir: &Path,
    connection_file: &Path,
) -> Result<Command> {
    let config = dir.join("config");
    write_atomically(&config.join("evcxr.toml"), evcxr_toml(support_crate).as_bytes())?;
    let mut command = Command::new(home.evcxr().join("bin/evcxr_jupyter"));
    command.arg("--control_file").arg(connection_file);
    installed.apply(home, &mut command);
    command
        .env("EVCXR_TMPDIR", dir)
        .env("EVCXR_CONFIG_DIR", &config)
        .env("CARGO_NET_OFFLINE", "true")
        // There evcxr finds the programs that stand for cargo and rustup.
        .env("PATH", installed.kernel_path(home))
        .env(TOOLCHAIN_BIN, installed.sysroot.join("bin"))
        .env(STD_CARGO_HOME, home.std_cargo_home())
        .env_remove(LIBRARY_SOURCES)
        // evcxr's allocator: it takes memory page by page, and gives it back at once. (Forbidding it huge pages would
        // do the same, but would forbid them to the cells too.)
        .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
        .env("MIMALLOC_PURGE_DELAY", "0")
        // evcxr rewrites a stock installation of itself that it finds in Jupyter's data folder.
        .env("JUPYTER_PATH", home.root().join("no-jupyter"));
    if let Ok(library) = skeleton::of_library(&installed.sysroot, &home.skeletons()) {
        command.env(LIBRARY_SOURCES, library);
    }
    Ok(command)
}

/// evcxr's start-up configuration: library and course are there before the first cell runs.
fn evcxr_toml(support_crate: &Path) -> String {
    let dependencies = crates::dependencies(support_crate);
    format!(
        "[evcxr]\noffline_mode = true\npreserve_vars_on_panic = true\nopt_level = \"2\"\n\n[dependencies]\n{dependencies}"
    )
}
