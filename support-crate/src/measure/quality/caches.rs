//! What formats of keys and values change in a model's predictions, by how much text lies before.

use std::ops::Range;

use serde::Serialize;

use super::position::{Position, check, compare};
use super::same_vocabulary;
use crate::error::{Error, Result};
use crate::measure::Uncertain;
use crate::model::{CacheFormat, KvCache, Loaded, LogitPositions, TokenBatch};

/// Tokens that are read at once: their logits are in memory together.
const STEP: usize = 128;

/// How far the predictions of a model with a cache in some format are from those of the base, at the positions of some
/// range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheComparison {
    /// The format of keys and values.
    pub format: CacheFormat,
    /// Tokens before the predicted one.
    pub context: Range<usize>,
    /// Mean of `KL(base || other)`, in nats. The interval is as if positions were independent.
    pub kl_divergence: Uncertain,
    /// Share of positions, 0 to 1, at which both have the same most likely token.
    pub same_top_token: Uncertain,
    /// Tokens that were predicted.
    pub tokens: usize,
}

/// Reads sequences of tokens, all of a length, with the base's cache in the format that it computes in and with each of
/// `others`, and compares predictions; for each of these, a comparison for each of `contexts`.
///
/// Give the base itself in several formats, and, for the least that a comparison can find, the same weights on another
/// engine in float32. In int8 and int4, what a token sees of the cache does not depend on how many tokens are read at once,
/// so this is also what a text sees that is generated token by token.
///
/// ```
/// use quantlab::measure::compare_caches;
/// use quantlab::model::{CacheFormat, LoadOptions, load_model};
///
/// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
/// let ids = loaded.tokenizer.encode(&quantlab::source::held_out_text()[..900])?;
/// let found = compare_caches(&loaded, &[(&loaded, CacheFormat::Int4)], &[ids[..200].to_vec()], &[64..128, 128..200])?;
/// assert!(found.iter().all(|row| row.kl_divergence.value < 0.1));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// Vocabularies of different sizes; no sequences, or of different lengths; contexts that no sequence has, or that have fewer
/// than two positions; a token that the models do not know, even as the last one, which is only predicted; what
/// [`CausalLm::forward`](crate::model::CausalLm::forward) and `new_cache_in` report; predictions that are NaN.
pub fn compare_caches(
    base: &Loaded,
    others: &[(&Loaded, CacheFormat)],
    sequences: &[Vec<u32>],
    contexts: &[Range<usize>],
) -> Result<Vec<CacheComparison>> {
    let len = sequences.first().map_or(0, Vec::len);
    if sequences.iter().any(|ids| ids.len() != len) {
        return Err(Error::input("the sequences have different lengths"));
    }
    if len < 2 {
        return Err(Error::input(format!("sequences of {len} tokens have nothing to predict")));
    }
    for context in contexts {
        let positions = context.end.min(len).saturating_sub(context.start.max(1)) * sequences.len();
        if context.start == 0 || context.end > len || positions < 2 {
            return Err(Error::input(format!(
                "contexts of {} to {} tokens: sequences of {len} tokens, of which there are {}, have {positions} such \
                 positions",
                context.start,
                context.end,
                sequences.len(),
            )));
        }
    }
    others.iter().try_for_each(|(other, _)| same_vocabulary(base, other))?;
    sequences.iter().try_for_each(|ids| base.model.info().check_ids(ids))?;
    // Of each other, the positions of each sequence: the first is that of the prediction after one token.
    let mut found: Vec<Vec<Vec<Position>>> = others.iter().map(|_| Vec::new()).collect();
    for ids in sequences {
        let new_cache = |loaded: &Loaded, format| loaded.model.new_cache_in(format, 1, len - 1);
        let mut base_cache = new_cache(base, None)?;
        let caches = others.iter().map(|&(loaded, format)| new_cache(loaded, Some(format))).collect::<Result<Vec<_>>>();
        let (mut caches, mut positions) = (caches?, vec![Vec::new(); others.len()]);
        for start in (0..len - 1).step_by(STEP) {
            let end = (len - 1).min(start + STEP);
            let read = |loaded: &Loaded, cache: &mut KvCache| {
                loaded.model.forward(&TokenBatch::single(&ids[start..end])?, Some(cache), LogitPositions::All)
            };
            let expected = read(base, &mut base_cache)?;
            for ((&(loaded, format), cache), positions) in others.iter().zip(&mut caches).zip(&mut positions) {
                let logits = read(loaded, cache)?;
                let names = [base.model_id.clone(), format!("{} with a cache in {format}", loaded.model_id)];
                for t in 0..end - start {
                    let position = compare(expected.row(0, t), logits.row(0, t), ids[start + t + 1]);
                    check(&position, &names)?;
                    positions.push(position);
                }
            }
        }
        found.iter_mut().zip(positions).for_each(|(found, positions)| found.push(positions));
    }
    let of = |(&(_, format), found): (&(&Loaded, CacheFormat), &Vec<Vec<Position>>)| {
        let of_context = |context: &Range<usize>| {
            let all = || found.iter().flat_map(|positions| &positions[context.start - 1..context.end - 1]);
            CacheComparison {
                format,
                context: context.clone(),
                kl_divergence: Uncertain::mean_of(all().map(|p| p.kl)),
                same_top_token: Uncertain::mean_of(all().map(|p| f64::from(u8::from(p.same_top)))),
                tokens: all().count(),
            }
        };
        contexts.iter().map(of_context).collect::<Vec<_>>()
    };
    Ok(others.iter().zip(&found).flat_map(of).collect())
}
