//! Values that are passed on: arguments, fields, elements.

use syn::punctuated::Punctuated;
use syn::{Expr, ExprCall, ExprPath, ExprStruct, FieldValue, Token};

use super::{Edit, Finder, place};

impl Finder<'_> {
    /// Two arguments, or parts of a tuple, change places, or one gets another value.
    pub(super) fn handed(&mut self, arguments: &Punctuated<Expr, Token![,]>) {
        for (index, second) in arguments.iter().enumerate() {
            for first in arguments.iter().take(index) {
                self.swap(first, second);
            }
            for other in self.other_values(second) {
                self.replace(second, other);
            }
        }
    }

    /// Another value for each field, two values swapped, or a field left out where a rest supplies it.
    pub(super) fn fields(&mut self, literal: &ExprStruct) {
        for (index, field) in literal.fields.iter().enumerate() {
            let name = self.text(&field.member);
            let mut others = self.other_values(&field.expr);
            if field.colon_token.is_none()
                && let Expr::Path(path) = &field.expr
            {
                others.extend(self.other_variables(path));
            }
            for other in others {
                self.replace(field, format!("{name}: {other}"));
            }
            for earlier in literal.fields.iter().take(index) {
                self.exchange(earlier, field);
            }
            if literal.rest.is_some() {
                self.leave_out(&literal.fields, index);
            }
        }
        if let Some(rest) = &literal.rest
            && !self.text(rest).ends_with("::default()")
        {
            self.replace(rest, "Default::default()");
        }
    }

    fn exchange(&mut self, first: &FieldValue, second: &FieldValue) {
        let (start, end) = (place(first).start, place(second).end);
        let between = self.cell.get(place(first).end..place(second).start).unwrap_or_default();
        let with = |field: &FieldValue, value: &Expr| format!("{}: {}", self.text(&field.member), self.text(value));
        let text = format!("{}{between}{}", with(first, &second.expr), with(second, &first.expr));
        self.edits.push(Edit { start, end, text });
    }

    /// An element of an array is missing, or two have changed places.
    pub(super) fn elements<'e>(&mut self, elements: impl IntoIterator<Item = &'e Expr>) {
        let elements: Vec<&Expr> = elements.into_iter().collect();
        for [first, second] in elements.array_windows() {
            self.swap(*first, *second);
            // Up to the next one, so that its comma goes too.
            let (start, end) = (place(*first).start, place(*second).start);
            self.edits.push(Edit { start, end, text: String::new() });
        }
        if let [.., before, last] = elements[..] {
            let (start, end) = (place(before).end, place(last).end);
            self.edits.push(Edit { start, end, text: String::new() });
        }
    }

    /// `Some` may be `None`, an error a success; arguments are [`handed`](Self::handed) on.
    pub(super) fn call(&mut self, call: &ExprCall) {
        match self.text(&call.func) {
            "Some" => self.replace(call, "None"),
            "Err" => self.replace(call, "Ok(Default::default())"),
            "Ok" => {}
            _ => self.handed(&call.args),
        }
    }

    /// Something empty, another unit, one more, one less; another text is among the literals.
    pub(super) fn other_values(&self, value: &Expr) -> Vec<String> {
        let text = self.operand(value);
        match value {
            Expr::Closure(_) | Expr::Lit(_) | Expr::Tuple(_) => Vec::new(),
            Expr::Reference(reference) if reference.mutability.is_some() => Vec::new(),
            Expr::Reference(_) => vec!["&Default::default()".to_owned()],
            Expr::Path(ExprPath { path, .. }) if path.get_ident().is_none() || path.is_ident("None") => Vec::new(),
            Expr::Array(_) | Expr::Macro(_) | Expr::Struct(_) => vec!["Default::default()".to_owned()],
            _ => ["Default::default()", "TEXT + 1", "TEXT - 1", "TEXT * 1000.0"]
                .map(|other| other.replace("TEXT", &text))
                .to_vec(),
        }
    }

    fn leave_out(&mut self, fields: &Punctuated<FieldValue, Token![,]>, index: usize) {
        if let Some((field, comma)) = fields.pairs().nth(index).map(syn::punctuated::Pair::into_tuple) {
            let (start, end) = (place(field).start, comma.map_or(place(field).end, |comma| place(comma).end));
            self.edits.push(Edit { start, end, text: String::new() });
        }
    }
}
