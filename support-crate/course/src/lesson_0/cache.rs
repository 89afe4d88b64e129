//! `step`: one token at a time, with the keys and values of those before it kept.

use super::reference::{self, Computed, Slip};
use super::trials::{Trial, all_close, heads, llama, shapes, wide};
use super::{Cache, Llama};
use crate::cases::random;
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "At which position does the new token stand, and how many keys are there when it attends?",
    "`cache.tokens` is the position, the same in all blocks. In each block: append the token's key, rotated, and its value to \
     `cache.keys[layer]` and `cache.values[layer]`; then attend over all that is there, itself included. Only after the last \
     block, `cache.tokens += 1`.",
    "`run_block` with one token in place of the loops: `cache.keys[layer].extend(&k); cache.values[layer].extend(&v); let \
     attended = attend(&q, &cache.keys[layer], &cache.values[layer], position, &model.shape);`",
];

const NOT_TURNED: &str = "turn a key by its position before it goes into the cache";

/// A sequence that an answer read token by token.
struct Reading {
    what: String,
    /// After each token, the logits and the cache.
    after: Vec<(Vec<f32>, Cache)>,
    right: Computed,
    /// The same without turning queries and keys, without turning keys, and with both turned one position on.
    wrong_keys: [(Computed, &'static str); 3],
    /// The logits of each token as if it came first.
    alone: Vec<Vec<f64>>,
    /// The number of keys for one token.
    width: usize,
}

/// Checks `step(id, model, cache)`.
pub fn check_step(yours: fn(u32, &Llama, &mut Cache) -> Vec<f32>) -> Score {
    let readings = shapes().into_iter().enumerate().map(|(index, shape)| -> Result<Reading, Complaint> {
        let model = llama(&mut random(9 + index as u64), &shape, index % 2 == 0);
        // Few tokens, and more than a window would hold.
        let tokens = [140, 7, 20, 7][index];
        let ids: Vec<u32> = (0..tokens).map(|t| ((3 * t + 2 * index + 1) % shape.vocab_size) as u32).collect();
        let mut cache = Cache::new(shape.n_layer);
        let one = |&id: &u32| Ok((ask(|| Ok(yours(id, &model, &mut cache)))?, cache.clone()));
        let after = ids.iter().map(one).collect::<Result<_, Complaint>>()?;
        let of = |slip| reference::forward(&ids, &model, slip);
        let wrong_keys = [
            (of(Slip::NotRotated), NOT_TURNED),
            (of(Slip::KeysNotRotated), NOT_TURNED),
            (of(Slip::OnePositionOn), "the first token is at position 0: add 1 to `cache.tokens` after the last block"),
        ];
        Ok(Reading {
            what: heads(&shape),
            after,
            right: of(Slip::None),
            wrong_keys,
            alone: ids.iter().map(|&id| reference::forward(&[id], &model, Slip::None).logits.swap_remove(0)).collect(),
            width: shape.n_kv_head * shape.head_dim,
        })
    });
    let readings: Result<Vec<Reading>, Complaint> = readings.collect();
    Score::new("step", HINTS).each(
        &readings,
        &[
            ("the logits after each token are those without a cache", logits),
            ("it holds a token more after each step", tokens),
            ("keys are kept as they are attended to: turned", kept),
        ],
    )
}

fn logits(reading: &Reading) -> Verdict {
    let trial = |(t, (got, _)): (usize, &(Vec<f32>, Cache))| {
        let what = format!("{}, logits after token {t}", reading.what);
        let alone = (reading.alone[t].clone(), "the token does not see those before it: attend over the whole cache");
        let wrong_keys = reading.wrong_keys.iter().map(|(computed, why)| (computed.logits[t].clone(), *why));
        Trial::new(what, got, reading.right.logits[t].clone()).mistakes([alone]).mistakes(wrong_keys)
    };
    let trials: Vec<Trial> = reading.after.iter().enumerate().map(trial).collect();
    all_close(&trials, "an empty softmax is 0 / 0: append the token's own key before it attends")
}

fn tokens(reading: &Reading) -> Verdict {
    for (t, (_, cache)) in (1..).zip(&reading.after) {
        let tokens = cache.tokens;
        if tokens != t {
            return wrong!("after {t} tokens, `cache.tokens` is {tokens}: add 1 in each step, after the last block");
        }
        for (layer, kept) in cache.keys.iter().zip(&cache.values).enumerate() {
            let (keys, values, rows) = (kept.0.len(), kept.1.len(), t * reading.width);
            if (keys, values) != (rows, rows) {
                return wrong!(
                    "after {t} tokens, block {layer} keeps {keys} numbers of keys and {values} of values; {rows} of each are \
                     expected, {} for each token",
                    reading.width
                );
            }
        }
    }
    Ok(())
}

fn kept(reading: &Reading) -> Verdict {
    let Some((_, cache)) = reading.after.last() else { return Ok(()) };
    let mut trials = Vec::new();
    for (layer, [keys, values]) in reading.right.cache.iter().enumerate() {
        let what = |part: &str| format!("{}, {part} in the cache of block {layer}", reading.what);
        let wrong_keys = reading.wrong_keys.iter().map(|(computed, why)| (computed.cache[layer][0].clone(), *why));
        trials.push(Trial::new(what("keys"), &cache.keys[layer], keys.clone()).mistakes(wrong_keys));
        let swapped = (wide(&cache.keys[layer]), "those are the keys");
        let values = Trial::new(what("values"), &cache.values[layer], values.clone());
        trials.push(values.mistakes([swapped].into_iter().filter(|(keys, _)| !keys.is_empty())));
    }
    all_close(&trials, "look at the logits first")
}
