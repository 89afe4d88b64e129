//! Whether a picture's texts stay inside it and off each other, measured on the glyphs as they are drawn, and
//! whether the signs of its legend differ.

use std::sync::{Arc, LazyLock};

use resvg::usvg::{Color, Group, Node, Options, Paint, Path, Rect, TextAnchor, Tree, fontdb};

static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(include_bytes!("../../../fonts/DejaVuSans.ttf").to_vec());
    fonts.load_font_data(include_bytes!("../../../fonts/DejaVuSans-Bold.ttf").to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// What is wrong with a picture, if anything.
pub fn flaw(svg: &str) -> Option<String> {
    let options = Options { fontdb: FONTS.clone(), ..Options::default() };
    let tree = match Tree::from_str(svg, &options) {
        Ok(tree) => tree,
        Err(error) => return Some(error.to_string()),
    };
    let (width, height) = (tree.size().width(), tree.size().height());
    let mut found = Found::default();
    found.collect(tree.root());
    for (index, (text, space)) in found.texts.iter().enumerate() {
        if space.left() < 0.0 || space.top() < 0.0 || space.right() > width || space.bottom() > height {
            return Some(format!("`{text}` leaves the picture: {space:?} of {width} x {height}"));
        }
        let apart = |other: &Rect| {
            space.left() >= other.right()
                || other.left() >= space.right()
                || space.top() >= other.bottom()
                || other.top() >= space.bottom()
        };
        if let Some((other, _)) = found.texts[..index].iter().find(|(_, other)| !apart(other)) {
            return Some(format!("`{text}` runs into `{other}`"));
        }
    }
    let above = found.paths.iter().filter(|path| is_grid(path)).map(|path| path.abs_bounding_box().top());
    let above = above.fold(f32::MAX, f32::min);
    let legend = found.starts.iter().filter(|(_, (_, y))| *y < above);
    let signs: Vec<(&str, String)> = legend.filter_map(|(text, at)| Some((text.as_str(), found.sign(*at)?))).collect();
    for (index, (text, sign)) in signs.iter().enumerate() {
        if let Some((other, _)) = signs[..index].iter().find(|(_, other)| other == sign) {
            return Some(format!("`{text}` and `{other}` have the same sign in the legend: {sign}"));
        }
    }
    None
}

/// Whether it is a line of the grid, above which the legend stands.
fn is_grid(path: &Path) -> bool {
    let grid = Color::new_rgb(0xe4, 0xe6, 0xe9);
    path.stroke().is_some_and(|stroke| matches!(stroke.paint(), Paint::Color(color) if *color == grid))
}

/// Whether a text was cut.
pub fn is_cut(svg: &str) -> bool {
    svg.lines().any(|line| !line.starts_with('<') && line.ends_with("..."))
}

/// The middle of a legend's sign, in pixels below the place of its text and to the left of it: of a small one, and of
/// a line.
const SIGN_DOWN: f32 = 5.4;
const SIGN_LEFT: [f32; 2] = [13.0, 21.5];

#[derive(Default)]
struct Found {
    texts: Vec<(String, Rect)>,
    /// Texts that begin at a place, and that place at the height of a sign.
    starts: Vec<(String, (f32, f32))>,
    paths: Vec<Path>,
}

impl Found {
    /// What is drawn where a legend has the sign of a text that begins here, if it is one.
    fn sign(&self, (x, y): (f32, f32)) -> Option<String> {
        let space = Rect::from_ltrb(x - 38.0, y - 9.0, x - 4.0, y + 9.0)?;
        let parts: Vec<(&Path, Rect)> = self.paths.iter().map(|path| (path, path.abs_bounding_box())).collect();
        let within = |part: &Rect| {
            part.left() >= space.left()
                && part.right() <= space.right()
                && part.top() >= space.top()
                && part.bottom() <= space.bottom()
        };
        let parts: Vec<(&Path, Rect)> = parts.into_iter().filter(|(_, part)| within(part)).collect();
        let left = parts.iter().map(|(_, part)| part.left()).reduce(f32::min)?;
        let right = parts.iter().map(|(_, part)| part.right()).reduce(f32::max)?;
        let is_sign = SIGN_LEFT.iter().any(|away| (x - away - f32::midpoint(left, right)).abs() < 2.2);
        let described = parts.iter().map(|(path, part)| {
            let (fill, stroke) = (path.fill().map(|fill| fill.paint()), path.stroke().map(|stroke| stroke.paint()));
            let place = [part.left() - x, part.top() - y, part.right() - x, part.bottom() - y].map(f32::round);
            format!("{place:?} {} {fill:?} {stroke:?}", path.data().len())
        });
        is_sign.then(|| described.collect::<Vec<_>>().join("; "))
    }

    fn collect(&mut self, group: &Group) {
        for node in group.children() {
            match node {
                Node::Group(group) => self.collect(group),
                Node::Path(path) => self.paths.push((**path).clone()),
                Node::Text(text) => {
                    let words = text.chunks().iter().map(|chunk| chunk.text()).collect::<String>();
                    let first = text.chunks().first().filter(|chunk| chunk.anchor() == TextAnchor::Start);
                    if let Some((x, y)) = first.and_then(|chunk| Some((chunk.x()?, chunk.y()?))) {
                        let scale = text.abs_transform();
                        self.starts.push((words.clone(), (x * scale.sx, y * scale.sy + SIGN_DOWN)));
                    }
                    self.texts.push((words, text.flattened().abs_bounding_box()));
                }
                Node::Image(_) => (),
            }
        }
    }
}
