//! Colours, markers and dashes: each series differs in all three, so that a plot reads in grey and
//! for readers who tell few colours apart.

use plotters::style::RGBColor;

use super::canvas::{Canvas, Spot};

/// The palette of Okabe and Ito, without its yellow, which is too pale on white. Neighbours differ
/// in lightness too.
pub(crate) const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2), // blue
    RGBColor(0xe6, 0x9f, 0x00), // orange
    RGBColor(0x00, 0x9e, 0x73), // bluish green
    RGBColor(0xcc, 0x79, 0xa7), // reddish purple
    RGBColor(0xd5, 0x5e, 0x00), // vermillion
    RGBColor(0x56, 0xb4, 0xe9), // sky blue
    RGBColor(0x33, 0x33, 0x33), // near black
];

pub(crate) const WHITE: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(crate) const MUTED: RGBColor = RGBColor(0x5a, 0x5a, 0x5a);
pub(crate) const GRID: RGBColor = RGBColor(0xe3, 0xe3, 0xe3);

pub(crate) const TITLE_SIZE: f64 = 17.0;
pub(crate) const LABEL_SIZE: f64 = 15.0;
pub(crate) const TICK_SIZE: f64 = 14.0;
pub(crate) const NOTE_SIZE: f64 = 12.5;

/// How one series looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesStyle {
    pub color: RGBColor,
    marker: Marker,
    dash: &'static [f64],
}

#[derive(Debug, Clone, Copy)]
enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
}

const MARKERS: [Marker; 5] = [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::TriangleDown];
const DASHES: [&[f64]; 4] = [&[], &[8.0, 4.0], &[2.0, 3.0], &[9.0, 3.0, 2.0, 3.0]];
const REFERENCE_DASHES: [&[f64]; 3] = [&[5.0, 4.0], &[1.5, 3.5], &[10.0, 3.0, 2.0, 3.0]];

impl SeriesStyle {
    pub fn nth(index: usize) -> Self {
        Self {
            color: PALETTE[index % PALETTE.len()],
            marker: MARKERS[index % MARKERS.len()],
            dash: DASHES[index % DASHES.len()],
        }
    }

    pub fn draw_line(&self, canvas: &mut Canvas, spots: &[Spot], width: f64) {
        for stretch in dashed(spots, self.dash) {
            canvas.path(stretch, self.color, width);
        }
    }

    pub fn draw_marker(&self, canvas: &mut Canvas, center: Spot) {
        self.draw_shape(canvas, center, 4.6, self.color);
    }

    /// White around a marker, to keep it apart from lines; drawn before all markers, so that no
    /// marker loses a part to its neighbour's rim.
    pub fn draw_rim(&self, canvas: &mut Canvas, center: Spot) {
        self.draw_shape(canvas, center, 6.2, WHITE);
    }

    fn draw_shape(&self, canvas: &mut Canvas, (x, y): Spot, radius: f64, color: RGBColor) {
        // Sized so that every shape covers about the same area.
        let corners: &[Spot] = match self.marker {
            Marker::Circle => return canvas.circle((x, y), radius, color),
            Marker::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Marker::Triangle => &[(0.0, -1.25), (1.15, 0.8), (-1.15, 0.8)],
            Marker::Diamond => &[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)],
            Marker::TriangleDown => &[(0.0, 1.25), (1.15, -0.8), (-1.15, -0.8)],
        };
        let spots = corners.iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect();
        canvas.polygon(spots, color);
    }
}

/// A line to compare with: the first, second, third of a plot differ in their dashes.
pub(crate) fn draw_reference(canvas: &mut Canvas, from: Spot, to: Spot, index: usize) {
    for dash in dashed(&[from, to], REFERENCE_DASHES[index % REFERENCE_DASHES.len()]) {
        canvas.path(dash, INK, 1.5);
    }
}

/// Black or white, whichever reads better on the colour.
pub(crate) fn ink_on(color: RGBColor) -> RGBColor {
    if lightness(color) > 120.0 { INK } else { WHITE }
}

/// How light a colour looks, from 0 to 255.
fn lightness(color: RGBColor) -> f64 {
    0.3 * f64::from(color.0) + 0.59 * f64::from(color.1) + 0.11 * f64::from(color.2)
}

/// An upright bar from the low to the high end of an interval, with caps wide enough to stand out
/// from behind a marker.
pub(crate) fn draw_error_bar(canvas: &mut Canvas, x: f64, low: f64, high: f64, color: RGBColor) {
    let cap = 6.5;
    canvas.line((x, low), (x, high), color, 1.5);
    canvas.line((x - cap, low), (x + cap, low), color, 1.5);
    canvas.line((x - cap, high), (x + cap, high), color, 1.5);
}

/// Cuts a line into its dashes; the pattern goes on around corners.
fn dashed(spots: &[Spot], pattern: &[f64]) -> Vec<Vec<Spot>> {
    if pattern.is_empty() || spots.len() < 2 {
        return vec![spots.to_vec()];
    }
    let mut dashes = Vec::new();
    let mut dash = vec![spots[0]];
    let (mut index, mut left) = (0, pattern[0]);
    for pair in spots.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let turn = (x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length);
            dash.push(turn);
            if index % 2 == 0 {
                dashes.push(std::mem::take(&mut dash));
            }
            dash = vec![turn];
            index = (index + 1) % pattern.len();
            left = pattern[index];
        }
        left -= length - done;
        dash.push((x1, y1));
    }
    if index % 2 == 0 && dash.len() > 1 {
        dashes.push(dash);
    }
    dashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_dashes_goes_on_around_corners() {
        let dashes = dashed(&[(0.0, 0.0), (10.0, 0.0), (10.0, 10.0)], &[8.0, 4.0]);
        assert_eq!(dashes[0], [(0.0, 0.0), (8.0, 0.0)]);
        assert_eq!(dashes[1], [(10.0, 2.0), (10.0, 10.0)]);
        assert_eq!(dashed(&[(0.0, 0.0), (1.0, 0.0)], &[]).len(), 1);
        assert_eq!(dashed(&[(3.0, 3.0), (3.0, 3.0)], &[8.0, 4.0]).len(), 1);
    }

    #[test]
    fn neighbouring_series_differ_in_grey() {
        for pair in PALETTE.windows(2) {
            assert!((lightness(pair[0]) - lightness(pair[1])).abs() > 20.0, "{pair:?}");
        }
    }
}
