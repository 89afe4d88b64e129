//! How values with a standard error, and comparisons made of them, show at the end of a cell and as text.

use std::fmt;

use super::estimate::Estimate;
use super::measured::figure;
use super::number::{decimals_for, fixed, magnitude, needs_exponent, significant};
use super::table::Table;
use crate::measure::{GreedyDifference, Percentiles, QualityComparison, Uncertain};

/// Standard errors to each side that make a 95% interval of a normal distribution.
const Z_95: f64 = 1.96;

/// The 95% interval.
impl From<Uncertain> for Estimate {
    fn from(uncertain: Uncertain) -> Self {
        Self::plus_minus(uncertain.value, Z_95 * uncertain.standard_error)
    }
}

impl From<&Uncertain> for Estimate {
    fn from(uncertain: &Uncertain) -> Self {
        (*uncertain).into()
    }
}

impl fmt::Display for Uncertain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, error) = (self.value, Z_95 * self.standard_error);
        let largest = value.abs().max(error);
        // An error smaller than this is a rounding error, and the value has no digit to be rounded to.
        if error <= 1e-12 * value.abs() || !error.is_finite() || !value.is_finite() {
            write!(f, "{} \u{b1} {}", significant(value, 4), significant(error, 2))
        } else if needs_exponent(largest) {
            let exponent = magnitude(largest);
            let scale = 10_f64.powi(-exponent);
            write!(f, "({})e{exponent}", *self * scale)
        } else {
            // 0.0996 is rounded to 0.10 first, so that it has two digits, not three.
            let rounded = format!("{error:.1e}").parse().unwrap_or(error);
            let digits = |number: f64| match magnitude(rounded) - 1 {
                tens @ 1.. => fixed((number / 10_f64.powi(tens)).round() * 10_f64.powi(tens), 0),
                _ => fixed(number, decimals_for(rounded, 2)),
            };
            write!(f, "{} \u{b1} {}", digits(value), digits(error))
        }
    }
}

impl fmt::Display for QualityComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tokens, base_perplexity, perplexity, perplexity_ratio, kl_divergence, same_top_token, .. } = self;
        let same = *same_top_token * 100.0;
        writeln!(f, "perplexity {perplexity}, of the base {base_perplexity}: ratio {perplexity_ratio}")?;
        writeln!(f, "KL divergence {kl_divergence} nats, same top token {same} %, over {tokens} tokens")?;
        if let Some(greedy) = self.greedy_in_words() {
            writeln!(f, "greedy texts that differ: {greedy}")?;
        }
        write!(f, "base: {}\nother: {}", self.base_run, self.run)
    }
}

impl QualityComparison {
    /// The comparison as a table of one row per quantity.
    pub fn table(&self) -> Table {
        let Self { base_run, run, tokens, .. } = self;
        let (choose, nats, points) = ("tokens to choose from", "nats/token", "percentage points");
        let rows = [
            ("perplexity of the base", self.base_perplexity.to_string(), choose),
            ("perplexity", self.perplexity.to_string(), choose),
            ("ratio of perplexities", self.perplexity_ratio.to_string(), ""),
            ("ln(ratio)", self.log_perplexity_ratio.to_string(), nats),
            ("difference of perplexities", self.perplexity_difference.to_string(), choose),
            ("correlation of ln(perplexity)", figure(self.log_perplexity_correlation), ""),
            ("KL divergence, mean", self.kl_divergence.to_string(), nats),
            (
                "KL divergence, median, 90%, 99%, maximum",
                listed(&self.kl_percentiles, [50.0, 90.0, 99.0, 100.0], 1.0),
                nats,
            ),
            ("change of true token's probability, mean", (self.probability_change * 100.0).to_string(), points),
            ("change of true token's probability, RMS", (self.rms_probability_change * 100.0).to_string(), points),
            (
                "change of true token's probability, 1%, 25%, 50%, 75%, 99%",
                listed(&self.probability_change_percentiles, [1.0, 25.0, 50.0, 75.0, 99.0], 100.0),
                points,
            ),
            ("same top token", (self.same_top_token * 100.0).to_string(), "% of tokens"),
        ];
        let greedy = self.greedy_in_words().map(|greedy| ("greedy texts that differ", greedy, ""));
        let against = if run.model == base_run.model { String::new() } else { format!("{} in ", base_run.model) };
        let title = format!("{} in {}, against {against}{}", run.model, run.dtype, base_run.dtype);
        let table = Table::new(title).headings([("quantity", ""), ("value", ""), ("unit", "")]);
        rows.into_iter()
            .chain(greedy)
            .fold(table, Table::row)
            .note(format!("{tokens} tokens | \u{b1}: 95% interval, as if the tokens were independent: a lower bound"))
            .note(format!("base: {base_run}"))
            .note(format!("other: {run}"))
    }

    /// How many greedy texts differ, and from where on; `None` if none were compared.
    fn greedy_in_words(&self) -> Option<String> {
        let texts: Vec<&GreedyDifference> = self.greedy.iter().filter(|text| text.tokens_compared > 0).collect();
        let differing = texts.iter().filter_map(|text| text.first_difference);
        let (count, of) = (differing.clone().count(), texts.len());
        (of > 0).then(|| match (differing.clone().min(), differing.max()) {
            (Some(first), Some(last)) if first == last => format!("{count} of {of}, after {first} equal tokens"),
            (Some(first), Some(last)) => format!("{count} of {of}, after {first} to {last} equal tokens"),
            _ => format!("0 of {of}"),
        })
    }
}

/// Percentiles in another unit.
fn listed<const N: usize>(percentiles: &Percentiles, percents: [f64; N], factor: f64) -> String {
    let written = percents.map(|percent| percentiles.at(percent).map(|value| significant(value * factor, 2)));
    written.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    fn shown(value: f64, error: f64) -> String {
        Uncertain { value, standard_error: error / Z_95 }.to_string().replace('\u{b1}', "+-")
    }

    #[test]
    fn the_error_has_two_digits_and_the_value_ends_where_it_does() {
        assert_eq!(shown(0.01234, 0.00213), "0.0123 +- 0.0021");
        assert_eq!(shown(0.968_368, 0.045_924), "0.968 +- 0.046");
        assert_eq!(shown(502.395, 73.139), "502 +- 73");
        assert_eq!(shown(12_345.6, 562.0), "12,350 +- 560");
        assert_eq!(shown(-16.41, 9.96), "-16 +- 10");
        assert_eq!(shown(1.5, 0.0996), "1.50 +- 0.10");
        assert_eq!(shown(3.0, 996.0), "0 +- 1,000");
        assert_eq!(shown(1.5e-8, 3.04e-9), "(1.50 +- 0.30)e-8");
        assert_eq!(shown(2.5e-9, 1.2e-7), "(0.0 +- 1.2)e-7");
        assert_eq!(shown(1.0, 0.0), "1.000 +- 0");
        assert_eq!(shown(0.0, 0.0), "0 +- 0");
        assert_eq!(shown(384.0, 1.2e-14), "384.0 +- 1.2e-14");
        assert_eq!(shown(f64::INFINITY, f64::NAN), "inf +- NaN");
    }

    #[test]
    fn an_estimate_is_the_interval_of_95_percent() {
        let estimate = Estimate::from(&Uncertain { value: 2.0, standard_error: 0.5 });
        assert_eq!((estimate.value, estimate.half_width()), (2.0, 0.98));
        assert_eq!(Cell::from(Uncertain { value: 2.0, standard_error: 0.5 }), Cell::Estimate(estimate));
    }
}
