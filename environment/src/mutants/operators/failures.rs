//! Errors that are swallowed.

use syn::{ExprTry, ItemFn};

use super::{Edit, Finder, place};

impl Finder<'_> {
    /// A failure becomes something empty, or is taken for an [`end`](Self::ended); or a link of a chain is missing.
    pub(super) fn failure(&mut self, try_: &ExprTry) {
        let tried = self.text(&try_.expr);
        self.replace(try_, format!("{tried}.unwrap_or_default()"));
        self.ended(try_);
        if let syn::Expr::MethodCall(call) = &*try_.expr {
            self.replace(try_, self.text(&call.receiver));
        }
    }

    /// A failure ends the loop or its round, or the function as if all were well.
    pub(super) fn ended(&mut self, try_: &ExprTry) {
        let tried = self.text(&try_.expr);
        for instead in ["continue", "break", "return Ok(Default::default())"] {
            self.replace(try_, format!("match {tried} {{ Ok(it) => it, Err(_) => {instead} }}"));
        }
    }

    /// Something empty as the result of the whole function.
    pub(super) fn default_result(&mut self, function: &ItemFn) {
        if let Some(first) = function.block.stmts.first() {
            let start = place(first).start;
            for result in ["return Ok(Default::default());\n", "return Default::default();\n"] {
                self.edits.push(Edit { start, end: start, text: result.to_owned() });
            }
        }
    }
}
