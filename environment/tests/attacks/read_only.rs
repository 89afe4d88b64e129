//! A set-up of somebody else's: kernels and grading write nowhere in it, and compile nothing that it has.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::class::{Class, MEAN, SQUARE, layers, text};

/// Says how many libraries the kernel has that are not links to the set-up's; its own is quantlab's.
const COUNT: &str = r#"{
    let target = std::path::PathBuf::from(std::env::var("EVCXR_TMPDIR").unwrap()).join("target");
    let folders = std::fs::read_dir(target).unwrap().flatten().map(|host| host.path().join("debug/deps"));
    let files = folders.filter_map(|deps| std::fs::read_dir(deps).ok()).flatten().flatten();
    let built = files.filter(|file| {
        let name = file.file_name().into_string().unwrap();
        name.ends_with(".rlib") && !name.contains("quantlab") && !file.file_type().unwrap().is_symlink()
    });
    println!("built here: {}", built.count());
}"#;

/// The command where nobody, root too, can write to the set-up; `None` where such a place cannot be made.
fn over_read_only(home: &Path, cache: &Path, command: &Command) -> Option<Command> {
    let make = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let wrapped = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-euc", make]).arg(home).env("XDG_CACHE_HOME", cache);
        unshare
    };
    let may = wrapped().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("skipped, for this user cannot mount: a read-only set-up is not tested here");
        return None;
    }
    let mut wrapped = wrapped();
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(wrapped)
}

#[test]
fn a_read_only_set_up_runs_notebooks_and_grades_them() {
    let home = std::env::var_os("QUANTLAB_HOME").expect("set by `cargo lab test`");
    let home = Path::new(&home);
    let class = Class::new();
    let cache = class.path("cache");
    class.hand_in("smith.ipynb", &[COUNT], MEAN, SQUARE);
    let mut run = Command::new(env!("CARGO_BIN_EXE_lab"));
    run.arg("run").arg(class.path("work/smith.ipynb")).arg("--output").arg(class.path("copies"));
    let Some(mut run) = over_read_only(home, &cache, &run) else { return };
    let done = run.output().unwrap();
    let copy = std::fs::read_to_string(class.path("copies/work/smith.ipynb")).unwrap_or_else(|_| text(&done));
    assert!(done.status.success() && copy.contains("built here: 0"), "{}\n{copy}", text(&done));
    for layer in layers() {
        let grade = class.grading(Some(layer), &["--again"]);
        let grades = class.grades(&mut over_read_only(home, &cache, &grade).unwrap());
        assert_eq!(grades.field("smith", 2), "3.5", "{}", grades.said);
        assert!(grades.printed("smith").contains("built here: 0"), "{}", grades.printed("smith"));
    }
}
