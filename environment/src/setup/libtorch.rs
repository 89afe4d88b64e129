//! libtorch: the user's own (`LIBTORCH`), or from the package registry's `torch` wheel.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::toolchain::Toolchain;
use crate::home::{Home, non_empty_var, remove_if_there};
use crate::ui::{output_of, run_logged, run_shown};

/// The libtorch that tch 0.26 is written for.
pub const TORCH_VERSION: &str = "2.13.0";
/// Fetches a wheel from the registry and unpacks some of it.
pub const FETCH_WHEEL: &str = include_str!("../../python/fetch_wheel.py");
/// The CUDA libraries that torch 2.13.0's wheel names.
const CUDA_LIBRARIES: [&str; 5] = [
    "cuda-toolkit[cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx]==13.0.3",
    "nvidia-cudnn-cu13==9.20.0.48",
    "nvidia-cusparselt-cu13==0.8.1",
    "nvidia-nccl-cu13==2.29.7",
    "nvidia-nvshmem-cu13==3.4.5",
];
const WHEELS: &str = include_str!("../../libtorch.txt");

/// Which libtorch is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The folder that `LIBTORCH` names.
    Own(PathBuf),
    /// The CPU part of the registry's wheel.
    Cpu,
    /// The registry's wheel with all its CUDA libraries.
    Cuda,
}

impl Choice {
    /// `LIBTORCH` when set (its version checked), else CUDA when asked for or a GPU is there, else CPU.
    pub fn make(home: &Home, cuda: bool) -> Result<Self> {
        // Inside `cargo lab exec` the variable names what set-up itself put there.
        let own = non_empty_var("LIBTORCH").filter(|own| !Path::new(own).starts_with(home.libtorch()));
        if let Some(own) = own {
            let own = std::path::absolute(PathBuf::from(own)).context("LIBTORCH is not a usable path")?;
            check_version(&own)?;
            return Ok(Self::Own(own));
        }
        if cfg!(not(target_os = "linux")) || pinned(ARCH).next().is_none() {
            bail!(
                "set-up can fetch libtorch for Linux on x86-64 and ARM64 only\n  try: install libtorch {TORCH_VERSION} yourself and set LIBTORCH to its folder"
            );
        }
        // What was asked for once stays, also where no GPU answers at the moment.
        let kept = home.libtorch().join("site").is_dir();
        Ok(if cuda || kept || has_nvidia_gpu() { Self::Cuda } else { Self::Cpu })
    }

    /// What the step's stamp holds.
    pub fn key(&self) -> String {
        match self {
            Self::Own(path) => format!("own {}", path.display()),
            Self::Cpu => format!("cpu {}", pinned(ARCH).collect::<Vec<_>>().join("\n")),
            Self::Cuda => format!("cuda {TORCH_VERSION}"),
        }
    }

    /// The folder with `lib` and `include`.
    pub fn folder(&self, home: &Home) -> PathBuf {
        match self {
            Self::Own(path) => path.clone(),
            Self::Cpu => home.libtorch(),
            Self::Cuda => home.libtorch().join("site/torch"),
        }
    }
}

/// Whether `nvidia-smi` finds a GPU.
pub fn has_nvidia_gpu() -> bool {
    output_of(Command::new("nvidia-smi").arg("-L")).is_ok_and(|list| list.contains("GPU "))
}

/// Errors unless the folder holds libtorch of the right version.
fn check_version(folder: &Path) -> Result<()> {
    let hint = format!("  try: unset LIBTORCH, and set-up gets libtorch {TORCH_VERSION} from the package registry");
    if !folder.join("lib/libtorch_cpu.so").is_file() {
        bail!("LIBTORCH={} has no lib/libtorch_cpu.so\n{hint}", folder.display());
    }
    let found = fs::read_to_string(folder.join("build-version"))
        .map(|text| text.trim().to_owned())
        .or_else(|_| version_of_header(folder))
        .with_context(|| {
            format!(
                "LIBTORCH={}: cannot tell its version (no build-version, no version.h among its headers)\n{hint}",
                folder.display()
            )
        })?;
    if found.split('+').next() != Some(TORCH_VERSION) {
        bail!("LIBTORCH={} is libtorch {found}; tch 0.26 needs {TORCH_VERSION}\n{hint}", folder.display());
    }
    Ok(())
}

/// The version that libtorch's own header states.
fn version_of_header(folder: &Path) -> Result<String> {
    for header in ["include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"] {
        let text = fs::read_to_string(folder.join(header)).unwrap_or_default();
        // The value stands on a line of its own, behind a backslash.
        if let Some((_, rest)) = text.split_once("#define TORCH_VERSION ")
            && let Some(version) = rest.trim_start_matches(['\\', ' ', '\r', '\n']).strip_prefix('"')
            && let Some((version, _)) = version.split_once('"')
        {
            return Ok(version.to_owned());
        }
    }
    bail!("no TORCH_VERSION in its headers")
}

/// Puts the chosen libtorch in its place.
pub fn install(choice: &Choice, home: &Home) -> Result<()> {
    match choice {
        Choice::Own(_) => Ok(()),
        Choice::Cpu => {
            remove_if_there(&home.libtorch())?;
            unpack(ARCH, &home.python_bin("python"), &home.downloads(), &home.libtorch())
        }
        Choice::Cuda => install_cuda(home),
    }
}

/// The lines of libtorch.txt for an architecture.
fn pinned(arch: &str) -> impl Iterator<Item = &'static str> {
    WHEELS.lines().filter(move |line| {
        !line.starts_with('#') && line.split_whitespace().nth(2).is_some_and(|platform| platform.ends_with(arch))
    })
}

/// Puts libtorch's CPU part for an architecture, which need not be this machine's, into a folder.
fn unpack(arch: &str, python: &Path, downloads: &Path, into: &Path) -> Result<()> {
    let mut wheels = Vec::new();
    for line in pinned(arch) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [requirement, sha256, platform, prefix, members @ ..] = fields.as_slice() else {
            bail!("libtorch.txt: malformed line `{line}`");
        };
        let wheel = downloads.join(format!("{requirement}.whl"));
        eprintln!("      {requirement}");
        run_shown(
            Command::new(python)
                .args(["-c", FETCH_WHEEL, requirement, sha256])
                .arg(&wheel)
                .args(["--platform", platform, "--extract", prefix, "--into"])
                .arg(into)
                .args(members),
        )?;
        wheels.push(wheel);
    }
    // Kept until all are unpacked: a set-up that broke off in between downloads nothing twice.
    wheels.iter().try_for_each(|wheel| remove_if_there(wheel))
}

/// With CUDA the libraries find one another through their own rpaths, laid out as pip installs them.
fn install_cuda(home: &Home) -> Result<()> {
    let site = home.libtorch().join("site");
    remove_if_there(&home.libtorch())?;
    fs::create_dir_all(home.downloads()).with_context(|| format!("cannot create {}", home.downloads().display()))?;
    let pip = |args: &[&str]| {
        let mut command = Command::new(home.python_bin("python"));
        command.args(["-m", "pip", "install", "--only-binary=:all:", "--target"]).arg(&site).args(args);
        // Gigabytes are unpacked there first.
        run_shown(command.env("TMPDIR", home.downloads()))
    };
    // What the libraries link, and none of what only PyTorch's Python part needs.
    pip(&["--no-deps", &format!("torch=={TORCH_VERSION}")])?;
    pip(&CUDA_LIBRARIES)
}

/// Builds torch-sys's C++ shim as a shared library, once.
///
/// rustc does not export the symbols of a C library that is linked statically into a Rust shared
/// library, so a cell that calls a generic tch method could not be loaded; and this saves a minute
/// of C++ in every build of torch-sys.
pub fn build_shim(choice: &Choice, home: &Home, tools: &Toolchain, torch_sys: &Path) -> Result<()> {
    let folder = choice.folder(home);
    let shim = home.shim();
    remove_if_there(&shim)?;
    fs::create_dir_all(&shim).with_context(|| format!("cannot create {}", shim.display()))?;
    let source = torch_sys.join("libtch");
    // From where the shim is, so that both can be moved together.
    let libraries = folder.join("lib");
    let rpath = match libraries.strip_prefix(home.root()) {
        Ok(inner) => format!("$ORIGIN/../{}", inner.display()),
        Err(_) => libraries.display().to_string(),
    };
    let mut command = Command::new(&tools.cxx);
    command
        .current_dir(&source)
        .args(["-O2", "-fPIC", "-shared", "-std=c++17", "-w", "-D_GLIBCXX_USE_CXX11_ABI=1", "-DGLOG_USE_GLOG_EXPORT"])
        .arg(format!("-I{}", folder.join("include").display()))
        .arg(format!("-I{}", folder.join("include/torch/csrc/api/include").display()))
        .args(["torch_api.cpp", "torch_api_generated.cpp", "-o"])
        .arg(shim.join("libtch.so"))
        .arg(format!("-L{}", folder.join("lib").display()))
        .arg(format!("-Wl,-rpath,{rpath}"))
        .args(["-Wl,-soname,libtch.so", "-Wl,--allow-shlib-undefined"]);
    if matches!(choice, Choice::Own(_)) && folder.join("lib/libtorch.so").is_file() {
        // It brings what is for other kinds of GPU.
        command.args(["-Wl,--no-as-needed", "-ltorch", "-Wl,--as-needed"]);
    }
    if *choice == Choice::Cuda || folder.join("lib/libtorch_cuda.so").is_file() {
        // Nothing in the shim names a CUDA symbol; the library registers its kernels when it is loaded.
        command.args(["-Wl,--no-as-needed", "-ltorch_cuda", "-Wl,--as-needed"]);
    }
    command.args(["-ltorch_cpu", "-lc10"]);
    run_logged(&mut command, &home.logs().join("shim.log"), "compiling 2 MB of C++")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::write_atomically;

    fn libtorch(version_file: Option<(&str, &str)>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("lib/libtorch_cpu.so", "")].into_iter().chain(version_file) {
            write_atomically(&dir.path().join(name), text.as_bytes()).unwrap();
        }
        dir
    }

    #[test]
    fn the_right_version_is_taken_from_either_file() {
        check_version(libtorch(Some(("build-version", "2.13.0+cpu\n"))).path()).unwrap();
        let header = "#pragma once\n#define TORCH_VERSION \\\n  \"2.13.0\"\n";
        check_version(libtorch(Some(("include/torch/headeronly/version.h", header))).path()).unwrap();
    }

    #[test]
    fn another_version_is_named_with_what_to_do() {
        let error = check_version(libtorch(Some(("build-version", "2.4.1+cu121"))).path()).unwrap_err().to_string();
        assert!(
            error.contains("2.4.1+cu121") && error.contains("2.13.0") && error.contains("unset LIBTORCH"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_is_no_libtorch_is_refused() {
        let error = format!("{:#}", check_version(tempfile::tempdir().unwrap().path()).unwrap_err());
        assert!(error.contains("libtorch_cpu.so"), "{error}");
        let error = format!("{:#}", check_version(libtorch(None).path()).unwrap_err());
        assert!(error.contains("cannot tell its version"), "{error}");
    }

    #[test]
    fn the_pinned_wheels_are_well_formed() {
        for line in WHEELS.lines().filter(|l| !l.starts_with('#')) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            assert!(fields.len() >= 5 && fields[0].contains("==") && fields[1].len() == 64, "{line}");
        }
        for arch in ["x86_64", "aarch64"] {
            let wheels: Vec<&str> = pinned(arch).collect();
            assert!(wheels.len() == 3 && wheels[0].starts_with(&format!("torch=={TORCH_VERSION} ")), "{arch}");
        }
        assert_eq!(pinned("riscv64").count(), 0);
    }

    /// What a Linux with a C++ compiler has.
    const SYSTEM: [&str; 10] = [
        "ld-linux-aarch64.so.1",
        "ld-linux-x86-64.so.2",
        "libc.so.6",
        "libdl.so.2",
        "libgcc_s.so.1",
        "libm.so.6",
        "libpthread.so.0",
        "librt.so.1",
        "libstdc++.so.6",
        "libutil.so.1",
    ];

    #[test]
    #[ignore = "downloads 1 GB; `cargo lab test --full` runs it"]
    fn what_libtorch_needs_is_unpacked_or_the_systems() {
        for arch in ["x86_64", "aarch64"] {
            let dir = tempfile::tempdir().unwrap();
            unpack(arch, Path::new("python3"), &dir.path().join("downloads"), dir.path()).unwrap();
            assert!(version_of_header(dir.path()).unwrap() == TORCH_VERSION);
            let lib = dir.path().join("lib");
            let mut needed = 0;
            for library in fs::read_dir(&lib).unwrap().map(|entry| entry.unwrap().path()) {
                // Reads the libraries of any architecture.
                let dynamic = output_of(Command::new("readelf").arg("-d").arg(&library)).unwrap();
                for name in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
                    let name = name.split(['[', ']']).nth(1).unwrap();
                    assert!(SYSTEM.contains(&name) || lib.join(name).is_file(), "{arch}: {library:?} needs {name}");
                    needed += 1;
                }
            }
            assert!(needed > 20, "{arch}: {needed}");
        }
    }
}
