//! Formats of a model, timed in turn.

use quantlab::error::Result;
use quantlab::measure::{MemoryFootprint, RunInfo, Statistics, Timing, TimingOptions, WallClock, time_in_turn};
use quantlab::model::Loaded;

/// A model in one format, and how fast it was.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatRow {
    /// The format, in words.
    pub name: String,
    /// Memory of the model.
    pub footprint: MemoryFootprint,
    /// Weights and scales that are read for each token, in bytes.
    pub bytes_per_token: usize,
    /// How fast it was.
    pub timing: Timing,
}

impl FormatRow {
    /// Times models in turn on a prompt.
    ///
    /// # Errors
    /// As [`time_in_turn`].
    pub fn in_turn(models: &[(&str, &Loaded)], prompt: &str, timing: &TimingOptions) -> Result<Vec<Self>> {
        let work: Vec<(&Loaded, &str)> = models.iter().map(|(_, loaded)| (*loaded, prompt)).collect();
        let row = |((name, loaded), timing): (&(&str, &Loaded), Timing)| Self {
            name: (*name).to_owned(),
            footprint: loaded.footprint(),
            bytes_per_token: loaded.model.info().bytes_per_token,
            timing,
        };
        Ok(models.iter().zip(time_in_turn(&WallClock, &work, timing)?).map(row).collect())
    }
}

/// What formats were timed on.
pub(crate) fn measured_on(formats: &[FormatRow]) -> String {
    RunInfo::of_all(formats.iter().map(|row| &row.timing.run))
}

/// What the intervals of a plot of their decode rates are.
pub(crate) fn decode_intervals(formats: &[FormatRow]) -> String {
    Statistics::interval_names(formats.iter().map(|row| &row.timing.decode_tokens_per_s))
}
