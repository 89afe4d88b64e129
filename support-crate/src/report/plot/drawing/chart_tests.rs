use super::*;
use crate::report::{BarPlot, LinePlot, RugPlot, StackedBar, Timeline, TradeOff};

/// The words of a picture, line by line.
fn words(svg: &str) -> Vec<&str> {
    svg.lines().filter(|line| !line.starts_with('<')).collect()
}

fn csv(table: Table) -> String {
    table.to_csv_string().unwrap()
}

fn sweep() -> LinePlot {
    let points = [(16, 0.11), (64, 0.19), (256, 0.53)].map(|(x, y)| (x, Estimate::plus_minus(y, 0.04)));
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
    assert!(svg.starts_with("<svg ") && svg.contains("<title>Latency by prompt length</title>"), "{svg}");
    for text in [
        "Latency by prompt length",
        "prompt length (tokens)",
        "latency (s)",
        "float32",
        "bandwidth limit",
        "model embedded | cpu | error bars: 95% confidence interval",
        "0.2",
    ] {
        assert_eq!(words(&svg).iter().filter(|word| **word == text).count(), 1, "{text}: {svg}");
    }
}

#[test]
fn every_point_has_a_marker_and_an_error_bar() {
    let svg = sweep().to_svg().unwrap();
    // Each point a circle on a white one.
    assert_eq!(svg.matches("<circle").count(), 2 * 3);
    assert_eq!(svg.lines().filter(|line| line.starts_with("<circle") && line.contains("#2B2B2B")).count(), 3);
    let bars = svg.lines().filter(|line| line.contains("stroke=\"#2B2B2B\"") && line.contains("stroke-width=\"14\""));
    assert_eq!(bars.count(), 3 * 3);
}

#[test]
fn the_order_of_points_does_not_matter_and_labels_follow_it() {
    let plot = |order: [usize; 3]| {
        let points = [(1, 1.0), (2, 3.0), (3, 2.0)];
        let plot = LinePlot::new("t").series("a", order.map(|index| points[index])).unwrap();
        plot.label_points("a", order.map(|index| ["one", "two", "three"][index])).unwrap().to_svg().unwrap()
    };
    assert_eq!(plot([0, 1, 2]), plot([2, 0, 1]));
    assert!(["one", "two", "three"].iter().all(|label| words(&plot([0, 1, 2])).contains(label)));
}

#[test]
fn names_are_escaped() {
    let bars = BarPlot::new("a < b & c\u{1b}").bars([("<bar>", 1.0)]).unwrap().y("<y>", "\"u\"").to_svg().unwrap();
    assert!(bars.contains("<title>a &lt; b &amp; c </title>") && words(&bars).contains(&"&lt;bar&gt;"), "{bars}");
    assert!(words(&bars).contains(&"&lt;y&gt; (&quot;u&quot;)"), "{bars}");
}

#[test]
fn what_cannot_be_drawn_is_an_error_that_says_so() {
    let nan = LinePlot::new("t").series("float16", [(8, 0.5), (16, f64::NAN)]).unwrap_err();
    assert_eq!(nan.message(), "`float16` has the value NaN at 16, which cannot be drawn");
    assert!(LinePlot::new("t").series("a", [(f64::INFINITY, 1.0)]).is_err());
    assert!(LinePlot::new("t").series("a", [(1, Estimate::new(1.0, 2.0, 0.5))]).is_err());
    assert!(LinePlot::new("t").series("a", [(1, 1e300)]).is_err());
    assert!(LinePlot::new("t").reference_line(f64::NAN, "limit").is_err());
    assert!(LinePlot::new("t").runs("a", [0.0; 0]).unwrap_err().message().contains("no measured values"));
    assert!(LinePlot::new("t").runs("a", [1.0, f64::NAN]).is_err());
    let labels = sweep().label_points("float32", ["a", "b"]).unwrap_err();
    assert_eq!(labels.message(), "`float32`: 2 labels for 3 points");
    assert!(sweep().label_points("float16", ["a", "b", "c"]).unwrap_err().message().contains("no series `float16`"));

    let empty = LinePlot::new("t").series("a", [(0, 0.0); 0]).unwrap().to_svg().unwrap_err();
    assert_eq!(empty.message(), "`t` has no data to draw yet");
    assert!(BarPlot::new("t").to_svg().is_err() && Timeline::new("t").to_svg().is_err());
    assert!(TradeOff::new("t").to_svg().is_err() && RugPlot::new("t").to_svg().is_err());
    assert!(StackedBar::new("t", ["a"]).to_svg().is_err());

    let log = LinePlot::new("t").series("a", [(0, 1.0), (8, 2.0)]).unwrap().log_x().to_svg().unwrap_err();
    assert!(log.message().contains("0 has no place on a logarithmic horizontal axis"), "{log}");
    assert!(LinePlot::new("t").series("a", [(1, -1.0)]).unwrap().log_y().to_svg().is_err());
    let exact = TradeOff::new("t").point("float32", 12.0, 0.0).unwrap();
    assert!(exact.clone().log_y().to_svg().unwrap_err().message().contains("logarithmic vertical axis"));
    assert!(exact.log_x().to_svg().is_ok() && TradeOff::new("t").point("a", f64::NAN, 1.0).is_err());

    assert!(BarPlot::new("t").bars([("a", 1.0), ("a", 2.0)]).unwrap_err().message().contains("two bars `a`"));
    let unknown = BarPlot::new("t").bars([("a", 1.0)]).unwrap().limits("limit", [("b", 2.0)]).unwrap_err();
    assert_eq!(unknown.message(), "`t` has no `b` to limit");
    assert!(StackedBar::new("t", ["a", "b"]).bar("x", [1.0]).unwrap_err().message().contains("1 amounts for 2 parts"));
    assert!(StackedBar::new("t", ["a"]).bar("x", [-1.0]).is_err());
    assert!(Timeline::new("t").run("r", 8, -0.1, [0.1]).is_err());
    assert!(Timeline::new("t").run("r", 8, 0.1, [f64::NAN]).is_err());
    assert!(RugPlot::new("t").codebook("a", &[]).is_err() && RugPlot::new("t").codebook("a", &[f32::NAN]).is_err());
    assert!(RugPlot::new("t").density("weights", [(0.0, -1.0)]).is_err());
}

#[test]
fn an_interval_down_to_zero_does_not_spoil_a_logarithmic_axis() {
    let plot = LinePlot::new("t").series("a", [(1, Estimate::new(1.0, 0.0, 2.0)), (2, Estimate::exact(3.0))]);
    assert!(words(&plot.unwrap().log_y().to_svg().unwrap()).contains(&"2"));
}

#[test]
fn short_times_are_shown_in_milliseconds() {
    let plot = LinePlot::new("t").y("latency", "s").series("a", [(1, 0.004), (2, 0.0062)]).unwrap();
    let svg = plot.clone().reference_line(0.002, "limit").unwrap().to_svg().unwrap();
    assert!(words(&svg).contains(&"latency (ms)") && words(&svg).contains(&"6"), "{svg}");
    assert_eq!(csv(plot.table()), "series,x,latency (ms)\na,1,4.0\na,2,6.2\n");
    // The middle of a logarithmic axis decides, the largest value of a linear one.
    let wide = LinePlot::new("t").y("latency", "s").series("a", [(1, 0.004), (2, 0.8)]).unwrap();
    assert!(wide.clone().log_y().to_svg().unwrap().contains("latency (ms)"));
    assert!(wide.to_svg().unwrap().contains("latency (s)") && csv(wide.table()).contains("latency (s)"));
    assert!(plot.reference_line(0.2, "limit").unwrap().to_svg().unwrap().contains("latency (s)"));
    let bars = BarPlot::new("t").y("time", "s").bars([("a", 0.0421)]).unwrap().to_svg().unwrap();
    assert!(words(&bars).contains(&"42.1") && words(&bars).contains(&"time (ms)"), "{bars}");
    let tiny = StackedBar::new("t", ["a"]).y("time", "s").bar("x", [2.5e-5]).unwrap().to_svg().unwrap();
    assert!(words(&tiny).contains(&"time (\u{b5}s)"), "{tiny}");
}

#[test]
fn runs_are_points_beside_each_other_with_their_median() {
    let plot = LinePlot::new("t").y("latency", "s").runs("first", [3.0, 1.0, 2.0]).unwrap();
    let plot = plot.runs("later", [5.0, 4.0, 6.0]).unwrap();
    let svg = plot.to_svg().unwrap();
    for text in ["first: 2.00 s", "later: 5.00 s", "line and band: median with its 75% interval"] {
        assert!(words(&svg).contains(&text), "{text}: {svg}");
    }
    assert_eq!(words(&svg).iter().filter(|word| **word == "1").count(), 2, "{svg}");
    let rows = "first,1,3.0\nfirst,2,1.0\nfirst,3,2.0\nlater,1,5.0\nlater,2,4.0\nlater,3,6.0\n";
    assert_eq!(csv(plot.table()), format!("series,x,latency (s)\n{rows}"));
    let alone = LinePlot::new("t").y("latency", "s").runs("", [3.0, 1.0, 2.0]).unwrap();
    assert!(words(&alone.to_svg().unwrap()).contains(&"median: 2.00 s"));
    assert_eq!(csv(alone.table()), "x,latency (s)\n1,3.0\n2,1.0\n3,2.0\n");
    let single = LinePlot::new("t").runs("", [3.0]).unwrap().to_svg().unwrap();
    assert!(!single.contains("interval"), "{single}");
}

#[test]
fn intervals_across_lie_on_a_logarithmic_axis() {
    let plot = |low: f64| {
        let plot = TradeOff::new("t").point("a", Estimate::new(10.0, low, 50.0), 1.0).unwrap();
        plot.point("b", 20.0, 2.0).unwrap().log_x()
    };
    let axis = plot(2.0).scene().unwrap().x;
    assert!(axis.low <= 2.0 && axis.high >= 50.0, "{axis:?}");
    // An end at zero has no place there, and no cap.
    let strokes = |svg: String| {
        let is_stroke = |line: &&str| line.contains("stroke=\"#5B3F9B\"") && line.contains("stroke-width=\"14\"");
        svg.lines().filter(is_stroke).count()
    };
    assert_eq!([9.0, 0.0].map(|low| strokes(plot(low).to_svg().unwrap())), [3, 2]);
}

#[test]
fn a_theory_is_a_dashed_line_without_markers() {
    let plot = LinePlot::new("t").series("measured", [(1, 1.0), (2, 1.5)]).unwrap();
    let svg = plot.theory("calculated", [(1, 1.0), (2, 2.0)]).unwrap().to_svg().unwrap();
    assert!(words(&svg).contains(&"calculated"), "{svg}");
    // The markers of the measured line, with their rims, have the first look.
    assert_eq!((svg.matches("<circle").count(), svg.matches("<polygon").count()), (4, 0), "{svg}");
    assert!(svg.matches("stroke=\"#222222\"").count() > 4, "{svg}");
}

#[test]
fn points_stand_where_their_numbers_are_and_are_seen_where_they_coincide() {
    // The middle and the radius of each.
    let circles = |svg: &str| -> Vec<(String, f64)> {
        let circles = svg.lines().filter(|line| line.starts_with("<circle") && line.contains("#2B2B2B"));
        circles.map(|line| line.split('"').collect::<Vec<_>>()).map(|p| (p[1].into(), p[5].parse().unwrap())).collect()
    };
    let plot = |second: f64| {
        let plot = TradeOff::new("t").point("float32", 3.0, 1.0).unwrap().point("float32", 3.0, second).unwrap();
        circles(&plot.point("NF4", 1.0, 20.0).unwrap().to_svg().unwrap())
    };
    let (same, apart) = (plot(1.1), plot(10.0));
    assert!(same[0].0 == same[1].0 && apart[0].0 == apart[1].0, "{same:?} {apart:?}");
    assert!(same[0].1 > same[1].1 + 25.0 && apart[0].1 == apart[1].1, "{same:?} {apart:?}");
    // What a series has close together is of one size, also where a curve goes by.
    let radius = |svg: &String| {
        let circles = svg.lines().filter(|line| line.starts_with("<circle"));
        circles.filter_map(|line| line.split('"').nth(5)?.parse::<u32>().ok()).max()
    };
    let cloud = LinePlot::new("t").points("a", [(1.0, 1.0), (1.01, 1.0), (1.02, 1.01), (3.0, 2.0)]).unwrap();
    let beside = cloud.clone().theory("b", (0..200).map(|i| (f64::from(i) / 50.0, 1.0))).unwrap();
    let alone = LinePlot::new("t").points("a", [(1.0, 1.0), (3.0, 2.0)]).unwrap();
    let [cloud, beside, alone] = [cloud, beside, alone].map(|plot| plot.to_svg().unwrap());
    assert_eq!([radius(&cloud), radius(&beside)], [radius(&alone); 2]);
}

#[test]
fn points_have_no_line_and_stems_reach_down_to_zero() {
    let lines = |plot: LinePlot| {
        let svg = plot.to_svg().unwrap();
        let lines = svg.lines().filter(|line| line.starts_with("<polyline") && line.contains("#BF4A06"));
        (lines.count(), words(&svg).contains(&"0"))
    };
    let plot = || LinePlot::new("t");
    let points = [(1, 10.0), (2, 9.0), (4, 11.0)];
    assert_eq!(lines(plot().series("NF4", points).unwrap()), (1, false));
    assert_eq!(lines(plot().points("NF4", points).unwrap()), (0, false));
    assert_eq!(lines(plot().stems("NF4", points).unwrap()), (3, true));
    assert_eq!(csv(plot().points("NF4", points).unwrap().table()), csv(plot().series("NF4", points).unwrap().table()));
}

#[test]
fn an_axis_begins_at_zero_where_that_costs_little_room() {
    let begins = |low: f64, from_zero: Option<bool>| {
        let plot = LinePlot::new("t").x("", "").series("a", [(10, low), (11, 10.0)]).unwrap();
        let svg = from_zero.map_or(plot.clone(), |from_zero| plot.y_from_zero(from_zero)).to_svg().unwrap();
        words(&svg).contains(&"0")
    };
    assert!(begins(5.0, None) && !begins(8.0, None) && begins(8.0, Some(true)) && !begins(5.0, Some(false)));
}

#[test]
fn lines_are_named_at_their_ends_or_in_the_legend() {
    let plot = |ends: [f64; 2]| {
        let plot = LinePlot::new("t").series("high", [(1, 9.0), (2, ends[0])]).unwrap();
        plot.series("low", [(1, 1.0), (2, ends[1])]).unwrap().to_svg().unwrap()
    };
    let keys = |svg: &str| svg.matches("<circle").count() + svg.matches("<polygon").count();
    // Two markers with their rims on each line; one more of each in the legend.
    assert_eq!(keys(&plot([8.0, 2.0])), 8);
    let long =
        LinePlot::new("t").series("a name much too long to stand beside the end of its line", [(1, 9.0), (2, 8.0)]);
    assert_eq!(keys(&long.unwrap().to_svg().unwrap()), 4 + 2);
    let curve = LinePlot::new("loss").series("train", (0..5000).map(|step| (step, 1.0 / f64::from(step + 1))));
    assert_eq!(keys(&curve.unwrap().to_svg().unwrap()), 0);
}

#[test]
fn a_format_has_its_colour_in_every_picture() {
    let nf4 = "#BF4A06";
    let line = LinePlot::new("t").series("with cache", [(1, 1.0)]).unwrap().series("NF4", [(1, 2.0)]).unwrap();
    let trade = TradeOff::new("t").point("float32", 2.0, 1.0).unwrap().point("NF4, int8 head", 1.0, 2.0).unwrap();
    let grouped = BarPlot::new("t").series("float32", [("a", 1.0)]).unwrap().series("nf4", [("a", 1.0)]).unwrap();
    for svg in [
        line.to_svg(),
        trade.to_svg(),
        grouped.to_svg(),
        BarPlot::new("t").bars([("float32", 1.0), ("NF4", 2.0)]).unwrap().to_svg(),
        StackedBar::new("t", ["int8", "nf4"]).bar("a", [1.0, 2.0]).unwrap().to_svg(),
        RugPlot::new("t").codebook("NF4", &[0.0, 1.0]).unwrap().to_svg(),
    ] {
        let svg = svg.unwrap();
        assert!(svg.contains(nf4), "{svg}");
    }
}

#[test]
fn bars_stand_side_by_side_with_their_values_and_limits() {
    let plot = BarPlot::new("t")
        .series("with cache", [("16", 3.1), ("64", 3.2)])
        .and_then(|plot| plot.series("without cache", [("64", 16.2), ("256", 48.0)]))
        .and_then(|plot| plot.limits("limit", [("64", 20.0)]))
        .unwrap();
    let svg = plot.to_svg().unwrap();
    // One more in the legend.
    assert_eq!(svg.matches("fill=\"#5B3F9B\"").count(), 2 + 1);
    assert_eq!(svg.matches("fill=\"#4DB3A2\"").count(), 2 + 1);
    assert!(["3.1", "3.2", "16.2", "48.0", "limit"].iter().all(|value| words(&svg).contains(value)), "{svg}");
    let rows = "16,with cache,3.1,\n64,with cache,3.2,20.0\n64,without cache,16.2,20.0\n256,without cache,48.0,\n";
    assert_eq!(csv(plot.table()), format!("category,series,value,limit\n{rows}"));
}

#[test]
fn bars_lie_down_below_names_too_long_to_stand_under_them() {
    let height = |names: [&str; 5]| {
        let svg = BarPlot::new("t").bars(names.map(|name| (name, 2.0))).unwrap().to_svg().unwrap();
        let bars = svg.lines().filter(|line| line.starts_with("<rect") && line.contains("#5B3F9B"));
        let side = |name: &str, line: &str| -> f64 {
            line.split_once(&format!("{name}=\"")).unwrap().1.split_once('"').unwrap().0.parse().unwrap()
        };
        bars.map(|line| side("height", line) / side("width", line)).fold(0.0, f64::max)
    };
    assert!(height(["a", "b", "c", "d", "e"]) > 2.0);
    assert!(height(["a", "b", "c", "d", "an answer that a learner wrote"]) < 0.1);
}

#[test]
fn values_stand_beyond_their_bars_or_all_in_a_column_beside_lines() {
    let anchors = |limit: Option<f64>| -> Vec<String> {
        let plot =
            BarPlot::new("t").bars([("bfloat16, as it is loaded by everybody", 50.0), ("float32", 90.0)]).unwrap();
        let limits = limit.map(|limit| ("float32", limit));
        let svg = plot.limits("limit", limits).unwrap().to_svg().unwrap();
        let lines: Vec<&str> = svg.lines().collect();
        let of = |value: &str| lines[lines.iter().position(|line| *line == value).unwrap() - 1];
        // 50 is also a tick; the last one is the value.
        let last = lines.iter().rposition(|line| *line == "50").unwrap() - 1;
        [lines[last], of("90")].map(|text| text.split_once("text-anchor=\"").unwrap().1[..3].to_owned()).into()
    };
    assert_eq!(anchors(None), ["sta", "sta"]);
    assert_eq!(anchors(Some(94.0)), ["end", "end"]);
    assert_eq!(anchors(Some(200.0)), ["end", "end"]);
}

#[test]
fn bars_of_a_kind_have_its_colour_and_on_a_logarithmic_axis_are_points() {
    let plot =
        BarPlot::new("t").y("KL", "nats").bar("a kind", "one", 0.004).unwrap().bar("another", "two", 0.5).unwrap();
    let plot = plot.bar("a kind", "three", 2.0).unwrap();
    let count =
        |svg: &str, sign: &str| svg.lines().filter(|line| line.starts_with(sign) && line.contains("#5B3F9B")).count();
    // One more in the legend.
    assert_eq!(count(&plot.to_svg().unwrap(), "<rect"), 2 + 1);
    let log = plot.clone().log_y().to_svg().unwrap();
    assert_eq!((count(&log, "<rect"), count(&log, "<circle")), (0, 2 + 1));
    assert!(
        words(&log).contains(&"0.004") && plot.clone().bar("another", "three", -1.0).unwrap().log_y().to_svg().is_err()
    );
    assert!(plot.bar("a kind", "one", 1.0).is_err());
}

#[test]
fn values_far_below_the_others_are_said_to_be_small() {
    let svg = BarPlot::new("t").bars([("a", 16.4), ("b", 7e-6), ("c", 0.87)]).unwrap().to_svg().unwrap();
    assert!(["16.4", "0.870", "&lt;0.01"].iter().all(|value| words(&svg).contains(value)), "{svg}");
}

#[test]
fn stacked_bars_show_parts_and_totals() {
    let plot = StackedBar::new("t", ["prefill", "decode"]).y("time", "s").bar("512", [0.29, 0.52]).unwrap();
    let svg = plot.to_svg().unwrap();
    for text in ["0.29", "0.52", "0.81", "prefill", "decode"] {
        assert!(words(&svg).contains(&text), "{text}: {svg}");
    }
    assert_eq!(csv(plot.table()), "category,prefill (s),decode (s)\n512,0.29,0.52\n");
}

#[test]
fn a_trade_off_shades_what_a_choice_dominates_and_names_its_points() {
    // The third point is beaten by the second; where more is better it beats all others.
    let plot = TradeOff::new("t").x("memory", "MiB").y("perplexity", "").point("float32", 12.0, 8.0).unwrap();
    let plot = plot.point("NF4", Estimate::new(3.0, 2.5, 3.5), 8.6).unwrap().point("FP4", 3.0, 9.3).unwrap();
    let corners = |plot: &TradeOff| {
        let svg = plot.to_svg().unwrap();
        let shade = svg.lines().find(|line| line.starts_with("<polygon") && line.contains("opacity=\"0.13\"")).unwrap();
        shade.split_once("points=\"").unwrap().1.split_once('"').unwrap().0.split_whitespace().count()
    };
    // FP4 is the smallest by the worse end of NF4's interval: three steps; else it is the best of all: one.
    assert_eq!((corners(&plot), corners(&plot.clone().higher_is_better())), (9, 5));
    let svg = plot.to_svg().unwrap();
    for text in ["float32", "NF4", "FP4", "memory (MiB), lower is better", "dominated by another choice"] {
        assert!(words(&svg).contains(&text), "{text}: {svg}");
    }
    assert!(words(&svg).contains(&"perplexity, lower is better"));
    assert!(plot.clone().higher_is_better().to_svg().unwrap().contains("perplexity, higher is better"));
    let rows = "float32,12.0,12.0,12.0,8.0\nNF4,3.0,2.5,3.5,8.6\nFP4,3.0,3.0,3.0,9.3\n";
    assert_eq!(csv(plot.table()), format!("choice,memory (MiB),memory low (MiB),memory high (MiB),perplexity\n{rows}"));
}

#[test]
fn a_rug_has_a_tick_for_each_value_and_a_boundary_between_two() {
    let plot = RugPlot::new("t").x("value", "").codebook("NF4", &[1.0, -1.0, 0.5, 0.0, -0.0]).unwrap();
    let svg = plot.clone().density("weights", [(-1.0, 0.1), (0.0, 1.0), (1.0, 0.1)]).unwrap().to_svg().unwrap();
    assert_eq!(svg.lines().filter(|line| line.contains("stroke=\"#BF4A06\"")).count(), 4);
    assert!(words(&svg).contains(&"weights") && words(&svg).contains(&"decision boundary"), "{svg}");
    let rows = "NF4,-1.0,-0.5\nNF4,0.0,0.25\nNF4,0.5,0.75\nNF4,1.0,\n";
    assert_eq!(csv(plot.table()), format!("codebook,value,boundary above\n{rows}"));
}

#[test]
fn a_timeline_marks_the_first_token_and_draws_every_step() {
    let svg = Timeline::new("t").run("", 512, 0.184, [0.0101; 20]).unwrap().to_svg().unwrap();
    for text in [
        "time to first token (TTFT): 184 ms",
        "prefill: all 512 prompt tokens at once",
        "decode: one token each, 20 steps of 10.1 ms",
    ] {
        assert!(words(&svg).contains(&text), "{text}: {svg}");
    }
    // Twenty blocks and the legend's; a dot, in its rim, for each of 21 tokens and the legend's.
    assert_eq!(svg.matches("fill=\"#4DB3A2\"").count(), 20 + 1);
    assert_eq!(svg.matches("<circle").count(), 2 * (21 + 1));
    let short = Timeline::new("t").run("", 8, 0.0012, [0.0004; 20]).unwrap();
    assert!(short.to_svg().unwrap().contains("20 steps of 0.400 ms") && csv(short.table()).contains("mean step (ms)"));
    let many = Timeline::new("t").run("", 8, 0.01, [0.01; 500]).unwrap().to_svg().unwrap();
    assert!(many.contains("500 steps of 10.0 ms (a block is 5 steps)"));
}

#[test]
fn a_cell_gets_an_image_a_drawing_and_text() {
    let chart = Chart::new("a \"title\"");
    let shown = chart.blocks(sweep().to_svg().map(|svg| (svg, sweep().table())));
    assert_eq!(shown.iter().map(|(mime, _)| *mime).collect::<Vec<_>>(), ["text/plain", "image/svg+xml", "text/html"]);
    assert!(shown[0].1.contains("float32") && shown[0].1.contains("0.11 [0.07, 0.15]"), "{}", shown[0].1);
    assert!(shown[2].1.starts_with("<img src=\"data:image/svg+xml"), "{}", shown[2].1);
    assert!(shown[2].1.contains("alt=\"a &quot;title&quot;\""));
    let failed = Chart::new("<t>").blocks(LinePlot::new("<t>").to_svg().map(|svg| (svg, Table::new(""))));
    assert!(failed[0].1.starts_with("cannot draw `<t>`: ") && failed[1].1.contains("&lt;t&gt;"));
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
