//! What all pictures have in common: title, axes, notes, reference lines, intervals, checks of their data, and the
//! forms of output (SVG, file, notebook cell).

use super::axis::{Axis, LARGEST};
use super::style::{ACROSS, LABEL_SIZE};
use crate::error::{Error, Result};
use crate::report::display::{escape_html, show_blocks, svg_data_uri};
use crate::report::number::labelled;
use crate::report::{Estimate, Table};

/// How many ticks the vertical axis has at most, and the horizontal one.
const TICKS_UP: usize = 7;
const TICKS_ACROSS: usize = 9;

/// A picture without its data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    pub title: String,
    pub x: Quantity,
    pub y: Quantity,
    pub note: String,
    /// What the error bars are.
    pub intervals: String,
    /// Values to compare with, and their names.
    pub references: Vec<(f64, String)>,
    /// What single bars or points are limited to, by their index, and what limits them.
    pub limits: Vec<(usize, f64)>,
    pub limits_name: String,
}

/// What an axis shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quantity {
    pub name: String,
    pub unit: String,
    pub log: bool,
}

impl Chart {
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A table with one column for each name and unit; a name that comes twice gets a number, so that
    /// any names a plot was given make a table.
    pub fn table<'a>(&self, columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Table {
        let mut names: Vec<String> = Vec::new();
        let mut table = Table::new(&self.title).note(&self.note);
        for (name, unit) in columns {
            let numbered = (2..).map(|number| format!("{name} {number}"));
            let unused = std::iter::once(name.to_owned()).chain(numbered).find(|name| !names.contains(name));
            names.extend(unused.clone());
            table = table.headings([(unused.unwrap_or_default(), unit)]);
        }
        table
    }

    /// What the bar or point with this index is limited to.
    pub fn limit_of(&self, index: usize) -> Option<f64> {
        self.limits.iter().find(|(limited, _)| *limited == index).map(|(_, limit)| *limit)
    }

    /// Refuses a plot of nothing.
    pub fn check_any(&self, anything: bool, how: &str) -> Result<()> {
        if anything {
            return Ok(());
        }
        Err(Error::input(format!("`{}` has no data to draw yet", self.title)).hint(how))
    }

    /// The horizontal axis for values that were varied.
    pub fn across(&self, values: impl IntoIterator<Item = Estimate>) -> Result<Scale> {
        self.scale(&self.x, "horizontal", values, |values, own, log| match log {
            true => Axis::logarithmic(values, TICKS_ACROSS).with_ticks_at(own, values, LABEL_SIZE, ACROSS),
            false => Axis::varied(values, TICKS_ACROSS),
        })
    }

    /// The axis of measured values, from zero or near the data.
    pub fn up(&self, values: impl IntoIterator<Item = Estimate>, from_zero: bool) -> Result<Scale> {
        self.scale(&self.y, "vertical", values, |values, _, log| match (log, from_zero) {
            (true, _) => Axis::logarithmic(values, TICKS_UP + 3),
            (_, true) => Axis::measured(values, TICKS_UP),
            (_, false) => Axis::varied(values, TICKS_UP),
        })
    }

    /// An axis for the values and the ends of their intervals, made of both and of the values alone.
    fn scale(
        &self,
        quantity: &Quantity,
        direction: &str,
        values: impl IntoIterator<Item = Estimate>,
        axis: impl Fn(&[f64], &[f64], bool) -> Axis,
    ) -> Result<Scale> {
        let values: Vec<Estimate> = values.into_iter().collect();
        let own: Vec<f64> = values.iter().map(|value| value.value).collect();
        if let Some(value) = own.iter().find(|value| quantity.log && **value <= 0.0) {
            return Err(Error::input(format!(
                "`{}`: {value} has no place on a logarithmic {direction} axis, which needs values above zero",
                self.title
            ))
            .hint("leave the value out, or use a linear axis"));
        }
        // An interval that reaches zero runs off a logarithmic axis; the value itself stays on it.
        let ends = values.iter().flat_map(|value| [value.low, value.high]).filter(|end| !quantity.log || *end > 0.0);
        let all: Vec<f64> = own.iter().copied().chain(ends).collect();
        let (unit, factor) = quantity.unit_for(values);
        let [all, own] = [all, own].map(|values| values.iter().map(|value| value * factor).collect::<Vec<_>>());
        let axis = axis(&all, &own, quantity.log).of_unscaled(factor);
        Ok(Scale { axis, label: labelled(&quantity.name, unit), unit: unit.to_owned(), factor })
    }

    /// Sends the picture in three forms: an image for notebooks, also those not trusted yet; SVG for
    /// exporters; the numbers for places without pictures.
    pub fn show(&self, shown: Result<(String, Table)>) {
        let blocks = self.blocks(shown);
        let blocks: Vec<(&str, &str)> = blocks.iter().map(|(mime, content)| (*mime, content.as_str())).collect();
        show_blocks(&blocks);
    }

    pub(super) fn blocks(&self, shown: Result<(String, Table)>) -> Vec<(&'static str, String)> {
        match shown {
            Ok((svg, table)) => {
                let image = format!(
                    "<img src=\"{}\" alt=\"{}\" style=\"max-width: 100%; height: auto\">",
                    svg_data_uri(&svg),
                    escape_html(&self.title),
                );
                vec![("text/plain", table.to_text()), ("image/svg+xml", svg), ("text/html", image)]
            }
            Err(error) => {
                let text = format!("cannot draw `{}`: {error}", self.title);
                let html = format!("<p>{}</p>", escape_html(&text));
                vec![("text/plain", text), ("text/html", html)]
            }
        }
    }
}

impl Quantity {
    /// The name, or another if there is none.
    pub fn name_or<'a>(&'a self, otherwise: &'a str) -> &'a str {
        if self.name.is_empty() { otherwise } else { &self.name }
    }

    /// The unit that suits the values, and what to multiply them by: short times are shown in milliseconds or
    /// microseconds. The largest value decides or, on a logarithmic axis, the one in the middle.
    pub fn unit_for(&self, values: impl IntoIterator<Item = Estimate>) -> (&str, f64) {
        let (mut least, mut most) = (f64::MAX, 0.0_f64);
        for Estimate { value, low, high } in values {
            (least, most) = (least.min(value), most.max(value.abs()));
            most = if self.log { most } else { most.max(low.abs()).max(high.abs()) };
        }
        let size = if self.log { least.max(0.0).sqrt() * most.sqrt() } else { most };
        match self.unit.as_str() {
            "s" if size > 0.0 && size < 1e-4 => ("\u{b5}s", 1e6),
            "s" if size > 0.0 && size < 0.1 => ("ms", 1e3),
            "ms" if size > 0.0 && size < 0.1 => ("\u{b5}s", 1e3),
            unit => (unit, 1.0),
        }
    }
}

/// An axis and how its values are written.
pub(crate) struct Scale {
    pub axis: Axis,
    pub label: String,
    pub unit: String,
    /// What to multiply a value by to have it in the unit.
    pub factor: f64,
}

/// An axis that need not begin at zero does if the lowest value is not above this share of the highest: then it
/// costs little room.
const NEAR_ZERO: f64 = 0.6;

/// Whether zero is so near to the values that their axis should begin at it.
pub(crate) fn zero_is_near(values: impl Iterator<Item = Estimate>) -> bool {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value.low).min(value.value), high.max(value.high).max(value.value))
    });
    low >= 0.0 && low <= NEAR_ZERO * high
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

/// Gives a plot with a field `chart`, `fn scene(&self) -> Result<Scene>` and `fn table(&self) -> Table` its
/// forms of output, and those of the shared plot methods that are named. `limits` takes
/// `fn index_of(&self, name: &str) -> Option<usize>`.
macro_rules! chart_methods {
    ($plot:ty: $($method:ident),*) => {
        impl $plot {
            $($crate::report::plot::drawing::chart::chart_method!($method);)*

            /// A line of small print below the picture: model, engine, device, dtype, threads, build.
            pub fn note(mut self, note: impl std::fmt::Display) -> Self {
                self.chart.note = note.to_string();
                self
            }

            /// The picture as an SVG document.
            ///
            /// # Errors
            /// Nothing to draw; a value at or below zero on a logarithmic axis.
            pub fn to_svg(&self) -> $crate::error::Result<String> {
                self.scene()?.to_svg(&self.chart)
            }

            /// Writes the picture to an SVG file.
            ///
            /// # Errors
            /// Those of [`to_svg`](Self::to_svg); a file that cannot be written.
            pub fn save_svg(&self, path: impl AsRef<std::path::Path>) -> $crate::error::Result<()> {
                $crate::report::display::save(path.as_ref(), self.to_svg()?.as_bytes())
            }

            /// Writes the picture to a PNG file, at twice its size on the page.
            ///
            /// # Errors
            /// Those of [`to_svg`](Self::to_svg); a file that cannot be written.
            pub fn save_png(&self, path: impl AsRef<std::path::Path>) -> $crate::error::Result<()> {
                $crate::report::display::save(path.as_ref(), &$crate::report::plot::drawing::png::from_svg(&self.to_svg()?)?)
            }

            /// Shows the picture as a notebook cell's value; without graphics, its numbers as text.
            pub fn evcxr_display(&self) {
                self.chart.show(self.to_svg().map(|svg| (svg, self.table())));
            }
        }
    };
}
pub(crate) use chart_methods;

macro_rules! chart_method {
    (x) => {
        /// Names the horizontal axis and its unit (`""` for none). Short times in seconds are shown in
        /// milliseconds.
        pub fn x(mut self, name: impl Into<String>, unit: impl Into<String>) -> Self {
            (self.chart.x.name, self.chart.x.unit) = (name.into(), unit.into());
            self
        }
    };
    (category) => {
        /// Says what the categories are; often the title does.
        pub fn x(mut self, name: impl Into<String>) -> Self {
            self.chart.x.name = name.into();
            self
        }
    };
    (y) => {
        /// Names the values and their unit (`""` for none). Short times in seconds are shown in
        /// milliseconds.
        pub fn y(mut self, name: impl Into<String>, unit: impl Into<String>) -> Self {
            (self.chart.y.name, self.chart.y.unit) = (name.into(), unit.into());
            self
        }
    };
    (log_x) => {
        /// Makes the horizontal axis logarithmic, with ticks at the data's own values if they are few.
        pub fn log_x(mut self) -> Self {
            self.chart.x.log = true;
            self
        }
    };
    (log_y) => {
        /// Makes the vertical axis logarithmic.
        pub fn log_y(mut self) -> Self {
            self.chart.y.log = true;
            self
        }
    };
    (intervals) => {
        /// Says below the picture what the error bars are, for example `95% confidence interval`; for measured
        /// times [`Statistics::interval_names`](crate::measure::Statistics::interval_names) has the words.
        pub fn intervals(mut self, name: impl Into<String>) -> Self {
            self.chart.intervals = name.into();
            self
        }
    };
    (limits) => {
        /// Marks some bars or points with a limit of their own, such as the speed that memory bandwidth allows each of
        /// them: pairs of a name and its limit.
        ///
        /// # Errors
        /// NaN and infinite values; a name that the plot does not have.
        pub fn limits<N: AsRef<str>>(
            mut self,
            label: impl Into<String>,
            limits: impl IntoIterator<Item = (N, f64)>,
        ) -> $crate::error::Result<Self> {
            self.chart.limits_name = label.into();
            for (name, limit) in limits {
                let name = name.as_ref();
                $crate::report::plot::drawing::chart::check_value(name, &self.chart.limits_name, limit.into())?;
                let Some(index) = self.index_of(name) else {
                    let message = format!("`{}` has no `{name}` to limit", self.chart.title);
                    return Err($crate::error::Error::input(message)
                        .hint("add what has a limit first, then its limit by the same name"));
                };
                self.chart.limits.push((index, limit));
            }
            Ok(self)
        }
    };
    (reference_line) => {
        /// Adds a line at a value to compare with, such as the limit that memory bandwidth sets.
        ///
        /// # Errors
        /// A value that is NaN or infinite.
        pub fn reference_line(mut self, value: f64, label: impl Into<String>) -> $crate::error::Result<Self> {
            let label = label.into();
            $crate::report::plot::drawing::chart::check_value(&label, "the reference line", value.into())?;
            self.chart.references.push((value, label));
            Ok(self)
        }
    };
}
pub(crate) use chart_method;

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
