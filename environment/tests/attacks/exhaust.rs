//! What a cell uses up: its own share, and nobody else's.

use crate::class::{Class, MEAN, SQUARE, layers};

const FORKS: &str = r#"let mut started = vec![];
for _ in 0..3000 {
    match std::process::Command::new("sleep").arg("7654321").spawn() { Ok(child) => started.push(child), Err(_) => break }
}
println!("started {} processes", started.len());"#;

const FILES: &str = r#"use std::io::Write;
fn fill(folder: &str) -> u64 {
    let mut written = 0;
    for number in 0..18 {
        let Ok(mut file) = std::fs::File::create(format!("{folder}/fill-{number}")) else { break };
        for _ in 0..16 { if file.write_all(&[1; 1 << 20]).is_err() { break } else { written += 1 } }
    }
    for number in 0..18 { let _ = std::fs::remove_file(format!("{folder}/fill-{number}")); }
    written
}
let temporary = std::env::temp_dir().display().to_string();
println!("filled {} {} {} {}", fill("."), fill(&temporary), fill("/tmp"), fill("/dev/shm"));
let one = std::fs::File::create("one")?.set_len(300 << 20).is_ok();
println!("one large file: {one}");
let _ = std::fs::remove_file("one");"#;

const FLOOD: &str = "loop { println!(\"flood\"); }";
const CONSTANT: &str = "#[allow(long_running_const_eval)]\nconst ENDLESS: u64 = { let mut i = 0u64; loop { i = i.wrapping_add(1); if i == u64::MAX { break i } } };\nprintln!(\"{ENDLESS}\");";
const MEMORY: &str = "let mut all: Vec<Vec<u8>> = vec![]; loop { all.push(vec![1; 1 << 20]); }";

#[test]
fn what_one_uses_up_is_limited_and_costs_nothing_of_what_comes_after() {
    for layer in layers() {
        let class = Class::new();
        class.hand_in("forks.ipynb", &[FORKS], MEAN, SQUARE);
        class.hand_in("files.ipynb", &[FILES], MEAN, SQUARE);
        class.hand_in("flood.ipynb", &[FLOOD], MEAN, SQUARE);
        class.hand_in("constant.ipynb", &[CONSTANT], MEAN, SQUARE);
        class.hand_in("memory.ipynb", &[MEMORY], MEAN, SQUARE);
        let grades = class.grade(Some(layer), &["--disk-limit=200"]);
        let number_after = |text: &str, word: &str| -> u64 {
            let rest = text.split_once(word).unwrap_or_else(|| panic!("{layer}: {text}\n{}", grades.said)).1;
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        let started = number_after(&grades.printed("forks"), "started ");
        // As root and without control groups, the system counts no processes.
        let counts = !is_root() || grades_with_groups();
        assert!(!counts || started < 1000, "{layer}: {started}");
        assert!(!processes().contains("sleep\u{0}7654321"), "{layer}: a process is left");
        let printed = grades.printed("files");
        assert!(printed.contains("one large file: false"), "{layer}: {printed}");
        if layer == "bubblewrap" {
            let filled = printed.split_once("filled ").unwrap().1.lines().next().unwrap().to_owned();
            let most: Vec<u64> = filled.split(' ').map(|n| n.parse().unwrap()).collect();
            assert!(most[0] <= 200 && most[1] <= 200 && most[2] <= 256 && most[3] <= 256, "{most:?}");
        }
        // Where no process can be started, no cell can be compiled: that is the learner's own loss. How the compiler's
        // work on a constant without end comes to its end is not for this test to say.
        let expected = [("files", "graded"), ("flood", "hung"), ("constant", ""), ("memory", "out of memory")];
        for (student, status) in expected {
            assert!(grades.field(student, 5).contains(status), "{layer}\n{}", grades.said);
            assert_eq!(grades.field(student, 2), "3.5", "{layer}\n{}", grades.said);
        }
    }
}

fn processes() -> String {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok()).collect()
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0")
}

fn grades_with_groups() -> bool {
    let report = std::process::Command::new(env!("CARGO_BIN_EXE_lab")).args(["doctor", "--json"]).output().unwrap();
    String::from_utf8_lossy(&report.stdout).contains("\"sandbox_cgroup\": \"holds\"")
}
