//! The mistakes that a learner could make, as edits of an answer's text. Many of them do not compile; the compiler
//! sorts these out.

mod arithmetic;
mod calls;
mod failures;
mod flow;
mod formats;
mod names;
mod steps;
mod values;

use syn::visit::{self, Visit};
use syn::{Expr, Item, Stmt};

use super::code::{arguments, bound, items, place, text};
use super::mutant::Edit;
pub use names::Vocabulary;

/// All edits of a cell's functions. The vocabulary is the whole course's.
pub fn edits(cell: &str, statements: &[Stmt], vocabulary: &Vocabulary) -> Vec<Edit> {
    let mut own = Vocabulary::default();
    own.read(statements);
    let (scope, edits) = (Vec::new(), Vec::new());
    let mut finder = Finder { cell, vocabulary, own, scope, outer: None, is_message: false, edits };
    items(statements).for_each(|item| finder.visit_item(item));
    finder.edits
}

/// Walks through an answer and notes what could be wrong in it.
struct Finder<'a> {
    cell: &'a str,
    vocabulary: &'a Vocabulary,
    /// The answer's.
    own: Vocabulary,
    /// The variables that can be named here.
    scope: Vec<names::Variable>,
    /// The statement around the innermost block.
    outer: Option<std::ops::Range<usize>>,
    /// Whether what stands here becomes an error's message, whose wording does not matter.
    is_message: bool,
    edits: Vec<Edit>,
}

impl<'a> Finder<'a> {
    fn text(&self, part: &impl syn::spanned::Spanned) -> &'a str {
        text(part, self.cell)
    }

    /// An expression's text, fit to stand beside an operator.
    fn operand(&self, expr: &Expr) -> String {
        let text = self.text(expr);
        match expr {
            Expr::Binary(_) | Expr::Cast(_) | Expr::Closure(_) | Expr::Range(_) | Expr::Unary(_) | Expr::If(_) => {
                format!("({text})")
            }
            _ => text.to_owned(),
        }
    }

    fn replace(&mut self, part: &impl syn::spanned::Spanned, text: impl Into<String>) {
        let range = place(part);
        self.edits.push(Edit { start: range.start, end: range.end, text: text.into() });
    }

    /// Two parts change places.
    fn swap(&mut self, first: &impl syn::spanned::Spanned, second: &impl syn::spanned::Spanned) {
        let (start, end) = (place(first).start, place(second).end);
        let between = self.cell.get(place(first).end..place(second).start).unwrap_or_default();
        let text = [self.text(second), between, self.text(first)].concat();
        self.edits.push(Edit { start, end, text });
    }

    /// Walks through a part in which there are more variables.
    fn with_names(&mut self, names: Vec<names::Variable>, walk: impl FnOnce(&mut Self)) {
        let before = self.scope.len();
        self.scope.extend(names);
        walk(self);
        self.scope.truncate(before);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        // Functions within functions do not see the variables around them.
        let scope = std::mem::take(&mut self.scope);
        visit::visit_item(self, item);
        self.scope = scope;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.default_result(function);
        let names = names::parameters(&function.sig, self.cell);
        self.with_names(names, |finder| finder.visit_block(&function.block));
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.steps(block);
        self.with_names(Vec::new(), |finder| {
            for statement in &block.stmts {
                let outer = finder.outer.replace(place(statement));
                finder.visit_stmt(statement);
                finder.outer = outer;
                if let Stmt::Local(local) = statement {
                    finder.scope.extend(names::declared(local));
                }
            }
        });
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        match statement {
            // `steps` has already dealt with its value, which nobody uses.
            Stmt::Expr(Expr::Try(try_), Some(_)) => {
                self.ended(try_);
                self.visit_expr(&try_.expr);
            }
            other => visit::visit_stmt(self, other),
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(init) = &local.init {
            for other in self.other_values(&init.expr) {
                self.replace(&init.expr, other);
            }
        }
        visit::visit_local(self, local);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Array(array) => self.elements(&array.elems),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Call(call) => self.call(call),
            Expr::Field(field) => self.field(field),
            Expr::Index(index) => self.index(index),
            Expr::Match(match_) => self.arms(match_),
            Expr::MethodCall(call) => self.method(call),
            Expr::Path(path) => self.variable(path),
            Expr::Range(range) => self.range(range),
            Expr::Struct(struct_) => self.fields(struct_),
            Expr::Try(try_) => self.failure(try_),
            Expr::Tuple(tuple) => self.handed(&tuple.elems),
            Expr::Unary(unary) => self.unary(unary),
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        // A function that is called is not a variable that could be mistaken for another.
        if let Expr::Path(path) = &*call.func {
            self.visit_expr_path(path);
        } else {
            self.visit_expr(&call.func);
        }
        let before = self.is_message;
        self.is_message |= self.text(&call.func).starts_with("Error::");
        call.args.iter().for_each(|argument| self.visit_expr(argument));
        self.is_message = before;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.base(&call.receiver, &call.method.to_string());
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_expr_field(&mut self, field: &'ast syn::ExprField) {
        self.base(&field.base, self.text(&field.member));
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        let names = closure.inputs.iter().flat_map(bound).map(names::Variable::unknown).collect();
        self.with_names(names, |finder| finder.visit_expr(&closure.body));
    }

    fn visit_expr_for_loop(&mut self, for_: &'ast syn::ExprForLoop) {
        self.rounds(&for_.expr, bound(&for_.pat).is_empty());
        self.visit_expr(&for_.expr);
        let names = bound(&for_.pat).into_iter().map(names::Variable::unknown).collect();
        self.with_names(names, |finder| finder.visit_block(&for_.body));
    }

    fn visit_expr_if(&mut self, if_: &'ast syn::ExprIf) {
        self.condition(&if_.cond);
        self.with_names(Vec::new(), |finder| visit::visit_expr_if(finder, if_));
    }

    fn visit_expr_while(&mut self, while_: &'ast syn::ExprWhile) {
        self.condition(&while_.cond);
        self.with_names(Vec::new(), |finder| visit::visit_expr_while(finder, while_));
    }

    fn visit_expr_let(&mut self, let_: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, let_);
        self.scope.extend(bound(&let_.pat).into_iter().map(names::Variable::unknown));
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let names = bound(&arm.pat).into_iter().map(names::Variable::unknown).collect();
        self.with_names(names, |finder| visit::visit_arm(finder, arm));
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        // In `Metrics { latency }`, the variable cannot be replaced without its field's name: see `fields`.
        if field.colon_token.is_some() {
            visit::visit_field_value(self, field);
        }
    }

    // In patterns too.
    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        if !self.is_message {
            self.literal(literal);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.sibling(path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        let arguments = arguments(mac);
        let mut no_values = 0;
        if mac.path.is_ident("vec") {
            self.elements(&arguments);
        } else {
            no_values = self.format(&arguments);
        }
        arguments.iter().skip(no_values).for_each(|argument| self.visit_expr(argument));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::code::statements;
    use crate::mutants::mutant::mutants;

    /// The lines that change, `old => new`.
    fn changes(cell: &str) -> Vec<String> {
        let statements = statements(cell).unwrap();
        let mut vocabulary = Vocabulary::default();
        vocabulary.read(&statements);
        let region = cell.find('{').unwrap() + 1..cell.len() - 1;
        let found = mutants(cell, &region, edits(cell, &statements, &vocabulary));
        found
            .iter()
            .map(|mutant| format!("{} => {}", mutant.change.old.join(" "), mutant.change.new.join(" ")))
            .collect()
    }

    /// What a function body of one line becomes.
    fn becomes(parameters: &str, line: &str) -> Vec<String> {
        let made = changes(&format!("fn f({parameters}) {{\n{line}\n}}"));
        let line = format!("{line} => ");
        made.iter().filter_map(|change| change.strip_prefix(&line)).map(str::to_owned).collect()
    }

    fn has(parameters: &str, line: &str, expected: &[&str]) {
        let made = becomes(parameters, line);
        for wanted in expected {
            assert!(made.iter().any(|line| line == wanted), "{wanted:?} is not among {made:#?}");
        }
    }

    #[test]
    fn a_small_function_gives_all_its_mutants() {
        assert_eq!(
            changes("fn share(part: usize, all: usize) -> usize {\n    100 * part / all\n}"),
            [
                " => return Default::default();",
                " => return Ok(Default::default());",
                "100 * part / all => 101 * part / all",
                "100 * part / all => 99 * part / all",
                "100 * part / all => 100 / all",
                "100 * part / all => part / all",
                "100 * part / all => (100 * part)",
                "100 * part / all => all",
                "100 * part / all => all / (100 * part)",
                "100 * part / all => 100 + part / all",
                "100 * part / all => 100 / part / all",
                "100 * part / all => 100 * all / all",
                "100 * part / all => 100 * part % all",
                "100 * part / all => 100 * part * all",
                "100 * part / all => 100 * part / part",
            ]
        );
    }

    #[test]
    fn numbers_comparisons_and_conditions_change() {
        has("x: f64", "x * 1000.0", &["x * 1.0", "x / 1000.0", "x", "1000.0"]);
        has(
            "x: u8",
            "x < 3 && !done(x)",
            &["x <= 3 && !done(x)", "x < 4 && !done(x)", "x < 3 || !done(x)", "x < 3 && done(x)"],
        );
        has(
            "x: u8",
            "if x > 1 { a(true) }",
            &["if !(x > 1) { a(true) }", "if false { a(true) }", "if x > 1 { a(false) }", ""],
        );
        has("n: usize", "(1..n).sum()", &["(1..=n).sum()", "(0..n).sum()", "(1..(n - 1)).sum()", "(1..n).product()"]);
        has("v: &[u8]", "v[v.len() / 2]", &["v[0]", "v[v.len() - 1]", "v[(v.len() + 1) / 2]"]);
    }

    #[test]
    fn calls_get_other_arguments_and_iterators_go_through_less() {
        has(
            "a: &str, b: &str",
            "g(a, b)?;",
            &["g(b, a)?;", "g(a, a)?;", "let _ = g(a, b);", "", "g(a, Default::default())?;"],
        );
        has("a: &str, b: usize", "g(a);", &["g(Default::default());", "g(a + 1);", "g(a - 1);", "g(a * 1000.0);", ""]);
        has(
            "v: &[u8]",
            "v.iter().max()",
            &["v.iter().min()", "v.iter()", "v.iter().rev().max()", "v.iter().skip(1).max()"],
        );
        has(
            "",
            "t.column(\"a\", \"s\")?.note(x)",
            &["t.note(x)", "t.column(\"s\", \"a\")?.note(x)", "t.column(\"\", \"s\")?.note(x)"],
        );
        has("v: &[u8]", "for x in v { g(x); }", &["for x in (v).into_iter().take(1) { g(x); }", "for x in v {  }"]);
        has(
            "",
            "[Side::Left, Side::Right]",
            &["[Side::Right, Side::Left]", "[Side::Left]", "[Side::Right, Side::Right]"],
        );
    }

    #[test]
    fn fields_are_swapped_forgotten_and_taken_for_each_other() {
        let line = "Run { latency, tokens: count, ..rest }";
        let expected = [
            "Run { latency: count, tokens: latency, ..rest }",
            "Run {  tokens: count, ..rest }",
            "Run { latency: latency * 1000.0, tokens: count, ..rest }",
            "Run { latency: tokens, tokens: count, ..rest }",
            "Run { latency, tokens: count + 1, ..rest }",
            "Run { latency, tokens: count, ..Default::default() }",
        ];
        has("latency: f64, tokens: f64", line, &expected);
        has("", "(run.first, pair.0, run.last)", &["(run.last, pair.0, run.last)", "(run.first, pair.1, run.last)"]);
    }

    #[test]
    fn errors_are_swallowed_and_texts_lose_pieces() {
        has(
            "",
            "let x = g()?;",
            &["let x = g().unwrap_or_default();", "let x = match g() { Ok(it) => it, Err(_) => continue };"],
        );
        has("", "match g() { Ok(x) => x, Err(e) => h(e) }", &["match g() { Ok(x) => x, Err(e) => {} }"]);
        has("", "Err(e)", &["Ok(Default::default())"]);
        has(
            "a: u8",
            "format!(\"{a:.2} of {}: {b}\", c)",
            &["format!(\" of {}: {b}\", c)", "format!(\"{a:.2} of : {b}\")"],
        );
    }

    #[test]
    fn steps_are_left_out_doubled_exchanged_and_moved() {
        let made = changes("fn f() {\n    for x in y {\n        wait()?;\n        v.push(x);\n    }\n}");
        let expected = [
            "wait()?; => ",
            "wait()?; => let _ = wait();",
            "v.push(x); => v.push(x); v.push(x);",
            "wait()?; v.push(x); => v.push(x); wait()?;",
            "for x in y { wait()?; => wait()?; for x in y {",
            "wait()?; v.push(x); } => v.push(x); } wait()?;",
        ];
        for wanted in expected {
            assert!(made.iter().any(|change| change == wanted), "{wanted:?} is not among {made:#?}");
        }
    }
}
