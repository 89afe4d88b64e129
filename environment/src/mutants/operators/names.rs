//! The wrong name: another variable, another variant, another field.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Expr, ExprField, ExprMethodCall, ExprPath, FnArg, Member, Path, Signature, Stmt};

use super::Finder;
use crate::mutants::code::{arguments, bound, text};

/// Names that are used beside each other.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// `PaddingSide` -> `Left`, `Right`.
    paths: BTreeMap<String, BTreeSet<String>>,
    /// Regardless of the type.
    fields: BTreeSet<String>,
    /// `loaded` -> `model`, `tokenizer`: the fields and methods of a variable.
    members: BTreeMap<String, BTreeSet<String>>,
}

impl Vocabulary {
    /// Adds what these statements name.
    pub fn read(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|statement| self.visit_stmt(statement));
    }
}

impl<'ast> Visit<'ast> for Vocabulary {
    fn visit_path(&mut self, path: &'ast Path) {
        if let Some((first, last)) = split(path) {
            self.paths.entry(first).or_default().insert(last);
        }
        visit::visit_path(self, path);
    }

    fn visit_member(&mut self, member: &'ast Member) {
        if let Member::Named(name) = member {
            self.fields.insert(name.to_string());
        }
    }

    fn visit_expr_field(&mut self, field: &'ast ExprField) {
        if let (Some(name), Member::Named(member)) = (variable_of(&field.base), &field.member) {
            self.members.entry(name).or_default().insert(member.to_string());
        }
        visit::visit_expr_field(self, field);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if let Some(name) = variable_of(&call.receiver) {
            self.members.entry(name).or_default().insert(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        arguments(mac).iter().for_each(|argument| visit::visit_expr(&mut *self, argument));
    }
}

/// A variable that can be named.
#[derive(Debug)]
pub struct Variable {
    name: String,
    /// Its type, where that is written down.
    of: Option<String>,
    /// Closures are called, not passed on.
    is_closure: bool,
}

impl Variable {
    /// A variable of a type that is not written down.
    pub fn unknown(name: String) -> Self {
        Self { name, of: None, is_closure: false }
    }
}

/// A function's parameters.
pub fn parameters(signature: &Signature, cell: &str) -> Vec<Variable> {
    let typed = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(input),
        FnArg::Receiver(_) => None,
    });
    let variables = typed.flat_map(|input| {
        let of = text(&input.ty, cell).to_owned();
        bound(&input.pat).into_iter().map(move |name| Variable { name, of: Some(of.clone()), is_closure: false })
    });
    variables.collect()
}

/// The variables of a `let`.
pub fn declared(local: &syn::Local) -> Vec<Variable> {
    let is_closure = local.init.as_ref().is_some_and(|init| matches!(*init.expr, Expr::Closure(_)));
    bound(&local.pat).into_iter().map(|name| Variable { name, of: None, is_closure }).collect()
}

impl Finder<'_> {
    /// Another variable in its place.
    pub(super) fn variable(&mut self, path: &ExprPath) {
        for other in self.other_variables(path) {
            self.replace(path, other);
        }
    }

    /// Another variable on which this field or method is used elsewhere.
    pub(super) fn base(&mut self, base: &Expr, member: &str) {
        let Expr::Path(path) = base else { return self.visit_expr(base) };
        for other in self.other_variables(path) {
            if self.own.members.get(&other).is_some_and(|members| members.contains(member)) {
                self.replace(path, other);
            }
        }
    }

    /// The variables that might be meant for this one.
    pub(super) fn other_variables(&self, path: &ExprPath) -> Vec<String> {
        let find = |name: &str| self.scope.iter().rev().find(|variable| variable.name == name);
        let Some(this) = path.path.get_ident().and_then(|name| find(&name.to_string())) else { return Vec::new() };
        let fits = |other: &&Variable| {
            let could_be = this.of.is_none() || other.of.is_none() || this.of == other.of;
            other.name != this.name && !other.is_closure && could_be
        };
        let others: BTreeSet<&String> = self.scope.iter().filter(fits).map(|other| &other.name).collect();
        if this.is_closure { Vec::new() } else { others.into_iter().cloned().collect() }
    }

    /// Another variant, constant or constructor of the same type.
    pub(super) fn sibling(&mut self, path: &ExprPath) {
        // The message tells which kind of error it is.
        let Some((first, last)) = split(&path.path).filter(|(first, _)| first != "Error") else { return };
        let known = self.vocabulary.paths.get(&first).into_iter().flatten().map(String::as_str);
        let constants = match last.as_str() {
            "NEG_INFINITY" | "MIN" => vec!["INFINITY", "MIN", "MIN_POSITIVE"],
            "INFINITY" | "MAX" => vec!["NEG_INFINITY", "MAX"],
            _ => Vec::new(),
        };
        for other in known.chain(constants).filter(|other| *other != last) {
            self.replace(path, format!("{first}::{other}"));
        }
    }

    /// Another field of the same type.
    pub(super) fn field(&mut self, field: &ExprField) {
        let this = self.text(&field.member);
        if this.parse::<usize>().is_ok() {
            let other = if this == "0" { "1" } else { "0" };
            self.replace(&field.member, other);
            return;
        }
        for other in self.own.fields.clone().into_iter().filter(|other| other != this) {
            self.replace(&field.member, other);
        }
    }
}

fn variable_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

/// `PaddingSide::Left` as its two parts.
fn split(path: &Path) -> Option<(String, String)> {
    let mut segments = path.segments.iter().map(|segment| segment.ident.to_string());
    let (first, last) = (segments.next()?, segments.next()?);
    let has_arguments = path.segments.iter().any(|segment| !segment.arguments.is_none());
    (segments.next().is_none() && !has_arguments).then_some((first, last))
}
