//! Codebooks: which numbers a format has, and the decision boundaries between them.

use plotters::style::Color;

use super::drawing::axis::{Axis, Tick};
use super::drawing::chart::{Chart, chart_methods, check_value};
use super::drawing::scene::{Key, Mark, Scene, Xy};
use super::drawing::style::{MUTED, PALETTE, Stroke, WHITE, looks, mixed};
use crate::error::{Error, Result};
use crate::report::{Estimate, Table};

/// The height of a codebook's row and of the density, in pixels.
const ROW: f64 = 58.0;
const DENSITY: f64 = 120.0;

/// The values of codebooks as ticks, one row per format, with the decision boundaries between them.
///
/// ```
/// use quantlab::quant::FourBit;
/// use quantlab::report::RugPlot;
///
/// let plot = RugPlot::new("Sixteen numbers each")
///     .x("weight / absmax of its block", "")
///     .codebook("NF4", FourBit::Nf4.codebook())?
///     .codebook("FP4", FourBit::Fp4.codebook())?;
/// assert!(plot.to_svg()?.contains("NF4"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RugPlot {
    chart: Chart,
    /// Name and distinct values in ascending order.
    rows: Vec<(String, Vec<f64>)>,
    density: Option<(String, Vec<(f64, f64)>)>,
}

impl RugPlot {
    /// A plot without codebooks yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { chart: Chart::new(title), rows: Vec::new(), density: None }
    }

    /// Adds a row with a format's values, in any order; a value that comes twice is drawn once.
    ///
    /// # Errors
    /// No values; NaN and infinite ones.
    pub fn codebook(mut self, name: impl Into<String>, values: &[f32]) -> Result<Self> {
        let name = name.into();
        if values.is_empty() {
            return Err(Error::input(format!("`{}`: the codebook `{name}` has no values", self.chart.title))
                .hint("give the numbers that the format can represent"));
        }
        let mut values: Vec<f64> = values.iter().map(|value| f64::from(*value) + 0.0).collect();
        values.iter().try_for_each(|value| check_value(&name, "its codebook", value.into()))?;
        values.sort_by(f64::total_cmp);
        values.dedup();
        self.rows.push((name, values));
        Ok(self)
    }

    /// Draws above the rows how the numbers to round are distributed: pairs of a value and its
    /// density, on the same horizontal axis.
    ///
    /// # Errors
    /// NaN and infinite numbers; a density below zero.
    pub fn density(mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Result<Self> {
        let name = name.into();
        let mut points: Vec<(f64, f64)> = points.into_iter().collect();
        for (x, density) in &points {
            check_value(&name, "the horizontal axis", x.into())?;
            check_value(&name, &x.to_string(), density.into())?;
            if *density < 0.0 {
                return Err(Error::input(format!("`{name}` has the density {density} at {x}"))
                    .hint("a density must be zero or more"));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.density = Some((name, points));
        Ok(self)
    }

    /// The drawn numbers as a table, one row per value, with the boundary to the next value.
    pub fn table(&self) -> Table {
        let unit = self.chart.x.unit.as_str();
        let mut table = self.chart.table([("codebook", ""), ("value", unit), ("boundary above", unit)]);
        for (name, values) in &self.rows {
            for (index, value) in values.iter().enumerate() {
                let boundary = values.get(index + 1).map(|next| f64::midpoint(*value, *next));
                table = table.row((name, *value, boundary));
            }
        }
        table
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        self.chart.check_any(!self.rows.is_empty(), "add a row with .codebook(\"name\", &values)?")?;
        let density = self.density.as_ref().filter(|(_, points)| !points.is_empty());
        let along = density.iter().flat_map(|(_, points)| points.iter().map(|(x, _)| *x));
        let values = self.rows.iter().flat_map(|(_, values)| values.iter().copied()).chain(along);
        let x = self.chart.across(values.map(Estimate::exact))?;
        let (left, right) = (x.axis.low, x.axis.high);
        // In rows from the top down; the density, if there is one, above zero.
        let (rows, above) = (self.rows.len() as f64, if density.is_some() { DENSITY / ROW } else { 0.0 });
        let names: Vec<String> = self.rows.iter().map(|(name, _)| name.clone()).collect();
        let y = Axis { low: rows, high: -above, ..Axis::categories(&names) };
        let height = ROW * (rows + above);
        let mut scene = Scene { x_label: x.label, grid: (true, false), height, ..Scene::new(x.axis, y) };

        if let Some((name, points)) = density {
            let highest = points.iter().map(|(_, density)| *density).fold(f64::MIN_POSITIVE, f64::max);
            let line: Vec<Xy> = points.iter().map(|(x, it)| (*x, -it / highest * 0.92 * above)).collect();
            let ends = [points.last(), points.first()].into_iter().flatten().map(|(x, _)| (*x, 0.0));
            let (points, color) = (line.iter().copied().chain(ends).collect(), PALETTE[0].color);
            scene.marks.push(Mark::Area(points, color.mix(0.25)));
            scene.marks.push(Mark::Line(line, Stroke::new(color, 1.6)));
            scene.y.ticks.insert(0, Tick { value: -above / 2.0, label: name.clone() });
        }
        let boundary = Stroke { dash: (3, 2), ..Stroke::new(MUTED, 0.8) };
        for (row, ((_, values), look)) in self.rows.iter().zip(looks(names.iter().map(String::as_str))).enumerate() {
            let ends = |value: f64| [0.16, 0.84].map(|share| (value, row as f64 + share));
            let line = |value: &f64, stroke| Mark::Line(ends(*value).into(), stroke);
            let boundaries: Vec<f64> = values.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
            // The ranges that are rounded to one value and to the next, alternately light and white.
            let edges: Vec<f64> = [left].into_iter().chain(boundaries.iter().copied()).chain([right]).collect();
            for pair in edges.windows(2).step_by(2) {
                let color = mixed(look.color, WHITE, 0.85).to_rgba();
                scene.marks.push(Mark::Block(ends(pair[0])[0], ends(pair[1])[1], color));
            }
            scene.marks.extend(boundaries.iter().map(|value| line(value, boundary)));
            scene.marks.extend(values.iter().map(|value| line(value, Stroke::new(look.color, 2.4))));
        }
        scene.entry("decision boundary", Key::Line(boundary));
        scene.entry("a value of the codebook", Key::Line(Stroke::new(MUTED, 2.4)));
        Ok(scene)
    }
}

chart_methods!(RugPlot: x);
