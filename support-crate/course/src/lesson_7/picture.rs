//! All ladders in one picture, one table, and in words.

use quantlab::error::Result;
use quantlab::measure::Statistics;
use quantlab::report::{BarPlot, Estimate, Summary, Table};

use super::{Ladder, Medal, Work};
use crate::tables::told_apart;

fn percent(part: Statistics) -> Estimate {
    Estimate::from(part) * 100.0
}

/// Each kernel's rate as a part of memory's bandwidth in the same rounds.
///
/// # Errors
/// Two ladders of the same format.
pub fn ladders_plot(ladders: &[&Ladder]) -> Result<BarPlot> {
    let kernels = ladders.iter().flat_map(|ladder| (0..=ladder.kernels()).map(move |index| (*ladder, index)));
    let shown: Vec<(String, Statistics)> = kernels
        .filter_map(|(ladder, index)| {
            Some((format!("{}: {}", ladder.format, ladder.names.get(index)?), ladder.of_memory(index)?))
        })
        .collect();
    let intervals = match Statistics::interval_names(shown.iter().map(|(_, part)| part)) {
        names if names.is_empty() => names,
        names => format!("{names} rounds"),
    };
    BarPlot::new("How much of memory's bandwidth each kernel uses")
        .y("of the bandwidth", "%")
        .bars(shown.iter().map(|(name, part)| (name.as_str(), percent(*part))))?
        .intervals(intervals)
        .reference_line(100.0, "memory")
}

/// The learner's fastest kernel of each format beside the library's.
pub fn ladders_table(ladders: &[&Ladder]) -> Table {
    let best: Vec<(&Ladder, usize)> =
        ladders.iter().filter_map(|ladder| ladder.best().map(|index| (*ladder, index))).collect();
    let of = |value: fn(&Ladder, usize) -> Option<Statistics>| best.iter().map(move |(ladder, at)| value(ladder, *at));
    let medals = of(|ladder, at| ladder.of_library(at)).map(|times| times.and_then(|times| Medal::of(times.median)));
    Table::new("Your fastest kernels")
        .column("format", "", best.iter().map(|(ladder, _)| ladder.format.clone()))
        .column("kernel", "", best.iter().map(|(ladder, at)| ladder.names[*at].clone()))
        .column("weights", "10^9/s", best.iter().map(|(ladder, at)| ladder.weights_per_s(*at)))
        .column("of memory", "%", of(|ladder, at| ladder.of_memory(at)).map(|part| part.map(percent)))
        .column("against the library", "times as fast", of(|ladder, at| ladder.of_library(at)))
        .column("medal", "", medals.map(|medal| medal.map_or_else(|| "-".to_owned(), |medal| medal.to_string())))
        .note("your fastest by the median of GB/s")
        .note("gold from 0.9 times the library's speed on, silver from 0.6, bronze from 0.3, by the median; no points")
}

/// In words: each step against the one before, and the fastest against memory and the library.
pub fn ladder_summary(ladders: &[&Ladder]) -> Summary {
    let mut summary = Summary::new("What this run shows");
    for ladder in ladders {
        for index in 1..ladder.kernels() {
            if let Some(times) = ladder.against(index, index - 1) {
                let [before, name] = [index - 1, index].map(|at| &ladder.names[at]);
                let (words, told) = (in_words(&times), told_apart(times));
                summary =
                    summary.point(format!("{}: {name} read {words} as fast as {before} ({told}).", ladder.format));
            }
        }
        let best = ladder.best().and_then(|best| Some((best, ladder.of_memory(best)?, ladder.of_library(best)?)));
        if let Some((best, part, times)) = best {
            let medal = Medal::of(times.median).map_or_else(|| "no medal".to_owned(), |medal| medal.to_string());
            let Statistics { median, low, high, .. } = part;
            summary = summary.point(format!(
                "{}: your fastest, {}, used {:.0} [{:.0}, {:.0}]% of the bandwidth, and was {} as fast as the library's \
                 ({}): {medal}.",
                ladder.format,
                ladder.names[best],
                100.0 * median,
                100.0 * low,
                100.0 * high,
                in_words(&times),
                told_apart(times)
            ));
        }
    }
    summary
}

fn in_words(Statistics { median, low, high, .. }: &Statistics) -> String {
    format!("{median:.2} [{low:.2}, {high:.2}] times")
}

/// Kernels of a ladder as points for `roofline`, each with the work that a product of the matrix takes: a name, operations per
/// byte, and 10^9 operations per second.
pub(super) fn roofline_points(ladder: &Ladder, kernels: &[(&str, Work)]) -> Vec<(String, f64, Estimate)> {
    let point = |(name, work): &(&str, Work)| {
        let gops = ladder.gops(ladder.index(name)?, work)?;
        Some((format!("{}: {name}", ladder.format), work.intensity(), gops))
    };
    kernels.iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson_7::ladder::tests::ladder;

    #[test]
    fn pictures_tables_and_words_are_of_the_same_numbers() {
        let ladder = ladder();
        let text = ladder_summary(&[&ladder]).to_string();
        assert!(text.contains("vectors read 2.00 [2.00, 3.00] times as fast as one sum (faster)"), "{text}");
        assert!(text.contains("used 40 [40, 60]% of the bandwidth, and was 0.50 [0.50, 0.75] times as fast"), "{text}");
        assert!(text.contains("(slower): bronze."), "{text}");
        let table = ladders_table(&[&ladder, &Ladder::default()]);
        assert!(table.rows() == 1 && table.to_text().contains("bronze"), "{}", table.to_text());
        assert_eq!(ladders_plot(&[&ladder]).unwrap().table().rows(), 3);
        assert!(ladders_plot(&[&Ladder::default()]).is_ok());
        let work = Work { operations: 5e8, bytes: 2e9 };
        let points = roofline_points(&ladder, &[("vectors", work), ("nobody", work)]);
        assert_eq!(points, [("float32: vectors".to_owned(), 0.25, Estimate::new(3.0, 3.0, 4.0))]);
    }
}
