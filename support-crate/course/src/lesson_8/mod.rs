//! Lesson 8: serving.

mod cache;
mod caches;
mod choice;
mod drafts;
mod drawing;
mod guesses;
mod prefixes;
mod scheduling;
mod serving;
mod simulation;
mod trials;

/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, SavedAs, Score, ask, attempt, attempt_or, claim};
pub use cache::{Along, GROUP, check_head_bytes, check_round_cache};
pub use caches::{
    KeysAndValues, bits_ratio, cache_claims, cache_divergence, cache_memory_table, cache_quality, cache_quality_plot,
    cache_quality_table, directions_table, formula_agrees,
};
pub use choice::{ServingRow, budget_table, serving_rows, serving_table};
pub use drafts::{
    DraftRun, Draws, OwnText, best_speed, draft_runs, drafts_plot, drafts_speed_table, drafts_table, guess_claims,
    own_texts, speed_of_draft,
};
pub use drawing::{check_draw_or_keep, check_tokens_per_pass};
pub use guesses::{check_kept, check_look_up};
pub use prefixes::{CachedBlock, block_key, check_cached_tokens, check_evicted};
#[doc(no_inline)]
pub use quantlab::serve::{
    Plan, Request, RequestState, ServerOptions, ServingReport, View, first_come, poisson_arrivals, serve, simulate,
    static_batch,
};
pub use scheduling::check_plan;
pub use serving::{
    PrefixRun, RateRun, StepCost, batching_gain, jobs_of, knee_plot, rate_runs, rates_table, requests, same_as_alone,
    served_timeline, steps_at_once,
};
pub use simulation::{Job, Progress, check_percentile, check_simulated, view_at};
