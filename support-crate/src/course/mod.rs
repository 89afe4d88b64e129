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

pub use lesson_1::{
    LengthRun, PrecisionRun, check_load_model_and_tokenizer, check_resolve_dtype, check_run_for_varied_lengths,
    check_run_varied_precision, check_time_generate,
};
pub use lesson_2::{
    AblationRun, BatchRun, EdgeRun, ExerciseConfig, ModelPpl, QuantizationReport, ScenarioRun,
    check_ablate_cache_and_padding, check_build_results_table, check_compare_ppl, check_measure_batched,
    check_probe_edge_prompts, check_run_quantization_exercise, check_run_static_ptq,
};
pub use lesson_3::{
    Evaluation, LossSum, PaddedBatch, check_evaluate, check_log_softmax_at, check_pad_batch, check_sequence_loss,
    check_time_reference_prompt,
};
pub use lesson_4::{
    Configuration, ExperimentResult, ExperimentRow, check_configurations, check_dequantize_block,
    check_generate_text_and_time, check_get_model_memory_footprint, check_quantize_block, check_run_experiment,
};
pub use outcome::{Complaint, ask, attempt, attempt_or};
pub use prediction::Prediction;
pub use score::{Check, Score};
