//! Families of models: the same numbers as transformers, by this library's own decoder and by candle-transformers, and
//! everything above `CausalLm`.
//!
//! `golden` is made by `make_golden.py`.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod oracle;
mod own;
mod parity;
mod refused;
mod whole;
