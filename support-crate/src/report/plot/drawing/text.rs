//! Texts: how wide they come out, cut and wrapped to a width.
//!
//! This does not use plotters, which without a font takes every byte to be 0.7 em wide. Readers have different fonts;
//! the widths here are those of DejaVu Sans, a wide one, so that what fits here fits everywhere.

use plotters::style::RGBColor;

/// A place, in pixels from the picture's top left corner.
pub(crate) type Spot = (f64, f64);

/// A line of text; `at` is on the baseline, at the side that `anchor` names.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub at: Spot,
    pub content: String,
    pub size: f64,
    pub color: RGBColor,
    pub bold: bool,
    pub anchor: Anchor,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A part of the picture.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Text {
    /// A style for words to come.
    pub fn new(size: f64, color: RGBColor) -> Self {
        Self { at: (0.0, 0.0), content: String::new(), size, color, bold: false, anchor: Anchor::Start }
    }

    /// Words in this style.
    pub fn at(self, at: Spot, content: impl AsRef<str>) -> Self {
        Self { at, content: printable(content.as_ref()), ..self }
    }

    /// The space the text takes.
    pub fn bounds(&self) -> Rect {
        let width = text_width(&self.content, self.size) * if self.bold { BOLD } else { 1.0 };
        let left = match self.anchor {
            Anchor::Start => self.at.0,
            Anchor::Middle => self.at.0 - width / 2.0,
            Anchor::End => self.at.0 - width,
        };
        let baseline = self.at.1;
        Rect { left, right: left + width, top: baseline - 0.8 * self.size, bottom: baseline + 0.22 * self.size }
    }
}

impl Rect {
    /// The rectangle with these two corners.
    pub fn between(a: Spot, b: Spot) -> Self {
        Self { left: a.0.min(b.0), right: a.0.max(b.0), top: a.1.min(b.1), bottom: a.1.max(b.1) }
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

    pub fn contains(&self, other: &Rect) -> bool {
        self.left <= other.left && other.right <= self.right && self.top <= other.top && other.bottom <= self.bottom
    }
}

/// How much wider bold letters are.
pub(crate) const BOLD: f64 = 1.14;

/// How wide a text comes out, in pixels.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|character| size * advance(character)).sum()
}

/// The text, shortened at its end if it is wider than the space.
pub(crate) fn shortened(text: &str, size: f64, space: f64) -> String {
    if text_width(text, size) <= space {
        return text.to_owned();
    }
    let mut width = text_width("...", size);
    let fits = |character: &char| {
        width += size * advance(*character);
        width <= space
    };
    let kept: String = text.chars().take_while(fits).collect();
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

/// Widths of the characters from space to tilde, in thousandths of the font size.
const ADVANCES: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
    748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635,
    615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636,
    337, 636, 838,
];

fn advance(character: char) -> f64 {
    let known = (character as usize).checked_sub(0x20).and_then(|index| ADVANCES.get(index));
    match known {
        Some(thousandths) => f64::from(*thousandths) / 1000.0,
        None if (character as u32) < 0x2000 => 0.7,
        None => 1.0,
    }
}

/// Control characters are not allowed in SVG and line breaks do not break lines: both become spaces.
pub(crate) fn printable(text: &str) -> String {
    let bad = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if bad(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_wrap_and_end_in_an_ellipsis() {
        let lines = wrapped("float32 (forced on CPU) and more words than fit", 14.0, 80.0, 3);
        assert_eq!(lines.len(), 3);
        assert!(lines[2].ends_with("..."), "{lines:?}");
        assert!(lines.iter().all(|line| text_width(line, 14.0) <= 80.0), "{lines:?}");
        assert_eq!(wrapped("", 14.0, 80.0, 3), Vec::<String>::new());
        assert_eq!((shortened("abc", 14.0, 80.0), printable("c\nd\u{1b}")), ("abc".into(), "c d ".into()));
    }

    #[test]
    fn bounds_follow_the_anchor() {
        let text = Text::new(10.0, RGBColor(0, 0, 0)).at((50.0, 20.0), "12345");
        assert_eq!(text.bounds().left, 50.0);
        assert!((Text { anchor: Anchor::End, ..text.clone() }.bounds().right - 50.0).abs() < 1e-9);
        assert!(Text { bold: true, ..text.clone() }.bounds().width() > text.bounds().width());
    }
}
