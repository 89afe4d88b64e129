//! What a cell reaches: nothing of the teacher's, of other learners', of the machine's.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use crate::class::{Class, MEAN, SQUARE, layers};

/// Says of each attempt whether it was held. `TEACHER`, `OUT`, `PORT` and `PID` are put in by the test.
const ATTEMPTS: &[&str] = &[
    r##"fn attempt(what: &str, worked: bool) { println!("{}: {what}", if worked { "BROKEN" } else { "held" }); }
unsafe extern "C" {
    fn ptrace(request: i64, pid: i32, a: usize, b: usize) -> i64;
    fn kill(pid: i32, signal: i32) -> i32;
    fn unshare(flags: i32) -> i32;
    fn chmod(path: *const i8, mode: u32) -> i32;
    fn fchmod(file: i32, mode: u32) -> i32;
    fn prlimit(pid: i32, limit: i32, new: *const [u64; 2], old: *mut [u64; 2]) -> i32;
    fn memfd_create(name: *const i8, flags: u32) -> i32;
    fn shmget(key: i32, size: usize, flags: i32) -> i32;
    fn socket(family: i32, kind: i32, protocol: i32) -> i32;
    fn getsockopt(socket: i32, level: i32, name: i32, value: *mut i32, len: *mut u32) -> i32;
    fn syscall(number: i64, ...) -> i64;
}"##,
    r##"use std::fs;
let home = std::env::var("QUANTLAB_HOME")?;
for path in ["TEACHER/secret.txt", "TEACHER/work/other.ipynb", "TEACHER/course/01-mini/solution.ipynb", "OUT/gradebook.db", "OUT/results"] {
    attempt(&format!("read {path}"), fs::read(path).is_ok() || fs::read_dir(path).is_ok());
}
for path in ["executed", "python", "target", "cargo-home/credentials.toml"] {
    let path = format!("{home}/{path}");
    attempt(&format!("read {path}"), fs::read(&path).is_ok() || fs::read_dir(&path).is_ok());
}
fs::create_dir_all("links")?;
let linked = std::os::unix::fs::symlink("TEACHER/secret.txt", "links/secret").is_ok();
attempt("read through a link", linked && fs::read("links/secret").is_ok());
for path in ["TEACHER/secret.txt", "TEACHER/new.txt", "OUT/grades.csv", "/usr/new", "/etc/new", "HOME/new", "/new", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper"] {
    attempt(&format!("write {path}"), fs::OpenOptions::new().create(true).append(true).open(path).is_ok());
}
for path in ["new", "kernels/answers/new", "kernels/warm/new", "cargo-home/new", "bin/lab", "installed.json", "kernels/.cargo/config.toml"] {
    let path = format!("{home}/{path}");
    attempt(&format!("write {path}"), fs::OpenOptions::new().create(true).append(true).open(path).is_ok());
}"##,
    r##"let build = std::path::PathBuf::from(std::env::var("EVCXR_TMPDIR")?).join("target");
let mut stack = vec![build.clone()];
let (mut libraries, mut written) = (0, 0);
while let Some(dir) = stack.pop() {
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_type()?.is_dir() { stack.push(entry.path()); continue; }
        if entry.file_name() == "libquantlab.so" {
            libraries += 1;
            // Where Cargo could not link to it, it has made the kernel a copy of its own.
            let is_shared = !fs::canonicalize(entry.path())?.starts_with(&build);
            written += (is_shared && fs::OpenOptions::new().append(true).open(entry.path()).is_ok()) as u32;
        }
    }
}
attempt("write to the library that every kernel loads", libraries == 0 || written > 0);
let own = build.parent().ok_or("no folder")?.to_owned();
for path in ["target/new", "Cargo.toml", "src/lib.rs", ".cargo/config.toml", "config", "home/.cargo/bin/cc", "home/.config/evcxr/init.evcxr"] {
    let path = own.join(path);
    let _ = fs::create_dir_all(path.parent().ok_or("no folder")?);
    attempt(&format!("write {}, which cells are built with", path.display()), fs::OpenOptions::new().create(true).append(true).open(&path).is_ok());
}
attempt("put another folder where cells are built", fs::rename(&build, "elsewhere").is_ok());
fs::write("new", "work")?;
fs::write(std::env::temp_dir().join("new"), "a temporary file")?;"##,
    r##"attempt("connect to a port of this machine", std::net::TcpStream::connect("127.0.0.1:PORT").is_ok());
attempt("connect to a socket of the teacher's", std::os::unix::net::UnixStream::connect("TEACHER/socket").is_ok());
let datagram = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"canary", "127.0.0.1:UDP"));
attempt("send a datagram", datagram.is_ok());
attempt("io_uring", unsafe { syscall(425, 1, 0) } >= 0);
attempt("make a user namespace", unsafe { unshare(0x10000000) } == 0);"##,
    r##"attempt("trace a process", unsafe { ptrace(16, PID, 0, 0) } == 0);
attempt("memory of a process", fs::OpenOptions::new().write(true).open("/proc/PID/mem").is_ok());
unsafe { kill(PID, 9) };
unsafe { chmod(c"TEACHER/secret.txt".as_ptr(), 0o777) };
attempt("limit a process", unsafe { prlimit(PID, 4, &[0, 0], std::ptr::null_mut()) } == 0);
attempt("memory that no limit counts", unsafe { memfd_create(c"x".as_ptr(), 0) } >= 0);
attempt("memory that stays", unsafe { shmget(7, 4096, 0o1600) } >= 0);
attempt("a raw socket", unsafe { socket(1, 3, 0) } >= 0);
attempt("TCP by another name", unsafe { socket(2, 1, 262) } >= 0);
use std::os::{fd::AsRawFd, unix::fs::PermissionsExt};
let own = fs::File::open(std::env::current_exe()?)?;
unsafe { fchmod(own.as_raw_fd(), 0o644) };
attempt("change the mode of a program", own.metadata()?.permissions().mode() & 0o111 == 0);
let mut environments = 0;
for entry in fs::read_dir("/proc")?.flatten() {
    let Ok(bytes) = fs::read(entry.path().join("environ")) else { continue };
    let canary = b"canary-in-the-environment";
    environments += bytes.windows(canary.len()).any(|part| part == canary) as u32;
}
attempt("read the teacher's environment", environments > 0);
fn is_first(e: &fs::DirEntry) -> bool { fs::read_to_string(e.path().join("cmdline")).is_ok_and(|c| !c.contains("bwrap\0") && c.ends_with("\0sandboxed\0")) }
fn opens(e: fs::DirEntry) -> bool { fs::read_dir(e.path().join("fd")).is_ok_and(|d| d.flatten().any(|f| fs::read_link(f.path()).is_ok())) }
attempt("files of the sandbox's first process", fs::read_dir("/proc")?.flatten().filter(is_first).any(opens));
fn is_other(e: &fs::DirEntry) -> bool { e.file_name().to_string_lossy().parse::<u32>().is_ok_and(|pid| pid != std::process::id()) }
attempt("memory of the process that the key goes through", fs::read_dir("/proc")?.flatten().filter(is_other).any(|e| fs::File::open(e.path().join("mem")).is_ok()));
fn listens(socket: i32) -> bool { let (mut is, mut len) = (0, 4); unsafe { getsockopt(socket, 1, 30, &mut is, &mut len) == 0 && is == 1 } }
attempt("answer the driver on the sockets at which it connects", (0..1024).any(listens));
fn is_log(e: &fs::DirEntry) -> bool {
    let open = |path| fs::metadata(&path).is_ok_and(|of| of.is_file()) && fs::OpenOptions::new().append(true).open(&path).is_ok();
    ["fd/1", "fd/2"].iter().any(|fd| open(e.path().join(fd)))
}
attempt("write to a log outside", fs::read_dir("/proc")?.flatten().any(|e| is_log(&e)));
println!("all tried");"##,
];

#[test]
fn a_cell_reaches_nothing_outside_its_sandbox() {
    for layer in layers() {
        let class = Class::new();
        let teacher = class.path("");
        let teacher = teacher.to_str().unwrap().trim_end_matches('/');
        fs::write(class.path("secret.txt"), "canary").unwrap();
        fs::write(class.path("work/other.ipynb"), "of another learner, and no notebook").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let unix = UnixListener::bind(class.path("socket")).unwrap();
        unix.set_nonblocking(true).unwrap();
        let mut process = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
        let cells: Vec<String> = ATTEMPTS
            .iter()
            .map(|cell| {
                cell.replace("TEACHER", teacher)
                    .replace("HOME/new", &format!("{}/new", std::env::home_dir().unwrap().display()))
                    .replace("OUT/", &format!("{teacher}/out/"))
                    .replace("PORT", &tcp.local_addr().unwrap().port().to_string())
                    .replace("UDP", &udp.local_addr().unwrap().port().to_string())
                    .replace("PID", &process.id().to_string())
            })
            .collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        class.hand_in("intruder.ipynb", &cells, MEAN, SQUARE);
        let mode = || fs::metadata(class.path("secret.txt")).unwrap().permissions();
        let before = mode();
        let grades = class.grade(Some(layer), &[]);
        let printed = grades.printed("intruder");
        assert!(printed.contains("all tried"), "{layer}: {printed}\n{}", grades.said);
        assert!(!printed.contains("BROKEN"), "{layer}: {printed}");
        assert_eq!(grades.field("intruder", 2), "3.5", "a sandbox costs nobody points\n{}", grades.said);
        // What can only be seen from outside.
        assert!(process.try_wait().unwrap().is_none(), "{layer}: a process outside was killed");
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(before, mode(), "{layer}");
        assert_eq!(fs::read_to_string(class.path("secret.txt")).unwrap(), "canary", "{layer}");
        assert!(!class.path("new.txt").exists(), "{layer}");
        assert!(tcp.accept().is_err() && unix.accept().is_err() && udp.recv(&mut [0; 16]).is_err(), "{layer}");
        // What Cargo said of cells is shared by all kernels of this user; only the course's own cells add to it.
        let home = crate::home::home();
        let answers = fs::read_dir(home.join("kernels/answers")).unwrap().flatten();
        // One that is being written has a name that begins with a dot, and another in a moment.
        let answers = answers.filter(|answer| !answer.file_name().to_string_lossy().starts_with('.'));
        let all: String = answers.map(|answer| fs::read_to_string(answer.path()).unwrap()).collect();
        assert!(!all.is_empty() && !all.contains("fn attempt("), "{layer}");
    }
}

#[test]
fn without_a_sandbox_nothing_is_graded_unless_asked_for() {
    let class = Class::new();
    class.hand_in("smith.ipynb", &[], MEAN, SQUARE);
    let grades = class.grade(Some("no such layer"), &[]);
    assert!(grades.said.contains("install bubblewrap") && grades.said.contains("--unsandboxed"), "{}", grades.said);
    assert!(!grades.out.join("grades.csv").exists());
}
