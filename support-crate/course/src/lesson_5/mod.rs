//! Lesson 5: outliers.

mod channels;
mod cures;
mod layers;
mod reference;
mod report;
mod rounding;
mod scales;
mod split;
mod turning;

pub use crate::held_out_samples;
/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, SavedAs, Score, ask, attempt, attempt_or, claim};
pub use channels::{check_largest_by_channel, check_peak_to_rms};
pub use cures::{BestScales, Cure, Format, Study, Try, awq_fold, powers, rotation_fold, same_scales, smooth_fold};
pub use layers::{
    FoldScales, FourBits, LlmInt8, RoundTo, Smoothing, Split, Turn, attention_of, awq_curve, four_bits, product,
    reading, roundings, signs, smoothed, splits, turned_peaks, unsmoothed,
};
#[doc(no_inline)]
pub use quantlab::model::{Site, SiteNumbers};
pub use report::{
    Peaks, awq_plot, channel_ratio, channels, collapse_claims, cost_table, cure_plot, cure_table, cured_claims,
    four_bit_claims, four_bit_plot, heat_map, kl_divergence_of, peaks, peaks_table, roundings_claims, roundings_table,
    smoothed_claims, smoothed_plot, split_table, times, turned_claims, turned_share,
};
pub use rounding::{Per, check_round_to};
pub use scales::{check_awq_scales, check_best_scales, check_fold_scales, check_smoothing};
pub use split::check_llm_int8;
pub use turning::{check_hadamard, check_turn};
