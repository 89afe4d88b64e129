//! How the values of `quant`, `model`, `generate` and `measure` show at the end of a cell.

use super::display::{escape_html, show};
use super::estimate::Estimate;
use super::number::significant;
use super::table::Table;
use crate::generate::Generation;
use crate::measure::{
    DecodeLimit, ItemComparison, ItemScores, MIB, MemoryFootprint, Metrics, Perplexity, QualityComparison, Statistics,
    Timing,
};
use crate::model::Loaded;
use crate::quant::{Calibration, CalibrationMethod, Granularity, LayerCalibration};
use crate::serve::ServingReport;

macro_rules! shown_as_tables {
    ($($shown:ty),*) => {$(
        impl $shown {
            /// Shows the numbers as a notebook cell's value.
            pub fn evcxr_display(&self) {
                self.table().evcxr_display();
            }
        }
    )*};
}

shown_as_tables!(
    Timing,
    Metrics,
    Perplexity,
    Calibration,
    MemoryFootprint,
    DecodeLimit,
    QualityComparison,
    ItemScores,
    ItemComparison,
    ServingReport
);

impl From<Statistics> for Estimate {
    fn from(statistics: Statistics) -> Self {
        Self::new(statistics.median, statistics.low, statistics.high)
    }
}

impl From<&Statistics> for Estimate {
    fn from(statistics: &Statistics) -> Self {
        (*statistics).into()
    }
}

impl Timing {
    /// The timing as a table of one row per quantity: median, interval, unit.
    pub fn table(&self) -> Table {
        let Self { batch_size, prompt_tokens, runs, .. } = self;
        let tokens_generated = self.token_ms.len();
        let title = match batch_size {
            1 => format!("{tokens_generated} new tokens after a prompt of {prompt_tokens}"),
            _ => format!("{batch_size} x {tokens_generated} new tokens after prompts of {prompt_tokens}"),
        };
        let mut table = Table::new(title).headings([("quantity", ""), ("median", ""), ("interval", ""), ("unit", "")]);
        let decode = self.decode_runs.as_ref().map(|_| ("decode_tokens_per_sec", self.decode_tokens_per_s, "tokens/s"));
        let measured = [
            ("total_latency_s", runs.latency_s, "s"),
            ("tokens_per_sec", runs.tokens_per_s, "tokens/s"),
            ("avg_latency_per_token_ms", runs.per_token_ms, "ms"),
            ("ttft_ms (prefill)", self.ttft_ms, "ms"),
        ];
        for (name, statistics, unit) in measured.into_iter().chain(decode) {
            table = table.row((name, figure(statistics.median), interval(&statistics), unit));
        }
        let of_all = (batch_size * tokens_generated).to_string();
        table.row(("tokens_generated", of_all, String::new(), "tokens")).note(self.note())
    }

    /// The small print of a table or plot: what this was measured on, and what the interval is.
    pub fn note(&self) -> String {
        let Statistics { confidence, n, .. } = self.runs.latency_s;
        let cache = match (self.use_cache, self.cache_format) {
            (false, _) => "no KV cache".to_owned(),
            (true, None) => "KV cache".to_owned(),
            (true, Some(dtype)) => format!("{dtype} KV cache"),
        };
        let runs = match n {
            1 => "1 run".to_owned(),
            _ => format!("median of {n} runs with its {:.0}% interval", confidence * 100.0),
        };
        format!("{} | {cache} | {runs}", self.run)
    }
}

impl Metrics {
    /// The figures as a table of one row each.
    pub fn table(&self) -> Table {
        Table::new(format!("{} new tokens, one run", self.tokens_generated))
            .headings([("quantity", ""), ("value", ""), ("unit", "")])
            .row(("total_latency_s", figure(self.total_latency_s), "s"))
            .row(("tokens_generated", self.tokens_generated.to_string(), "tokens"))
            .row(("tokens_per_sec", figure(self.tokens_per_sec), "tokens/s"))
            .row(("avg_latency_per_token_ms", figure(self.avg_latency_per_token_ms), "ms/token"))
    }
}

impl Perplexity {
    /// The perplexity as a table of one row per quantity.
    pub fn table(&self) -> Table {
        let bits = self.bits_per_byte.map_or_else(String::new, figure);
        Table::new("Perplexity")
            .headings([("quantity", ""), ("value", ""), ("unit", "")])
            .row(("perplexity", figure(self.perplexity), "tokens to choose from"))
            .row(("mean negative log-likelihood", figure(self.mean_nll), "nats/token"))
            .row(("bits per byte", bits, "bits/byte"))
            .row(("tokens predicted", self.tokens.to_string(), "tokens"))
            .note(self.run.to_string())
    }
}

impl Calibration {
    /// The calibration as a table of one row per layer. Scales and magnitudes are in the unit of the layer's
    /// inputs; with a scale per channel, a percentile is that of the channel where it is largest.
    pub fn table(&self) -> Table {
        let layers = self.layers();
        let scale = |end: fn((f32, f32)) -> f32| layers.iter().map(move |layer| end(layer.scale.range()));
        let mut table = Table::new(format!("Calibration: {self}"))
            .column("layer", "", layers.iter().map(|layer| &layer.layer))
            .column("tokens", "", layers.iter().map(|layer| layer.tokens))
            .column("channels", "", layers.iter().map(|layer| layer.channels));
        table = match self.granularity() {
            Granularity::PerTensor => table.column("scale", "", scale(|(scale, _)| scale)).digits("scale", 3),
            Granularity::PerChannel => table
                .column("smallest scale", "", scale(|(smallest, _)| smallest))
                .digits("smallest scale", 3)
                .column("largest scale", "", scale(|(_, largest)| largest))
                .digits("largest scale", 3),
        };
        table = table.column("absmax", "", layers.iter().map(|layer| layer.absmax)).digits("absmax", 3);
        match self.method() {
            CalibrationMethod::AbsMax => table,
            CalibrationMethod::Percentile(_) => table
                .column("percentile", "", layers.iter().map(LayerCalibration::largest_unclipped))
                .digits("percentile", 3)
                .column("clipped", "%", layers.iter().map(|layer| 100.0 * layer.clipped))
                .decimals("clipped", 3),
        }
    }
}

impl MemoryFootprint {
    /// The footprint as a table: parameters, buffers, and both; beside it the scales of quantized weights.
    pub fn table(&self) -> Table {
        let mib = |bytes: usize| bytes as f64 / MIB;
        let table = Table::new("Memory of the model")
            .headings([("part", ""), ("size", "MiB")])
            .row(("parameters", mib(self.parameter_bytes)))
            .row(("buffers", mib(self.buffer_bytes)))
            .row(("total", self.mib()));
        let scales = (self.scale_bytes > 0).then(|| ("scales, beside the total", mib(self.scale_bytes)));
        scales.into_iter().fold(table, Table::row).decimals("size", 2)
    }
}

impl DecodeLimit {
    /// The limit as a table, with what it is made of.
    pub fn table(&self) -> Table {
        Table::new("Memory's limit on decoding one sequence")
            .headings([("quantity", ""), ("value", ""), ("unit", "")])
            .row(("weights read per token", figure(self.bytes_per_token as f64 / 1e6), "MB"))
            .row(("memory bandwidth", figure(self.gb_per_s), "GB/s"))
            .row(("limit", figure(self.tokens_per_s()), "tokens/s"))
    }
}

impl Generation {
    /// Shows the text, the prompt set off from what was generated.
    pub fn evcxr_display(&self) {
        let text = format!("{}{}", self.prompt, self.text);
        let html = format!(
            "<div style=\"white-space: pre-wrap; max-width: 46em; line-height: 1.5\"><b>{}</b>{}</div>\
             <div style=\"opacity: 0.65; font-size: 85%\">{}</div>",
            escape_html(&self.prompt),
            escape_html(&self.text),
            self.note(),
        );
        show(&text, &html);
    }

    /// The small print: how many tokens, how they were chosen, and why there are no more.
    pub fn note(&self) -> String {
        let Self { prompt_tokens, truncated_tokens, finish_reason, .. } = self;
        let truncated = match truncated_tokens {
            0 => String::new(),
            n => format!(" (after {n} that were cut off)"),
        };
        let chosen = self.seed.map_or_else(|| "greedy".to_owned(), |seed| format!("sampled with seed {seed}"));
        let new_tokens = self.tokens.len();
        format!(
            "{prompt_tokens} prompt tokens{truncated}, {new_tokens} new tokens, {chosen}, finish_reason {finish_reason}"
        )
    }
}

impl Loaded {
    /// Shows what was loaded, and what could not be.
    pub fn evcxr_display(&self) {
        let mut lines = vec![self.summary()];
        lines.extend(self.skipped.iter().map(|s| format!("Skipped: {}: {}", s.model_id, s.reason)));
        let text = lines.join("\n");
        show(&text, &format!("<pre>{}</pre>", escape_html(&text)));
    }
}

pub(super) fn figure(value: f64) -> String {
    significant(value, 4)
}

fn interval(statistics: &Statistics) -> String {
    if statistics.n < 2 {
        return String::new();
    }
    format!("{} to {}", figure(statistics.low), figure(statistics.high))
}
