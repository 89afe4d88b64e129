//! Answers to the exercises, right and wrong, as learners write them: each is a file with what stands in the
//! notebook's cell, and says in its second line whether it is right, not there yet, or what the check must say
//! about it.

use quantlab_course::Score;

mod lesson_0;
mod lesson_1;
mod lesson_2;
mod lesson_3;
mod lesson_4;
mod lesson_5;
mod lesson_6;
mod lesson_7;
mod lesson_8;

/// The tests of one exercise: each answer is compiled as a module and given to the check.
#[macro_export]
macro_rules! answers {
    ($lesson:literal, $exercise:ident, $check:path: $($answer:ident),+ $(,)?) => {
        mod $exercise {
            $(
            #[allow(unused, clippy::all, reason = "answers are as learners write them")]
            mod $answer {
                // The prelude, and the exercises before this one.
                use super::super::reference::*;

                include!(concat!($lesson, "/", stringify!($exercise), "/", stringify!($answer), ".rs"));

                #[test]
                fn scores_as_it_should() {
                    let file = concat!($lesson, "/", stringify!($exercise), "/", stringify!($answer), ".rs");
                    $crate::expect(&$check($exercise), file);
                }
            })+

            #[test]
            fn no_answer_is_forgotten() {
                let listed = [$(stringify!($answer)),+];
                $crate::expect_listed(concat!($lesson, "/", stringify!($exercise)), &listed);
            }
        }
    };
}

fn answers_folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("answers")
}

/// The answer's second line decides: `// right`, `// not yet`, or `// wrong: ` and a part of the message that it
/// must get.
fn expect(score: &Score, file: &str) {
    let text = std::fs::read_to_string(answers_folder().join(file)).unwrap();
    let verdict = text.lines().nth(1).unwrap_or_default();
    if verdict == "// right" {
        assert_eq!(score.points(), score.max_points(), "{score}");
        return;
    }
    if verdict == "// not yet" {
        assert!(score.is_not_yet() && score.points() == 0, "{score}");
        return;
    }
    let message = verdict.strip_prefix("// wrong: ").unwrap_or_else(|| panic!("{file} has no verdict: {verdict}"));
    assert!(score.points() < score.max_points(), "not caught\n{score}");
    let complaints: Vec<String> = score.complaints().iter().map(ToString::to_string).collect();
    assert!(complaints.iter().any(|complaint| complaint.contains(message)), "no {message:?} in\n{score}");
}

fn expect_listed(folder: &str, listed: &[&str]) {
    let entries = std::fs::read_dir(answers_folder().join(folder)).unwrap();
    let mut found: Vec<String> =
        entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    found.sort();
    let mut listed: Vec<&str> = listed.to_vec();
    listed.sort_unstable();
    assert_eq!(found, listed);
}
