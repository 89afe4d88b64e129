//! Lines of measured points: how something changes along a length, a size, a step.

use std::fmt::Display;

use plotters::style::Color;

use super::cell::Cell;
use super::chart::{Chart, Scale, chart_methods, check_value};
use super::estimate::{Estimate, Number, Point};
use super::label::{Label, Place};
use super::number::significant;
use super::scene::{ACROSS, Key, Mark, Scene, Stroke, Xy};
use super::style::{Look, NOTE_SIZE, looks};
use super::table::Table;
use crate::error::{Error, Result};
use crate::measure::Statistics;

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
    chart: Chart,
    series: Vec<Series>,
    from_zero: bool,
}

#[derive(Debug, Clone)]
struct Series {
    name: String,
    /// From left to right.
    points: Vec<Point>,
    /// Where each point stood when the points were given.
    order: Vec<usize>,
    /// What to write at each point; may be empty.
    labels: Vec<String>,
    /// Of independent runs: there is no line between them.
    runs: Option<Statistics>,
}

impl LinePlot {
    /// A plot without data yet. The vertical axis starts at zero unless told otherwise.
    pub fn new(title: impl Into<String>) -> Self {
        Self { chart: Chart::new(title), series: Vec::new(), from_zero: true }
    }

    /// Adds a line. Points are pairs `(x, y)` where `y` is a number or an [`Estimate`]; their order
    /// does not matter.
    ///
    /// # Errors
    /// NaN and infinite values.
    pub fn series(mut self, name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Result<Self> {
        let (name, points): (String, Vec<Point>) = (name.into(), points.into_iter().map(Into::into).collect());
        for point in &points {
            check_value(&name, "the horizontal axis", point.x.into())?;
            check_value(&name, &point.x.to_string(), point.y)?;
        }
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by(|a, b| points[*a].x.total_cmp(&points[*b].x));
        let points = order.iter().map(|&index| points[index]).collect();
        self.series.push(Series { name, points, order, labels: Vec::new(), runs: None });
        Ok(self)
    }

    /// Adds independent runs, in the order in which they were made and to the right of runs added
    /// before: a point for each, no line between them, and their median with its 95% interval as a band
    /// (see [`Statistics`]).
    ///
    /// # Errors
    /// No runs; NaN and infinite values.
    pub fn runs(mut self, name: impl Into<String>, values: impl IntoIterator<Item: Number>) -> Result<Self> {
        let (name, values): (_, Vec<f64>) = (name.into(), values.into_iter().map(Number::to_f64).collect());
        let before: usize = self.series.iter().filter(|series| series.runs.is_some()).map(|s| s.points.len()).sum();
        self = self.series(&name, values.iter().enumerate().map(|(index, value)| (before + index + 1, *value)))?;
        let statistics = Statistics::of(&values).map_err(|error| error.context(format!("`{name}`")))?;
        self.series.iter_mut().next_back().into_iter().for_each(|series| series.runs = Some(statistics));
        Ok(self)
    }

    /// Writes labels at the points of a series, where they have room: one for each point, in the order
    /// in which the points were given.
    ///
    /// # Errors
    /// A series that the plot does not have; another count of labels than of points.
    pub fn label_points(mut self, name: &str, labels: impl IntoIterator<Item: Display>) -> Result<Self> {
        let labels: Vec<String> = labels.into_iter().map(|label| label.to_string()).collect();
        let title = &self.chart.title;
        let Some(series) = self.series.iter_mut().find(|series| series.name == name) else {
            return Err(Error::input(format!("`{title}` has no series `{name}` to label"))
                .hint("add the series first, then its labels by the same name"));
        };
        if labels.len() != series.points.len() {
            return Err(Error::input(format!("`{name}`: {} labels for {} points", labels.len(), series.points.len()))
                .hint("give one label for each point, in the order of the points"));
        }
        series.labels = series.order.iter().map(|&index| labels[index].clone()).collect();
        Ok(self)
    }

    /// Whether the vertical axis starts at zero (it does unless told otherwise). Measured amounts
    /// should: an axis cut off at the bottom makes small differences look large.
    pub fn y_from_zero(mut self, from_zero: bool) -> Self {
        self.from_zero = from_zero;
        self
    }

    /// The plotted numbers as a table, one row per point.
    pub fn table(&self) -> Result<Table> {
        let Chart { x, y, .. } = &self.chart;
        let columns = [("series", ""), (x.name_or("x"), x.unit.as_str()), (y.name_or("y"), y.unit.as_str())];
        let mut table = self.chart.table(columns)?;
        for series in &self.series {
            for point in &series.points {
                table = table.row([Cell::from(&series.name), Cell::plain(point.x), Cell::measured(point.y)])?;
            }
        }
        Ok(table)
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let chart = &self.chart;
        chart.check_any(self.points().next().is_some(), "add points with .series(\"name\", [(x, y)])?")?;
        let x = chart.across(self.points().map(|point| point.x.into()))?;
        let medians = self.series.iter().filter_map(|series| series.runs.map(Estimate::from));
        let references = chart.references.iter().map(|(value, _)| (*value).into());
        let y = chart.up(self.points().map(|point| point.y).chain(medians).chain(references), self.from_zero)?;
        let mut scene = Scene { x_label: x.label, y_label: y.label.clone(), ..Scene::new(x.axis, y.axis.clone()) };

        let looks = looks(self.series.iter().map(|series| series.name.as_str()));
        let looked: Vec<(&Series, Look)> = self.series.iter().zip(looks).collect();
        for layer in [Series::draw_line, Series::draw_markers, Series::draw_intervals] {
            looked.iter().for_each(|(series, look)| layer(series, &mut scene, *look));
        }
        scene.references(chart, false);
        looked.iter().for_each(|(series, look)| series.write(&mut scene, *look, &y));
        scene.intervals(chart);
        let runs = looked.iter().filter_map(|(series, look)| Some((series.runs?.confidence, look)));
        if let Some((confidence, look)) = runs.min_by(|a, b| a.0.total_cmp(&b.0)) {
            let label = format!("median with its {:.0}% interval", 100.0 * confidence);
            scene.entry(label, Key::Swatch(look.color.mix(BAND)));
        }
        Ok(scene)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }
}

chart_methods!(LinePlot: x, y, log_x, log_y, intervals, reference_line);

/// The radius of a marker, in pixels.
const RADIUS: f64 = 4.2;
/// How much a band hides of what is below it.
const BAND: f64 = 0.22;

impl Series {
    /// Whether there is room for a marker at each point.
    fn has_markers(&self, scene: &Scene) -> bool {
        let gap = |pair: &[Point]| (scene.x.position(pair[1].x) - scene.x.position(pair[0].x)) * ACROSS;
        let close = self.points.windows(2).filter(|pair| gap(pair) < 2.0 * RADIUS).count();
        self.runs.is_some() || (self.points.len() <= MOST_MARKERS && close <= self.points.len() / 4)
    }

    fn spots(&self) -> impl DoubleEndedIterator<Item = Xy> {
        self.points.iter().map(|point| (point.x, point.y.value))
    }

    /// The band of independent runs, from its top left corner to the other.
    fn band(&self) -> Option<(Xy, Xy)> {
        let (first, last, runs) = (self.points.first()?, self.points.last()?, self.runs?);
        Some(((first.x - 0.4, runs.high), (last.x + 0.4, runs.low)))
    }

    fn draw_line(&self, scene: &mut Scene, look: Look) {
        let mark = match (self.band(), self.runs) {
            (Some((from, to)), Some(runs)) => {
                scene.marks.push(Mark::Block(from, to, look.color.mix(BAND)));
                Mark::Line(vec![(from.0, runs.median), (to.0, runs.median)], Stroke::new(look.color, 1.6))
            }
            _ if self.points.len() < 2 => return,
            _ => Mark::Line(self.spots().collect(), look.stroke(if self.has_markers(scene) { 2.0 } else { 1.4 })),
        };
        scene.marks.push(mark);
    }

    fn draw_intervals(&self, scene: &mut Scene, look: Look) {
        for Point { x, y } in self.points.iter().filter(|point| point.y.has_interval()) {
            scene.marks.push(Mark::Interval((*x, y.low), (*x, y.high), look.color, Some(RADIUS)));
        }
    }

    fn draw_markers(&self, scene: &mut Scene, look: Look) {
        if self.has_markers(scene) {
            scene.marks.extend(self.spots().map(|at| Mark::Point(at, look, RADIUS)));
        }
    }

    /// The name, and what is to be written at the points.
    fn write(&self, scene: &mut Scene, look: Look, y: &Scale) {
        let at_point = |(text, at): (&String, Xy)| Label { size: NOTE_SIZE, ..Label::new(text, at, Place::Near) };
        scene.labels.extend(self.labels.iter().zip(self.spots()).map(at_point));
        let Some(last) = self.spots().next_back().filter(|_| !self.name.is_empty()) else { return };
        let (label, key) = match (self.band(), self.runs) {
            (Some((from, to)), Some(runs)) => {
                let name = format!("{}: {} {}", self.name, significant(runs.median * y.factor, 3), y.unit);
                (Label::new(name.trim_end(), from, Place::Along { to, rows: 4 }), Key::Marker(look))
            }
            _ if self.has_markers(scene) => (Label::new(&self.name, last, Place::End), Key::Series(look)),
            _ => (Label::new(&self.name, last, Place::End), Key::Line(look.stroke(2.0))),
        };
        scene.labels.push(Label { color: look.ink(), key: Some(key), ..label });
    }
}
