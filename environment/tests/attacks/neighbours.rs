//! One learner's name, or notebook, and the rest of the class.

use crate::class::{Class, MEAN, SQUARE, layers};

/// What a cell shows in all the forms that there are, each just small enough by itself.
const SHOW: &str = r#"fn show() {
    for kind in ["text/plain", "text/html", "image/png", "image/jpeg", "image/svg+xml", "text/markdown", "text/latex", "application/x"] {
        println!("EVCXR_BEGIN_CONTENT {kind}\n{}\nEVCXR_END_CONTENT", "x".repeat(4_900_000));
    }
}"#;

#[test]
fn no_name_and_no_output_costs_the_others_anything() {
    let class = Class::new();
    // Of 255 bytes with the extension, which is all that a folder takes.
    let long = ["x", "y"].map(|end| format!("{}{end}", "n".repeat(248)));
    let markup = format!("# {}", "<script>".repeat(200_000));
    class.hand_in(&format!("{}.ipynb", long[0]), &[&markup], MEAN, SQUARE);
    class.hand_in(&format!("{}.ipynb", long[1]), &[], MEAN, "fn square(_: i64) -> i64 { 0 }");
    // As a file of the results' folder was once called.
    class.hand_in("to-record.ipynb", &[SHOW, "show();", "show(); println!(\"shown twice\");"], MEAN, SQUARE);
    let mut endless = class.notebook(&[], MEAN, SQUARE);
    endless["cells"] = vec![endless["cells"][0].clone(); 3000].into();
    std::fs::write(class.path("work/endless.ipynb"), endless.to_string()).unwrap();

    let grades = class.grade(layers().first().map(String::as_str), &["--jobs=2"]);
    for (student, points) in [(&*long[0], "3.5"), (&long[1], "1.5"), ("to-record", "3.5")] {
        assert_eq!(grades.field(student, 2), points, "{}", grades.said);
    }
    assert!(grades.read("grades.csv").contains("\nendless,,,,,unreadable,"), "{}", grades.said);
    assert!(grades.said.contains("left out outputs of 2 cells"), "{}", grades.said);
    let copy = std::fs::metadata(grades.out.join("results/to-record/01-mini.ipynb")).unwrap();
    assert!(copy.len() < 30_000_000 && grades.printed("to-record").contains("shown twice"), "{} bytes", copy.len());
    assert!(grades.out.join("feedback/to-record/01-mini/01-mini.html").exists());
}
