//! Bars: how categories compare.

use super::drawing::axis::Axis;
use super::drawing::chart::{Chart, Scale, chart_methods, check_value};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene, Xy};
use super::drawing::style::{
    ACROSS, HEIGHT, INK, LABEL_SIZE, LONGEST_NAME, Look, MARGIN, Stroke, WIDTH, format_of, ink_on, looks,
};
use super::drawing::text::{Anchor, text_width};
use crate::error::{Error, Result};
use crate::report::number::{alike, magnitude, significant};
use crate::report::{Cell, Estimate, Table};

/// With more bars than this, they stand upright and share fewer names; with fewer, they lie down if names are long.
const MAX_LYING: usize = 24;

/// Bars side by side, one per category, or one per category and series, with their values written
/// beyond them and error bars where the values have intervals. They lie down if their names are too
/// long to stand below them.
///
/// ```
/// use quantlab::report::{BarPlot, Estimate};
///
/// let plot = BarPlot::new("Throughput by precision")
///     .y("throughput", "tokens/s")
///     .bars([("float32", Estimate::plus_minus(212.0, 4.0)), ("bfloat16", Estimate::plus_minus(305.0, 9.0))])?
///     .intervals("95% confidence interval")
///     .reference_line(410.0, "bandwidth limit")?;
/// assert!(plot.to_svg()?.contains("throughput (tokens/s)"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BarPlot {
    chart: Chart,
    categories: Vec<String>,
    series: Vec<Series>,
}

#[derive(Debug, Clone)]
struct Series {
    name: String,
    /// A category's index and its value.
    bars: Vec<(usize, Estimate)>,
}

impl BarPlot {
    /// A plot without bars yet. Bars start at zero.
    pub fn new(title: impl Into<String>) -> Self {
        Self { chart: Chart::new(title), categories: Vec::new(), series: Vec::new() }
    }

    /// Adds one bar for each pair of a category and a number or [`Estimate`].
    ///
    /// # Errors
    /// NaN and infinite values; a category that comes twice.
    pub fn bars<C: Into<String>, V: Into<Estimate>>(self, bars: impl IntoIterator<Item = (C, V)>) -> Result<Self> {
        self.series("", bars)
    }

    /// Adds a named series of bars, drawn beside those of the other series. Categories stand in the
    /// order in which they first came up; one that a series does not have stays empty.
    ///
    /// # Errors
    /// NaN and infinite values; a category that comes twice.
    pub fn series<C: Into<String>, V: Into<Estimate>>(
        mut self,
        name: impl Into<String>,
        bars: impl IntoIterator<Item = (C, V)>,
    ) -> Result<Self> {
        let mut series = Series { name: name.into(), bars: Vec::new() };
        for (category, value) in bars {
            let (category, value) = (category.into(), value.into());
            check_value(&category, &self.chart.y.name, value)?;
            let known = self.index_of(&category);
            let index = known.unwrap_or(self.categories.len());
            if series.bars.iter().any(|(other, _)| *other == index) {
                return Err(Error::input(format!("`{}` has two bars `{category}`", self.chart.title))
                    .hint("give every bar a name of its own, or put one of them into another .series()"));
            }
            if known.is_none() {
                self.categories.push(category);
            }
            series.bars.push((index, value));
        }
        series.bars.sort_by_key(|(category, _)| *category);
        self.series.push(series);
        Ok(self)
    }

    fn index_of(&self, category: &str) -> Option<usize> {
        self.categories.iter().position(|name| name == category)
    }

    /// The plotted numbers as a table, one row per bar.
    pub fn table(&self) -> Table {
        let Chart { x, y, .. } = &self.chart;
        let (several, limited) = (self.series.len() > 1, !self.chart.limits.is_empty());
        let (unit, factor) = y.unit_for(self.up());
        let optional = |wanted: bool, column| if wanted { vec![column] } else { vec![] };
        let mut columns = vec![(x.name_or("category"), "")];
        columns.extend(optional(several, ("series", "")));
        columns.push((y.name_or("value"), unit));
        columns.extend(optional(limited, (&self.chart.limits_name, unit)));
        let mut table = self.chart.table(columns);
        for (index, category) in self.categories.iter().enumerate() {
            let limit = self.chart.limit_of(index).map(|limit| limit * factor);
            for series in &self.series {
                for (_, value) in series.bars.iter().filter(|(category, _)| *category == index) {
                    let mut row = vec![Cell::from(category)];
                    row.extend(several.then(|| Cell::from(&series.name)));
                    row.push(Cell::measured(*value * factor));
                    row.extend(limited.then(|| Cell::from(limit)));
                    table = table.row(row);
                }
            }
        }
        table
    }

    fn all_bars(&self) -> impl Iterator<Item = Estimate> {
        self.series.iter().flat_map(|series| series.bars.iter().map(|(_, bar)| *bar))
    }

    /// All that the axis of values is to show.
    fn up(&self) -> impl Iterator<Item = Estimate> {
        let limits = self.chart.limits.iter().map(|(_, limit)| limit);
        self.all_bars().chain(self.chart.references.iter().map(|(value, _)| value).chain(limits).map(Estimate::from))
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let chart = &self.chart;
        chart.check_any(!self.categories.is_empty(), "add bars with .bars([(\"name\", value)])?")?;
        let y = chart.up(self.up(), true)?;
        let layout = Layout::of(&self.categories, self.series.len());
        let mut written = layout.written(self.all_bars().map(|bar| bar.value * y.factor).collect()).into_iter();
        let mut scene = layout.scene(chart, &self.categories, y, self.all_bars());

        for (index, (series, looks)) in self.series.iter().zip(self.looks()).enumerate() {
            for ((category, bar), look) in series.bars.iter().zip(&looks) {
                let (left, right) = layout.sides(*category, index);
                let (from, to, middle) =
                    (layout.at(left, 0.0), layout.at(right, bar.value), f64::midpoint(left, right));
                scene.marks.push(Mark::Block(from, to, look.fill()));
                if bar.has_interval() {
                    let [from, to] = [bar.low, bar.high].map(|end| layout.at(middle, end));
                    scene.marks.push(Mark::Interval(from, to, INK, None));
                }
                let Some(text) = written.next() else { continue };
                let lines =
                    chart.limit_of(*category).into_iter().chain(chart.references.iter().map(|(value, _)| *value));
                let below = bar.value < 0.0;
                let (near, far) = (bar.low.min(bar.value), bar.high.max(bar.value));
                let (near, far) = if below { (far, near) } else { (near, far) };
                let inside = layout.is_better_inside(&scene, &text, (near, bar.value, far), lines);
                let at = layout.at(middle, if inside { near } else { far });
                let color = if inside { ink_on(look.fill()) } else { INK };
                scene.labels.push(Label { color, ..Label::new(text, at, layout.beyond(below != inside)) });
            }
            if let (false, Some(look)) = (series.name.is_empty(), looks.first()) {
                scene.entry(&series.name, Key::Swatch(look.fill()));
            }
        }
        let stroke = Stroke { dash: (4, 2), ..Stroke::new(INK, 2.0) };
        for (category, limit) in &chart.limits {
            let ends = [0.08, 0.92].map(|share| layout.at(*category as f64 + share, *limit));
            scene.marks.push(Mark::Line(ends.into(), stroke));
        }
        if !chart.limits.is_empty() {
            scene.entry(&chart.limits_name, Key::Line(stroke));
        }
        scene.intervals(chart);
        scene.references(chart, layout.lying);
        Ok(scene)
    }

    /// The look of each bar of each series: that of its series, or of the format that its category names.
    fn looks(&self) -> Vec<Vec<Look>> {
        let names = self.series.iter().map(|series| series.name.as_str());
        if let [alone] = &self.series[..]
            && format_of(&alone.name).is_none()
            && self.categories.iter().any(|name| format_of(name).is_some())
        {
            return vec![looks(self.categories.iter().map(String::as_str))];
        }
        looks(names).into_iter().zip(&self.series).map(|(look, series)| vec![look; series.bars.len()]).collect()
    }
}

chart_methods!(BarPlot: category, y, intervals, limits, reference_line);

/// How bars stand: upright, or lying where their names are too long to stand below them.
pub(super) struct Layout {
    pub lying: bool,
    categories: usize,
    series: usize,
    /// The approximate length of the axis of values, in pixels.
    length: f64,
}

impl Layout {
    pub fn of(names: &[String], series: usize) -> Self {
        let slot = ACROSS / names.len() as f64;
        let longest = names.iter().map(|name| text_width(name, LABEL_SIZE)).fold(0.0, f64::max);
        let lying = longest + 8.0 > slot && names.len() <= MAX_LYING;
        let length = if lying { WIDTH - 2.5 * MARGIN - longest.min(LONGEST_NAME) } else { HEIGHT };
        Self { lying, categories: names.len(), series, length }
    }

    /// An empty scene for the bars, with the axis of their values.
    pub fn scene(
        &self,
        chart: &Chart,
        categories: &[String],
        values: Scale,
        bars: impl Iterator<Item = Estimate>,
    ) -> Scene {
        let (names, name) = (Axis::categories(categories), chart.x.name.clone());
        let along = self.with_headroom(values.axis, bars);
        if !self.lying {
            return Scene { x_label: name, y_label: values.label, ..Scene::new(names, along) };
        }
        let row = if self.series > 1 { 18.0 * self.series as f64 + 12.0 } else { 34.0 };
        let (height, downwards) = (row * self.categories as f64, Axis { low: names.high, high: names.low, ..names });
        Scene { x_label: values.label, y_label: name, grid: (true, false), height, ..Scene::new(along, downwards) }
    }

    /// A place across the categories and along the values.
    pub fn at(&self, across: f64, along: f64) -> Xy {
        if self.lying { (along, across) } else { (across, along) }
    }

    /// Where the bar of a series begins and ends across the categories.
    pub fn sides(&self, category: usize, series: usize) -> (f64, f64) {
        let (count, widest) = (self.series as f64, if self.series > 1 { 0.82 } else { 0.7 });
        let most = if self.series > 1 { 56.0 } else { 84.0 };
        let width = if self.lying { widest } else { (most * count / self.slot()).min(widest) } / count;
        let left = category as f64 + 0.5 + (series as f64 - count / 2.0) * width;
        let gap = if self.series > 1 { 0.03 * width } else { 0.0 };
        (left + gap, left + width - gap)
    }

    /// The approximate width of a category's slot, in pixels.
    fn slot(&self) -> f64 {
        ACROSS / self.categories as f64
    }

    /// The values to write at the bars: all of them, or none if one has no room.
    pub fn written(&self, values: Vec<f64>) -> Vec<String> {
        let (left, right) = self.sides(0, 0);
        let room = (right - left) * self.slot() * if self.series > 1 { 1.0 } else { 1.3 };
        // Next to values a thousand times as large, the smallest need only be shown to be small.
        let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let least = 10_f64.powi(magnitude(largest) - 3);
        let is_small = |value: &f64| 0.0 < *value && *value < least;
        let mut others =
            alike(&values.iter().copied().filter(|value| !is_small(value)).collect::<Vec<_>>(), 3).into_iter();
        let small = || Some(format!("<{}", significant(least, 1)));
        let written: Vec<String> =
            values.iter().filter_map(|value| if is_small(value) { small() } else { others.next() }).collect();
        let fits = self.lying || written.iter().all(|text| text_width(text, LABEL_SIZE) <= room);
        if fits { written } else { Vec::new() }
    }

    /// Whether a value that stands beyond its bar would seem to belong to a line there; the value comes between the
    /// ends of its interval, of which the first is nearer to zero.
    fn is_better_inside(
        &self,
        scene: &Scene,
        text: &str,
        (near, value, far): (f64, f64, f64),
        mut lines: impl Iterator<Item = f64>,
    ) -> bool {
        let axis = if self.lying { &scene.x } else { &scene.y };
        let outwards = if value < 0.0 { -self.length } else { self.length };
        let pixels = |from: f64, to: f64| (axis.position(to) - axis.position(from)) * outwards;
        let (left, right) = self.sides(0, 0);
        let (width, bar) = (text_width(text, LABEL_SIZE), (right - left) * self.slot());
        let (space, fits) = if self.lying { (width + 14.0, true) } else { (LABEL_SIZE + 14.0, width + 4.0 <= bar) };
        let is_near = |line| (-3.0..pixels(value, far) + space).contains(&pixels(value, line));
        fits && pixels(0.0, near) > space && lines.any(is_near)
    }

    /// The place of a value: beyond the end of its bar.
    pub fn beyond(&self, below_zero: bool) -> Place {
        let (offset, anchor) = match (self.lying, below_zero) {
            (false, false) => ((0.0, -6.0), Anchor::Middle),
            (false, true) => ((0.0, 16.0), Anchor::Middle),
            (true, false) => ((7.0, 4.5), Anchor::Start),
            (true, true) => ((-7.0, 4.5), Anchor::End),
        };
        Place::Beside { offset, anchor }
    }

    /// Room on the axis for the values beyond the ends of the bars.
    fn with_headroom(&self, mut axis: Axis, bars: impl Iterator<Item = Estimate>) -> Axis {
        let room = (axis.high - axis.low) * if self.lying { 0.15 } else { 0.09 };
        for Estimate { value, low, high } in bars {
            if value < 0.0 {
                axis.low = axis.low.min(value.min(low) - room);
            } else {
                axis.high = axis.high.max(value.max(high) + room);
            }
        }
        axis
    }
}
