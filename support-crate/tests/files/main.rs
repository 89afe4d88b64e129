//! What people have: files of models, as the Hub and other packages write them, whole, damaged or hostile.

mod checkpoints;
#[path = "../common/mod.rs"]
mod common;
mod gguf;
mod hub;
mod loading;
mod malformed;
mod saving;
