//! The first of several models that can be loaded, with its own tokenizer.

use super::{CausalLm, Device, Gpt2, Gpt2Config, Precision, ResolvedDtype, Tokenizer, Weights, resolve_dtype};
use crate::error::{Error, Result};
use crate::source::ModelId;

/// A model that is ready to run, with the tokenizer from the same place.
#[derive(Debug)]
pub struct Loaded {
    /// The model.
    pub model: Box<dyn CausalLm>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The candidate that was loaded.
    pub model_id: String,
    /// The precision in words, for example `float32 (forced on CPU)`.
    pub dtype_label: String,
    /// Candidates that were tried before and could not be loaded.
    pub skipped: Vec<SkippedCandidate>,
}

/// A model that could not be loaded, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedCandidate {
    /// As it was given.
    pub model_id: String,
    /// The error, in one line.
    pub reason: String,
}

/// Loads the first of `candidates` that can be loaded.
///
/// Each is a repository on the Hub (`openai-community/gpt2`), a folder, `embedded` or `random:gpt2`;
/// see [`ModelId`]. The precision is a name such as `"float16"` or a [`Precision`], and is resolved
/// with [`resolve_dtype`] first.
///
/// ```
/// use quantlab::model::{best_device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["/no/such/folder", "embedded"], "float16", best_device())?;
/// assert_eq!(loaded.model_id, "embedded");
/// println!("{}", loaded.summary());
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// An unknown precision or device, no candidates, or, if all of them fail, one error that lists each
/// with its reason.
pub fn load_model_and_tokenizer<P>(candidates: &[&str], precision: P, device: Device) -> Result<Loaded>
where
    P: TryInto<Precision>,
    Error: From<P::Error>,
{
    let resolved = resolve_dtype(precision, device)?;
    // A device that is not there is not the fault of any candidate.
    device.to_candle()?;
    first_that_loads(candidates, &resolved, device)
}

fn first_that_loads(candidates: &[&str], resolved: &ResolvedDtype, device: Device) -> Result<Loaded> {
    let mut skipped = Vec::new();
    for &candidate in candidates {
        match load(candidate, resolved.dtype, device) {
            Ok((model, tokenizer)) => {
                return Ok(Loaded {
                    model,
                    tokenizer,
                    model_id: candidate.trim().to_owned(),
                    dtype_label: resolved.label.clone(),
                    skipped,
                });
            }
            Err(error) if candidates.len() == 1 => return Err(error.context(format!("cannot load `{candidate}`"))),
            Err(error) => skipped.push(SkippedCandidate { model_id: candidate.to_owned(), reason: error.to_string() }),
        }
    }
    if skipped.is_empty() {
        return Err(
            Error::input("there are no candidates to load").hint("give at least one model id, such as `embedded`")
        );
    }
    let reasons: Vec<String> =
        skipped.iter().map(|skipped| format!("\n  - {}: {}", skipped.model_id, skipped.reason)).collect();
    Err(Error::source(format!("none of the {} candidates could be loaded:{}", skipped.len(), reasons.concat()))
        .hint("add `embedded` as the last candidate; it needs no network"))
}

fn load(candidate: &str, dtype: Precision, device: Device) -> Result<(Box<dyn CausalLm>, Tokenizer)> {
    let files = candidate.parse::<ModelId>()?.resolve()?;
    let config = Gpt2Config::read(&files.config)?;
    let tokenizer = Tokenizer::read(&files.tokenizer)?;
    tokenizer.check_fits(&files.tokenizer, config.vocab_size)?;
    let model = Gpt2::load(config, &Weights::open(&files.weights)?, dtype, device)?;
    Ok((Box::new(model), tokenizer))
}

impl Loaded {
    /// One line on what was loaded: `Loaded: embedded | dtype=float32 (forced on CPU) | ...`.
    pub fn summary(&self) -> String {
        let info = self.model.info();
        format!(
            "Loaded: {} | dtype={} | device={} | backend={} | {:.1} M parameters, {:.1} MiB",
            self.model_id,
            self.dtype_label,
            info.device,
            info.backend,
            info.num_parameters as f64 / 1e6,
            info.parameter_bytes as f64 / (1024.0 * 1024.0),
        )
    }
}
