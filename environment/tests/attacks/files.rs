//! What is handed in as a file: only a notebook of reasonable size is read.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::class::{Class, MEAN, SQUARE, layers};

#[test]
fn what_is_no_notebook_is_not_read_and_nobody_is_lost() {
    let class = Class::new();
    let work = class.path("work");
    assert!(Command::new("mkfifo").arg(work.join("pipe.ipynb")).status().unwrap().success());
    symlink("/dev/zero", work.join("zero.ipynb")).unwrap();
    symlink(".", work.join("loop")).unwrap();
    fs::write(class.path("secret.ipynb"), class.notebook(&[], MEAN, SQUARE).to_string()).unwrap();
    symlink(class.path("secret.ipynb"), work.join("link.ipynb")).unwrap();
    fs::File::create(work.join("large.ipynb")).unwrap().set_len(1 << 40).unwrap();
    fs::write(work.join("deep.ipynb"), "[".repeat(1_000_000)).unwrap();
    fs::write(work.join("values.ipynb"), format!("[{}0]", "0,".repeat(1_000_001))).unwrap();
    // No compiler takes these, and looking through them must not take the grader with it.
    let nested = format!("let x = {}1{};", "(".repeat(20_000), ")".repeat(20_000));
    let many = format!("let x = {}1;", "!".repeat(45_000));
    // The names become folders', in which neither `+` nor `*` can stand.
    class.hand_in("a+b.ipynb", &[&nested, &many], MEAN, "fn square(_: i64) -> i64 { 0 }");
    fs::create_dir(work.join("folder.ipynb")).unwrap();
    let mut odd = class.notebook(&[], "fn mean(_: &[f64]) -> f64 { 7.0 }", SQUARE);
    odd["metadata"]["kernelspec"] = json!({"name": "../../bin/sh", "display_name": "x", "language": "rust"});
    odd["metadata"]["quantlab"]["lesson"] = json!("../../../etc");
    fs::write(work.join("a*b.ipynb"), odd.to_string()).unwrap();
    // Outside of the sandbox, were it obeyed.
    odd["metadata"]["kernelspec"] = json!({"name": "python3", "display_name": "Python", "language": "python"});
    fs::write(work.join("python.ipynb"), odd.to_string()).unwrap();

    let grades = class.grade(layers().first().map(String::as_str), &[]);
    let csv = grades.read("grades.csv");
    for (name, why) in [
        ("pipe", "it is not a regular file"),
        ("zero", "it is a link"),
        ("link", "it is a link"),
        ("large", "is not read"),
        ("deep", "it is not JSON"),
        ("values", "more than 1000000 values"),
    ] {
        let line = csv.lines().find(|line| line.starts_with(&format!("{name},"))).unwrap_or_else(|| panic!("{csv}"));
        assert!(line.contains("unreadable") && line.contains(why), "{line}");
    }
    assert!(!csv.contains("loop/"), "links to folders are not followed\n{csv}");
    let points = ["a+b", "a*b", "python"].map(|student| grades.field(student, 2));
    assert_eq!(points, ["1.5", "2", "2"], "{csv}\n{}", grades.said);
}
