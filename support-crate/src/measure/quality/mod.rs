//! What a change of a model does to its predictions, position by position.

mod base;
mod caches;
mod greedy;
mod percentiles;
mod position;

use std::rc::Rc;

use serde::Serialize;

pub use base::QualityBase;
pub use caches::{CacheComparison, compare_caches};
pub use greedy::{GreedyDifference, greedy_differences};
pub use percentiles::Percentiles;
use position::{Position, compare_batch};

use super::scoring::{Scored, score_windows};
use super::{PerplexityOptions, RunInfo, Uncertain};
use crate::error::{Error, Result};
use crate::model::{Engine, LoadOptions, Loaded, LogitPositions, Logits, TokenBatch, load_model};

/// How far a model's predictions are from those of another one, the base: the same texts, token by token.
///
/// Most of the uncertainty of a perplexity comes from the text, which is as difficult for one model as for the other. The
/// ratio and the difference are paired, so that this part cancels. The KL divergence sees every change of the predicted
/// distribution, not only that of the token which happens to follow.
///
/// Each ± is a 95% interval computed as if the positions were independent. Neighbouring tokens are not, so it is a lower
/// bound on the uncertainty. How low depends on the figure: on the embedded model's held-out text, the means of stretches of
/// 400 tokens (batch means) give the same ± for the ratio of perplexities, about twice the ± for the KL divergence and three
/// times for either perplexity, because a difficult passage stays difficult for hundreds of tokens. No ± says anything
/// about other kinds of text.
///
/// Source: llama.cpp, `tools/perplexity` with `--kl-divergence`. It scores the second half of each window only, and rounds
/// the base model's logits to 16 bits for the file in which it keeps them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QualityComparison {
    /// Tokens that were predicted: all but the first of each text.
    pub tokens: usize,
    /// Perplexity of the base model.
    pub base_perplexity: Uncertain,
    /// Perplexity of the other model.
    pub perplexity: Uncertain,
    /// `perplexity / base_perplexity`, paired: below 1 if the other model predicts the texts better.
    pub perplexity_ratio: Uncertain,
    /// The natural logarithm of the ratio, which is the mean change of a token's negative log-likelihood; in nats.
    pub log_perplexity_ratio: Uncertain,
    /// `perplexity - base_perplexity`, paired.
    pub perplexity_difference: Uncertain,
    /// Correlation of the two models' negative log-likelihoods, and so of the errors of their log-perplexities; NaN if one
    /// of the models gives the same probability to every token of the texts.
    pub log_perplexity_correlation: f64,
    /// Mean of `KL(base || other)`, in nats: what it costs to code a token drawn from the base model with a code made for
    /// the other one.
    pub kl_divergence: Uncertain,
    /// The distribution of the KL divergence over the positions, in nats.
    pub kl_percentiles: Percentiles,
    /// The KL divergence at each position, in the order of the texts.
    #[serde(skip)]
    pub kl_by_position: Box<[f32]>,
    /// Mean of `q - p`, the change of the probability of the token that follows in the text.
    pub probability_change: Uncertain,
    /// Root of the mean square of that change.
    pub rms_probability_change: Uncertain,
    /// The distribution of that change over the positions.
    pub probability_change_percentiles: Percentiles,
    /// Share of positions, 0 to 1, at which both models have the same most likely token.
    pub same_top_token: Uncertain,
    /// Where the greedy continuations of each text diverge; see [`greedy_differences`].
    pub greedy: Vec<GreedyDifference>,
    /// What the base model was measured on.
    pub base_run: RunInfo,
    /// What the other model was measured on.
    pub run: RunInfo,
}

impl QualityComparison {
    /// By how much this KL divergence is larger than another one's on the same texts, in nats: the mean of the differences,
    /// position by position, so that what makes a position difficult for both cancels. `None` if they are of different numbers
    /// of tokens.
    pub fn kl_divergence_above(&self, other: &Self) -> Option<Uncertain> {
        let differences = self
            .kl_by_position
            .iter()
            .zip(&other.kl_by_position)
            .map(|(own, other)| f64::from(*own) - f64::from(*other));
        (self.kl_by_position.len() == other.kl_by_position.len()).then(|| Uncertain::mean_of(differences))
    }
}

/// How far `other` is from `base` on some texts: perplexities, KL divergence, probabilities, top tokens, greedy texts.
///
/// Both models read the windows that [`perplexity`](super::perplexity) reads by default. Their logits are compared
/// position by position and dropped, so that only those of one batch are ever in memory, besides some bytes for each
/// token.
///
/// ```
/// use quantlab::measure::compare_quality;
/// use quantlab::model::{LoadOptions, load_model};
/// use quantlab::quant::QuantizationConfig;
///
/// let base = load_model(&["embedded"], &LoadOptions::default())?;
/// let quantization = Some(QuantizationConfig::nf4());
/// let nf4 = load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() })?;
///
/// let quality = compare_quality(&base, &nf4, &["Once upon a time there was a fox.", "The end."])?;
/// println!("KL divergence {} nats, same top token {} %", quality.kl_divergence, quality.same_top_token * 100.0);
/// assert!(quality.kl_divergence.value > 0.0 && quality.kl_percentiles.median() > 0.0);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`compare_quality_of_tokens`]; tokenizers that encode a text differently.
pub fn compare_quality(base: &Loaded, other: &Loaded, texts: &[impl AsRef<str>]) -> Result<QualityComparison> {
    compare_quality_of_tokens(base, other, &encode_alike(base, other, texts)?, &PerplexityOptions::default())
}

/// Texts as tokens, which are the same for both.
fn encode_alike(base: &Loaded, other: &Loaded, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<u32>>> {
    let encode = |(index, text): (usize, &str)| {
        let (ids, others) = (base.tokenizer.encode(text)?, other.tokenizer.encode(text)?);
        if ids != others {
            return Err(Error::input(format!(
                "the tokenizers of {} and {} encode text {index} differently, as {} and {} tokens",
                base.model_id,
                other.model_id,
                ids.len(),
                others.len()
            ))
            .hint("compare models with the same tokenizer; bits per byte of `perplexity` compare across tokenizers"));
        }
        Ok(ids)
    };
    texts.iter().map(AsRef::as_ref).enumerate().map(encode).collect()
}

/// The least that a comparison can find: how far a model is from itself as another engine computes it, which adds the same
/// products in another order. A KL divergence is never below 0, so any change at all gives one above it; a format is told
/// apart from full precision where its interval lies above this one's. Give a base in full precision: it is loaded again by
/// its id, without quantization or folds.
///
/// ```
/// use quantlab::measure::noise_floor;
/// use quantlab::model::{LoadOptions, load_model};
///
/// let base = load_model(&["embedded"], &LoadOptions::default())?;
/// let floor = noise_floor(&base, &["Once upon a time there was a fox.", "The end."])?;
/// assert!(floor.kl_divergence.value < 1e-6);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`compare_quality`]; a base that cannot be loaded again by its id, or computes on a GPU: beside libtorch there is
/// only candle, which is built for the CPU alone.
pub fn noise_floor(base: &Loaded, texts: &[impl AsRef<str>]) -> Result<QualityComparison> {
    compare_quality(base, &load_on_other_engine(base)?, texts)
}

fn load_on_other_engine(base: &Loaded) -> Result<Loaded> {
    let info = base.model.info();
    let engine = if info.engine == Engine::Tch { Engine::Candle } else { Engine::Tch };
    let options = LoadOptions {
        precision: info.dtype,
        device: info.device,
        engine: Some(engine),
        dequantize: true,
        ..LoadOptions::default()
    };
    load_model(&[base.model_id.as_str()], &options)
}

/// As [`compare_quality`], for texts that are token ids already, given to the models as `options` say.
///
/// The result depends on the batch size by no more than float32's rounding, with the exceptions that
/// [`CausalLm::forward`](crate::model::CausalLm::forward) names.
///
/// # Errors
/// Vocabularies of different sizes, or a token beyond them; fewer than two tokens to predict; a window, stride or batch size
/// that does not fit; a model that predicts NaN, or that gives a token of the texts a probability of 0; an `other` that gives
/// a probability of 0 to any token that `base` considers possible.
pub fn compare_quality_of_tokens(
    base: &Loaded,
    other: &Loaded,
    sequences: &[Vec<u32>],
    options: &PerplexityOptions,
) -> Result<QualityComparison> {
    let predict = |tokens: &TokenBatch| base.model.forward(tokens, None, LogitPositions::All).map(Rc::new);
    let compared = compare_with(base, other, sequences, options, &predict)?;
    let greedy = greedy_differences(base, other, sequences, options.batch_size)?;
    Ok(QualityComparison { greedy, ..compared })
}

/// # Errors
/// Vocabularies of different sizes.
fn same_vocabulary(base: &Loaded, other: &Loaded) -> Result<()> {
    let [base_size, size] = [base, other].map(|loaded| loaded.model.info().vocab_size);
    if base_size == size {
        return Ok(());
    }
    Err(Error::input(format!(
        "{} has a vocabulary of {base_size} tokens and {} one of {size}",
        base.model_id, other.model_id
    ))
    .hint("compare models with the same tokenizer, for example two formats of one model"))
}

/// All figures but those of greedy texts. `predict` gives the base model's logits.
fn compare_with(
    base: &Loaded,
    other: &Loaded,
    sequences: &[Vec<u32>],
    options: &PerplexityOptions,
    predict: &dyn Fn(&TokenBatch) -> Result<Rc<Logits>>,
) -> Result<QualityComparison> {
    same_vocabulary(base, other)?;
    let names = [base, other].map(|loaded| format!("{} in {}", loaded.model_id, loaded.dtype_label));
    let scored = score_windows("quality", &[base, other], sequences, options, |tokens, windows| {
        let predicted = predict(tokens)?;
        compare_batch(&predicted, &other.model.forward(tokens, None, LogitPositions::All)?, windows, &names)
    })?;
    let Scored { windows, tokens, threads_granted } = scored;
    if tokens < 2 {
        return Err(Error::input("there is only one token to predict, and one value has no spread")
            .hint("give texts that together have at least two tokens besides the first of each"));
    }
    let run = |loaded| RunInfo { threads_granted, ..RunInfo::of(loaded) };
    Ok(summarise(&windows.concat(), run(base), run(other)))
}

/// All figures of at least two positions.
fn summarise(positions: &[Position], base_run: RunInfo, run: RunInfo) -> QualityComparison {
    let each = |of: fn(&Position) -> f64| positions.iter().map(of);
    let (base_nll, nll) = (Uncertain::mean_of(each(|p| p.base_nll)), Uncertain::mean_of(each(|p| p.nll)));
    let (base_perplexity, perplexity) = (base_nll.exp(), nll.exp());
    // The variance of a difference, var(a) + var(b) - 2 cov(a, b), is that of the differences.
    let log_perplexity_ratio = Uncertain::mean_of(each(|p| p.nll - p.base_nll));
    let weighted = positions.iter().map(|p| perplexity.value * p.nll - base_perplexity.value * p.base_nll);
    let products = positions.iter().map(|p| (p.nll - nll.value) * (p.base_nll - base_nll.value));
    let n = positions.len() as f64;
    let covariance = products.sum::<f64>() / (n - 1.0) / n;
    let square = Uncertain::mean_of(each(|p| p.probability_change().powi(2)));
    let rms = square.value.sqrt();
    QualityComparison {
        tokens: positions.len(),
        base_perplexity,
        perplexity,
        perplexity_ratio: log_perplexity_ratio.exp(),
        log_perplexity_ratio,
        perplexity_difference: Uncertain {
            value: perplexity.value - base_perplexity.value,
            standard_error: Uncertain::mean_of(weighted).standard_error,
        },
        log_perplexity_correlation: covariance / (nll.standard_error * base_nll.standard_error),
        kl_divergence: Uncertain::mean_of(each(|p| p.kl)),
        kl_percentiles: Percentiles::of(each(|p| p.kl)),
        kl_by_position: positions.iter().map(|p| p.kl as f32).collect(),
        probability_change: Uncertain::mean_of(each(Position::probability_change)),
        rms_probability_change: Uncertain {
            value: rms,
            standard_error: if rms > 0.0 { 0.5 / rms * square.standard_error } else { 0.0 },
        },
        probability_change_percentiles: Percentiles::of(each(Position::probability_change)),
        same_top_token: Uncertain::mean_of(each(|p| f64::from(u8::from(p.same_top)))),
        greedy: Vec::new(),
        base_run,
        run,
    }
}
