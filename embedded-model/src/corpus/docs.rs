//! The documentation that comes with the Rust toolchain, cleaned of repetitions and split in two.
//!
//! A page is held out when the hash of its path says so, which is the same on every machine. Every
//! paragraph is kept only once, also when two differ in nothing but numbers and names of number types
//! (the pages of `u8`, `i16`, ... are copies of each other), and held-out pages come first: what is in
//! them is not in the training text.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::html::{self, Block, Flavor};

/// One page in this many is held out.
const HELD_OUT_ONE_IN: u64 = 25;
/// Shorter documents are dropped.
const SHORTEST: usize = 200;
/// Headings that stand before every second example.
const EMPTY_HEADINGS: [&str; 3] = ["Examples", "Example", "Panics"];
/// The books. All are licensed under MIT or Apache-2.0; the embedded book, whose prose is not, is left out.
const BOOKS: [&str; 12] = [
    "book",
    "rust-by-example",
    "reference",
    "nomicon",
    "cargo",
    "rustc",
    "rustdoc",
    "edition-guide",
    "clippy",
    "style-guide",
    "unstable-book",
    "error_codes",
];
/// The crates. `std` shows nearly everything that is in `core` and `alloc`.
const CRATES: [&str; 2] = ["std", "proc_macro"];
/// Folders that are translations, earlier editions, or lists of processor instructions.
const SKIPPED_FOLDERS: [&str; 11] =
    ["2018-edition", "first-edition", "second-edition", "es", "fr", "ja", "ko", "pt", "zh", "arch", "src"];
/// Pages that repeat others.
const SKIPPED_PAGES: [&str; 5] = ["print.html", "toc.html", "404.html", "all.html", "SUMMARY.html"];

/// The text of the documentation, page by page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Documentation {
    /// The version of Rust that it documents.
    pub rust: String,
    /// Pages to train on.
    pub train: Vec<String>,
    /// Pages that are never trained on.
    pub held_out: Vec<String>,
}

impl Documentation {
    /// Reads what was extracted before from `cache`, or extracts it and writes it there.
    pub fn cached(cache: &Path) -> Result<Self> {
        let rust = rustc(&["--version"])?;
        if let Ok(text) = fs::read_to_string(cache)
            && let Ok(documentation) = serde_json::from_str::<Self>(&text)
            && documentation.rust == rust
        {
            return Ok(documentation);
        }
        let documentation = Self::extract(&documentation_folder()?, rust)?;
        fs::write(cache, serde_json::to_string(&documentation)?)
            .with_context(|| format!("cannot write {}", cache.display()))?;
        Ok(documentation)
    }

    fn extract(root: &Path, rust: String) -> Result<Self> {
        let mut pages = Vec::new();
        for (folders, flavor) in [(&BOOKS[..], Flavor::MdBook), (&CRATES[..], Flavor::Rustdoc)] {
            for folder in folders {
                let mut files = Vec::new();
                collect_pages(&root.join(folder), &mut files)?;
                files.sort();
                pages.extend(files.into_iter().map(|file| (file, flavor)));
            }
        }
        let mut seen = HashSet::new();
        let mut texts = |held_out: bool| -> Result<Vec<String>> {
            let chosen = pages.iter().filter(|(file, _)| {
                let path = file.strip_prefix(root).unwrap_or(file);
                is_held_out(&path.to_string_lossy().replace('\\', "/")) == held_out
            });
            let mut texts = Vec::new();
            for (file, flavor) in chosen {
                let page = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
                texts.extend(document(&html::blocks(&page, *flavor), &mut seen));
            }
            Ok(texts)
        };
        let held_out = texts(true)?;
        let train = texts(false)?;
        if train.is_empty() || held_out.is_empty() {
            bail!("the Rust documentation is not complete; run: rustup component add rust-docs");
        }
        Ok(Self { rust, train, held_out })
    }
}

/// Where rustup installs the documentation.
fn documentation_folder() -> Result<PathBuf> {
    let folder = PathBuf::from(rustc(&["--print", "sysroot"])?).join("share/doc/rust/html");
    if !folder.join("book/index.html").is_file() {
        bail!("the Rust documentation is not installed; run: rustup component add rust-docs");
    }
    Ok(folder)
}

fn rustc(arguments: &[&str]) -> Result<String> {
    let output = Command::new("rustc").args(arguments).output();
    let output = output.context("cannot run rustc, which knows where the documentation is")?;
    ensure!(output.status.success(), "rustc {} failed", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Adds the pages below a folder; a folder that is missing has none.
fn collect_pages(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_ref()) {
                collect_pages(&path, files)?;
            }
        } else if name.ends_with(".html") && !SKIPPED_PAGES.contains(&name.as_ref()) {
            files.push(path);
        }
    }
    Ok(())
}

/// Decides by the path below the documentation folder, so that the split is the same everywhere.
fn is_held_out(path: &str) -> bool {
    // FNV-1a: four lines, and unlike the standard library's hashers promised never to change.
    let hash = path
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash >> 32) % HELD_OUT_ONE_IN == 0
}

/// Joins the blocks that were not seen before; headings only where something new follows them.
fn document(blocks: &[Block], seen: &mut HashSet<String>) -> Option<String> {
    let mut text = String::new();
    let mut pending: Option<&str> = None;
    let mut title: Option<&str> = None;
    for block in blocks {
        let kept = match block {
            Block::Heading(heading) => {
                if title.is_none() {
                    title = Some(heading);
                } else if !EMPTY_HEADINGS.contains(&heading.as_str()) {
                    pending = Some(heading);
                }
                continue;
            }
            Block::Prose(text) => seen.insert(fingerprint(text)).then(|| text.clone()),
            Block::Code(code) => seen.insert(fingerprint(code)).then(|| format!("```\n{code}\n```")),
        };
        let Some(kept) = kept else { continue };
        if text.is_empty()
            && let Some(title) = title
        {
            text = format!("# {title}\n\n");
        }
        if let Some(heading) = pending.take() {
            text.push_str(&format!("## {heading}\n\n"));
        }
        let item = kept.starts_with("- ") && text.lines().next_back().is_some_and(is_item);
        if item {
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text.push_str(&kept);
        text.push_str("\n\n");
    }
    let text = text.trim_end();
    (text.len() >= SHORTEST).then(|| text.to_owned())
}

fn is_item(line: &str) -> bool {
    line.is_empty() || line.starts_with("- ")
}

/// The same for paragraphs that differ only in numbers, names of number types, case and spaces.
fn fingerprint(text: &str) -> String {
    const NUMBER_TYPES: [&str; 16] = [
        "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f16", "f32", "f64",
        "f128",
    ];
    let mut print = String::with_capacity(text.len());
    let lower = text.to_lowercase();
    for word in lower.split(|c: char| !c.is_alphanumeric()) {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            print.push('0');
            continue;
        }
        // Also within a name, as in `AtomicU64`.
        let number_type = NUMBER_TYPES.iter().find_map(|name| word.strip_suffix(name));
        print.push_str(number_type.unwrap_or(word));
    }
    print
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(text: &str) -> Block {
        Block::Prose(text.repeat(1 + SHORTEST / text.len()))
    }

    #[test]
    fn held_out_pages_are_few_and_always_the_same() {
        let path = |n| format!("std/page-{n}.html");
        let held_out = (0..10_000).filter(|n| is_held_out(&path(*n))).count();
        assert!((250..600).contains(&held_out), "{held_out}");
        let first = (0..100).find(|n| is_held_out(&path(*n)));
        assert_eq!(first, Some(55), "the split must never change");
    }

    #[test]
    fn a_paragraph_is_kept_only_where_it_comes_first() {
        let mut seen = HashSet::new();
        let first = [Block::Heading("First".into()), prose("Adds two u8 numbers. ")];
        let second = [Block::Heading("Second".into()), prose("Adds two i64 numbers. ")];
        let text = document(&first, &mut seen).expect("new text");
        assert!(text.starts_with("# First\n\nAdds two u8"), "{text}");
        assert_eq!(document(&second, &mut seen), None);
    }

    #[test]
    fn headings_without_new_text_are_dropped() {
        let mut seen = HashSet::new();
        let blocks = [
            Block::Heading("Title".into()),
            Block::Heading("nothing here".into()),
            Block::Heading("fn len()".into()),
            prose("The length. "),
            Block::Code("x.len()".into()),
        ];
        let text = document(&blocks, &mut seen).expect("text");
        assert!(!text.contains("nothing here"), "{text}");
        assert!(text.contains("## fn len()\n\nThe length."), "{text}");
        assert!(text.ends_with("```\nx.len()\n```"), "{text}");
    }

    #[test]
    fn train_and_held_out_share_no_paragraph() {
        let root = std::env::temp_dir().join(format!("embedded-docs-{}", std::process::id()));
        let book = root.join("book");
        fs::create_dir_all(&book).expect("a folder for the test");
        for n in 0..100 {
            let own = format!("Page {} says something of its own. ", "x".repeat(n + 1)).repeat(8);
            let page = format!("<main><h1>T</h1><p>{own}</p><p>Every page says this.</p></main>");
            fs::write(book.join(format!("{n}.html")), page).expect("a page");
        }
        let split = Documentation::extract(&root, "1".into());
        fs::remove_dir_all(&root).expect("the folder is there");
        let split = split.expect("both parts");
        assert_eq!(split.train.len() + split.held_out.len(), 100);
        let paragraphs = |texts: &[String]| -> HashSet<String> {
            let texts = texts.iter().flat_map(|text| text.split("\n\n").skip(1));
            texts.map(str::to_owned).collect()
        };
        assert!(paragraphs(&split.train).is_disjoint(&paragraphs(&split.held_out)));
    }
}
