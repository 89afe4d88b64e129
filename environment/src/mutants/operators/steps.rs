//! Statements: left out, in the wrong order, in the wrong place.

use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Stmt};

use super::{Edit, Finder, place};

impl Finder<'_> {
    /// Each statement is left out, done twice if it adds something, or changes places with the next; an error of it
    /// is ignored; and what is done in a loop or a closure is done once instead, before or after.
    pub(super) fn steps(&mut self, block: &Block) {
        for statement in &block.stmts {
            if !is_step(statement) && !matches!(statement, Stmt::Local(_)) {
                continue;
            }
            self.replace(statement, "");
            let text = self.text(statement);
            if let Stmt::Expr(Expr::Try(try_), Some(_)) = statement {
                self.replace(statement, format!("let _ = {};", self.text(&try_.expr)));
            }
            if adds(statement) {
                self.replace(statement, format!("{text} {text}"));
            }
            if !is_inert(statement) {
                self.move_out(statement, text);
            }
        }
        for [first, second] in block.stmts.array_windows() {
            let both_add = adds(first) && adds(second);
            if !matches!(second, Stmt::Expr(_, None)) && !is_inert(first) && !is_inert(second) && !both_add {
                self.swap(first, second);
            }
        }
    }

    fn move_out(&mut self, statement: &Stmt, text: &str) {
        let Some(outer) = self.outer.clone() else { return };
        let place = place(statement);
        let (before, behind) = (self.cell.get(outer.start..place.start), self.cell.get(place.end..outer.end));
        let without = [before, behind].into_iter().flatten().collect::<String>();
        let moved = |text| Edit { start: outer.start, end: outer.end, text };
        self.edits.push(moved(format!("{text}\n{without}")));
        if is_step(statement) {
            self.edits.push(moved(format!("{without}\n{text}")));
        }
    }
}

/// Whether a statement does something, and is not the block's value.
fn is_step(statement: &Stmt) -> bool {
    match statement {
        Stmt::Expr(expr, semicolon) => {
            semicolon.is_some() || matches!(expr, Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) | Expr::If(_))
        }
        Stmt::Macro(_) => true,
        Stmt::Local(_) | Stmt::Item(_) => false,
    }
}

/// Whether it only names a value, so that it may as well stand elsewhere: it neither fails nor asks a clock, and
/// nothing is collected in it.
fn is_inert(statement: &Stmt) -> bool {
    struct Acts(bool);
    impl<'ast> Visit<'ast> for Acts {
        fn visit_expr_try(&mut self, _: &'ast syn::ExprTry) {
            self.0 = true;
        }
        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            self.0 |= call.method == "now";
            visit::visit_expr_method_call(self, call);
        }
        fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
            self.0 |= pattern.mutability.is_some();
        }
        // What a closure does happens when it is called.
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
    }
    let Stmt::Local(local) = statement else { return false };
    let mut acts = Acts(false);
    acts.visit_local(local);
    !acts.0
}

/// Whether something is collected or counted: doing that twice makes a difference, but the order does not.
fn adds(statement: &Stmt) -> bool {
    match statement {
        Stmt::Expr(Expr::MethodCall(call), _) => call.method == "push" || call.method == "extend",
        Stmt::Expr(Expr::Binary(binary), _) => matches!(binary.op, BinOp::AddAssign(_) | BinOp::SubAssign(_)),
        _ => false,
    }
}
