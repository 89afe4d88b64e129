//! Lines of measured points: how something changes along a length, a size, a step.

use std::fmt::Display;

use plotters::style::Color;

use super::drawing::axis::{Axis, Tick};
use super::drawing::chart::{Chart, Scale, chart_methods, check_value, zero_is_near};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene, Xy, reference_stroke};
use super::drawing::style::{ACROSS, INK, Look, NOTE_SIZE, PALETTE, Stroke, looks};
use crate::error::{Error, Result};
use crate::measure::Statistics;
use crate::report::number::significant;
use crate::report::{Cell, Estimate, Number, Point, Table};

/// Beyond this many points a line is a curve, and markers would hide it.
const MAX_MARKERS: usize = 40;
/// How much room independent runs leave to those before them, and about how many numbers they have on the axis.
const BETWEEN_RUNS: f64 = 3.0;
const MAX_RUN_TICKS: usize = 10;

/// Measured points, with lines between them or without, and with error bars where they have intervals.
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
    from_zero: Option<bool>,
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
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Measured,
    /// Measured, with no line between the points.
    Points,
    /// Measured, with a line from each point down to zero.
    Stems,
    /// Independent runs, with no line between them.
    Runs(Statistics),
    /// Calculated, to compare with.
    Theory,
}

impl LinePlot {
    /// A plot without data yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { chart: Chart::new(title), series: Vec::new(), from_zero: None }
    }

    /// Adds a line. Points are pairs `(x, y)` where `y` is a number or an [`Estimate`]; their order
    /// does not matter.
    ///
    /// # Errors
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end.
    pub fn series(mut self, name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Result<Self> {
        let (name, points): (String, Vec<Point>) = (name.into(), points.into_iter().map(Into::into).collect());
        for point in &points {
            check_value(&name, "the horizontal axis", point.x.into())?;
            check_value(&name, &point.x.to_string(), point.y)?;
        }
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by(|a, b| points[*a].x.total_cmp(&points[*b].x));
        let points = order.iter().map(|&index| points[index]).collect();
        self.series.push(Series { name, points, order, labels: Vec::new(), kind: Kind::Measured });
        Ok(self)
    }

    /// Adds measured points with no line between them: where what lies between was not measured, or would be noise.
    ///
    /// # Errors
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end.
    pub fn points(self, name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Result<Self> {
        Ok(self.series(name, points)?.last_as(Kind::Points))
    }

    /// Adds points, each with a line down to zero: amounts at values that lie unevenly, such as how often each number
    /// of a codebook is used.
    ///
    /// # Errors
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end.
    pub fn stems(self, name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Result<Self> {
        Ok(self.series(name, points)?.last_as(Kind::Stems))
    }

    /// Adds a calculated line to compare with, such as the limit that memory bandwidth sets: dashed and
    /// without markers.
    ///
    /// # Errors
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end.
    pub fn theory(self, name: impl Into<String>, points: impl IntoIterator<Item: Into<Point>>) -> Result<Self> {
        Ok(self.series(name, points)?.last_as(Kind::Theory))
    }

    /// Adds independent runs, in the order in which they were made, numbered from 1, and at a distance to
    /// the right of runs added before: a point for each, no line between them, and their median with its
    /// interval as a band (see [`Statistics`]).
    ///
    /// # Errors
    /// No runs; values that are NaN, infinite or above 1e100.
    pub fn runs(self, name: impl Into<String>, values: impl IntoIterator<Item: Number>) -> Result<Self> {
        let (name, values): (_, Vec<f64>) = (name.into(), values.into_iter().map(Number::to_f64).collect());
        let runs = self.series.iter().filter(|series| series.runs().is_some());
        let before =
            runs.filter_map(|series| series.points.last()).next_back().map_or(0.0, |last| last.x + BETWEEN_RUNS);
        let statistics = Statistics::of(&values).map_err(|error| error.context(format!("`{name}`")))?;
        let points = values.iter().zip(1..).map(|(value, run)| (before + f64::from(run), *value));
        Ok(self.series(name, points)?.last_as(Kind::Runs(statistics)))
    }

    fn last_as(mut self, kind: Kind) -> Self {
        self.series.iter_mut().next_back().into_iter().for_each(|series| series.kind = kind);
        self
    }

    /// Writes labels at the points of a series, where they have room: one for each point, in the order
    /// in which the points were given.
    ///
    /// # Errors
    /// A series that the plot does not have; a number of labels other than that of points.
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

    /// Whether the vertical axis starts at zero. Unless told, it does where the lowest value is at most 0.6 of the
    /// highest: farther up, half of the picture would be empty.
    pub fn y_from_zero(mut self, from_zero: bool) -> Self {
        self.from_zero = Some(from_zero);
        self
    }

    /// The plotted numbers as a table, one row per point.
    pub fn table(&self) -> Table {
        let Chart { x, y, .. } = &self.chart;
        let (across, up) = (x.unit_for(self.across()), y.unit_for(self.up()));
        let columns = [("series", ""), (x.name_or("x"), across.0), (y.name_or("y"), up.0)];
        let named = usize::from(self.series.iter().all(|series| series.name.is_empty()));
        let mut table = self.chart.table(columns.into_iter().skip(named));
        for series in &self.series {
            for point in &series.points {
                let x = (point.x - series.before()) * across.1;
                let row = [Cell::from(&series.name), Cell::plain(x), Cell::measured(point.y * up.1)];
                table = table.row(row.into_iter().skip(named).collect::<Vec<_>>());
            }
        }
        table
    }

    /// All that the horizontal axis is to show.
    fn across(&self) -> impl Iterator<Item = Estimate> {
        self.all_points().map(|point| point.x.into())
    }

    /// All that the vertical axis is to show.
    fn up(&self) -> impl Iterator<Item = Estimate> {
        let medians = self.series.iter().filter_map(|series| series.runs().map(Estimate::from));
        let references = self.chart.references.iter().map(|(value, _)| (*value).into());
        self.all_points().map(|point| point.y).chain(medians).chain(references)
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let chart = &self.chart;
        chart.check_any(self.all_points().next().is_some(), "add points with .series(\"name\", [(x, y)])?")?;
        let has_stems = self.series.iter().any(|series| series.kind == Kind::Stems);
        let from_zero = has_stems || self.from_zero.unwrap_or_else(|| zero_is_near(self.up()));
        let (x, y) = (chart.across(self.across())?, chart.up(self.up(), from_zero)?);
        let x_axis = self.runs_axis().unwrap_or(x.axis);
        let mut scene = Scene { x_label: x.label, y_label: y.label.clone(), ..Scene::new(x_axis, y.axis.clone()) };

        let bare = self.series.iter().enumerate().filter(|(_, series)| series.is_bare());
        let places: Vec<(usize, Xy)> =
            bare.flat_map(|(index, series)| series.spots().map(move |at| (index, at))).collect();
        let mut radii = scene.radii(&places, RADIUS).into_iter();
        let measured = self.series.iter().filter(|series| series.kind != Kind::Theory);
        let mut measured = looks(measured.map(|series| series.name.as_str())).into_iter();
        let mut theories = (chart.references.len()..).map(|index| Look {
            color: INK,
            dash: reference_stroke(index).dash,
            ..PALETTE[0]
        });
        let look = |series: &Series| if series.kind == Kind::Theory { theories.next() } else { measured.next() };
        let looks: Vec<Option<Look>> = self.series.iter().map(look).collect();
        let looked: Vec<(&Series, Look)> =
            self.series.iter().zip(looks).filter_map(|(series, look)| Some((series, look?))).collect();
        looked.iter().for_each(|(series, look)| series.draw_line(&mut scene, *look));
        let mut drawn: Vec<(&Point, f64, Look)> = Vec::new();
        for (series, look) in &looked {
            let has_markers = series.has_markers(&scene);
            for point in &series.points {
                let own = if series.is_bare() { radii.next() } else { None };
                let radius = own.unwrap_or(RADIUS);
                let marker = Mark::Point((point.x, point.y.value), *look, radius);
                scene.marks.extend(has_markers.then_some(marker));
                drawn.push((point, radius, *look));
            }
        }
        for (Point { x, y }, radius, look) in drawn.iter().filter(|(point, ..)| point.y.has_interval()) {
            scene.marks.push(Mark::Interval((*x, y.low), (*x, y.high), look.color, Some(*radius)));
        }
        scene.references(chart, false);
        looked.iter().for_each(|(series, look)| series.write(&mut scene, *look, &y));
        // A single run has no band.
        let several = self.series.iter().filter_map(Series::runs).filter(|runs| runs.n > 1);
        let least = several.map(|runs| runs.confidence).min_by(f64::total_cmp);
        scene.band = least
            .map_or_else(String::new, |least| format!("line and band: median with its {:.0}% interval", 100.0 * least));
        Ok(scene)
    }

    fn all_points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// The axis of a plot of nothing but runs: those of each series are numbered from 1.
    fn runs_axis(&self) -> Option<Axis> {
        let most = MAX_RUN_TICKS.div_ceil(self.series.len().max(1));
        let mut axis = Axis::bare(0.3, 0.0);
        for series in &self.series {
            series.runs().filter(|_| !self.chart.x.log)?;
            let count = series.points.len();
            let steps = [1, 5, 10, 50, 100, 500, 1000];
            let step = steps.into_iter().find(|step| count / step <= most).unwrap_or(count);
            let numbers = (1..=count).filter(|run| *run == 1 || run % step == 0);
            let tick = |run: usize| Tick { value: series.before() + run as f64, label: run.to_string() };
            axis.ticks.extend(numbers.map(tick));
            axis.high = series.before() + count as f64 + 0.7;
        }
        Some(axis)
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
        let few = self.points.len() <= MAX_MARKERS && close <= self.points.len() / 4;
        self.runs().is_some() || self.is_apart() || (few && self.kind != Kind::Theory)
    }

    fn runs(&self) -> Option<Statistics> {
        match self.kind {
            Kind::Runs(statistics) => Some(statistics),
            _ => None,
        }
    }

    /// Whether no line joins its points.
    fn is_apart(&self) -> bool {
        self.points.len() == 1 && self.kind == Kind::Measured || matches!(self.kind, Kind::Points | Kind::Stems)
    }

    /// Whether its markers have neither a line nor stems to be told by, so that one could hide another.
    fn is_bare(&self) -> bool {
        self.is_apart() && self.kind != Kind::Stems
    }

    /// How far the positions of runs are ahead of their numbers.
    fn before(&self) -> f64 {
        self.points.first().filter(|_| self.runs().is_some()).map_or(0.0, |first| first.x - 1.0)
    }

    /// How wide its line is.
    fn width(&self, scene: &Scene) -> f64 {
        if self.has_markers(scene) { 2.0 } else { 1.4 }
    }

    fn spots(&self) -> impl DoubleEndedIterator<Item = Xy> {
        self.points.iter().map(|point| (point.x, point.y.value))
    }

    /// The band of independent runs, from its top left corner to the other.
    fn band(&self) -> Option<(Xy, Xy)> {
        let (first, last, runs) = (self.points.first()?, self.points.last()?, self.runs()?);
        Some(((first.x - 0.4, runs.high), (last.x + 0.4, runs.low)))
    }

    fn draw_line(&self, scene: &mut Scene, look: Look) {
        let mark = match (self.band(), self.runs()) {
            (Some((from, to)), Some(runs)) => {
                scene.marks.push(Mark::Block(from, to, look.color.mix(BAND)));
                Mark::Line(vec![(from.0, runs.median), (to.0, runs.median)], Stroke::new(look.color, 1.6))
            }
            _ if self.kind == Kind::Stems => {
                let stem = |at: Xy| Mark::Line(vec![(at.0, 0.0), at], Stroke::new(look.color, 2.0));
                return scene.marks.extend(self.spots().map(stem));
            }
            _ if self.is_apart() || self.points.len() < 2 => return,
            _ => Mark::Line(self.spots().collect(), look.stroke(self.width(scene))),
        };
        scene.marks.push(mark);
    }

    /// The name, and what is to be written at the points.
    fn write(&self, scene: &mut Scene, look: Look, y: &Scale) {
        let at_point = |(text, at): (&String, Xy)| Label { size: NOTE_SIZE, ..Label::new(text, at, Place::Near) };
        scene.labels.extend(self.labels.iter().zip(self.spots()).map(at_point));
        let Some(last) = self.spots().next_back() else { return };
        if self.is_apart() && self.points.len() > 1 {
            // No one of the points stands for all.
            let named = (!self.name.is_empty()).then(|| (self.name.clone(), Key::Marker(look)));
            return scene.legend.extend(named);
        }
        let (label, key) = match (self.band(), self.runs()) {
            (Some((from, to)), Some(runs)) => {
                let name = if self.name.is_empty() { "median" } else { &self.name };
                let name = format!("{name}: {} {}", significant(runs.median * y.factor, 3), y.unit);
                (Label::new(name.trim_end(), from, Place::Along { to, rows: 4 }), Key::Marker(look))
            }
            _ if self.name.is_empty() => return,
            _ if self.is_apart() => (Label::new(&self.name, last, Place::Near), Key::Marker(look)),
            _ if self.has_markers(scene) => (Label::new(&self.name, last, Place::End), Key::Series(look)),
            _ => (Label::new(&self.name, last, Place::End), Key::Line(look.stroke(self.width(scene)))),
        };
        scene.labels.push(Label { color: look.ink(), key: Some(key), ..label });
    }
}
