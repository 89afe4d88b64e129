//! What all plots have in common: checks of their data, and the ways out (SVG, file, notebook cell).

use std::path::Path;

use super::axis::LARGEST;
use super::display::{escape_html, show_blocks, svg_data_uri};
use super::estimate::Estimate;
use super::table::Table;
use crate::error::{Error, Result};

/// Gives a plot its ways out. The type has `fn scene(&self) -> Result<Canvas>`, `fn table(&self) ->
/// Result<Table>` and a `title`.
macro_rules! ways_out {
    ($plot:ty) => {
        impl $plot {
            /// The picture as an SVG document.
            pub fn to_svg(&self) -> $crate::error::Result<String> {
                self.scene()?.to_svg(&self.title)
            }

            /// Writes the picture to an SVG file.
            pub fn save_svg(&self, path: impl AsRef<std::path::Path>) -> $crate::error::Result<()> {
                $crate::report::plot::save(path.as_ref(), self.to_svg()?.as_bytes())
            }

            /// Writes the picture to a PNG file, at twice its size on the page.
            pub fn save_png(&self, path: impl AsRef<std::path::Path>) -> $crate::error::Result<()> {
                $crate::report::plot::save(path.as_ref(), &$crate::report::png::from_svg(&self.to_svg()?)?)
            }

            /// Shows the picture as a notebook cell's value; without graphics, its numbers as text.
            pub fn evcxr_display(&self) {
                let shown = self.to_svg().and_then(|svg| Ok((svg, self.table()?)));
                $crate::report::plot::show(&self.title, shown);
            }
        }
    };
}
pub(crate) use ways_out;

/// Sends the picture in three forms: an image for notebooks, also those not trusted yet; SVG for
/// exporters; the numbers for places without pictures.
pub(crate) fn show(title: &str, shown: Result<(String, Table)>) {
    let blocks = blocks(title, shown);
    let blocks: Vec<(&str, &str)> = blocks.iter().map(|(mime, content)| (*mime, content.as_str())).collect();
    show_blocks(&blocks);
}

fn blocks(title: &str, shown: Result<(String, Table)>) -> Vec<(&'static str, String)> {
    match shown {
        Ok((svg, table)) => {
            let image = format!(
                "<img src=\"{}\" alt=\"{}\" style=\"max-width: 100%; height: auto\">",
                svg_data_uri(&svg),
                escape_html(title),
            );
            vec![("text/plain", table.to_text()), ("image/svg+xml", svg), ("text/html", image)]
        }
        Err(error) => {
            let text = format!("no picture of `{title}`: {error}");
            let html = format!("<p>{}</p>", escape_html(&text));
            vec![("text/plain", text), ("text/html", html)]
        }
    }
}

pub(crate) fn save(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).map_err(|error| {
        Error::from(error)
            .context(format!("writing {}", path.display()))
            .hint("does the folder exist, and may you write to it?")
    })
}

/// A table with one column for each name and unit; a name that comes twice gets a number, so that
/// any names a plot was given make a table.
pub(crate) fn table_of<'a>(title: &str, columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Table> {
    let mut names: Vec<String> = Vec::new();
    let mut table = Table::new(title);
    for (name, unit) in columns {
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let unused = std::iter::once(name.to_owned()).chain(numbered).find(|name| !names.contains(name));
        names.extend(unused.clone());
        table = table.headings([(unused.unwrap_or_default(), unit)])?;
    }
    Ok(table)
}

/// Refuses numbers that no axis can show.
pub(crate) fn check_value(series: &str, place: &str, estimate: Estimate) -> Result<()> {
    for number in [estimate.value, estimate.low, estimate.high] {
        if !number.is_finite() || number.abs() > LARGEST {
            return Err(Error::input(format!("`{series}` has the value {number} at {place}, which cannot be drawn"))
                .hint("leave out or repeat the measurement that failed"));
        }
    }
    if estimate.low > estimate.high {
        let Estimate { low, high, .. } = estimate;
        return Err(Error::input(format!("`{series}` at {place}: its interval runs from {low} down to {high}"))
            .hint("Estimate::new takes the value, then the low end, then the high end"));
    }
    Ok(())
}

/// Refuses a plot of nothing.
pub(crate) fn check_any(title: &str, anything: bool, how: &str) -> Result<()> {
    if anything {
        return Ok(());
    }
    Err(Error::input(format!("`{title}` has no data to draw yet")).hint(how))
}

/// Refuses a logarithmic axis that values at or below zero have no place on.
pub(crate) fn check_positive(title: &str, axis: &str, values: impl IntoIterator<Item = f64>) -> Result<()> {
    match values.into_iter().find(|value| *value <= 0.0) {
        None => Ok(()),
        Some(value) => Err(Error::input(format!(
            "`{title}`: {value} has no place on a logarithmic {axis} axis, which needs values above zero"
        ))
        .hint("leave the value out, or use a linear axis")),
    }
}

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;
