//! Trade-offs: what each choice costs and what it gives, and which are beaten by another.

use plotters::style::Color;

use super::drawing::chart::{Chart, chart_methods, check_value, zero_is_near};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene, Xy};
use super::drawing::style::{MUTED, looks};
use crate::error::Result;
use crate::report::{Cell, Estimate, Table};

/// The radius of a marker, in pixels.
const RADIUS: f64 = 5.0;
/// How dark the shade is.
const SHADE: f64 = 0.13;

/// Choices as points with intervals in both directions. Shaded is what a choice dominates: what is worse than it in
/// both directions, even than the worse ends of its intervals. A choice whose point and intervals lie in the shade
/// is beaten by another one; the edge of the shade is the Pareto front. Less of the horizontal quantity is better, and less of the
/// vertical one too unless [`higher_is_better`](Self::higher_is_better) says otherwise.
///
/// ```
/// use quantlab::report::{Estimate, TradeOff};
///
/// let plot = TradeOff::new("What the memory buys")
///     .x("memory", "MiB")
///     .y("perplexity", "")
///     .point("float32", 474.7, 8.01)?
///     .point("NF4", 120.4, Estimate::plus_minus(8.62, 0.11))?;
/// assert!(plot.to_svg()?.contains("memory (MiB)"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TradeOff {
    chart: Chart,
    points: Vec<Choice>,
    higher_is_better: bool,
}

#[derive(Debug, Clone)]
struct Choice {
    name: String,
    x: Estimate,
    y: Estimate,
}

impl TradeOff {
    /// A plot without points yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { chart: Chart::new(title), points: Vec::new(), higher_is_better: false }
    }

    /// More of the vertical quantity is better, as of a speed.
    pub fn higher_is_better(mut self) -> Self {
        self.higher_is_better = true;
        self
    }

    /// Adds a choice: its name, and what it costs and gives, as numbers or [`Estimate`]s.
    ///
    /// # Errors
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end.
    pub fn point(mut self, name: impl Into<String>, x: impl Into<Estimate>, y: impl Into<Estimate>) -> Result<Self> {
        let (name, x, y) = (name.into(), x.into(), y.into());
        check_value(&name, "the horizontal axis", x)?;
        check_value(&name, "the vertical axis", y)?;
        self.points.push(Choice { name, x, y });
        Ok(self)
    }

    /// The plotted numbers as a table, one row per choice.
    pub fn table(&self) -> Table {
        let Chart { x, y, .. } = &self.chart;
        let (across, up) = (x.unit_for(self.across()), y.unit_for(self.up()));
        let columns = [("choice", ""), (x.name_or("x"), across.0), (y.name_or("y"), up.0)];
        self.points.iter().fold(self.chart.table(columns), |table, Choice { name, x, y }| {
            table.row(vec![Cell::from(name), Cell::measured(*x * across.1), Cell::measured(*y * up.1)])
        })
    }

    /// All that the horizontal axis is to show.
    fn across(&self) -> impl Iterator<Item = Estimate> {
        let costs = || self.points.iter().map(|choice| choice.x);
        let from_zero = !self.chart.x.log && zero_is_near(costs());
        costs().chain(from_zero.then_some(0.0.into()))
    }

    /// All that the vertical axis is to show.
    fn up(&self) -> impl Iterator<Item = Estimate> {
        self.points.iter().map(|choice| choice.y)
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let chart = &self.chart;
        chart.check_any(!self.points.is_empty(), "add points with .point(\"name\", x, y)?")?;
        let (x, y) = (chart.across(self.across())?, chart.up(self.up(), zero_is_near(self.up()))?);
        let mut scene = Scene { grid: (true, true), ..Scene::new(x.axis, y.axis) };
        let better = if self.higher_is_better { "higher" } else { "lower" };
        let labelled =
            |label: String, better| if label.is_empty() { label } else { format!("{label}, {better} is better") };
        (scene.x_label, scene.y_label) = (labelled(x.label, "lower"), labelled(y.label, better));

        let looks = looks(self.points.iter().map(|choice| choice.name.as_str()));
        let places: Vec<Xy> = self.points.iter().map(|choice| (choice.x.value, choice.y.value)).collect();
        let radii = scene.radii(&places.iter().copied().enumerate().collect::<Vec<_>>(), RADIUS);
        let (right, worst) = (scene.x.high, if self.higher_is_better { scene.y.low } else { scene.y.high });
        let front = self.front();
        let mut edge: Vec<Xy> = front.first().map(|corner| (corner.0, worst)).into_iter().collect();
        for corner in &front {
            let before = edge.last().map_or(worst, |last| last.1);
            edge.extend([(corner.0, before), *corner]);
        }
        edge.extend(front.last().map(|last| (right, last.1)));
        edge.push((right, worst));
        scene.marks.push(Mark::Area(edge, MUTED.mix(SHADE)));
        scene.entry("dominated by another choice", Key::Swatch(MUTED.mix(SHADE)));

        for (((Choice { name, x, y }, look), at), radius) in self.points.iter().zip(&looks).zip(&places).zip(radii) {
            scene.marks.push(Mark::Point(*at, *look, radius));
            if !name.is_empty() {
                scene.labels.push(Label { key: Some(Key::Marker(*look)), ..Label::new(name, *at, Place::Near) });
            }
            let bars = [(x, (x.low, y.value), (x.high, y.value)), (y, (x.value, y.low), (x.value, y.high))];
            let bars = bars.into_iter().filter(|(estimate, ..)| estimate.has_interval());
            scene.marks.extend(bars.map(|(_, from, to)| Mark::Interval(from, to, look.color, Some(radius))));
        }
        Ok(scene)
    }

    /// The corners of what is dominated, from left to right: the worse ends of the choices' intervals, each
    /// better upwards than all to its left.
    fn front(&self) -> Vec<Xy> {
        let worse = |y: &Estimate| if self.higher_is_better { y.low } else { y.high };
        let upwards = if self.higher_is_better { -1.0 } else { 1.0 };
        let mut corners: Vec<Xy> = self.points.iter().map(|choice| (choice.x.high, worse(&choice.y))).collect();
        corners.sort_by(|a, b| a.0.total_cmp(&b.0).then((upwards * a.1).total_cmp(&(upwards * b.1))));
        let mut best = f64::INFINITY;
        corners.retain(|corner| {
            let is_better = upwards * corner.1 < best;
            best = best.min(upwards * corner.1);
            is_better
        });
        corners
    }
}

chart_methods!(TradeOff: x, y, log_x, log_y, intervals);
