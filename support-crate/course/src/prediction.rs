//! What a learner expects before measuring it.

use quantlab::report::{escape_html, show, significant};

use super::ask;

/// A number that was guessed before it was measured.
///
/// Predicting first is what makes the measurement instructive: a surprise shows where one's mental picture is wrong. It
/// is not graded.
///
/// ```
/// use quantlab_course::Prediction;
///
/// let prediction = Prediction::new("how many times as long", || 8.0);
/// assert_eq!(prediction.against(4.0).to_string(), "how many times as long: you said 8, measured 4 (2 times too high)");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    what: String,
    said: Option<f64>,
    measured: Option<f64>,
}

impl Prediction {
    /// Asks for a prediction; one that is still `todo!()` stays open.
    pub fn new(what: impl Into<String>, yours: impl FnOnce() -> f64) -> Self {
        let said = ask(|| Ok(yours()));
        Self { what: what.into(), said: said.ok().filter(|said| said.is_finite()), measured: None }
    }

    /// Puts what was measured beside it.
    pub fn against(&self, measured: f64) -> Self {
        Self { measured: Some(measured).filter(|measured| measured.is_finite()), ..self.clone() }
    }

    /// Shows prediction and measurement as a notebook cell's value.
    pub fn evcxr_display(&self) {
        let text = self.to_string();
        let html = format!(
            "<div style=\"border-left: 4px solid #4c78a8; padding: 0.4em 1em; max-width: 46em\">{}</div>",
            escape_html(&text)
        );
        show(&text, &html);
    }
}

impl std::fmt::Display for Prediction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.said, self.measured) {
            (None, None) => write!(f, "{}: no prediction yet", self.what),
            (None, Some(measured)) => write!(f, "{}: no prediction, measured {}", self.what, figure(measured)),
            (Some(said), None) => write!(f, "{}: you say {}", self.what, figure(said)),
            (Some(said), Some(measured)) => {
                write!(f, "{}: you said {}, measured {}", self.what, figure(said), figure(measured))?;
                let ratio = said / measured;
                match ratio {
                    _ if !(ratio.is_finite() && ratio > 0.0) => Ok(()),
                    0.8..=1.25 => f.write_str(" (close)"),
                    _ if ratio > 1.0 => write!(f, " ({} times too high)", figure(ratio)),
                    _ => write!(f, " ({} times too low)", figure(1.0 / ratio)),
                }
            }
        }
    }
}

/// Three significant digits, without trailing zeros.
fn figure(value: f64) -> String {
    let text = significant(value, 3);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_compared_in_words() {
        let said = |value: f64| Prediction::new("x", move || value);
        assert_eq!(said(2.0).to_string(), "x: you say 2");
        assert_eq!(said(2.0).against(8.0).to_string(), "x: you said 2, measured 8 (4 times too low)");
        assert_eq!(said(2.0).against(2.2).to_string(), "x: you said 2, measured 2.2 (close)");
        assert_eq!(said(0.0).against(2.0).to_string(), "x: you said 0, measured 2");
        assert_eq!(said(f64::NAN).to_string(), "x: no prediction yet");
        let open = Prediction::new("x", || todo!());
        assert_eq!(open.against(2.5).to_string(), "x: no prediction, measured 2.5");
    }
}
