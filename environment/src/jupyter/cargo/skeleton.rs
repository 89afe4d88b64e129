//! Sources for rust-analyzer, without what types do not depend on.
//!
//! To infer a type, rust-analyzer parses all that it is shown, and expands all macros: 25 MB of source, most of it the
//! bodies of functions, which it never looks into. So it is shown a copy of each package without them. A package whose
//! sources may change, one in a folder of somebody's, is shown as it is; but library and course, of which a kernel keeps
//! what it started with, are not.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::home::{Home, remove_if_there};
use crate::jupyter::crates;
use crate::jupyter::sources::files_of;

/// What replaces a body. It fits every type.
const NO_BODY: &str = "{loop{}}";

/// Where a toolchain, and a skeleton of it, has the standard library's sources.
const LIBRARY: &str = "lib/rustlib/src/rust/library";

/// The standard library's packages whose types cells name. (One more, hashbrown, comes from the registry.)
const LIBRARY_PACKAGES: [&str; 4] = ["alloc", "core", "proc_macro", "std"];

/// Puts skeletons in the place of library and course and of the packages that come from a registry. In a home that cannot
/// be written to, what has none yet stays as it is.
pub fn show_instead(metadata: &mut Value) {
    let Ok(home) = Home::find() else { return };
    for package in metadata["packages"].as_array_mut().into_iter().flatten() {
        let is_ours = package["source"].is_null();
        if is_ours && !package["name"].as_str().is_some_and(crates::belongs) {
            continue;
        }
        let Some(manifest) = package["manifest_path"].as_str().map(PathBuf::from) else { continue };
        let Some(root) = manifest.parent() else { continue };
        let key = if is_ours { key_of_sources(root) } else { key(root) };
        let Ok(skeleton) = key.and_then(|key| of_package(root, &key, &home.skeletons())) else { continue };
        let moved = |path: &Value| {
            let inside = Path::new(path.as_str()?).strip_prefix(root).ok()?;
            Some(Value::from(skeleton.join(inside).to_string_lossy()))
        };
        for target in package["targets"].as_array_mut().into_iter().flatten() {
            if let Some(path) = moved(&target["src_path"]) {
                target["src_path"] = path;
            }
        }
        if let Some(path) = moved(&package["manifest_path"]) {
            package["manifest_path"] = path;
        }
        // Of what may change, rust-analyzer looks at the tests, too, and it looks again after each cell.
        if is_ours {
            package["source"] = "skeleton".into();
            forget_others(&skeleton, LONGEST_START);
        }
    }
}

/// The standard library's sources in the toolchain with this sysroot.
pub fn original_library(sysroot: &Path) -> PathBuf {
    sysroot.join(LIBRARY)
}

/// The skeleton of the standard library; it is made if it is not there.
pub fn of_library(sysroot: &Path, skeletons: &Path) -> io::Result<PathBuf> {
    let library = original_library(sysroot);
    let place = skeletons.join(format!("rust-{}", key(&library)?));
    make(skeletons, &place, |side| {
        let side = side.join(LIBRARY);
        LIBRARY_PACKAGES.iter().try_for_each(|package| copy(&library.join(package), &side.join(package)))?;
        ["Cargo.toml", "Cargo.lock"].iter().try_for_each(|file| fs::copy(library.join(file), side.join(file)).map(drop))
    })?;
    Ok(place.join(LIBRARY))
}

/// The skeleton of the package in `root`; it is made if it is not there.
fn of_package(root: &Path, key: &str, skeletons: &Path) -> io::Result<PathBuf> {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let place = skeletons.join(format!("{name}-{key}"));
    make(skeletons, &place, |side| copy(root, side))?;
    Ok(place)
}

/// Raised when the rules for what is left out change: skeletons are kept, for running kernels, when this program is
/// updated.
const RULES: u32 = 2;

/// A key that changes when a toolchain is updated in place.
fn key(root: &Path) -> io::Result<String> {
    let modified = fs::metadata(root.join("Cargo.toml"))?.modified()?;
    Ok(format!("{:x}", Sha256::digest(format!("{RULES} {} {modified:?}", root.display())))[..16].to_owned())
}

/// A key that changes when a file in a folder of somebody's does.
fn key_of_sources(root: &Path) -> io::Result<String> {
    let mut entries = files_of(root, &["Cargo.toml", "src"]).map_err(io::Error::other)?;
    // What an editor keeps beside a source is not copied.
    entries.retain(|entry| entry.contains(".rs ") || entry.contains("Cargo.toml "));
    Ok(format!("{:x}", Sha256::digest(format!("{RULES} {}", entries.join("\n"))))[..16].to_owned())
}

/// A kernel that was told of a skeleton has read it by then.
const LONGEST_START: Duration = Duration::from_secs(3600);

/// Removes the skeletons of other states of a package, but not one that a kernel may be about to read.
fn forget_others(skeleton: &Path, age: Duration) {
    let package = |path: &Path| Some(path.file_name()?.to_str()?.rsplit_once('-')?.0.to_owned());
    let is_old = |path: &Path| {
        fs::metadata(path).and_then(|meta| meta.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|is| is >= age))
    };
    let all = skeleton.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    for other in all.map(|entry| entry.path()).filter(|path| path != skeleton && is_old(path)) {
        if package(&other) == package(skeleton) {
            // At once, or half of it would be taken for all.
            let gone = skeleton.with_file_name(format!(".gone-{}", std::process::id()));
            let _ = fs::rename(&other, &gone).is_ok() && remove_if_there(&gone).is_ok();
        }
    }
}

/// Makes a folder that is either whole or not there.
fn make(skeletons: &Path, place: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    let side = skeletons.join(format!(".{}", std::process::id()));
    remove_if_there(&side).map_err(io::Error::other)?;
    fill(&side)?;
    // Another kernel may have been faster.
    fs::rename(&side, place).or_else(|_| remove_if_there(&side).map_err(io::Error::other))
}

/// Manifest and sources; not what only the package's own developers build.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, source, target) = (entry.file_name(), entry.path(), to.join(entry.file_name()));
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            let is_shown = !["tests", "benches", "examples", "target", ".git"].contains(&&*name);
            // Not another package, either.
            if is_shown && !source.join("Cargo.toml").exists() {
                copy(&source, &target)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&source)?;
            fs::write(&target, without_bodies(&text).unwrap_or(text))?;
        } else if name == "Cargo.toml" {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// The source without the bodies of its functions, including those that macros define; `None` if it is not Rust.
fn without_bodies(source: &str) -> Option<String> {
    let mut bodies = Vec::new();
    find_bodies(source.parse().ok()?, &mut bodies);
    let mut skeleton = String::with_capacity(source.len());
    let mut end = 0;
    for body in bodies {
        skeleton.push_str(source.get(end..body.start)?);
        skeleton.push_str(NO_BODY);
        end = body.end;
    }
    skeleton.push_str(source.get(end..)?);
    Some(skeleton)
}

/// The places of bodies, in order: the first braces after a `fn` and a name, unless a `;` comes before.
fn find_bodies(tokens: TokenStream, bodies: &mut Vec<Range<usize>>) {
    let mut signature = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // In a macro's definition the name may be `$name`. In the type of a function, there is none.
            TokenTree::Ident(ident) if ident == "fn" => {
                signature = match tokens.peek() {
                    Some(TokenTree::Ident(_)) => true,
                    Some(TokenTree::Punct(punct)) => punct.as_char() == '$' || signature,
                    _ => signature,
                };
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => signature = false,
            TokenTree::Group(group) if signature && group.delimiter() == Delimiter::Brace => {
                signature = false;
                // A macro must name what it repeats.
                if !names_variable(group.stream()) {
                    bodies.push(group.span().byte_range());
                }
            }
            TokenTree::Group(group) => find_bodies(group.stream(), bodies),
            _ => {}
        }
    }
}

/// Whether this is a part of a macro's definition that depends on its arguments.
fn names_variable(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == '$',
        TokenTree::Group(group) => names_variable(group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_go_and_all_else_stays() {
        let source = "/// Doc.\npub fn a<F: Fn(u8) -> u8>(f: F) -> [u8; { 2 }]\nwhere F: Copy { let fn_ = 1; }\n\
                      trait T { fn b(&self); fn c(&self) -> fn(u8) -> u8 { fn d() {} d } const E: u8 = { 3 }; }\n\
                      macro_rules! m { ($n:ident) => { fn $n() { \"{\" } fn e() { $n } } }\nstruct S { f: fn(u8) }\nimpl S {}";
        let expected = "/// Doc.\npub fn a<F: Fn(u8) -> u8>(f: F) -> [u8; { 2 }]\nwhere F: Copy {loop{}}\n\
                        trait T { fn b(&self); fn c(&self) -> fn(u8) -> u8 {loop{}} const E: u8 = { 3 }; }\n\
                        macro_rules! m { ($n:ident) => { fn $n() {loop{}} fn e() { $n } } }\nstruct S { f: fn(u8) }\nimpl S {}";
        assert_eq!(without_bodies(source).as_deref(), Some(expected));
        assert_eq!(without_bodies("fn ("), None);
        assert_eq!(without_bodies("// \u{e9}\nfn a() { 'x' }").as_deref(), Some("// \u{e9}\nfn a() {loop{}}"));
    }

    #[test]
    fn a_package_of_a_registry_is_shown_without_bodies() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tch-1.0.0");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join("tests")).unwrap();
        fs::write(root.join("Cargo.toml"), "[package]").unwrap();
        fs::write(root.join("src/lib.rs"), "pub fn a() -> u8 { 1 }").unwrap();
        let place = of_package(&root, &key(&root).unwrap(), &dir.path().join("skeletons")).unwrap();
        assert_eq!(fs::read_to_string(place.join("src/lib.rs")).unwrap(), "pub fn a() -> u8 {loop{}}");
        assert!(place.join("Cargo.toml").exists() && !place.join("tests").exists());
        assert_eq!(of_package(&root, &key(&root).unwrap(), &dir.path().join("skeletons")).unwrap(), place);
        assert_eq!(fs::read_dir(dir.path().join("skeletons")).unwrap().count(), 1);
    }

    #[test]
    fn the_library_is_shown_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let (root, skeletons) = (dir.path().join("support-crate"), dir.path().join("skeletons"));
        let write = |file: &str, text: &str| crate::home::write_atomically(&root.join(file), text.as_bytes()).unwrap();
        let shown = || {
            let place = of_package(&root, &key_of_sources(&root).unwrap(), &skeletons).unwrap();
            forget_others(&place, Duration::ZERO);
            place
        };
        write("Cargo.toml", "[package]");
        write("src/lib.rs", "pub fn a() -> u8 { 1 }");
        write("course/Cargo.toml", "[package]");
        write("course/src/lib.rs", "pub fn b() {}");
        let before = shown();
        assert!(!before.join("course").exists(), "that is another package");
        write("course/src/lib.rs", "pub fn b() -> u8 { 1 }");
        write("src/.lib.rs.swp", "of an editor");
        assert_eq!(shown(), before);
        write("src/more/deep.rs", "pub fn c() { 1 + 1; }");
        let after = shown();
        assert_eq!(fs::read_to_string(after.join("src/more/deep.rs")).unwrap(), "pub fn c() {loop{}}");
        assert!(after != before && !before.exists());
        fs::create_dir_all(skeletons.join("support-crate-1.0.0-0123456789abcdef")).unwrap();
        assert_eq!((shown(), fs::read_dir(&skeletons).unwrap().count()), (after, 2), "a package of another name stays");
    }
}
