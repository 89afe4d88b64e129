//! Pictures as they come out: their words stay inside and off each other, in the library's own fonts.

mod gallery;
mod tidy;

use proptest::prelude::*;
use quantlab::report::{BarPlot, Estimate, LinePlot, RugPlot, ServingTimeline, StackedBar, Timeline, TradeOff};
use quantlab::serve::{first_come, static_batch};

#[test]
fn the_gallery_is_tidy_and_renders() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("QUANTLAB_GALLERY").map(std::path::PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let mut flaws = Vec::new();
    for picture in gallery::pictures().unwrap() {
        let path = folder.join(picture.name).with_extension("png");
        (picture.save_png)(&path).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(b"\x89PNG"), "{}", picture.name);
        let is_cut = picture.name != "line_long_names" && tidy::is_cut(&picture.svg);
        let flaw = tidy::flaw(&picture.svg).or(is_cut.then(|| "a name is cut".to_owned()));
        flaws.extend(flaw.map(|flaw| format!("{}: {flaw}", picture.name)));
    }
    assert!(flaws.is_empty(), "{flaws:#?}");
}

#[test]
fn untidy_pictures_are_found() {
    let picture = |words: &str| {
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"40\" font-size=\"14\">{words}</svg>")
    };
    let word = |x: f64| format!("<text x=\"{x}\" y=\"20\" font-family=\"sans-serif\">word</text>");
    assert_eq!(tidy::flaw(&picture(&(word(10.0) + &word(60.0)))), None);
    assert!(tidy::flaw(&picture(&(word(10.0) + &word(40.0)))).is_some_and(|flaw| flaw.contains("runs into")));
    assert!(tidy::flaw(&picture(&word(170.0))).is_some_and(|flaw| flaw.contains("leaves")));
    assert!(tidy::flaw("<svg").is_some());
    let sign =
        |x: f64, color: &str| format!("<rect x=\"{x}\" y=\"19.4\" width=\"12\" height=\"12\" fill=\"{color}\"/>");
    let legend = |color| picture(&(word(50.0) + &word(120.0) + &sign(31.0, "red") + &sign(101.0, color)));
    assert!(tidy::flaw(&legend("red")).is_some_and(|flaw| flaw.contains("same sign")));
    assert_eq!(tidy::flaw(&legend("blue")), None);
    assert!(tidy::is_cut("<text>\nNF4, by libt...\n</text>") && !tidy::is_cut("<text>\nNF4\n</text>"));
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        -1e4f64..1e4,
        (0.0f64..1.0).prop_map(|v| v * 1e-3),
        Just(0.0),
        (-90f64..90.0).prop_map(|e| 10f64.powf(e))
    ]
}

fn positive() -> impl Strategy<Value = Estimate> {
    (value(), 0.0f64..10.0).prop_map(|(value, error)| Estimate::plus_minus(value.abs() + 1e-6, error))
}

fn name() -> impl Strategy<Value = String> {
    let formats = ["float32 (forced on CPU)", "NF4", "INT8", "static int8", "NF4, double quantization"];
    prop_oneof!["[a-z ()0-9]{0,30}", "\\PC{0,60}", prop::sample::select(formats.to_vec()).prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_line_plot_is_tidy(
        title in name(), x in name(), y in name(), note in name(),
        series in prop::collection::vec((name(), prop::collection::vec((value(), value(), 0f64..10.0), 1..12)), 1..6),
        runs in prop::collection::vec(1.0f64..2.0, 0..9),
        from_zero in any::<bool>(), log_x in any::<bool>(), log_y in any::<bool>(), limit in any::<bool>(),
    ) {
        let mut plot = LinePlot::new(title).x(x, "tokens").y(y, "s").note(note).intervals("95%").y_from_zero(from_zero);
        for (name, points) in series {
            let positive = |value: f64, log: bool| if log { value.abs() + 1e-6 } else { value };
            let labels: Vec<String> = points.iter().map(|(x, ..)| format!("at {x:.1}")).collect();
            let points = points.into_iter()
                .map(|(x, y, error)| (positive(x, log_x), Estimate::plus_minus(positive(y, log_y), error)));
            plot = plot.series(&name, points).unwrap();
            // The first series of a name is labelled; another of the same name may have other points.
            plot = plot.clone().label_points(&name, labels).unwrap_or(plot);
        }
        if !runs.is_empty() { plot = plot.runs("runs", runs).unwrap(); }
        if limit { plot = plot.reference_line(2.0, "a limit").unwrap().theory("theory", [(1, 1.0), (2, 3.0)]).unwrap(); }
        if log_x { plot = plot.log_x(); }
        if log_y { plot = plot.log_y(); }
        prop_assert_eq!(tidy::flaw(&plot.to_svg().unwrap()), None);
        prop_assert!(plot.table().checked().is_ok());
    }

    #[test]
    fn any_bar_plot_is_tidy(
        title in name(),
        series in prop::collection::vec((name(), prop::collection::vec((0usize..80, -500f64..5000.0, 0f64..100.0), 1..60)), 1..4),
        long in any::<bool>(), limit in any::<bool>(),
    ) {
        let mut plot = BarPlot::new(title).x("layer").y("time", "s").intervals("95%");
        for (name, bars) in series {
            let bars: std::collections::BTreeMap<usize, Estimate> =
                bars.into_iter().map(|(at, value, error)| (at, Estimate::plus_minus(value, error))).collect();
            let called = |at| if long { format!("layer {at} of the model that ships") } else { format!("{at}") };
            plot = plot.series(name, bars.into_iter().map(|(at, bar)| (called(at), bar))).unwrap();
        }
        if limit { plot = plot.reference_line(2000.0, "a limit").unwrap().reference_line(2100.0, "another").unwrap(); }
        prop_assert_eq!(tidy::flaw(&plot.to_svg().unwrap()), None);
    }

    #[test]
    fn any_trade_off_is_tidy(
        points in prop::collection::vec((name(), positive(), positive()), 1..14),
        higher in any::<bool>(), log_x in any::<bool>(), log_y in any::<bool>(),
    ) {
        let mut plot = TradeOff::new("t").x("memory", "MiB").y("time", "s").intervals("95%");
        for (name, x, y) in points {
            plot = plot.point(&name, x, y).unwrap();
        }
        if higher { plot = plot.higher_is_better(); }
        if log_x { plot = plot.log_x(); }
        if log_y { plot = plot.log_y(); }
        prop_assert_eq!(tidy::flaw(&plot.to_svg().unwrap()), None);
    }

    #[test]
    fn any_stack_or_rug_is_tidy(
        rows in prop::collection::vec((name(), prop::collection::vec(0f32..100.0, 3)), 1..9), scale in -20i32..20,
    ) {
        let mut stack = StackedBar::new("t", ["a part", "another", "the rest"]).y("memory", "MiB");
        let mut rug = RugPlot::new("t").x("value", "").density("weights", [(-1.0, 0.0), (0.0, 1.0), (2.0, 0.0)]).unwrap();
        for (name, values) in rows {
            stack = stack.bar(&name, values.iter().map(|value| f64::from(*value) * 10f64.powi(scale))).unwrap();
            rug = rug.codebook(name, &values).unwrap();
        }
        prop_assert_eq!(tidy::flaw(&stack.to_svg().unwrap()), None);
        prop_assert_eq!(tidy::flaw(&rug.to_svg().unwrap()), None);
    }

    #[test]
    fn any_serving_timeline_is_tidy(
        runs in prop::collection::vec((name(), 1usize..90, 0.1f64..30.0, any::<bool>(), 130usize..4000), 1..3),
    ) {
        let mut picture = ServingTimeline::new("t");
        for (name, count, rate, is_static, cache_tokens) in runs {
            let scheduler = if is_static { static_batch } else { first_come };
            picture = picture.run(name, &gallery::served(count, rate, scheduler, cache_tokens + 40));
        }
        prop_assert_eq!(tidy::flaw(&picture.to_svg().unwrap()), None);
    }

    #[test]
    fn any_timeline_is_tidy(
        runs in prop::collection::vec((name(), 0usize..2000, 0f64..3.0, prop::collection::vec(0f64..0.1, 0..80)), 1..4),
    ) {
        let mut diagram = Timeline::new("t");
        for (name, tokens, prefill, steps) in runs {
            diagram = diagram.run(name, tokens, prefill + 1e-5, steps).unwrap();
        }
        prop_assert_eq!(tidy::flaw(&diagram.to_svg().unwrap()), None);
    }
}
