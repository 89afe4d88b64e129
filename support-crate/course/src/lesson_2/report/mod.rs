//! What the lesson draws and sums up, and what the whole exercise gives.

mod quality;
mod tables;

use std::fmt;

use quantlab::measure::Runs;
use quantlab::report::{Summary, Table, escape_html, show};

use super::{AblationRun, BatchRun, EdgeRun, LengthComparison, ModelPpl, ScenarioRun};

pub use quality::{ScalesRow, batching_summary, quantization_summary, scales_table};
pub(super) use quality::{ablation_point, batching_point};
pub use tables::{
    FormatRow, ablation_table, batching_plot, batching_table, cache_plot, cache_savings_table, edge_table,
    formats_plot, formats_table, int8_table, padded_tokens, padding_table, waiting_plot,
};
/// The result of every step, a table of all of them, and the conclusions.
#[derive(Debug, Clone)]
pub struct QuantizationReport {
    /// `Loaded: <model id> | device=<device> | dtype=<label>`, of the baseline.
    pub header: String,
    /// All prompts, as one batch, with the baseline.
    pub baseline: Runs,
    /// The same with the quantized model.
    pub quantized: Runs,
    /// Engine and precision of the quantized model.
    pub info: String,
    /// The baseline on a GPU, where there is one: its precision and its runs.
    pub gpu: Option<(String, Runs)>,
    /// Both models at each prompt length.
    pub lengths: Vec<LengthComparison>,
    /// Cache and padding.
    pub ablation: Vec<AblationRun>,
    /// Batch sizes.
    pub batching: Vec<BatchRun>,
    /// Baseline and quantized model on the same texts.
    pub ppl: Vec<ModelPpl>,
    /// Unusual prompts.
    pub edge: Vec<EdgeRun>,
    /// All scenarios.
    pub table: Table,
    /// Three to five findings, with their numbers.
    pub takeaways: Vec<String>,
}

impl QuantizationReport {
    /// Shows the report as a notebook cell's value.
    pub fn evcxr_display(&self) {
        let points: String = self.takeaways.iter().map(|point| format!("<li>{}</li>", escape_html(point))).collect();
        let html = format!(
            "<pre>{}</pre>{}<b>Takeaways</b><ul style=\"max-width: 46em; line-height: 1.5\">\
             {points}</ul>",
            escape_html(&self.steps()),
            self.table.to_html()
        );
        show(&self.to_string(), &html);
    }

    /// All that was timed, as rows of one table.
    pub(super) fn scenarios(&self, baseline: &str, quantized: &str) -> Vec<ScenarioRun> {
        let row = |scenario: String, dtype: &str, runs: &Runs, ppl: Option<&ModelPpl>| ScenarioRun {
            scenario,
            dtype: dtype.to_owned(),
            runs: runs.clone(),
            ppl: ppl.map(|row| row.ppl),
        };
        let mut rows = vec![
            row("baseline".to_owned(), baseline, &self.baseline, self.ppl.first()),
            row("static int8".to_owned(), quantized, &self.quantized, self.ppl.get(1)),
        ];
        rows.extend(self.gpu.iter().map(|(dtype, runs)| row("baseline on the GPU".to_owned(), dtype, runs, None)));
        for length in &self.lengths {
            let name = format!("prompt of {} tokens", length.prompt_tokens);
            rows.push(row(name.clone(), baseline, &length.baseline, None));
            rows.push(row(name, quantized, &length.quantized, None));
        }
        let on_baseline = |name: String, runs: &Runs| row(name, baseline, runs, None);
        rows.extend(self.ablation.iter().map(|it| on_baseline(it.setting(), &it.runs)));
        rows.extend(self.batching.iter().map(|it| on_baseline(format!("batch {}", it.batch_size), &it.runs)));
        rows.extend(self.edge.iter().map(|it| on_baseline(format!("prompt {}", it.name), &it.runs)));
        rows
    }

    /// A line for each thing that was measured, before the table.
    fn steps(&self) -> String {
        let mut timed = vec![("baseline".to_owned(), &self.baseline), (format!("[1] {}", self.info), &self.quantized)];
        timed.extend(self.gpu.iter().map(|(label, runs)| (label.clone(), runs)));
        for row in &self.lengths {
            timed.push((format!("[1] {} tokens, baseline", row.prompt_tokens), &row.baseline));
            timed.push((format!("[1] {} tokens, quantized", row.prompt_tokens), &row.quantized));
        }
        timed.extend(self.ablation.iter().map(|row| (format!("[2] {}", row.setting()), &row.runs)));
        timed.extend(self.batching.iter().map(|row| (format!("[3] batch size {}", row.batch_size), &row.runs)));
        let width = timed.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let timed = timed.into_iter().map(|(name, Runs { latency_s, tokens_per_s, per_token_ms, .. })| {
            let [latency, throughput, per_token] = [latency_s, tokens_per_s, per_token_ms].map(|of| of.median);
            format!("{name:<width$} | latency (s): {latency:.3} | tokens/s: {throughput:.1} | ms/token: {per_token:.3}")
        });
        let ppl = self.ppl.iter().map(|row| format!("[4] {}: loss {:.4}, ppl {:.3}", row.label, row.loss, row.ppl));
        let edge = self.edge.iter().map(|row| {
            let (name, tokens, rate) = (&row.name, row.prompt_tokens, row.runs.tokens_per_s.median);
            let notes = [&row.speed_note, &row.text_note].into_iter().filter(|note| !note.is_empty());
            let notes: String = notes.map(|note| format!(" | {note}")).collect();
            format!("[5] {name}: prompt tokens: {tokens} | tokens/s: {rate:.1}{notes}")
        });
        let header = [self.header.clone(), "== FP32 Baseline ==".to_owned()];
        header.into_iter().chain(timed).chain(ppl).chain(edge).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for QuantizationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takeaways = self.takeaways.iter().fold(Summary::new("Takeaways"), |all, point| all.point(point));
        write!(f, "{}\n{}\n{takeaways}", self.steps(), self.table.to_text())
    }
}
