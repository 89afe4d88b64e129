//! What is measured of a model, and how it is shown.

#[path = "../common/mod.rs"]
mod common;
mod measuring;
mod pictures;
mod quality;
