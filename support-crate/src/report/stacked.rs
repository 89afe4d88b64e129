//! Stacked bars: what a whole is made of.

use std::fmt::Display;

use super::axis::Axis;
use super::bar::with_headroom;
use super::canvas::{Anchor, Canvas, Rect, Text, text_width};
use super::cell::Cell;
use super::estimate::{Estimate, Number};
use super::frame::{Across, Entry, Frame, Key, Panel, TICKS_UP, labelled};
use super::number::alike;
use super::plot::{check_any, check_value, table_of, ways_out};
use super::style::{INK, PALETTE, TICK_SIZE, WHITE, ink_on};
use super::table::Table;
use crate::error::{Error, Result};

/// Bars made of parts, with the total above each: where the time or the memory goes.
///
/// ```
/// use quantlab::report::StackedBar;
///
/// let plot = StackedBar::new("Where the time goes", ["prefill", "decode"])
///     .x("prompt length")
///     .y("time", "s")
///     .bar("16 tokens", [0.02, 0.48])?
///     .bar("256 tokens", [0.31, 0.52])?;
/// assert!(plot.to_svg()?.contains("prefill"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StackedBar {
    title: String,
    x_label: String,
    y: (String, String),
    note: String,
    parts: Vec<String>,
    bars: Vec<(String, Vec<f64>)>,
}

impl StackedBar {
    /// A plot without bars yet, and the names of the parts that every bar has, from the bottom up.
    pub fn new(title: impl Into<String>, parts: impl IntoIterator<Item: Into<String>>) -> Self {
        Self {
            title: title.into(),
            x_label: String::new(),
            y: Default::default(),
            note: String::new(),
            parts: parts.into_iter().map(Into::into).collect(),
            bars: Vec::new(),
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

    /// Adds a bar with one amount for each part. Amounts below zero cannot be stacked.
    pub fn bar(mut self, category: impl Into<String>, amounts: impl IntoIterator<Item: Number>) -> Result<Self> {
        let category = category.into();
        let amounts: Vec<f64> = amounts.into_iter().map(Number::to_f64).collect();
        if amounts.len() != self.parts.len() {
            return Err(Error::input(format!(
                "`{}`: bar `{category}` has {} amounts for {} parts",
                self.title,
                amounts.len(),
                self.parts.len(),
            ))
            .hint("name the parts in StackedBar::new and give each bar one amount for each"));
        }
        for (part, &amount) in self.parts.iter().zip(&amounts) {
            check_value(&category, part, Estimate::exact(amount))?;
            if amount < 0.0 {
                return Err(Error::input(format!("`{}`: {part} of `{category}` is {amount}", self.title))
                    .hint("parts of a whole are zero or more"));
            }
        }
        self.bars.push((category, amounts));
        Ok(self)
    }

    /// A line of small print below the plot: model, engine, device, dtype, threads, build.
    pub fn note(mut self, note: impl Display) -> Self {
        self.note = note.to_string();
        self
    }

    /// The plotted numbers as a table, one row per bar.
    pub fn table(&self) -> Result<Table> {
        let category = if self.x_label.is_empty() { "category" } else { self.x_label.as_str() };
        let parts = self.parts.iter().map(|part| (part.as_str(), self.y.1.as_str()));
        let mut table = table_of(&self.title, [(category, "")].into_iter().chain(parts))?;
        for (category, amounts) in &self.bars {
            let amounts = amounts.iter().map(Cell::from);
            table = table.row([Cell::from(category)].into_iter().chain(amounts).collect::<Vec<_>>())?;
        }
        Ok(table.note(&self.note))
    }

    pub(super) fn scene(&self) -> Result<Canvas> {
        let any = !self.bars.is_empty() && !self.parts.is_empty();
        check_any(&self.title, any, "name the parts in StackedBar::new and add bars with .bar(\"name\", [..])?")?;
        let totals: Vec<f64> = self.bars.iter().map(|(_, amounts)| amounts.iter().sum()).collect();
        let ends: Vec<Estimate> = totals.iter().copied().map(Estimate::exact).collect();
        let up = with_headroom(Axis::measured(&totals, true, TICKS_UP), &ends);
        let categories = self.bars.iter().map(|(category, _)| category.clone()).collect();
        let mut panel = self.frame().draw(Across::Categories(categories), up);
        // All amounts with the same decimals, totals last.
        let amounts = self.bars.iter().flat_map(|(_, amounts)| amounts).copied();
        let labels = alike(&amounts.chain(totals).collect::<Vec<f64>>(), 3);
        let (of_parts, of_totals) = labels.split_at(self.bars.len() * self.parts.len());
        for (index, total) in of_totals.iter().enumerate() {
            let first = index * self.parts.len();
            self.draw_bar(&mut panel, index, &of_parts[first..first + self.parts.len()], total);
        }
        Ok(panel.canvas)
    }

    fn draw_bar(&self, panel: &mut Panel, index: usize, labels: &[String], total: &str) {
        let (middle, slot) = panel.slot(index);
        let width = (slot * 0.66).min(88.0);
        let mut below = 0.0;
        for (part, amount) in self.bars[index].1.iter().enumerate() {
            let body = Rect {
                left: middle - width / 2.0,
                right: middle + width / 2.0,
                top: panel.y(below + amount),
                bottom: panel.y(below),
            };
            below += amount;
            panel.canvas.rect(body, PALETTE[part % PALETTE.len()]);
            let seam = (body.left, body.bottom);
            if part > 0 {
                panel.canvas.line(seam, (body.right, body.bottom), WHITE, 1.5);
            }
            draw_amount(panel, &labels[part], body, part);
        }
        let label = Text::new((middle, panel.y(below) - 6.0), total, TICK_SIZE, INK).anchor(Anchor::Middle).bold();
        if label.bounds().width() <= slot - 4.0 {
            panel.canvas.veil(label.bounds(), WHITE, 0.85);
            panel.canvas.text(label);
        }
    }

    fn frame(&self) -> Frame {
        let parts = self.parts.iter().enumerate();
        let legend = parts
            .map(|(index, part)| Entry { label: part.clone(), key: Key::Swatch(PALETTE[index % PALETTE.len()]) })
            .collect();
        Frame {
            title: self.title.clone(),
            x_label: self.x_label.clone(),
            y_label: labelled(&self.y.0, &self.y.1),
            note: self.note.clone(),
            legend,
        }
    }
}

ways_out!(StackedBar);

/// Writes a part's amount into it, where there is room.
fn draw_amount(panel: &mut Panel, label: &str, body: Rect, part: usize) {
    let size = TICK_SIZE - 1.0;
    if body.height() < size + 6.0 || text_width(label, size) > body.width() - 4.0 {
        return;
    }
    let at = ((body.left + body.right) / 2.0, (body.top + body.bottom) / 2.0 + size * 0.36);
    let color = ink_on(PALETTE[part % PALETTE.len()]);
    panel.canvas.text(Text::new(at, label, size, color).anchor(Anchor::Middle));
}
