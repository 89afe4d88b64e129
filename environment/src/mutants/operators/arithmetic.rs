//! Operators and numbers.

use syn::{BinOp, Expr, ExprBinary, ExprLit, ExprRange, ExprUnary, Lit, RangeLimits, UnOp};

use super::Finder;

impl Finder<'_> {
    /// Another operator, one of the operands alone, or the operands the other way round.
    pub(super) fn binary(&mut self, binary: &ExprBinary) {
        let others: &[&str] = match binary.op {
            BinOp::Add(_) => &["-", "*"],
            BinOp::Sub(_) => &["+", "/"],
            BinOp::Mul(_) => &["/", "+"],
            BinOp::Div(_) => &["*", "%"],
            BinOp::Rem(_) => &["/"],
            BinOp::And(_) => &["||"],
            BinOp::Or(_) => &["&&"],
            BinOp::BitXor(_) => &["&", "|"],
            BinOp::BitAnd(_) => &["|", "^"],
            BinOp::BitOr(_) => &["&", "^"],
            BinOp::Shl(_) => &[">>"],
            BinOp::Shr(_) => &["<<"],
            BinOp::Eq(_) => &["!=", ">="],
            BinOp::Ne(_) => &["==", "<"],
            BinOp::Lt(_) => &["<=", ">"],
            BinOp::Le(_) => &["<", ">="],
            BinOp::Gt(_) => &[">=", "<"],
            BinOp::Ge(_) => &[">", "<="],
            BinOp::AddAssign(_) => &["-=", "="],
            BinOp::SubAssign(_) => &["+=", "="],
            BinOp::MulAssign(_) => &["/=", "="],
            BinOp::DivAssign(_) => &["*=", "="],
            _ => &[],
        };
        for other in others {
            self.replace(&binary.op, *other);
        }
        let op = self.text(&binary.op);
        // Neither a comparison nor an assignment.
        if !op.contains('=') && !matches!(op, "<" | ">") {
            let (left, right) = (self.operand(&binary.left), self.operand(&binary.right));
            self.replace(binary, left.clone());
            self.replace(binary, right.clone());
            if matches!(op, "-" | "/" | "<<" | "|") {
                self.replace(binary, format!("{right} {op} {left}"));
            }
        }
    }

    /// The operand alone.
    pub(super) fn unary(&mut self, unary: &ExprUnary) {
        if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) {
            self.replace(unary, self.text(&unary.expr));
        }
    }

    /// Another number, truth or text.
    pub(super) fn literal(&mut self, literal: &ExprLit) {
        match &literal.lit {
            Lit::Int(number) => {
                if let Ok(value) = number.base10_parse::<u64>() {
                    let others = [value.checked_add(1), value.checked_sub(1)];
                    for other in others.into_iter().flatten() {
                        self.replace(literal, format!("{other}{}", number.suffix()));
                    }
                }
            }
            Lit::Float(number) => {
                if let Ok(value) = number.base10_parse::<f64>() {
                    for other in other_floats(value) {
                        self.replace(literal, format!("{other:?}{}", number.suffix()));
                    }
                }
            }
            Lit::Bool(truth) => self.replace(literal, (!truth.value).to_string()),
            Lit::Str(words) => self.replace(literal, if words.value().is_empty() { "\"other\"" } else { "\"\"" }),
            _ => {}
        }
    }

    /// One more or less at either end.
    pub(super) fn range(&mut self, range: &ExprRange) {
        let other = if matches!(range.limits, RangeLimits::HalfOpen(_)) { "..=" } else { ".." };
        self.replace(&range.limits, other);
        for end in [&range.start, &range.end].into_iter().flatten() {
            self.off_by_one(end);
        }
    }

    /// One more or one less, for anything but literals, which have that already.
    pub(super) fn off_by_one(&mut self, expr: &Expr) {
        if matches!(expr, Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Binary(_)) {
            let operand = self.operand(expr);
            self.replace(expr, format!("({operand} + 1)"));
            self.replace(expr, format!("({operand} - 1)"));
        }
    }
}

/// Kilo is not kibi; twice; nothing; one.
fn other_floats(value: f64) -> Vec<f64> {
    match value {
        0.0 => vec![1.0],
        1.0 => vec![0.0, 2.0],
        1000.0 => vec![1.0, 1024.0],
        1024.0 => vec![1.0, 1000.0],
        _ => vec![1.0, value * 2.0],
    }
}
