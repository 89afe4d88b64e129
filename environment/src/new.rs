//! `cargo lab new`: a notebook of one's own, with the library ready.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::home::Home;
use crate::start;

/// What is written: a model, a text, a timing.
const NOTEBOOK: &str = include_str!("new-notebook.ipynb");
/// Beside the lessons, where JupyterLab shows it.
const FOLDER: &str = "own";

/// Writes a notebook, and returns where: `NAME` lies in `own/` beside the lessons, a path where it says.
pub fn new(name: &Path) -> Result<PathBuf> {
    let given = name.file_name().context("a notebook needs a name")?.to_string_lossy();
    let stem = given.strip_suffix(".ipynb").filter(|stem| !stem.is_empty()).unwrap_or(&given);
    let path = if name.components().count() > 1 || name.is_absolute() {
        name.to_owned()
    } else {
        start::root(&Checkout::find()?, &Home::find()?)?.join(FOLDER).join(name)
    };
    let path = path.with_file_name(format!("{stem}.ipynb"));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    // Whatever is there stays.
    let mut file = match fs::File::create_new(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} is there already\n  try: another name", path.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    };
    file.write_all(titled(stem).as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The notebook's text; a name may hold anything.
fn titled(name: &str) -> String {
    let title = serde_json::Value::from(name).to_string();
    NOTEBOOK.replace("TITLE", &title[1..title.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notebook_is_made_and_none_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = new(&dir.path().join("notes/my \"first\"")).unwrap();
        assert!(path.ends_with("notes/my \"first\".ipynb"));
        let notebook: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert!(notebook["cells"][0]["source"].as_str().unwrap().starts_with("# my \"first\"\n"));
        fs::write(&path, "mine").unwrap();
        let error = new(&path).unwrap_err().to_string();
        assert!(error.contains("is there already") && fs::read(&path).unwrap() == b"mine", "{error}");
        for name in ["llama-3.2-1b", "llama-3.2.ipynb"] {
            assert!(
                new(&dir.path().join(name)).unwrap().ends_with(format!("{}.ipynb", name.trim_end_matches(".ipynb")))
            );
        }
    }
}
