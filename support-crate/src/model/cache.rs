//! What a model remembers of the tokens it has seen, so that it need not compute them again.

use std::any::Any;
use std::fmt;

use super::{LogitPositions, Step, TokenBatch};
use crate::error::{Error, Result};

/// Keys and values of every layer for the tokens so far. Memory for `capacity` tokens is set aside at
/// once, so that adding a token writes that token only.
pub struct KvCache {
    batch: usize,
    capacity: usize,
    past_len: usize,
    /// Which of the past tokens are not padding, by sequence; `None` as long as all are.
    mask: Option<Vec<Vec<bool>>>,
    storage: Box<dyn Any + Send + Sync>,
}

impl KvCache {
    pub(super) fn new(batch: usize, capacity: usize, storage: Box<dyn Any + Send + Sync>) -> Self {
        Self { batch, capacity, past_len: 0, mask: None, storage }
    }

    /// Tokens of each sequence that the cache holds, padding included.
    pub fn past_len(&self) -> usize {
        self.past_len
    }

    /// Tokens of each sequence that the cache has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sequences that the cache holds.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Forgets everything; the memory is kept.
    pub fn reset(&mut self) {
        self.past_len = 0;
        self.mask = None;
    }

    pub(super) fn check_room(&self, tokens: &TokenBatch) -> Result<()> {
        if tokens.batch() != self.batch {
            return Err(Error::input(format!(
                "the cache holds {} sequences, the batch has {}",
                self.batch,
                tokens.batch()
            )));
        }
        let total = self.past_len + tokens.seq_len();
        if total > self.capacity {
            return Err(Error::input(format!(
                "{total} tokens are more than the cache's capacity of {}",
                self.capacity
            ))
            .hint("make the cache with room for the prompt and the new tokens"));
        }
        Ok(())
    }

    pub(super) fn storage_mut(&mut self) -> &mut (dyn Any + Send + Sync) {
        &mut *self.storage
    }

    pub(super) fn keep_rows(&mut self, rows: &[usize]) {
        self.batch = rows.len();
        if let Some(mask) = &mut self.mask {
            *mask = rows.iter().map(|&row| std::mem::take(&mut mask[row])).collect();
        }
    }

    pub(super) fn advance(&mut self, tokens: &TokenBatch, layout: Layout) {
        self.past_len += tokens.seq_len();
        self.mask = layout.key_mask.map(|mask| mask.chunks(self.past_len).map(<[bool]>::to_vec).collect());
    }
}

impl fmt::Debug for KvCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KvCache {{ batch: {}, past_len: {}, capacity: {} }}", self.batch, self.past_len, self.capacity)
    }
}

/// Where the tokens of a step stand in their sequences, and which keys are padding.
pub(super) struct Layout {
    past_len: usize,
    position_ids: Vec<u32>,
    key_mask: Option<Vec<bool>>,
}

impl Layout {
    pub(super) fn of(tokens: &TokenBatch, cache: Option<&KvCache>) -> Self {
        let (batch, seq_len) = (tokens.batch(), tokens.seq_len());
        let past_len = cache.map_or(0, KvCache::past_len);
        let past_mask = cache.and_then(|cache| cache.mask.as_ref());
        let new_mask = tokens.attention_mask();
        if past_mask.is_none() && new_mask.is_none() {
            let positions = (0..seq_len).map(|t| (past_len + t) as u32);
            let position_ids = std::iter::repeat_n(positions, batch).flatten().collect();
            return Self { past_len, position_ids, key_mask: None };
        }
        let mut position_ids = Vec::with_capacity(batch * seq_len);
        let mut key_mask = Vec::with_capacity(batch * (past_len + seq_len));
        for row in 0..batch {
            match past_mask {
                Some(mask) => key_mask.extend_from_slice(&mask[row]),
                None => key_mask.extend(std::iter::repeat_n(true, past_len)),
            }
            let seen = &key_mask[key_mask.len() - past_len..];
            let mut tokens_so_far = seen.iter().filter(|&&is_token| is_token).count() as u32;
            for t in 0..seq_len {
                let is_token = new_mask.is_none_or(|mask| mask[row * seq_len + t]);
                tokens_so_far += u32::from(is_token);
                key_mask.push(is_token);
                position_ids.push(tokens_so_far.saturating_sub(1));
            }
        }
        Self { past_len, position_ids, key_mask: Some(key_mask) }
    }

    pub(super) fn step<'a>(&'a self, tokens: &'a TokenBatch, positions: LogitPositions) -> Step<'a> {
        let (batch, seq_len) = (tokens.batch(), tokens.seq_len());
        let last_token = |row: usize| {
            let of_row =
                |mask: &[bool]| mask[row * seq_len..(row + 1) * seq_len].iter().rposition(|&is_token| is_token);
            let last = tokens.attention_mask().and_then(of_row).unwrap_or(seq_len - 1);
            (row * seq_len + last) as u32
        };
        let wanted = match positions {
            LogitPositions::Last if seq_len > 1 => Some((0..batch).map(last_token).collect()),
            _ => None,
        };
        Step {
            ids: tokens.ids(),
            batch,
            seq_len,
            past_len: self.past_len,
            position_ids: &self.position_ids,
            key_mask: self.key_mask.as_deref(),
            wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(mask: &[&[u8]]) -> TokenBatch {
        let mask: Vec<Vec<bool>> = mask.iter().map(|row| row.iter().map(|&bit| bit == 1).collect()).collect();
        let ids: Vec<Vec<u32>> = mask.iter().map(|row| vec![7; row.len()]).collect();
        TokenBatch::new(&ids).unwrap().with_attention_mask(&mask).unwrap()
    }

    #[test]
    fn padding_takes_no_positions_on_either_side() {
        let tokens = batch(&[&[1, 1, 1], &[0, 1, 1], &[1, 1, 0]]);
        let layout = Layout::of(&tokens, None);
        assert_eq!(layout.position_ids, [0, 1, 2, 0, 0, 1, 0, 1, 1]);
        assert_eq!(layout.step(&tokens, LogitPositions::Last).wanted, Some(vec![2, 5, 7]));
    }

    #[test]
    fn positions_and_padding_go_on_from_the_cache() {
        let mut cache = KvCache::new(2, 8, Box::new(()));
        let prompt = batch(&[&[1, 1, 1], &[1, 1, 0]]);
        let layout = Layout::of(&prompt, Some(&cache));
        cache.advance(&prompt, layout);
        let next = batch(&[&[1], &[1]]);
        let layout = Layout::of(&next, Some(&cache));
        assert_eq!(layout.position_ids, [3, 2]);
        assert_eq!(layout.key_mask.as_deref(), Some(&[true, true, true, true, true, true, false, true][..]));
        cache.reset();
        assert_eq!(Layout::of(&next, Some(&cache)).position_ids, [0, 0]);
    }

    #[test]
    fn a_full_cache_says_so() {
        let cache = KvCache::new(1, 2, Box::new(()));
        let error = cache.check_room(&batch(&[&[1, 1, 1]])).unwrap_err();
        assert!(error.to_string().contains("3 tokens are more than the cache's capacity of 2"), "{error}");
        assert!(cache.check_room(&batch(&[&[1], &[1]])).is_err());
    }
}
