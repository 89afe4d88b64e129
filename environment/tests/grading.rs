//! A small course graded through the real kernel. Needs a finished set-up: `cargo lab test` sees to that.

#[path = "common/home.rs"]
mod home;
#[path = "common/lab.rs"]
mod lab;

use std::fs;
use std::path::{Path, PathBuf};

use home::home;
use lab::{lab, text};
use serde_json::{Value, json};

const RIGHT_MEAN: &str = "fn mean(v: &[f64]) -> f64 { eprintln!(\"{v:?}\"); if v.is_empty() { 0.0 } else { v.iter().sum::<f64>() / v.len() as f64 } }";
const RIGHT_SQUARE: &str = "fn square(x: i64) -> i64 { x * x }";

/// What nine learners might hand in, and a tenth file that is none of the course's.
fn hand_in(work: &Path, starter: &Value) {
    let put = |path: &str, text: String| {
        let path = work.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let answered = |mean: &str, square: &str| {
        let mut notebook = starter.clone();
        *cell(&mut notebook, "mean") = json!(mean);
        *cell(&mut notebook, "square") = json!(square);
        notebook
    };
    put("untouched.ipynb", starter.to_string());
    put("garbage_01-mini.ipynb", "PK\u{3}\u{4} no notebook".into());
    put("stranger.ipynb", json!({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).to_string());

    let mut right = answered(RIGHT_MEAN, RIGHT_SQUARE);
    *cell(&mut right, "why") = json!("Because.");
    // As after a trip through a tool that keeps no metadata.
    for cell in right["cells"].as_array_mut().unwrap() {
        cell["metadata"] = json!({});
    }
    right["metadata"].as_object_mut().unwrap().remove("quantlab");
    put("right/01-mini/01-mini.ipynb", right.to_string());
    put("right/01-mini/timestamp.txt", "2026-01-01 00:00:00.000000 UTC".into());
    put("right/01-mini/submission_secret.txt", "secret".into());

    // 1 of the mean's 1.5 points: NaN for an empty slice.
    let half = answered(
        "fn mean(v: &[f64]) -> f64 { v.iter().sum::<f64>() / v.len() as f64 }",
        "fn square(x: i64) -> i64 { todo!() }",
    );
    put("half_01-mini.ipynb", half.to_string());
    put("does-not-compile.ipynb", answered("fn mean(v: &[f64]) -> f64 { \"text\" }", RIGHT_SQUARE).to_string());
    put(
        "hangs.ipynb",
        answered("fn mean(_: &[f64]) -> f64 { loop { std::hint::spin_loop() } }", RIGHT_SQUARE).to_string(),
    );
    let hungry = "fn mean(_: &[f64]) -> f64 { let mut v: Vec<Vec<u8>> = vec![]; loop { v.push(vec![1; 1 << 20]) } }";
    put("hungry.ipynb", answered(hungry, RIGHT_SQUARE).to_string());

    let overflow = "fn square(x: i64) -> i64 { if x == 0 { 0 } else { std::hint::black_box(square(x - 1)) + 1 } }";
    let mut deleted = answered(RIGHT_MEAN, overflow);
    deleted["cells"].as_array_mut().unwrap().retain(|cell| cell["id"] != "mean-check");
    put("deleted.ipynb", deleted.to_string());

    let mut changed = answered("fn mean(_: &[f64]) -> f64 { 7.0 }", "fn square(x: i64) -> i64 { x }");
    *cell(&mut changed, "square-check") = json!("score(&[(2.0, || true)])");
    put("changed/01-mini/new.ipynb", changed.to_string());
    put("changed/01-mini/old.ipynb", starter.to_string());
    let old = fs::File::options().write(true).open(work.join("changed/01-mini/old.ipynb")).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
}

/// The source of the cell with this id.
fn cell<'a>(notebook: &'a mut Value, id: &str) -> &'a mut Value {
    let cells = notebook["cells"].as_array_mut().unwrap();
    &mut cells.iter_mut().find(|cell| cell["id"] == id).unwrap()["source"]
}

/// A copy of the course in which starters can be made.
fn course(dir: &Path) -> PathBuf {
    let course = dir.join("course");
    fs::create_dir_all(course.join("01-mini")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mini-course/01-mini/solution.ipynb");
    fs::copy(source, course.join("01-mini/solution.ipynb")).unwrap();
    course
}

#[test]
fn a_starter_is_made_once_and_a_stale_one_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let course = course(dir.path());
    let starter = course.join("01-mini/starter.ipynb");
    let release = |args: &[&str]| lab(&[&["release"], args].concat(), &[("--lessons", &course)]);
    let missing = release(&["--check"]);
    assert!(!missing.status.success() && text(&missing.stderr).contains("01-mini") && !starter.exists());
    assert!(release(&[]).status.success());
    let made = fs::read(&starter).unwrap();
    let notebook = text(&made);
    assert!(notebook.contains("todo!()") && !notebook.contains("x * x") && notebook.ends_with("}\n"));
    assert!(release(&["--check"]).status.success());
    fs::remove_file(&starter).unwrap();
    assert!(release(&["01"]).status.success());
    assert_eq!(fs::read(&starter).unwrap(), made, "the same bytes each time");
    fs::write(&starter, "{}").unwrap();
    let stale = release(&["--check"]);
    assert!(!stale.status.success() && text(&stale.stderr).contains("try: cargo lab release"));
}

#[test]
fn each_learner_gets_their_points_whatever_the_others_hand_in() {
    let dir = tempfile::tempdir().unwrap();
    let (course, work, output) = (course(dir.path()), dir.path().join("work"), dir.path().join("out"));
    assert!(lab(&["release"], &[("--lessons", &course)]).status.success());
    let starter = fs::read(course.join("01-mini/starter.ipynb")).unwrap();
    hand_in(&work, &serde_json::from_slice(&starter).unwrap());
    let grade = || {
        let limits = ["grade", "--cell-timeout=20", "--time-limit=400", "--memory-limit=2500"];
        let done = lab(&limits, &[("--lessons", &course), ("--output", &output), ("--", &work)]);
        (done.status.success(), text(&done.stdout) + &text(&done.stderr))
    };
    let (all_graded, said) = grade();
    assert!(!all_graded && said.contains("2 of 11 notebooks could not be graded"), "{said}");
    // Of the eight that are run, some are in the gradebook before the last one has been.
    let left = said.split_once("the feedback of ").map_or("0", |(_, rest)| rest.split(' ').next().unwrap());
    assert!(left.parse::<usize>().unwrap() < 8, "{said}");
    let table = said.split_once("\n\n").unwrap().1;
    let expected = include_str!("mini-course/expected-table.txt");
    assert_eq!(table.split_once("\nIn ").unwrap().0.trim_end(), expected.trim_end(), "{said}");
    let csv = fs::read_to_string(output.join("exercises.csv")).unwrap();
    assert!(csv.contains("\nhalf,01-mini,mean-check,1,1.5,graded\n"), "{csv}");
    assert!(csv.contains("\nright,01-mini,why,0,1,by hand\n"), "{csv}");
    let feedback = fs::read_to_string(output.join("feedback/half/01-mini/01-mini.html")).unwrap();
    assert!(feedback.contains("<b>1 points</b>"), "the check's card is in the feedback");
    assert!(output.join("feedback/right/01-mini/timestamp.txt").exists(), "nbgrader releases the feedback by it");

    let (_, said) = grade();
    assert_eq!(said.matches("unchanged since it was graded").count(), 8, "{said}");
    assert!(said.contains(expected), "{said}");
}

#[test]
fn reading_and_showing_a_notebook_has_limits_and_leaves_nothing_that_acts() {
    let home = home();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut python = std::process::Command::new(home.join("python/bin/python"));
    let done = python.arg(tests.join("reading.py")).env("PYTHONPATH", tests.with_file_name("python")).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// A lesson of one exercise, with the course's own check.
fn dtype_lesson() -> Value {
    serde_json::from_str(include_str!("../src/doctor-lesson.ipynb")).unwrap()
}

#[test]
fn a_score_that_is_not_the_checks_earns_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (course, work, output) = (dir.path().join("course"), dir.path().join("work"), dir.path().join("out"));
    fs::create_dir_all(course.join("01-dtype")).unwrap();
    fs::create_dir_all(&work).unwrap();
    fs::write(course.join("01-dtype/solution.ipynb"), dtype_lesson().to_string()).unwrap();
    assert!(lab(&["release"], &[("--lessons", &course)]).status.success());
    let starter: Value = serde_json::from_slice(&fs::read(course.join("01-dtype/starter.ipynb")).unwrap()).unwrap();
    let hand_in = |name: &str, before_check: &[&str]| {
        let mut notebook = starter.clone();
        for source in before_check.iter().rev() {
            let id = format!("mine-{}", source.len());
            let cell = json!({"cell_type": "code", "id": id, "metadata": {}, "source": source, "outputs": [], "execution_count": null});
            notebook["cells"].as_array_mut().unwrap().insert(2, cell);
        }
        fs::write(work.join(format!("{name}.ipynb")), notebook.to_string()).unwrap();
    };
    let print = "println!(\"EVCXR_BEGIN_CONTENT text/plain\\n7\\nEVCXR_END_CONTENT\");";
    hand_in("shadow", &["fn check_resolve_dtype<T>(_: T) -> f64 { 7.0 }"]);
    hand_in("module", &["mod quantlab_course { pub fn check_resolve_dtype<T>(_: T) -> f64 { 7.0 } }"]);
    // A method by value is found before the score's own, which takes a reference.
    let display = format!(
        "trait Display {{ fn evcxr_display(self); }}\nimpl Display for quantlab_course::Score {{ fn evcxr_display(self) {{ {print} println!(\"{{self:?}}\"); }} }}"
    );
    hand_in("display", &[&display]);
    // Its own message, where the check does not compile, says that the library has no such check.
    let message = "#[diagnostic::on_unimplemented(message = \"cannot find function `check_resolve_dtype` in module `::quantlab_course`\")]\ntrait Never {}\nfn resolve_dtype<T: Never>(_: T) {}\nfn check_resolve_dtype<T>(_: T) -> f64 { 7.0 }";
    hand_in("message", &["fn resolve_dtype() {}", message]);
    hand_in("asks", &["quantlab_course::tell_key(true)?;", &display]);
    // In a process that a notebook has ended, the library would tell a key again, or what the notebook calls so.
    let told =
        format!("pub mod quantlab_course {{ pub fn tell_key(_: bool) {{ println!(\"{}\"); }} }}", "0".repeat(64));
    hand_in("ended", &[&told, &display, "std::process::abort();", "::quantlab_course::tell_key(true)?;"]);
    let late = format!(
        "fn resolve_dtype(_: &str, _: Device) -> Result<ResolvedDtype> {{ {print} std::thread::spawn(|| loop {{ {print} std::thread::sleep(std::time::Duration::from_millis(1)); }}); Ok(ResolvedDtype {{ dtype: Precision::Float16, label: String::new() }}) }}"
    );
    hand_in("late", &[&late]);
    let right = "fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> { quantlab::model::resolve_dtype(requested, device) }";
    hand_in("right", &[right]);
    // Whoever ends the process, or the kernel's state, by accident loses no points of what comes later.
    hand_in("revived", &[right, "std::process::abort();"]);
    hand_in("cleared", &[right, ":clear"]);
    hand_in("restarted", &[right, ":restart"]);
    // What would build another library under the course's name is not run, and costs no points.
    let library = "std::fs::create_dir_all(\"q/src\")?;\nstd::fs::write(\"q/Cargo.toml\", \"[package]\\nname = \\\"quantlab-course\\\"\\nversion = \\\"0.1.0\\\"\")?;";
    hand_in("builds", &[right, library, ":dep quantlab-course = { path = \"q\" }"]);
    fs::write(work.join("lee.ipynb.zip"), "").unwrap();
    let grade = || {
        let done = lab(
            &["grade", "--jobs=2", "--memory-limit=2500"],
            &[("--lessons", &course), ("--output", &output), ("--", &work)],
        );
        text(&done.stdout) + &text(&done.stderr)
    };
    let said = grade();
    assert!(said.contains("nobody is graded for them: lee.ipynb.zip"), "{said}");
    let points = |name: &str| {
        let csv = fs::read_to_string(output.join("exercises.csv")).unwrap();
        let line =
            csv.lines().find(|line| line.starts_with(&format!("{name},01-dtype,dtype-check,"))).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{csv}\n{said}")).split(',').nth(3).unwrap().to_owned()
    };
    for name in ["shadow", "module", "display", "message", "asks", "ended"] {
        assert_eq!(points(name), "0", "{name}: {said}");
    }
    assert!(said.contains("`:dep` changes how cells are built"), "{said}");
    for name in ["right", "revived", "cleared", "restarted", "builds"] {
        assert_eq!(points(name), "7", "{name}: {said}");
    }
    // What the answer itself is worth.
    assert!(points("late").parse::<f64>().unwrap() <= 2.0, "{said}");
    assert!(said.contains("defines `check_resolve_dtype`") && said.contains("defines `quantlab_course`"), "{said}");
    assert!(said.contains("no exercise cell was touched: the answers stand in other cells"), "{said}");
    // What has been recorded once is nobody's 0 points when the gradebook is lost.
    fs::remove_file(output.join("gradebook.db")).unwrap();
    let said = grade();
    assert!(said.contains("the gradebook does not have it any more") && said.contains("could not be graded"), "{said}");
}

#[test]
fn a_source_that_nests_without_end_ends_only_the_process_that_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let [notebook, starter] = ["notebook", "starter"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    fs::write(&starter, json!({"cells": []}).to_string()).unwrap();
    let remarks = |source: &str| {
        fs::write(&notebook, json!({"cells": [{"cell_type": "code", "source": source}]}).to_string()).unwrap();
        lab(&["remarks", &notebook, &starter], &[])
    };
    assert_eq!(text(&remarks("let x = unsafe { f() };").stdout), "[\"read cell 1: uses `unsafe`\"]\n");
    assert!(!remarks(&format!("let x: {}u8 = 1;", "&".repeat(49_900))).status.success());
}

#[test]
fn only_what_checks_need_is_run_and_the_rest_keeps_what_it_came_with() {
    let dir = tempfile::tempdir().unwrap();
    let (course, work, output) = (dir.path().join("course"), dir.path().join("work"), dir.path().join("out"));
    fs::create_dir_all(course.join("01-dtype")).unwrap();
    fs::create_dir_all(&work).unwrap();
    let code = |id: &str, source: &str| json!({"cell_type": "code", "id": id, "metadata": {}, "source": source, "outputs": [], "execution_count": null});
    let mut lesson = dtype_lesson();
    let cells = lesson["cells"].as_array_mut().unwrap();
    cells.insert(1, code("helper", "let mut named = \"float\".to_owned();"));
    cells.insert(2, code("change", "named.push_str(\"32\");"));
    cells.insert(
        3,
        code(
            "trait",
            "trait Twice { fn twice(&self) -> i64; }\nimpl Twice for i64 { fn twice(&self) -> i64 { 2 * self } }",
        ),
    );
    cells.insert(4, code("measure", "let measured = 6 * 7;\nprintln!(\"measured here: {measured}\");"));
    fs::write(course.join("01-dtype/solution.ipynb"), lesson.to_string()).unwrap();
    assert!(lab(&["release"], &[("--lessons", &course)]).status.success());
    let starter: Value = serde_json::from_slice(&fs::read(course.join("01-dtype/starter.ipynb")).unwrap()).unwrap();
    let hand_in = |name: &str, first: &str, own: &str| {
        let mut notebook = starter.clone();
        let answer = format!(
            "fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {{ {first} quantlab::model::resolve_dtype(requested, device) }}"
        );
        *cell(&mut notebook, "dtype") = json!(answer);
        let cells = notebook["cells"].as_array_mut().unwrap();
        cells[4]["outputs"] = json!([{"output_type": "stream", "name": "stdout", "text": "measured at home"}]);
        cells.push(code("mine", own));
        fs::write(work.join(format!("{name}.ipynb")), notebook.to_string()).unwrap();
    };
    hand_in("plain", "", "println!(\"of my own: {named}\");");
    // A trait's method does not name the trait: what does not compile is run again with all cells.
    hand_in("method", "if 1.twice() != 2 { panic!() }", "");
    let grade = |options: &[&str]| {
        let done =
            lab(&[&["grade"], options].concat(), &[("--lessons", &course), ("--output", &output), ("--", &work)]);
        let page = |name| fs::read_to_string(output.join(format!("feedback/{name}/01-dtype/01-dtype.html"))).unwrap();
        let csv = fs::read_to_string(output.join("exercises.csv")).unwrap();
        for name in ["plain", "method"] {
            assert!(
                csv.contains(&format!("\n{name},01-dtype,dtype-check,7,7,graded\n")),
                "{csv}\n{}",
                text(&done.stdout)
            );
        }
        [page("plain"), page("method")]
    };
    let [plain, method] = grade(&["--checks-only"]);
    assert!(plain.contains("measured at home") && !plain.contains("measured here: 42"));
    assert!(plain.contains("of my own: float32"), "a learner's own cell is run, after what it needs");
    assert!(method.contains("measured here: 42"));
    let [plain, _] = grade(&[]);
    assert!(plain.contains("measured here: 42") && !plain.contains("measured at home"), "it is graded again");
}
