//! Sentences about a run's own numbers, each beside whether it holds.

use quantlab::report::{escape_html, show};

/// Sentences that depend on what was just measured, each with whether its numbers bear it out. They give no points: one
/// that does not hold says which number, or which sentence, not to believe. `cargo lab test` fails a solution of which one
/// does not hold, so a claim about times must be one that a busy machine cannot turn.
///
/// ```
/// use quantlab_course::Claims;
///
/// let (short, long) = (0.11, 0.19);
/// let claims = Claims::new("Prompt lengths").that("the longer prompt takes longer", long > short);
/// assert_eq!(claims.to_string(), "Prompt lengths\n  + the longer prompt takes longer");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    title: String,
    sentences: Vec<(String, Option<bool>)>,
}

/// One sentence about this run, and whether it holds; `None` as long as nothing was measured.
///
/// ```
/// use quantlab_course::claim;
///
/// let [with_cache, without] = ["there lived a fisher"; 2];
/// let claims = claim("the text is the same with and without the cache", with_cache == without);
/// assert!(claims.hold());
/// ```
pub fn claim(sentence: impl Into<String>, holds: impl Into<Option<bool>>) -> Claims {
    Claims::new("On this run").that(sentence, holds)
}

impl Claims {
    /// A list without sentences, as long as nothing was measured.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), sentences: Vec::new() }
    }

    /// Adds a sentence, and whether it holds; `None` as long as nothing was measured.
    pub fn that(mut self, sentence: impl Into<String>, holds: impl Into<Option<bool>>) -> Self {
        self.sentences.push((sentence.into(), holds.into()));
        self
    }

    /// Whether no sentence is contradicted.
    pub fn hold(&self) -> bool {
        self.sentences.iter().all(|(_, holds)| *holds != Some(false))
    }

    /// Shows the sentences as a notebook cell's value.
    pub fn evcxr_display(&self) {
        let mark = |holds: Option<bool>| match holds {
            Some(true) => "&#10003;",
            Some(false) => "&#10007; <b>not so here:</b>",
            None => "&#8230; not measured yet:",
        };
        let line = |(sentence, holds): &(String, _)| format!("<div>{} {}</div>", mark(*holds), escape_html(sentence));
        let lines: String = match self.sentences.as_slice() {
            [] => "<div>nothing measured yet</div>".to_owned(),
            sentences => sentences.iter().map(line).collect(),
        };
        let html = format!(
            "<div style=\"border-left: 4px solid #8a8f98; padding: 0.4em 1em; max-width: 46em; line-height: 1.5\">\
             <div>{}</div>{lines}</div>",
            escape_html(&self.title)
        );
        show(&self.to_string(), &html);
    }
}

impl std::fmt::Display for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.title)?;
        if self.sentences.is_empty() {
            return f.write_str("\n  nothing measured yet");
        }
        self.sentences.iter().try_for_each(|(sentence, holds)| match holds {
            Some(true) => write!(f, "\n  + {sentence}"),
            Some(false) => write!(f, "\n  - not so here: {sentence}"),
            None => write!(f, "\n  . not measured yet: {sentence}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_hold_is_pointed_at() {
        let claims = claim("a", true).that("b", None).that("c", false);
        assert!(!claims.hold() && claim("a", true).that("b", None).hold());
        assert_eq!(claims.to_string(), "On this run\n  + a\n  . not measured yet: b\n  - not so here: c");
        assert_eq!(Claims::new("x").to_string(), "x\n  nothing measured yet");
    }
}
