//! What a number was measured on, so that it can be compared with others.

use std::fmt;

use serde::Serialize;

use crate::model::{Device, Loaded, threads};

/// The circumstances of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// The model id that was loaded.
    pub model: String,
    /// The engine that computed, for example `kernels`.
    pub engine: String,
    /// Where it computed.
    pub device: Device,
    /// The precision in words, for example `float32 (forced on CPU)`.
    pub dtype: String,
    /// Threads that were asked to compute on the CPU.
    pub threads: usize,
    /// The fewest threads that any step of the measurement was granted: 1 if something else computed meanwhile.
    pub threads_granted: usize,
    /// How this library was built.
    pub build: String,
}

/// How this library was built: `optimised`, or `debug` when it checks itself and is slow.
pub const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "optimised" };

impl RunInfo {
    /// The circumstances of what this model computes now, if nothing else computes meanwhile.
    pub fn of(loaded: &Loaded) -> Self {
        let info = loaded.model.info();
        Self {
            model: loaded.model_id.clone(),
            engine: info.engine.to_owned(),
            device: info.device,
            dtype: loaded.dtype_label.clone(),
            threads: threads(),
            threads_granted: threads(),
            build: BUILD.to_owned(),
        }
    }
}

impl fmt::Display for RunInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, engine, device, dtype, threads, threads_granted, build } = self;
        write!(f, "{model} | {engine} | {device} | {dtype} | ")?;
        if threads_granted < threads {
            write!(f, "only {threads_granted} of ")?;
        }
        write!(f, "{threads} threads | {build} build")
    }
}
