//! What the model is trained on: the Rust documentation, and plain English that is generated.
//!
//! Documentation comes from the toolchain's own `rust-docs` component and is read once. English is
//! generated without end, from a seeded random number generator, so nothing of it has to be stored.

pub mod docs;
pub mod english;
pub mod facts;
mod facts_data;
pub mod html;
pub mod openings;
pub mod stories;
mod story_frame;
mod story_plots;
mod story_words;
