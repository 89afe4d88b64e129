//! The mutants as a program: a module for each, and a function that gives one of them to its check.

use std::fmt::Write;
use std::ops::RangeInclusive;

use anyhow::Result;

use super::code::module;
use super::exercise::{Code, Exercise};
use super::mutant::Mutant;

/// A lesson's code, and the mutants of each exercise.
#[derive(Debug)]
pub struct Subject {
    /// Its name.
    pub lesson: String,
    /// Items and exercises.
    pub code: Code,
    /// For each exercise, in order.
    pub mutants: Vec<Vec<Mutant>>,
}

/// A mutant: lesson, exercise, and its place among the mutants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Which lesson.
    pub lesson: usize,
    /// Which of its exercises.
    pub exercise: usize,
    /// Which of its mutants.
    pub mutant: usize,
}

/// A program's text, and where in it each mutant stands.
#[derive(Debug, Default)]
pub struct Program {
    /// Rust.
    pub text: String,
    lines: Vec<(RangeInclusive<usize>, Id)>,
    written: usize,
}

impl Program {
    /// All mutants that are `wanted`. The program's `check(exercise, n)` gives the check the reference answer for `n =
    /// 0`, and otherwise the n-th of the exercise's mutants that are wanted; exercises are counted over all lessons.
    pub fn new(subjects: &[Subject], wanted: impl Fn(Id) -> bool) -> Result<Self> {
        let mut program = Self::default();
        let mut calls = String::new();
        let mut number = 0;
        for (lesson, subject) in subjects.iter().enumerate() {
            program.put(&format!("mod lesson_{lesson} {{\n{}", subject.code.items.join("\n")));
            for (exercise, (answer, mutants)) in subject.code.exercises.iter().zip(&subject.mutants).enumerate() {
                let ids = (0..mutants.len()).map(|mutant| Id { lesson, exercise, mutant });
                let chosen: Vec<Id> = ids.filter(|&id| wanted(id)).collect();
                program.exercise(exercise, answer, mutants, &chosen)?;
                writeln!(calls, "        {number} => lesson_{lesson}::exercise_{exercise}::check(mutant),")?;
                number += 1;
            }
            program.put("}");
        }
        program.put(&format!(
            "pub fn check(exercise: usize, mutant: usize) -> Option<quantlab_course::Score> {{\n    match exercise \
             {{\n{calls}        _ => None,\n    }}\n}}"
        ));
        Ok(program)
    }

    /// The mutant at a line, counted from 1.
    pub fn at(&self, line: usize) -> Option<Id> {
        self.lines.iter().find(|(lines, _)| lines.contains(&line)).map(|(_, id)| *id)
    }

    fn exercise(&mut self, number: usize, answer: &Exercise, mutants: &[Mutant], chosen: &[Id]) -> Result<()> {
        let Exercise { name: first, functions, check, .. } = answer;
        let list = |part: fn(&(String, String)) -> &str| functions.iter().map(part).collect::<Vec<_>>();
        let (names, types) = (list(|(name, _)| name), list(|(_, pointer)| pointer));
        let from = |module: &str| {
            let paths: Vec<String> = names.iter().map(|name| format!("{module}::{name}")).collect();
            format!("        ({},),\n", paths.join(", "))
        };
        self.put(&format!("pub mod exercise_{number} {{\n    // {first}\n    use super::*;"));
        for id in chosen {
            let begin = self.written + 1;
            let text = mutants.get(id.mutant).map(|mutant| module(&mutant.cell)).transpose()?.unwrap_or_default();
            self.put(&format!("    pub mod m{} {{\n    use super::super::*;\n{text}    }}", id.mutant));
            self.lines.push((begin..=self.written, *id));
        }
        let rows: String = chosen.iter().map(|id| from(&format!("m{}", id.mutant))).collect();
        let (reference, types, names) = (from("super"), types.join(", "), names.join(", "));
        self.put(&format!(
            "    const MUTANTS: &[({types},)] = &[\n{reference}{rows}    ];\n    pub fn check(mutant: usize) -> \
             Option<quantlab_course::Score> {{\n        let &({names},) = MUTANTS.get(mutant)?;\n        \
             Some({check})\n    }}\n}}"
        ));
        Ok(())
    }

    fn put(&mut self, text: &str) {
        let text = text.trim_end();
        self.text.push_str(text);
        self.text.push('\n');
        self.written += text.lines().count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        let cell = "fn one() -> u8 {\n    1\n}";
        let exercise = Exercise {
            name: "one".to_owned(),
            cell: cell.to_owned(),
            region: 0..cell.len(),
            functions: vec![("one".to_owned(), "fn() -> u8".to_owned())],
            check: "check_one(one)".to_owned(),
        };
        let mutant = |number: &str| Mutant { cell: cell.replace('1', number), change: Default::default(), number: 1 };
        let mutants = ["0", "2", "3"].map(mutant).to_vec();
        let code = Code { items: vec!["use x::*;".to_owned(), cell.to_owned()], exercises: vec![exercise] };
        Subject { lesson: "01-x".to_owned(), code, mutants: vec![mutants] }
    }

    #[test]
    fn every_wanted_mutant_stands_in_the_program_and_is_found_by_its_lines() {
        let program = Program::new(&[subject()], |id| id.mutant != 1).unwrap();
        syn::parse_file(&program.text).unwrap();
        let line = |text: &str| 1 + program.text.lines().position(|line| line.trim() == text).unwrap();
        let id = |mutant| Some(Id { lesson: 0, exercise: 0, mutant });
        assert_eq!((program.at(line("0")), program.at(line("3"))), (id(0), id(2)));
        assert_eq!(program.at(line("1")), None, "the reference is no mutant");
        assert!(!program.text.lines().any(|line| line.trim() == "2"));
        assert!(program.text.contains("(super::one,),\n        (m0::one,),\n        (m2::one,),\n"));
    }
}
