//! SVG to PNG, with fonts of our own: the picture is the same on every machine, also on one without fonts.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::error::{Error, Result};

/// Pixels for each pixel of the SVG: for pages and slides, and screens of high resolution.
const SCALE: f32 = 2.0;

/// DejaVu Sans, cut to Latin, Greek and the signs that plots use.
static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(include_bytes!("../../../../fonts/DejaVuSans.ttf").to_vec());
    fonts.load_font_data(include_bytes!("../../../../fonts/DejaVuSans-Bold.ttf").to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// The picture as a PNG file's bytes, on white.
///
/// # Errors
/// A text that is not a valid SVG.
pub fn from_svg(svg: &str) -> Result<Vec<u8>> {
    let options = Options { fontdb: FONTS.clone(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| Error::format(format!("not a picture: {error}")))?;
    let size = tree.size().to_int_size();
    let pixels = |side: u32| (side as f32 * SCALE).round() as u32;
    let mut picture = Pixmap::new(pixels(size.width()), pixels(size.height()))
        .ok_or_else(|| Error::format("the picture has no size"))?;
    picture.fill(resvg::tiny_skia::Color::WHITE);
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
    picture.encode_png().map_err(|error| Error::system(format!("cannot write PNG: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(inside: &str) -> Pixmap {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"60\" height=\"20\" viewBox=\"0 0 600 200\">{inside}</svg>"
        );
        Pixmap::decode_png(&from_svg(&svg).unwrap()).unwrap()
    }

    fn dark(picture: &Pixmap) -> usize {
        picture.pixels().iter().filter(|pixel| pixel.red() < 100).count()
    }

    #[test]
    fn shapes_are_drawn_at_twice_the_size() {
        let square = picture("<rect x=\"0\" y=\"0\" width=\"100\" height=\"100\" fill=\"black\"/>");
        assert_eq!((square.width(), square.height(), dark(&square)), (120, 40, 400));
    }

    #[test]
    fn text_has_a_font_on_every_machine() {
        let text = |content: &str, weight: &str| {
            dark(&picture(&format!(
                "<text x=\"10\" y=\"150\" font-family=\"sans-serif\" font-size=\"140\" font-weight=\"{weight}\">{content}</text>"
            )))
        };
        let plain = text("ms \u{b5}s", "normal");
        assert!(plain > 50 && text("ms \u{b5}s", "bold") > plain && text("", "normal") == 0, "{plain}");
    }

    #[test]
    fn what_is_no_picture_is_an_error() {
        assert!(from_svg("<p>").is_err());
    }
}
