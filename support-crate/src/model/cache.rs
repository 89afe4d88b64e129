//! What a model remembers of the tokens it has seen, so that it need not compute them again.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Device, LogitPositions, Step, TokenBatch, available_memory};
use crate::error::{Error, Result};

/// Distinguishes a loaded model from every other in this process, so that none takes another's cache for its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelIdentity(u64);

impl ModelIdentity {
    /// One that no model has yet. The default is that of models whose caches hold nothing.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Keys and values, as the engine that computes with them keeps them. Nothing else can access them.
#[derive(Debug)]
pub struct CacheStorage {
    kept: Box<dyn AnyStorage>,
    bytes: usize,
}

/// What an engine keeps: any type, which the engine can get back.
trait AnyStorage: Any + fmt::Debug + Send + Sync {}

impl<T: Any + fmt::Debug + Send + Sync> AnyStorage for T {}

impl CacheStorage {
    /// Wraps what an engine keeps for as long as the cache lives.
    pub fn new(kept: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { kept: Box::new(kept), bytes: 0 }
    }

    /// Says how many bytes its keys and values take.
    pub(super) fn of_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The storage of a model that needs none, such as one in a test.
    pub fn nothing() -> Self {
        Self::new(())
    }

    /// What the engine that keeps a `T` has put here.
    ///
    /// # Errors
    /// The storage is another engine's.
    pub(super) fn get<T: 'static>(&self) -> Result<&T> {
        let kept: &dyn Any = &*self.kept;
        kept.downcast_ref().ok_or_else(other_cache)
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// The storage is another engine's.
    pub(super) fn get_mut<T: 'static>(&mut self) -> Result<&mut T> {
        let kept: &mut dyn Any = &mut *self.kept;
        kept.downcast_mut().ok_or_else(other_cache)
    }
}

/// Keys and values of every layer for the tokens so far. Memory for `capacity` tokens is allocated up front, so that
/// adding a token writes only that token.
pub struct KvCache {
    model: ModelIdentity,
    batch: usize,
    capacity: usize,
    past_len: usize,
    /// Which of the past tokens are not padding, (B, past_len); empty while there is no padding.
    mask: Vec<bool>,
    /// Memory for the layout of the next step.
    layout: Layout,
    storage: CacheStorage,
}

impl KvCache {
    pub(super) fn new(model: ModelIdentity, batch: usize, capacity: usize, storage: CacheStorage) -> Self {
        Self { model, batch, capacity, past_len: 0, mask: Vec::new(), layout: Layout::default(), storage }
    }

    /// # Errors
    /// It was made for another model.
    pub(super) fn check_model(&self, model: ModelIdentity) -> Result<()> {
        if self.model == model { Ok(()) } else { Err(other_cache()) }
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

    /// Bytes that were allocated for keys and values.
    pub fn bytes(&self) -> usize {
        self.storage.bytes
    }

    /// Forgets everything; the memory is kept.
    pub fn reset(&mut self) {
        self.past_len = 0;
        self.mask.clear();
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
            return Err(Error::input(format!("{total} tokens exceed the cache's capacity of {}", self.capacity))
                .hint("make the cache with room for the prompt and the new tokens"));
        }
        Ok(())
    }

    pub(super) fn storage(&self) -> &CacheStorage {
        &self.storage
    }

    pub(super) fn storage_mut(&mut self) -> &mut CacheStorage {
        &mut self.storage
    }

    /// # Errors
    /// There are several sequences, or padding.
    pub(super) fn check_plain(&self) -> Result<()> {
        if self.batch == 1 && self.mask.is_empty() {
            return Ok(());
        }
        let has = if self.batch == 1 { "padding".to_owned() } else { format!("{} sequences", self.batch) };
        Err(Error::input(format!("blocks are of one sequence without padding, and the cache has {has}")))
    }

    /// Counts tokens whose keys and values are there by now.
    pub(super) fn add_tokens(&mut self, count: usize) {
        self.past_len += count;
    }

    /// Where these tokens stand, in memory that [`advance`](Self::advance) takes back.
    pub(super) fn layout_of(&mut self, tokens: &TokenBatch) -> Layout {
        let mut layout = std::mem::take(&mut self.layout);
        layout.place(tokens, self.past_len, &self.mask, self.capacity);
        layout
    }

    pub(super) fn advance(&mut self, tokens: &TokenBatch, layout: Layout) {
        self.past_len += tokens.seq_len();
        self.layout = layout;
        std::mem::swap(&mut self.mask, &mut self.layout.key_mask);
    }

    /// How many of the first `len` tokens of each sequence are not padding.
    pub(super) fn tokens_within(&self, len: usize) -> Vec<usize> {
        if self.mask.is_empty() {
            return vec![len; self.batch];
        }
        let rows = self.mask.chunks_exact(self.past_len);
        rows.map(|row| row[..len].iter().filter(|&&is_token| is_token).count()).collect()
    }

    /// Forgets all but the first `len` tokens of each sequence.
    pub(super) fn keep_tokens(&mut self, len: usize) {
        if !self.mask.is_empty() {
            let rows = self.mask.chunks_exact(self.past_len);
            self.mask = rows.flat_map(|row| &row[..len]).copied().collect();
        }
        self.past_len = len;
    }

    pub(super) fn keep_rows(&mut self, rows: &[usize]) {
        self.batch = rows.len();
        if !self.mask.is_empty() {
            let of_row = |&row: &usize| &self.mask[row * self.past_len..(row + 1) * self.past_len];
            self.mask = rows.iter().flat_map(of_row).copied().collect();
        }
    }
}

/// The error of a cache that another model made.
pub(super) fn other_cache() -> Error {
    Error::input("the cache was made for another model").hint("make it with this model's `new_cache`")
}

/// Checks that there are `needed` bytes of memory for the keys and values of all layers, for `batch` sequences of
/// `capacity` tokens: the system promises more memory than it has, and kills a process that relies on the promise. How
/// much a GPU has is known to its library.
///
/// # Errors
/// The cache is larger than what is free.
pub(super) fn check_cache_room(device: Device, needed: f64, batch: usize, capacity: usize) -> Result<()> {
    let free = if device.is_cpu() { available_memory() } else { None };
    let is_room = needed <= free.unwrap_or(isize::MAX as usize) as f64;
    if is_room { Ok(()) } else { Err(no_cache_room(needed, batch, capacity, free)) }
}

pub(super) fn no_cache_room(needed: f64, batch: usize, capacity: usize, free: Option<usize>) -> Error {
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    let free = match free {
        Some(free) => format!("but only {:.2} GiB are free", gib(free as f64)),
        None => "more than the system provides".to_owned(),
    };
    Error::input(format!("a cache of {batch} sequences of {capacity} tokens needs {:.2} GiB, {free}", gib(needed)))
        .hint("use a smaller batch or fewer tokens, or drop models that are no longer needed")
}

impl fmt::Debug for KvCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KvCache {{ batch: {}, past_len: {}, capacity: {} }}", self.batch, self.past_len, self.capacity)
    }
}

/// Where the tokens of a step stand in their sequences, and which keys are padding.
#[derive(Default)]
pub(super) struct Layout {
    past_len: usize,
    position_ids: Vec<u32>,
    /// (B, past_len + T); empty if all keys are tokens.
    key_mask: Vec<bool>,
}

impl Layout {
    /// Of tokens without a past.
    pub(super) fn of(tokens: &TokenBatch) -> Self {
        let mut layout = Self::default();
        layout.place(tokens, 0, &[], tokens.seq_len());
        layout
    }

    /// `past_mask` (B, past_len) is empty if all that is past are tokens. Later steps have at most `capacity` keys.
    fn place(&mut self, tokens: &TokenBatch, past_len: usize, past_mask: &[bool], capacity: usize) {
        let (batch, seq_len) = (tokens.batch(), tokens.seq_len());
        let new_mask = tokens.attention_mask();
        self.past_len = past_len;
        self.position_ids.clear();
        self.key_mask.clear();
        if past_mask.is_empty() && new_mask.is_none() {
            let positions = (0..seq_len).map(|t| (past_len + t) as u32);
            self.position_ids.extend(std::iter::repeat_n(positions, batch).flatten());
            return;
        }
        self.key_mask.reserve(batch * capacity);
        for row in 0..batch {
            let start = self.key_mask.len();
            if past_mask.is_empty() {
                self.key_mask.resize(start + past_len, true);
            } else {
                self.key_mask.extend_from_slice(&past_mask[row * past_len..(row + 1) * past_len]);
            }
            let mut tokens_so_far = self.key_mask[start..].iter().filter(|&&is_token| is_token).count() as u32;
            for t in 0..seq_len {
                let is_token = new_mask.is_none_or(|mask| mask[row * seq_len + t]);
                tokens_so_far += u32::from(is_token);
                self.key_mask.push(is_token);
                self.position_ids.push(tokens_so_far.saturating_sub(1));
            }
        }
    }

    pub(super) fn step<'a>(&'a self, tokens: &'a TokenBatch, positions: LogitPositions) -> Step<'a> {
        let (batch, seq_len) = (tokens.batch(), tokens.seq_len());
        let count = positions.of_each(seq_len);
        let last_of = |row: usize| {
            let is_token = |&t: &usize| tokens.attention_mask().is_none_or(|mask| mask[row * seq_len + t]);
            let all: Vec<usize> = (0..seq_len).filter(is_token).collect();
            let last = all.len().checked_sub(count).map_or((seq_len - count..seq_len).collect(), |n| all[n..].to_vec());
            last.into_iter().map(move |t| (row * seq_len + t) as u32)
        };
        let wanted = (count < seq_len).then(|| (0..batch).flat_map(last_of).collect());
        Step {
            ids: tokens.ids(),
            batch,
            seq_len,
            past_len: self.past_len,
            position_ids: &self.position_ids,
            key_mask: Some(self.key_mask.as_slice()).filter(|mask| !mask.is_empty()),
            wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::causal_lm::Seal;
    use crate::model::{CacheFormat, LoadOptions, LogitPositions, load_model};

    fn batch(mask: &[&[u8]]) -> TokenBatch {
        let mask: Vec<Vec<bool>> = mask.iter().map(|row| row.iter().map(|&bit| bit == 1).collect()).collect();
        let ids: Vec<Vec<u32>> = mask.iter().map(|row| vec![7; row.len()]).collect();
        TokenBatch::new(&ids).unwrap().with_attention_mask(&mask).unwrap()
    }

    #[test]
    fn padding_takes_no_positions_on_either_side() {
        let tokens = batch(&[&[1, 1, 1], &[0, 1, 1], &[1, 1, 0]]);
        let layout = Layout::of(&tokens);
        assert_eq!(layout.position_ids, [0, 1, 2, 0, 0, 1, 0, 1, 1]);
        let wanted = |positions| layout.step(&tokens, positions).wanted;
        assert_eq!(wanted(LogitPositions::Last), Some(vec![2, 5, 7]));
        assert_eq!(wanted(LogitPositions::LastN(2)), Some(vec![1, 2, 4, 5, 6, 7]));
        assert_eq!((wanted(LogitPositions::LastN(3)), wanted(LogitPositions::All)), (None, None));
        // A sequence of nothing but padding has no token to continue from.
        let tokens = batch(&[&[0, 0], &[1, 1]]);
        assert_eq!(Layout::of(&tokens).step(&tokens, LogitPositions::Last).wanted, Some(vec![1, 3]));
    }

    #[test]
    fn positions_and_padding_go_on_from_the_cache() {
        let mut cache = KvCache::new(ModelIdentity::new(), 2, 8, CacheStorage::nothing());
        let prompt = batch(&[&[1, 1, 1], &[1, 1, 0]]);
        let layout = cache.layout_of(&prompt);
        cache.advance(&prompt, layout);
        let next = batch(&[&[1], &[1]]);
        let layout = cache.layout_of(&next);
        assert_eq!(layout.position_ids, [3, 2]);
        assert_eq!(layout.key_mask, [true, true, true, true, true, true, false, true]);
        cache.advance(&next, layout);
        cache.keep_tokens(3);
        let layout = cache.layout_of(&next);
        assert_eq!(layout.position_ids, [3, 2], "as if the last token had not been");
        assert_eq!(layout.key_mask, [true, true, true, true, true, true, false, true]);
        cache.reset();
        assert_eq!(cache.layout_of(&next).position_ids, [0, 0]);
    }

    #[test]
    fn a_full_cache_says_so() {
        let cache = KvCache::new(ModelIdentity::new(), 1, 2, CacheStorage::nothing());
        let error = cache.check_room(&batch(&[&[1, 1, 1]])).unwrap_err();
        assert!(error.to_string().contains("3 tokens exceed the cache's capacity of 2"), "{error}");
        assert!(cache.check_room(&batch(&[&[1], &[1]])).is_err());
    }

    #[test]
    fn tokens_that_a_lost_step_has_replaced_are_not_read() {
        let model = load_model(&["embedded"], &LoadOptions::default()).unwrap().model;
        let mut cache = model.new_cache_in(Some(CacheFormat::Int8), 1, 400).unwrap();
        let ids: Vec<u32> = (0..300).map(|i| i % 270).collect();
        let go_on = |ids: &[u32], cache: &mut KvCache, ends: bool| {
            let tokens = TokenBatch::single(ids).unwrap();
            if ends {
                return model.forward(&tokens, Some(cache), LogitPositions::Last);
            }
            let layout = cache.layout_of(&tokens);
            let step = layout.step(&tokens, LogitPositions::Last);
            model.engine_model(Seal).compute(&step, Some(cache.storage_mut()))
        };
        go_on(&ids[..100], &mut cache, true).unwrap();
        // As many as can be replaced.
        let expected = go_on(&ids[100..140], &mut cache, false).unwrap();
        go_on(&ids[100..300], &mut cache, false).unwrap();
        let error = go_on(&ids[100..140], &mut cache, true).unwrap_err().to_string();
        assert!(error.contains("sequence 0 has had 300 tokens") && error.contains("not after 100"), "{error}");
        cache.reset();
        go_on(&ids[..100], &mut cache, true).unwrap();
        assert_eq!(go_on(&ids[100..140], &mut cache, true).unwrap(), expected);
    }
}
