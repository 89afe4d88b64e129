//! What a teacher looks at: her terminal, her spreadsheet, and pages in her browser, with her rights.

use serde_json::json;

use crate::class::{Class, MEAN, SQUARE, layers};

const SCRIPT: &str = "<script>alert('canary-script')</script>";

#[test]
fn nothing_that_a_learner_wrote_does_anything_to_who_reads_it() {
    let class = Class::new();
    let html = "println!(\"EVCXR_BEGIN_CONTENT text/html\\n<p>shown</p><script>alert('canary-script')</script><img src=x onerror=alert('canary-handler')>\\nEVCXR_END_CONTENT\");";
    // In two parts, for its source is on the page.
    let script =
        "println!(\"EVCXR_BEGIN_CONTENT application/javascript\\nalert('canary-{}')\\nEVCXR_END_CONTENT\", \"mime\");";
    let panic = "panic!(\"\\u{1b}[2J\\u{1b}]0;canary-title\\u{7}\");";
    let text = format!("# Mine\n{SCRIPT} <img src=x onerror=\"alert('canary-text')\">");
    let mut notebook = class.notebook(&[&text, html, script, panic], MEAN, SQUARE);
    // Without a source it is not run, and keeps the output that it came with.
    let picture = json!({
        "output_type": "display_data", "data": {"image/png": "AAAA"},
        "metadata": {"image/png": {"width": "1 onerror=alert('canary-width')"}},
    });
    notebook["cells"].as_array_mut().unwrap().push(json!({
        "cell_type": "code", "id": "picture", "metadata": {}, "source": "", "outputs": [picture], "execution_count": 1,
    }));
    std::fs::write(class.path("work/=1+1.ipynb"), notebook.to_string()).unwrap();
    let (mean, square) = ("fn mean(v: &[f64]) -> f64 { v[7] }", "fn square(x: i64) -> String { x.to_string() }");
    class.hand_in("smith.ipynb", &[], mean, square);
    let grades = class.grade(layers().first().map(String::as_str), &["--format=moodle"]);
    assert!(grades.said.contains("panicked: ") && grades.said.contains("canary-title"), "{}", grades.said);
    assert!(!grades.said.contains('\u{1b}') && !grades.said.contains('\u{7}'), "{:?}", grades.said);
    for table in ["grades.csv", "exercises.csv", "moodle.csv"] {
        for line in grades.read(table).lines() {
            assert!(
                !line.starts_with(['=', '+', '-', '@']) && !line.contains(",=") && !line.contains('\u{1b}'),
                "{line}"
            );
        }
    }
    let students = std::fs::read_dir(grades.out.join("feedback")).unwrap().flatten().map(|entry| entry.path());
    let folder = students.into_iter().find(|folder| !folder.ends_with("smith")).unwrap();
    let page = std::fs::read_to_string(folder.join("01-mini/01-mini.html")).unwrap();
    assert!(page.contains("shown</p>"), "what is harmless is there");
    let head = page.split_once("<head>").unwrap().1;
    assert!(
        head.starts_with("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"),
        "no script runs"
    );
    for canary in ["<script>alert('canary-script')", "onerror=\"alert", "onerror='alert"] {
        assert!(!page.contains(canary), "{canary}");
    }
    assert!(!page.contains("canary-mime"), "only what is shown");
    assert!(page.contains("base64,AAAA") && !page.contains("canary-width"), "nothing but the picture");
    assert!(page.contains("<b>1.5 points</b>"), "the check's card is in the feedback");
    // Of a check, no more than was handed out.
    let page = grades.read("feedback/smith/01-mini/01-mini.html");
    assert!(page.contains("square"), "{page}");
    assert!(!page.contains("/rustc/") && !page.contains("stack backtrace"), "no inside of a check");
}

#[test]
fn nbgraders_own_commands_and_formgraders_pages_take_a_graded_course() {
    let class = Class::new();
    // What this must come to is in formgrader.py, and in reading.py more of the kind.
    let text = "# Mine\n[the plots](javascript:alert(1)) [more][x] ![far](https://elsewhere.example/a.png)\n\n[x]: javascript:alert(2)\n\n<div style=\"position: fixed\">covers</div>";
    class.hand_in("smith.ipynb", &[text], MEAN, SQUARE);
    let key = class.path("key.csv");
    let grades =
        class.grade(layers().first().map(String::as_str), &["--anonymous", key.to_str().unwrap(), "--format=canvas"]);
    let id = std::fs::read_to_string(&key).unwrap().lines().nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert!(id.starts_with("learner-") && !grades.said.contains("smith"), "{}", grades.said);
    for file in ["grades.csv", "exercises.csv", "canvas.csv"] {
        let text = grades.read(file);
        assert!(text.contains(&id) && !text.contains("smith"), "{text}");
    }
    assert!(grades.read("canvas.csv").contains(&format!("\n{id},,,{id},,3.5\n")));
    let home = crate::home::home();
    let bin = home.join("python/bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = |program: &str, args: &[&str]| {
        let done = std::process::Command::new(bin.join(program))
            .args(args)
            .current_dir(&grades.out)
            .env("PATH", &path)
            .env("QUANTLAB_HOME", &home)
            .output()
            .unwrap();
        assert!(done.status.success(), "{program} {args:?}\n{}", crate::class::text(&done));
        crate::class::text(&done)
    };
    run("nbgrader", &["generate_feedback", "01-mini", "--force"]);
    run("nbgrader", &["export", "--to", "nbgrader.csv"]);
    assert!(grades.read("nbgrader.csv").contains(&id));
    // What formgrader shows of a notebook, by its own handlers.
    let page = include_str!("formgrader.py");
    let said = run("python", &["-c", page, &id]);
    assert!(said.contains("formgrader shows it"), "{said}");
}
