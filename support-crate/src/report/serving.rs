//! How what a server did shows at the end of a cell.

use super::measured::figure;
use super::table::Table;
use crate::measure::Percentiles;
use crate::serve::ServingReport;

impl ServingReport {
    /// The report as a table: percentiles over requests, gaps or steps.
    pub fn table(&self) -> Table {
        let title = format!(
            "{} requests, {} new tokens in {} s: {} tokens/s",
            self.requests.len(),
            self.new_tokens(),
            figure(self.seconds()),
            figure(self.tokens_per_s())
        );
        let headings = [("quantity", ""), ("p50", ""), ("p90", ""), ("p99", ""), ("unit", "")];
        let mut table = Table::new(title).headings(headings);
        let rows = [
            ("time to first token", Some(self.ttft_s()), 1e3, "ms"),
            ("time per output token", self.tpot_s(), 1e3, "ms"),
            ("between two tokens", self.gap_s(), 1e3, "ms"),
            ("from arrival to the last token", Some(self.latency_s()), 1e3, "ms"),
            ("requests in a step", self.batch(), 1.0, ""),
        ];
        for (name, percentiles, factor, unit) in rows {
            let at = |percent| {
                let value = percentiles.as_ref().and_then(|percentiles: &Percentiles| percentiles.at(percent));
                value.map_or_else(String::new, |value| figure(factor * value))
            };
            table = table.row((name, at(50.0), at(90.0), at(99.0), unit));
        }
        table.note(self.note())
    }

    /// The small print: what the server could use and did, and what was measured on.
    pub fn note(&self) -> String {
        let on = self.run.as_ref().map_or_else(|| "simulated".to_owned(), ToString::to_string);
        let options = &self.options;
        let prefix = match options.prefix_cache {
            true => format!(", {} copied for {} requests", self.copied_tokens(), self.prefix_hits()),
            false => String::new(),
        };
        format!(
            "{on} | at most {} requests and {} tokens a step, {} tokens of cache | {} steps, {} tokens computed{prefix}",
            options.max_running,
            options.max_tokens_per_step,
            options.cache_tokens,
            self.steps.len(),
            self.computed_tokens(),
        )
    }
}
