//! Whether a picture's texts stay inside it and off each other, measured on the glyphs as they are drawn.

use std::sync::{Arc, LazyLock};

use resvg::usvg::{Group, Node, Options, Rect, Tree, fontdb};

static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(include_bytes!("../../fonts/DejaVuSans.ttf").to_vec());
    fonts.load_font_data(include_bytes!("../../fonts/DejaVuSans-Bold.ttf").to_vec());
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
    let mut texts = Vec::new();
    collect(tree.root(), &mut texts);
    for (index, (text, space)) in texts.iter().enumerate() {
        if space.left() < 0.0 || space.top() < 0.0 || space.right() > width || space.bottom() > height {
            return Some(format!("`{text}` leaves the picture: {space:?} of {width} x {height}"));
        }
        let apart = |other: &Rect| {
            space.left() >= other.right()
                || other.left() >= space.right()
                || space.top() >= other.bottom()
                || other.top() >= space.bottom()
        };
        if let Some((other, _)) = texts[..index].iter().find(|(_, other)| !apart(other)) {
            return Some(format!("`{text}` runs into `{other}`"));
        }
    }
    None
}

fn collect(group: &Group, texts: &mut Vec<(String, Rect)>) {
    for node in group.children() {
        match node {
            Node::Group(group) => collect(group, texts),
            Node::Text(text) => {
                let words = text.chunks().iter().map(|chunk| chunk.text()).collect::<String>();
                texts.push((words, text.flattened().abs_bounding_box()));
            }
            _ => (),
        }
    }
}
