//! A class that workers of a Dask scheduler grade, one of which a notebook kills.

use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::Duration;

use super::class::{Class, MEAN, SQUARE, layers};

/// `lab dask ARGS`, which ends with the test.
struct Dask(Child);

impl Dask {
    fn run(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
        Self(command.arg("dask").args(args).spawn().unwrap())
    }
}

impl Drop for Dask {
    fn drop(&mut self) {
        // Asked, it ends its workers.
        let _: std::io::Result<_> = Command::new("kill").arg(self.0.id().to_string()).status();
        let _: std::io::Result<_> = self.0.wait();
    }
}

/// Kills the worker that it is graded by, if there is one.
const KILLER: &str = r#"fn parent_of(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap_or(0)
}
fn kill_worker() {
    let mut process = std::process::id();
    while process > 1 {
        if std::fs::read_to_string(format!("/proc/{process}/cmdline")).is_ok_and(|line| line.contains("spawn_main")) {
            let _ = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
        }
        process = parent_of(process);
    }
}
kill_worker();"#;

#[test]
fn workers_grade_as_one_machine_does_and_one_notebook_kills_no_more_than_two() {
    // Free now, and while this is so nobody else is given it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let address = format!("tcp://127.0.0.1:{port}");
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().to_str().unwrap();
    let scheduler = ["scheduler", "--host=127.0.0.1", "--port", &port, "--no-dashboard"];
    let worker = ["worker", &address, "--nworkers=2", "--nthreads=1", "--no-dashboard", "--local-directory", own];
    let running = (Dask::run(&scheduler), Dask::run(&worker));
    let layer = layers().first().map(String::as_str);

    let class = Class::new();
    class.hand_in("right.ipynb", &[], MEAN, SQUARE);
    class.hand_in("half.ipynb", &["let x: i64 = \"text\";"], MEAN, "fn square(_: i64) -> i64 { 7 }");
    let tables = |grades: super::class::Grades| ["grades.csv", "exercises.csv"].map(|name| grades.read(name));
    let elsewhere = class.grade(layer, &["--scheduler", &address]);
    assert!(elsewhere.said.contains("[2/2]") && elsewhere.said.contains("by "), "{}", elsewhere.said);
    let again = class.grade(layer, &["--scheduler", &address]);
    assert_eq!(again.said.matches("unchanged since it was graded").count(), 2, "{}", again.said);
    assert_eq!(tables(elsewhere), tables(class.grade(layer, &["--again", "--jobs=2"])));

    // With a sandbox, it would see no other process.
    let class = Class::new();
    class.hand_in("killer.ipynb", &[KILLER], MEAN, SQUARE);
    class.hand_in("right.ipynb", &[], MEAN, SQUARE);
    let grades = class.grade(None, &["--scheduler", &address]);
    assert_eq!(grades.field("killer", 5), "grader failed", "{}", grades.said);
    assert!(grades.said.contains("two workers died of it"), "{}", grades.said);
    assert_eq!((grades.field("right", 2), grades.field("right", 5)), ("3.5".to_owned(), "graded".to_owned()));

    // A scheduler that goes while somebody grades, and comes back.
    std::fs::remove_file(class.path("work/killer.ipynb")).unwrap();
    let mut grading = class.grading(None, &["--scheduler", &address, "--again"]);
    let (grades, _running) = std::thread::scope(|scope| {
        let grades = scope.spawn(|| class.grades(&mut grading));
        std::thread::sleep(Duration::from_secs(5));
        drop(running);
        let running = (Dask::run(&scheduler), Dask::run(&worker));
        (grades.join().unwrap(), running)
    });
    assert!(grades.said.contains("1 notebooks wait for it"), "{}", grades.said);
    assert_eq!(grades.field("right", 2), "3.5", "{}", grades.said);
}
