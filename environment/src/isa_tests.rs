//! The tests of the crate `quantlab-kernels`: for each instruction set of this processor, and on ARM64 processors that
//! QEMU emulates.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::home::Home;
use crate::jupyter::claim::claim;
use crate::jupyter::installed::{Installed, on_path};
use crate::jupyter::sources::content_key_of;
use crate::parts::Parts;
use crate::setup::digest;
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

/// What the outcome depends on, seen from the support crate; processor, compiler and emulator aside.
const DEPENDS_ON: [&str; 5] =
    ["kernels", "../Cargo.toml", "../Cargo.lock", "../rust-toolchain.toml", "../environment/src/isa_tests.rs"];

/// Runs the tests once for each instruction set; says so where those of ARM64 cannot be run. What has passed here is run
/// again only if something has changed, or if `again`: no other part of the tests takes as long over what so rarely does.
pub fn run(home: &Home, installed: &Installed, checkout: &Checkout, again: bool, parts: &mut Parts) -> Result<()> {
    let missing = missing(installed);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| cpuinfo.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    let emulator = Command::new(EMULATOR).arg("--version").output().map(|told| told.stdout).unwrap_or_default();
    let (emulator, missing_parts) = (String::from_utf8_lossy(&emulator), missing.join(" "));
    let machine =
        [field("model name"), field("flags"), &installed.rustc, &installed.rustflags, &missing_parts, &*emulator];
    let sources = content_key_of(&checkout.support_crate(), &DEPENDS_ON)?;
    let state = digest(&format!("{sources}{}", machine.join("\n")));
    if !again && home.is_done(STAMP, &state) {
        eprintln!("      passed here as they are; `cargo lab test --full` runs them again");
        return Ok(());
    }
    home.mark_undone(STAMP)?;
    run_all(home, installed, checkout, (!again).then_some(&*sources), &missing, parts)?;
    home.mark_done(STAMP, &state)
}

/// The variable by which property tests draw the same cases whenever they run on the same sources, and others on others.
/// A case that fails is then found where its sources are made, and not by chance in a run for something else.
pub fn cases_of(sources: &str) -> (&'static str, String) {
    let seed = u64::from_str_radix(&digest(sources)[..16], 16).expect("a digest is hexadecimal");
    ("PROPTEST_RNG_SEED", seed.to_string())
}

const STAMP: &str = "instruction-sets";

fn run_all(
    home: &Home,
    installed: &Installed,
    checkout: &Checkout,
    sources: Option<&str>,
    missing: &[String],
    parts: &mut Parts,
) -> Result<()> {
    // Each run draws cases of its own.
    let cargo = |run: &str, subcommand: &str, args: &[&str]| -> Result<Command> {
        let mut command = installed.cargo(home, checkout.root(), subcommand)?;
        command.envs(sources.map(|sources| cases_of(&format!("{sources} {run}"))));
        command.args(["--locked", "--package", "quantlab-kernels"]).args(args);
        Ok(command)
    };
    // These try every set on their own; the soundness tests try what is public, which runs with the set that is named.
    parts.tests("kernels", cargo("kernels", "test", &["--lib", "--", "--quiet"])?)?;
    for isa in output_of(&mut cargo("sets", "run", &["--quiet", "--example", "isas"])?)?.lines() {
        eprintln!("      {isa}");
        for (what, args) in [("kernels", &UNCHECKED[..2]), ("kernels without overflow checks", &UNCHECKED[..])] {
            let run = format!("{what}, {isa}");
            let mut tests = cargo(&run, "test", args)?;
            tests.env("QUANTLAB_CPU_ISA", isa);
            parts.tests(&run, tests)?;
        }
    }
    if !missing.is_empty() {
        eprintln!("      NOT run: the tests for ARM64, which need {}", missing.join(", "));
        return Ok(());
    }
    // Not among what kernels are cloned from, and without their flags: the tests need no shared standard library.
    let target = home.root().join("emulated");
    claim(&target, &checkout.support_crate())?;
    for (processor, features) in PROCESSORS {
        eprintln!("      {EMULATOR} -cpu {processor} ({features})");
        // The first processor has every set, and tries each. On one that has less, running what is public reveals any
        // instruction that is not supported.
        let which = if processor == PROCESSORS[0].0 { "--tests" } else { "--test=soundness" };
        let run = format!("kernels, {processor}");
        let mut tests = cargo(&run, "test", &[which, "--target", TARGET, "--", "--quiet"])?;
        tests
            .env("QUANTLAB_EMULATED", "1")
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_BUILD_BUILD_DIR", &target)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {LIBRARIES} -cpu {processor}"))
            .env_remove("RUSTFLAGS")
            .env_remove("LD_LIBRARY_PATH");
        parts.tests(&run, tests)?;
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
