//! Vectors that an answer gave, as close as float32 allows; and small models to call answers with.

use rand::Rng;
use rand::rngs::StdRng;

use super::{Block, Llama, Shape};
use crate::trial::{self, Close};
pub(crate) use crate::trial::{Trial, wide};
use crate::{Complaint, Verdict};

/// # Errors
/// As [`trial::all_close`]. `if_nan` says where a NaN comes from.
pub(crate) fn all_close(trials: &[Trial], if_nan: &str) -> Verdict {
    trial::all_close(trials, Close::FLOAT32, |i| format!("number {i}"), if_nan)
}

/// Numbers between -`most` and `most`.
pub(crate) fn numbers(rng: &mut StdRng, n: usize, most: f32) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}

/// A norm's scale: some numbers of it are negative.
pub(crate) fn scale(rng: &mut StdRng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-0.5..2.0)).collect()
}

/// Shapes of a few numbers, whose widths all differ: one head, each head with its own keys and values, groups of two
/// and of four. Their epsilons are large enough to count.
pub(crate) fn shapes() -> [Shape; 4] {
    let shape = |n_head, n_kv_head, head_dim, hidden_size, intermediate_size| Shape {
        vocab_size: if n_head == 8 { 300 } else { 13 },
        hidden_size,
        intermediate_size,
        n_layer: 3,
        n_head,
        n_kv_head,
        head_dim,
        epsilon: 0.1 * n_head as f32,
        rope_base: 100.0 * head_dim as f32,
    };
    [shape(1, 1, 4, 5, 7), shape(3, 3, 4, 10, 6), shape(4, 2, 6, 7, 9), shape(8, 2, 2, 9, 11)]
}

/// The heads of a shape, in words.
pub(crate) fn heads(shape: &Shape) -> String {
    match (shape.n_head, shape.n_kv_head) {
        (1, _) => "one head".to_owned(),
        (heads, own) if heads == own => format!("{heads} heads with keys and values of their own"),
        (heads, shared) => format!("{heads} heads that share {shared} of keys and values"),
    }
}

pub(crate) fn block(rng: &mut StdRng, shape: &Shape) -> Block {
    let Shape { hidden_size: c, intermediate_size: inner, n_head, n_kv_head, head_dim, .. } = *shape;
    let (queries, keys) = (n_head * head_dim, n_kv_head * head_dim);
    let mut matrix = |out: usize, width: usize| numbers(rng, out * width, 3.0 / (width as f32).sqrt());
    let (q, k, v, o) = (matrix(queries, c), matrix(keys, c), matrix(keys, c), matrix(c, queries));
    let (gate, up, down) = (matrix(inner, c), matrix(inner, c), matrix(c, inner));
    Block { attention_norm: scale(rng, c), q, k, v, o, mlp_norm: scale(rng, c), gate, up, down }
}

pub(crate) fn llama(rng: &mut StdRng, shape: &Shape, tied: bool) -> Llama {
    let Shape { vocab_size: v, hidden_size: c, n_layer, .. } = *shape;
    let embedding = numbers(rng, v * c, 1.0);
    let blocks = (0..n_layer).map(|_| block(rng, shape)).collect();
    let head = (!tied).then(|| numbers(rng, v * c, 1.0));
    Llama { shape: *shape, embedding, blocks, final_norm: scale(rng, c), head }
}

/// The complaint about an answer, if it gave none.
pub(crate) fn in_each(trials: Result<Vec<Trial>, Complaint>, if_nan: &str) -> Verdict {
    all_close(&trials?, if_nan)
}
