//! The tests of the crate `quantlab-kernels`: for each instruction set of this processor, and on ARM64 processors that
//! QEMU emulates.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::home::Home;
use crate::jupyter::claim::claim;
use crate::jupyter::installed::{Installed, on_path};
use crate::parts::Parts;
use crate::ui::output_of;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian keeps the C library of [`TARGET`].
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Processors that QEMU emulates, and which features beyond NEON, among those that the crate uses, each has.
const PROCESSORS: [(&str, &str); 3] =
    [("max", "dotprod, i8mm and bf16"), ("neoverse-n1", "dotprod"), ("cortex-a53", "nothing")];

/// What the crate refuses, in a build without overflow checks, as notebooks have it: with them, a product of sizes that
/// wraps panics on its own.
const UNCHECKED: [&str; 6] = [
    "--test",
    "soundness",
    "--config",
    "profile.dev.package.quantlab-kernels.overflow-checks=false",
    "--config",
    "profile.dev.package.quantlab-kernels.debug-assertions=false",
];

/// Runs the tests once for each instruction set; says so where those of ARM64 cannot be run.
pub fn run(home: &Home, installed: &Installed, checkout: &Checkout, parts: &mut Parts) -> Result<()> {
    let cargo = |subcommand: &str, args: &[&str]| -> Result<Command> {
        let mut command = installed.cargo(home, checkout.root(), subcommand)?;
        command.args(["--locked", "--package", "quantlab-kernels"]).args(args);
        Ok(command)
    };
    // These try every set on their own; the soundness tests try what is public, which runs with the set that is named.
    parts.tests("kernels", cargo("test", &["--lib", "--", "--quiet"])?)?;
    for isa in output_of(&mut cargo("run", &["--quiet", "--example", "isas"])?)?.lines() {
        eprintln!("      {isa}");
        for (what, args) in [("kernels", &UNCHECKED[..2]), ("kernels without overflow checks", &UNCHECKED[..])] {
            let mut tests = cargo("test", args)?;
            tests.env("QUANTLAB_CPU_ISA", isa);
            parts.tests(&format!("{what}, {isa}"), tests)?;
        }
    }
    let missing = missing(installed);
    if !missing.is_empty() {
        eprintln!("      NOT run: the tests for ARM64, which need {}", missing.join(", "));
        return Ok(());
    }
    // Not among what kernels are cloned from, and without their flags: the tests need no shared standard library.
    let target = home.emulated();
    claim(&target, &checkout.support_crate())?;
    for (processor, features) in PROCESSORS {
        eprintln!("      {EMULATOR} -cpu {processor} ({features})");
        // The first processor has every set, and tries each. On one that has less, running what is public reveals any
        // instruction that is not supported.
        let which = if processor == PROCESSORS[0].0 { "--tests" } else { "--test=soundness" };
        let mut tests = cargo("test", &[which, "--target", TARGET, "--", "--quiet"])?;
        tests
            .env("QUANTLAB_EMULATED", "1")
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_BUILD_BUILD_DIR", &target)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {LIBRARIES} -cpu {processor}"))
            .env_remove("RUSTFLAGS")
            .env_remove("LD_LIBRARY_PATH");
        parts.tests(&format!("kernels, {processor}"), tests)?;
    }
    Ok(())
}

/// What this machine lacks to run ARM64's tests, each with how to get it on Debian.
fn missing(installed: &Installed) -> Vec<String> {
    let rust = installed.sysroot.join("lib/rustlib").join(TARGET).is_dir();
    let libraries = Path::new(LIBRARIES).join("lib/libc.so.6").exists();
    let parts = [
        (rust, format!("Rust's standard library for it (rustup target add {TARGET})")),
        (on_path(LINKER), format!("{LINKER} (gcc-aarch64-linux-gnu)")),
        (libraries, format!("{LIBRARIES} (libc6-dev-arm64-cross)")),
        (on_path(EMULATOR), format!("{EMULATOR} (qemu-user)")),
    ];
    parts.into_iter().filter(|(there, _)| !there).map(|(_, part)| part).collect()
}
