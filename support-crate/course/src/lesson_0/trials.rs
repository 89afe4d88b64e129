//! Vectors that an answer gave, against the right ones and those that well-known mistakes give.

use rand::Rng;
use rand::rngs::StdRng;

use super::{Block, Llama, Shape};
use crate::figure::{Given, first_wrong};
use crate::{Complaint, Verdict};

/// One call of an answer: what was called with what, and the vector that it gave.
pub(crate) type Trial = Given<Vec<f64>>;

impl Trial {
    pub fn new(what: impl Into<String>, got: &[f32], expected: Vec<f64>) -> Self {
        Self { what: what.into(), got: wide(got), expected, mistakes: Vec::new() }
    }

    pub fn mistakes(mut self, mistakes: impl IntoIterator<Item = (Vec<f64>, &'static str)>) -> Self {
        self.mistakes.extend(mistakes);
        self
    }
}

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// As close as float32 allows over a few layers: to 1e-4 of the largest number.
fn is_close(got: &[f64], expected: &[f64]) -> bool {
    // The smaller one of both, or anything would be close to a mistake that gives huge numbers.
    let largest_of = |x: &[f64]| x.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    let largest = largest_of(got).min(largest_of(expected));
    let same = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-4 * largest;
    got.len() == expected.len() && got.iter().zip(expected).all(same)
}

/// # Errors
/// As [`first_wrong`] finds it. `if_nan` says where a NaN comes from.
pub(crate) fn all_close(trials: &[Trial], if_nan: &str) -> Verdict {
    let Some((wrong, found)) = first_wrong(trials, |a, b| is_close(a, b)) else { return Ok(()) };
    let why = found.map(|why| format!(": {why}")).unwrap_or_default();
    let Trial { what, got, expected, .. } = wrong;
    if got.len() != expected.len() {
        return wrong!("{what}: you gave {} numbers, and {} are expected{why}", got.len(), expected.len());
    }
    if let Some(i) = got.iter().position(|x| !x.is_finite()) {
        return wrong!("{what}: number {i} is {}: {if_nan}", got[i]);
    }
    let distance = |i: &usize| (got[*i] - expected[*i]).abs();
    let worst = (0..got.len()).max_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0);
    wrong!("{what}: number {worst} is {}, expected {}{why}", shown(got[worst]), shown(expected[worst]))
}

fn shown(x: f64) -> String {
    if x == 0.0 || (1e-2..1e6).contains(&x.abs()) { format!("{x:.4}") } else { format!("{x:.3e}") }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(got: &[f32], expected: &[f64]) -> String {
        let trial = Trial::new("f", got, expected.to_vec()).mistakes([(vec![2.0, 4.0], "twice")]);
        all_close(&[trial], "divided by 0").map_or_else(|complaint| complaint.to_string(), |()| "right".to_owned())
    }

    #[test]
    fn vectors_are_right_known_mistakes_or_just_wrong() {
        assert_eq!(message(&[1.0, 2.0001], &[1.0, 2.0]), "right");
        assert_eq!(message(&[2.0, 4.0], &[1.0, 2.0]), "f: number 1 is 4.0000, expected 2.0000: twice");
        assert_eq!(message(&[1.0, 2.1], &[1.0, 2.0]), "f: number 1 is 2.1000, expected 2.0000");
        assert_eq!(message(&[1.0, f32::NAN], &[1.0, 2.0]), "f: number 1 is NaN: divided by 0");
        // A mistake that gives a huge number explains nothing but huge numbers.
        let huge = Trial::new("f", &[1.5, 2.0], vec![1.0, 2.0]).mistakes([(vec![2.0, 1e9], "huge")]);
        assert!(all_close(&[huge], "").is_err_and(|complaint| !complaint.to_string().contains("huge")));
        assert_eq!(message(&[1.0], &[1.0, 2.0]), "f: you gave 1 numbers, and 2 are expected");
    }
}
