//! Prompts to the scales of static int8: what goes into each layer while a model reads them.

use std::cell::RefCell;

use super::cache::Layout;
use super::causal_lm::{Seal, check_tokens};
use super::{InputObserver, Loaded, LogitPositions, TokenBatch};
use crate::error::{Context, Error, Result};
use crate::quant::{Calibration, CalibrationMethod, Calibrator, Granularity};

/// Runs a model in full precision on prompts, one at a time, and finds the scales by which its layers' inputs are to
/// be quantized. The prompts should be like those that the model will get: larger inputs than theirs are clipped.
///
/// ```
/// use quantlab::model::{LoadOptions, calibrate, load_model};
/// use quantlab::quant::{CalibrationMethod, Granularity, QuantizationConfig};
///
/// let baseline = load_model(&["embedded"], &LoadOptions::default())?;
/// let prompts = ["The capital of France is", "Once upon a time there was a fox."];
/// let calibration = calibrate(&baseline, &prompts, CalibrationMethod::Percentile(99.9), Granularity::PerTensor)?;
/// let quantization = Some(QuantizationConfig::static_int8(calibration));
/// let quantized = load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() })?;
/// assert_eq!(quantized.dtype_label, "static int8, rest float32");
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// No prompts, one that is empty or longer than the model's context, a percentile that [`Calibrator`] refuses;
/// inputs of a layer that are NaN or infinite; a model that is quantized already, or of another engine
/// than [`Kernels`](super::Engine::Kernels).
pub fn calibrate(
    loaded: &Loaded,
    prompts: &[impl AsRef<str>],
    method: CalibrationMethod,
    granularity: Granularity,
) -> Result<Calibration> {
    let calibrator = RefCell::new(Calibrator::new(method, granularity)?);
    observe(loaded, prompts, &|layer, inputs, channels| calibrator.borrow_mut().observe(layer, inputs, channels))?;
    calibrator.into_inner().finish()
}

/// Runs a model in full precision on prompts, one at a time, and shows `observer` what goes into its linear layers.
///
/// # Errors
/// Those of [`calibrate`] that have to do with model and prompts; what `observer` reports.
pub(super) fn observe(loaded: &Loaded, prompts: &[impl AsRef<str>], observer: &InputObserver<'_>) -> Result<()> {
    if loaded.model.info().quant_state_bytes > 0 {
        return Err(Error::input(format!("`{}` is already quantized", loaded.model_id))
            .hint("calibrate the model in full precision: quantized layers pass on inputs that are already off"));
    }
    if prompts.is_empty() {
        return Err(Error::input("there are no prompts to calibrate with")
            .hint("give texts like those that the model will read"));
    }
    for (index, prompt) in prompts.iter().enumerate() {
        observe_one(loaded, prompt.as_ref(), observer).context(|| format!("prompt {index}"))?;
    }
    Ok(())
}

fn observe_one(loaded: &Loaded, prompt: &str, observer: &InputObserver<'_>) -> Result<()> {
    let tokens = TokenBatch::single(&loaded.tokenizer.encode(prompt)?)?;
    check_tokens(loaded.model.info(), &tokens, 0).map_err(|error| error.hint("cut it into several prompts"))?;
    let layout = Layout::of(&tokens);
    loaded.model.engine_model(Seal).observe(&layout.step(&tokens, LogitPositions::All), observer)
}
