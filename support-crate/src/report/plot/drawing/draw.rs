//! From a laid-out scene to SVG, by plotters' `ChartBuilder`.

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::element::DashedPathElement;
use plotters::prelude::{
    ChartBuilder, Circle, DrawingArea, EmptyElement, IntoDrawingArea, LabelAreaPosition, PathElement, Polygon,
    Rectangle, SVGBackend,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, RGBColor, ShapeStyle, TRANSPARENT, TextStyle};

use super::axis::Axis;
use super::chart::Chart;
use super::scene::{CAP, Mark, Page, Scene, hides};
use super::style::{GRID, INK, LABEL_SIZE, Look, Stroke, WHITE, WIDTH};
use super::text::{Anchor, Text, printable};
use crate::error::{Error, Result};
use crate::report::display::escape_html;

/// plotters counts whole pixels; drawing ten times as large and scaling back gives tenths.
const SCALE: f64 = 10.0;

type Paper<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl Scene {
    /// The picture as an SVG document.
    pub fn to_svg(&self, chart: &Chart) -> Result<String> {
        let page = self.arranged(chart);
        let mut drawn = String::new();
        self.draw(&page, &mut drawn).map_err(|error| Error::system(format!("drawing `{}`: {error}", chart.title)))?;
        let (_, body) = drawn.split_once('\n').unwrap_or_default();
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" viewBox=\"0 0 {} {}\" \
             role=\"img\">\n<title>{}</title>\n{body}",
            page.height,
            tenths(WIDTH),
            tenths(page.height),
            escape_html(&printable(&chart.title)),
        ))
    }

    fn draw(&self, page: &Page, svg: &mut String) -> Drawn {
        let (width, height, area) = (tenths(WIDTH), tenths(page.height), page.area);
        let root = SVGBackend::with_string(svg, (width as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        let sheet = Cartesian2d::new(Axis::bare(0.0, WIDTH), Axis::bare(page.height, 0.0), (0..width, height..0));
        let sheet: Paper = root.clone().apply_coord_spec(sheet);

        let mut chart = ChartBuilder::on(&root)
            .margin_top(tenths(area.top))
            .margin_right(tenths(WIDTH - area.right))
            .set_label_area_size(LabelAreaPosition::Left, tenths(area.left))
            .set_label_area_size(LabelAreaPosition::Bottom, tenths(page.height - area.bottom))
            .build_cartesian_2d(page.x.clone(), page.y.clone())?;
        let mut mesh = chart.configure_mesh();
        if !self.grid.0 {
            mesh.disable_x_mesh();
        }
        if !self.grid.1 {
            mesh.disable_y_mesh();
        }
        // Axis lines of plotters would box the data in; its marks, unseen, keep the labels off the data.
        mesh.bold_line_style(Stroke::new(GRID, 1.0).style())
            .axis_style(TRANSPARENT)
            .label_style(text_style(LABEL_SIZE, false, INK));
        // plotters centres on half the height of an x, which is a little high for figures.
        mesh.set_all_tick_mark_size(tenths(4.0)).y_label_offset(tenths(1.2)).draw()?;

        let data: &Paper = chart.plotting_area();
        page.rules.iter().try_for_each(|mark| mark.draw(&sheet))?;
        self.marks.iter().try_for_each(|mark| mark.draw(data))?;
        for veil in &page.veils {
            let (from, to) = ((veil.left, veil.top), (veil.right, veil.bottom));
            Mark::Block(from, to, WHITE.mix(0.85)).draw(&sheet)?;
        }
        page.texts.iter().try_for_each(|text| text.draw(&root))?;
        root.present()?;
        Ok(())
    }
}

impl Mark {
    fn draw(&self, paper: &Paper) -> Drawn {
        match self {
            Mark::Line(points, stroke) if stroke.dash.1 == 0 => {
                paper.draw(&PathElement::new(points.clone(), stroke.style()))?;
            }
            Mark::Line(points, stroke) => {
                let (on, off) = (10 * stroke.dash.0, 10 * stroke.dash.1);
                paper.draw(&DashedPathElement::new(points.iter().copied(), on, off, stroke.style()))?;
            }
            Mark::Point(at, look, radius) => {
                draw_marker(paper, *at, look, radius + 1.2, WHITE)?;
                draw_marker(paper, *at, look, *radius, look.color)?;
                if look.is_hollow() {
                    draw_marker(paper, *at, look, radius - 2.0, WHITE)?;
                }
            }
            Mark::Interval(from, to, color, radius) => {
                let cap = if from.0 == to.0 { (tenths(CAP), 0) } else { (0, tenths(CAP)) };
                let (a, b) = (paper.map_coordinate(from), paper.map_coordinate(to));
                let length = f64::from((a.0 - b.0).abs() + (a.1 - b.1).abs()) / SCALE;
                // White below keeps it apart from a bar.
                let styles = [Stroke::new(WHITE, 3.4), Stroke::new(*color, 1.4)].map(|stroke| stroke.style());
                let seen = !radius.is_some_and(|radius| hides(radius, length));
                for style in styles.into_iter().skip(usize::from(radius.is_some())).filter(|_| seen) {
                    paper.draw(&PathElement::new(vec![*from, *to], style))?;
                    // An interval that runs off the axis has no end there.
                    let (x, y) = (paper.as_coord_spec().x_spec(), paper.as_coord_spec().y_spec());
                    for end in [*from, *to].into_iter().filter(|end| x.has(end.0) && y.has(end.1)) {
                        let cap = PathElement::new(vec![(-cap.0, -cap.1), cap], style);
                        paper.draw(&(EmptyElement::at(end) + cap))?;
                    }
                }
            }
            Mark::Block(from, to, color) => paper.draw(&Rectangle::new([*from, *to], color.filled()))?,
            Mark::Area(points, color) => paper.draw(&Polygon::new(points.clone(), color.filled()))?,
        }
        Ok(())
    }
}

fn draw_marker(paper: &Paper, at: (f64, f64), look: &Look, radius: f64, color: RGBColor) -> Drawn {
    match look.corners(radius) {
        None => paper.draw(&(EmptyElement::at(at) + Circle::new((0, 0), tenths(radius), color.filled())))?,
        Some(corners) => {
            let corners: Vec<_> = corners.into_iter().map(|(x, y)| (tenths(x), tenths(y))).collect();
            paper.draw(&(EmptyElement::at(at) + Polygon::new(corners, color.filled())))?;
        }
    }
    Ok(())
}

impl Text {
    fn draw(&self, root: &DrawingArea<SVGBackend, Shift>) -> Drawn {
        let side = match self.anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style = text_style(self.size, self.bold, self.color).pos(Pos::new(side, VPos::Top));
        // plotters lowers text that hangs from its top by 0.76 em.
        let top = self.at.1 - 0.76 * self.size;
        if !self.content.is_empty() {
            root.draw_text(&self.content, &style, (tenths(self.at.0), tenths(top)))?;
        }
        Ok(())
    }
}

fn text_style(size: f64, bold: bool, color: RGBColor) -> TextStyle<'static> {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    // plotters writes size / 1.24.
    let font = FontDesc::new(FontFamily::SansSerif, size * SCALE * 1.24, style);
    TextStyle { color: color.to_backend_color(), ..TextStyle::from(font) }
}

impl Stroke {
    fn style(&self) -> ShapeStyle {
        ShapeStyle::from(self.color).stroke_width(tenths(self.width).max(1) as u32)
    }
}

fn tenths(pixels: f64) -> i32 {
    (pixels * SCALE).round() as i32
}
