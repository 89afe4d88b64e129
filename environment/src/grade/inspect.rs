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
#[path = "inspect_tests.rs"]
mod tests;
