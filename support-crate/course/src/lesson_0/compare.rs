//! Where a learner's model and the library's differ, operation by operation.

use quantlab::error::{Error, Result};
use quantlab::interrupt;
use quantlab::model::{Operation, Traced};
use quantlab::report::Summary;

use super::{Block, Llama, Shape};

/// A learner's operations.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The product of a matrix and a vector.
    pub matvec: fn(&[f32], &[f32]) -> Vec<f32>,
    /// The norm: numbers, scale, epsilon.
    pub rms_norm: fn(&[f32], &[f32], f32) -> Vec<f32>,
    /// Turns a head by its position, with a base.
    pub rotate: fn(&mut [f32], usize, f32),
    /// Attention of one token: queries, keys, values, its position.
    pub attend: fn(&[f32], &[f32], &[f32], usize, &Shape) -> Vec<f32>,
    /// The feed-forward part.
    pub mlp: fn(&[f32], &Block) -> Vec<f32>,
    /// A block, for all tokens.
    pub run_block: fn(&mut [Vec<f32>], &Block, &Shape),
}

/// How far an operation is from the library's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Of which block, from 0; `None` outside of the blocks.
    pub layer: Option<usize>,
    /// What was computed.
    pub operation: Operation,
    /// As of [`largest_difference`].
    pub largest: f64,
}

/// The largest difference between two vectors, as a share of the largest magnitude in `expected`; infinite if one has a
/// number that is not finite, or another length.
pub fn largest_difference(got: &[f32], expected: &[f32]) -> f64 {
    if got.len() != expected.len() || got.iter().any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let difference = got.iter().zip(expected).fold(0.0_f32, |largest, (a, b)| largest.max((a - b).abs()));
    if difference == 0.0 { 0.0 } else { f64::from(difference) / f64::from(largest) }
}

/// What the library computed, by place.
struct Trace<'a> {
    traced: &'a [Traced],
    tokens: usize,
}

impl<'a> Trace<'a> {
    fn of(traced: &'a [Traced], model: &Llama) -> Result<Self> {
        let embedding = traced.first().map_or(0, |first| first.values.len());
        let tokens = embedding / model.shape.hidden_size;
        let expected = 1 + 9 * model.shape.n_layer + 2;
        if tokens == 0 || traced.len() != expected {
            return Err(Error::input(format!("{} operations were traced; this model has {expected}", traced.len()))
                .hint("trace the model whose weights were copied"));
        }
        Ok(Self { traced, tokens })
    }

    /// The values of an operation, a row for each token.
    fn rows(&self, layer: Option<usize>, operation: Operation) -> Vec<&'a [f32]> {
        let is_it = |traced: &&Traced| (traced.layer, traced.operation) == (layer, operation);
        let values = self.traced.iter().find(is_it).map_or(&[][..], |traced| &traced.values);
        values.chunks_exact((values.len() / self.tokens).max(1)).collect()
    }

    /// How far rows are from those of an operation: the token that is farthest off.
    fn compare(&self, layer: Option<usize>, operation: Operation, got: &[Vec<f32>]) -> Difference {
        let expected = self.rows(layer, operation);
        let distances = got.iter().zip(expected).map(|(got, expected)| largest_difference(got, expected));
        Difference { layer, operation, largest: distances.fold(0.0, f64::max) }
    }
}

fn sum(x: &[f32], out: Vec<f32>) -> Vec<f32> {
    x.iter().zip(out).map(|(x, out)| x + out).collect()
}

/// Each operation by itself, fed with what the library's one was fed with: a mistake shows where it is made, and nowhere
/// else.
///
/// # Errors
/// What was traced does not belong to this model; an interrupt.
pub fn each_operation(model: &Llama, traced: &[Traced], parts: &Parts) -> Result<Vec<Difference>> {
    let Parts { matvec, rms_norm, rotate, attend, mlp, .. } = *parts;
    let (trace, shape) = (Trace::of(traced, model)?, &model.shape);
    let norm = |rows: &[&[f32]], scale: &[f32]| -> Vec<Vec<f32>> {
        rows.iter().map(|x| rms_norm(x, scale, shape.epsilon)).collect()
    };
    let mut differences = Vec::new();
    let mut x = trace.rows(None, Operation::Embedding);
    for (layer, block) in model.blocks.iter().enumerate() {
        interrupt::check()?;
        let rows = |operation| trace.rows(Some(layer), operation);
        let mut add = |operation, got: Vec<Vec<f32>>| differences.push(trace.compare(Some(layer), operation, &got));
        let normed = rows(Operation::AttentionNorm);
        let product = |matrix: &[f32]| -> Vec<Vec<f32>> { normed.iter().map(|x| matvec(matrix, x)).collect() };
        let turned = |mut rows: Vec<Vec<f32>>| {
            for (t, row) in rows.iter_mut().enumerate() {
                row.chunks_exact_mut(shape.head_dim).for_each(|head| rotate(head, t, shape.rope_base));
            }
            rows
        };
        add(Operation::AttentionNorm, norm(&x, &block.attention_norm));
        add(Operation::Queries, turned(product(&block.q)));
        add(Operation::Keys, turned(product(&block.k)));
        add(Operation::Values, product(&block.v));
        let (keys, values) = (rows(Operation::Keys).concat(), rows(Operation::Values).concat());
        let queries = rows(Operation::Queries);
        let attended = queries.iter().enumerate().map(|(t, q)| attend(q, &keys, &values, t, shape));
        add(Operation::Attention, attended.collect());
        let attended = rows(Operation::Attention);
        let out = x.iter().zip(attended).map(|(x, attended)| sum(x, matvec(&block.o, attended)));
        add(Operation::AttentionResidual, out.collect());
        let residual = rows(Operation::AttentionResidual);
        add(Operation::MlpNorm, norm(&residual, &block.mlp_norm));
        let out = residual.iter().zip(rows(Operation::MlpNorm)).map(|(x, normed)| sum(x, mlp(normed, block)));
        add(Operation::MlpResidual, out.collect());
        x = rows(Operation::MlpResidual);
    }
    differences.push(trace.compare(None, Operation::FinalNorm, &norm(&x, &model.final_norm)));
    let head = model.head.as_ref().unwrap_or(&model.embedding);
    let logits = trace.rows(None, Operation::FinalNorm).into_iter().map(|x| matvec(head, x)).collect::<Vec<_>>();
    differences.push(trace.compare(None, Operation::Logits, &logits));
    Ok(differences)
}

/// The whole model, block after block, each fed with what the one before it gave.
///
/// # Errors
/// As [`each_operation`].
pub fn block_by_block(model: &Llama, traced: &[Traced], parts: &Parts) -> Result<Vec<Difference>> {
    let trace = Trace::of(traced, model)?;
    let mut x: Vec<Vec<f32>> = trace.rows(None, Operation::Embedding).into_iter().map(<[f32]>::to_vec).collect();
    let mut differences = Vec::new();
    for (layer, block) in model.blocks.iter().enumerate() {
        interrupt::check()?;
        (parts.run_block)(&mut x, block, &model.shape);
        differences.push(trace.compare(Some(layer), Operation::MlpResidual, &x));
    }
    Ok(differences)
}

/// In words: the largest difference, or the first operation that is farther off than `limit`.
pub fn where_they_differ(differences: &[Difference], limit: f64) -> Summary {
    let summary = Summary::new("Your operations and the library's");
    let place = |difference: &Difference| match difference.layer {
        Some(layer) => format!("block {layer}, {}", difference.operation),
        None => difference.operation.to_string(),
    };
    let Some(largest) = differences.iter().max_by(|a, b| a.largest.total_cmp(&b.largest)) else {
        return summary.point("Nothing was compared yet.");
    };
    match differences.iter().find(|difference| difference.largest.is_nan() || difference.largest >= limit) {
        None => summary.point(format!(
            "All {} operations agree: the largest difference is {:.1e} of the token's largest number ({}).",
            differences.len(),
            largest.largest,
            place(largest)
        )),
        Some(first) => summary.point(format!(
            "They differ first at {}: {:.1e} of the token's largest number, where {limit:.0e} is allowed.",
            place(first),
            first.largest
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::{self, Slip};
    use super::super::trials::wide;
    use super::*;
    use quantlab::model::{LoadOptions, load_model, trace};

    fn narrow(x: Vec<f64>) -> Vec<f32> {
        x.into_iter().map(|x| x as f32).collect()
    }

    fn turned(head: &mut [f32], position: usize, base: f32, slip: Slip) {
        let mut turned = wide(head);
        reference::rotate(&mut turned, position, base.into(), slip);
        head.copy_from_slice(&narrow(turned));
    }

    fn run(x: &mut [Vec<f32>], block: &Block, shape: &Shape) {
        let mut states: Vec<Vec<f64>> = x.iter().map(|x| wide(x)).collect();
        reference::run_block(&mut states, block, shape, Slip::None);
        x.iter_mut().zip(states).for_each(|(x, state)| *x = narrow(state));
    }

    const RIGHT: Parts = Parts {
        matvec: |weights, x| narrow(reference::matvec(weights, &wide(x))),
        rms_norm: |x, scale, epsilon| narrow(reference::rms_norm(&wide(x), scale, epsilon.into(), Slip::None)),
        rotate: |head, position, base| turned(head, position, base, Slip::None),
        attend: |q, keys, values, position, shape| {
            narrow(reference::attend(&wide(q), &wide(keys), &wide(values), position, shape, Slip::None))
        },
        mlp: |x, block| narrow(reference::mlp(&wide(x), block, Slip::None)),
        run_block: run,
    };

    #[test]
    fn a_mistake_shows_at_its_operation() {
        let loaded = load_model(&["random:smollm2-135m"], &LoadOptions::default()).unwrap();
        let (model, traced) = (Llama::of(&loaded).unwrap(), trace(&loaded, &[9, 300]).unwrap());
        let words =
            |parts: &Parts| where_they_differ(&each_operation(&model, &traced, parts).unwrap(), 1e-4).to_string();
        assert!(words(&RIGHT).contains("All 242 operations agree"), "{}", words(&RIGHT));
        let wrong = Parts { rotate: |head, position, base| turned(head, position, base, Slip::Interleaved), ..RIGHT };
        assert!(words(&wrong).contains("They differ first at block 0, queries:"), "{}", words(&wrong));
        let wrong = Parts { mlp: |_, _| vec![f32::NAN; 576], ..RIGHT };
        assert!(words(&wrong).contains("block 0, MLP residual: inf"), "{}", words(&wrong));
        // What is wrong in one place does not make what follows it wrong.
        let differences = each_operation(&model, &traced, &wrong).unwrap();
        assert_eq!(differences.iter().filter(|difference| difference.largest > 1e-4).count(), 30);
        let whole = block_by_block(&model, &traced, &RIGHT).unwrap();
        assert!(whole.len() == 30 && whole.iter().all(|difference| difference.largest < 1e-4), "{whole:?}");
        assert!(each_operation(&model, &traced[..5], &RIGHT).is_err());
    }

    #[test]
    fn differences_are_shares_of_the_largest_number() {
        assert!((largest_difference(&[1.0, 8.0], &[1.0, 10.0]) - 0.2).abs() < 1e-9);
        assert_eq!(largest_difference(&[0.0], &[0.0]), 0.0);
        assert_eq!(largest_difference(&[1.0], &[1.0, 2.0]), f64::INFINITY);
        assert_eq!(largest_difference(&[f32::NAN], &[1.0]), f64::INFINITY);
    }
}
