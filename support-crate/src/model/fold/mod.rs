//! Changes of a model's weights that leave what it computes as it is, and make it easier to quantize.
//!
//! A linear layer computes `x W^T = (x A) (W A^-T)^T` for any matrix A that has an inverse. What multiplies x by A is
//! folded into the weights that make x, and the rest into W, so that neither engines nor formats know anything of it:
//! [`Weights`] has other numbers, in full precision.

mod awq;
mod change;
mod decoder_weights;
mod rotation;
mod scales;
mod site;
mod site_numbers;
mod smooth_quant;

use std::fmt;
use std::sync::Arc;

use super::decoder::Names;
use super::weights::split_mix;
use super::{DecoderConfig, Loaded, Weights};
use crate::error::{Context, Error, Result};
use crate::quant::AffineInt4;
pub(in crate::model) use change::{Change, Changed};
use decoder_weights::DecoderWeights;
use rotation::Rotation;
use scales::BlockScales;
pub use site::Site;
pub use site_numbers::{SiteNumbers, visit_sites};

/// A transformation that is folded into a model's weights while it is loaded ([`LoadOptions::fold`](super::LoadOptions)).
/// The model computes the same logits, up to rounding; but its layers' inputs, or its weights, have other outliers, so
/// that it loses less when it is quantized (or, with [`outliers`](Self::outliers), more).
///
/// Which one helps depends on what is quantized. The mean KL divergence of SmolLM2-135M-Instruct (`smollm2:float32`) from
/// itself in full precision, in nats, on 14,000 bytes of the held-out text; prompts from another part of it, 7147 tokens
/// (±: 95% interval):
///
/// | fold | static int8 | int4 in groups of 32 | of 64 |
/// | --- | --- | --- | --- |
/// | none | 0.801 ± 0.024 | 0.227 ± 0.008 | 0.269 ± 0.010 |
/// | Hadamard rotation | 0.667 ± 0.022 | 0.393 ± 0.014 | 0.540 ± 0.018 |
/// | SmoothQuant, alpha 0.5 | 0.230 ± 0.010 | | |
/// | SmoothQuant, alpha 0.85 | 0.036 ± 0.002 | | |
/// | Hadamard rotation, then SmoothQuant, alpha 0.5 | 0.065 ± 0.002 | | |
/// | AWQ | | 0.092 ± 0.004 | 0.126 ± 0.006 |
///
/// (Inputs are quantized per tensor, by absolute maxima. These weights were rounded to 4 bits before, in Q4_1.)
///
/// ```
/// use quantlab::model::{Fold, LoadOptions, load_model};
/// use quantlab::quant::QuantizationConfig;
///
/// let options = LoadOptions {
///     fold: Some(Fold::hadamard(1)),
///     quantization: Some(QuantizationConfig::int4(32)),
///     ..LoadOptions::default()
/// };
/// let loaded = load_model(&["embedded"], &options)?;
/// assert_eq!(loaded.dtype_label, "int4-32, rest float32, folded: Hadamard rotation");
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// One after the other; at least one.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Hadamard {
        seed: u64,
    },
    /// Multiplication by an orthogonal matrix (C, C), row by row.
    Rotation {
        matrix: Arc<[f32]>,
    },
    Outliers {
        sites: Vec<Site>,
        channels: usize,
        factor: f32,
        seed: u64,
    },
    /// What channels are divided by, found for one model.
    Scales {
        method: Method,
        blocks: Arc<[BlockScales]>,
    },
}

/// The sites whose inputs norms make.
const NORMS: [Site; 2] = [Site::AttentionIn, Site::MlpIn];

/// Where scales come from.
#[derive(Debug, Clone, PartialEq)]
enum Method {
    SmoothQuant { alpha: f32 },
    Awq { group_size: usize },
    Own { name: String },
}

impl Fold {
    /// Turns the residual stream by a random orthogonal matrix that has no large entries: what was large in few channels
    /// is then spread over all. This makes activations easier to quantize; weights alone, in small groups, may lose more.
    ///
    /// The scales of norms go into the layers that follow them; the token embedding, all inputs of attention and
    /// feed-forward parts, and the head are multiplied by the matrix, all outputs by its transpose. A head that was tied
    /// to the token embedding becomes a matrix of its own: a tied model takes that much more memory. The matrix is a
    /// randomised Hadamard transform; for widths that are no powers of two, their odd factor (9 of 576) has a Hartley
    /// matrix instead, which is orthogonal for any number. With layer norms, it is one that leaves means as they are,
    /// and their shifts, divided by the scales, are turned along.
    ///
    /// This is the part of QuaRot that costs nothing when the model runs. The inputs of the layers that end attention
    /// and feed-forward parts, which QuaRot turns on the way, stay as they are.
    ///
    /// Source: Ashkboos et al. 2024, "QuaRot", arXiv:2404.00456; Ashkboos et al. 2024, "SliceGPT", arXiv:2401.15024.
    pub fn hadamard(seed: u64) -> Self {
        Self { steps: vec![Step::Hadamard { seed }] }
    }

    /// Turns the residual stream, as [`hadamard`](Self::hadamard) does, by an orthogonal matrix Q of one's own, row by row:
    /// the hidden state x becomes `x Q`. With layer norms, Q must leave means as they are, up to a sign.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// // Channels in reverse.
    /// let reversed = (0..256 * 256).map(|i| if i / 256 + i % 256 == 255 { 1.0 } else { 0.0 }).collect();
    /// let options = LoadOptions { fold: Some(Fold::rotation(reversed)?), ..LoadOptions::default() };
    /// assert_eq!(load_model(&["embedded"], &options)?.dtype_label, "float32, folded: own rotation");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// A matrix that is not square, or not orthogonal to 1e-3; one of another width than the model, or that changes means
    /// where it must not, when the model is loaded.
    pub fn rotation(matrix: Vec<f32>) -> Result<Self> {
        rotation::check_orthogonal(&matrix)?;
        Ok(Self { steps: vec![Step::Rotation { matrix: matrix.into() }] })
    }

    /// Gives a model outliers, as large language models have them: in `channels` of the hidden state, the same for all
    /// layers, whatever goes into attention and the feed-forward part is multiplied by `factor`, and the weights that it
    /// meets are divided by it.
    ///
    /// Source: Dettmers et al. 2022, "LLM.int8()", arXiv:2208.07339, section 4, on what they look like.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// let fold = Some(Fold::outliers(3, 40.0, 1)?);
    /// let loaded = load_model(&["embedded"], &LoadOptions { fold, ..LoadOptions::default() })?;
    /// let plain = load_model(&["embedded"], &LoadOptions::default())?;
    /// let [with, without] = [&loaded, &plain].map(|model| {
    ///     calibrate(model, &["Once upon a time"], CalibrationMethod::AbsMax, Granularity::PerTensor)
    /// });
    /// let layer = "transformer.h.1.mlp.c_fc";
    /// assert!(with?.layer(layer)?.absmax > 5.0 * without?.layer(layer)?.absmax);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// No channels; a factor that is not a positive number, or whose inverse is not. More channels than the model has are
    /// an error when it is loaded.
    pub fn outliers(channels: usize, factor: f32, seed: u64) -> Result<Self> {
        Self::outliers_at(&NORMS, channels, factor, seed)
    }

    /// The same in other places: in `channels` of each of these [`Site`]s, the same ones for all layers. What makes the
    /// inputs of attention and of the feed-forward part is a norm, whose scales are multiplied; the inputs of attention's
    /// output matrix are made of values, and those of a gated feed-forward part's last matrix by its second product, so
    /// that the rows of these weights are. The model's function stays in each case.
    ///
    /// ```
    /// use quantlab::model::{Fold, Site};
    ///
    /// let fold = Fold::outliers_at(&[Site::AttentionOut, Site::MlpOut], 3, 20.0, 1)?;
    /// assert_eq!(fold.to_string(), "3 outliers x 20 (attention out, MLP out)");
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`outliers`](Self::outliers); no sites. [`Site::MlpOut`] of a model that is not gated is an error when it is loaded.
    pub fn outliers_at(sites: &[Site], channels: usize, factor: f32, seed: u64) -> Result<Self> {
        if sites.is_empty() {
            return Err(Error::input("there are no sites whose channels could be multiplied"));
        }
        if channels == 0 {
            return Err(Error::input("there are no channels to multiply").hint("large models have about six outliers"));
        }
        scales::check(&[factor]).context(|| "the factor of outliers")?;
        Ok(Self { steps: vec![Step::Outliers { sites: sites.to_vec(), channels, factor, seed }] })
    }

    /// Makes activations and weights equally hard to quantize: divides channel j of a layer's inputs by
    /// `max|X_j|^alpha / max|W_j|^(1 - alpha)`, X being its inputs while `loaded`, in full precision, reads the prompts,
    /// and multiplies column j of its weights.
    ///
    /// Inputs of attention and of the feed-forward part are divided in the norm before them, those of attention's output
    /// in the weights of values (heads that share values share the scales), and those of the output of a gated
    /// feed-forward part in its second product. A channel whose inputs or weights are all 0 stays as it is.
    ///
    /// `alpha` 0.5 is usual; the more outliers activations have, the more must go into the weights.
    ///
    /// Source: Xiao et al. 2022, "SmoothQuant", arXiv:2211.10438, section 4.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// let prompts = ["Once upon a time there was a fox.", "The capital of France is"];
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// let fold = Some(Fold::smooth_quant(&loaded, &prompts, 0.5)?);
    /// let smooth = load_model(&["embedded"], &LoadOptions { fold: fold.clone(), ..LoadOptions::default() })?;
    /// // The scales of int8 are those of the smooth model's inputs.
    /// let scales = calibrate(&smooth, &prompts, CalibrationMethod::AbsMax, Granularity::PerTensor)?;
    /// let quantization = Some(QuantizationConfig::static_int8(scales));
    /// let int8 = load_model(&["embedded"], &LoadOptions { fold, quantization, ..LoadOptions::default() })?;
    /// assert_eq!(int8.dtype_label, "static int8, rest float32, folded: SmoothQuant (alpha 0.5)");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// An `alpha` that does not lie between 0 and 1; as [`calibrate`](super::calibrate); a model that was put together
    /// by [`Loaded::new`].
    pub fn smooth_quant(loaded: &Loaded, prompts: &[impl AsRef<str>], alpha: f32) -> Result<Self> {
        if !(0.0..=1.0).contains(&alpha) {
            return Err(Error::input(format!("`alpha` cannot be {alpha}"))
                .hint("it must lie between 0, all for the weights, and 1, all for the activations; 0.5 is usual"));
        }
        let blocks = smooth_quant::find(loaded, prompts, alpha)?;
        Ok(Self::divided(Method::SmoothQuant { alpha }, blocks))
    }

    /// Protects the weights that meet large inputs: multiplies column j of a layer's weights by the mean of `|X_j|` to
    /// the power that makes the layer's outputs on the prompts differ least when its weights are rounded to int4 in
    /// groups of `group_size`, and divides its inputs where [`smooth_quant`](Self::smooth_quant) does.
    ///
    /// Powers from 0, which is plain rounding, to 0.95 are tried, for each set of layers that read the same inputs, by
    /// the squared error of their outputs on at most 256 tokens. AWQ's code measures that of whole attention and
    /// feed-forward parts, and then also searches for limits to clip weights to, which is left out here.
    ///
    /// Source: Lin et al. 2023, "AWQ", arXiv:2306.00978, section 3.2; `_search_module_scale` in `auto_scale.py` of
    /// mit-han-lab/llm-awq.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// let prompts = ["Once upon a time there was a fox.", "The capital of France is"];
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// let fold = Some(Fold::awq(&loaded, &prompts, 32)?);
    /// let quantization = Some(QuantizationConfig::int4(32));
    /// let int4 = load_model(&["embedded"], &LoadOptions { fold, quantization, ..LoadOptions::default() })?;
    /// assert_eq!(int4.dtype_label, "int4-32, rest float32, folded: AWQ (groups of 32)");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// A group size that [`AffineInt4`] refuses or that does not divide the layers' inputs; otherwise as
    /// [`smooth_quant`](Self::smooth_quant).
    pub fn awq(loaded: &Loaded, prompts: &[impl AsRef<str>], group_size: usize) -> Result<Self> {
        AffineInt4::check_group(group_size)?;
        let blocks = awq::find(loaded, prompts, group_size)?;
        Ok(Self::divided(Method::Awq { group_size }, blocks))
    }

    /// A method of one's own, in place of [`smooth_quant`](Self::smooth_quant) or [`awq`](Self::awq): for each [`Site`] of
    /// each block, `find` says what its channels are divided by, a positive number each, by what goes into its layers while
    /// `loaded`, in full precision, reads the prompts. The weights that the channels meet are multiplied.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// // All for the activations: each channel then reaches as far as any other.
    /// let fold = Fold::scales(&loaded, &["Once upon a time"], "by the largest", |site| Ok(site.largest.clone()))?;
    /// let options = LoadOptions { fold: Some(fold), ..LoadOptions::default() };
    /// assert_eq!(load_model(&["embedded"], &options)?.dtype_label, "float32, folded: by the largest");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// What `find` reports; scales that are not one for each channel, not positive, or whose inverse is not; otherwise as
    /// [`smooth_quant`](Self::smooth_quant).
    pub fn scales(
        loaded: &Loaded,
        prompts: &[impl AsRef<str>],
        name: impl Into<String>,
        mut find: impl FnMut(&SiteNumbers) -> Result<Vec<f32>>,
    ) -> Result<Self> {
        let name = name.into();
        let blocks = site_numbers::each_site(loaded, prompts, "scales", site_numbers::TOKENS, &mut |numbers| {
            let (found, channels) = (find(numbers)?, numbers.largest.len());
            if found.len() != channels {
                return Err(Error::input(format!("{}: {} scales for {channels} channels", numbers.site, found.len())));
            }
            scales::check(&found).context(|| numbers.site.to_string())?;
            Ok(found)
        })?;
        Ok(Self::divided(Method::Own { name }, blocks))
    }

    fn divided(method: Method, blocks: Vec<BlockScales>) -> Self {
        Self { steps: vec![Step::Scales { method, blocks: blocks.into() }] }
    }

    /// Both, one after the other. Scales must have been found for a model that was loaded with what precedes them.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// let outliers = Fold::outliers(3, 40.0, 1)?;
    /// let loaded = load_model(&["embedded"], &LoadOptions { fold: Some(outliers.clone()), ..LoadOptions::default() })?;
    /// let fold = outliers.then(Fold::smooth_quant(&loaded, &["Once upon a time"], 0.5)?);
    /// assert_eq!(fold.to_string(), "3 outliers x 40, SmoothQuant (alpha 0.5)");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        self.steps.extend(next.steps);
        self
    }

    /// The scales of all blocks, site by site, if anything is divided by scales.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// let fold = Fold::smooth_quant(&loaded, &["Once upon a time"], 0.5)?;
    /// // Queries, keys and values; the output of attention; the feed-forward part.
    /// assert_eq!(fold.found_scales().count(), 3 * loaded.model.info().n_layer);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn found_scales(&self) -> impl Iterator<Item = &[f32]> {
        let blocks = self.steps.iter().flat_map(|step| match step {
            Step::Scales { blocks, .. } => &blocks[..],
            _ => &[],
        });
        blocks.flatten().map(|(_, scales)| &scales[..])
    }

    /// Whether the head is no longer the token embedding.
    pub(super) fn unties_head(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Hadamard { .. } | Step::Rotation { .. }))
    }

    /// The config and the weights of the same model in its other form.
    ///
    /// # Errors
    /// A checkpoint that is quantized; scales that were found for another model; what cannot be turned.
    pub(super) fn apply(&self, config: DecoderConfig, weights: Weights) -> Result<(DecoderConfig, Weights)> {
        if config.quantization.is_some() {
            return Err(Error::input("the checkpoint is quantized: nothing can be folded into its weights")
                .hint("fold into the model in full precision, and quantize it then"));
        }
        if Names::of(config.architecture).attention_post_norm.is_some() {
            return Err(Error::input(format!("nothing can be folded into models of type {}", config.architecture))
                .hint("use a model whose norms come before attention and feed-forward parts only"));
        }
        if config.parallel_residual {
            return Err(Error::input(
                "nothing can be folded into a model whose attention and feed-forward parts share a norm",
            )
            .hint("use a model without `use_parallel_residual`"));
        }
        let mut decoder = DecoderWeights::new(config, weights);
        for step in &self.steps {
            match step {
                Step::Hadamard { seed } => decoder.hadamard(*seed).and_then(|rotation| decoder.rotate(rotation)),
                Step::Rotation { matrix } => decoder.own(matrix).and_then(|rotation| decoder.rotate(rotation)),
                Step::Outliers { sites, channels, factor, seed } => {
                    decoder.add_outliers(sites, *channels, *factor, *seed)
                }
                Step::Scales { blocks, .. } => decoder.scale(blocks),
            }
            .context(|| format!("folding in {step}"))?;
        }
        Ok((decoder.config, decoder.weights))
    }
}

/// Some of the channels, chosen at random.
fn choose_channels(channels: usize, of: usize, seed: u64) -> Result<Vec<usize>> {
    if channels > of {
        return Err(Error::input(format!("there are {of} channels, not {channels}")));
    }
    let mut all: Vec<usize> = (0..of).collect();
    all.sort_by_key(|&channel| split_mix(seed, channel as u64));
    all.truncate(channels);
    Ok(all)
}

/// `Hadamard rotation, SmoothQuant (alpha 0.5)`
impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(ToString::to_string).collect();
        f.write_str(&steps.join(", "))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hadamard { .. } => f.write_str("Hadamard rotation"),
            Self::Rotation { .. } => f.write_str("own rotation"),
            Self::Outliers { sites, channels, factor, .. } => {
                write!(f, "{channels} outlier{} x {factor}", if *channels == 1 { "" } else { "s" })?;
                let names: Vec<String> = sites.iter().map(ToString::to_string).collect();
                if sites[..] == NORMS { Ok(()) } else { write!(f, " ({})", names.join(", ")) }
            }
            Self::Scales { method: Method::SmoothQuant { alpha }, .. } => write!(f, "SmoothQuant (alpha {alpha})"),
            Self::Scales { method: Method::Awq { group_size }, .. } => write!(f, "AWQ (groups of {group_size})"),
            Self::Scales { method: Method::Own { name }, .. } => f.write_str(name),
        }
    }
}
