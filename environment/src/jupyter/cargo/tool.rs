//! The programs that this one stands for.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The toolchain's folder of programs, where the real cargo and rustc are.
pub const TOOLCHAIN_BIN: &str = "QUANTLAB_TOOLCHAIN_BIN";

/// A program of the toolchain that everything was built with.
pub fn tool(name: &str) -> PathBuf {
    std::env::var_os(TOOLCHAIN_BIN).map_or_else(|| PathBuf::from(name), |bin| Path::new(&bin).join(name))
}

/// Returns only if that fails.
pub fn become_program(command: &mut Command) -> anyhow::Error {
    let error = command.exec();
    anyhow::Error::new(error).context(format!("cannot start {}", Path::new(command.get_program()).display()))
}
