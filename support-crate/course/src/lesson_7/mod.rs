//! Lesson 7: your own kernel, from one sum to vectors, blocks and threads, against the roofline.

mod dots;
mod four_bit;
mod int8;
mod kernels;
mod ladder;
mod matrices;
mod models;
mod picture;
mod rows;
mod threads;
pub mod vectors;
mod work;

/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, Score, ask, attempt, attempt_or, claim};
pub use dots::{check_dot_in_lanes, check_dot_vectors, check_four_dots};
pub use four_bit::{check_decode_nf4, check_dot_nf4};
pub use int8::{check_dot_int8, check_matvec_int8};
pub use kernels::{batch_ladder, each_row, float32_ladder, int8_ladder, kernels_roofline, nf4_ladder};
pub use ladder::{Ladder, Medal, Step};
pub use matrices::Matrices;
pub use models::{Limits, ModelRun, arithmetic_gain, model_runs, model_table, models_roofline};
pub use picture::{ladder_summary, ladders_plot, ladders_table};
pub use rows::check_in_blocks;
pub use threads::check_in_threads;
pub use vectors::{all, has_vectors, load, look_up, mul_add, sum};
pub use work::{Work, check_least_seconds, check_work};
