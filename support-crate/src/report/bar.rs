//! Bars: how categories compare.

use std::fmt::Display;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Rect, Text, text_width};
use super::cell::Cell;
use super::estimate::Estimate;
use super::frame::{Across, Entry, Frame, Key, Panel, Reference, TICKS_UP, labelled, reference_entries};
use super::number::alike;
use super::plot::{check_any, check_value, table_of, ways_out};
use super::style::{INK, PALETTE, TICK_SIZE, WHITE, draw_error_bar};
use super::table::Table;
use crate::error::{Error, Result};
use plotters::style::RGBColor;

/// Bars side by side, one per category, or one per category and series, with their values written
/// above them and error bars where the values have intervals.
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
    title: String,
    x_label: String,
    y: (String, String),
    note: String,
    interval_name: String,
    categories: Vec<String>,
    series: Vec<Series>,
    references: Vec<Reference>,
}

#[derive(Debug, Clone)]
struct Series {
    name: String,
    /// One per category; `None` where this series has no value.
    bars: Vec<Option<Estimate>>,
}

impl BarPlot {
    /// A plot without bars yet. Bars start at zero.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            x_label: String::new(),
            y: Default::default(),
            note: String::new(),
            interval_name: String::new(),
            categories: Vec::new(),
            series: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Says what the categories are; often the title does.
    pub fn x(mut self, label: impl Into<String>) -> Self {
        self.x_label = label.into();
        self
    }

    /// Names the vertical axis and its unit (`""` for none).
    pub fn y(mut self, label: impl Into<String>, unit: impl Into<String>) -> Self {
        self.y = (label.into(), unit.into());
        self
    }

    /// Adds one bar for each pair of a category and a number or [`Estimate`].
    pub fn bars<C: Into<String>, V: Into<Estimate>>(self, bars: impl IntoIterator<Item = (C, V)>) -> Result<Self> {
        self.series("", bars)
    }

    /// Adds a named series of bars, drawn beside those of the other series. Categories stand in the
    /// order in which they first came up; one that a series does not have stays empty.
    pub fn series<C: Into<String>, V: Into<Estimate>>(
        mut self,
        name: impl Into<String>,
        bars: impl IntoIterator<Item = (C, V)>,
    ) -> Result<Self> {
        let name = name.into();
        let mut series = Series { name, bars: vec![None; self.categories.len()] };
        for (category, value) in bars {
            let (category, value) = (category.into(), value.into());
            check_value(&category, self.y.0.as_str(), value)?;
            let known = self.categories.iter().position(|name| *name == category);
            let index = known.unwrap_or(self.categories.len());
            if known.is_none() {
                self.categories.push(category.clone());
            }
            series.bars.resize(self.categories.len(), None);
            if series.bars[index].replace(value).is_some() {
                return Err(Error::input(format!("`{}` has two bars `{category}`", self.title))
                    .hint("give every bar a name of its own, or put one of them into another .series()"));
            }
        }
        self.series.push(series);
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

    /// A line of small print below the plot: model, engine, device, dtype, threads, build.
    pub fn note(mut self, note: impl Display) -> Self {
        self.note = note.to_string();
        self
    }

    /// The plotted numbers as a table, one row per bar.
    pub fn table(&self) -> Result<Table> {
        let name = if self.y.0.is_empty() { "value" } else { &self.y.0 };
        let several = self.series.len() > 1;
        let mut columns = vec![(self.category_name(), ""), (name, self.y.1.as_str())];
        if several {
            columns.insert(1, ("series", ""));
        }
        let mut table = table_of(&self.title, columns)?;
        for (index, category) in self.categories.iter().enumerate() {
            for series in &self.series {
                let Some(value) = series.bar(index) else { continue };
                let value = if value.has_interval() { Cell::from(value) } else { Cell::from(value.value) };
                let mut row = vec![Cell::from(category), value];
                if several {
                    row.insert(1, Cell::from(&series.name));
                }
                table = table.row(row)?;
            }
        }
        Ok(table.note(&self.note))
    }

    pub(super) fn scene(&self) -> Result<Canvas> {
        check_any(&self.title, !self.categories.is_empty(), "add bars with .bars([(\"name\", value)])?")?;
        let bars = self.all_bars();
        let ends = bars.iter().flat_map(|bar| [bar.value, bar.low, bar.high]);
        let values: Vec<f64> = ends.chain(self.references.iter().map(|reference| reference.value)).collect();
        let up = with_headroom(Axis::measured(&values, true, TICKS_UP), &bars);
        let mut panel = self.frame().draw(Across::Categories(self.categories.clone()), up);
        let placed = self.placed(&panel);
        placed.iter().for_each(|bar| bar.draw(&mut panel));
        let labels: Vec<Text> = placed.iter().filter_map(|bar| bar.label(&panel, self.series.len() > 1)).collect();
        let covered: Vec<Rect> = placed.iter().map(|bar| bar.body).chain(labels.iter().map(Text::bounds)).collect();
        panel.draw_references(&self.references, &covered);
        for label in labels {
            panel.canvas.veil(label.bounds(), WHITE, 0.85);
            panel.canvas.text(label);
        }
        Ok(panel.canvas)
    }

    fn placed(&self, panel: &Panel) -> Vec<Placed> {
        let values: Vec<f64> = self.all_bars().iter().map(|bar| bar.value).collect();
        // In the order of `all_bars`: series by series.
        let mut labels = alike(&values, 3).into_iter();
        let count = self.series.len() as f64;
        let gap = if count > 1.0 { 1.0 } else { 0.0 };
        let mut placed = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            for (category, bar) in series.bars.iter().enumerate() {
                let Some(bar) = *bar else { continue };
                let (center, slot) = panel.slot(category);
                let width = (slot * 0.72 / count).min(88.0);
                let left = center + (index as f64 - count / 2.0) * width;
                let (end, base) = (panel.y(bar.value), panel.y(0.0));
                let (top, bottom) = (end.min(base), end.max(base));
                placed.push(Placed {
                    bar,
                    body: Rect { left: left + gap, right: left + width - gap, top, bottom },
                    color: PALETTE[index % PALETTE.len()],
                    value: labels.next().unwrap_or_default(),
                });
            }
        }
        placed
    }

    fn frame(&self) -> Frame {
        let named = self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
        let mut legend: Vec<Entry> = named
            .map(|(index, series)| Entry {
                label: series.name.clone(),
                key: Key::Swatch(PALETTE[index % PALETTE.len()]),
            })
            .collect();
        if !self.interval_name.is_empty() && self.all_bars().iter().any(Estimate::has_interval) {
            legend.push(Entry { label: self.interval_name.clone(), key: Key::ErrorBar });
        }
        legend.extend(reference_entries(&self.references));
        Frame {
            title: self.title.clone(),
            x_label: self.x_label.clone(),
            y_label: labelled(&self.y.0, &self.y.1),
            note: self.note.clone(),
            legend,
        }
    }

    fn all_bars(&self) -> Vec<Estimate> {
        self.series.iter().flat_map(|series| series.bars.iter().flatten().copied()).collect()
    }

    fn category_name(&self) -> &str {
        if self.x_label.is_empty() { "category" } else { &self.x_label }
    }
}

impl Series {
    fn bar(&self, category: usize) -> Option<Estimate> {
        self.bars.get(category).copied().flatten()
    }
}

/// A bar with its place in the picture.
struct Placed {
    bar: Estimate,
    body: Rect,
    color: RGBColor,
    value: String,
}

impl Placed {
    fn draw(&self, panel: &mut Panel) {
        panel.canvas.rect(self.body, self.color);
        if self.bar.has_interval() {
            let (low, high) = (panel.y(self.bar.low), panel.y(self.bar.high));
            let middle = (self.body.left + self.body.right) / 2.0;
            draw_error_bar(&mut panel.canvas, middle, low, high, INK);
        }
    }

    /// The value beyond the bar's end and its error bar; narrow bars go without.
    fn label(&self, panel: &Panel, crowded: bool) -> Option<Text> {
        let size = if crowded { TICK_SIZE - 1.5 } else { TICK_SIZE };
        let room = self.body.width() * if crowded { 1.05 } else { 1.3 };
        if text_width(&self.value, size) > room {
            return None;
        }
        let Estimate { value, low, high } = self.bar;
        let below = value < 0.0;
        let row = if below { panel.y(low.min(value)) + 17.0 } else { panel.y(high.max(value)) - 6.0 };
        let middle = (self.body.left + self.body.right) / 2.0;
        Some(Text::new((middle, row), &self.value, size, INK).anchor(Anchor::Middle))
    }
}

ways_out!(BarPlot);

/// Room for the values written beyond the ends of the bars.
pub(crate) fn with_headroom(mut axis: Axis, bars: &[Estimate]) -> Axis {
    let (span, room) = (axis.high - axis.low, 0.09);
    if bars.iter().any(|bar| axis.position(bar.high.max(bar.value)) > 1.0 - room) {
        axis.high += span * room;
    }
    if bars.iter().any(|bar| bar.value < 0.0 && axis.position(bar.low.min(bar.value)) < room) {
        axis.low -= span * room;
    }
    axis
}
