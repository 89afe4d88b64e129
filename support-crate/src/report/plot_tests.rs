use proptest::prelude::*;

use super::super::canvas::{Canvas, Shape};
use super::super::{BarPlot, LinePlot, StackedBar, Timeline};
use super::*;

/// Texts must lie inside the picture and must not run into each other.
fn tidy(canvas: &Canvas) -> Result<(), String> {
    let is_text = |shape: &Shape| if let Shape::Text(text) = shape { Some(text.clone()) } else { None };
    let texts: Vec<_> = canvas.shapes.iter().filter_map(is_text).collect();
    for (index, text) in texts.iter().enumerate() {
        let space = text.bounds().grown(-1.5);
        if space.left < 0.0 || space.top < 0.0 || space.right > canvas.width || space.bottom > canvas.height {
            return Err(format!("`{}` leaves the picture", text.content));
        }
        if let Some(other) = texts[..index].iter().find(|other| other.bounds().grown(-1.5).overlaps(&space)) {
            return Err(format!("`{}` runs into `{}`", text.content, other.content));
        }
    }
    Ok(())
}

/// Every tag that opens closes, in order; there is one root.
fn well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let Some((inside, _)) = tag.split_once('>') else { return false };
        let name = inside.split_whitespace().next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !inside.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty() && !svg.contains(|c: char| c.is_control() && c != '\n')
}

fn sweep() -> LinePlot {
    let points = [(16, 0.11), (64, 0.19), (256, 0.53)].map(|(x, y)| (x, Estimate::plus_minus(y, 0.02)));
    LinePlot::new("Latency by prompt length")
        .x("prompt length", "tokens")
        .y("latency", "s")
        .series("float32", points)
        .unwrap()
        .intervals("95% confidence interval")
        .reference_line(0.05, "bandwidth limit")
        .unwrap()
        .note("model embedded | cpu")
}

#[test]
fn a_line_plot_says_what_it_shows() {
    let svg = sweep().to_svg().unwrap();
    for text in [
        "Latency by prompt length",
        "prompt length (tokens)",
        "latency (s)",
        "float32",
        "95% confidence interval",
        "bandwidth limit",
        "model embedded | cpu",
        "0.2",
    ] {
        assert!(svg.contains(&format!("\n{text}\n")) || svg.contains(&format!(">{text}<")), "{text}: {svg}");
    }
    assert!(well_formed(&svg));
    assert!(svg.contains("width=\"720\" height=\"420\""));
}

#[test]
fn every_point_has_a_marker_and_an_error_bar() {
    let svg = sweep().to_svg().unwrap();
    // One more in the legend.
    assert_eq!(svg.matches("fill=\"#0072B2\"").count(), 3 + 1);
    let bars = svg.lines().filter(|line| line.contains("stroke=\"#0072B2\"") && line.contains("stroke-width=\"15\""));
    assert_eq!(bars.count(), 3 * 3);
}

#[test]
fn the_order_of_points_does_not_matter() {
    let forth = LinePlot::new("t").series("a", [(1, 1.0), (2, 3.0), (3, 2.0)]).unwrap();
    let back = LinePlot::new("t").series("a", [(3, 2.0), (1, 1.0), (2, 3.0)]).unwrap();
    assert_eq!(forth.to_svg().unwrap(), back.to_svg().unwrap());
}

#[test]
fn names_are_escaped() {
    let bars = BarPlot::new("a < b & c").bars([("<bar>", 1.0)]).unwrap().y("<y>", "\"u\"").to_svg().unwrap();
    assert!(bars.contains("&lt;bar&gt;") && bars.contains("a &lt; b &amp; c"), "{bars}");
    assert!(bars.contains("&lt;y&gt; (&quot;u&quot;)") && well_formed(&bars), "{bars}");
}

#[test]
fn what_cannot_be_drawn_is_an_error_that_says_so() {
    let nan = LinePlot::new("t").series("float16", [(8, 0.5), (16, f64::NAN)]).unwrap_err();
    assert_eq!(nan.message(), "`float16` has the value NaN at 16, which cannot be drawn");
    assert!(LinePlot::new("t").series("a", [(f64::INFINITY, 1.0)]).is_err());
    assert!(LinePlot::new("t").series("a", [(1, Estimate::new(1.0, 2.0, 0.5))]).is_err());
    assert!(LinePlot::new("t").series("a", [(1, 1e300)]).is_err());
    assert!(LinePlot::new("t").reference_line(f64::NAN, "limit").is_err());

    let empty = LinePlot::new("t").series("a", [(0, 0.0); 0]).unwrap().to_svg().unwrap_err();
    assert_eq!(empty.message(), "`t` has no data to draw yet");
    assert!(BarPlot::new("t").to_svg().is_err() && Timeline::new("t").to_svg().is_err());
    assert!(StackedBar::new("t", ["a"]).to_svg().is_err());

    let log = LinePlot::new("t").series("a", [(0, 1.0), (8, 2.0)]).unwrap().log_x().to_svg().unwrap_err();
    assert!(log.message().contains("0 has no place on a logarithmic horizontal axis"), "{log}");
    assert!(LinePlot::new("t").series("a", [(1, -1.0)]).unwrap().log_y().to_svg().is_err());

    assert!(BarPlot::new("t").bars([("a", 1.0), ("a", 2.0)]).unwrap_err().message().contains("two bars `a`"));
    assert!(StackedBar::new("t", ["a", "b"]).bar("x", [1.0]).unwrap_err().message().contains("1 amounts for 2 parts"));
    assert!(StackedBar::new("t", ["a"]).bar("x", [-1.0]).is_err());
    assert!(Timeline::new("t").run("r", 8, -0.1, [0.1]).is_err());
    assert!(Timeline::new("t").run("r", 8, 0.1, [f64::NAN]).is_err());
}

#[test]
fn an_interval_down_to_zero_does_not_spoil_a_logarithmic_axis() {
    let plot = LinePlot::new("t").series("a", [(1, Estimate::new(1.0, 0.0, 2.0)), (2, Estimate::exact(3.0))]);
    assert!(well_formed(&plot.unwrap().log_y().to_svg().unwrap()));
}

#[test]
fn several_reference_lines_are_named_in_the_legend() {
    let plot = sweep().reference_line(0.02, "limit of the other").unwrap();
    assert_eq!(tidy(&plot.scene().unwrap()), Ok(()));
    let names = |svg: String| svg.matches("limit").count();
    assert_eq!((names(sweep().to_svg().unwrap()), names(plot.to_svg().unwrap())), (1, 2));
}

#[test]
fn long_curves_have_no_markers() {
    let plot = LinePlot::new("loss").series("train", (0..5000).map(|step| (step, 1.0 / f64::from(step + 1))));
    assert!(!plot.unwrap().to_svg().unwrap().contains("<circle"));
}

#[test]
fn bars_stand_side_by_side_with_their_values() {
    let plot = BarPlot::new("t")
        .series("with cache", [("16", 3.1), ("64", 3.2)])
        .and_then(|plot| plot.series("without cache", [("64", 16.2), ("256", 48.0)]))
        .unwrap();
    let svg = plot.to_svg().unwrap();
    assert_eq!(svg.matches("fill=\"#0072B2\"").count(), 2 + 1);
    assert_eq!(svg.matches("fill=\"#E69F00\"").count(), 2 + 1);
    for value in ["3.1", "3.2", "16.2", "48.0"] {
        assert!(svg.contains(&format!("\n{value}\n")), "{value}");
    }
    assert_eq!(
        plot.table().unwrap().to_csv_string().unwrap(),
        "category,series,value\n16,with cache,3.1\n64,with cache,3.2\n64,without cache,16.2\n256,without cache,48.0\n"
    );
}

#[test]
fn stacked_bars_show_parts_and_totals() {
    let plot = StackedBar::new("t", ["prefill", "decode"]).y("time", "s").bar("512", [0.29, 0.52]).unwrap();
    let svg = plot.to_svg().unwrap();
    for text in ["0.29", "0.52", "0.81", "prefill", "decode"] {
        assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
    }
    assert_eq!(plot.table().unwrap().to_csv_string().unwrap(), "category,prefill (s),decode (s)\n512,0.29,0.52\n");
}

#[test]
fn a_timeline_marks_the_first_token_and_draws_every_step() {
    let diagram = Timeline::new("t").run("", 512, 0.184, [0.0101; 20]).unwrap();
    let svg = diagram.to_svg().unwrap();
    assert!(svg.contains("time to first token (TTFT): 184 ms"));
    assert!(svg.contains("prefill: all 512 prompt tokens at once"));
    assert!(svg.contains("decode: one token each, 20 steps of 10.1 ms"));
    // Twenty blocks and the legend's; a dot for each of 21 tokens and the legend's.
    assert_eq!(svg.matches("fill=\"#E69F00\"").count(), 20 + 1);
    assert_eq!(svg.matches("<circle").count(), 21 + 1);
    let many = Timeline::new("t").run("", 8, 0.01, [0.01; 500]).unwrap().to_svg().unwrap();
    assert!(many.contains("(a block is 5 steps)"));
}

#[test]
fn a_cell_gets_an_image_a_drawing_and_text() {
    let shown = blocks("a \"title\"", sweep().to_svg().and_then(|svg| Ok((svg, sweep().table()?))));
    assert_eq!(shown.iter().map(|(mime, _)| *mime).collect::<Vec<_>>(), ["text/plain", "image/svg+xml", "text/html"]);
    assert!(shown[0].1.contains("float32") && shown[0].1.contains("0.11 [0.09, 0.13]"), "{}", shown[0].1);
    assert!(shown[2].1.starts_with("<img src=\"data:image/svg+xml"), "{}", shown[2].1);
    assert!(shown[2].1.contains("alt=\"a &quot;title&quot;\""));
    let failed = blocks("<t>", LinePlot::new("<t>").to_svg().map(|svg| (svg, Table::new(""))));
    assert!(failed[0].1.starts_with("no picture of `<t>`: ") && failed[1].1.contains("&lt;t&gt;"));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let error = sweep().save_svg(folder.path().join("none/plot.svg")).unwrap_err();
    assert!(error.message().contains("plot.svg") && error.hint_text().is_some(), "{error}");
    let path = folder.path().join("plot.svg");
    sweep().save_svg(&path).unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), sweep().to_svg().unwrap());
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        -1e4f64..1e4,
        (0.0f64..1.0).prop_map(|v| v * 1e-3),
        Just(0.0),
        (-90f64..90.0).prop_map(|e| 10f64.powf(e))
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ()0-9]{0,30}", "\\PC{0,60}", Just("float32 (forced on CPU)".to_owned())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_line_plot_is_tidy(
        title in name(), x in name(), y in name(), note in name(),
        series in prop::collection::vec((name(), prop::collection::vec((value(), value(), 0f64..10.0), 1..12)), 1..6),
        from_zero in any::<bool>(), log_x in any::<bool>(), log_y in any::<bool>(), limit in any::<bool>(),
    ) {
        let mut plot = LinePlot::new(title).x(x, "tokens").y(y, "s").note(note).intervals("95%").y_from_zero(from_zero);
        for (name, points) in series {
            let positive = |value: f64, log: bool| if log { value.abs() + 1e-6 } else { value };
            let points = points.into_iter()
                .map(|(x, y, error)| (positive(x, log_x), Estimate::plus_minus(positive(y, log_y), error)));
            plot = plot.series(name, points).unwrap();
        }
        if limit { plot = plot.reference_line(2.0, "a limit").unwrap().reference_line(3.0, "another").unwrap(); }
        if log_x { plot = plot.log_x(); }
        if log_y { plot = plot.log_y(); }
        prop_assert_eq!(tidy(&plot.scene().unwrap()), Ok(()));
        prop_assert!(well_formed(&plot.to_svg().unwrap()));
        prop_assert!(!plot.table().unwrap().to_text().is_empty());
    }

    #[test]
    fn any_bar_plot_is_tidy(
        title in name(),
        series in prop::collection::vec((name(), prop::collection::vec((0usize..80, -500f64..5000.0, 0f64..100.0), 1..60)), 1..4),
    ) {
        let mut plot = BarPlot::new(title).x("layer").y("time", "s").intervals("95%");
        for (name, bars) in series {
            let bars: std::collections::BTreeMap<usize, Estimate> =
                bars.into_iter().map(|(at, value, error)| (at, Estimate::plus_minus(value, error))).collect();
            plot = plot.series(name, bars.into_iter().map(|(at, bar)| (format!("layer {at}"), bar))).unwrap();
        }
        let canvas = plot.scene().unwrap();
        prop_assert!(well_formed(&canvas.to_svg("t").unwrap()));
        prop_assert_eq!(tidy(&canvas), Ok(()));
    }

    #[test]
    fn any_timeline_is_tidy(
        runs in prop::collection::vec((name(), 0usize..2000, 0f64..3.0, prop::collection::vec(0f64..0.1, 0..80)), 1..4),
    ) {
        let mut diagram = Timeline::new("t");
        for (name, tokens, prefill, steps) in runs {
            diagram = diagram.run(name, tokens, prefill + 1e-5, steps).unwrap();
        }
        prop_assert_eq!(tidy(&diagram.scene().unwrap()), Ok(()));
        prop_assert!(well_formed(&diagram.to_svg().unwrap()));
    }
}
