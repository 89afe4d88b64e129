//! What pages and workflows promise without running anything: links, lengths, versions, stubs, pinned actions. Needs no set-up.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// The files with this ending in these folders of the checkout, not below them.
fn files(folders: &[&str], ending: &str) -> Vec<PathBuf> {
    let entries = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == ending)).collect();
    found.sort();
    assert!(!found.is_empty(), "{folders:?}");
    found
}

/// A page's lines that are not code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        !is_code && !fence
    })
}

/// The names by which links reach a page's headings, as GitHub and the book make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

/// The addresses that a page links to, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let plain: String = line.split('`').step_by(2).collect();
        found.extend(plain.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
    }
    found
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut faults = Vec::new();
    for page in files(&[".", "docs", "docs/upstream", "notebooks", "support-crate/embedded", "embedded-model"], "md") {
        let text = read(&page);
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            if !target.exists() || !(anchor.is_empty() || anchors(&read(&target)).contains(anchor)) {
                faults.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_seen() {
    assert_eq!(links("[a](b.md#c) `[d](e)` [f](g)\n```\n[h](i)\n```"), ["b.md#c", "g"]);
    let anchors = anchors("# What learners' code can do\n```\n# no\n```\n## `x`, and y-z");
    assert_eq!(anchors.into_iter().collect::<Vec<_>>(), ["what-learners-code-can-do", "x-and-y-z"]);
}

/// Who begins at one of them reads it to its end.
#[test]
fn first_pages_are_short() {
    for page in ["README.md", "docs/learning.md", "docs/teaching.md", "docs/developing.md"] {
        let lines = read(root().join(page)).lines().count();
        assert!(lines < 150, "{page} has {lines} lines: what only some readers need belongs behind a link");
    }
}

#[test]
fn all_say_the_same_version() {
    let manifest = read(root().join("Cargo.toml"));
    let of = |key: &str| -> String {
        let line = manifest.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key}")).trim().trim_matches('"').to_owned()
    };
    let version = of("version");
    assert!(read(root().join("CITATION.cff")).contains(&format!("\nversion: {version}\n")));
    assert!(read(root().join("CHANGELOG.md")).contains(&format!("\n## {version}")));
    for member in ["environment", "support-crate", "support-crate/kernels", "support-crate/course", "embedded-model"] {
        assert!(read(root().join(member).join("Cargo.toml")).contains("version.workspace = true"), "{member}");
    }
    let rust = of("rust-version");
    let pinned = read(root().join("rust-toolchain.toml"));
    let pinned = pinned.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"')).unwrap();
    assert!(pinned.starts_with(&format!("{rust}.")));
    assert!(read(root().join("environment/container/Containerfile")).contains(&format!("rust:{rust}-")));
    assert!(read(root().join(".github/workflows/tests.yml")).contains(&format!("toolchain install {pinned} ")));
}

/// The files of a member's targets: those that its manifest names, and a library or program where Cargo looks for one.
fn targets(member: &str) -> BTreeSet<String> {
    let is_there = |path: &String| root().join(path).is_file();
    let inferred = ["lib", "main"].map(|name| format!("{member}/src/{name}.rs"));
    let mut found: BTreeSet<String> = inferred.into_iter().filter(is_there).collect();
    for section in read(root().join(member).join("Cargo.toml")).split("\n[").skip(1) {
        let (head, body) = section.split_once('\n').unwrap_or((section, ""));
        let folder = match head.trim_matches(['[', ']']) {
            "bench" => "benches",
            "bin" => "src/bin",
            "example" => "examples",
            "test" => "tests",
            _ => continue,
        };
        let value =
            |key: &str| body.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'));
        let name = value("name").unwrap_or_else(|| panic!("{member}: a {head} without a name"));
        let file = value("path").map(|path| format!("{member}/{path}")).or_else(|| {
            let usual = ["", "/main"].map(|end| format!("{member}/{folder}/{name}{end}.rs"));
            usual.into_iter().find(is_there)
        });
        found.insert(file.unwrap_or_else(|| panic!("{member}: no file for {name}")));
    }
    found
}

/// Cargo reads a workspace only if each target that is named has a file; and of two in different places, as a stub and
/// the checkout's own file can be, it takes neither.
#[test]
fn the_image_begins_with_a_stub_for_each_target() {
    let container = read(root().join("environment/container/Containerfile"));
    let copied: BTreeSet<&str> =
        container.lines().filter(|line| line.starts_with("COPY ")).flat_map(str::split_whitespace).collect();
    let manifest = read(root().join("Cargo.toml"));
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")?.strip_suffix(']')).unwrap();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for member in members.split(", ").map(|member| member.trim_matches('"')) {
        assert!(copied.contains(format!("{member}/Cargo.toml").as_str()), "{member} is not copied");
        let is_copied = |file: &String| copied.iter().any(|folder| file.starts_with(&format!("{folder}/")));
        wanted.extend(targets(member).into_iter().filter(|file| !is_copied(file)));
    }
    let (before, _) = container.split_once("cargo lab setup").unwrap();
    let (_, stubs) = before.rsplit_once("RUN ").unwrap();
    let (files, folders): (BTreeSet<&str>, BTreeSet<&str>) =
        stubs.split_whitespace().filter(|word| word.contains('/')).partition(|word| word.ends_with(".rs"));
    assert_eq!(files, wanted.iter().map(String::as_str).collect::<BTreeSet<&str>>());
    for file in files {
        let folder = Path::new(file).parent().unwrap();
        assert!(folders.iter().any(|made| Path::new(made).starts_with(folder)), "no folder for {file}");
    }
}

/// A tag can be moved to other code by whoever owns the action; a commit cannot.
#[test]
fn workflows_pin_actions_and_have_limits() {
    for file in files(&[".github/workflows"], "yml") {
        let (name, text) = (file.display(), read(&file));
        for (_, used) in text.lines().filter_map(|line| line.split_once("uses: ")) {
            let (action, tag) = used.split_once(" # v").unwrap_or_else(|| panic!("{name}: which tag is {used}?"));
            let commit = action.split_once('@').map(|(_, commit)| commit).unwrap_or_default();
            assert!(commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{name}: {action}, v{tag}");
        }
        assert!(text.contains("\npermissions:"), "{name}: all that a token may do by default");
        let jobs = text.matches("runs-on:").count();
        assert!(jobs > 0 && text.matches("timeout-minutes:").count() == jobs, "{name}: a job without a limit");
        assert_eq!(
            text.matches("actions/checkout@").count(),
            text.matches("persist-credentials: false").count(),
            "{name}"
        );
    }
}

#[test]
fn workflows_fit_githubs_schema() {
    let mut check = Command::new("check-jsonschema");
    check.args(["--builtin-schema", "vendor.github-workflows"]).args(files(&[".github/workflows"], "yml"));
    match check.output() {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout)),
        // Not by a macro, whose output the test's success would hide.
        Err(_) => writeln!(
            std::io::stderr(),
            "\nworkflows were not checked against GitHub's schema: there is no check-jsonschema (a Python package)"
        )
        .unwrap(),
    }
}
