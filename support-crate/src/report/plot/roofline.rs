//! Rooflines: how much of what a machine can do some work reaches, and which of its limits it is near.

use crate::error::{Error, Result};
use crate::report::{Estimate, LinePlot};

/// Work under the roofs of a machine (Williams, Waterman and Patterson 2009, *Roofline: an insightful visual performance
/// model*). Across: operations for each byte that the work reads from memory. Up: operations per second. Left of its
/// ridge a roof rises by the bandwidth of memory, in 10^9 bytes per second; right of it, it is as high as the arithmetic
/// of its kind of number, in 10^9 operations per second ([`peak_gops`](crate::measure::peak_gops)). A multiply-add counts as
/// two operations.
///
/// `points` are name, operations per byte, and 10^9 operations per second.
///
/// ```
/// use quantlab::report::{Estimate, roofline};
///
/// let decode = ("decode, float32", 0.5, Estimate::new(13.0, 12.1, 13.4));
/// let prefill = ("prefill of 512 tokens, float32", 256.0, 170.0.into());
/// let plot = roofline("What limits a model", 28.0, &[("float32", 205.0), ("int8", 1100.0)], &[decode, prefill])?;
/// assert!(plot.to_svg()?.contains("operations per byte"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// A bandwidth, a peak or a point that is not above 0; no peak.
pub fn roofline(
    title: impl Into<String>,
    gb_per_s: f64,
    peaks: &[(&str, f64)],
    points: &[(&str, f64, Estimate)],
) -> Result<LinePlot> {
    if peaks.is_empty() {
        return Err(Error::input("a roofline without a peak has no roof").hint("give one for each kind of number"));
    }
    let limits = [("bandwidth", gb_per_s)];
    let across = points.iter().map(|(name, x, _)| (*name, *x));
    let up = points.iter().map(|(name, _, y)| (*name, y.value));
    for (name, value) in limits.into_iter().chain(peaks.iter().copied()).chain(across).chain(up) {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::input(format!("a roofline has logarithmic axes, and `{name}` is {value}"))
                .hint("leave out what was not measured"));
        }
    }
    let ridges = peaks.iter().map(|(_, peak)| peak / gb_per_s);
    let xs: Vec<f64> = points.iter().map(|(_, x, _)| *x).chain(ridges).collect();
    let [left, right] =
        [xs.iter().copied().fold(f64::INFINITY, f64::min) / 2.0, xs.iter().copied().fold(0.0, f64::max) * 4.0];
    let mut plot = LinePlot::new(title)
        .x("operations per byte that memory delivers", "")
        .y("arithmetic", "10^9 operations/s")
        .log_x()
        .log_y();
    for (name, peak) in peaks {
        let ridge = peak / gb_per_s;
        plot = plot.theory(*name, [(left, left * gb_per_s), (ridge, *peak), (right, *peak)])?;
    }
    for (name, x, y) in points {
        plot = plot.points(*name, [(*x, *y)])?;
    }
    Ok(plot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roof_rises_to_its_ridge_and_is_flat_beyond() {
        let point = ("prefill", 100.0, Estimate::new(40.0, 39.0, 41.0));
        let plot = roofline("", 10.0, &[("float32", 50.0)], &[point]).unwrap();
        let rows = plot.table().to_text();
        let of_roof: Vec<&str> = rows.lines().filter(|line| line.starts_with("float32")).collect();
        assert_eq!(of_roof.len(), 3, "{rows}");
        assert!(of_roof[0].ends_with("25") && of_roof[1].ends_with("50") && of_roof[2].ends_with("50"), "{rows}");
        assert!(roofline("", 10.0, &[], &[point]).unwrap_err().to_string().contains("no roof"));
        for (gb_per_s, peak) in [(0.0, 50.0), (f64::NAN, 50.0), (10.0, -1.0)] {
            let error = roofline("", gb_per_s, &[("float32", peak)], &[point]).unwrap_err().to_string();
            assert!(error.contains("logarithmic"), "{error}");
        }
    }
}
