//! What the lessons need: checks that score an answer, with messages and hints.
//!
//! A check calls the learner's function on cases whose answers are known: with a clock that only the probes
//! move ([`probe`]), a hub whose models are known, a text whose loss is known. It looks at what the function
//! does, never at how it is spelled. Its value is a [`Score`]: as text the number of points, which is what
//! nbgrader reads; as HTML a card with what passed, what did not and why, and hints to open one by one.
//!
//! An unfinished answer (`todo!()`) is no accident here: checks say "not yet", and cells that use the
//! answer go through [`attempt`].

mod card;
mod lesson_1;
mod lesson_2;
mod lesson_3;
mod lesson_4;
mod outcome;
mod prediction;
pub mod probe;
mod score;
mod self_check;

pub use lesson_1::{
    CacheRun, LengthRun, PrecisionRun, SweepConfig, cache_table, check_load_model_and_tokenizer, check_resolve_dtype,
    check_run_for_varied_lengths, check_run_varied_precision, check_time_generate, drift_summary, engines_table,
    latency_formula_table, latency_summary, lengths_table, precision_plot, precision_table, self_check_cache,
    self_check_lengths, self_check_precision,
};
pub use lesson_2::{
    AblationRun, BatchRun, BatchTimes, EdgePrompt, EdgeRun, ExerciseConfig, FormatRow, Int8Vector, LengthComparison,
    ModelPpl, QuantizationReport, ScalesRow, ScenarioRun, ablation_table, batching_plot, batching_summary,
    batching_table, cache_plot, cache_savings_table, check_ablate_cache_and_padding, check_build_results_table,
    check_compare_ppl, check_edge_prompts, check_int8_dot, check_quantize_affine, check_quantize_symmetric,
    check_run_static_ptq, check_summarise_batches, edge_table, formats_plot, formats_table, in_turn, int8_table,
    padded_tokens, padding_table, probe_edge_prompts, quantization_summary, run_quantization_exercise, scales_table,
    self_check_ablation, self_check_batching, self_check_int8, self_check_padding, self_check_quality, time_batch,
    time_batches, waiting_plot,
};
pub use lesson_3::{
    Evaluation, LossSum, PaddedBatch, check_evaluate, check_kl_divergence, check_log_softmax_at, check_pad_batch,
    check_sequence_loss, kinds_of_text, quality_in_words, speed_against_first, student_t_95,
};
pub use lesson_4::{
    Configuration, ExperimentResult, ExperimentRow, ExperimentSettings, FormatQuality, FormatSpeed, SampleLayer,
    check_configurations, check_dequantize_block, check_generate_text_and_time, check_get_model_memory_footprint,
    check_quantize_block, check_run_experiment, code_shares, compare_formats, decode_plot, decode_table,
    experiment_table, formats_frame, formats_summary, held_out_samples, latency_table, memory_parts_mib, quality_table,
    sample_layer, scaled_density, short_name, speed_trade_off, time_formats, typical_absmax,
};
pub(crate) use outcome::Verdict;
pub use outcome::{Complaint, ask, attempt, attempt_or};
pub use prediction::Prediction;
pub use score::{Check, Score, Sealed};
pub use self_check::SelfCheck;
