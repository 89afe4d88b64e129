//! Lesson 6: three bits and below.

mod blocks;
mod clipping;
mod front;
mod gptq;
mod grid;
mod hessian;
mod layer;
mod report;
mod stored;
mod trials;
mod units;

/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, SavedAs, Score, ask, attempt, attempt_or, claim};
pub use crate::{Configuration, FormatQuality, compare_formats, held_out_samples, quality_table};
pub use blocks::{check_decode_q4_0, check_decode_q4_1, check_decode_q4_k, check_encode_q4_0};
pub use clipping::check_clipped_grid;
pub use front::{Choice, choices, divergence_from, front_claims, front_plot, front_table, measured, same_top_of};
pub use gptq::check_gptq_row;
pub use grid::{Grid, check_bits_per_weight, check_code_of, check_grid_between, float16, float16_bytes, from_float16};
pub use hessian::{check_hessian, inverse_factor};
pub use layer::{CalibratedLayer, CurvePoint, Errors, Feedback, GptqRow, Methods, Rounded, Way, largest_first};
#[doc(no_inline)]
pub use quantlab::{quant::Fit, source::GgmlType};
pub use report::{
    aware_claims, aware_quality, aware_table, clipping_claims, curve_claims, error_curves, error_ratio, errors_table,
    gptq_part, numbers_of, outputs_plot, units_claims, units_table, ways_claims, words_ratio,
};
pub use stored::{Agreed, StoredBlocks, agreed_claim, agreed_table, file_table};
pub use units::{Reading, check_four_numbers};
