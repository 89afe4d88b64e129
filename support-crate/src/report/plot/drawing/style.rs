//! Sizes, colours, markers and dashes. A format has its own in every picture; lines and markers of a series differ from the
//! others' in more than their hue, so that a plot reads in grey and for readers who can tell few colours apart. Bars have only
//! their colour, and their names beside them.

use plotters::style::{Color, RGBAColor, RGBColor};

use super::text::Spot;

pub(crate) const WHITE: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(crate) const MUTED: RGBColor = RGBColor(0x5f, 0x63, 0x6a);
pub(crate) const GRID: RGBColor = RGBColor(0xe4, 0xe6, 0xe9);

pub(crate) const WIDTH: f64 = 640.0;
pub(crate) const MARGIN: f64 = 18.0;
/// The usual height of the data, and about its width.
pub(crate) const HEIGHT: f64 = 290.0;
pub(crate) const ACROSS: f64 = 530.0;
/// Longer names beside the vertical axis are cut.
pub(crate) const LONGEST_NAME: f64 = 280.0;

pub(crate) const TITLE_SIZE: f64 = 17.0;
pub(crate) const LABEL_SIZE: f64 = 14.0;
pub(crate) const NOTE_SIZE: f64 = 12.5;

/// Pixels drawn and pixels left out; none left out is a solid line.
pub(crate) type Dash = (u32, u32);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stroke {
    pub color: RGBColor,
    pub width: f64,
    pub dash: Dash,
}

impl Stroke {
    pub fn new(color: RGBColor, width: f64) -> Self {
        Self { color, width, dash: (0, 0) }
    }
}

/// Solid, long dashes, dots, short dashes.
const DASHES: [Dash; 4] = [(0, 0), (8, 4), (2, 3), (4, 3)];

/// How one series looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Look {
    pub color: RGBColor,
    pub marker: Marker,
    pub dash: Dash,
    /// How many series of this colour came before: every second has white inside its markers, and each
    /// is paler as a bar.
    pub again: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
}

use Marker::{Circle, Diamond, Square, Triangle, TriangleDown};

/// The markers of series.
const MARKERS: [Marker; 5] = [Circle, Square, Triangle, Diamond, TriangleDown];

const fn look(color: u32, marker: Marker, dash: usize) -> Look {
    let color = RGBColor((color >> 16) as u8, (color >> 8) as u8, color as u8);
    Look { color, marker, dash: DASHES[dash], again: 0 }
}

/// The looks of formats and the names they go by, in lowercase letters and digits; a name that mentions two formats
/// means the first in this order. Full and half precision in greys, eight bits in blues, four bits in warm colours and
/// green. Their distances in CIELAB, also as seen by people without one kind of cone, are tested below.
const FORMATS: [(&[&str], Look); 9] = [
    (&["static int8", "int8 static"], look(0x3a9cf0, Diamond, 1)),
    (&["e2m1"], look(0xc936b8, Square, 2)),
    (&["nf4"], look(0xbf4a06, Diamond, 0)),
    (&["fp4"], look(0xf2b632, TriangleDown, 1)),
    (&["int4"], look(0x0a7d62, Circle, 3)),
    (&["int8", "8 bit"], look(0x12518f, Triangle, 0)),
    (&["bfloat16", "bf16"], look(0x7b8aa5, Square, 1)),
    (&["float16", "fp16", "f16"], look(0xb3bcc8, TriangleDown, 2)),
    (&["float32", "fp32", "f32", "baseline", "full precision"], look(0x2b2b2b, Circle, 0)),
];

/// The looks of everything else, in the order of the series: none is the colour of a format.
pub(crate) const PALETTE: [Look; 5] = [
    look(0x5b3f9b, Circle, 0),
    look(0x4db3a2, Square, 1),
    look(0x8a5a2b, Triangle, 2),
    look(0xe29ac0, Diamond, 3),
    look(0x7d8b1f, TriangleDown, 0),
];

/// What else has one of these looks in every picture, by words that its name holds.
const OTHERS: [(&[&str], usize); 7] = [
    (&["with kv cache", "with cache"], 0),
    (&["without", "without kv cache"], 1),
    (&["kernels"], 0),
    (&["candle"], 1),
    (&["tch", "libtorch"], 2),
    (&["prefill"], 0),
    (&["decode"], 1),
];

/// The look of each series, from its name.
pub(crate) fn looks<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Look> {
    let (mut formats, mut others) = ([0; FORMATS.len()], [0; PALETTE.len()]);
    let names: Vec<&str> = names.into_iter().collect();
    // Those without a look of their own take what no other has.
    let mut kept = [0; PALETTE.len()];
    names.iter().filter_map(|name| other_of(name)).for_each(|other| kept[other] += 1);
    let mut look = |name: &str| {
        let (base, seen) = match (format_of(name), other_of(name)) {
            (Some(format), _) => (FORMATS[format].1, &mut formats[format]),
            (None, Some(other)) => (PALETTE[other], &mut others[other]),
            (None, None) => {
                let used = |other: usize| others[other].max(kept[other]);
                let other = (0..PALETTE.len()).min_by_key(|other| used(*other)).unwrap_or(0);
                (PALETTE[other], &mut others[other])
            }
        };
        *seen += 1;
        let again = *seen - 1;
        let (marker, dash) = (later(&MARKERS, base.marker, again / 2), later(&DASHES, base.dash, again));
        Look { marker, dash, again, ..base }
    };
    names.into_iter().map(&mut look).collect()
}

/// The look in [`PALETTE`] that is kept for a name that is no format's.
fn other_of(name: &str) -> Option<usize> {
    let words = words_of(name);
    let found = OTHERS.iter().find(|(names, _)| names.iter().any(|name| words.contains(&format!(" {name} "))));
    found.filter(|_| format_of(name).is_none()).map(|(_, other)| *other)
}

/// A name in lowercase, with spaces around and for all that is no letter or digit.
fn words_of(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    format!(" {} ", name.chars().map(plain).collect::<String>())
}

/// The element that is `places` after `one`, wrapping around.
fn later<T: Copy + PartialEq>(all: &[T], one: T, places: usize) -> T {
    let start = all.iter().position(|other| *other == one).unwrap_or(0);
    all[(start + places) % all.len()]
}

/// The format that a name mentions. `float16: bfloat16` is what was asked for and what was used: the latter counts.
pub(crate) fn format_of(name: &str) -> Option<usize> {
    let find = |name: &str| {
        let words = words_of(name);
        let named = |names: &[&str]| names.iter().any(|name| words.contains(&format!(" {name} ")));
        FORMATS.iter().position(|(names, _)| named(names))
    };
    name.rsplit_once(": ").and_then(|(_, used)| find(used)).or_else(|| find(name))
}

impl Look {
    /// Whether the marker is white inside.
    pub fn is_hollow(&self) -> bool {
        self.again % 2 == 1
    }

    /// The colour of a bar.
    pub fn fill(&self) -> RGBAColor {
        mixed(self.color, WHITE, 1.0 - 0.55_f64.powi(self.again as i32)).to_rgba()
    }

    /// The line through the points.
    pub fn stroke(&self, width: f64) -> Stroke {
        Stroke { color: self.color, width, dash: self.dash }
    }

    /// The colour of a word on white: dark enough to read.
    pub fn ink(&self) -> RGBColor {
        let darker = (0..20).map(|step| mixed(self.color, INK, f64::from(step) / 20.0));
        darker.into_iter().find(|color| contrast(*color, WHITE) >= 4.5).unwrap_or(INK)
    }

    /// The corners of the marker around its centre, `None` for a circle; all shapes cover about the
    /// same area.
    pub fn corners(&self, radius: f64) -> Option<Vec<Spot>> {
        let corners: &[Spot] = match self.marker {
            Circle => return None,
            Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Triangle => &[(0.0, -1.25), (1.15, 0.8), (-1.15, 0.8)],
            Diamond => &[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)],
            TriangleDown => &[(0.0, 1.25), (1.15, -0.8), (-1.15, -0.8)],
        };
        Some(corners.iter().map(|(x, y)| (x * radius, y * radius)).collect())
    }
}

/// Black or white, whichever reads better on the colour.
pub(crate) fn ink_on(color: RGBAColor) -> RGBColor {
    let color = RGBColor(color.0, color.1, color.2);
    if contrast(color, INK) > contrast(color, WHITE) { INK } else { WHITE }
}

/// The first colour with this share of the second mixed in.
pub(crate) fn mixed(color: RGBColor, other: RGBColor, share: f64) -> RGBColor {
    let mix = |a: u8, b: u8| (f64::from(a) + share * (f64::from(b) - f64::from(a))).round() as u8;
    RGBColor(mix(color.0, other.0), mix(color.1, other.1), mix(color.2, other.2))
}

/// The colour's parts as amounts of light, from 0 to 1.
fn linear(color: RGBColor) -> [f64; 3] {
    [color.0, color.1, color.2].map(|part| match f64::from(part) / 255.0 {
        part if part <= 0.04045 => part / 12.92,
        part => ((part + 0.055) / 1.055).powf(2.4),
    })
}

/// How well one colour stands out from another, from 1 to 21; 4.5 is enough for text (WCAG 2).
fn contrast(a: RGBColor, b: RGBColor) -> f64 {
    let luminance = |color| linear(color).iter().zip([0.2126, 0.7152, 0.0722]).map(|(part, share)| part * share).sum();
    let (a, b): (f64, f64) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours as seen by people who lack one kind of cone (Machado, Oliveira and Fernandes 2009), and in full.
    const SIGHTS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    /// CIELAB of amounts of light.
    fn lab(light: [f64; 3]) -> [f64; 3] {
        let sum = |shares: [f64; 3]| light.iter().zip(shares).map(|(part, share)| part * share).sum::<f64>().max(0.0);
        let root = |value: f64| if value > 0.008856 { value.cbrt() } else { 7.787 * value + 16.0 / 116.0 };
        let [x, y, z] =
            [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8730]].map(sum).map(root);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn seen(color: RGBColor, sight: [[f64; 3]; 3]) -> [f64; 3] {
        let light = linear(color);
        lab(sight.map(|row| row.iter().zip(light).map(|(share, part)| share * part).sum::<f64>().clamp(0.0, 1.0)))
    }

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn formats_differ_for_everybody_and_from_everything_else() {
        let apart = |a: Look, b: Look, sight| distance(seen(a.color, sight), seen(b.color, sight));
        let (formats, others) = (FORMATS.map(|(_, look)| look), PALETTE);
        for sight in SIGHTS {
            for index in 0..formats.len() {
                let nearest = formats[..index].iter().map(|other| apart(formats[index], *other, sight));
                assert!(nearest.fold(f64::MAX, f64::min) > 14.0, "{:?}", FORMATS[index].0);
            }
            for index in 0..others.len() {
                let nearest = others[..index].iter().map(|other| apart(others[index], *other, sight));
                assert!(nearest.fold(f64::MAX, f64::min) > 8.0, "{:?}", others[index]);
            }
        }
        let with_formats = others.iter().flat_map(|other| formats.map(|format| apart(*other, format, SIGHTS[0])));
        assert!(with_formats.fold(f64::MAX, f64::min) > 20.0);
    }

    #[test]
    fn formats_that_stand_together_differ_in_grey_print() {
        let together = ["float32", "bfloat16", "int8", "NF4", "FP4"].map(|name| looks([name])[0].color);
        let grey = |color| seen(color, SIGHTS[0])[0];
        for (index, color) in together.iter().enumerate() {
            assert!(together[..index].iter().all(|other| (grey(*other) - grey(*color)).abs() > 9.0), "{color:?}");
        }
        assert!(PALETTE.windows(2).all(|pair| (grey(pair[0].color) - grey(pair[1].color)).abs() > 15.0));
    }

    #[test]
    fn names_give_the_format() {
        let word = |name| format_of(name).map(|format| FORMATS[format].0[0]);
        for (name, format) in [
            ("float32 (forced on CPU)", "float32"),
            ("float16: bfloat16", "bfloat16"),
            ("float16: float32 (forced on CPU)", "float32"),
            ("bfloat16: 12.3 tokens/s", "bfloat16"),
            ("INT8", "int8"),
            ("static int8", "static int8"),
            ("FP4 (E2M1)", "e2m1"),
            ("bnb-FP4", "fp4"),
            ("NF4, int8 head", "nf4"),
            ("baseline", "float32"),
            ("baseline bf16", "bfloat16"),
        ] {
            assert_eq!(word(name), Some(format), "{name}");
        }
        for name in ["with KV cache", "uint8", "16 prompts", "", "nf4x", "16", "prefill"] {
            assert_eq!(word(name), None, "{name}");
        }
    }

    #[test]
    fn the_same_format_twice_keeps_its_colour() {
        let [first, second] = looks(["NF4", "NF4, your functions"])[..] else { unreachable!() };
        assert!(first.color == second.color && second.is_hollow() && first.dash != second.dash);
        assert_ne!(first.fill(), second.fill());
        assert!(
            looks(["FP4"])[0].ink() != looks(["FP4"])[0].color && looks(["int8"])[0].ink() == looks(["int8"])[0].color
        );
    }

    #[test]
    fn no_two_series_of_a_picture_look_alike() {
        for names in [["NF4"; 10], ["a series"; 10]] {
            let looks = looks(names);
            for (index, look) in looks.iter().enumerate() {
                let alike = |other: &&Look| {
                    let shape = |look: &Look| (look.color, look.marker, look.is_hollow());
                    shape(other) == shape(look) || other.fill() == look.fill()
                };
                assert_eq!(looks[..index].iter().find(alike), None, "{look:?}");
            }
        }
    }
}
