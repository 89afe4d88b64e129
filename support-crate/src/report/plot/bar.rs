//! Bars: how categories compare.

use super::drawing::axis::Axis;
use super::drawing::chart::{Chart, Scale, chart_methods, check_value};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene, Xy};
use super::drawing::style::{ACROSS, INK, LABEL_SIZE, Look, Stroke, WHITE, format_of, looks};
use super::drawing::text::{Anchor, text_width};
use crate::error::{Error, Result};
use crate::report::number::{magnitude, rounded, significant};
use crate::report::{Cell, Estimate, Table};

/// With more bars than this, they stand upright and share fewer names; with fewer, they lie down if names are long.
const MAX_LYING: usize = 24;
/// The radius of the points that stand for bars on a logarithmic axis, in pixels.
const DOT: f64 = 5.0;

/// Bars side by side, one per category, or one per category and series, with error bars where the values
/// have intervals, and the values beyond both: in a column at the right where lines to compare with cross
/// lying bars, since a value beside a line would seem to be the line's. Bars lie down if they have limits or
/// their names are too long to stand below them. On a logarithmic axis, which has no zero to begin at, points
/// take the place of bars.
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
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end; a category that comes twice.
    pub fn bars<C: Into<String>, V: Into<Estimate>>(self, bars: impl IntoIterator<Item = (C, V)>) -> Result<Self> {
        self.series("", bars)
    }

    /// Adds a named series of bars, drawn beside those of the other series. Categories stand in the
    /// order in which they first came up; one that a series does not have stays empty.
    ///
    /// # Errors
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end; a category that comes twice.
    pub fn series<C: Into<String>, V: Into<Estimate>>(
        mut self,
        name: impl Into<String>,
        bars: impl IntoIterator<Item = (C, V)>,
    ) -> Result<Self> {
        self.series.push(Series { name: name.into(), bars: Vec::new() });
        let last = self.series.len() - 1;
        bars.into_iter().try_fold(self, |plot, (category, value)| plot.with(last, category.into(), value.into()))
    }

    /// Adds one bar of a kind, such as `"llama.cpp"`: bars of a kind have its colour, and the legend names it.
    ///
    /// # Errors
    /// Values that are NaN, infinite or above 1e100; an interval whose low end is above its high end; a category that comes twice in its kind.
    pub fn bar(mut self, kind: &str, category: impl Into<String>, value: impl Into<Estimate>) -> Result<Self> {
        let known = self.series.iter().position(|series| series.name == kind);
        let place = known.unwrap_or(self.series.len());
        self.series.extend(known.is_none().then(|| Series { name: kind.to_owned(), bars: Vec::new() }));
        self.with(place, category.into(), value.into())
    }

    /// With one more bar in a series.
    fn with(mut self, series: usize, category: String, value: Estimate) -> Result<Self> {
        check_value(&category, &self.chart.y.name, value)?;
        let index = self.index_of(&category).unwrap_or(self.categories.len());
        let bars = &mut self.series[series].bars;
        if bars.iter().any(|(other, _)| *other == index) {
            return Err(Error::input(format!("`{}` has two bars `{category}`", self.chart.title))
                .hint("give every bar a name of its own, or put one of them into another .series()"));
        }
        bars.push((index, value));
        bars.sort_by_key(|(category, _)| *category);
        self.categories.extend((index == self.categories.len()).then_some(category));
        Ok(self)
    }

    /// Whether no category has bars of two series.
    fn are_kinds(&self) -> bool {
        self.all_bars().count() == self.categories.len()
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
        let side_by_side = if self.are_kinds() { 1 } else { self.series.len() };
        let layout = Layout::of(&self.categories, side_by_side, !chart.limits.is_empty() || y.axis.log);
        let values = self.all_bars().map(|bar| bar.value * y.factor);
        let mut written = match y.axis.log {
            true => rounded(&values.collect::<Vec<_>>(), 3),
            false => layout.written(values.collect()),
        }
        .into_iter();
        let in_column = layout.lying && (y.axis.log || !chart.limits.is_empty() || !chart.references.is_empty());
        let mut scene = layout.scene(chart, &self.categories, y, self.up());

        for (index, (series, looks)) in self.series.iter().zip(self.looks()).enumerate() {
            for ((category, bar), look) in series.bars.iter().zip(&looks) {
                let (left, right) = layout.sides(*category, index % side_by_side);
                let (from, to, middle) =
                    (layout.at(left, 0.0), layout.at(right, bar.value), f64::midpoint(left, right));
                let dot = chart.y.log.then_some(DOT);
                let (mark, color) = match dot {
                    Some(radius) => (Mark::Point(layout.at(middle, bar.value), *look, radius), look.color),
                    None => (Mark::Block(from, to, look.fill()), INK),
                };
                scene.marks.push(mark);
                if bar.has_interval() {
                    let [from, to] = [bar.low, bar.high].map(|end| layout.at(middle, end));
                    scene.marks.push(Mark::Interval(from, to, color, dot));
                }
                let Some(text) = written.next() else { continue };
                let far = if bar.value < 0.0 { bar.low.min(bar.value) } else { bar.high.max(bar.value) };
                scene.labels.push(match in_column {
                    true => Label::new(text, layout.at(middle, scene.x.high), Place::Column),
                    false => Label::new(text, layout.at(middle, far), layout.beyond(bar.value < 0.0)),
                });
            }
            if let (false, Some(look)) = (series.name.is_empty(), looks.first()) {
                let key = if chart.y.log { Key::Marker(*look) } else { Key::Swatch(look.fill()) };
                scene.entry(&series.name, key);
            }
        }
        let stroke = Stroke { dash: (4, 2), ..Stroke::new(INK, 2.0) };
        for (category, limit) in &chart.limits {
            let ends = [0.08, 0.92].map(|share| layout.at(*category as f64 + share, *limit));
            // White on both sides, to be seen on a bar.
            scene.marks.extend([Stroke::new(WHITE, 5.0), stroke].map(|stroke| Mark::Line(ends.into(), stroke)));
        }
        if !chart.limits.is_empty() {
            scene.entry(&chart.limits_name, Key::Line(stroke));
        }
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

chart_methods!(BarPlot: category, y, log_y, intervals, limits, reference_line);

/// How bars stand: upright, or lying where their names are too long to stand below them.
pub(super) struct Layout {
    pub lying: bool,
    categories: usize,
    series: usize,
}

impl Layout {
    pub fn of(names: &[String], series: usize, lying: bool) -> Self {
        let slot = ACROSS / names.len() as f64;
        let longest = names.iter().map(|name| text_width(name, LABEL_SIZE)).fold(0.0, f64::max);
        let lying = lying || (longest + 8.0 > slot && names.len() <= MAX_LYING);
        Self { lying, categories: names.len(), series }
    }

    /// An empty scene for the bars, with the axis of their values.
    pub fn scene(
        &self,
        chart: &Chart,
        categories: &[String],
        values: Scale,
        shown: impl Iterator<Item = Estimate>,
    ) -> Scene {
        let (names, name) = (Axis::categories(categories), chart.x.name.clone());
        let along = if values.axis.log { values.axis } else { self.with_headroom(values.axis, shown) };
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
        let write = |(value, text): (&f64, String)| match is_small(value) {
            true => format!("<{}", significant(least, 1)),
            false => text,
        };
        let written: Vec<String> = values.iter().zip(rounded(&values, 3)).map(write).collect();
        let fits = self.lying || written.iter().all(|text| text_width(text, LABEL_SIZE) <= room);
        if fits { written } else { Vec::new() }
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
    fn with_headroom(&self, mut axis: Axis, shown: impl Iterator<Item = Estimate>) -> Axis {
        let room = (axis.high - axis.low) * if self.lying { 0.15 } else { 0.09 };
        for Estimate { value, low, high } in shown {
            if value < 0.0 {
                axis.low = axis.low.min(value.min(low) - room);
            } else {
                axis.high = axis.high.max(value.max(high) + room);
            }
        }
        axis
    }
}
