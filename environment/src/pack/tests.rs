use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use super::facts::tests::facts;
use super::*;

/// A home with one of everything that matters.
fn small_home(root: &Path) -> Home {
    let put = |inner: &str, text: &str| {
        let path = root.join(inner);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("installed.json", "{}");
    put("stamps/build", "key");
    put("target/x/debug/deps/libhalf-1.rlib", "a library");
    put("target/x/debug/deps/course-1", "a test");
    put("target/x/debug/incremental/a", "a session");
    put(&format!("cargo-home/registry/src/{}/lib.rs", "a-long-name-".repeat(20)), "a source");
    put("cargo-home/credentials.toml", "a secret");
    put("kernels/live/kernel-1/a", "a live kernel");
    put("logs/build.log", "a log");
    fs::set_permissions(root.join("target/x/debug/deps/course-1"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(root.join("kernels/warm")).unwrap();
    let library = root.join("target/x/debug/deps/libhalf-1.rlib");
    set_modified(&library, Duration::new(1_700_000_000, 123_456_789)).unwrap();
    fs::hard_link(&library, root.join("kernels/warm/libhalf-1.rlib")).unwrap();
    fs::set_permissions(&library, fs::Permissions::from_mode(0o444)).unwrap();
    fs::create_dir_all(root.join("python/bin")).unwrap();
    symlink("/usr/bin/python3", root.join("python/bin/python")).unwrap();
    Home::at(root)
}

fn manifest(entries: usize) -> Vec<u8> {
    serde_json::to_vec(&Manifest { format: FORMAT, facts: facts(), sources: BTreeMap::new(), entries }).unwrap()
}

fn pack_small(dir: &Path) -> PathBuf {
    let home = small_home(&dir.join("from"));
    let entries = archive::list(home.root()).unwrap();
    let file = dir.join("set-up.tar.zst");
    archive::write(&file, &manifest(entries.len()), home.root(), &entries).unwrap();
    file
}

/// What unpacking `file` into an empty home says, which must leave nothing behind.
fn refusal(dir: &Path, file: &Path) -> String {
    let home = Home::at(&dir.join("to"));
    let error = unpack_into(&home, file, |_| Ok(Vec::new())).unwrap_err();
    assert!(!home.root().exists() || fs::read_dir(home.root()).unwrap().next().is_none());
    format!("{error:#}")
}

#[test]
fn what_was_packed_is_there_again_with_links_modes_and_times() {
    let dir = tempfile::tempdir().unwrap();
    let file = pack_small(dir.path());
    let home = Home::at(&dir.path().join("to"));
    unpack_into(&home, &file, |manifest| Ok(manifest.facts.misfits(&facts()))).unwrap();
    let at = |inner: &str| home.root().join(inner);
    let library = fs::metadata(at("target/x/debug/deps/libhalf-1.rlib")).unwrap();
    assert_eq!((library.mtime(), library.mtime_nsec()), (1_700_000_000, 123_456_789));
    assert_eq!(library.mode() & 0o777, 0o444);
    assert_eq!(library.ino(), fs::metadata(at("kernels/warm/libhalf-1.rlib")).unwrap().ino());
    assert_eq!(fs::read_link(at("python/bin/python")).unwrap(), Path::new("/usr/bin/python3"));
    let source = at("cargo-home/registry/src").join("a-long-name-".repeat(20)).join("lib.rs");
    assert_eq!(fs::read_to_string(source).unwrap(), "a source");
    assert!(home.is_done("build", "key"));
    for left_out in ["target/x/debug/deps/course-1", "target/x/debug/incremental", "cargo-home/credentials.toml"] {
        assert!(!at(left_out).exists(), "{left_out}");
    }
    assert!(!at("kernels/live").exists() && !at("logs").exists() && !at("unpacking").exists());
    let error = check_empty(&home).unwrap_err().to_string();
    assert!(error.contains("target") && error.contains("cargo lab clean"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = pack_small(dir.path());
    let here = facts::Facts { glibc: "2.31".to_owned(), ..facts() };
    let home = Home::at(&dir.path().join("to"));
    let error = unpack_into(&home, &file, |manifest| Ok(manifest.facts.misfits(&here))).unwrap_err();
    assert!(format!("{error:#}").contains("glibc 2.36 or newer is needed, but here it is 2.31"), "{error:#}");
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
    let home = small_home(&dir.path().join("again"));
    let entries = archive::list(home.root()).unwrap();
    archive::write(&file, &manifest(entries.len()), home.root(), &entries[..3]).unwrap();
    let error = refusal(dir.path(), &file);
    assert!(error.contains("truncated: 3 of"), "{error}");
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
        assert!(error.contains(name) && error.contains("not a path below"), "{error}");
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
    let status = std::process::Command::new("zstd").args(["-q", "-f"]).arg(&plain).status().unwrap();
    assert!(status.success());
    dir.join("forged.tar.zst")
}

#[test]
fn only_the_same_sources_get_their_times_back() {
    let dir = tempfile::tempdir().unwrap();
    let krate = dir.path().join("support-crate");
    fs::create_dir_all(krate.join("src")).unwrap();
    let file = krate.join("src/lib.rs");
    fs::write(&file, "a").unwrap();
    let time = Duration::new(1_700_000_000, 5);
    set_modified(&file, time).unwrap();
    let packed = sources(&krate).unwrap();
    // A checkout made later.
    fs::write(&file, "a").unwrap();
    assert!(restore_times(&krate, &packed).unwrap());
    assert_eq!(sources(&krate).unwrap(), packed);
    fs::write(&file, "b").unwrap();
    assert!(!restore_times(&krate, &packed).unwrap());
    assert_ne!(sources(&krate).unwrap()[Path::new("src/lib.rs")].modified, time);
}
