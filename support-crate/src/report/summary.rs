//! A few sentences in words, shown as a list.

use super::display::{escape_html, show};

/// Findings as bullet points, made from the numbers of the run that they speak of.
///
/// ```
/// use quantlab::report::Summary;
///
/// let (short, long) = (0.11, 0.19);
/// let summary = Summary::new("What this run shows")
///     .point(format!("A prompt 16 times as long took {:.1} times as long.", long / short));
/// assert_eq!(summary.to_string(), "What this run shows\n- A prompt 16 times as long took 1.7 times as long.");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    title: String,
    points: Vec<String>,
}

impl Summary {
    /// A summary without points yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), points: Vec::new() }
    }

    /// Adds a point.
    pub fn point(mut self, text: impl Into<String>) -> Self {
        self.points.push(text.into());
        self
    }

    /// Shows the summary as a notebook cell's value.
    pub fn evcxr_display(&self) {
        let items: String = self.points.iter().map(|point| format!("<li>{}</li>", escape_html(point))).collect();
        let html = format!(
            "<div style=\"max-width: 46em\"><b>{}</b><ul style=\"line-height: 1.5\">{items}</ul></div>",
            escape_html(&self.title)
        );
        show(&self.to_string(), &html);
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.title)?;
        self.points.iter().try_for_each(|point| write!(f, "\n- {point}"))
    }
}
