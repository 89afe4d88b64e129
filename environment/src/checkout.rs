//! The checkout that holds notebooks and support crate.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::home::Home;
use crate::jupyter::installed::Installed;

/// A folder with `notebooks/` and `support-crate/`.
#[derive(Debug, Clone)]
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// The checkout around the current folder, else the one this program was started from by Cargo, else the one in a
    /// set-up that is shared.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir().context("the current folder cannot be read")?;
        let cargos = || Self::around(Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?));
        let shared = || {
            let home = Home::find().ok().filter(|home| !home.is_ours())?;
            Self::around(&Installed::read(&home).ok()?.support_crate)
        };
        Self::around(&here).or_else(cargos).or_else(shared).with_context(|| {
            format!(
                "{} is not inside a quantlab checkout\n  try: cd into the folder that holds `notebooks` and `support-crate`",
                here.display()
            )
        })
    }

    /// The nearest folder, upwards from `start`, that is a checkout.
    pub fn around(start: &Path) -> Option<Self> {
        start
            .ancestors()
            .find(|dir| dir.join("support-crate/Cargo.toml").is_file() && dir.join("notebooks").is_dir())
            .map(|dir| Self { root: dir.to_owned() })
    }

    /// The checkout's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The library crate.
    pub fn support_crate(&self) -> PathBuf {
        self.root.join("support-crate")
    }
    /// The lessons.
    pub fn notebooks(&self) -> PathBuf {
        self.root.join("notebooks")
    }
}
