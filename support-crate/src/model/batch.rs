//! What goes into a model and what comes out, whatever the engine.

use std::cell::Cell;

use crate::error::{Error, Result};

/// Token ids of a batch of sequences of equal length, and which of them are padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBatch {
    ids: Vec<u32>,
    batch: usize,
    /// Row by row; `None` if nothing is padding.
    attention_mask: Option<Vec<bool>>,
}

/// Which logits a caller needs: computing all of them for a long prompt takes as long as the rest of
/// the model together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitPositions {
    /// After every token: for perplexity.
    All,
    /// After each sequence's last token that is not padding: for generating.
    Last,
    /// After each of a sequence's last so many tokens that are not padding: to check what was guessed. For a sequence
    /// that has fewer, after its last positions, whatever they are.
    LastN(usize),
}

impl LogitPositions {
    /// How many of `seq_len` positions those are.
    pub(super) fn of_each(self, seq_len: usize) -> usize {
        match self {
            Self::All => seq_len,
            Self::Last => 1,
            Self::LastN(count) => count,
        }
    }

    /// # Errors
    /// None of `seq_len` positions, or more than there are.
    pub(super) fn check(self, seq_len: usize) -> Result<()> {
        match self {
            Self::LastN(count) if !(1..=seq_len).contains(&count) => Err(Error::input(format!(
                "logits of the last {count} positions were asked for; the number must lie between 1 and {seq_len}"
            ))),
            _ => Ok(()),
        }
    }
}

/// For each position the unnormalised log-probability of every token to come next, in float32 on the
/// CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    values: Vec<f32>,
    batch: usize,
    vocab_size: usize,
}

impl TokenBatch {
    /// One sequence without padding.
    ///
    /// # Errors
    /// No tokens at all.
    pub fn single(ids: &[u32]) -> Result<Self> {
        Self::checked(ids.to_vec(), 1)
    }

    /// Several sequences of the same length.
    ///
    /// # Errors
    /// No sequences, sequences of different lengths, or no tokens.
    pub fn new(rows: &[Vec<u32>]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|row| row.len() != rows[0].len()) {
            return Err(Error::input(format!(
                "sequences of {} and {} tokens cannot share a batch",
                rows[0].len(),
                row.len()
            ))
            .hint("pad the shorter ones and mask the padding"));
        }
        Self::checked(rows.concat(), rows.len())
    }

    fn checked(ids: Vec<u32>, batch: usize) -> Result<Self> {
        if batch == 0 {
            return Err(Error::input("the batch holds no sequences"));
        }
        if ids.is_empty() {
            return Err(
                Error::input("the sequence holds no tokens").hint("a model needs at least one token to continue from")
            );
        }
        Ok(Self { ids, batch, attention_mask: None })
    }

    /// Marks padding: `true` for a token, `false` for padding, row by row as the ids.
    ///
    /// # Errors
    /// A shape other than that of the ids.
    pub fn with_attention_mask(mut self, rows: &[Vec<bool>]) -> Result<Self> {
        if rows.len() != self.batch || rows.iter().any(|row| row.len() != self.seq_len()) {
            return Err(Error::input(format!(
                "the attention mask must have the shape of the ids, ({}, {})",
                self.batch,
                self.seq_len()
            )));
        }
        let mask = rows.concat();
        self.attention_mask = mask.contains(&false).then_some(mask);
        Ok(self)
    }

    /// The ids, row by row.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many sequences there are.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The length of each sequence, padding included.
    pub fn seq_len(&self) -> usize {
        self.ids.len() / self.batch
    }

    /// Which ids are tokens, row by row; `None` if all are.
    pub fn attention_mask(&self) -> Option<&[bool]> {
        self.attention_mask.as_deref()
    }
}

/// The most memory for logits, in bytes, that is kept and reused for the next ones: enough for those of a batch after
/// one token each.
const MAX_REUSED_BYTES: usize = 16 << 20;

thread_local!(static REUSED: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });

/// So that a step of one token need not allocate, the memory stays with the thread.
impl Drop for Logits {
    fn drop(&mut self) {
        if size_of::<f32>() * self.values.capacity() <= MAX_REUSED_BYTES {
            // A thread that ends has no use for it.
            let _ = REUSED.try_with(|kept| kept.set(std::mem::take(&mut self.values)));
        }
    }
}

impl Logits {
    /// Memory for `len` logits: that of earlier ones, if there are.
    pub(super) fn memory(len: usize) -> Vec<f32> {
        let mut values = REUSED.take();
        values.clear();
        values.resize(len, 0.0);
        values
    }

    /// Logits as an engine computed them: `batch` sequences, rows of `vocab_size` numbers.
    ///
    /// # Errors
    /// The values do not fill the shape.
    pub fn new(values: Vec<f32>, batch: usize, vocab_size: usize) -> Result<Self> {
        if batch == 0 || vocab_size == 0 || values.is_empty() || !values.len().is_multiple_of(batch * vocab_size) {
            return Err(Error::system(format!(
                "{} logits do not make whole rows of {vocab_size} for {batch} sequences",
                values.len()
            )));
        }
        Ok(Self { values, batch, vocab_size })
    }

    /// How many sequences there are.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// How many positions of each sequence there are.
    pub fn positions(&self) -> usize {
        self.values.len() / (self.batch * self.vocab_size)
    }

    /// The length of a row.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The row of one position of one sequence.
    ///
    /// # Panics
    /// If `sequence` is not below `batch()` or `position` not below `positions()`, as with indexing.
    pub fn row(&self, sequence: usize, position: usize) -> &[f32] {
        assert!(position < self.positions(), "position {position} is out of range for {} positions", self.positions());
        let start = (sequence * self.positions() + position) * self.vocab_size;
        &self.values[start..start + self.vocab_size]
    }

    /// All values, (batch, positions, vocab_size) row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        assert!(TokenBatch::new(&[]).is_err());
        assert!(TokenBatch::single(&[]).is_err());
        let error = TokenBatch::new(&[vec![1, 2], vec![3]]).unwrap_err();
        assert!(error.to_string().contains("2 and 1 tokens"), "{error}");
        let batch = TokenBatch::new(&[vec![1, 2], vec![3, 4]]).unwrap();
        assert!(batch.clone().with_attention_mask(&[vec![true, true]]).is_err());
        assert!(batch.with_attention_mask(&[vec![true, true], vec![true]]).is_err());
        assert!(Logits::new(vec![0.0; 5], 1, 2).is_err());
    }

    #[test]
    fn a_mask_without_padding_is_no_mask() {
        let batch = TokenBatch::single(&[1, 2]).unwrap().with_attention_mask(&[vec![true, true]]).unwrap();
        assert_eq!(batch.attention_mask(), None);
    }

    #[test]
    fn rows_are_found() {
        let logits = Logits::new((0_u8..12).map(f32::from).collect(), 2, 2).unwrap();
        assert_eq!(logits.positions(), 3);
        assert_eq!(logits.row(1, 2), [10.0, 11.0]);
    }
}
