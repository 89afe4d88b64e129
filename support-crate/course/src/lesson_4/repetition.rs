//! `repetition`: how much of a text stood in it before.

use std::collections::HashSet;

use rand::Rng;

use crate::cases::{random, size};
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "How many runs of four words does a text of n words have, and how many of them are new where they stand?",
    "Collect the words with `split_whitespace`; `words.windows(4)` are the runs. Those that a `HashSet` does not take in \
     (`insert` says `false`) stood there before. Divide by their number, unless there are none.",
    "`let repeated = words.windows(4).filter(|run| !seen.insert(run.to_vec())).count();` over `words.len() - 3`, and 0 \
     for fewer than four words.",
];

/// Checks `repetition(text)`, a share from 0 to 1.
pub fn check_repetition(yours: fn(&str) -> f64) -> Score {
    let is_right = |texts: &[String]| -> Verdict {
        let figures = texts.iter().map(|text| Ok(figure(text, ask(|| Ok(yours(text)))?)));
        all_right(&figures.collect::<Result<Vec<_>, Complaint>>()?, |a, b| (a - b).abs() < 1e-6)
    };
    let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|&text| text.to_owned()).collect() };
    let new = "It rained. The door stood open, and nobody knew why, and nobody asked.";
    Score::new("repetition", HINTS)
        .point("it is the share of runs of four words that stood in the text before", is_right(&random_texts()))
        .point(
            "a text that says nothing twice has none",
            is_right(&texts(&[new, "one two three four", "so me thing was some th ing was", "ab c d e a bc d e"])),
        )
        .point("a text of fewer than four words has none", is_right(&texts(&["", "so so so", "  it was \n"])))
        .point(
            "only white space parts words",
            is_right(&texts(&[
                "The end.\nThe  end.\n\nThe end.\tThe end. The end",
                "a-b a-b a-b a-b a-b, na\u{ef}ve na\u{ef}ve",
            ])),
        )
}

/// Texts of few words and of many, that repeat a little or a lot, at once or later.
fn random_texts() -> Vec<String> {
    let mut rng = random(45);
    let words = ["the", "cat", "sat", "at", "a", "window", "The", "moon", "rose", "sea"];
    let mut text = |vocabulary: usize| {
        let n = 4 + size(&mut rng, 120);
        let mut text: Vec<&str> = (0..n).map(|_| words[rng.random_range(0..vocabulary)]).collect();
        if vocabulary == words.len() {
            text.extend(text.clone());
        }
        text.join(" ")
    };
    (0..40).map(|number| text([1, 2, 3, 10][number % 4])).collect()
}

fn figure(text: &str, got: f64) -> Figure {
    let words: Vec<&str> = text.split_whitespace().collect();
    let counted = |words: &[&str], n: usize| {
        let runs = words.len().saturating_sub(n - 1);
        let mut seen = HashSet::new();
        (words.windows(n).filter(|run| !seen.insert(*run)).count() as f64, runs as f64)
    };
    let share = |n: usize| match counted(&words, n) {
        (_, 0.0) => 0.0,
        (repeated, runs) => repeated / runs,
    };
    let often = |run: &[&str]| words.windows(4).filter(|other| *other == run).count() > 1;
    let (repeated, runs) = counted(&words, 4);
    let twice = words.windows(4).filter(|run| often(run)).count() as f64;
    let at_once = words.windows(5).filter(|five| five[..4] == five[1..]).count() as f64;
    let parts: Vec<&str> = text.split([' ', '\n']).filter(|part| !part.is_empty()).collect();
    let (without_tabs, runs_of_parts) = counted(&parts, 4);
    let mistakes = vec![
        (without_tabs / runs_of_parts, "a tab is white space, too"),
        (100.0 * share(4), "that is in percent; a share lies between 0 and 1"),
        (1.0 - share(4), "that is the share of runs that are new"),
        (repeated, "divide by the number of runs"),
        (share(1), "these are single words; take runs of four"),
        (share(3), "these are runs of three words"),
        (share(5), "these are runs of five words"),
        (repeated / words.len() as f64, "a text of n words has n - 3 runs of four, not n"),
        (repeated / (runs - 1.0), "a text of n words has n - 3 runs of four"),
        (twice / runs, "the first time that a run stands there, it repeats nothing"),
        (at_once / runs, "a run can come again later, not only at once"),
    ];
    let shown: String = text.chars().take(40).collect();
    Figure { what: format!("the repetition of {shown:?} ({} words)", words.len()), got, expected: share(4), mistakes }
}
