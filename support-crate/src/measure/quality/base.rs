//! Several models beside one: its predictions are computed once.

use std::cell::RefCell;
use std::rc::Rc;

use super::greedy::Beginnings;
use super::{GreedyDifference, QualityComparison, compare_with, encode_alike, load_on_other_engine};
use crate::error::Result;
use crate::generate::GeneratedTokens;
use crate::measure::PerplexityOptions;
use crate::model::{Loaded, LogitPositions, Logits, TokenBatch};

/// A model that several others are compared with on the same texts, such as full precision with its formats. What it predicts
/// is computed once and kept: `tokens * vocab_size * 4` bytes, twice that of texts that are longer than a window, and
/// padding. Greedy texts are compared only [if asked for](Self::with_greedy_texts).
///
/// ```
/// use quantlab::measure::QualityBase;
/// use quantlab::model::{LoadOptions, load_model};
/// use quantlab::quant::QuantizationConfig;
///
/// let full = load_model(&["embedded"], &LoadOptions::default())?;
/// let base = QualityBase::new(&full, &["Once upon a time there was a fox.", "The end."]);
/// let floor = base.noise_floor()?.kl_divergence;
/// for quantization in [QuantizationConfig::int8(), QuantizationConfig::nf4()].map(Some) {
///     let other = load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() })?;
///     assert!(base.compare(&other)?.kl_divergence.value > floor.value);
/// }
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug)]
pub struct QualityBase<'a> {
    base: &'a Loaded,
    texts: Vec<String>,
    /// Of each batch that was asked for.
    logits: RefCell<Vec<(TokenBatch, Rc<Logits>)>>,
    /// Its greedy texts for each context that was asked for, where they are compared.
    greedy: Option<RefCell<Vec<OfContext>>>,
}

/// Greedy texts within a context of so many tokens.
type OfContext = (usize, Rc<Vec<GeneratedTokens>>);

impl<'a> QualityBase<'a> {
    /// The model, and the texts that all others are to predict, too.
    pub fn new(base: &'a Loaded, texts: &[impl AsRef<str>]) -> Self {
        let texts = texts.iter().map(|text| text.as_ref().to_owned()).collect();
        Self { base, texts, logits: RefCell::default(), greedy: None }
    }

    /// Compares greedy texts, too; what the base says is generated once and kept.
    #[must_use]
    pub fn with_greedy_texts(self) -> Self {
        Self { greedy: Some(RefCell::default()), ..self }
    }

    /// What [`compare_quality`](super::compare_quality) finds.
    ///
    /// # Errors
    /// As [`compare_quality`](super::compare_quality).
    pub fn compare(&self, other: &Loaded) -> Result<QualityComparison> {
        let sequences = encode_alike(self.base, other, &self.texts)?;
        let options = PerplexityOptions::default();
        let compared = compare_with(self.base, other, &sequences, &options, &|tokens| self.predict(tokens))?;
        let Some(known) = &self.greedy else { return Ok(compared) };
        Ok(QualityComparison { greedy: self.greedy_differences(known, other, &sequences)?, ..compared })
    }

    /// What [`noise_floor`](super::noise_floor) finds.
    ///
    /// # Errors
    /// As [`noise_floor`](super::noise_floor).
    pub fn noise_floor(&self) -> Result<QualityComparison> {
        self.compare(&load_on_other_engine(self.base)?)
    }

    fn greedy_differences(
        &self,
        known: &RefCell<Vec<OfContext>>,
        other: &Loaded,
        sequences: &[Vec<u32>],
    ) -> Result<Vec<GreedyDifference>> {
        let beginnings = Beginnings::of(self.base, other, sequences);
        let continued = |loaded: &Loaded| beginnings.continued(&*loaded.model, PerplexityOptions::default().batch_size);
        let of_context =
            known.borrow().iter().find(|known| known.0 == beginnings.context_len).map(|(_, texts)| texts.clone());
        let base = match of_context {
            Some(texts) => texts,
            None => {
                let texts = Rc::new(continued(self.base)?);
                known.borrow_mut().push((beginnings.context_len, texts.clone()));
                texts
            }
        };
        Ok(beginnings.differences(&base, &continued(other)?))
    }

    fn predict(&self, tokens: &TokenBatch) -> Result<Rc<Logits>> {
        if let Some((_, known)) = self.logits.borrow().iter().find(|(batch, _)| batch == tokens) {
            return Ok(known.clone());
        }
        let logits = Rc::new(self.base.model.forward(tokens, None, LogitPositions::All)?);
        self.logits.borrow_mut().push((tokens.clone(), logits.clone()));
        Ok(logits)
    }
}
