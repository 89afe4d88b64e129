//! Models at work: the same numbers as transformers on every engine, and what is built upon them.

mod batches;
mod caching;
mod chat;
#[path = "../common/mod.rs"]
mod common;
mod embedded;
mod families;
mod generating;
mod items;
mod parity;
mod sampling;
mod serving;
mod speculative;
