//! Texts that are put together: pieces left out.

use std::ops::Range;

use syn::{Expr, ExprLit, Lit, LitStr};

use super::{Edit, Finder, place};

impl Finder<'_> {
    /// Leaves pieces out of a macro's format string; returns how many of its arguments are not values. (A format string
    /// is the first argument, or the second of `write!`.)
    pub(super) fn format(&mut self, arguments: &[Expr]) -> usize {
        let string = |expr| match expr {
            &Expr::Lit(ExprLit { lit: Lit::Str(ref string), .. }) => Some(string),
            _ => None,
        };
        let Some((at, string)) = arguments.iter().take(2).enumerate().find_map(|(at, it)| Some((at, string(it)?)))
        else {
            return 0;
        };
        self.pieces(string, &arguments[at + 1..]);
        at + 1
    }

    fn pieces(&mut self, string: &LitStr, values: &[Expr]) {
        let start = place(string).start;
        let text = self.text(string);
        let places = placeholders(text);
        let mut gap = text.find('"').map_or(0, |quote| quote + 1);
        let mut unnamed = 0;
        for place in &places {
            self.words(start, gap..place.start);
            gap = place.end;
            let name = text[place.start + 1..place.end - 1].split(':').next().unwrap_or_default().trim();
            let (start, end) = (start + place.start, start + place.end);
            if !name.is_empty() {
                self.edits.push(Edit { start, end, text: String::new() });
            } else {
                self.without_value(start..end, values, unnamed);
                unnamed += 1;
            }
        }
        self.words(start, gap..text.rfind('"').unwrap_or(text.len()));
    }

    /// Leaves out words between two placeholders.
    fn words(&mut self, start: usize, gap: Range<usize>) {
        let (start, end) = (start + gap.start, start + gap.end);
        if !self.is_message && self.cell.get(start..end).is_some_and(|words| words.contains(char::is_alphanumeric)) {
            self.edits.push(Edit { start, end, text: String::new() });
        }
    }

    /// Leaves out a placeholder together with the value that it shows.
    fn without_value(&mut self, hole: Range<usize>, values: &[Expr], index: usize) {
        let Some(value) = values.get(index) else { return };
        let end = place(value).end;
        let Some(before) = self.cell.get(hole.end..place(value).start) else { return };
        // The comma before it goes too.
        let kept = before.trim_end().trim_end_matches(',').to_owned();
        self.edits.push(Edit { start: hole.start, end, text: kept });
    }
}

/// Where the `{...}` stand in a format string; `{{` is not one.
fn placeholders(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(open) = text[rest..].find('{').map(|at| rest + at) {
        if text[open..].starts_with("{{") {
            rest = open + 2;
            continue;
        }
        let Some(close) = text[open..].find('}').map(|at| open + at + 1) else { break };
        found.push(open..close);
        rest = close;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_braces() {
        let text = "\"{{a}} {b:.2} {}\"";
        let found: Vec<&str> = placeholders(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["{b:.2}", "{}"]);
    }
}
