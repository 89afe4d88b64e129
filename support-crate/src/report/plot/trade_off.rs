//! Trade-offs: what each choice costs and what it gives, and which choices no other one beats.

use super::drawing::chart::{Chart, chart_methods, check_value};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene, Xy};
use super::drawing::style::{INK, Look, MUTED, PALETTE, Stroke, looks};
use crate::error::Result;
use crate::report::{Cell, Estimate, Table};

/// The radius of a marker, in pixels.
const RADIUS: f64 = 5.0;
/// A linear axis begins at zero if the lowest cost is not above this share of the highest: then it costs
/// little room.
const NEAR_ZERO: f64 = 0.6;

/// Choices as points with intervals in both directions, and the Pareto front: the choices that no
/// other one beats in both directions. Less of the horizontal quantity is better, and less of the
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
    /// NaN and infinite values.
    pub fn point(mut self, name: impl Into<String>, x: impl Into<Estimate>, y: impl Into<Estimate>) -> Result<Self> {
        let (name, x, y) = (name.into(), x.into(), y.into());
        check_value(&name, "the horizontal axis", x)?;
        check_value(&name, "the vertical axis", y)?;
        self.points.push(Choice { name, x, y });
        Ok(self)
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.points.iter().position(|choice| choice.name == name)
    }

    /// The plotted numbers as a table, one row per choice.
    pub fn table(&self) -> Table {
        let Chart { x, y, .. } = &self.chart;
        let (across, up) = (x.unit_for(self.across()), y.unit_for(self.up()));
        let limited = !self.chart.limits.is_empty();
        let columns = [("choice", ""), (x.name_or("x"), across.0), (y.name_or("y"), up.0)];
        let columns = columns.into_iter().chain(limited.then_some((self.chart.limits_name.as_str(), up.0)));
        self.points.iter().enumerate().fold(self.chart.table(columns), |table, (index, Choice { name, x, y })| {
            let limit = self.chart.limit_of(index).map(|limit| limit * up.1);
            let row = [Cell::from(name), Cell::measured(*x * across.1), Cell::measured(*y * up.1)];
            table.row(row.into_iter().chain(limited.then(|| Cell::from(limit))).collect::<Vec<_>>())
        })
    }

    /// All that the horizontal axis is to show.
    fn across(&self) -> impl Iterator<Item = Estimate> {
        let costs = || self.points.iter().map(|choice| choice.x);
        let lowest = costs().map(|cost| cost.low).fold(f64::INFINITY, f64::min);
        let highest = costs().map(|cost| cost.high).fold(0.0, f64::max);
        let from_zero = !self.chart.x.log && lowest >= 0.0 && lowest <= NEAR_ZERO * highest;
        costs().chain(from_zero.then_some(0.0.into()))
    }

    /// All that the vertical axis is to show.
    fn up(&self) -> impl Iterator<Item = Estimate> {
        let limits = self.chart.limits.iter().map(|(_, limit)| (*limit).into());
        self.points.iter().map(|choice| choice.y).chain(limits)
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let chart = &self.chart;
        chart.check_any(!self.points.is_empty(), "add points with .point(\"name\", x, y)?")?;
        let (x, y) = (chart.across(self.across())?, chart.up(self.up(), false)?);
        let mut scene = Scene { grid: (true, true), ..Scene::new(x.axis, y.axis) };
        let better = if self.higher_is_better { "higher" } else { "lower" };
        let labelled =
            |label: String, better| if label.is_empty() { label } else { format!("{label}, {better} is better") };
        (scene.x_label, scene.y_label) = (labelled(x.label, "lower"), labelled(y.label, better));

        let looks = looks(self.points.iter().map(|choice| choice.name.as_str()));
        let places: Vec<Xy> = self.points.iter().map(|choice| (choice.x.value, choice.y.value)).collect();
        let places = scene.apart(&places);
        let front: Vec<Xy> = self.front().into_iter().map(|index| places[index]).collect();
        if let (Some(last), true) = (front.last(), front.len() > 1) {
            let steps = front.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
            let stroke = Stroke::new(MUTED, 1.2);
            scene.marks.push(Mark::Line(steps.chain([*last]).collect(), stroke));
            scene.entry("Pareto front", Key::Line(stroke));
        }
        for ((Choice { name, .. }, look), at) in self.points.iter().zip(&looks).zip(&places) {
            scene.marks.push(Mark::Point(*at, *look, RADIUS));
            if !name.is_empty() {
                scene.labels.push(Label { key: Some(Key::Marker(*look)), ..Label::new(name, *at, Place::Near) });
            }
        }
        for ((Choice { x, y, .. }, look), at) in self.points.iter().zip(&looks).zip(&places) {
            let bars = [(x, (x.low, y.value), (x.high, y.value)), (y, (at.0, y.low), (at.0, y.high))];
            let bars = bars.into_iter().filter(|(estimate, ..)| estimate.has_interval());
            scene.marks.extend(bars.map(|(_, from, to)| Mark::Interval(from, to, look.color, Some(RADIUS))));
        }
        // Drawn last and wide: not to be taken for an interval's cap, and not under a marker.
        let limit = Look { color: INK, ..PALETTE[0] }.limit();
        for (index, rate) in &chart.limits {
            scene.marks.push(Mark::Point((places[*index].0, *rate), limit, 2.0 * RADIUS));
        }
        if !chart.limits.is_empty() {
            scene.entry(&chart.limits_name, Key::Marker(limit));
        }
        scene.intervals(chart);
        Ok(scene)
    }

    /// The points that no other beats, from left to right: each is better than all to its left.
    fn front(&self) -> Vec<usize> {
        let upwards = if self.higher_is_better { -1.0 } else { 1.0 };
        let cost = |index: usize| (self.points[index].x.value, upwards * self.points[index].y.value);
        let mut sorted: Vec<usize> = (0..self.points.len()).collect();
        sorted.sort_by(|&a, &b| cost(a).0.total_cmp(&cost(b).0).then(cost(a).1.total_cmp(&cost(b).1)));
        let mut front: Vec<usize> = Vec::new();
        for index in sorted {
            if front.last().is_none_or(|&best| cost(index).1 < cost(best).1) {
                front.push(index);
            }
        }
        front
    }
}

chart_methods!(TradeOff: x, y, log_x, log_y, intervals, limits);
