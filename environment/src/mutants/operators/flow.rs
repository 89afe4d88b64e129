//! Conditions and cases.

use syn::{Expr, ExprMatch};

use super::Finder;

impl Finder<'_> {
    /// The other way round, always, never.
    pub(super) fn condition(&mut self, condition: &Expr) {
        if contains_let(condition) {
            return;
        }
        let negated = format!("!({})", self.text(condition));
        for other in [&negated, "true", "false"] {
            self.replace(condition, other);
        }
    }

    /// A case is forgotten, does nothing, or does what its neighbour should.
    pub(super) fn arms(&mut self, match_: &ExprMatch) {
        for arm in &match_.arms {
            self.replace(arm, "");
            for body in ["{}", "Default::default()", "continue", "break", "return Ok(Default::default())"] {
                let comma = if arm.comma.is_none() && !matches!(*arm.body, Expr::Block(_)) { "" } else { "," };
                let pattern = self.text(&arm.pat);
                self.replace(arm, format!("{pattern} => {body}{comma}"));
            }
        }
        for [first, second] in match_.arms.array_windows() {
            self.swap(&first.body, &second.body);
        }
    }
}

fn contains_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => contains_let(&binary.left) || contains_let(&binary.right),
        _ => false,
    }
}
