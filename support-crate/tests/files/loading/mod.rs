//! What can be wrong with a model's files, and what is said about it.

mod config;
mod family;
mod files;
mod shards;
mod sources;
mod tensors;
mod tokenizer;
