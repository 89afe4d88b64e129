//! Attention against a plain double-precision loop, with every instruction set that this processor has.

use proptest::prelude::*;

use super::*;
use crate::isa::Isa;
use crate::test_numbers::{assert_close, cases, numbers};
use crate::threads::thread_scope;

#[derive(Debug, Clone)]
struct Sizes {
    batch: usize,
    queries: usize,
    past_len: usize,
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    window: usize,
    padded: bool,
    soft_cap: Option<f32>,
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let window = prop_oneof![Just(usize::MAX), 1..12_usize, 12..200_usize];
    let head_dim = prop_oneof![1..40_usize, Just(64), Just(80), Just(128)];
    let past_len = prop_oneof![0..20_usize, 100..200_usize];
    let seen = (window, any::<bool>(), prop_oneof![Just(None), Just(Some(0.5_f32)), Just(Some(30.0))]);
    (1..4_usize, 1..20_usize, past_len, 1..4_usize, 1..11_usize, head_dim, seen).prop_map(
        |(batch, queries, past_len, kv_heads, group, head_dim, (window, padded, soft_cap))| Sizes {
            batch,
            queries,
            past_len,
            kv_heads,
            group,
            head_dim,
            window,
            padded,
            soft_cap,
        },
    )
}

struct Inputs {
    q: Vec<f32>,
    /// Keys in panels.
    k: Vec<f32>,
    v: Vec<f32>,
    /// The same in float16.
    narrow: [Vec<f16>; 2],
    mask: Option<Vec<bool>>,
}

fn inputs(sizes: &Sizes, seed: u32) -> Inputs {
    let Sizes { batch, queries, past_len, kv_heads, group, head_dim, .. } = *sizes;
    let kv = batch * kv_heads * (past_len + queries + 3) * head_dim;
    let mask = numbers(batch * (past_len + queries), seed ^ 4).iter().map(|number| *number > -0.4).collect();
    let narrow = [1, 2].map(|of| numbers(kv, seed ^ of).into_iter().map(f16::from_f32).collect::<Vec<_>>());
    let [k, v] = narrow.each_ref().map(|numbers| numbers.iter().map(|number| number.to_f32()).collect());
    Inputs {
        q: numbers(batch * queries * (kv_heads * group * head_dim + 5), seed),
        k,
        v,
        narrow,
        mask: sizes.padded.then_some(mask),
    }
}

/// Number `i` of a key, by the definition of panels.
fn key_number(keys: &[f32], (capacity, d): (usize, usize), s: usize, i: usize) -> f64 {
    let width = 16.min(capacity - s / 16 * 16);
    f64::from(keys[s / 16 * 16 * d + i * width + s % 16])
}

fn attention<'a>(sizes: &Sizes, inputs: &'a Inputs) -> Attention<'a> {
    Attention {
        q: &inputs.q,
        q_stride: sizes.kv_heads * sizes.group * sizes.head_dim + 5,
        kv: KeysValues::Float32 { k: &inputs.k, v: &inputs.v },
        capacity: sizes.past_len + sizes.queries + 3,
        batch: sizes.batch,
        queries: sizes.queries,
        past_len: sizes.past_len,
        heads: sizes.kv_heads * sizes.group,
        group: sizes.group,
        head_dim: sizes.head_dim,
        scale: 0.7,
        soft_cap: sizes.soft_cap,
        window: sizes.window,
        key_mask: inputs.mask.as_deref(),
    }
}

fn in_float16<'a>(inputs: &'a Inputs, attention: &Attention<'a>) -> Attention<'a> {
    let [k, v] = &inputs.narrow;
    Attention { kv: KeysValues::Float16 { k, v }, ..*attention }
}

fn naive(a: &Attention<'_>, inputs: &Inputs) -> Vec<f64> {
    let (d, keys) = (a.head_dim, a.past_len + a.queries);
    let mut out = Vec::new();
    for row in 0..a.batch * a.queries {
        let (sequence, position) = (row / a.queries, a.past_len + row % a.queries);
        for head in 0..a.heads {
            let q = &a.q[row * a.q_stride + head * d..][..d];
            let past = (sequence * (a.heads / a.group) + head / a.group) * a.capacity;
            let mut seen: Vec<usize> =
                (0..=position).filter(|&s| a.key_mask.is_none_or(|mask| mask[sequence * keys + s])).collect();
            seen.drain(..seen.len().saturating_sub(a.window));
            let score = |s: usize| -> f64 {
                let k = |i: usize| key_number(&inputs.k[past * d..], (a.capacity, d), s, i);
                let score = q.iter().enumerate().map(|(i, q)| f64::from(*q) * k(i)).sum::<f64>() * f64::from(a.scale);
                a.soft_cap.map(f64::from).map_or(score, |cap| cap * (score / cap).tanh())
            };
            let weights: Vec<f64> = seen.iter().map(|&s| score(s).exp()).collect();
            let total: f64 = weights.iter().sum();
            out.extend((0..d).map(|i| {
                let value = |s: usize| f64::from(inputs.v[(past + s) * d + i]);
                let sum: f64 = seen.iter().zip(&weights).map(|(&s, weight)| weight * value(s)).sum();
                if seen.is_empty() { 0.0 } else { sum / total }
            }));
        }
    }
    out
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn attention_of_any_shape(sizes in sizes(), seed: u32) {
        let inputs = inputs(&sizes, seed);
        let attention = attention(&sizes, &inputs);
        let expected = naive(&attention, &inputs);
        for isa in Isa::available() {
            let mut out = vec![f32::NAN; expected.len()];
            attention.compute(&thread_scope().with_isa(isa), &mut out);
            assert_close(&out, &expected, 1e-5);
            // The same numbers in fewer bytes.
            let mut narrow = vec![f32::NAN; expected.len()];
            in_float16(&inputs, &attention).compute(&thread_scope().with_isa(isa), &mut narrow);
            prop_assert!(narrow == out, "{isa}: not the same to the bit");
        }
    }

    #[test]
    fn a_token_alone_is_the_same_to_the_bit(sizes in sizes(), seed: u32) {
        let inputs = inputs(&Sizes { padded: false, ..sizes.clone() }, seed);
        let all = attention(&sizes, &inputs);
        let width = all.heads * all.head_dim;
        for isa in Isa::available() {
            let mut together = vec![f32::NAN; all.batch * all.queries * width];
            all.compute(&thread_scope().with_isa(isa), &mut together);
            // The last token of the first sequence, after the others.
            let last = all.queries - 1;
            let one = Attention {
                q: &all.q[last * all.q_stride..],
                batch: 1,
                queries: 1,
                past_len: all.past_len + last,
                ..all
            };
            let mut alone = vec![f32::NAN; width];
            one.compute(&thread_scope().with_isa(isa), &mut alone);
            prop_assert!(together[last * width..][..width] == alone, "{isa}: not the same to the bit");
        }
    }
}

#[test]
fn keys_lie_in_panels_and_come_back() {
    for (capacity, d) in [(1, 3), (16, 5), (20, 4), (47, 64)] {
        let rows = numbers(capacity * d, 7);
        let mut keys = vec![f32::NAN; capacity * d];
        for (token, key) in rows.chunks_exact(d).enumerate() {
            put_key(&mut keys, capacity, token, key);
        }
        for (token, key) in rows.chunks_exact(d).enumerate() {
            assert!(get_key(&keys, capacity, token, d).eq(key.iter().copied()));
            assert!((0..d).all(|i| key_number(&keys, (capacity, d), token, i) == f64::from(key[i])));
        }
    }
}
