//! `kernel.json` and the files that every kernel shares.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use serde_json::json;

use super::cargo::STAND_INS;
use super::installed::Installed;
use crate::home::{Home, remove_if_there, write_atomically, write_with_mode};

/// What only runs while something is compiled: macros, build scripts and what they are made of. Not optimised, they
/// take minutes less to compile.
const BUILD_TOOLS: [&str; 38] = [
    "ar_archive_writer",
    "autocfg",
    "bytemuck_derive",
    "cc",
    "darling",
    "darling_core",
    "darling_macro",
    "derive_builder_core",
    "derive_builder_macro",
    "dyn-stack-macros",
    "find-msvc-tools",
    "heck",
    "ident_case",
    "jobserver",
    "macro_rules_attribute-proc_macro",
    "monostate-impl",
    "num-derive",
    "object",
    "paste",
    "pastey",
    "pkg-config",
    "proc-macro2",
    "quote",
    "rustversion",
    "seq-macro",
    "serde_derive",
    "shlex",
    "strsim",
    "strum_macros",
    "syn",
    "synstructure",
    "thiserror-impl",
    "tracing-attributes",
    "unicode-ident",
    "version_check",
    "yoke-derive",
    "zerocopy-derive",
    "zerofrom-derive",
];

/// Writes the kernelspec `quantlab` into the virtual environment, where its Jupyter finds it.
pub fn write_kernelspec(home: &Home) -> Result<()> {
    let spec = json!({
        "argv": [home.lab(), "kernel", "{connection_file}"],
        "display_name": "Rust (quantlab)",
        "language": "rust",
        // A message would go to evcxr, which kills the cell; VS Code would send it only after the cell.
        "interrupt_mode": "signal",
        "env": {"QUANTLAB_HOME": home.root()},
        "metadata": {"debugger": false},
    });
    let place = home.python().join("share/jupyter/kernels/quantlab/kernel.json");
    write_atomically(&place, serde_json::to_string_pretty(&spec)?.as_bytes())
}

/// Keeps JupyterLab from asking outside servers for news and updates, from asking its users whether it may, and from
/// showing what is of no use to a learner. Makes its server query kernels in a way that they survive, and keep a spare
/// one.
pub fn write_jupyter_settings(home: &Home) -> Result<()> {
    let settings = json!({
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false},
    });
    // nbgrader's menu is for its own courses; formgrader is a page of the server's and needs no menu.
    let page = json!({"disabledExtensions": {"@jupyter/nbgrader": true}});
    let extensions = json!({"quantlab_jupyter.connection": true, "quantlab_jupyter.spare": true});
    let server = json!({"ServerApp": {"jpserver_extensions": extensions}});
    for (path, value) in [
        ("share/jupyter/lab/settings/overrides.json", settings),
        ("share/jupyter/lab/settings/page_config.json", page),
        ("etc/jupyter/jupyter_server_config.d/quantlab.json", server),
    ] {
        write_atomically(&home.python().join(path), serde_json::to_string_pretty(&value)?.as_bytes())?;
    }
    Ok(())
}

/// Copies this program into the home, as `lab` and as the programs that it stands for in a kernel.
pub fn install_lab(home: &Home) -> Result<()> {
    let me = std::env::current_exe().context("cannot find this program's own path")?;
    // A newer build may have taken its place where it was started from.
    let program = fs::read("/proc/self/exe")
        .or_else(|_| fs::read(&me))
        .with_context(|| format!("cannot read {}", me.display()))?;
    let stand_ins = STAND_INS.map(|name| home.cargo_home().join("bin").join(name));
    for place in [home.lab()].into_iter().chain(stand_ins) {
        if me == place {
            continue;
        }
        let runs = |meta: fs::Metadata| meta.permissions().mode() & 0o100 != 0;
        if fs::metadata(&place).is_ok_and(runs) && fs::read(&place).is_ok_and(|there| there == program) {
            continue;
        }
        // Renamed into place: a running kernel may be using the old one.
        write_with_mode(&place, &program, 0o755)?;
        // Another program may edit Cargo's answers in another way.
        remove_if_there(&home.answers())?;
    }
    Ok(())
}

/// Writes the Cargo config that lies above every kernel's build folder, where Cargo merges it; the
/// workspace's builds get the same file through `--config`.
pub fn write_cargo_config(home: &Home, installed: &Installed) -> Result<()> {
    write_atomically(&home.cargo_config(), cargo_config(home, installed).as_bytes())
}

/// Puts the config above the live kernels of a user who does not own the home.
pub fn share_cargo_config(home: &Home) -> Result<()> {
    let (shared, own) = (home.cargo_config(), home.live_cargo_config());
    let text =
        fs::read(&shared).with_context(|| format!("cannot read {}\n  try: cargo lab setup", shared.display()))?;
    write_atomically(&own, &text)
}

/// The config's text; another one means another build of everything.
pub fn cargo_config(home: &Home, installed: &Installed) -> String {
    let (host, shim, libtorch) = (&installed.host, home.shim(), installed.libtorch.join("lib"));
    let (shim, libtorch) = (shim.display(), libtorch.display());
    let build_tools = BUILD_TOOLS.map(|name| format!("[profile.dev.package.{name}]\nopt-level = 0\n")).concat();
    format!(
        r#"# Written by `cargo lab setup`.

# Stands for torch-sys's build script: links the shared shim instead of compiling it into each build. The shim brings
# libtorch with it; to name its libraries too would have each cell's linker read their 76,000 symbols (0.07 s).
[target.{host}.tch]
rustc-link-search = ["native={shim}", "native={libtorch}"]
rustc-link-lib = ["dylib=tch"]
libtorch_lib = "{libtorch}"

# The profile that evcxr writes for its cells, word for word: tests and kernel share one build of each
# dependency only if every setting is the same.
[profile.dev]
debug = false
strip = "debuginfo"
rpath = true
lto = false
panic = "unwind"
codegen-units = 16
incremental = true

# evcxr builds with checks on. Library code (the support crate too) is built as for a release, so that
# what a cell measures is what a release binary does; `:opt 0` stays cheap. (Below level 2, rustc shares the instances
# of generics: the library then exports 275,000 symbols instead of 32,000, and each cell takes the linker 0.2 s more.)
[profile.dev.package."*"]
opt-level = 3
debug-assertions = false
overflow-checks = false

# C for archives that tch could read and nobody here does; it takes as long to compile as it is optimised.
[profile.dev.package.zstd-sys]
opt-level = 0

# Macros and build scripts.
{build_tools}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_build_tool_is_among_the_crates() {
        let lock = include_str!("../../../Cargo.lock");
        for name in BUILD_TOOLS {
            assert!(lock.contains(&format!("name = \"{name}\"\n")), "{name}: Cargo would warn in every build");
        }
    }
}
