//! A notebook's cells as Rust.

use std::ops::Range;

use anyhow::{Context, Result};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Block, Expr, FnArg, GenericParam, Item, Macro, Pat, ReturnType, Signature, Stmt, Token, Visibility};

/// A cell's statements. Places in the cell are the spans' byte ranges.
pub fn statements(cell: &str) -> Result<Vec<Stmt>> {
    Block::parse_within.parse_str(cell).context("a cell is not Rust")
}

/// A cell's items.
pub fn items(statements: &[Stmt]) -> impl Iterator<Item = &Item> {
    statements.iter().filter_map(|statement| match statement {
        Stmt::Item(item) => Some(item),
        _ => None,
    })
}

/// The part of a cell that goes into a module: its items, with its functions made public.
pub fn module(cell: &str) -> Result<String> {
    let statements = statements(cell)?;
    let mut text = String::new();
    for item in items(&statements) {
        let range = place(item);
        let at = match item {
            Item::Fn(function) if matches!(function.vis, Visibility::Inherited) => place(&function.sig).start,
            _ => range.start,
        };
        let public = if at > range.start || matches!(item, Item::Fn(_)) { "pub " } else { "" };
        let pieces = [cell.get(range.start..at), Some(public), cell.get(at..range.end), Some("\n")];
        text.extend(pieces.into_iter().flatten());
    }
    Ok(text)
}

/// A name by which a later item replaces an earlier one in a notebook: its own, or all of its text.
pub fn name_of(item: &Item, cell: &str) -> String {
    match item {
        Item::Fn(item) => format!("fn {}", item.sig.ident),
        Item::Struct(item) => format!("type {}", item.ident),
        Item::Enum(item) => format!("type {}", item.ident),
        Item::Type(item) => format!("type {}", item.ident),
        Item::Trait(item) => format!("type {}", item.ident),
        Item::Const(item) => format!("const {}", item.ident),
        Item::Static(item) => format!("const {}", item.ident),
        other => text(other, cell).to_owned(),
    }
}

/// The type of a pointer to a function; none if it is generic.
pub fn pointer(signature: &Signature, cell: &str) -> Option<String> {
    let lifetime = |parameter: &GenericParam| match parameter {
        GenericParam::Lifetime(lifetime) => Some(text(lifetime, cell)),
        _ => None,
    };
    let lifetimes: Vec<&str> = signature.generics.params.iter().map(lifetime).collect::<Option<_>>()?;
    let of = |input: &FnArg| match input {
        FnArg::Typed(input) if !matches!(*input.ty, syn::Type::ImplTrait(_)) => Some(text(&input.ty, cell)),
        _ => None,
    };
    let types: Vec<&str> = signature.inputs.iter().map(of).collect::<Option<_>>()?;
    let result = match &signature.output {
        ReturnType::Default => String::new(),
        output => format!(" {}", text(output, cell)),
    };
    let binder = if lifetimes.is_empty() { String::new() } else { format!("for<{}> ", lifetimes.join(", ")) };
    Some(format!("{binder}fn({}){result}", types.join(", ")))
}

/// A macro's arguments, where they are expressions with commas between them.
pub fn arguments(mac: &Macro) -> Vec<Expr> {
    let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
    parser.parse2(mac.tokens.clone()).map(|arguments| arguments.into_iter().collect()).unwrap_or_default()
}

/// The variables that a pattern binds.
pub fn bound(pattern: &Pat) -> Vec<String> {
    struct Names(Vec<String>);
    impl syn::visit::Visit<'_> for Names {
        fn visit_pat_ident(&mut self, pattern: &syn::PatIdent) {
            // What begins with a capital is a constant or a variant.
            let name = pattern.ident.to_string();
            if name.starts_with(|first: char| first.is_lowercase() || first == '_') {
                self.0.push(name);
            }
            syn::visit::visit_pat_ident(self, pattern);
        }
    }
    let mut names = Names(Vec::new());
    syn::visit::Visit::visit_pat(&mut names, pattern);
    names.0
}

/// Where a part stands in the text that it was parsed from.
pub fn place(part: &impl Spanned) -> Range<usize> {
    part.span().byte_range()
}

/// A part's text.
pub fn text<'a>(part: &impl Spanned, cell: &'a str) -> &'a str {
    cell.get(place(part)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(cell: &str) -> Signature {
        match statements(cell).unwrap().remove(0) {
            Stmt::Item(Item::Fn(function)) => function.sig,
            _ => panic!("no function"),
        }
    }

    #[test]
    fn a_module_has_the_items_and_its_functions_are_public() {
        let cell = "let x = 1;\n/// Says ä.\nfn f() {}\nstruct S(u8);\nf()";
        assert_eq!(module(cell).unwrap(), "/// Says ä.\npub fn f() {}\nstruct S(u8);\n");
    }

    #[test]
    fn a_functions_type_is_that_of_a_pointer_to_it() {
        let of = |cell: &str| pointer(&function(cell), cell);
        let cell = "fn f(clock: &dyn Clock, (a, b): (u8, &[&str])) -> Result<Vec<f64>> { todo!() }";
        assert_eq!(of(cell).unwrap(), "fn(&dyn Clock, (u8, &[&str])) -> Result<Vec<f64>>");
        assert_eq!(of("fn f<'a>(x: &'a str) -> &'a str { x }").unwrap(), "for<'a> fn(&'a str) -> &'a str");
        assert!(of("fn f<T>(x: T) {}").is_none() && of("fn f(x: impl Fn()) {}").is_none());
    }

    #[test]
    fn patterns_bind_names() {
        let cell = "let (Some(a), Pair { b, c: Kind::D, e: None, .. }) = x;";
        let Stmt::Local(local) = statements(cell).unwrap().remove(0) else { panic!("no let") };
        assert_eq!(bound(&local.pat), ["a", "b"]);
    }
}
