//! What a teacher should know of a notebook's source, read without running it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{
    Attribute, ExprUnsafe, Ident, Item, ItemExternCrate, ItemForeignMod, ItemImpl, ItemTrait, Macro, PatIdent, Safety,
    Signature, Stmt, Type, TypePtr, UseTree,
};

use crate::lessons::{cells, code_cells, grade_id, is, text_of};
use crate::mutants::code::statements;

/// Modules of the standard library, and a crate, that reach beyond an exercise.
const OUTSIDE: [(&str, &str); 6] = [
    ("process", "processes"),
    ("fs", "files"),
    ("net", "the network"),
    ("env", "environment variables"),
    ("os", "the operating system"),
    ("libc", "the operating system"),
];

/// The names of the standard library; a cell may use any of them.
const STD: [&str; 3] = ["std", "core", "alloc"];
/// Macros that read a file, or the environment, or write machine code, when a cell is compiled.
const MACROS: [(&str, &str); 7] = [
    ("include", "files"),
    ("include_str", "files"),
    ("include_bytes", "files"),
    ("env", "environment variables"),
    ("option_env", "environment variables"),
    ("asm", "machine code"),
    ("global_asm", "machine code"),
];

/// Parsing recurses as deeply as the source nests. A cell of this size fits into the stack even if it is nothing but
/// brackets; one that does not fit ends the process that reads it.
const MAX_CHARS: usize = 50_000;
const STACK: usize = 512 << 20;
/// The most characters about one cell, and the most cells: names may be as long as a cell.
const LONGEST: usize = 300;
const MAX_REMARKS: usize = 20;
/// Cells of lessons take milliseconds.
const WITHIN_S: u32 = 60;

/// Remarks on a notebook, made by a process of its own: a source can end or delay whoever reads it.
pub fn remarks(notebook: &Path, starter: &Path) -> Vec<String> {
    // This path is the running program, even if another one has taken its place meanwhile.
    let mut lab = Command::new("/proc/self/exe");
    let said = lab.arg("remarks").args([notebook, starter]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let said = said.ok().filter(|said| said.status.success());
    let remarks = said.and_then(|said| serde_json::from_slice(&said.stdout).ok());
    remarks
        .unwrap_or_else(|| vec!["could not read the cells: they nest too deeply, or reading takes too long".to_owned()])
}

/// Prints them for [`remarks`].
pub fn print_remarks(notebook: &Path, starter: &Path) -> Result<()> {
    // SAFETY: it takes a number.
    unsafe { libc::alarm(WITHIN_S) };
    let read = |path: &Path| anyhow::Ok(serde_json::from_slice::<Value>(&std::fs::read(path)?)?);
    println!("{}", serde_json::to_string(&remarks_on(read(notebook)?, read(starter)?)?)?);
    Ok(())
}

fn remarks_on(notebook: Value, starter: Value) -> Result<Vec<String>> {
    let reader = std::thread::Builder::new().stack_size(STACK).spawn(move || remarks_here(&notebook, &starter));
    let reader = reader.context("no memory is left to read a notebook's source")?;
    reader.join().map_err(|_| anyhow!("a notebook's source cannot be read"))
}

/// What the code cells do that no exercise asks for and the starter's do not do: definitions under a check's name, unsafe
/// code, and whatever reaches beyond the notebook. What an exercise's cell was handed out with, an answer in it may do too.
/// A remark is no verdict.
fn remarks_here(notebook: &Value, starter: &Value) -> Vec<String> {
    let handed_out: BTreeSet<String> = code_cells(starter).map(text_of).collect();
    let exercise = |cell: &Value| {
        let same = |other: &&Value| is(other, "solution") && grade_id(other) == grade_id(cell);
        code_cells(starter).find(same).filter(|_| grade_id(cell).is_some())
    };
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
        let mut found = Found::of(&source);
        if let Some(cell) = exercise(cell) {
            let allowed = Found::of(&text_of(cell)).0;
            found.0.retain(|remark| !allowed.contains(remark));
        }
        if !found.0.is_empty() {
            let list: Vec<&str> = found.0.iter().map(String::as_str).collect();
            remarks.push(format!("read cell {number}: {:.LONGEST$}", list.join(", ")));
        }
    }
    let more = remarks.len().saturating_sub(MAX_REMARKS);
    if more > 0 {
        remarks.truncate(MAX_REMARKS);
        remarks.push(format!("read {more} more cells that have something to note"));
    }
    remarks
}

/// Remarks on one cell, each once.
#[derive(Default)]
struct Found(BTreeSet<String>);

impl Found {
    fn of(source: &str) -> Self {
        let mut found = Self::default();
        match found.code(source) {
            Some(statements) => statements.iter().for_each(|statement| found.visit_stmt(statement)),
            None => found.note("cannot be read as Rust"),
        }
        found
    }

    fn note(&mut self, what: &str) {
        self.0.insert(what.to_owned());
    }

    /// A cell without evcxr's commands. They belong before the code; within it, they keep all of it from compiling.
    fn code(&mut self, source: &str) -> Option<Vec<Stmt>> {
        let mut is_before_code = true;
        let first = source.lines().map(|line| {
            is_before_code &= is_command(line) || line.starts_with("//") || line.trim().is_empty();
            if is_before_code && self.takes_command(line) { "" } else { line }
        });
        let code = first.collect::<Vec<_>>().join("\n");
        statements(&code).ok().or_else(|| {
            let rest: Vec<&str> = code.lines().filter(|line| !self.takes_command(line)).collect();
            statements(&rest.join("\n")).ok()
        })
    }

    fn takes_command(&mut self, line: &str) -> bool {
        let is_command = is_command(line);
        if is_command {
            let name = line.split_whitespace().next().unwrap_or_default();
            self.0.insert(if name.starts_with('!') {
                "runs a shell command".into()
            } else {
                format!("runs evcxr's `{name}`")
            });
        }
        is_command
    }

    /// A path that is named, or that a `use` brings in.
    fn path(&mut self, names: &[String]) {
        let is_std = names.first().is_some_and(|first| STD.contains(&first.as_str()));
        let named = if is_std { names.get(1) } else { names.first() };
        // `fs::write` after `use std::fs` is found by the `use`.
        let outside = OUTSIDE
            .iter()
            .find(|(module, _)| named.is_some_and(|name| name == module) && (is_std || *module == "libc"));
        if let Some((_, what)) = outside {
            self.0.insert(format!("uses {what}"));
        }
        if let Some(last) = names.last().filter(|_| is_std) {
            self.macro_named(last);
        }
    }

    fn macro_named(&mut self, name: &str) {
        for (_, what) in MACROS.iter().filter(|(known, _)| *known == name) {
            self.0.insert(format!("uses {what}"));
        }
    }

    fn tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &Ident| [before, &[name.unraw().to_string()]].concat();
        // If std as a whole gets another name, so does whatever is in it.
        let is_whole = |path: &[String]| path.len() == 1 && STD.contains(&path[0].as_str());
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.path(&with(&name.ident)),
            UseTree::Rename(name) => {
                self.defined(&name.rename);
                let path = if name.ident == "self" { before.to_vec() } else { with(&name.ident) };
                if is_whole(&path) {
                    self.0.insert(format!("gives `{}` another name", path[0]));
                }
                self.path(&path);
            }
            UseTree::Glob(_) => {
                if is_whole(before) {
                    self.0.insert(format!("brings in all of `{}`", before[0]));
                }
                self.path(before);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }

    fn defined(&mut self, name: &Ident) {
        let name = name.unraw().to_string();
        if name.starts_with("check_") || ["quantlab", "quantlab_course", "std", "core"].contains(&name.as_str()) {
            self.0.insert(format!("defines `{name}`"));
        }
    }
}

/// evcxr itself also takes a leading `::` for a command.
fn is_command(line: &str) -> bool {
    line.trim_start().starts_with(':') || line.starts_with('!')
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item(&mut self, item: &'ast Item) {
        let name = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Macro(item) => item.ident.as_ref(),
            Item::Mod(item) => Some(&item.ident),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            _ => None,
        };
        if let Some(name) = name {
            self.defined(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        if pattern.ident.to_string().starts_with("check_") {
            self.defined(&pattern.ident);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        if matches!(signature.safety, Safety::Unsafe(_)) {
            self.note("uses `unsafe`");
        }
        if signature.ident == "evcxr_display" {
            self.note("shows values its own way");
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let (Some(_), Type::Path(on)) = (&item.trait_, &*item.self_ty)
            && on.path.segments.last().is_some_and(|last| last.ident == "Score")
        {
            self.note("implements a trait for the course's `Score`");
        }
        if item.unsafety.is_some() {
            self.note("uses `unsafe`");
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        if item.unsafety.is_some() {
            self.note("uses `unsafe`");
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        self.0.insert(format!("names the crate `{}`", item.ident));
        if let Some((_, name)) = &item.rename {
            self.defined(name);
        }
    }

    fn visit_item_foreign_mod(&mut self, _: &'ast ItemForeignMod) {
        self.note("calls foreign functions");
    }

    fn visit_expr_unsafe(&mut self, expr: &'ast ExprUnsafe) {
        self.note("uses `unsafe`");
        visit::visit_expr_unsafe(self, expr);
    }

    fn visit_type_ptr(&mut self, _: &'ast TypePtr) {
        self.note("uses raw pointers");
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let name = attribute.path().segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        match name.as_str() {
            "path" => self.note("uses files"),
            "unsafe" | "no_mangle" | "export_name" | "link_section" | "global_allocator" => self.note("uses `unsafe`"),
            _ => {}
        }
    }

    fn visit_use_tree(&mut self, tree: &'ast UseTree) {
        self.tree(&[], tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
        self.path(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = mac.path.segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default();
        self.macro_named(&name);
        if name == "macro_rules" {
            self.note("defines a macro");
        }
        // What a macro makes of its tokens is not known here, but whether `unsafe` and names of crates occur in them
        // is.
        let tokens = mac.tokens.to_string().replace("r#", "");
        if tokens.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe") {
            self.note("uses `unsafe`");
        }
        let joined = tokens.replace(char::is_whitespace, "");
        for (crate_name, (module, what)) in STD.iter().flat_map(|name| OUTSIDE.map(|outside| (name, outside))) {
            if joined.contains(&format!("{crate_name}::{module}")) {
                self.0.insert(format!("uses {what}"));
            }
        }
        if STD.iter().any(|name| ["{", "*", "$"].iter().any(|next| joined.contains(&format!("{name}::{next}")))) {
            self.note("brings in parts of `std` by a macro");
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
        super::remarks_on(notebook(cells), notebook(&["std::fs::create_dir_all(\"results\")?;"])).unwrap()
    }

    #[test]
    fn what_no_exercise_asks_for_is_named() {
        let one = |cell: &str| remarks_on(&[cell]).join("; ");
        assert_eq!(one("fn check_resolve_dtype<T>(_: T) -> f64 { 7.0 }"), "read cell 1: defines `check_resolve_dtype`");
        assert_eq!(one("mod quantlab { pub mod model {} }"), "read cell 1: defines `quantlab`");
        assert_eq!(one("mod quantlab_course {}"), "read cell 1: defines `quantlab_course`");
        assert_eq!(one("use my::thing as check_it;"), "read cell 1: defines `check_it`");
        assert_eq!(one("let x = unsafe { *(7 as *const u8) };"), "read cell 1: uses `unsafe`, uses raw pointers");
        assert_eq!(one("use std::{fs, collections::HashMap};"), "read cell 1: uses files");
        assert_eq!(one("std::process::exit(0);"), "read cell 1: uses processes");
        assert_eq!(one("println!(\"{:?}\", std::env::vars());"), "read cell 1: uses environment variables");
        assert_eq!(one("extern \"C\" { fn getpid() -> i32; }"), "read cell 1: calls foreign functions");
        assert_eq!(one("let text = include_str!(\"/etc/passwd\");"), "read cell 1: uses files");
    }

    #[test]
    fn another_way_to_say_it_is_named_too() {
        for (cell, expected) in [
            ("use std::*;\nfs::read(\"/etc/passwd\")?;", "brings in all of `std`"),
            ("use core::{*};", "brings in all of `core`"),
            ("use std as s;\ns::fs::read(\"x\")?;", "gives `std` another name"),
            ("use std::{self as s};", "gives `std` another name"),
            ("let text = r#std::r#fs::read_to_string(\"x\")?;", "uses files"),
            ("use std::include_str as text;", "uses files"),
            ("let home = env!(\"HOME\");", "uses environment variables"),
            ("#[path = \"/etc/passwd\"]\nmod passwd;", "uses files"),
            ("extern crate self as quantlab;", "defines `quantlab`, names the crate `self`"),
            ("extern crate std as s;", "names the crate `std`"),
            ("struct check_it(f64);", "defines `check_it`"),
            ("let check_it = |_: f64| 7.0;", "defines `check_it`"),
            ("macro_rules! check_it { () => { 7.0 } }", "defines `check_it`, defines a macro"),
            (
                "macro_rules! m { ($m:ident) => { std::$m::read(\"x\") } }",
                "brings in parts of `std` by a macro, defines a macro",
            ),
            ("println!(\"{:?}\", { use std::{fs}; fs::read(\"x\") });", "brings in parts of `std` by a macro"),
            ("struct A(u8);\nunsafe impl Send for A {}", "uses `unsafe`"),
            ("impl A { unsafe fn f(&self) {} }", "uses `unsafe`"),
            ("#[no_mangle]\npub extern \"C\" fn malloc() {}", "uses `unsafe`"),
            ("std::arch::global_asm!(\"nop\");", "uses machine code"),
            (
                "trait Shine { fn evcxr_display(self); }\nimpl Shine for quantlab_course::Score { fn evcxr_display(self) {} }",
                "implements a trait for the course's `Score`, shows values its own way",
            ),
        ] {
            assert_eq!(remarks_on(&[cell]).join("; "), format!("read cell 1: {expected}"), "{cell}");
        }
    }

    #[test]
    fn commands_are_named_and_do_not_hide_what_stands_behind_them() {
        for (cell, expected) in [
            (":opt 0\nstd::fs::read(\"x\")?;", "runs evcxr's `:opt`, uses files"),
            ("// First\n\n   :dep libc = \"0.2\"\n:clear\nlet x = 1;", "runs evcxr's `:clear`, runs evcxr's `:dep`"),
            ("let x = 1;\n:opt 0\nstd::process::exit(0);", "runs evcxr's `:opt`, uses processes"),
            ("!cat /etc/passwd", "runs a shell command"),
            (":opt 0\nfn (", "cannot be read as Rust, runs evcxr's `:opt`"),
            ("fn (", "cannot be read as Rust"),
        ] {
            assert_eq!(remarks_on(&[cell]).join("; "), format!("read cell 1: {expected}"), "{cell}");
        }
        let many = remarks_on(&[format!(":{}", "o".repeat(1000)).as_str(); 100]);
        assert!(many.len() == MAX_REMARKS + 1 && many.iter().all(|remark| remark.len() < 2 * LONGEST), "{many:?}");
    }

    #[test]
    fn a_source_that_nests_without_end_is_read_like_any_other() {
        let nested = format!("let x = {}1{};", "(".repeat(20_000), ")".repeat(20_000));
        assert!(remarks_on(&[&nested, &format!("let x = {}1;", "!".repeat(40_000))]).is_empty());
        assert_eq!(remarks_on(&[&"1;".repeat(50_000)]), ["did not read cell 1: it has 100000 characters"]);
    }

    #[test]
    fn an_answer_may_do_what_its_exercise_was_handed_out_with() {
        let cell = |id: &str, solution: bool, source: &str| {
            let nbgrader = json!({"grade_id": id, "solution": solution});
            json!({"cell_type": "code", "metadata": {"nbgrader": nbgrader}, "source": source})
        };
        let safe = "fn wide() { todo!() }\nfn safe() { unsafe { wide() } }";
        let answer = safe.replace("todo!()", "unsafe { load() }");
        let starter = json!({"cells": [cell("wide", true, safe), cell("check", false, "unsafe { 1 }")]});
        let one = |id: &str, source: &str| {
            super::remarks_on(json!({"cells": [cell(id, true, source)]}), starter.clone()).unwrap().join("; ")
        };
        assert_eq!(one("wide", &answer), "");
        assert_eq!(one("wide", &format!("{answer}\nuse std::fs;")), "read cell 1: uses files");
        assert_eq!(one("other", &answer), "read cell 1: uses `unsafe`");
        assert_eq!(one("check", &answer), "read cell 1: uses `unsafe`", "a check is no exercise");
        let without_id = json!({"cells": [{"cell_type": "code", "source": answer}]});
        assert_eq!(super::remarks_on(without_id, starter.clone()).unwrap(), ["read cell 1: uses `unsafe`"]);
    }

    #[test]
    fn answers_and_the_starters_own_cells_are_not_remarked_on() {
        let answer = "fn mean(values: &[f64]) -> f64 {\n    let process = values.iter().sum::<f64>();\n    process / values.len() as f64\n}";
        let cells = [answer, "std::fs::create_dir_all(\"results\")?;", "", "// :opt 0", "let env = 3; env + 1"];
        assert!(remarks_on(&cells).is_empty(), "{:?}", remarks_on(&cells));
    }
}
