//! Attention of any sizes to slices of any lengths.

use half::f16;
use proptest::prelude::*;
use quantlab_kernels::{Attention, KeysValues, thread_scope};

use super::{apply, assert_close, cases, change, floats, length, outcome, product};

/// The sizes that [`Attention`] is told: q_stride, capacity, batch, queries, past_len, heads, group, head_dim, window.
type Sizes = [usize; 9];

/// The lengths of queries, keys, values, mask and outputs.
type Lengths = [usize; 5];

struct Numbers {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    /// The same in float16, exactly: they are eighths.
    narrow: Option<[Vec<f16>; 2]>,
    mask: Option<Vec<bool>>,
    out: usize,
}

fn numbers([q, k, v, mask, out]: Lengths, masked: bool, seed: u32) -> Numbers {
    let mask = floats(mask, seed ^ 3).into_iter().map(|number| number > -0.5).collect();
    let (k, v) = (floats(k, seed ^ 1), floats(v, seed ^ 2));
    let narrow = || [&k, &v].map(|numbers| numbers.iter().copied().map(f16::from_f32).collect());
    let narrow = (seed % 2 == 1).then(narrow);
    Numbers { q: floats(q, seed), k, v, narrow, mask: masked.then_some(mask), out }
}

fn attention(sizes: Sizes, numbers: &Numbers) -> Attention<'_> {
    let [q_stride, capacity, batch, queries, past_len, heads, group, head_dim, window] = sizes;
    let Numbers { q, k, v, narrow, mask, .. } = numbers;
    let key_mask = mask.as_deref();
    let kv = match narrow {
        Some([k, v]) => KeysValues::Float16 { k, v },
        None => KeysValues::Float32 { k, v },
    };
    Attention {
        q,
        q_stride,
        kv,
        capacity,
        batch,
        queries,
        past_len,
        heads,
        group,
        head_dim,
        scale: 0.7,
        soft_cap: None,
        window,
        key_mask,
    }
}

fn is_valid(a: &Attention<'_>, numbers: &Numbers) -> bool {
    let sizes = [a.batch, a.queries, a.heads, a.group, a.head_dim, a.window];
    if sizes.contains(&0) || !a.heads.is_multiple_of(a.group) {
        return false;
    }
    let (keys, width) = (a.past_len as u128 + a.queries as u128, product(&[a.heads, a.head_dim]));
    let rows = product(&[a.batch, a.queries]);
    let kv = product(&[a.batch, a.heads / a.group]).checked_mul(product(&[a.capacity, a.head_dim]));
    let q = (rows - 1).checked_mul(a.q_stride as u128).and_then(|last| last.checked_add(width));
    let has = |needed: Option<u128>, found: usize| needed.is_some_and(|needed| needed <= found as u128);
    keys <= a.capacity as u128
        && a.q_stride as u128 >= width
        && has(q, a.q.len())
        && has(kv, numbers.k.len())
        && has(kv, numbers.v.len())
        && a.key_mask.is_none_or(|mask| Some(mask.len() as u128) == keys.checked_mul(a.batch as u128))
        && rows.checked_mul(width) == Some(numbers.out as u128)
}

fn naive(a: &Attention<'_>, numbers: &Numbers) -> Vec<f64> {
    let (d, keys) = (a.head_dim, a.past_len + a.queries);
    let mut out = Vec::new();
    for row in 0..a.batch * a.queries {
        let (sequence, position) = (row / a.queries, a.past_len + row % a.queries);
        for head in 0..a.heads {
            let q = &a.q[row * a.q_stride + head * d..][..d];
            let past = (sequence * (a.heads / a.group) + head / a.group) * a.capacity;
            let is_token = |s: &usize| a.key_mask.is_none_or(|mask| mask[sequence * keys + s]);
            let mut seen: Vec<usize> = (0..=position).filter(is_token).collect();
            seen.drain(..seen.len().saturating_sub(a.window));
            // Keys lie in panels of 16.
            let dot = |s: usize| {
                let keys = numbers.k[past * d + s / 16 * 16 * d + s % 16..].iter();
                let key = keys.step_by(16.min(a.capacity - s / 16 * 16));
                q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>()
            };
            let weights: Vec<f64> = seen.iter().map(|&s| (dot(s) * 0.7).exp()).collect();
            let total: f64 = weights.iter().sum();
            out.extend((0..d).map(|i| {
                let values =
                    seen.iter().zip(&weights).map(|(&s, weight)| weight * f64::from(numbers.v[(past + s) * d + i]));
                if seen.is_empty() { 0.0 } else { values.sum::<f64>() / total }
            }));
        }
    }
    out
}

/// Computes it, and compares with the loop, or is refused.
fn check(sizes: Sizes, numbers: &Numbers) {
    let attention = attention(sizes, numbers);
    let mut out = vec![f32::NAN; numbers.out];
    let reasons = [
        "attention with ",
        " heads cannot be divided into groups of ",
        "heads: ",
        "keys: ",
        "queries: ",
        "mask: ",
        "outputs: ",
    ];
    let valid = is_valid(&attention, numbers);
    if outcome(valid, &reasons, || attention.compute(&thread_scope(), &mut out)).is_some() {
        assert_close(&out, &naive(&attention, numbers), 1e-5);
    }
    let [mut first, mut second] = [out.clone(), out.clone()].map(|out| vec![f32::NAN; out.len()]);
    let both = || Attention::compute_all(vec![(attention, &mut first), (attention, &mut second)], &thread_scope());
    if outcome(valid, &reasons, both).is_some() {
        assert!(first == out && second == out, "several at once differ from each alone");
    }
}

/// The lengths that belong to some sizes.
fn lengths([q_stride, capacity, batch, queries, past_len, heads, group, head_dim, _]: Sizes) -> Lengths {
    let kv = batch * (heads / group) * capacity * head_dim;
    [batch * queries * q_stride, kv, kv, batch * (past_len + queries), batch * queries * heads * head_dim]
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn attention_computes_or_refuses(
        (batch, queries, past_len, kv_heads, group) in (1..4_usize, 1..7_usize, 0..9_usize, 1..4_usize, 1..6_usize),
        (head_dim, room, window) in (1..34_usize, 0..3_usize, prop_oneof![1..9_usize, Just(usize::MAX)]),
        changes in [change(9), change(9)],
        of_lengths in change(5),
        masked: bool,
        seed: u32,
    ) {
        let heads = kv_heads * group;
        let mut sizes =
            [heads * head_dim + room, past_len + queries + room, batch, queries, past_len, heads, group, head_dim, window];
        let mut lengths = lengths(sizes);
        for change in changes {
            apply(&mut sizes, change);
        }
        apply(&mut lengths, of_lengths);
        check(sizes, &numbers(lengths.map(length), masked, seed));
    }
}

#[test]
fn strides_that_wrap_are_refused() {
    // Two strides, or three, wrap to less than the queries have: the last query would begin where the first does, or 2
    // numbers behind it.
    for (queries, q_stride) in [(3, 1 << 63), (4, 6_148_914_691_236_517_206), (5, 6_148_914_691_236_517_206)] {
        let small = [8, queries, 1, queries, 0, 1, 1, 8, usize::MAX];
        let numbers = numbers(lengths(small), false, 1);
        let mut sizes = small;
        sizes[0] = q_stride;
        assert!(!is_valid(&attention(sizes, &numbers), &numbers));
        check(sizes, &numbers);
        check(small, &numbers);
    }
}

#[test]
fn heads_that_are_no_whole_groups_are_refused() {
    // Keys of two sequences with one head each; the third head would read the other sequence's.
    for queries in [1, 3] {
        let (heads, group) = (3, 2);
        let sizes = [heads * 4, queries, 2, queries, 0, heads, group, 4, usize::MAX];
        let numbers = numbers(lengths(sizes), false, 2);
        assert!(!is_valid(&attention(sizes, &numbers), &numbers));
        check(sizes, &numbers);
    }
}
