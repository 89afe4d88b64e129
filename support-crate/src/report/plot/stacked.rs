//! Stacked bars: what a whole is made of.

use super::bar::Layout;
use super::drawing::chart::{Chart, chart_methods, check_value};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene};
use super::drawing::style::{NOTE_SIZE, Stroke, WHITE, ink_on, looks};
use crate::error::{Error, Result};
use crate::report::number::rounded;
use crate::report::{Cell, Estimate, Number, Table};

/// Bars made of parts, with the total beyond each: where the time or the memory goes.
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
    chart: Chart,
    parts: Vec<String>,
    categories: Vec<String>,
    /// The amounts of each category, one for each part.
    bars: Vec<Vec<f64>>,
}

impl StackedBar {
    /// A plot without bars yet, and the names of the parts that every bar has, from the bottom up.
    pub fn new(title: impl Into<String>, parts: impl IntoIterator<Item: Into<String>>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        Self { chart: Chart::new(title), parts, categories: Vec::new(), bars: Vec::new() }
    }

    /// Adds a bar with one amount for each part.
    ///
    /// # Errors
    /// A number of amounts other than that of parts; amounts that are NaN, infinite or below zero.
    pub fn bar(mut self, category: impl Into<String>, amounts: impl IntoIterator<Item: Number>) -> Result<Self> {
        let category = category.into();
        let amounts: Vec<f64> = amounts.into_iter().map(Number::to_f64).collect();
        if amounts.len() != self.parts.len() {
            return Err(Error::input(format!(
                "`{}`: bar `{category}` has {} amounts for {} parts",
                self.chart.title,
                amounts.len(),
                self.parts.len(),
            ))
            .hint("name the parts in StackedBar::new and give each bar one amount for each"));
        }
        for (part, &amount) in self.parts.iter().zip(&amounts) {
            check_value(&category, part, amount.into())?;
            if amount < 0.0 {
                return Err(Error::input(format!("bar `{category}`: {part} is {amount}, which cannot be stacked"))
                    .hint("stacked amounts must be zero or more"));
            }
        }
        self.categories.push(category);
        self.bars.push(amounts);
        Ok(self)
    }

    /// The plotted numbers as a table, one row per bar.
    pub fn table(&self) -> Table {
        let Chart { x, y, .. } = &self.chart;
        let (unit, factor) = y.unit_for(self.totals());
        let parts = self.parts.iter().map(|part| (part.as_str(), unit));
        let mut table = self.chart.table([(x.name_or("category"), "")].into_iter().chain(parts));
        for (category, amounts) in self.categories.iter().zip(&self.bars) {
            let amounts = amounts.iter().map(|amount| Cell::from(amount * factor));
            table = table.row([Cell::from(category)].into_iter().chain(amounts).collect::<Vec<_>>());
        }
        table
    }

    /// The ends of the bars.
    fn totals(&self) -> impl Iterator<Item = Estimate> {
        self.bars.iter().map(|amounts| amounts.iter().sum::<f64>().into())
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let any = !self.bars.is_empty() && !self.parts.is_empty();
        self.chart.check_any(any, "name the parts in StackedBar::new and add bars with .bar(\"name\", [..])?")?;
        let y = self.chart.up(self.totals(), true)?;
        // Parts of all bars, then totals.
        let amounts = self.bars.iter().flatten().copied().chain(self.totals().map(|total| total.value));
        let mut written = rounded(&amounts.map(|amount| amount * y.factor).collect::<Vec<_>>(), 3).into_iter();
        let layout = Layout::of(&self.categories, 1, false);
        let mut scene = layout.scene(&self.chart, &self.categories, y, self.totals());
        let looks = looks(self.parts.iter().map(String::as_str));
        for (part, look) in self.parts.iter().zip(&looks) {
            scene.entry(part, Key::Swatch(look.fill()));
        }
        for (index, amounts) in self.bars.iter().enumerate() {
            let ((left, right), mut below) = (layout.sides(index, 0), 0.0);
            for (amount, look) in amounts.iter().zip(&looks) {
                let (from, to, seam) =
                    (layout.at(left, below), layout.at(right, below + amount), layout.at(right, below));
                scene.marks.push(Mark::Block(from, to, look.fill()));
                if below > 0.0 {
                    scene.marks.push(Mark::Line(vec![from, seam], Stroke::new(WHITE, 1.2)));
                }
                let label = Label::new(written.next().unwrap_or_default(), from, Place::Inside { to });
                scene.labels.push(Label { size: NOTE_SIZE, color: ink_on(look.fill()), ..label });
                below += amount;
            }
        }
        for (index, (total, text)) in self.totals().zip(written).enumerate() {
            let at = layout.at(index as f64 + 0.5, total.value);
            scene.labels.push(Label { bold: true, ..Label::new(text, at, layout.beyond(false)) });
        }
        Ok(scene)
    }
}

chart_methods!(StackedBar: category, y);
