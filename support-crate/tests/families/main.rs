//! Families that candle-transformers computes: the same numbers as transformers, and everything above `CausalLm`.
//!
//! `golden` is made by `make_golden.py`.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod oracle;
mod parity;
mod refused;
mod whole;
