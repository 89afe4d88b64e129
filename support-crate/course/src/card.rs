//! A score as HTML.

use quantlab::report::escape_html;

use super::score::{Finding, Score};

/// Green, amber and grey that read on light and dark pages alike.
const DONE: &str = "#2e9e5b";
const PARTLY: &str = "#d08700";
const NOT_YET: &str = "#8a8f98";

impl Score {
    /// The card: what passed, what did not and why, and the hints, each folded into the one before.
    pub(super) fn card(&self) -> String {
        let (points, max) = (self.points(), self.max_points());
        let (colour, headline) = match (self.is_not_yet(), points == max) {
            (true, _) => (NOT_YET, "not yet".to_owned()),
            (false, true) => (DONE, format!("{points} of {max} points")),
            (false, false) => (PARTLY, format!("{points} of {max} points")),
        };
        let findings: String = if self.is_not_yet() { String::new() } else { self.findings.iter().map(line).collect() };
        let hints = if points == max { String::new() } else { self.hint_from(0) };
        format!(
            "<div style=\"border-left: 4px solid {colour}; padding: 0.4em 1em; max-width: 46em; line-height: 1.5\">\
             <div><code>{}</code> <b style=\"color: {colour}\">{headline}</b></div>{findings}{hints}</div>",
            escape_html(self.exercise)
        )
    }

    /// A hint, with the next one inside: closed until the learner asks for it.
    fn hint_from(&self, index: usize) -> String {
        let Some(hint) = self.hints.get(index) else { return String::new() };
        let text = format!("<div>{}</div>", with_code(hint));
        let next = self.hint_from(index + 1);
        match index {
            0 => format!("<div style=\"margin-top: 0.4em\"><b>Hint</b>{text}{next}</div>"),
            _ => format!("<details><summary style=\"cursor: pointer\">another hint</summary>{text}{next}</details>"),
        }
    }
}

fn line(finding: &Finding) -> String {
    let what = with_code(finding.what);
    match &finding.result {
        Ok(()) => format!("<div><span style=\"color: {DONE}\">&#10003;</span> {what}</div>"),
        Err(complaint) => format!(
            "<div><span style=\"color: {PARTLY}\">&#10007;</span> {what}\
             <div style=\"margin-left: 1.4em; opacity: 0.8\">{}</div></div>",
            with_code(&complaint.to_string())
        ),
    }
}

/// The HTML of a text in which code stands between backticks. An unpaired backtick is kept as it is.
fn with_code(text: &str) -> String {
    let last = text.matches('`').count();
    let html = |(index, piece): (usize, &str)| match (index % 2 == 1, index == last) {
        (false, _) => escape_html(piece),
        (true, false) => format!("<code>{}</code>", escape_html(piece)),
        (true, true) => format!("`{}", escape_html(piece)),
    };
    text.split('`').enumerate().map(html).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Complaint, Verdict};
    use super::*;

    fn card(result: Verdict) -> String {
        Score::new("f<T>", ["first?", "second?", "third?"]).point("a < b", result).card()
    }

    #[test]
    fn a_full_score_needs_no_hint() {
        let card = card(Ok(()));
        assert!(card.contains("1 of 1 points") && card.contains("a &lt; b") && !card.contains("first?"), "{card}");
    }

    #[test]
    fn the_first_hint_is_open_and_the_others_are_asked_for() {
        let card = card(wrong!("b is <less>"));
        assert!(card.contains("b is &lt;less&gt;") && card.contains("f&lt;T&gt;"), "{card}");
        let (open, closed) = card.split_once("<details>").unwrap();
        assert!(open.contains("first?") && !open.contains("second?"));
        let (second, third) = closed.split_once("<details>").unwrap();
        assert!(second.contains("second?") && !second.contains("third?") && third.contains("third?"));
    }

    #[test]
    fn code_is_set_as_code() {
        assert_eq!(with_code("use `a < b` here"), "use <code>a &lt; b</code> here");
        assert_eq!(with_code("`a` and ` alone"), "<code>a</code> and ` alone");
    }

    #[test]
    fn unfinished_is_no_fault() {
        let card = card(Err(Complaint::NotYet));
        assert!(card.contains("not yet") && card.contains("first?") && !card.contains("a &lt; b"), "{card}");
    }
}
