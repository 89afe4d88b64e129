//! Lesson 0: a transformer in one sitting, over plain slices.

mod attention;
mod blocks;
mod cache;
mod compare;
mod model;
mod products;
mod reference;
mod report;
mod rotation;
mod sampling;
mod speed;
pub(crate) mod trials;
mod writing;

/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, Score, ask, attempt, attempt_or, claim};
pub use attention::check_attend;
pub use blocks::{check_next_logits, check_run_block};
pub use cache::check_step;
pub use compare::{Difference, Parts, block_by_block, each_operation, largest_difference, where_they_differ};
pub use model::{Block, Cache, Llama, Sampling, Shape};
pub use products::{check_matvec, check_mlp, check_rms_norm};
pub use report::{differences_plot, differences_table, likely_tokens, nucleus_plot, nucleus_size};
pub use rotation::check_rotate;
pub use sampling::{check_draw, check_probabilities, uniform_numbers};
pub use speed::{Product, ReadRates, read_rates, speed_summary, speed_table};
pub use writing::check_write;
