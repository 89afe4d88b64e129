//! What a number was measured on, so that it can be compared with others.

use std::fmt;

use quantlab_kernels::Isa;
use serde::Serialize;

use crate::model::{Device, Engine, Loaded, threads};

/// The circumstances of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// The model id that was loaded.
    pub model: String,
    /// The engine that computed, for example `kernels`; `kernels (amx)` where the kernels use Intel's tiles, which take
    /// every format but float32.
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

/// The engine, and Intel's tiles where the kernels compute in them: a trial may choose these without anybody asking for
/// them.
fn computed_by(engine: Engine, isa: &str) -> String {
    if engine == Engine::Kernels && isa == "amx" { format!("{engine} (amx)") } else { engine.name().to_owned() }
}

impl RunInfo {
    /// The circumstances of what this model computes now, if nothing else computes meanwhile.
    pub fn of(loaded: &Loaded) -> Self {
        let info = loaded.model.info();
        Self {
            model: loaded.model_id.clone(),
            engine: computed_by(info.engine, Isa::best().name()),
            device: info.device,
            dtype: loaded.dtype_label.clone(),
            threads: threads(),
            threads_granted: threads(),
            build: BUILD.to_owned(),
        }
    }

    /// The small print of a table or plot of several measurements: where they differ, each variant once. Several
    /// precisions are left out, because the rows are named after them.
    pub fn of_all<'a>(runs: impl IntoIterator<Item = &'a Self>) -> String {
        let runs: Vec<&Self> = runs.into_iter().collect();
        let each = |write: fn(&Self) -> String| {
            let mut all: Vec<String> = Vec::new();
            for text in runs.iter().map(|run| write(run)) {
                all.extend((!all.contains(&text)).then_some(text));
            }
            all
        };
        let threads = |run: &Self| match run.threads_granted < run.threads {
            true => format!("only {} of {} threads", run.threads_granted, run.threads),
            false => format!("{} threads", run.threads),
        };
        let precision = each(|run| run.dtype.clone());
        let parts = [
            each(|run| run.model.clone()),
            each(|run| run.engine.clone()),
            each(|run| run.device.to_string()),
            if precision.len() == 1 { precision } else { Vec::new() },
            each(threads),
            each(|run| format!("{} build", run.build)),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).map(|part| part.join(", ")).collect::<Vec<_>>().join(" | ")
    }
}

impl fmt::Display for RunInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Self::of_all([self]))
    }
}
