//! A class that workers of a Dask scheduler grade, one of which a notebook kills.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::class::{Class, MEAN, SQUARE, layers};
use super::dask::{Dask, scheduler, wait_for_workers};

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
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().to_str().unwrap();
    // Fetched first, if it is not there.
    assert!(Dask::run(&["--version"]).0.wait().unwrap().success());
    let (of_address, address) = scheduler(dir.path(), "0");
    let worker = ["worker", &address, "--nworkers=2", "--nthreads=1", "--no-dashboard", "--local-directory", own];
    // And one in whose set-up nothing can be graded; it is sent away.
    let home = crate::home::home();
    let mut lame = Command::new(home.join("dask/python/bin/dask"));
    lame.args(["worker", &address, "--nthreads=1", "--no-dashboard", "--local-directory", own]);
    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("dask");
    let running = (of_address, Dask::run(&worker));
    let lame = Dask(lame.env("QUANTLAB_HOME", own).env("PYTHONPATH", tasks).spawn().unwrap());
    wait_for_workers(&home, &address, 3);
    let layer = layers().first().map(String::as_str);

    let class = Class::new();
    class.hand_in("right.ipynb", &[], MEAN, SQUARE);
    class.hand_in("none.ipynb", &[], "fn mean(_: &[f64]) -> f64 { 7.0 }", SQUARE);
    class.hand_in("half.ipynb", &["let x: i64 = \"text\";"], MEAN, "fn square(_: i64) -> i64 { 7 }");
    let tables = |grades: super::class::Grades| ["grades.csv", "exercises.csv"].map(|name| grades.read(name));
    // No sandbox is called so, but none is needed where nobody's code runs.
    let asking = layer.map(|_| "none");
    let elsewhere = class.grade(asking, &["--scheduler", &address]);
    assert!(elsewhere.said.contains("[3/3]") && elsewhere.said.contains("by "), "{}", elsewhere.said);
    assert!(elsewhere.said.contains("sent away: there is no set-up in"), "{}", elsewhere.said);
    drop(lame);
    let again = class.grade(asking, &["--scheduler", &address]);
    assert_eq!(again.said.matches("unchanged since it was graded").count(), 3, "{}", again.said);
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
    // A folder for each notebook in a worker's own; of those that died, some are left.
    let in_each = |entry: std::fs::DirEntry| entry.path().read_dir().into_iter().flatten().flatten();
    let at_work = || -> HashSet<PathBuf> {
        let workers = dir.path().join("dask-scratch-space").read_dir().into_iter().flatten().flatten();
        let folders = workers.flat_map(in_each).map(|entry| entry.path());
        folders.filter(|path| path.to_string_lossy().contains("/grade-")).collect()
    };
    let left = at_work();
    let (grades, _running) = std::thread::scope(|scope| {
        let grades = scope.spawn(|| class.grades(&mut grading));
        let patience = Instant::now() + Duration::from_secs(100);
        while at_work().is_subset(&left) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(running);
        let port = address.rsplit(':').next().unwrap();
        let running = (scheduler(dir.path(), port).0, Dask::run(&worker));
        (grades.join().unwrap(), running)
    });
    assert!(grades.said.contains("1 notebooks wait for it"), "{}", grades.said);
    assert_eq!(grades.field("right", 2), "3.5", "{}", grades.said);
}
