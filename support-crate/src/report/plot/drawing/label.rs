//! Labels at the data: each looks for a free place, off the marks and off each other.

use plotters::style::RGBColor;

use super::scene::{Key, Mark, Page, Xy};
use super::style::{INK, LABEL_SIZE, MARGIN, MUTED, Stroke, WIDTH};
use super::text::{Anchor, Rect, Spot, Text, text_width};

/// Words that belong to a place in the data.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub text: String,
    pub at: Xy,
    pub place: Place,
    pub size: f64,
    pub color: RGBColor,
    pub bold: bool,
    /// What the legend shows in front of the words, if there is no room for them at the data. Without
    /// it they are left out then.
    pub key: Option<Key>,
}

/// Where a label may stand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Exactly there.
    There,
    /// At this offset in pixels, or farther in the same direction, beyond lines and words that are in the way.
    Beside { offset: Spot, anchor: Anchor },
    /// To the right of the data, in a column that is flush right.
    Column,
    /// In the middle of the block from here to there, if that is large enough.
    Inside { to: Xy },
    /// Above or below a line that runs across from here to there, or a band; at most `rows` rows away.
    Along { to: Xy, rows: u8 },
    /// To the right of the data, at the end of a line.
    End,
    /// As near as there is room, with a line to the point if that is not beside it.
    Near,
}

/// The widest names that stand at the data, and those of lines at their ends.
const LONGEST: f64 = 230.0;
pub(crate) const LONGEST_END: f64 = 190.0;

/// To the right and down; first the places that read best.
const DIRECTIONS: [Spot; 12] = [
    (1.0, 0.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (-1.0, 0.0),
    (1.0, -1.0),
    (1.0, 1.0),
    (-1.0, -1.0),
    (-1.0, 1.0),
    (0.5, -1.0),
    (0.5, 1.0),
    (-0.5, -1.0),
    (-0.5, 1.0),
];

impl Label {
    pub fn new(text: impl Into<String>, at: Xy, place: Place) -> Self {
        Self { text: text.into(), at, place, size: LABEL_SIZE, color: INK, bold: false, key: None }
    }

    pub fn is_end(&self) -> bool {
        matches!(self.place, Place::End)
    }

    /// How wide it comes out.
    pub fn width(&self) -> f64 {
        text_width(&self.text, self.size)
    }

    pub fn entry(&self) -> Option<(String, Key)> {
        self.key.map(|key| (self.text.clone(), key))
    }

    /// The places to try, best first.
    fn candidates(&self, page: &Page) -> Vec<Text> {
        let (x, y) = page.spot(self.at);
        let style = Text { bold: self.bold, ..Text::new(self.size, self.color) };
        let write = |anchor: Anchor, at: Spot| Text { anchor, ..style.clone() }.at(at, &self.text);
        let middle = |y: f64| y + 0.36 * self.size;
        match self.place {
            Place::There => vec![write(Anchor::Start, (x, y))],
            Place::Column => vec![write(Anchor::End, (WIDTH - MARGIN, middle(y)))],
            Place::Beside { offset: (dx, dy), anchor } => {
                let (right, down) = if anchor == Anchor::Middle { (0.0, dy.signum()) } else { (dx.signum(), 0.0) };
                let half = if anchor == Anchor::Middle { self.width() / 2.0 + 5.0 } else { 0.0 };
                let x = x.clamp(half, WIDTH - half);
                let steps = (0..12).map(|step| 6.0 * f64::from(step));
                steps.map(|away| write(anchor, (x + dx + right * away, y + dy + down * away))).collect()
            }
            Place::Inside { to } => {
                let (right, bottom) = page.spot(to);
                vec![write(Anchor::Middle, ((x + right) / 2.0, middle((y + bottom) / 2.0)))]
            }
            Place::Along { to, rows } => {
                let (right, below) = page.spot(to);
                let room = right - x - self.width() - 12.0;
                let shares = [1.0, 0.0, 0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875];
                let off = (0..rows).map(|row| f64::from(row) * 1.2 * self.size);
                let rows = off.flat_map(|off| [y - 9.0 - off, below + 0.8 * self.size + 7.0 + off]);
                rows.flat_map(|y| shares.map(|share| write(Anchor::Start, (x + 6.0 + room * share, y)))).collect()
            }
            Place::End => {
                let steps = (0..=8).flat_map(|step| [4.0, -4.0].map(|pixels| f64::from(step) * pixels));
                // Those that stand apart leave room for a line to them.
                let right = |step: f64| if step.abs() > 6.0 { 24.0 } else { 10.0 };
                steps.map(|step| write(Anchor::Start, (x + right(step), middle(y + step)))).collect()
            }
            Place::Near => {
                let (half, tall) = (self.width() / 2.0, self.size / 2.0);
                let around = |away: f64| {
                    DIRECTIONS.map(|(right, down)| {
                        let beside = if down == 0.0 { 9.0 } else { 3.0 };
                        let center = (x + right * (half + beside + away), y + down * (tall + 10.0 + away));
                        write(Anchor::Middle, (center.0, middle(center.1)))
                    })
                };
                [0.0, 4.0, 10.0, 20.0, 32.0, 46.0, 64.0, 86.0, 112.0, 140.0].into_iter().flat_map(around).collect()
            }
        }
    }

    /// Whether the text may stand there, with what else is drawn.
    fn fits(&self, text: &Text, page: &Page, taken: &[Rect]) -> bool {
        let (area, space) = (page.area, text.bounds());
        let free = |room: f64| !taken.iter().any(|rect| rect.overlaps(&space.grown(room)));
        let sheet = Rect { left: 4.0, top: area.top - 22.0, right: WIDTH - 4.0, bottom: area.bottom + 4.0 };
        match self.place {
            Place::There | Place::Column => true,
            Place::Beside { .. } => sheet.contains(&space) && free(1.0),
            Place::Inside { to } => {
                let block = Rect::between(page.spot(self.at), page.spot(to));
                block.width() >= space.width() + 6.0 && block.height() >= self.size + 5.0
            }
            Place::Along { .. } => {
                self.width() <= LONGEST && Rect { top: area.top - 6.0, ..area }.contains(&space) && free(2.0)
            }
            Place::End => self.width() <= LONGEST_END && sheet.contains(&space) && free(1.0),
            Place::Near => {
                let bounds = Rect { left: area.left + 3.0, top: area.top - 8.0, right: sheet.right, ..area };
                self.width() <= LONGEST && bounds.contains(&space) && free(2.0)
            }
        }
    }

    /// From beside the point to the label, if that stands apart.
    fn leader(&self, page: &Page, text: &Text) -> Option<(Spot, Spot)> {
        let (point, space) = (page.spot(self.at), text.bounds().grown(1.0));
        let end = match self.place {
            Place::Near => (point.0.clamp(space.left, space.right), point.1.clamp(space.top, space.bottom)),
            Place::End => (space.left, (space.top + space.bottom) / 2.0),
            _ => return None,
        };
        let (dx, dy) = (end.0 - point.0, end.1 - point.1);
        let away = dx.hypot(dy);
        (away > 16.0).then_some(((point.0 + dx / away * 12.0, point.1 + dy / away * 12.0), end))
    }
}

impl Page {
    /// Writes the labels; returns those with a legend key that found no place, by their index.
    pub fn place(&mut self, labels: &[(usize, &Label)], marks: &[Mark]) -> Vec<usize> {
        let covered = |wanted: fn(&Mark) -> bool| -> Vec<Rect> {
            marks.iter().filter(|mark| wanted(mark)).flat_map(|mark| mark.covered(self)).collect()
        };
        let mut all = covered(|_| true);
        // What no line to a label may cross: markers and words. What values beside bars step over: lines
        // and words.
        let mut solid = covered(|mark| matches!(mark, Mark::Point(..)));
        let mut lines = covered(|mark| matches!(mark, Mark::Line(..)));
        // The names of the axes, the legend and the numbers along the axes stand already.
        let words: Vec<Rect> = self.texts.iter().map(Text::bounds).collect();
        [&mut all, &mut solid, &mut lines].into_iter().for_each(|places| places.extend(&words));
        let blocks = covered(|mark| matches!(mark, Mark::Block(..)));
        let mut homeless = Vec::new();
        let mut ordered = labels.to_vec();
        // Those with the fewest free places choose first.
        let places = |label: &Label| label.candidates(self).iter().filter(|text| label.fits(text, self, &all)).count();
        ordered.sort_by_cached_key(|(_, label)| match label.place {
            Place::There | Place::Column | Place::Beside { .. } | Place::Inside { .. } => (0, 0),
            Place::Along { .. } | Place::End => (1, 0),
            Place::Near => (2, places(label)),
        });
        for (index, label) in ordered {
            let taken = if matches!(label.place, Place::Beside { .. }) { &lines } else { &all };
            let free = |text: &Text| {
                let crosses = |(from, to)| {
                    places_along(from, to, 1.0).any(|place| solid.iter().any(|rect| rect.overlaps(&place)))
                };
                label.fits(text, self, taken) && !label.leader(self, text).is_some_and(crosses)
            };
            let Some(text) = label.candidates(self).into_iter().find(free) else {
                homeless.extend(label.key.is_some().then_some(index));
                continue;
            };
            if let Some((from, to)) = label.leader(self, &text) {
                self.rules.push(Mark::Line(vec![from, to], Stroke::new(MUTED, 0.8)));
                all.extend(places_along(from, to, 1.5));
            }
            [&mut all, &mut solid, &mut lines].into_iter().for_each(|places| places.push(text.bounds()));
            if !label.is_end() && !blocks.iter().any(|block| block.contains(&text.bounds())) {
                self.veils.push(text.bounds());
            }
            self.texts.push(text);
        }
        homeless
    }
}

/// Small squares along a line.
pub(crate) fn places_along(from: Spot, to: Spot, radius: f64) -> impl Iterator<Item = Rect> {
    let pieces = ((to.0 - from.0).hypot(to.1 - from.1) / 6.0).ceil().max(1.0) as usize;
    (0..=pieces).map(move |piece| {
        let share = piece as f64 / pieces as f64;
        let at = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
        Rect::between(at, at).grown(radius)
    })
}
