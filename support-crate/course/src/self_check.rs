//! What must hold of a learner's own numbers.

use quantlab::report::{escape_html, show};

/// A few facts that hold for every honest measurement of a kind, checked against one that was just made. It gives no
/// points: a fact that does not hold says which number not to believe yet.
///
/// ```
/// use quantlab_course::SelfCheck;
///
/// let (short, long) = (0.11, 0.19);
/// let check = SelfCheck::new("Prompt lengths").that("the longer prompt takes longer", long > short);
/// assert_eq!(check.to_string(), "Self-check: Prompt lengths\n  + the longer prompt takes longer");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfCheck {
    title: String,
    facts: Vec<(String, bool)>,
}

impl SelfCheck {
    /// A self-check without facts, as long as nothing was measured.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), facts: Vec::new() }
    }

    /// Adds a fact, and whether it holds.
    pub fn that(mut self, what: impl Into<String>, holds: bool) -> Self {
        self.facts.push((what.into(), holds));
        self
    }

    /// Whether all facts hold.
    pub fn holds(&self) -> bool {
        self.facts.iter().all(|(_, holds)| *holds)
    }

    /// Shows the facts as a notebook cell's value.
    pub fn evcxr_display(&self) {
        let mark = |holds: &bool| if *holds { "&#10003;" } else { "&#10007; <b>look again:</b>" };
        let lines: String = match self.facts.as_slice() {
            [] => "<div>nothing measured yet</div>".to_owned(),
            facts => {
                facts.iter().map(|(what, holds)| format!("<div>{} {}</div>", mark(holds), escape_html(what))).collect()
            }
        };
        let html = format!(
            "<div style=\"border-left: 4px solid #8a8f98; padding: 0.4em 1em; max-width: 46em; line-height: 1.5\">\
             <div>Self-check: {}</div>{lines}</div>",
            escape_html(&self.title)
        );
        show(&self.to_string(), &html);
    }
}

impl std::fmt::Display for SelfCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Self-check: {}", self.title)?;
        if self.facts.is_empty() {
            return f.write_str("\n  nothing measured yet");
        }
        self.facts.iter().try_for_each(|(what, holds)| match holds {
            true => write!(f, "\n  + {what}"),
            false => write!(f, "\n  - look again: {what}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_do_not_hold_are_pointed_at() {
        let check = SelfCheck::new("x").that("a", true).that("b", false);
        assert!(!check.holds());
        assert_eq!(check.to_string(), "Self-check: x\n  + a\n  - look again: b");
        assert_eq!(SelfCheck::new("x").to_string(), "Self-check: x\n  nothing measured yet");
    }
}
