//! Prompts to the scales of static int8, and to the Hessians of GPTQ: what goes into each layer while a model reads
//! them.

use std::cell::RefCell;

use super::cache::Layout;
use super::causal_lm::{Seal, check_tokens};
use super::{InputObserver, Loaded, LogitPositions, TokenBatch, available_memory};
use crate::error::{Context, Error, Result};
use crate::progress::Progress;
use crate::quant::{
    Calibration, CalibrationMethod, Calibrator, Granularity, HessianCollector, Hessians, hessian_bytes,
};

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
    observe_prompts(loaded, prompts, &|layer, inputs, channels, _| {
        calibrator.borrow_mut().observe(layer, inputs, channels)
    })?;
    calibrator.into_inner().finish()
}

/// Runs a model in full precision on prompts, one at a time, and finds what GPTQ wants to know of its layers' inputs.
/// The prompts should be like those that the model will get, and some thousand tokens together.
///
/// All layers are observed in one pass, with inputs as the model in full precision has them. GPTQ's own program quantizes
/// one block after the other and lets the next read what the quantized ones pass on, which takes a pass for each block
/// and binds the Hessians to a format; this way the same ones do for groups of any size and codes of any bits.
///
/// ```
/// use quantlab::model::{LoadOptions, hessians, load_model};
/// use quantlab::quant::QuantizationConfig;
///
/// let baseline = load_model(&["embedded"], &LoadOptions::default())?;
/// let hessians = hessians(&baseline, &["The capital of France is", "Once upon a time there was a fox."])?;
/// let quantization = Some(QuantizationConfig::gptq(hessians, 32));
/// let quantized = load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() })?;
/// assert_eq!(quantized.dtype_label, "int4-32, gptq, rest float32");
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// No prompts, or one that is empty or longer than the model's context; inputs of a layer that are NaN or infinite; not
/// enough memory; a model that is quantized already, or of another engine than [`Kernels`](super::Engine::Kernels).
pub fn hessians(loaded: &Loaded, prompts: &[impl AsRef<str>]) -> Result<Hessians> {
    check_room(loaded)?;
    let collector = RefCell::new(HessianCollector::default());
    observe_prompts(loaded, prompts, &|layer, inputs, channels, scope| {
        collector.borrow_mut().observe_in(scope, layer, inputs, channels)
    })?;
    collector.into_inner().finish()
}

/// Makes sure that there is memory for the Hessians of all layers, by a look at those that a token goes through.
///
/// # Errors
/// There is not.
fn check_room(loaded: &Loaded) -> Result<()> {
    check_unquantized(loaded)?;
    let sizes = RefCell::new((Vec::new(), 0_usize));
    observe_tokens(loaded, &TokenBatch::single(&[0])?, &|_, inputs, channels, _| {
        let (last, needed) = &mut *sizes.borrow_mut();
        // Those that read the same share one.
        if *last != inputs {
            *needed = needed.saturating_add(hessian_bytes(channels));
            *last = inputs.to_vec();
        }
        Ok(())
    })?;
    let (_, needed) = sizes.into_inner();
    match available_memory() {
        Some(free) if free < needed => {
            let [needed, free] = [needed, free].map(|bytes| bytes as f64 / f64::from(1 << 30));
            Err(Error::input(format!(
                "the Hessians of `{}` need {needed:.2} GiB, but only {free:.2} GiB are free",
                loaded.model_id
            ))
            .hint("use HQQ, which needs none, or a smaller model, or drop models that are no longer needed"))
        }
        _ => Ok(()),
    }
}

/// # Errors
/// A model that is quantized already.
fn check_unquantized(loaded: &Loaded) -> Result<()> {
    if loaded.model.info().quant_state_bytes == 0 {
        return Ok(());
    }
    Err(Error::input(format!("`{}` is already quantized", loaded.model_id))
        .hint("calibrate the model in full precision: quantized layers pass on inputs that are already off"))
}

/// Shows `observer` what goes into each layer while the model reads each prompt.
///
/// # Errors
/// As [`calibrate`]; what `observer` reports.
pub(super) fn observe_prompts(
    loaded: &Loaded,
    prompts: &[impl AsRef<str>],
    observer: &InputObserver<'_>,
) -> Result<()> {
    check_unquantized(loaded)?;
    if prompts.is_empty() {
        return Err(Error::input("there are no prompts to calibrate with")
            .hint("give texts like those that the model will read"));
    }
    let mut progress = Progress::new("calibrating", prompts.len(), "prompts");
    for (index, prompt) in prompts.iter().enumerate() {
        let observed = loaded.tokenizer.encode(prompt.as_ref()).and_then(|ids| TokenBatch::single(&ids));
        observed.and_then(|tokens| observe_tokens(loaded, &tokens, observer)).context(|| format!("prompt {index}"))?;
        progress.advance(1);
    }
    Ok(())
}

fn observe_tokens(loaded: &Loaded, tokens: &TokenBatch, observer: &InputObserver<'_>) -> Result<()> {
    check_tokens(loaded.model.info(), tokens, 0).map_err(|error| error.hint("cut it into several prompts"))?;
    let layout = Layout::of(tokens);
    loaded.model.engine_model(Seal).observe(&layout.step(tokens, LogitPositions::All), observer)
}
