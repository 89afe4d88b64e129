//! Methods, indices, and what an iterator goes through.

use syn::{Expr, ExprIndex, ExprMethodCall, Lit};

use super::Finder;

/// Methods that are easily taken for each other.
const ALIKE: [(&str, &str); 17] = [
    ("all", "any"),
    ("ceil", "floor"),
    ("chunks", "chunks_exact"),
    ("exp", "exp2"),
    ("exp", "exp_m1"),
    ("first", "last"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("ln", "log2"),
    ("ln", "log10"),
    ("max", "min"),
    ("max_by", "min_by"),
    ("max_by_key", "min_by_key"),
    ("product", "sum"),
    ("round", "trunc"),
    ("round", "floor"),
    ("skip", "take"),
];

/// Methods without which an answer either means the same or does not compile.
const CONVERSIONS: [&str; 13] = [
    "as_ref",
    "as_str",
    "clone",
    "cloned",
    "collect",
    "copied",
    "into",
    "into_iter",
    "iter",
    "iter_mut",
    "to_owned",
    "to_string",
    "to_vec",
];

/// Methods that go through all of something.
const ROUNDS: [&str; 7] = ["chars", "chunks", "enumerate", "into_iter", "iter", "iter_mut", "windows"];

impl Finder<'_> {
    /// Another method, none, or other arguments.
    pub(super) fn method(&mut self, call: &ExprMethodCall) {
        let name = call.method.to_string();
        for (one, other) in ALIKE {
            if name == one {
                self.replace(&call.method, other);
            } else if name == other {
                self.replace(&call.method, one);
            }
        }
        if !CONVERSIONS.contains(&name.as_str()) {
            self.replace(call, self.text(&call.receiver));
        }
        if name == "len" {
            let text = self.text(call);
            self.replace(call, format!("({text} + 1)"));
            self.replace(call, format!("({text} - 1)"));
        }
        if ROUNDS.contains(&name.as_str()) {
            self.other_rounds(call, self.text(call));
        }
        self.handed(&call.args);
    }

    /// A loop over something else; if nobody looks at the numbers, going through them backwards is the same.
    pub(super) fn rounds(&mut self, over: &Expr, is_count: bool) {
        let is_method = matches!(over, Expr::MethodCall(call) if ROUNDS.contains(&call.method.to_string().as_str()));
        let rounds = format!("({}).into_iter()", self.text(over));
        if is_count {
            self.replace(over, format!("{rounds}.skip(1)"));
            self.replace(over, format!("{rounds}.take(1)"));
        } else if !is_method {
            self.other_rounds(over, &rounds);
        }
    }

    /// Backwards, without the first, only the first, without the last.
    fn other_rounds(&mut self, part: &impl syn::spanned::Spanned, rounds: &str) {
        for other in [".rev()", ".skip(1)", ".take(1)", ".rev().skip(1).rev()"] {
            self.replace(part, format!("{rounds}{other}"));
        }
    }

    /// The next element, the one before, the first, the last.
    pub(super) fn index(&mut self, index: &ExprIndex) {
        let is_first = matches!(&*index.index, Expr::Lit(literal) if matches!(literal.lit, Lit::Int(_)));
        let of = self.text(&index.expr);
        if matches!(*index.index, Expr::Range(_)) {
            self.replace(&index.index, "..");
            return;
        }
        self.off_by_one(&index.index);
        self.replace(index, format!("{of}[{of}.len() - 1]"));
        if !is_first {
            self.replace(index, format!("{of}[0]"));
        }
    }
}
