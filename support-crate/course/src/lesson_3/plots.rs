//! What lesson 3 draws.

use quantlab::error::Result;
use quantlab::measure::Perplexity;
use quantlab::report::{BarPlot, Estimate, LinePlot};

use super::{Cut, halved};

/// How surprising each token of a sentence is, from the second on.
///
/// # Errors
/// A number that is not finite.
pub fn surprises_plot(surprises: &[(String, f64)]) -> Result<BarPlot> {
    // Two bars of one name would be one.
    let bars = (1..).zip(surprises).map(|(t, (token, loss))| (format!("{} ({t})", token.trim()), *loss));
    BarPlot::new("Where is the model surprised?").x("token (position)").y("negative log-likelihood", "nats").bars(bars)
}

/// Perplexities of more and more texts, with their intervals.
///
/// # Errors
/// A number that is not finite.
pub fn certainty_plot(certainty: &[(usize, Estimate)]) -> Result<LinePlot> {
    let plot = LinePlot::new("The perplexity of more and more texts")
        .x("texts evaluated", "")
        .y("perplexity", "")
        .series("texts from all over the corpus", certainty.iter().copied())?;
    Ok(plot.intervals("95% interval over texts").log_x().log_y())
}

/// Bits per byte of texts of several kinds, and what someone needs who knows only the alphabet of the random letters.
///
/// # Errors
/// A number that is not finite.
pub fn kinds_plot(kinds: &[(&str, Perplexity)]) -> Result<BarPlot> {
    BarPlot::new("How well one model would compress different texts")
        .y("bits per byte", "")
        .bars(kinds.iter().map(|(name, perplexity)| (*name, perplexity.bits_per_byte.unwrap_or(f64::NAN))))?
        .limits("27 characters, each as likely as the others", [("random letters", 27_f64.log2())])
}

/// The loss against the window, where windows overlap by half.
///
/// # Errors
/// A number that is not finite.
pub fn context_plot(cuts: &[Cut]) -> Result<LinePlot> {
    let plot = LinePlot::new("More context, less surprise")
        .x("window", "tokens")
        .y("average loss", "nats/token")
        .series("windows that overlap by half", halved(cuts))?;
    Ok(plot.log_x())
}
