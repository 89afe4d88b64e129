//! Heat maps: one number for each row and column, as a shade.

use plotters::style::{Color, RGBColor};

use super::drawing::axis::{Axis, Tick};
use super::drawing::chart::{Chart, chart_methods, check_value};
use super::drawing::scene::{Key, Mark, Scene};
use super::drawing::style::{PALETTE, WHITE, mixed};
use crate::error::{Error, Result};
use crate::report::number::{labelled, significant};
use crate::report::{Number, Table};

/// The most cells side by side; more columns are drawn several to a cell.
const ACROSS: usize = 192;
/// Shades; each but the first stands for numbers up to a power of two times as large as the one before.
const SHADES: usize = 7;
/// The height of a row, in pixels, where there are few and where there are many.
const ROW: (f64, f64) = (30.0, 9.0);

/// Magnitudes by row and column, such as layers and channels. Shades are logarithmic, and begin at about twice the median,
/// so that what is ordinary is as good as white.
///
/// ```
/// use quantlab::report::HeatMap;
///
/// let map = HeatMap::new("Where inputs are large")
///     .x("channel", "")
///     .y("layer", "")
///     .row("0", [0.1, 0.2, 7.0])?
///     .row("1", [0.2, 0.1, 30.0])?;
/// assert!(map.to_svg()?.contains("channel"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HeatMap {
    chart: Chart,
    rows: Vec<(String, Vec<f64>)>,
}

impl HeatMap {
    /// A map without rows yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { chart: Chart::new(title), rows: Vec::new() }
    }

    /// Adds a row above those that are there.
    ///
    /// # Errors
    /// No columns, or another number of them than the first row has; numbers that are NaN, infinite or below 0.
    pub fn row(mut self, name: impl Into<String>, values: impl IntoIterator<Item: Number>) -> Result<Self> {
        let name = name.into();
        let values: Vec<f64> = values.into_iter().map(Number::to_f64).collect();
        let columns = self.columns();
        if values.is_empty() || !self.rows.is_empty() && values.len() != columns {
            let others = if self.rows.is_empty() { String::new() } else { format!(", not {columns} as the first one") };
            return Err(Error::input(format!("row `{name}` has {} columns{others}", values.len()))
                .hint("give each row one number for each column"));
        }
        for (column, value) in values.iter().enumerate() {
            check_value(&name, &column.to_string(), (*value).into())?;
            if *value < 0.0 {
                return Err(Error::input(format!("row `{name}`, column {column}: {value} is no magnitude")));
            }
        }
        self.rows.push((name, values));
        Ok(self)
    }

    fn columns(&self) -> usize {
        self.rows.first().map_or(0, |(_, values)| values.len())
    }

    /// What there is to say of each row: its median, its largest number, and in which column that is.
    pub fn table(&self) -> Table {
        let Chart { x, y, .. } = &self.chart;
        let (column, row) = (x.name_or("column"), y.name_or("row"));
        let at = format!("{column} of the largest");
        let mut table = self.chart.table([(row, ""), ("median", ""), ("largest", ""), (&at, "")]);
        for (name, values) in &self.rows {
            let at = (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap_or(0);
            table = table.row((name, median(values), values[at], at));
        }
        table
    }

    /// Where each shade but the first begins.
    fn limits(&self) -> Vec<f64> {
        let all: Vec<f64> = self.rows.iter().flat_map(|(_, values)| values).copied().filter(|x| *x > 0.0).collect();
        let largest = all.iter().copied().fold(0.0, f64::max);
        let middle = if all.is_empty() { 1.0 } else { median(&all) };
        // Whole powers of two, as far apart as it takes to reach the largest.
        let apart = ((largest / middle).log2() / SHADES as f64).ceil().max(1.0);
        let first = middle.log2().ceil() + 1.0;
        let limit = |shade: usize| (first + apart * shade as f64).exp2();
        (0..SHADES).map(limit).filter(|limit| *limit < largest).collect()
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        self.chart.check_any(!self.rows.is_empty(), "add a row with .row(\"name\", values)?")?;
        let (columns, rows) = (self.columns(), self.rows.len());
        let together = columns.div_ceil(ACROSS);
        let names: Vec<String> = self.rows.iter().map(|(name, _)| name.clone()).collect();
        let x = Axis { ticks: whole_ticks(columns), ..Axis::bare(0.0, columns as f64) };
        let height = (ROW.0 * rows as f64).min(290.0).max(ROW.1 * rows as f64);
        let mut scene = Scene { grid: (false, false), height, ..Scene::new(x, Axis::categories(&names)) };
        scene.x_label = labelled(&self.chart.x.name, &self.chart.x.unit);
        scene.y_label = labelled(&self.chart.y.name, &self.chart.y.unit);
        if together > 1 {
            scene.band = format!("each cell is the largest of {together} neighbours");
        }
        let limits = self.limits();
        let shade_of = |values: &[f64]| {
            let largest = values.iter().copied().fold(0.0, f64::max);
            limits.iter().filter(|limit| largest >= **limit).count()
        };
        let color = |shade: usize| match shade {
            0 => mixed(PALETTE[0].color, WHITE, 0.96),
            // The darkest one is for the largest numbers, however few shades there are.
            _ => shaded(shade as f64 / limits.len() as f64),
        };
        for (row, (_, values)) in self.rows.iter().enumerate() {
            let shades: Vec<usize> = values.chunks(together).map(shade_of).collect();
            let mut from = 0;
            for same in shades.chunk_by(|a, b| a == b) {
                let to = from + same.len();
                let [left, right] = [from, to].map(|cell| (cell * together).min(columns) as f64);
                let block = Mark::Block((left, row as f64), (right, (row + 1) as f64), color(same[0]).to_rgba());
                scene.marks.push(block);
                from = to;
            }
        }
        let written = |limit: f64| significant(limit, 3);
        let first = limits.first().map_or("all".to_owned(), |limit| format!("below {}", written(*limit)));
        scene.entry(first, Key::Swatch(color(0).to_rgba()));
        for (index, limit) in limits.iter().enumerate() {
            scene.entry(format!("from {}", written(*limit)), Key::Swatch(color(index + 1).to_rgba()));
        }
        Ok(scene)
    }
}

chart_methods!(HeatMap: x, y);

/// From pale to the darkest violet: a share of 1.
fn shaded(share: f64) -> RGBColor {
    let full = PALETTE[0].color;
    let dark = mixed(full, RGBColor(0, 0, 0), 0.55);
    if share < 0.7 { mixed(WHITE, full, 0.1 + share * 1.25) } else { mixed(full, dark, (share - 0.7) / 0.3) }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// At most eight ticks at round numbers of columns.
fn whole_ticks(columns: usize) -> Vec<Tick> {
    let steps = (0..12).flat_map(|power| [1, 2, 5].map(|step| step * 10_usize.pow(power)));
    let step = steps.into_iter().find(|step| columns / step <= 8).unwrap_or(columns);
    (0..=columns / step).map(|i| Tick { value: (i * step) as f64, label: (i * step).to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_powers_of_two_from_twice_the_median_on() {
        let map = HeatMap::new("").row("a", [1.0, 1.0, 1.0, 3.0, 40.0]).unwrap();
        assert_eq!(map.limits(), [2.0, 4.0, 8.0, 16.0, 32.0]);
        let far = HeatMap::new("").row("a", [1.0, 1.0, 1.0, 3.0, 1e4]).unwrap();
        assert_eq!(far.limits(), [2.0, 8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0]);
        let text = map.table().to_text();
        assert!(text.contains("40") && text.contains('4'), "{text}");
        // What is 0 everywhere has one shade.
        let flat = HeatMap::new("").row("a", [0.0; 3]).unwrap();
        assert!(flat.limits().is_empty() && flat.to_svg().unwrap().contains("all"));
    }

    #[test]
    fn neighbours_share_a_cell_where_there_are_many() {
        let mut values = vec![1.0; 576];
        values[301] = 99.0;
        let map = HeatMap::new("wide").row("a", values.clone()).unwrap().row("b", values).unwrap();
        let blocks = map.scene().unwrap().marks.len();
        assert_eq!(blocks, 2 * 3, "before, at and after the one");
        assert!(map.to_svg().unwrap().contains("largest of 3 neighbours"));
    }

    #[test]
    fn rows_are_of_one_length_and_magnitudes() {
        assert!(HeatMap::new("").to_svg().is_err());
        let map = || HeatMap::new("").row("a", [1.0, 2.0]).unwrap();
        for values in [vec![], vec![1.0], vec![f64::NAN, 1.0], vec![-1.0, 0.0]] {
            assert!(map().row("b", values).is_err());
        }
    }
}
