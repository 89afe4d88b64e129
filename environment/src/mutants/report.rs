//! The results: a table, and the surviving mutants that are on no list.

use super::allowed::Allowed;
use super::program::{Id, Subject};
use super::run::Verdict;

/// The results for an exercise's mutants.
#[derive(Debug)]
pub struct Row<'a> {
    /// Its lesson.
    pub lesson: &'a str,
    /// Its function.
    pub exercise: &'a str,
    dropped: usize,
    caught: usize,
    hung: usize,
    broke: usize,
    allowed: usize,
    /// Survivors that are on no list, as entries of one.
    pub survivors: Vec<String>,
}

impl<'a> Row<'a> {
    /// `verdicts` on the mutants that compiled. Mutants that are `allowed` and survived are removed from that list.
    pub fn new(
        subject: &'a Subject,
        exercise: usize,
        verdicts: &[(Id, Verdict)],
        allowed: &mut Vec<Allowed>,
    ) -> Option<Self> {
        let (answer, mutants) = (subject.code.exercises.get(exercise)?, subject.mutants.get(exercise)?);
        let count = |wanted| verdicts.iter().filter(|(_, verdict)| *verdict == wanted).count();
        let mut row = Self {
            lesson: &subject.lesson,
            exercise: &answer.name,
            dropped: mutants.len() - verdicts.len(),
            caught: count(Verdict::Caught),
            hung: count(Verdict::Hung),
            broke: count(Verdict::Broke),
            allowed: 0,
            survivors: Vec::new(),
        };
        for (id, _) in verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Passed) {
            let entry = Allowed::of(&answer.name, mutants.get(id.mutant)?);
            match allowed.iter().position(|allowed| *allowed == entry) {
                Some(known) => {
                    allowed.remove(known);
                    row.allowed += 1;
                }
                None => row.survivors.push(entry.to_string()),
            }
        }
        Some(row)
    }

    fn numbers(&self) -> [usize; 6] {
        let Self { dropped, caught, hung, broke, allowed, survivors, .. } = self;
        let compiled = caught + hung + broke + allowed + survivors.len();
        [compiled, *dropped, caught + hung + broke, hung + broke, *allowed, survivors.len()]
    }
}

/// A line for each exercise, and one for all.
pub fn table(rows: &[Row<'_>]) -> String {
    let mut text = format!(
        "{:58} {:>8} {:>12} {:>7} {:>14} {:>8} {:>9}\n",
        "exercise", "mutants", "not compiled", "caught", "hung or broke", "allowed", "survived"
    );
    let mut line = |title: &str, [compiled, dropped, caught, ended, allowed, survived]: [usize; 6]| {
        text.push_str(&format!(
            "{title:58} {compiled:8} {dropped:12} {caught:7} {ended:14} {allowed:8} {survived:9}\n"
        ));
    };
    let mut all = [0; 6];
    for row in rows {
        line(&format!("{} {}", row.lesson, row.exercise), row.numbers());
        all.iter_mut().zip(row.numbers()).for_each(|(sum, number)| *sum += number);
    }
    line("all", all);
    text
}
