//! The frame around the data of a chart: title, legend, axes, grid, notes, reference lines.
//!
//! Everything is stacked from top to bottom and the picture grows with it; the legend stands above
//! the data and never covers it.

use super::axis::{Axis, Tick};
use super::canvas::{Anchor, Canvas, Rect, Spot, Text, shortened, text_width, wrapped};
use super::style::{
    GRID, INK, LABEL_SIZE, MUTED, NOTE_SIZE, SeriesStyle, TICK_SIZE, TITLE_SIZE, WHITE, draw_error_bar, draw_reference,
};
use plotters::style::RGBColor;

pub(crate) const WIDTH: f64 = 720.0;
/// The height of a picture, unless a long legend or note makes it taller.
const HEIGHT: f64 = 420.0;
const LOWEST_PANEL: f64 = 250.0;
const MARGIN: f64 = 16.0;
/// How many ticks the vertical axis has at most, and the horizontal one.
pub(crate) const TICKS_UP: usize = 7;
pub(crate) const TICKS_ACROSS: usize = 9;

/// What stands around the data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub note: String,
    pub legend: Vec<Entry>,
}

/// A horizontal line to compare with, such as a limit.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub value: f64,
    pub label: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub label: String,
    pub key: Key,
}

/// The sign in front of a legend entry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    Line {
        style: SeriesStyle,
        marker: bool,
    },
    Swatch(RGBColor),
    /// A reference line, by its number.
    Reference(usize),
    ErrorBar,
    Dot,
}

/// The horizontal axis: numbers, or one slot per category.
#[derive(Debug, Clone)]
pub(crate) enum Across {
    Numbers(Axis),
    Categories(Vec<String>),
}

/// The picture with its frame drawn and the area for the data free.
pub(crate) struct Panel {
    pub canvas: Canvas,
    pub area: Rect,
    pub up: Axis,
    across: Across,
}

/// `label (unit)`, or the label alone.
pub(crate) fn labelled(label: &str, unit: &str) -> String {
    match (label.trim(), unit.trim()) {
        (label, "") => label.to_owned(),
        ("", unit) => unit.to_owned(),
        (label, unit) => format!("{label} ({unit})"),
    }
}

/// The legend's entries for reference lines: none for a line that has its label beside it.
pub(crate) fn reference_entries(references: &[Reference]) -> Vec<Entry> {
    let several = references.iter().enumerate().filter(|_| references.len() > 1);
    several.map(|(index, line)| Entry { label: line.label.clone(), key: Key::Reference(index) }).collect()
}

impl Frame {
    /// Draws the frame; the data gets the height that the rest leaves.
    pub fn draw(&self, across: Across, up: Axis) -> Panel {
        let panel = self.draw_around(LOWEST_PANEL, across.clone(), up.clone());
        let left_over = HEIGHT - panel.canvas.height;
        if left_over <= 0.0 { panel } else { self.draw_around(LOWEST_PANEL + left_over, across, up) }
    }

    fn draw_around(&self, height: f64, across: Across, up: Axis) -> Panel {
        let mut canvas = Canvas::new(WIDTH, 0.0);
        let widest = up.ticks.iter().map(|tick| text_width(&tick.label, TICK_SIZE)).fold(0.0, f64::max);
        let y_label_space = if self.y_label.is_empty() { 0.0 } else { 26.0 };
        let left = MARGIN + y_label_space + widest + 8.0;
        let right = WIDTH - 28.0;

        let top = draw_heading(&mut canvas, &self.title, MARGIN);
        let top = draw_legend(&mut canvas, &self.legend, MARGIN + y_label_space, top) + 12.0;
        let area = Rect { left, top, right, bottom: top + height };

        draw_grid(&mut canvas, area, &up);
        let bottom = draw_across(&mut canvas, area, &across);
        let bottom = self.draw_labels(&mut canvas, area, bottom);
        let bottom = draw_note(&mut canvas, &self.note, bottom);
        canvas.height = bottom.ceil();
        let background = Rect { left: 0.0, top: 0.0, right: WIDTH, bottom: canvas.height };
        canvas.rect(background, WHITE);
        canvas.shapes.rotate_right(1);
        Panel { canvas, area, up, across }
    }

    fn draw_labels(&self, canvas: &mut Canvas, area: Rect, bottom: f64) -> f64 {
        let middle = (area.top + area.bottom) / 2.0;
        let label = shortened(&self.y_label, LABEL_SIZE, area.height() + 16.0);
        canvas.text(Text::new((MARGIN + 12.0, middle), label, LABEL_SIZE, INK).anchor(Anchor::Middle).upwards());
        if self.x_label.is_empty() {
            return bottom + 8.0;
        }
        let label = shortened(&self.x_label, LABEL_SIZE, area.width());
        let at = ((area.left + area.right) / 2.0, bottom + 20.0);
        canvas.text(Text::new(at, label, LABEL_SIZE, INK).anchor(Anchor::Middle));
        bottom + 30.0
    }
}

impl Panel {
    /// The pixel column of a number on the horizontal axis.
    pub fn x(&self, value: f64) -> f64 {
        match &self.across {
            Across::Numbers(axis) => self.area.left + axis.position(value) * self.area.width(),
            Across::Categories(_) => self.slot(value as usize).0,
        }
    }

    /// The middle of a category's slot, and the slot's width.
    pub fn slot(&self, index: usize) -> (f64, f64) {
        let count = match &self.across {
            Across::Categories(names) => names.len().max(1),
            Across::Numbers(_) => 1,
        };
        let width = self.area.width() / count as f64;
        (self.area.left + (index as f64 + 0.5) * width, width)
    }

    /// The pixel row of a value on the vertical axis.
    pub fn y(&self, value: f64) -> f64 {
        self.area.bottom - self.up.position(value) * self.area.height()
    }

    /// Draws the reference lines. One alone has its label where that covers as little data as
    /// possible; several have theirs in the legend.
    pub fn draw_references(&mut self, references: &[Reference], data: &[Rect]) {
        for (index, reference) in references.iter().enumerate() {
            let y = self.y(reference.value);
            draw_reference(&mut self.canvas, (self.area.left, y), (self.area.right, y), index);
        }
        if let [reference] = references {
            let label = self.free_place(&reference.label, self.y(reference.value), data);
            self.canvas.veil(label.bounds().grown(1.0), WHITE, 0.8);
            self.canvas.text(label);
        }
    }

    fn free_place(&self, label: &str, y: f64, taken: &[Rect]) -> Text {
        let label = shortened(label, TICK_SIZE, self.area.width() - 12.0);
        let width = text_width(&label, TICK_SIZE);
        let room = self.area.width() - width - 12.0;
        let (above, below) = (y - 5.0, y + 15.0);
        let mut best: Option<(usize, Text)> = None;
        for baseline in [above, below] {
            for share in [1.0, 0.0, 0.5, 0.25, 0.75] {
                let text = Text::new((self.area.left + 6.0 + room * share, baseline), &label, TICK_SIZE, INK);
                let space = text.bounds().grown(2.0);
                if space.top < self.area.top - 6.0 || space.bottom > self.area.bottom {
                    continue;
                }
                let covered = taken.iter().filter(|rect| rect.overlaps(&space)).count();
                if best.as_ref().is_none_or(|(least, _)| covered < *least) {
                    best = Some((covered, text));
                }
            }
        }
        best.map_or_else(|| Text::new((self.area.left + 6.0, above), &label, TICK_SIZE, INK), |(_, text)| text)
    }
}

/// The title at the top left; returns the row below it.
pub(crate) fn draw_heading(canvas: &mut Canvas, title: &str, top: f64) -> f64 {
    // Bold letters are a tenth wider.
    let lines = wrapped(title, TITLE_SIZE * 1.1, WIDTH - 2.0 * MARGIN, 2);
    for (index, line) in lines.iter().enumerate() {
        let at = (MARGIN, top + 15.0 + index as f64 * 22.0);
        canvas.text(Text::new(at, line, TITLE_SIZE, INK).bold());
    }
    top + lines.len() as f64 * 22.0 + 2.0
}

/// The note at the bottom, in small print; returns the picture's lower edge.
pub(crate) fn draw_note(canvas: &mut Canvas, note: &str, bottom: f64) -> f64 {
    let lines = wrapped(note, NOTE_SIZE, WIDTH - 2.0 * MARGIN, 3);
    for (index, line) in lines.iter().enumerate() {
        let at = (MARGIN, bottom + 14.0 + index as f64 * 17.0);
        canvas.text(Text::new(at, line, NOTE_SIZE, MUTED));
    }
    bottom + lines.len() as f64 * 17.0 + 10.0
}

/// The legend in rows from left to right; returns the row below it.
pub(crate) fn draw_legend(canvas: &mut Canvas, entries: &[Entry], left: f64, top: f64) -> f64 {
    let (mut x, mut row) = (left, 0);
    for entry in entries {
        let key = if matches!(entry.key, Key::Line { .. } | Key::Reference(_)) { 42.0 } else { 20.0 };
        let label = shortened(&entry.label, TICK_SIZE, WIDTH - MARGIN - left - key);
        let width = key + text_width(&label, TICK_SIZE) + 22.0;
        if x > left && x + width - 22.0 > WIDTH - MARGIN {
            (x, row) = (left, row + 1);
        }
        let middle = top + 14.0 + row as f64 * 22.0;
        entry.key.draw(canvas, (x, middle));
        canvas.text(Text::new((x + key, middle + 5.0), label, TICK_SIZE, INK));
        x += width;
    }
    if entries.is_empty() { top } else { top + (row + 1) as f64 * 22.0 + 2.0 }
}

impl Key {
    fn draw(&self, canvas: &mut Canvas, (x, y): Spot) {
        match self {
            Key::Line { style, marker } => {
                style.draw_line(canvas, &[(x, y), (x + 34.0, y)], 2.0);
                if *marker {
                    style.draw_marker(canvas, (x + 17.0, y));
                }
            }
            Key::Reference(index) => draw_reference(canvas, (x, y), (x + 34.0, y), *index),
            Key::Swatch(color) => {
                canvas.rect(Rect { left: x, right: x + 14.0, top: y - 7.0, bottom: y + 7.0 }, *color);
            }
            Key::Dot => canvas.circle((x + 7.0, y), 3.0, INK),
            Key::ErrorBar => draw_error_bar(canvas, x + 7.0, y - 7.0, y + 7.0, INK),
        }
    }
}

fn draw_grid(canvas: &mut Canvas, area: Rect, up: &Axis) {
    for Tick { value, label } in &up.ticks {
        let y = area.bottom - up.position(*value) * area.height();
        let color = if *value == 0.0 && up.low < 0.0 { MUTED } else { GRID };
        canvas.line((area.left, y), (area.right, y), color, 1.0);
        canvas.text(Text::new((area.left - 8.0, y + 5.0), label, TICK_SIZE, INK).anchor(Anchor::End));
    }
    canvas.line((area.left, area.bottom), (area.right, area.bottom), MUTED, 1.2);
}

/// The labels below the area; returns the row below them.
fn draw_across(canvas: &mut Canvas, area: Rect, across: &Across) -> f64 {
    match across {
        Across::Numbers(axis) => draw_numbers(canvas, area, axis),
        Across::Categories(names) => draw_categories(canvas, area, names),
    }
}

fn draw_numbers(canvas: &mut Canvas, area: Rect, axis: &Axis) -> f64 {
    let mut free_from = f64::NEG_INFINITY;
    for Tick { value, label } in &axis.ticks {
        let x = area.left + axis.position(*value) * area.width();
        let text = Text::new((x, area.bottom + 21.0), label, TICK_SIZE, INK).anchor(Anchor::Middle);
        canvas.line((x, area.bottom), (x, area.bottom + 5.0), MUTED, 1.2);
        // On a logarithmic axis ticks crowd: those without room keep their mark and lose their label.
        if text.bounds().left > free_from && text.bounds().right < WIDTH {
            free_from = text.bounds().right + 6.0;
            canvas.text(text);
        }
    }
    area.bottom + 26.0
}

fn draw_categories(canvas: &mut Canvas, area: Rect, names: &[String]) -> f64 {
    let slot = area.width() / names.len().max(1) as f64;
    // Where the slots are too narrow for a word, every second, third... category has its name.
    let every = (24.0 / slot).ceil().max(1.0) as usize;
    let mut most_lines = 1;
    for (index, name) in names.iter().enumerate().step_by(every) {
        let x = area.left + (index as f64 + 0.5) * slot;
        let lines = wrapped(name, TICK_SIZE, slot * every as f64 - 8.0, 3);
        for (row, line) in lines.iter().enumerate() {
            let at = (x, area.bottom + 20.0 + row as f64 * 17.0);
            canvas.text(Text::new(at, line, TICK_SIZE, INK).anchor(Anchor::Middle));
        }
        most_lines = most_lines.max(lines.len());
    }
    area.bottom + 9.0 + most_lines as f64 * 17.0
}
