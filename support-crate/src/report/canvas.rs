//! A picture as a list of shapes, laid out in pixels and drawn by plotters' SVG backend.
//!
//! The list is looked at before it is drawn: labels find free places, and tests see whether texts
//! overlap or leave the picture.

use plotters::prelude::{DrawingBackend, RGBColor, SVGBackend, ShapeStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, FontTransform, TextStyle};

use super::display::escape_html;
use crate::error::{Error, Result};

/// plotters counts whole pixels; drawing ten times as large and scaling back gives tenths.
const SCALE: f64 = 10.0;

/// A place, in pixels from the top left corner.
pub(crate) type Spot = (f64, f64);

#[derive(Debug, Clone)]
pub(crate) struct Canvas {
    pub width: f64,
    pub height: f64,
    pub shapes: Vec<Shape>,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Path { spots: Vec<Spot>, color: RGBColor, width: f64 },
    Polygon { spots: Vec<Spot>, color: RGBColor, opacity: f64 },
    Circle { center: Spot, radius: f64, color: RGBColor },
    Text(Text),
}

/// A line of text; `at` is on the baseline, at the side that `anchor` names.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub at: Spot,
    pub content: String,
    pub size: f64,
    pub color: RGBColor,
    pub bold: bool,
    pub anchor: Anchor,
    pub upwards: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Canvas {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    pub fn line(&mut self, from: Spot, to: Spot, color: RGBColor, width: f64) {
        self.path(vec![from, to], color, width);
    }

    pub fn path(&mut self, spots: Vec<Spot>, color: RGBColor, width: f64) {
        self.shapes.push(Shape::Path { spots, color, width });
    }

    pub fn rect(&mut self, rect: Rect, color: RGBColor) {
        self.polygon(rect.corners().to_vec(), color);
    }

    pub fn polygon(&mut self, spots: Vec<Spot>, color: RGBColor) {
        self.shapes.push(Shape::Polygon { spots, color, opacity: 1.0 });
    }

    pub fn veil(&mut self, rect: Rect, color: RGBColor, opacity: f64) {
        self.shapes.push(Shape::Polygon { spots: rect.corners().to_vec(), color, opacity });
    }

    pub fn circle(&mut self, center: Spot, radius: f64, color: RGBColor) {
        self.shapes.push(Shape::Circle { center, radius, color });
    }

    pub fn text(&mut self, text: Text) {
        if !text.content.is_empty() {
            self.shapes.push(Shape::Text(text));
        }
    }

    /// The picture as an SVG document; `title` is what a screen reader says.
    pub fn to_svg(&self, title: &str) -> Result<String> {
        let mut drawn = String::new();
        let size = (pixels(self.width) as u32, pixels(self.height) as u32);
        let mut backend = SVGBackend::with_string(&mut drawn, size);
        for shape in &self.shapes {
            shape.draw(&mut backend).map_err(|error| Error::system(format!("drawing `{title}`: {error}")))?;
        }
        backend.present().map_err(|error| Error::system(format!("drawing `{title}`: {error}")))?;
        drop(backend);
        let (_, body) = drawn.split_once('\n').unwrap_or_default();
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" \
             role=\"img\">\n<title>{}</title>\n{body}",
            self.width,
            self.height,
            size.0,
            size.1,
            escape_html(&printable(title)),
        ))
    }
}

impl Shape {
    fn draw(&self, backend: &mut SVGBackend) -> Result<(), String> {
        let result = match self {
            Shape::Path { spots, color, width } => {
                let style = ShapeStyle::from(color).stroke_width(pixels(*width).max(1) as u32);
                backend.draw_path(spots.iter().map(|&spot| place(spot)), &style)
            }
            Shape::Polygon { spots, color, opacity } => {
                let style = ShapeStyle::from(color.mix(*opacity)).filled();
                backend.fill_polygon(spots.iter().map(|&spot| place(spot)), &style)
            }
            Shape::Circle { center, radius, color } => {
                let style = ShapeStyle::from(color).filled();
                backend.draw_circle(place(*center), pixels(*radius) as u32, &style, true)
            }
            Shape::Text(text) => return text.draw(backend),
        };
        result.map_err(|error| error.to_string())
    }
}

impl Text {
    pub fn new(at: Spot, content: impl AsRef<str>, size: f64, color: RGBColor) -> Self {
        let content = printable(content.as_ref());
        Self { at, content, size, color, bold: false, anchor: Anchor::Start, upwards: false }
    }

    pub fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    pub fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    /// Turned to read from bottom to top.
    pub fn upwards(mut self) -> Self {
        self.upwards = true;
        self
    }

    /// The space the text takes.
    pub fn bounds(&self) -> Rect {
        let width = text_width(&self.content, self.size) * if self.bold { 1.1 } else { 1.0 };
        let before = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (ascent, descent) = (self.size * 0.8, self.size * 0.22);
        let (x, y) = self.at;
        if self.upwards {
            let bottom = y + before;
            Rect { left: x - ascent, right: x + descent, top: bottom - width, bottom }
        } else {
            let left = x - before;
            Rect { left, right: left + width, top: y - ascent, bottom: y + descent }
        }
    }

    fn draw(&self, backend: &mut SVGBackend) -> Result<(), String> {
        // plotters writes size / 1.24, and lowers text that hangs from its top by 0.76 em.
        let style = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let mut font = FontDesc::new(FontFamily::SansSerif, self.size * SCALE * 1.24, style);
        let hang = self.size * 0.76;
        let mut at = (self.at.0, self.at.1 - hang);
        if self.upwards {
            font = font.transform(FontTransform::Rotate270);
            at = (self.at.0 - hang, self.at.1);
        }
        let side = match self.anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style = TextStyle::from(font).color(&self.color).pos(Pos::new(side, VPos::Top));
        backend.draw_text(&self.content, &style, place(at)).map_err(|error| error.to_string())
    }
}

impl Rect {
    pub fn around(center: Spot, radius: f64) -> Self {
        let (x, y) = center;
        Self { left: x - radius, right: x + radius, top: y - radius, bottom: y + radius }
    }

    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub fn grown(&self, by: f64) -> Self {
        Self { left: self.left - by, right: self.right + by, top: self.top - by, bottom: self.bottom + by }
    }

    pub fn overlaps(&self, other: &Rect) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn corners(&self) -> [Spot; 4] {
        [(self.left, self.top), (self.right, self.top), (self.right, self.bottom), (self.left, self.bottom)]
    }
}

/// How wide a text comes out, in pixels. Readers have different fonts: this is for a wide one
/// (DejaVu Sans), so that what fits here fits everywhere.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|character| size * advance(character)).sum()
}

/// The text, shortened at its end if it is wider than the space.
pub(crate) fn shortened(text: &str, size: f64, space: f64) -> String {
    if text_width(text, size) <= space {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut width = text_width("...", size);
    for character in text.chars() {
        width += size * advance(character);
        if width > space {
            break;
        }
        kept.push(character);
    }
    format!("{}...", kept.trim_end())
}

/// The text broken between words into at most `most` lines that fit the space.
pub(crate) fn wrapped(text: &str, size: f64, space: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in printable(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) + 0.32 * size <= space => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        // The last line takes the rest, to be cut off with an ellipsis.
        let rest = lines.split_off(most.max(1) - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| shortened(line, size, space)).collect()
}

fn advance(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '\'' => 0.28,
        ' ' | '.' | ',' | ':' | ';' | 'I' | '|' | '!' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.97,
        '0'..='9' | 'a'..='z' => 0.636,
        'A'..='Z' => 0.75,
        character if character.is_ascii() => 0.8,
        character if (character as u32) < 0x2000 => 0.7,
        _ => 1.0,
    }
}

/// Control characters are not allowed in SVG and line breaks do not break lines: both become spaces.
fn printable(text: &str) -> String {
    let bad = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if bad(c) { ' ' } else { c }).collect()
}

fn place((x, y): Spot) -> (i32, i32) {
    (pixels(x), pixels(y))
}

fn pixels(value: f64) -> i32 {
    (value * SCALE).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::style::BLACK;

    #[test]
    fn text_is_escaped_and_control_characters_are_gone() {
        let mut canvas = Canvas::new(100.0, 50.0);
        canvas.text(Text::new((10.0, 20.0), "a<b & \u{1b}c\nd", 14.0, BLACK));
        let svg = canvas.to_svg("x < y").unwrap();
        assert!(svg.contains("a&lt;b &amp;  c d"), "{svg}");
        assert!(svg.contains("<title>x &lt; y</title>"));
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("viewBox=\"0 0 1000 500\"") && svg.contains("font-size=\"140\""), "{svg}");
    }

    #[test]
    fn long_texts_wrap_and_end_in_an_ellipsis() {
        let lines = wrapped("float32 (forced on CPU) and more words than fit", 14.0, 80.0, 3);
        assert_eq!(lines.len(), 3);
        assert!(lines[2].ends_with("..."), "{lines:?}");
        assert!(lines.iter().all(|line| text_width(line, 14.0) <= 80.0), "{lines:?}");
        assert_eq!(wrapped("", 14.0, 80.0, 3), Vec::<String>::new());
        assert_eq!(shortened("abc", 14.0, 80.0), "abc");
    }

    #[test]
    fn bounds_follow_the_anchor() {
        let text = Text::new((50.0, 20.0), "12345", 10.0, BLACK);
        assert_eq!(text.bounds().left, 50.0);
        assert!((text.clone().anchor(Anchor::End).bounds().right - 50.0).abs() < 1e-9);
        let upwards = text.anchor(Anchor::Middle).upwards().bounds();
        assert!(upwards.height() > upwards.width());
    }
}
