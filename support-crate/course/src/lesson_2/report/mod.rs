//! What the lesson draws and sums up.

mod quality;
mod tables;

pub use quality::{ScalesRow, batching_summary, quantization_summary, scales_table};
pub(super) use quality::{ablation_point, batching_point};
pub use tables::{
    FormatRow, ablation_table, batching_plot, batching_table, cache_plot, cache_savings_table, edge_table,
    formats_plot, formats_table, int8_table, padded_tokens, padding_table, waiting_plot,
};
