//! Lines of measured points: how something changes along a length, a size, a step.

use std::fmt::Display;

use super::axis::Axis;
use super::canvas::{Canvas, Rect, Spot};
use super::cell::Cell;
use super::estimate::{Estimate, Point};
use super::frame::{Across, Entry, Frame, Key, Panel, Reference, TICKS_ACROSS, TICKS_UP, labelled, reference_entries};
use super::plot::{check_any, check_positive, check_value, table_of, ways_out};
use super::style::{SeriesStyle, draw_error_bar};
use super::table::Table;
use crate::error::Result;

/// Beyond this many points a line is a curve, and markers would hide it.
const MOST_MARKERS: usize = 40;

/// One or more lines of measured points, with error bars where the points have intervals.
///
/// ```
/// use quantlab::report::{Estimate, LinePlot};
///
/// let float32 = [(16, Estimate::new(0.11, 0.10, 0.12)), (64, Estimate::new(0.19, 0.18, 0.21))];
/// let plot = LinePlot::new("Latency by prompt length")
///     .x("prompt length", "tokens")
///     .y("latency", "s")
///     .series("float32", float32)?
///     .intervals("95% confidence interval")
///     .reference_line(0.05, "bandwidth limit")?;
/// assert!(plot.to_svg()?.contains("prompt length (tokens)"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LinePlot {
    title: String,
    x: (String, String),
    y: (String, String),
    note: String,
    interval_name: String,
    series: Vec<Series>,
    references: Vec<Reference>,
    log_x: bool,
    log_y: bool,
    from_zero: bool,
}

#[derive(Debug, Clone)]
struct Series {
    name: String,
    points: Vec<Point>,
}

impl LinePlot {
    /// A plot without data yet. The vertical axis starts at zero unless told otherwise.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            x: Default::default(),
            y: Default::default(),
            note: String::new(),
            interval_name: String::new(),
            series: Vec::new(),
            references: Vec::new(),
            log_x: false,
            log_y: false,
            from_zero: true,
        }
    }

    /// Names the horizontal axis and its unit (`""` for none).
    pub fn x(mut self, label: impl Into<String>, unit: impl Into<String>) -> Self {
        self.x = (label.into(), unit.into());
        self
    }

    /// Names the vertical axis and its unit (`""` for none).
    pub fn y(mut self, label: impl Into<String>, unit: impl Into<String>) -> Self {
        self.y = (label.into(), unit.into());
        self
    }

    /// Adds a line. Points are pairs `(x, y)` where `y` is a number or an [`Estimate`]; their order
    /// does not matter.
    ///
    /// NaN and infinite values are an error.
    pub fn series(mut self, name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Result<Self> {
        let name = name.into();
        let mut points: Vec<Point> = points.into_iter().map(Into::into).collect();
        for point in &points {
            check_value(&name, "the horizontal axis", Estimate::exact(point.x))?;
            check_value(&name, &point.x.to_string(), point.y)?;
        }
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        self.series.push(Series { name, points });
        Ok(self)
    }

    /// Says in the legend what the error bars are, for example `95% confidence interval`.
    pub fn intervals(mut self, name: impl Into<String>) -> Self {
        self.interval_name = name.into();
        self
    }

    /// Adds a horizontal line to compare with, such as a limit.
    pub fn reference_line(mut self, value: f64, label: impl Into<String>) -> Result<Self> {
        let label = label.into();
        check_value(&label, "the reference line", Estimate::exact(value))?;
        self.references.push(Reference { value, label });
        Ok(self)
    }

    /// Makes the horizontal axis logarithmic, with ticks at the data's own values if they are few.
    pub fn log_x(mut self) -> Self {
        self.log_x = true;
        self
    }

    /// Makes the vertical axis logarithmic.
    pub fn log_y(mut self) -> Self {
        self.log_y = true;
        self
    }

    /// Whether the vertical axis starts at zero (it does unless told otherwise). Measured amounts
    /// should: an axis cut off at the bottom makes small differences look large.
    pub fn y_from_zero(mut self, from_zero: bool) -> Self {
        self.from_zero = from_zero;
        self
    }

    /// A line of small print below the plot: model, engine, device, dtype, threads, build.
    pub fn note(mut self, note: impl Display) -> Self {
        self.note = note.to_string();
        self
    }

    /// The plotted numbers as a table, one row per point.
    pub fn table(&self) -> Result<Table> {
        let (x, y) = (name_or(&self.x.0, "x"), name_or(&self.y.0, "y"));
        let mut table = table_of(&self.title, [("series", ""), (x, self.x.1.as_str()), (y, self.y.1.as_str())])?;
        for series in &self.series {
            for point in &series.points {
                let y = if point.y.has_interval() { Cell::from(point.y) } else { Cell::from(point.y.value) };
                table = table.row([Cell::from(&series.name), Cell::plain(point.x), y])?;
            }
        }
        Ok(table.note(&self.note))
    }

    pub(super) fn scene(&self) -> Result<Canvas> {
        check_any(&self.title, self.points().next().is_some(), "add points with .series(\"name\", [(x, y)])?")?;
        let (across, up) = self.axes()?;
        let mut panel = self.frame().draw(Across::Numbers(across), up);
        for layer in [Series::draw_line, Series::draw_rims, Series::draw_error_bars, Series::draw_markers] {
            for (index, series) in self.series.iter().enumerate() {
                layer(series, &mut panel, SeriesStyle::nth(index));
            }
        }
        let covered: Vec<Rect> = self.series.iter().flat_map(|series| series.covered(&panel)).collect();
        panel.draw_references(&self.references, &covered);
        Ok(panel.canvas)
    }

    fn axes(&self) -> Result<(Axis, Axis)> {
        let xs: Vec<f64> = self.points().map(|point| point.x).collect();
        let across = if self.log_x {
            check_positive(&self.title, "horizontal", xs.iter().copied())?;
            Axis::logarithmic(&xs, TICKS_ACROSS).with_ticks_at(&xs, 2 * TICKS_ACROSS)
        } else {
            Axis::varied(&xs, TICKS_ACROSS)
        };
        let values = self.points().map(|point| point.y.value);
        let mut ys: Vec<f64> = values.chain(self.references.iter().map(|reference| reference.value)).collect();
        if self.log_y {
            check_positive(&self.title, "vertical", ys.iter().copied())?;
        }
        let ends = self.points().flat_map(|point| [point.y.low, point.y.high]);
        // An interval that reaches zero runs off a logarithmic axis; the value itself stays on it.
        ys.extend(ends.filter(|end| !self.log_y || *end > 0.0));
        let up = if self.log_y {
            Axis::logarithmic(&ys, TICKS_UP + 3)
        } else {
            Axis::measured(&ys, self.from_zero, TICKS_UP)
        };
        Ok((across, up))
    }

    fn frame(&self) -> Frame {
        let mut legend = Vec::new();
        let bars = !self.interval_name.is_empty() && self.points().any(|point| point.y.has_interval());
        if self.series.len() > 1 || bars {
            let named = self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
            legend.extend(named.map(|(index, series)| Entry {
                label: series.name.clone(),
                key: Key::Line { style: SeriesStyle::nth(index), marker: series.has_markers() },
            }));
        }
        if bars {
            legend.push(Entry { label: self.interval_name.clone(), key: Key::ErrorBar });
        }
        legend.extend(reference_entries(&self.references));
        Frame {
            title: self.title.clone(),
            x_label: labelled(&self.x.0, &self.x.1),
            y_label: labelled(&self.y.0, &self.y.1),
            note: self.note.clone(),
            legend,
        }
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }
}

impl Series {
    fn has_markers(&self) -> bool {
        self.points.len() <= MOST_MARKERS
    }

    fn spots(&self, panel: &Panel) -> Vec<Spot> {
        self.points.iter().map(|point| (panel.x(point.x), panel.y(point.y.value))).collect()
    }

    fn draw_line(&self, panel: &mut Panel, style: SeriesStyle) {
        let spots = self.spots(panel);
        if spots.len() > 1 {
            let width = if self.has_markers() { 2.0 } else { 1.3 };
            style.draw_line(&mut panel.canvas, &spots, width);
        }
    }

    fn draw_rims(&self, panel: &mut Panel, style: SeriesStyle) {
        if self.has_markers() {
            self.spots(panel).iter().for_each(|&spot| style.draw_rim(&mut panel.canvas, spot));
        }
    }

    fn draw_error_bars(&self, panel: &mut Panel, style: SeriesStyle) {
        for point in self.points.iter().filter(|point| point.y.has_interval()) {
            let (x, low, high) = (panel.x(point.x), panel.y(point.y.low), panel.y(point.y.high));
            draw_error_bar(&mut panel.canvas, x, low, high, style.color);
        }
    }

    fn draw_markers(&self, panel: &mut Panel, style: SeriesStyle) {
        if self.has_markers() {
            self.spots(panel).iter().for_each(|&spot| style.draw_marker(&mut panel.canvas, spot));
        }
    }

    /// The places where the series is drawn, for labels to keep off.
    fn covered(&self, panel: &Panel) -> Vec<Rect> {
        let bars = self.points.iter().map(|point| {
            let x = panel.x(point.x);
            Rect { left: x - 6.5, right: x + 6.5, top: panel.y(point.y.high), bottom: panel.y(point.y.low) }
        });
        bars.chain(places_along(&self.spots(panel))).collect()
    }
}

ways_out!(LinePlot);

/// Small squares along a line, so that labels can keep off it.
fn places_along(spots: &[Spot]) -> Vec<Rect> {
    let mut places: Vec<Rect> = spots.iter().map(|&spot| Rect::around(spot, 7.0)).collect();
    for pair in spots.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let pieces = ((x1 - x0).hypot(y1 - y0) / 6.0).ceil() as usize;
        places.extend((1..pieces).map(|piece| {
            let share = piece as f64 / pieces as f64;
            Rect::around((x0 + (x1 - x0) * share, y0 + (y1 - y0) * share), 3.0)
        }));
    }
    places
}

fn name_or<'a>(name: &'a str, otherwise: &'a str) -> &'a str {
    if name.is_empty() { otherwise } else { name }
}
