//! What callers do with a model. Their arguments are checked here, once for all engines.

use std::fmt;
use std::ops::Range;

use super::cache::Layout;
use super::engine_model::EngineModel;
use super::{CacheFormat, KvBlock, KvCache, LogitPositions, Logits, ModelInfo, TensorInfo, TokenBatch};
use crate::error::{Error, Result};
use crate::interrupt;

/// A model that predicts the next token of each sequence in a batch.
///
/// Engines do not implement this trait but a hidden one, so that none can override these checks.
pub trait CausalLm: fmt::Debug + Send + Sync {
    /// What the engine implements. Only this library can name [`Seal`], and so call or implement this.
    #[doc(hidden)]
    fn engine_model(&self, _: Seal) -> &dyn EngineModel;

    /// What there is to know about the model.
    fn info(&self) -> &ModelInfo {
        self.engine_model(Seal).info()
    }

    /// Its parameters and buffers, one by one; none of a model that has no weights. Those that are not tied to
    /// another take [`parameter_bytes`](ModelInfo::parameter_bytes) and
    /// [`buffer_bytes`](ModelInfo::buffer_bytes).
    fn tensors(&self) -> &[TensorInfo] {
        self.engine_model(Seal).tensors()
    }

    /// Waits until everything that was started has been computed. Timers call it on both sides.
    ///
    /// # Errors
    /// The device reports a failure of what it was computing.
    fn synchronize(&self) -> Result<()> {
        self.engine_model(Seal).synchronize()
    }

    /// An empty cache for `batch` sequences of at most `capacity` tokens, prompt and new tokens.
    ///
    /// # Errors
    /// A batch or a capacity of zero; a capacity beyond the model's context; more than the free memory holds.
    fn new_cache(&self, batch: usize, capacity: usize) -> Result<KvCache> {
        self.new_cache_in(None, batch, capacity)
    }

    /// As [`new_cache`](Self::new_cache), with keys and values in a format of your choice: fewer bytes to keep, and
    /// for a step to read. Logits then differ from those of a step without a cache. With `None`, the format is float32 on
    /// the CPU, whatever the precision of the weights, and that precision on a GPU.
    ///
    /// # Errors
    /// Those of [`new_cache`](Self::new_cache); a format in which the engine cannot keep keys and values.
    fn new_cache_in(&self, format: Option<CacheFormat>, batch: usize, capacity: usize) -> Result<KvCache> {
        let model = self.engine_model(Seal);
        let context_len = model.info().context_len;
        if batch == 0 || capacity == 0 {
            return Err(Error::input(format!("a cache for {batch} sequences of {capacity} tokens holds nothing")));
        }
        if capacity > context_len {
            return Err(Error::input(format!(
                "a cache of {capacity} tokens is longer than the model's context of {context_len}"
            )));
        }
        Ok(KvCache::new(model.identity(), batch, capacity, model.allocate_cache(batch, capacity, format)?))
    }

    /// Keeps the sequences `rows` of a cache, in this order, and forgets the others: a sequence that is
    /// finished then costs nothing more. The next step has `rows.len()` sequences.
    ///
    /// # Errors
    /// No rows, rows that do not ascend or that the cache does not have, or a cache of another model.
    fn retain(&self, cache: &mut KvCache, rows: &[usize]) -> Result<()> {
        let model = self.engine_model(Seal);
        cache.check_model(model.identity())?;
        let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
        if rows.is_empty() || !ascending || rows.iter().any(|&row| row >= cache.batch()) {
            return Err(Error::input(format!(
                "cannot keep rows {rows:?} of a cache of {} sequences; they must exist and be in ascending order",
                cache.batch()
            )));
        }
        let past_len = cache.past_len();
        model.retain_rows(cache.storage_mut(), rows, past_len)?;
        cache.keep_rows(rows);
        Ok(())
    }

    /// Forgets all but the first `len` tokens of each sequence, as if the others had never been there: guesses that
    /// turned out wrong.
    ///
    /// # Errors
    /// More tokens than the cache holds; a cache of another model; a [quantized](CacheFormat) cache that has had more
    /// than some 64 tokens more (it can always forget the last 64, or all): the cache is then as it was.
    fn truncate(&self, cache: &mut KvCache, len: usize) -> Result<()> {
        let model = self.engine_model(Seal);
        cache.check_model(model.identity())?;
        let past_len = cache.past_len();
        if len > past_len {
            return Err(Error::input(format!("a cache of {past_len} tokens cannot be cut to {len}")));
        }
        if len < past_len {
            let tokens = cache.tokens_within(len);
            model.check_cut(cache.storage_mut(), &tokens)?;
            cache.keep_tokens(len);
        }
        Ok(())
    }

    /// Copies the keys and values of some tokens out of a cache of one sequence; only engine `kernels` can.
    ///
    /// ```
    /// use quantlab::model::{LoadOptions, load_model};
    ///
    /// let model = load_model(&["embedded"], &LoadOptions::default())?.model;
    /// let (mut one, mut other) = (model.new_cache(1, 8)?, model.new_cache(1, 8)?);
    /// let expected = model.forward_together(&mut [(&[5, 6, 7, 8], &mut one)])?;
    /// let block = model.copy_out(&one, 0..3)?;
    /// model.copy_in(&block, &mut other)?;
    /// assert_eq!(model.forward_together(&mut [(&[8], &mut other)])?, expected);
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tokens, or some that the cache does not hold; a cache of several sequences, with padding, or of another model;
    /// another engine; in a [quantized](CacheFormat) cache, tokens of which only codes are left: the last 128 can always
    /// be copied.
    fn copy_out(&self, cache: &KvCache, tokens: Range<usize>) -> Result<KvBlock> {
        let model = self.engine_model(Seal);
        cache.check_model(model.identity())?;
        cache.check_plain()?;
        if tokens.is_empty() || tokens.end > cache.past_len() {
            return Err(Error::input(format!("a cache of {} tokens has no block of {tokens:?}", cache.past_len())));
        }
        let storage = model.copy_out(cache.storage(), tokens.clone())?;
        Ok(KvBlock { model: model.identity(), tokens, storage })
    }

    /// Adds the tokens of a block to a cache that has the tokens before them. What it costs is the reading and writing of
    /// this memory.
    ///
    /// # Errors
    /// A cache that has more tokens or fewer, no room, another format, several sequences, or padding; a block or a cache
    /// of another model.
    fn copy_in(&self, block: &KvBlock, cache: &mut KvCache) -> Result<()> {
        let model = self.engine_model(Seal);
        cache.check_model(model.identity())?;
        cache.check_model(block.model)?;
        cache.check_plain()?;
        let Range { start, end } = block.tokens;
        if cache.past_len() != start || end > cache.capacity() {
            return Err(Error::input(format!(
                "the block of tokens {start} to {end} does not follow the {} of a cache with room for {}",
                cache.past_len(),
                cache.capacity()
            )));
        }
        model.copy_in(&block.storage, start..end, cache.storage_mut())?;
        cache.add_tokens(end - start);
        Ok(())
    }

    /// The logits for the token after each position of `tokens`, or after the last ones only.
    ///
    /// With a cache, `tokens` continue what the cache holds, and are added to it; without, they are the
    /// whole sequences. A batch element's result does not depend on its neighbours or its padding, nor on whether its
    /// tokens come together or one by one, with two exceptions: a model in int8 with a threshold
    /// ([threshold](crate::quant::QuantizationMethod::LlmInt8)); and, on the engine `kernels` with Intel's tiles, weights
    /// in bfloat16 or in 4 bits, whose sums round differently from a number of tokens a step on.
    ///
    /// # Errors
    /// A token id beyond the vocabulary; more tokens than the context or the cache has room for; logits of more last
    /// positions than there are; a cache made for another batch size or another model; one in int8 or int4 of which an
    /// interrupted step has replaced tokens that this one needs ([`reset`](KvCache::reset) it).
    fn forward(&self, tokens: &TokenBatch, cache: Option<&mut KvCache>, positions: LogitPositions) -> Result<Logits> {
        interrupt::check()?;
        let model = self.engine_model(Seal);
        check_tokens(model.info(), tokens, cache.as_ref().map_or(0, |cache| cache.past_len()))?;
        positions.check(tokens.seq_len())?;
        let Some(cache) = cache else {
            let layout = Layout::of(tokens);
            return model.compute(&layout.step(tokens, positions), None);
        };
        cache.check_model(model.identity())?;
        cache.check_room(tokens)?;
        let layout = cache.layout_of(tokens);
        let logits = model.compute(&layout.step(tokens, positions), Some(cache.storage_mut()))?;
        cache.advance(tokens, layout);
        Ok(logits)
    }

    /// Continues several caches of one sequence each, every one by any number of tokens, and returns the logits after
    /// the last token of each: (sequences, 1, V).
    ///
    /// They are those of [`forward`](Self::forward) for each alone (with the exceptions that it names). On the engine
    /// `kernels`, the weights are read once for all; the others compute one sequence after the other.
    ///
    /// ```
    /// use quantlab::model::{LoadOptions, load_model};
    ///
    /// let model = load_model(&["embedded"], &LoadOptions::default())?.model;
    /// let (mut one, mut other) = (model.new_cache(1, 8)?, model.new_cache(1, 8)?);
    /// model.forward_together(&mut [(&[5, 6, 7], &mut one)])?;
    /// // The first sequence goes on by a token while the second is read.
    /// let logits = model.forward_together(&mut [(&[8], &mut one), (&[1, 2], &mut other)])?;
    /// assert_eq!((logits.batch(), one.past_len(), other.past_len()), (2, 4, 2));
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// No sequences; those of [`forward`](Self::forward), for any of them: then no cache has changed.
    fn forward_together(&self, sequences: &mut [(&[u32], &mut KvCache)]) -> Result<Logits> {
        interrupt::check()?;
        let model = self.engine_model(Seal);
        if sequences.is_empty() {
            return Err(Error::input("there are no sequences to continue"));
        }
        let check = |(ids, cache): &(&[u32], &mut KvCache)| {
            let tokens = TokenBatch::single(ids)?;
            check_tokens(model.info(), &tokens, cache.past_len())?;
            cache.check_model(model.identity())?;
            cache.check_room(&tokens)?;
            Ok(tokens)
        };
        let tokens = sequences.iter().map(check).collect::<Result<Vec<_>>>()?;
        let pairs = tokens.iter().zip(&mut *sequences);
        let layouts: Vec<Layout> = pairs.map(|(tokens, (_, cache))| cache.layout_of(tokens)).collect();
        let mut steps = Vec::with_capacity(tokens.len());
        for ((tokens, layout), (_, cache)) in tokens.iter().zip(&layouts).zip(&mut *sequences) {
            steps.push((layout.step(tokens, LogitPositions::Last), cache.storage_mut()));
        }
        let logits = model.compute_together(&mut steps)?;
        for ((tokens, layout), (_, cache)) in tokens.iter().zip(layouts).zip(sequences) {
            cache.advance(tokens, layout);
        }
        Ok(logits)
    }
}

impl<T: EngineModel> CausalLm for T {
    fn engine_model(&self, _: Seal) -> &dyn EngineModel {
        self
    }
}

/// Seals [`CausalLm`]: it is not exported, so nothing outside this library can name it.
pub struct Seal;

/// Makes sure that the model knows these tokens and has room for them.
pub(super) fn check_tokens(info: &ModelInfo, tokens: &TokenBatch, past_len: usize) -> Result<()> {
    info.check_ids(tokens.ids())?;
    let total = past_len + tokens.seq_len();
    if total > info.context_len {
        return Err(Error::input(format!("{total} tokens exceed the model's context of {}", info.context_len))
            .hint("use a shorter prompt or generate fewer tokens"));
    }
    Ok(())
}
