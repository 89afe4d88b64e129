//! `cargo lab book`: the lessons and the docs as a website, made by Sphinx from the executed solutions, and as a PDF.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::checkout::Checkout;
use crate::home::Home;
use crate::jupyter::installed::on_path;
use crate::python::tools;
use crate::ui::{Steps, run_shown, took};

/// What a folder has that a book was begun in (`build.py` writes it).
const MARK: &str = ".quantlab-book";

/// What prints a page without a window: Chromium, and browsers that are made from it.
const BROWSERS: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "microsoft-edge", "brave-browser"];

/// The browser that prints the book, if there is one.
///
/// # Errors
/// There is none.
pub fn browser() -> Result<&'static str> {
    let found = BROWSERS.into_iter().find(|browser| on_path(browser));
    found.with_context(|| {
        format!("no browser that prints a PDF: none of {} is here\n  try: Debian's chromium", BROWSERS.join(", "))
    })
}

/// Makes the website in a folder, and the book as a PDF if that is asked for, from the solutions' committed outputs; nothing
/// is executed. Returns the first page.
///
/// # Errors
/// A page that loads something from another machine, a link that leads nowhere, a paper that the bibliography lacks, or
/// whatever Sphinx warns of; no browser for the PDF.
pub fn book(output: Option<&Path>, pdf: Option<&Path>) -> Result<PathBuf> {
    let (checkout, home) = (Checkout::find()?, Home::find()?);
    ensure!(
        home.is_ours(),
        "{} is shared with others, or not yours\n  try: QUANTLAB_HOME=FOLDER cargo lab book",
        home.root().display()
    );
    let browser = pdf.map(|_| browser()).transpose()?;
    let (source, steps) = (checkout.root().join("environment/book"), Steps::new(2));
    let start = steps.begin("tools", "Sphinx and MathJax, as pinned in environment/book/requirements.txt");
    let interpreter = tools(&home, "book", &source)?;
    let _alone = home.lock("book.lock", || eprintln!("      another book is being made; waiting for it"))?;
    took(start);
    let output = output.map_or_else(|| home.book().join("html"), Path::to_owned);
    if output.read_dir().is_ok_and(|mut entries| entries.next().is_some()) && !output.join(MARK).is_file() {
        bail!("{} holds something that is no book\n  try: an empty folder", output.display());
    }
    let start = steps.begin("pages", "lessons, formats, speeds, glossary, bibliography");
    let mut build = Command::new(interpreter);
    build.arg(source.join("build.py")).args([checkout.root(), &home.book().join("pages"), &output]);
    if let (Some(browser), Some(pdf)) = (browser, pdf) {
        build.arg(browser).arg(std::path::absolute(pdf)?);
    }
    run_shown(build.env("PYTHONUTF8", "1").env("PYTHONDONTWRITEBYTECODE", "1"))?;
    took(start);
    Ok(output.join("index.html"))
}
