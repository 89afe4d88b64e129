use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::facts::tests::facts;
use super::*;
use crate::home::write_atomically;

/// A home with a file of each kind.
fn small_home(root: &Path) -> Vec<PathBuf> {
    let put = |inner: &str, text: &str| write_atomically(&root.join(inner), text.as_bytes()).unwrap();
    put("evcxr/bin/evcxr_jupyter", "a program");
    put("shim/libtch.so", "a shim");
    put("target/debug/build/half-1/build-script-build", "a script");
    let (script, other) =
        ("target/debug/build/half-1/build-script-build", "target/debug/build/half-1/build_script_build-2");
    fs::hard_link(root.join(script), root.join(other)).unwrap();
    fs::set_permissions(root.join("evcxr/bin/evcxr_jupyter"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("shim/libtch.so"), fs::Permissions::from_mode(0o444)).unwrap();
    [
        "evcxr",
        "evcxr/bin",
        "evcxr/bin/evcxr_jupyter",
        "shim",
        "shim/libtch.so",
        "target/debug/build/half-1",
        script,
        other,
    ]
    .map(PathBuf::from)
    .into()
}

fn manifest(entries: usize) -> Vec<u8> {
    let paths = Paths {
        home: "/old/home".to_owned(),
        checkout: "/old/home/checkout".to_owned(),
        sysroot: "/old/rust".to_owned(),
        crates: "/old/home/crates/mirror".to_owned(),
    };
    let steps = [("shim".to_owned(), "a key".to_owned())].into();
    let manifest = Manifest { format: FORMAT, facts: facts(), paths, steps, sources: "a hash".to_owned(), entries };
    serde_json::to_vec(&manifest).unwrap()
}

fn pack_small(dir: &Path) -> PathBuf {
    let entries = small_home(&dir.join("from"));
    let file = dir.join("set-up.tar.gz");
    archive::write(&file, &manifest(entries.len()), &dir.join("from"), &entries).unwrap();
    file
}

/// What unpacking `file` into an empty home says, which must leave nothing behind.
fn refusal(dir: &Path, file: &Path) -> String {
    let home = Home::at(&dir.join("to"));
    let error = unpack(&home, file, |_| Vec::new()).map(|_| ()).unwrap_err();
    assert!(!home.root().exists() || fs::read_dir(home.root()).unwrap().next().is_none());
    format!("{error:#}")
}

#[test]
fn what_was_packed_is_there_again_and_is_taken_where_it_was_made_from_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = pack_small(dir.path());
    let home = Home::at(&dir.path().join("to"));
    let manifest = unpack(&home, &file, |manifest| manifest.facts.misfits(&facts())).unwrap().unwrap();
    let at = |inner: &str| home.prebuilt().join(inner);
    assert_eq!(fs::metadata(at("evcxr/bin/evcxr_jupyter")).unwrap().mode() & 0o777, 0o755);
    assert_eq!(fs::metadata(at("shim/libtch.so")).unwrap().mode() & 0o777, 0o444);
    let inode = |inner: &str| fs::metadata(at(inner)).unwrap().ino();
    let build = "target/debug/build/half-1";
    assert_eq!(inode(&format!("{build}/build-script-build")), inode(&format!("{build}/build_script_build-2")));
    assert!(!home.root().join("unpacking").exists());

    let prebuilt = Prebuilt { home: home.clone(), manifest };
    assert!(!prebuilt.take("shim", "another key").unwrap() && !home.shim().exists());
    assert!(!prebuilt.take("evcxr", "a key").unwrap(), "nothing says what it was made from");
    assert!(prebuilt.take("shim", "a key").unwrap());
    assert_eq!(fs::read_to_string(home.shim().join("libtch.so")).unwrap(), "a shim");
    remove_if_there(&home.prebuilt()).unwrap();
    assert!(home.shim().exists() && !home.prebuilt().exists());
}

#[test]
fn what_does_not_fit_is_left_in_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let file = pack_small(dir.path());
    let home = Home::at(&dir.path().join("to"));
    assert!(unpack(&home, &file, |_| vec!["C library: too old".to_owned()]).unwrap().is_none());
    assert!(!home.root().exists());
}

#[test]
fn a_truncated_archive_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = pack_small(dir.path());
    let bytes = fs::read(&file).unwrap();
    for part in [0, 1, 8] {
        fs::write(&file, &bytes[..bytes.len() * part / 9]).unwrap();
        let error = refusal(dir.path(), &file);
        assert!(error.contains("truncated"), "{part}: {error}");
    }
    // Compressed well, but with less in it than it says.
    let entries = small_home(&dir.path().join("again"));
    archive::write(&file, &manifest(entries.len()), &dir.path().join("again"), &entries[..3]).unwrap();
    let error = refusal(dir.path(), &file);
    assert!(error.contains("truncated: 3 of"), "{error}");
}

#[test]
fn an_older_archive_is_told_by_its_format() {
    let error = Manifest::of_text(br#"{"format": 1, "facts": {}}"#).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "it has format 1, and this `cargo lab` reads format 2");
    assert!(Manifest::of_text(b"[]").map(|_| ()).unwrap_err().to_string().contains("damaged"));
}

#[test]
fn a_path_that_leads_out_is_refused() {
    for name in ["../escaped", "/tmp/escaped", "target/../../escaped", "thesis.tex"] {
        let dir = tempfile::tempdir().unwrap();
        let file = forged(dir.path(), |tar| {
            let mut header = tar::Header::new_gnu();
            // Past the library's own check of what is written.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(0);
            header.set_cksum();
            tar.append(&header, std::io::empty()).unwrap();
        });
        let error = refusal(dir.path(), &file);
        assert!(error.contains(name) && error.contains("not a path"), "{error}");
        assert!(!dir.path().join("escaped").exists());
    }
}

#[test]
fn a_link_that_leads_out_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let file = forged(dir.path(), |tar| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        tar.append_link(&mut header, "target", &outside).unwrap();
        let mut header = tar::Header::new_gnu();
        tar.append_data(&mut header, "target/escaped", std::io::empty()).unwrap();
    });
    refusal(dir.path(), &file);
    assert!(!outside.join("escaped").exists());
    let secret = dir.path().join("secret");
    fs::write(&secret, "").unwrap();
    let file = forged(dir.path(), |tar| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Link);
        tar.append_link(&mut header, "target", &secret).unwrap();
    });
    refusal(dir.path(), &file);
}

/// An archive whose manifest is right, and what else is put into it.
fn forged(dir: &Path, put: impl FnOnce(&mut tar::Builder<fs::File>)) -> PathBuf {
    let plain = dir.join("forged.tar");
    let mut tar = tar::Builder::new(fs::File::create(&plain).unwrap());
    let text = manifest(2);
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    tar.append_data(&mut header, "manifest.json", text.as_slice()).unwrap();
    put(&mut tar);
    tar.finish().unwrap();
    assert!(Command::new("gzip").arg("-f").arg(&plain).status().unwrap().success());
    dir.join("forged.tar.gz")
}

#[test]
fn the_longest_of_the_old_folders_names_is_replaced() {
    let old = Manifest::of_text(&manifest(0)).unwrap().paths;
    let here = Paths {
        home: "/h".to_owned(),
        checkout: "/c".to_owned(),
        sysroot: "/r".to_owned(),
        crates: "/h/crates/index".to_owned(),
    };
    let text = "/old/home/crates/mirror/half-1/src/lib.rs /old/home/checkout/a.rs /old/home/target/b /old/rust/lib";
    assert_eq!(old.moved(text, &here), "/h/crates/index/half-1/src/lib.rs /c/a.rs /h/target/b /r/lib");
}

#[test]
fn another_library_is_forgotten_and_what_it_stands_on_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("checkout");
    fs::create_dir_all(root.join("notebooks")).unwrap();
    write_atomically(&root.join("support-crate/Cargo.toml"), b"[package]").unwrap();
    write_atomically(&root.join("support-crate/src/lib.rs"), b"edited").unwrap();
    let checkout = Checkout::around(&root).unwrap();
    let home = Home::at(&dir.path().join("home"));
    let deps = home.prebuilt().join("target/x/debug/deps");
    fs::create_dir_all(&deps).unwrap();
    let files = ["libquantlab.so", "quantlab_course.d", "libquantlab_kernels-1.rlib", "libtch-1.rlib"];
    let forget = |sources: String| {
        files.iter().for_each(|file| fs::write(deps.join(file), "").unwrap());
        let manifest = Manifest { sources, ..Manifest::of_text(&manifest(0)).unwrap() };
        Prebuilt { home: home.clone(), manifest }.forget_other_library(&checkout).unwrap();
        files.map(|file| deps.join(file).exists())
    };
    assert_eq!(forget("another".to_owned()), [false, false, false, true]);
    assert_eq!(forget(content_key(&checkout.support_crate()).unwrap()), [true; 4]);
}
