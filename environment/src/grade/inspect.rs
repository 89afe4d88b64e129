//! What a teacher should know of a notebook's source, read without running it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use syn::visit::{self, Visit};
use syn::{ExprUnsafe, ItemExternCrate, ItemFn, ItemForeignMod, ItemMod, Macro, Path, Safety, TypePtr, UseTree};

use crate::course::{cells, text_of};
use crate::mutants::code::statements;
use crate::mutants::exercise::code_cells;

/// Modules of the standard library, and a crate, that reach beyond an exercise.
const OUTSIDE: [(&str, &str); 6] = [
    ("process", "processes"),
    ("fs", "files"),
    ("net", "the network"),
    ("env", "environment variables"),
    ("os", "the operating system"),
    ("libc", "the operating system"),
];

/// Parsing nests as deeply as the source does. Of a cell of this size, even one of nothing but brackets fits into the
/// stack.
const MAX_CHARS: usize = 50_000;
const STACK: usize = 512 << 20;

/// [`remarks_here`] where a source that is made to overflow the stack does not.
pub fn remarks(notebook: &Value, starter: &Value) -> Result<Vec<String>> {
    std::thread::scope(|scope| {
        let reader =
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || remarks_here(notebook, starter));
        let reader = reader.context("no memory is left to read a notebook's source")?;
        reader.join().map_err(|_| anyhow!("a notebook's source cannot be read"))
    })
}

/// What the code cells do that no exercise asks for and the starter's do not do: definitions under a check's name, unsafe
/// code, and whatever reaches beyond the notebook. A remark is no verdict.
fn remarks_here(notebook: &Value, starter: &Value) -> Vec<String> {
    let handed_out: BTreeSet<String> = code_cells(starter).map(text_of).collect();
    let mut remarks = Vec::new();
    for (number, cell) in (1..).zip(cells(notebook)) {
        let source = text_of(cell);
        if cell["cell_type"] != "code" || handed_out.contains(&source) {
            continue;
        }
        if source.len() > MAX_CHARS {
            remarks.push(format!("did not read cell {number}: it has {} characters", source.len()));
            continue;
        }
        // What is no Rust does not compile either.
        let Ok(statements) = statements(&source) else { continue };
        let mut found = Found::default();
        statements.iter().for_each(|statement| found.visit_stmt(statement));
        if !found.0.is_empty() {
            let list: Vec<&str> = found.0.iter().map(String::as_str).collect();
            remarks.push(format!("read cell {number}: {}", list.join(", ")));
        }
    }
    remarks
}

/// Remarks on one cell, each once.
#[derive(Default)]
struct Found(BTreeSet<String>);

impl Found {
    fn path(&mut self, names: &[String]) {
        let is_std = names.first().is_some_and(|first| ["std", "core", "alloc"].contains(&first.as_str()));
        let named = if is_std { names.get(1) } else { names.first() };
        // `fs::write` after `use std::fs` is found by the `use`.
        let outside = OUTSIDE
            .iter()
            .find(|(module, _)| named.is_some_and(|name| name == module) && (is_std || *module == "libc"));
        if let Some((_, what)) = outside {
            self.0.insert(format!("uses {what}"));
        }
    }

    fn tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.path(&with(&name.ident)),
            UseTree::Rename(name) => {
                self.defined(&name.rename);
                self.path(&with(&name.ident));
            }
            UseTree::Glob(_) => self.path(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }

    fn defined(&mut self, name: &syn::Ident) {
        let name = name.to_string();
        if name.starts_with("check_") || ["quantlab", "std", "core"].contains(&name.as_str()) {
            self.0.insert(format!("defines `{name}`"));
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.defined(&item.sig.ident);
        if matches!(item.sig.safety, Safety::Unsafe(_)) {
            self.0.insert("uses `unsafe`".to_owned());
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.defined(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        self.0.insert(format!("names the crate `{}`", item.ident));
    }

    fn visit_item_foreign_mod(&mut self, _: &'ast ItemForeignMod) {
        self.0.insert("calls foreign functions".to_owned());
    }

    fn visit_expr_unsafe(&mut self, expr: &'ast ExprUnsafe) {
        self.0.insert("uses `unsafe`".to_owned());
        visit::visit_expr_unsafe(self, expr);
    }

    fn visit_type_ptr(&mut self, _: &'ast TypePtr) {
        self.0.insert("uses raw pointers".to_owned());
    }

    fn visit_use_tree(&mut self, tree: &'ast UseTree) {
        self.tree(&[], tree);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = mac.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if ["include", "include_str", "include_bytes"].contains(&name.as_str()) {
            self.0.insert("uses files".to_owned());
        }
        // What a macro makes of its tokens is not known here; that `unsafe` and names of crates stand in them is.
        let tokens = mac.tokens.to_string();
        if tokens.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe") {
            self.0.insert("uses `unsafe`".to_owned());
        }
        for (module, what) in OUTSIDE {
            if tokens.replace(' ', "").contains(&format!("std::{module}::")) {
                self.0.insert(format!("uses {what}"));
            }
        }
        visit::visit_macro(self, mac);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn remarks_on(cells: &[&str]) -> Vec<String> {
        let notebook = |cells: &[&str]| {
            let cells: Vec<Value> = cells.iter().map(|cell| json!({"cell_type": "code", "source": cell})).collect();
            json!({"cells": cells})
        };
        remarks(&notebook(cells), &notebook(&["std::fs::create_dir_all(\"results\")?;"])).unwrap()
    }

    #[test]
    fn what_no_exercise_asks_for_is_named() {
        let one = |cell: &str| remarks_on(&[cell]).join("; ");
        assert_eq!(one("fn check_resolve_dtype<T>(_: T) -> f64 { 7.0 }"), "read cell 1: defines `check_resolve_dtype`");
        assert_eq!(one("mod quantlab { pub mod course {} }"), "read cell 1: defines `quantlab`");
        assert_eq!(one("use my::thing as check_it;"), "read cell 1: defines `check_it`");
        assert_eq!(one("let x = unsafe { *(7 as *const u8) };"), "read cell 1: uses `unsafe`, uses raw pointers");
        assert_eq!(one("use std::{fs, collections::HashMap};"), "read cell 1: uses files");
        assert_eq!(one("std::process::exit(0);"), "read cell 1: uses processes");
        assert_eq!(one("println!(\"{:?}\", std::env::vars());"), "read cell 1: uses environment variables");
        assert_eq!(one("extern \"C\" { fn getpid() -> i32; }"), "read cell 1: calls foreign functions");
        assert_eq!(one("let text = include_str!(\"/etc/passwd\");"), "read cell 1: uses files");
    }

    #[test]
    fn a_source_that_nests_without_end_is_read_like_any_other() {
        let nested = format!("let x = {}1{};", "(".repeat(20_000), ")".repeat(20_000));
        assert!(remarks_on(&[&nested, &format!("let x = {}1;", "!".repeat(40_000))]).is_empty());
        assert_eq!(remarks_on(&[&"1;".repeat(50_000)]), ["did not read cell 1: it has 100000 characters"]);
    }

    #[test]
    fn answers_and_the_starters_own_cells_are_not_remarked_on() {
        let answer = "fn mean(values: &[f64]) -> f64 {\n    let process = values.iter().sum::<f64>();\n    process / values.len() as f64\n}";
        let cells = [answer, "std::fs::create_dir_all(\"results\")?;", ":dep rand", "fn (", "let env = 3; env + 1"];
        assert!(remarks_on(&cells).is_empty(), "{:?}", remarks_on(&cells));
    }
}
