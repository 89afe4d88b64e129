//! The exercises of a lesson: their reference answers, and the checks that these are given to.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use syn::visit::Visit;
use syn::{Item, Stmt};

use super::code::{items, name_of, pointer, statements, text};
use crate::lessons::{Lesson, code_cells, is, text_of};

/// A reference answer and its check.
#[derive(Debug, Clone)]
pub struct Exercise {
    /// The function that is asked for; of several, the first.
    pub name: String,
    /// The answer's cell.
    pub cell: String,
    /// What a learner writes of it, in bytes.
    pub region: Range<usize>,
    /// The functions that the check is given, each with the type of a pointer to it.
    pub functions: Vec<(String, String)>,
    /// The check's cell, an expression.
    pub check: String,
}

/// The parts of a notebook that go into a program.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// All items, as text; where a notebook has two of a name, the later.
    pub items: Vec<String>,
    /// The exercises, in order.
    pub exercises: Vec<Exercise>,
}

impl Code {
    /// Reads a lesson.
    ///
    /// # Errors
    /// A check is given what no pointer can stand for, or its answer has no solution.
    pub fn of(lesson: &Lesson) -> Result<Self> {
        let mut named: Vec<(String, String)> = Vec::new();
        let mut exercises = Vec::new();
        let mut answers: Vec<(String, Vec<Stmt>)> = Vec::new();
        for cell in code_cells(&lesson.notebook) {
            let source = text_of(cell);
            // The kernel's commands (`:dep`) are not Rust.
            let Ok(statements) = statements(&source) else { continue };
            for item in items(&statements) {
                let name = name_of(item, &source);
                named.retain(|(other, _)| *other != name);
                named.push((name, text(item, &source).to_owned()));
            }
            if is(cell, "solution") {
                answers.push((source, statements));
            } else if is(cell, "grade") {
                let called = Called::by(&statements);
                for (answer, statements) in std::mem::take(&mut answers) {
                    let found = Exercise::new(&answer, &statements, &called, &source);
                    match found.with_context(|| lesson.source().display().to_string())? {
                        Some(exercise) => exercises.push(exercise),
                        None => answers.push((answer, statements)),
                    }
                }
            }
        }
        Ok(Self { items: named.into_iter().map(|(_, item)| item).collect(), exercises })
    }
}

impl Exercise {
    /// None where the check is not about this answer.
    fn new(cell: &str, statements: &[Stmt], called: &[String], check: &str) -> Result<Option<Self>> {
        let mut functions = Vec::new();
        for item in items(statements) {
            if let Item::Fn(function) = item
                && let name = function.sig.ident.to_string()
                && called.contains(&name)
            {
                let pointer = pointer(&function.sig, cell).with_context(|| format!("{name} is generic"))?;
                functions.push((name, pointer));
            }
        }
        let Some((name, _)) = functions.first() else { return Ok(None) };
        let name = name.clone();
        let (Some(begin), Some(end)) = (cell.find("// BEGIN SOLUTION"), cell.rfind("// END SOLUTION")) else {
            bail!("the answer {name} has no solution");
        };
        let region = begin + cell[begin..].find('\n').unwrap_or(0)..end;
        Ok(Some(Self { name, cell: cell.to_owned(), region, functions, check: check.to_owned() }))
    }
}

/// Names that a check mentions.
struct Called(Vec<String>);

impl Called {
    fn by(statements: &[Stmt]) -> Vec<String> {
        let mut called = Self(Vec::new());
        statements.iter().for_each(|statement| called.visit_stmt(statement));
        called.0
    }
}

impl Visit<'_> for Called {
    fn visit_expr_path(&mut self, path: &syn::ExprPath) {
        self.0.extend(path.path.get_ident().map(ToString::to_string));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn code(source: &str, nbgrader: Value) -> Value {
        json!({"cell_type": "code", "id": "x", "source": source, "metadata": {"nbgrader": nbgrader}})
    }

    #[test]
    fn a_check_is_about_the_answers_that_it_names() {
        let (answer, check) = (json!({"solution": true}), json!({"grade": true}));
        let half = "fn half(x: f64) -> f64 {\n    // BEGIN SOLUTION\n    x / 2.0\n    // END SOLUTION\n}";
        let guess = "fn guess() -> f64 {\n    // BEGIN SOLUTION\n    2.0\n    // END SOLUTION\n}\nguess()";
        let cells = json!([
            code(":dep x", Value::Null),
            code("use quantlab::prelude::*;\nfn help() {}\nlet x = 1;", Value::Null),
            code(guess, answer.clone()),
            code(half, answer),
            code("check_half(half)", check),
            code("fn help() -> u8 { 1 }", Value::Null),
        ]);
        let lesson = Lesson { name: "01-x".into(), dir: "n/01-x".into(), notebook: json!({ "cells": cells }) };
        let Code { items, exercises } = Code::of(&lesson).unwrap();
        assert_eq!(items.len(), 4, "{items:?}");
        assert_eq!(items.last().unwrap(), "fn help() -> u8 { 1 }", "the later of two");
        let [exercise] = &exercises[..] else { panic!("{exercises:?}") };
        assert_eq!(exercise.name, "half");
        assert_eq!(exercise.functions, [("half".to_owned(), "fn(f64) -> f64".to_owned())]);
        assert_eq!(exercise.cell[exercise.region.clone()].trim(), "x / 2.0");
        assert_eq!(exercise.check, "check_half(half)");
    }
}
