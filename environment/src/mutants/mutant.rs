//! A changed answer, and how its change is shown.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::code::statements;

/// A piece of an answer's text, and what stands there instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edit {
    /// Where the piece begins, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// What replaces it.
    pub text: String,
}

/// The lines that differ between an answer and its mutant, without indentation.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Lines of the answer.
    pub old: Vec<String>,
    /// Lines of the mutant.
    pub new: Vec<String>,
}

/// An answer with one edit.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// The whole cell.
    pub cell: String,
    /// What differs.
    pub change: Change,
    /// Tells changes that look the same apart: 1 for the first of them.
    pub number: usize,
}

impl Edit {
    fn apply(&self, cell: &str) -> Option<String> {
        Some([cell.get(..self.start)?, &self.text, cell.get(self.end..)?].concat())
    }
}

impl Change {
    /// The lines that differ, from the first to the last.
    pub fn between(old: &str, new: &str) -> Self {
        let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        let (old, new) = (lines(old), lines(new));
        let equal = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
        let (old, new) = (old[equal..].to_vec(), new[equal..].to_vec());
        let equal = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
        let kept = |lines: Vec<String>| {
            let end = lines.len() - equal;
            lines.into_iter().take(end).filter(|line| !line.is_empty()).collect()
        };
        Self { old: kept(old), new: kept(new) }
    }
}

/// The different mutants that these edits inside `region` make of a cell, in the order of the text. Those that do
/// not even parse are left out.
pub fn mutants(cell: &str, region: &Range<usize>, mut edits: Vec<Edit>) -> Vec<Mutant> {
    edits.retain(|edit| region.start <= edit.start && edit.end <= region.end);
    edits.sort();
    let mut seen = HashSet::from([without_space(cell)]);
    let mut numbers: BTreeMap<Change, usize> = BTreeMap::new();
    let mut mutants = Vec::new();
    for edit in edits {
        let Some(text) = edit.apply(cell) else { continue };
        if !seen.insert(without_space(&text)) || statements(&text).is_err() {
            continue;
        }
        let change = Change::between(cell, &text);
        let number = numbers.entry(change.clone()).and_modify(|number| *number += 1).or_insert(1);
        mutants.push(Mutant { cell: text, number: *number, change });
    }
    mutants
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_the_lines_that_differ() {
        let change = Change::between("a\n  b\nc\nd", "a\n  x\n\n  y\nc\nd");
        assert_eq!((change.old, change.new), (vec!["b".to_owned()], vec!["x".to_owned(), "y".to_owned()]));
        let change = Change::between("a\nb\nb\nc", "a\nb\nc");
        assert_eq!((change.old, change.new), (vec!["b".to_owned()], vec![]));
    }

    #[test]
    fn mutants_are_different_parse_and_lie_in_the_region() {
        let cell = "fn f() -> u8 {\n    1 + 1\n}";
        let at = cell.find('1').unwrap();
        let edit = |start: usize, end: usize, text: &str| Edit { start, end, text: text.to_owned() };
        let edits = vec![
            edit(at + 4, at + 5, "2"),
            edit(at, at + 1, "2"),
            edit(at, at + 1, " 2"),
            edit(at, at + 1, "1"),
            edit(at, at + 1, "("),
            edit(3, 4, "g"),
        ];
        let found = mutants(cell, &(at - 1..at + 6), edits);
        let new: Vec<&str> = found.iter().map(|mutant| mutant.change.new[0].as_str()).collect();
        assert_eq!(new, ["2 + 1", "1 + 2"]);
    }
}
