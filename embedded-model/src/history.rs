//! The loss curve: kept as a table, drawn as a picture.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;

/// One point of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Steps of the optimizer.
    pub step: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// Seconds trained.
    pub seconds: f64,
    /// Mean loss of the steps since the point before, in nats per token.
    pub train: f64,
    /// Loss on held-out documentation, where it was measured.
    pub held_out: Option<f64>,
}

/// The points of a run in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The points.
    pub points: Vec<Point>,
}

const HEADER: &str = "step,tokens,seconds,train_loss,held_out_loss";

impl History {
    /// Reads a table that `write` wrote.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = || format!("{} is not a table of losses", path.display());
        let text = fs::read_to_string(path).with_context(wrong)?;
        let points = text.lines().skip(1).map(point).collect::<Result<_>>();
        Ok(Self { points: points.with_context(wrong)? })
    }

    /// Writes the curve as a table of comma-separated values.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = format!("{HEADER}\n");
        for point in &self.points {
            let held_out = point.held_out.map(|loss| format!("{loss:.4}"));
            text.push_str(&format!(
                "{},{},{:.0},{:.4},{}\n",
                point.step,
                point.tokens,
                point.seconds,
                point.train,
                held_out.unwrap_or_default()
            ));
        }
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Drops the points after a step: training went on from there.
    pub fn forget_after(&mut self, step: u64) {
        self.points.retain(|point| point.step <= step);
    }

    /// Draws the curve.
    pub fn draw(&self, path: &Path) -> Result<()> {
        self.try_draw(path)
            .map_err(|error| anyhow!("{error}"))
            .with_context(|| format!("cannot draw {}", path.display()))
    }

    fn try_draw(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let millions = |point: &Point| point.tokens as f64 / 1e6;
        let train: Vec<_> = self.points.iter().map(|p| (millions(p), p.train)).collect();
        let with_held_out = self.points.iter().filter_map(|p| Some((millions(p), p.held_out?)));
        let held_out: Vec<_> = with_held_out.collect();
        let end = self.points.last().map_or(1.0, millions);
        let losses = || train.iter().chain(&held_out).map(|point| point.1);
        let top = losses().fold(1.0, f64::max).min(7.0);
        let bottom = losses().fold(top, f64::min);

        let area = SVGBackend::new(path, (800, 450)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .caption("Training the embedded model", ("sans-serif", 20))
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end, (bottom - 0.1).max(0.0)..top)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("million tokens")
            .y_desc("loss (nats per token)")
            .axis_desc_style(("sans-serif", 15))
            .label_style(("sans-serif", 13))
            .draw()?;
        for (name, points, color) in [
            ("training (documentation and generated English)", train.clone(), BLUE),
            ("held-out documentation", held_out.clone(), RED),
        ] {
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE)
            .border_style(BLACK)
            .label_font(("sans-serif", 14))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

fn point(line: &str) -> Result<Point> {
    let fields: Vec<&str> = line.split(',').collect();
    let [step, tokens, seconds, train, held_out] = fields[..] else {
        return Err(anyhow!("a line has {} fields", fields.len()));
    };
    Ok(Point {
        step: step.parse()?,
        tokens: tokens.parse()?,
        seconds: seconds.parse()?,
        train: train.parse()?,
        held_out: match held_out {
            "" => None,
            loss => Some(loss.parse()?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> History {
        let point = |step: u64| Point {
            step,
            tokens: step * 8192,
            seconds: step as f64,
            train: 8.0 - step as f64 / 100.0,
            held_out: step.is_multiple_of(50).then_some(3.5),
        };
        History { points: (1..20).map(|n| point(n * 10)).collect() }
    }

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("embedded-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let path = file("loss.csv");
        curve().write(&path).expect("written");
        let mut again = History::read(&path).expect("read");
        assert_eq!(again, curve());
        again.forget_after(100);
        assert_eq!(again.points.last().map(|p| p.step), Some(100));
        fs::write(&path, "step\n1,2\n").expect("written");
        assert!(History::read(&path).is_err());
        fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn the_picture_has_both_curves_and_labels() {
        let path = file("loss.svg");
        curve().draw(&path).expect("drawn");
        let picture = fs::read_to_string(&path).expect("a picture");
        fs::remove_file(&path).expect("removed");
        for text in ["million tokens", "nats per token", "held-out"] {
            assert!(picture.contains(text), "{text}");
        }
    }
}
