//! Families of models: the same numbers as transformers on every engine, and everything above `CausalLm`.
//!
//! `golden` is made by `make_golden.py`.

mod cases;
mod damaged;
mod oracle;
mod own;
mod parity;
mod refused;
mod whole;
