//! A chart with its data: marks in the data's own coordinates, laid out with title, axes, legend and
//! labels around them.
//!
//! Everything is stacked from top to bottom and the picture grows with it; the legend stands above the
//! data and never covers it.

use std::collections::BTreeSet;

use plotters::style::{RGBAColor, RGBColor};

use super::axis::Axis;
use super::chart::Chart;
use super::label::{LONGEST_END, Label, Place, places_along};
use super::style::{
    ACROSS, Dash, HEIGHT, INK, LABEL_SIZE, LONGEST_NAME, Look, MARGIN, MUTED, NOTE_SIZE, Stroke, TITLE_SIZE, WIDTH,
};
use super::text::{Anchor, BOLD, Rect, Spot, Text, shortened, text_width, wrapped};

/// The dashes of lines to compare with: the first, second, third of a picture.
const REFERENCE_DASHES: [Dash; 3] = [(6, 4), (2, 4), (11, 3)];
/// Markers nearer than this hide each other, in pixels.
const MIN_DISTANCE: f64 = 5.0;
/// Half the width of the caps at the ends of an interval.
pub(crate) const CAP: f64 = 5.2;
/// Distances in the legend: from one entry to the next, and from one row to the next.
const BETWEEN: f64 = 20.0;
const ROW: f64 = 21.0;

/// A place in the data's coordinates.
pub(crate) type Xy = (f64, f64);

#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    pub x: Axis,
    pub y: Axis,
    pub x_label: String,
    pub y_label: String,
    /// Whether lines cross the data at the ticks of x, and of y.
    pub grid: (bool, bool),
    /// How high the data's part of the picture is.
    pub height: f64,
    pub marks: Vec<Mark>,
    pub labels: Vec<Label>,
    /// Names and the signs in front of them.
    pub legend: Vec<(String, Key)>,
    /// What bands around values are, for the caption.
    pub band: String,
}

/// Something drawn in the data's coordinates.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    Line(Vec<Xy>, Stroke),
    /// A marker in a white rim, and its radius.
    Point(Xy, Look, f64),
    /// An interval from one end to the other; over a marker of this radius, which hides shorter ones.
    Interval(Xy, Xy, RGBColor, Option<f64>),
    /// A rectangle from one corner to the other.
    Block(Xy, Xy, RGBAColor),
    /// The space within a line that ends where it began.
    Area(Vec<Xy>, RGBAColor),
}

/// The sign in front of a legend entry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    Line(Stroke),
    /// A line with markers.
    Series(Look),
    Marker(Look),
    Swatch(RGBAColor),
}

/// Where everything stands, in pixels.
#[derive(Default)]
pub(crate) struct Page {
    pub height: f64,
    pub area: Rect,
    pub x: Axis,
    pub y: Axis,
    pub texts: Vec<Text>,
    /// Below the data: the lines of the axes, those from points to their labels, the legend's keys.
    pub rules: Vec<Mark>,
    /// Over the data: the ground of labels.
    pub veils: Vec<Rect>,
}

impl Scene {
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, grid: (false, true), height: HEIGHT, ..Self::default() }
    }

    /// Adds a line to the legend.
    pub fn entry(&mut self, label: impl Into<String>, key: Key) {
        self.legend.push((label.into(), key));
    }

    /// How far two places are from each other, in pixels, about.
    fn distance(&self, a: Xy, b: Xy) -> f64 {
        let (across, up) = (self.x.position(a.0) - self.x.position(b.0), self.y.position(a.1) - self.y.position(b.1));
        (across * ACROSS).hypot(up * self.height)
    }

    /// What the chart's error bars are, if there are any, and where there are none.
    fn intervals(&self, chart: &Chart) -> String {
        let hidden = |mark: &Mark| match mark {
            Mark::Interval(from, to, _, radius) => {
                Some(radius.is_some_and(|radius| hides(radius, self.distance(*from, *to))))
            }
            _ => None,
        };
        let hidden: Vec<bool> = self.marks.iter().filter_map(hidden).collect();
        let note = if hidden.contains(&true) { ", where it is larger than its marker" } else { "" };
        let any = !chart.intervals.is_empty() && !hidden.is_empty();
        if any { format!("error bars: {}{note}", chart.intervals) } else { String::new() }
    }

    /// The small print: what was measured, then what bars and bands around the values are.
    fn caption(&self, chart: &Chart) -> String {
        let parts = [chart.note.clone(), self.intervals(chart), self.band.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" | ")
    }

    /// Adds the chart's lines to compare with: across the picture, or `upright` where values run to the
    /// right.
    pub fn references(&mut self, chart: &Chart, upright: bool) {
        for (index, (value, name)) in chart.references.iter().enumerate() {
            let stroke = reference_stroke(index);
            let (from, to, place) = if upright {
                let place = Place::Beside { offset: (0.0, -8.0), anchor: Anchor::Middle };
                ((*value, self.y.high), (*value, self.y.low), place)
            } else {
                let end = (self.x.high, *value);
                ((self.x.low, *value), end, Place::Along { to: end, rows: 1 })
            };
            self.labels.push(Label { key: Some(Key::Line(stroke)), ..Label::new(name, from, place) });
            self.marks.push(Mark::Line(vec![from, to], stroke));
        }
    }

    /// The radii of markers at these places, each of a series: larger where one of another series, which is drawn later,
    /// would hide it.
    pub fn radii(&self, places: &[(usize, Xy)], radius: f64) -> Vec<f64> {
        let above = |(index, (series, at)): (usize, &(usize, Xy))| {
            let hides = |(other, place): &&(usize, Xy)| other != series && self.distance(*at, *place) < MIN_DISTANCE;
            places[index + 1..].iter().filter(hides).map(|(other, _)| other).collect::<BTreeSet<_>>().len()
        };
        places.iter().enumerate().map(above).map(|above| radius + 3.0 * above as f64).collect()
    }

    /// Lays the picture out: with names at the data if there is room, else with names in the legend.
    pub fn arranged(&self, chart: &Chart) -> Page {
        let mut at_data = vec![true; self.labels.len()];
        loop {
            let (inside, outside): (Vec<_>, Vec<_>) =
                self.labels.iter().enumerate().partition(|(index, _)| at_data[*index]);
            let named = outside.iter().filter_map(|(_, label)| label.entry());
            let legend: Vec<(String, Key)> = named.chain(self.legend.iter().cloned()).collect();
            let mut page = self.page(chart, &legend, &inside);
            let homeless = page.place(&inside, &self.marks);
            if homeless.is_empty() {
                return page;
            }
            // The names of lines are either all at the lines or all in the legend.
            let ends = homeless.iter().any(|index| self.labels[*index].is_end());
            for (index, label) in inside {
                at_data[index] = !(homeless.contains(&index) || (ends && label.is_end()));
            }
        }
    }

    /// The picture around the data.
    fn page(&self, chart: &Chart, legend: &[(String, Key)], labels: &[(usize, &Label)]) -> Page {
        let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
        let ends = labels.iter().filter(|(_, label)| label.is_end());
        let column = labels.iter().filter(|(_, label)| matches!(label.place, Place::Column));
        let column = widest(&mut column.map(|(_, label)| label.width() + MARGIN + 12.0));
        let beside = widest(&mut ends.map(|(_, label)| label.width().min(LONGEST_END) + 32.0)).max(column);
        let names = widest(&mut self.y.ticks.iter().map(|tick| text_width(&tick.label, LABEL_SIZE) + 9.0));
        let last = self.x.ticks.last().map_or(0.0, |tick| text_width(&tick.label, LABEL_SIZE) / 2.0 + 2.0);
        let (left, right) = (MARGIN + names.min(LONGEST_NAME + 9.0), WIDTH - MARGIN.max(beside).max(last));
        let mut page = Page { x: self.x.clone(), y: self.y.clone(), ..Page::default() };
        (page.area.left, page.area.right) = (left, right);
        let title = wrapped(&chart.title, TITLE_SIZE * BOLD, WIDTH - 2.0 * MARGIN, 2);
        let top = page.write_lines(&title, MARGIN - 4.0, Text { bold: true, ..Text::new(TITLE_SIZE, INK) });
        let top = page.write_legend(legend, &self.y_label, top + 2.0) + 13.0;
        let above = labels.iter().any(|(_, label)| label.key.is_some() && matches!(label.place, Place::Beside { .. }));
        page.area.top = if above { top + 18.0 } else { top };
        page.area.bottom = page.area.top + self.height;
        let bottom = page.write_axes(self);
        let note = wrapped(&self.caption(chart), NOTE_SIZE, WIDTH - 2.0 * MARGIN, 4);
        page.height = (page.write_lines(&note, bottom + 4.0, Text::new(NOTE_SIZE, MUTED)) + 12.0).ceil();
        page
    }
}

impl Page {
    /// Where a place in the data's coordinates falls.
    pub fn spot(&self, (x, y): Xy) -> Spot {
        let area = self.area;
        (area.left + self.x.position(x) * area.width(), area.bottom - self.y.position(y) * area.height())
    }

    /// Lines of text at the left margin; returns the row below them.
    fn write_lines(&mut self, lines: &[String], top: f64, style: Text) -> f64 {
        let height = style.size * 1.4;
        let row = |(index, line)| style.clone().at((MARGIN, top + height * (index as f64 + 0.8)), line);
        self.texts.extend(lines.iter().enumerate().map(row));
        top + height * lines.len() as f64
    }

    /// The name of the vertical axis, and the legend: to its right if there is room, else in rows below.
    fn write_legend(&mut self, entries: &[(String, Key)], y_label: &str, top: f64) -> f64 {
        let (left, right) = (MARGIN, WIDTH - MARGIN);
        let y_label = shortened(y_label, LABEL_SIZE, right - left);
        let label = |(label, key): &(String, Key)| shortened(label, LABEL_SIZE, right - left - key.width());
        let width = |entry: &(String, Key)| entry.1.width() + text_width(&label(entry), LABEL_SIZE);
        let all = entries.iter().map(|entry| width(entry) + BETWEEN).sum::<f64>() - BETWEEN;
        let named = text_width(&y_label, LABEL_SIZE);
        let beside = left + named + all + if named > 0.0 { 24.0 } else { 0.0 } <= right;
        self.texts.push(Text::new(LABEL_SIZE, MUTED).at((left, top + 16.0), &y_label));
        let (mut x, mut row) = match beside {
            true => (right - all, top),
            false => (left, if named > 0.0 { top + ROW } else { top }),
        };
        for entry in entries {
            if x > left && x + width(entry) > right + 0.1 {
                (x, row) = (left, row + ROW);
            }
            self.rules.extend(entry.1.marks((x, row + 11.5)));
            self.texts.push(Text::new(LABEL_SIZE, INK).at((x + entry.1.width(), row + 16.0), label(entry)));
            x += width(entry) + BETWEEN;
        }
        if named == 0.0 && entries.is_empty() { top } else { row + ROW }
    }

    /// The lines and marks of the axes, and the name of the horizontal one; returns the row below. The
    /// labels of the ticks are drawn with the mesh.
    fn write_axes(&mut self, scene: &Scene) -> f64 {
        let area = self.area;
        self.x.thin(area.width(), |label| text_width(label, LABEL_SIZE) + 8.0);
        self.y.thin(area.height(), |_| LABEL_SIZE + 1.0);
        self.y.ticks.iter_mut().for_each(|tick| tick.label = shortened(&tick.label, LABEL_SIZE, LONGEST_NAME));
        let column = |value: f64| area.left + scene.x.position(value) * area.width();
        for tick in &mut self.x.ticks {
            let (at, half) = (column(tick.value), text_width(&tick.label, LABEL_SIZE) / 2.0);
            if at - half < 2.0 || at + half > WIDTH - 2.0 {
                tick.label.clear();
            }
        }
        let mut rule = |from: Spot, to: Spot| self.rules.push(Mark::Line(vec![from, to], Stroke::new(MUTED, 1.0)));
        let zero = |axis: &Axis| if axis.log { 0.0 } else { axis.position(0.0) };
        if scene.grid.1 {
            let base = area.bottom - zero(&scene.y) * area.height();
            rule((area.left, base), (area.right, base));
        } else if !scene.y.ticks.is_empty() {
            let base = area.left + zero(&scene.x) * area.width();
            rule((base, area.top), (base, area.bottom));
        }
        for tick in scene.x.ticks.iter().filter(|_| !scene.grid.0 && !scene.x.slots) {
            rule((column(tick.value), area.bottom), (column(tick.value), area.bottom + 4.0));
        }
        let mut row = area.bottom + 22.0;
        for line in wrapped(&scene.x_label, LABEL_SIZE, area.width(), 2) {
            let at = ((area.left + area.right) / 2.0, row + 17.0);
            self.texts.push(Text { anchor: Anchor::Middle, ..Text::new(LABEL_SIZE, MUTED) }.at(at, line));
            row += 20.0;
        }
        row + 3.0
    }
}

impl Mark {
    /// The parts of the picture that labels should keep off.
    pub fn covered(&self, page: &Page) -> Vec<Rect> {
        match self {
            Mark::Line(points, _) => {
                let pairs = points.windows(2).map(|pair| (page.spot(pair[0]), page.spot(pair[1])));
                pairs.flat_map(|(from, to)| places_along(from, to, 3.0)).collect()
            }
            Mark::Point(at, _, radius) => vec![Rect::between(page.spot(*at), page.spot(*at)).grown(radius + 1.5)],
            Mark::Interval(from, to, ..) => {
                let Rect { left, top, right, bottom } = Rect::between(page.spot(*from), page.spot(*to)).grown(1.0);
                let (wide, high) = if from.0 == to.0 { (CAP, 0.0) } else { (0.0, CAP) };
                vec![Rect { left: left - wide, right: right + wide, top: top - high, bottom: bottom + high }]
            }
            Mark::Block(from, to, RGBAColor(.., 1.0)) => vec![Rect::between(page.spot(*from), page.spot(*to))],
            Mark::Block(..) | Mark::Area(..) => Vec::new(),
        }
    }
}

/// The stroke of a line to compare with: dashed, and different for each line of a picture.
pub(crate) fn reference_stroke(index: usize) -> Stroke {
    Stroke { dash: REFERENCE_DASHES[index % REFERENCE_DASHES.len()], ..Stroke::new(INK, 1.4) }
}

/// Whether a marker hides so long an interval.
pub(crate) fn hides(radius: f64, length: f64) -> bool {
    length <= 2.0 * radius + 1.5
}

impl Key {
    /// The space of the sign and the gap behind it.
    fn width(self) -> f64 {
        if matches!(self, Key::Line(_) | Key::Series(_)) { 36.0 } else { 20.0 }
    }

    /// The sign, drawn to the right of a spot.
    fn marks(self, (x, y): Spot) -> Vec<Mark> {
        let across = vec![(x, y), (x + 29.0, y)];
        match self {
            Key::Line(stroke) => vec![Mark::Line(across, stroke)],
            Key::Series(look) => {
                vec![Mark::Line(across, look.stroke(2.0)), Mark::Point((x + 14.5, y), look, 4.4)]
            }
            Key::Marker(look) => vec![Mark::Point((x + 7.0, y), look, 4.6)],
            Key::Swatch(color) => vec![Mark::Block((x, y - 6.0), (x + 13.0, y + 6.0), color)],
        }
    }
}
