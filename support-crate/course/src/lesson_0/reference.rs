//! The operations of a Llama in double precision, right and with one mistake each: what answers are compared with.
//!
//! Source: Touvron et al. 2023, arXiv:2302.13971, and `LlamaForCausalLM` in transformers.

use super::trials::wide;
use super::{Block, Llama, Shape};

/// A well-known mistake. `None` of it computes what is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slip {
    None,
    // Norm.
    SumOfSquares,
    MeanTakenOff,
    EpsilonOutside,
    NoEpsilon,
    NoRoot,
    NoScale,
    ScaledByOneMore,
    // Rotation.
    Interleaved,
    OtherWay,
    OnePositionOn,
    ExponentHalf,
    ExponentDouble,
    AngleInDegrees,
    NotRotated,
    // Attention.
    NotScaled,
    ScaledByWidth,
    NotCausal,
    NotItself,
    HeadsInTurn,
    FirstKeyHead,
    NotNormalised,
    NotNormalisedShifted,
    // Feed-forward part.
    GateAndUpSwapped,
    Sigmoid,
    NoActivation,
    ActivatedAfter,
    // Block.
    NoAttentionResidual,
    NoMlpResidual,
    ResidualOfNorm,
    NoAttentionNorm,
    NoMlpNorm,
    NormsSwapped,
    FirstNormTwice,
    NormsAfter,
    RotatedAsOne,
    QueriesNotRotated,
    KeysNotRotated,
    ValuesRotated,
    MlpBesideAttention,
    // Model.
    NoFinalNorm,
    FirstPosition,
    FirstBlockOnly,
    BlocksBackwards,
    LastTokenOnly,
    EmbeddingAsHead,
}

pub(super) fn matvec(weights: &[f32], x: &[f64]) -> Vec<f64> {
    let dot = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
    weights.chunks_exact(x.len()).map(dot).collect()
}

pub(super) fn rms_norm(x: &[f64], scale: &[f32], epsilon: f64, slip: Slip) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = if slip == Slip::MeanTakenOff { x.iter().sum::<f64>() / n } else { 0.0 };
    let squares: f64 = x.iter().map(|x| (x - mean).powi(2)).sum();
    let square = if slip == Slip::SumOfSquares { squares } else { squares / n };
    let divisor = match slip {
        Slip::EpsilonOutside => square.sqrt() + epsilon,
        Slip::NoEpsilon => square.sqrt(),
        Slip::NoRoot => square + epsilon,
        _ => (square + epsilon).sqrt(),
    };
    let scaled = |(x, scale): (&f64, &f32)| {
        let scale = match slip {
            Slip::NoScale => 1.0,
            Slip::ScaledByOneMore => 1.0 + f64::from(*scale),
            _ => f64::from(*scale),
        };
        (x - mean) / divisor * scale
    };
    x.iter().zip(scale).map(scaled).collect()
}

pub(super) fn rotate(head: &mut [f64], position: usize, base: f64, slip: Slip) {
    let (d, half) = (head.len(), head.len() / 2);
    if slip == Slip::NotRotated {
        return;
    }
    let position = if slip == Slip::OnePositionOn { position + 1 } else { position } as f64;
    for i in 0..half {
        let factor = match slip {
            Slip::ExponentHalf => 1.0,
            Slip::ExponentDouble => 4.0,
            _ => 2.0,
        };
        let exponent = factor * i as f64 / d as f64;
        let angle = position * base.powf(-exponent);
        let angle = if slip == Slip::AngleInDegrees { angle.to_radians() } else { angle };
        let (sin, cos) = if slip == Slip::OtherWay { -angle } else { angle }.sin_cos();
        let (a, b) = if slip == Slip::Interleaved { (2 * i, 2 * i + 1) } else { (i, i + half) };
        (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[b] * cos + head[a] * sin);
    }
}

/// What one token's queries (H D) see of keys and values, (tokens, J D) each: (H D).
pub(super) fn attend(q: &[f64], keys: &[f64], values: &[f64], position: usize, shape: &Shape, slip: Slip) -> Vec<f64> {
    let Shape { n_head, n_kv_head, head_dim: d, .. } = *shape;
    let width = n_kv_head * d;
    let seen = match slip {
        Slip::NotCausal => keys.len() / width,
        Slip::NotItself => position,
        _ => position + 1,
    };
    let scale = match slip {
        Slip::NotScaled => 1.0,
        Slip::ScaledByWidth => 1.0 / d as f64,
        _ => 1.0 / (d as f64).sqrt(),
    };
    let mut out = Vec::new();
    for (head, q) in q.chunks_exact(d).enumerate() {
        let group = match slip {
            Slip::HeadsInTurn => head % n_kv_head,
            Slip::FirstKeyHead => 0,
            _ => head / (n_head / n_kv_head),
        };
        let of = |cache: &[f64], t: usize| cache[t * width + group * d..][..d].to_vec();
        let dot = |t: usize| of(keys, t).iter().zip(q).map(|(k, q)| k * q).sum::<f64>() * scale;
        let scores: Vec<f64> = (0..seen).map(dot).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Without dividing by the sum, it does matter what was subtracted.
        let largest = if slip == Slip::NotNormalised { 0.0 } else { largest };
        let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let sum = match slip {
            Slip::NotNormalised | Slip::NotNormalisedShifted => 1.0,
            _ => weights.iter().sum::<f64>(),
        };
        let mean = |i: usize| (0..seen).map(|t| weights[t] / sum * of(values, t)[i]).sum::<f64>();
        out.extend((0..d).map(mean));
    }
    out
}

pub(super) fn mlp(x: &[f64], block: &Block, slip: Slip) -> Vec<f64> {
    let (mut gate, mut up) = (matvec(&block.gate, x), matvec(&block.up, x));
    if slip == Slip::GateAndUpSwapped {
        std::mem::swap(&mut gate, &mut up);
    }
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let hidden = |(gate, up): (&f64, &f64)| match slip {
        Slip::Sigmoid => sigmoid(*gate) * up,
        Slip::NoActivation => gate * up,
        Slip::ActivatedAfter => gate * up * sigmoid(gate * up),
        _ => gate * sigmoid(*gate) * up,
    };
    matvec(&block.down, &gate.iter().zip(&up).map(hidden).collect::<Vec<_>>())
}

/// The hidden states (C) of all tokens through a block; and its keys and values, (tokens, J D) each.
pub(super) fn run_block(x: &mut [Vec<f64>], block: &Block, shape: &Shape, slip: Slip) -> [Vec<f64>; 2] {
    let (d, base, epsilon) = (shape.head_dim, f64::from(shape.rope_base), f64::from(shape.epsilon));
    let (first_norm, second_norm) = match slip {
        Slip::NormsSwapped => (&block.mlp_norm, &block.attention_norm),
        Slip::FirstNormTwice => (&block.attention_norm, &block.attention_norm),
        _ => (&block.attention_norm, &block.mlp_norm),
    };
    let norm = |x: &[f64], scale: &[f32], skip: Slip| match slip {
        Slip::NormsAfter => x.to_vec(),
        _ if slip == skip => x.to_vec(),
        _ => rms_norm(x, scale, epsilon, slip),
    };
    let turn = |x: &mut [f64], position: usize| {
        let width = if slip == Slip::RotatedAsOne { x.len() } else { d };
        x.chunks_exact_mut(width).for_each(|head| rotate(head, position, base, slip));
    };
    let (mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (t, x) in x.iter().enumerate() {
        let normed = norm(x, first_norm, Slip::NoAttentionNorm);
        let [mut q, mut k, mut v] = [&block.q, &block.k, &block.v].map(|matrix| matvec(matrix, &normed));
        if slip != Slip::QueriesNotRotated {
            turn(&mut q, t);
        }
        if slip != Slip::KeysNotRotated {
            turn(&mut k, t);
        }
        if slip == Slip::ValuesRotated {
            turn(&mut v, t);
        }
        queries.push(q);
        keys.extend(k);
        values.extend(v);
    }
    for (t, x) in x.iter_mut().enumerate() {
        let before = x.clone();
        let add = |x: &mut Vec<f64>, out: Vec<f64>, scale: &[f32], skip: Slip| {
            let out = if slip == Slip::NormsAfter { rms_norm(&out, scale, epsilon, Slip::None) } else { out };
            let residual = match slip {
                Slip::ResidualOfNorm => norm(x, scale, Slip::None),
                _ if slip == skip => vec![0.0; x.len()],
                _ => x.clone(),
            };
            *x = residual.iter().zip(out).map(|(x, out)| x + out).collect();
        };
        let attended = matvec(&block.o, &attend(&queries[t], &keys, &values, t, shape, slip));
        add(x, attended, first_norm, Slip::NoAttentionResidual);
        let read = if slip == Slip::MlpBesideAttention { &before } else { &*x };
        let out = mlp(&norm(read, second_norm, Slip::NoMlpNorm), block, slip);
        add(x, out, second_norm, Slip::NoMlpResidual);
    }
    [keys, values]
}

/// What a model computes of a sequence of tokens.
pub(super) struct Computed {
    /// The logits of each position.
    pub logits: Vec<Vec<f64>>,
    /// The keys and values of each block.
    pub cache: Vec<[Vec<f64>; 2]>,
}

pub(super) fn forward(ids: &[u32], model: &Llama, slip: Slip) -> Computed {
    let (c, epsilon) = (model.shape.hidden_size, f64::from(model.shape.epsilon));
    let ids = if slip == Slip::LastTokenOnly { &ids[ids.len() - 1..] } else { ids };
    let mut x: Vec<Vec<f64>> = ids.iter().map(|&id| wide(&model.embedding[id as usize * c..][..c])).collect();
    let mut blocks: Vec<&Block> = model.blocks.iter().collect();
    match slip {
        Slip::FirstBlockOnly => blocks.truncate(1),
        Slip::BlocksBackwards => blocks.reverse(),
        _ => (),
    }
    let cache = blocks.into_iter().map(|block| run_block(&mut x, block, &model.shape, slip)).collect();
    let head = match &model.head {
        Some(head) if slip != Slip::EmbeddingAsHead => head,
        _ => &model.embedding,
    };
    let logits = |x: &Vec<f64>| match slip {
        Slip::NoFinalNorm => matvec(head, x),
        _ => matvec(head, &rms_norm(x, &model.final_norm, epsilon, Slip::None)),
    };
    Computed { logits: x.iter().map(logits).collect(), cache }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{LoadOptions, Operation, load_model, trace};

    /// The library's tests compare it with transformers; so what agrees with it is right.
    #[test]
    fn the_reference_computes_what_the_library_computes() {
        let loaded = load_model(&["random:smollm2-135m"], &LoadOptions::default()).unwrap();
        let mut model = Llama::of(&loaded).unwrap();
        let traced = trace(&loaded, &[17, 4000, 5]).unwrap();
        let values = |layer, operation| {
            let is_it = |traced: &&quantlab::model::Traced| (traced.layer, traced.operation) == (layer, operation);
            wide(&traced.iter().find(is_it).unwrap().values)
        };
        let agree = |got: &[f64], expected: &[f64]| {
            let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
            assert_eq!(got.len(), expected.len());
            assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-5 * largest));
        };
        let c = model.shape.hidden_size;
        let mut x: Vec<Vec<f64>> = values(None, Operation::Embedding).chunks_exact(c).map(<[f64]>::to_vec).collect();
        for layer in 0..2 {
            let [keys, of_values] = run_block(&mut x, &model.blocks[layer], &model.shape, Slip::None);
            agree(&keys, &values(Some(layer), Operation::Keys));
            agree(&of_values, &values(Some(layer), Operation::Values));
            agree(&x.concat(), &values(Some(layer), Operation::MlpResidual));
        }
        // Logits from what the last block gave, as the embedding of a model without blocks.
        let last = values(Some(model.shape.n_layer - 1), Operation::MlpResidual);
        model.blocks.clear();
        model.head = Some(std::mem::take(&mut model.embedding));
        model.embedding = last[2 * c..].iter().map(|x| *x as f32).collect();
        let logits = values(None, Operation::Logits);
        agree(&forward(&[0], &model, Slip::None).logits[0], &logits[2 * model.shape.vocab_size..]);
    }
}
