//! Families of models: the same numbers as transformers on every engine, and everything above `CausalLm`.
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
