//! What set-up says and does when something is missing or breaks off. Needs no kernel; the downloads come
//! from a package index that the test serves on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether `lab ARGS` succeeds in this home, and what it says on standard error.
fn lab(args: &[&str], home: &Path) -> (bool, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_lab")).args(args).env("QUANTLAB_HOME", home).output().unwrap();
    (done.status.success(), text(&done.stderr))
}

#[test]
fn everything_that_a_bare_machine_lacks_is_named_at_once() {
    let home = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_lab"))
        .arg("setup")
        .env("PATH", "/nonexistent")
        .env("QUANTLAB_HOME", home.path())
        .env_remove("CXX")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success());
    for part in ["Rust", "rustup.rs", "C++17 compiler", "apt-get install g++", "Python 3.11 or newer"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn a_home_that_the_linker_cannot_take_is_refused() {
    let (is_done, said) = lab(&["setup"], Path::new("/tmp/a b"));
    assert!(!is_done && said.contains("/tmp/a b") && said.contains("QUANTLAB_HOME="), "{said}");
}

#[test]
fn a_kernel_without_set_up_says_so() {
    let home = tempfile::tempdir().unwrap();
    let (is_done, said) = lab(&["kernel", "connection.json"], home.path());
    assert!(!is_done && said.contains("cargo lab setup"), "{said}");
}

#[test]
fn nothing_is_packed_before_it_is_set_up() {
    let home = tempfile::tempdir().unwrap();
    let (is_done, said) = lab(&["pack", "quantlab.tar.gz"], &home.path().join("home"));
    assert!(!is_done && said.contains("no finished set-up") && said.contains("cargo lab setup"), "{said}");
}

#[test]
fn clean_removes_nothing_that_is_not_its_own() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("downloads")).unwrap();
    std::fs::write(home.path().join("models.lock"), "").unwrap();
    std::fs::write(home.path().join("thesis.tex"), "mine").unwrap();
    assert!(!lab(&["clean"], home.path()).0, "nobody was asked");
    assert!(home.path().join("downloads").exists());
    assert!(lab(&["clean", "--yes"], home.path()).0);
    let left: Vec<_> = home.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["thesis.tex"]);
}

#[test]
fn a_download_that_broke_off_is_taken_up_where_it_was() {
    let index = Index::serve(1);
    let dir = tempfile::tempdir().unwrap();
    let done = index.fetch(dir.path(), &index.sha256);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    assert!(text(&done.stdout).contains("resuming from there"));
    let payload = std::fs::read(dir.path().join("out/lib/payload.bin")).unwrap();
    assert_eq!(payload.len(), PAYLOAD);
    assert!(!dir.path().join("out/other.txt").exists(), "only what was asked for is unpacked");
    assert_eq!(index.resumed.load(Ordering::SeqCst), 1);
}

#[test]
fn another_file_than_the_pinned_one_is_not_taken() {
    let index = Index::serve(0);
    let dir = tempfile::tempdir().unwrap();
    let done = index.fetch(dir.path(), &"0".repeat(64));
    assert!(!done.status.success() && text(&done.stderr).contains("0000 is pinned"), "{}", text(&done.stderr));
    assert!(!dir.path().join("out").exists());
}

const PAYLOAD: usize = 3_000_000;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A package index with one wheel; the first `cuts` downloads of it end in the middle.
struct Index {
    address: String,
    sha256: String,
    resumed: Arc<AtomicUsize>,
    _dir: tempfile::TempDir,
}

impl Index {
    fn serve(cuts: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let wheel = make_wheel(dir.path());
        let bytes = std::fs::read(&wheel).unwrap();
        let sum = Command::new("sha256sum").arg(&wheel).output().unwrap();
        let sha256 = text(&sum.stdout)[..64].to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let resumed = Arc::new(AtomicUsize::new(0));
        let (sha, counter) = (sha256.clone(), Arc::clone(&resumed));
        std::thread::spawn(move || {
            let mut cuts = cuts;
            for stream in listener.incoming().flatten() {
                answer(stream, &bytes, &sha, &mut cuts, &counter);
            }
        });
        Self { address, sha256, resumed, _dir: dir }
    }

    fn fetch(&self, dir: &Path, sha256: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/fetch_wheel.py");
        Command::new("python3")
            .arg(script)
            .args(["demo==1.0", sha256])
            .arg(dir.join("downloads/demo.whl"))
            .args(["--platform", "any", "--extract", "demo", "--into"])
            .arg(dir.join("out"))
            .arg("lib/*")
            .env("PIP_INDEX_URL", format!("{}/simple", self.address))
            .env("PIP_NO_CACHE_DIR", "1")
            .env_remove("PIP_FIND_LINKS")
            .output()
            .unwrap()
    }
}

/// One request; the connection is closed after it.
fn answer(mut stream: TcpStream, wheel: &[u8], sha256: &str, cuts: &mut usize, resumed: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    reader.read_line(&mut request).unwrap();
    let (mut from, mut by_pip) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) < 3 {
            break;
        }
        if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            from = range.trim().trim_end_matches('-').parse().unwrap_or(0);
        }
        // pip reads the whole wheel for its metadata; only our own downloads are cut.
        by_pip |= line.to_ascii_lowercase().starts_with("user-agent: pip/");
    }
    if request.contains("/simple/") {
        let name = "demo-1.0-py3-none-any.whl";
        let page = format!("<!DOCTYPE html><a href=\"/files/{name}#sha256={sha256}\">{name}</a>");
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
            page.len()
        );
        return;
    }
    let part = &wheel[from.min(wheel.len())..];
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    if from > 0 {
        resumed.fetch_add(1, Ordering::SeqCst);
    }
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", part.len());
    let whole = by_pip || *cuts == 0;
    let sent = if whole { part } else { &part[..part.len() / 2] };
    if !whole {
        *cuts -= 1;
    }
    let _ = stream.write_all(sent);
    let _ = stream.flush();
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = std::io::copy(&mut reader.take(1), &mut std::io::sink());
}

/// A wheel with a payload that does not compress.
fn make_wheel(dir: &Path) -> PathBuf {
    let path = dir.join("demo-1.0-py3-none-any.whl");
    let code = format!(
        "import random, sys, zipfile\n\
         with zipfile.ZipFile(sys.argv[1], 'w') as z:\n\
         \x20   z.writestr('demo/lib/payload.bin', random.Random(1).randbytes({PAYLOAD}))\n\
         \x20   z.writestr('demo/other.txt', 'x')\n\
         \x20   z.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')\n\
         \x20   z.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         \x20   z.writestr('demo-1.0.dist-info/RECORD', '')\n"
    );
    let done = Command::new("python3").args(["-c", &code]).arg(&path).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    path
}
