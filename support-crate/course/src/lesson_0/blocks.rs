//! `run_block` and `next_logits`: the operations in their order.

use super::reference::{self, Computed, Slip};
use super::trials::{Trial, block, heads, in_each, llama, numbers, shapes, wide};
use super::{Block, Llama, Shape};
use crate::cases::random;
use crate::figure::counted;
use crate::{Complaint, Score, ask, changed};

const BLOCK_HINTS: [&str; 3] = [
    "Which hidden state does each part read, and what is its output added to?",
    "Two loops over the tokens. The first: norm, then queries, keys and values; each head of queries and keys is turned by the \
     token's position; keys and values of all tokens are kept one after the other. The second: attend, multiply by `o`, add to \
     the hidden state; then norm, `mlp`, add to the hidden state.",
    "`let normed = rms_norm(&x[t], &block.attention_norm, shape.epsilon); let mut q = matvec(&block.q, &normed);` and so on; \
     `q.chunks_exact_mut(shape.head_dim).for_each(|head| rotate(head, t, shape.rope_base))`, then `let attended = \
     attend(&queries[t], &keys, &values, t, shape); let out = matvec(&block.o, &attended);` and `x[t][i] += out[i]`.",
];

const BLOCK_SLIPS: [(Slip, &str); 14] = [
    (Slip::NoAttentionResidual, "attention's output takes the place of the hidden state; it has to be added to it"),
    (
        Slip::NoMlpResidual,
        "the feed-forward part's output takes the place of the hidden state; it has to be added to it",
    ),
    (
        Slip::ResidualOfNorm,
        "the outputs are added to the normed state; add them to the state as it was before the norm",
    ),
    (Slip::NoAttentionNorm, "attention reads the hidden state as it is; norm it first, with `attention_norm`"),
    (Slip::NoMlpNorm, "`mlp` reads the hidden state as it is; norm it first, with `mlp_norm`"),
    (Slip::NormsSwapped, "the scales of the two norms are exchanged"),
    (Slip::FirstNormTwice, "both norms have the scale `attention_norm`; the one before `mlp` has `mlp_norm`"),
    (Slip::NormsAfter, "the norms come after each part, as in 2017; here they come before it"),
    (Slip::RotatedAsOne, "all heads are turned as one; turn each head of `head_dim` numbers by itself"),
    (
        Slip::NotRotated,
        "neither queries nor keys are turned by their positions: each token has its own, which is its index",
    ),
    (Slip::QueriesNotRotated, "the queries are not turned by their positions"),
    (Slip::KeysNotRotated, "the keys are not turned by their positions"),
    (Slip::ValuesRotated, "the values are turned too; only queries and keys are"),
    (
        Slip::MlpBesideAttention,
        "`mlp` reads the state from before attention; it reads the one with attention's output added",
    ),
];

const BLOCK_NAN: &str = "do `rms_norm`, `attend` and `mlp` pass their checks?";

/// Checks `run_block(x, block, shape)`.
pub fn check_run_block(yours: fn(&mut [Vec<f32>], &Block, &Shape)) -> Score {
    let trials = |tokens: &[usize], shapes: &[Shape]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(7);
        let mut trials = Vec::new();
        for (shape, &tokens) in shapes.iter().flat_map(|shape| tokens.iter().map(move |tokens| (shape, tokens))) {
            let weights = block(&mut rng, shape);
            let before: Vec<Vec<f32>> = (0..tokens).map(|_| numbers(&mut rng, shape.hidden_size, 1.0)).collect();
            let x = changed(before.clone(), |x| yours(x, &weights, shape))?;
            let with = |shape: &Shape, slip| {
                let mut x: Vec<Vec<f64>> = before.iter().map(|x| wide(x)).collect();
                reference::run_block(&mut x, &weights, shape, slip);
                x.concat()
            };
            let of = |slip| with(shape, slip);
            let why = "the norms add `shape.epsilon`, not a number of your own";
            let fixed = [1e-5, 1e-6].map(|epsilon| (with(&Shape { epsilon, ..*shape }, Slip::None), why));
            let what = format!("run_block for {}, {}", counted(tokens, "token"), heads(shape));
            let trial = Trial::new(what, &x.concat(), of(Slip::None));
            trials.push(trial.mistakes(BLOCK_SLIPS.map(|(slip, why)| (of(slip), why)).into_iter().chain(fixed)));
        }
        Ok(trials)
    };
    let [one, own, pairs, fours] = shapes();
    Score::new("run_block", BLOCK_HINTS)
        .point("one token: norms, parts and sums in their order", in_each(trials(&[1], &[one, own]), BLOCK_NAN))
        .point("several tokens: each at its own position", in_each(trials(&[2, 5], &[one, own]), BLOCK_NAN))
        .point("heads that share keys and values", in_each(trials(&[1, 4, 9], &[pairs, fours]), BLOCK_NAN))
}

const LOGITS_HINTS: [&str; 3] = [
    "What is the hidden state of a token before the first block, and what is still to be done after the last one?",
    "Row `id` of the embedding is where a token begins. Run all blocks over all tokens. Then only the last token counts: norm \
     its state with `final_norm`, and multiply it by the head, which is the embedding where `model.head` is `None`.",
    "`let c = model.shape.hidden_size; let mut x: Vec<Vec<f32>> = ids.iter().map(|&id| model.embedding[id as usize * c..][..c]\
     .to_vec()).collect();`, then `run_block(&mut x, block, &model.shape)` for each block, and at last \
     `matvec(model.head.as_ref().unwrap_or(&model.embedding), &normed)`.",
];

const LOGITS_SLIPS: [(Slip, &str); 6] = [
    (Slip::NoFinalNorm, "the norm before the head is missing: `final_norm`"),
    (Slip::FirstPosition, "those are the logits after the first token; they are wanted after the last"),
    (Slip::FirstBlockOnly, "only the first block was run"),
    (Slip::BlocksBackwards, "the blocks were run from the last to the first"),
    (Slip::LastTokenOnly, "the last token was run by itself; it has to see those before it"),
    (Slip::EmbeddingAsHead, "the head is the embedding only where `model.head` is `None`"),
];

/// Checks `next_logits(ids, model)`.
pub fn check_next_logits(yours: fn(&[u32], &Llama) -> Vec<f32>) -> Score {
    let trials = |lengths: &[usize], tied: bool| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(8);
        let mut trials = Vec::new();
        for (shape, &tokens) in shapes().iter().flat_map(|shape| lengths.iter().map(move |tokens| (shape, tokens))) {
            let model = llama(&mut rng, shape, tied);
            // Every fourth id comes again.
            let ids: Vec<u32> = (0..tokens).map(|t| ((97 * (t - t / 4) + 11) % shape.vocab_size) as u32).collect();
            let got = ask(|| Ok(yours(&ids, &model)))?;
            let of = |slip| {
                let Computed { mut logits, .. } = reference::forward(&ids, &model, slip);
                logits.swap_remove(if slip == Slip::FirstPosition { 0 } else { logits.len() - 1 })
            };
            let head = if tied { "a tied head" } else { "a head of its own" };
            let what = format!("next_logits after {}, with {head}", counted(tokens, "token"));
            trials
                .push(Trial::new(what, &got, of(Slip::None)).mistakes(LOGITS_SLIPS.map(|(slip, why)| (of(slip), why))));
        }
        Ok(trials)
    };
    Score::new("next_logits", LOGITS_HINTS)
        .point("embedding, blocks, norm, head", in_each(trials(&[1], true), BLOCK_NAN))
        .point("the logits after the last of several tokens", in_each(trials(&[2, 6, 20], true), BLOCK_NAN))
        .point("a model with a head of its own", in_each(trials(&[1, 3], false), BLOCK_NAN))
}
