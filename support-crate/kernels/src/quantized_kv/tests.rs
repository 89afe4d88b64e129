//! Codes and their attention against plain loops in double precision, with every instruction set that this processor
//! has.

use proptest::prelude::*;

use super::*;
use crate::isa::Isa;
use crate::test_numbers::{assert_close, cases, numbers};
use crate::threads::thread_scope;

#[derive(Debug, Clone)]
struct Sizes {
    bits: KvBits,
    batch: usize,
    heads: usize,
    group: usize,
    head_dim: usize,
    tokens: usize,
    /// Room for more.
    room: usize,
    window: usize,
    soft_cap: Option<f32>,
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let head_dim = prop_oneof![1..40_usize, Just(64), Just(80), Just(128)];
    let window = prop_oneof![Just(usize::MAX), 1..100_usize];
    let tokens = prop_oneof![1..40_usize, 60..300_usize];
    let bits = prop_oneof![Just(KvBits::Four), Just(KvBits::Eight)];
    let soft_cap = prop_oneof![Just(None), Just(Some(0.5_f32)), Just(Some(30.0))];
    (bits, 1..3_usize, 1..3_usize, 1..7_usize, head_dim, tokens, (0..40_usize, window, soft_cap)).prop_map(
        |(bits, batch, heads, group, head_dim, tokens, (room, window, soft_cap))| Sizes {
            bits,
            batch,
            heads,
            group,
            head_dim,
            tokens,
            room,
            window,
            soft_cap,
        },
    )
}

impl Sizes {
    fn width(&self) -> usize {
        (self.group + 2) * self.heads * self.head_dim + 3
    }

    fn cache(&self) -> QuantizedKv {
        QuantizedKv::new(self.bits, self.batch, self.heads, self.tokens + self.room, self.head_dim).unwrap()
    }

    /// Queries, keys and values of all tokens: (tokens, batch, width). One channel of the keys is much larger.
    fn rows(&self, seed: u32) -> Vec<f32> {
        let mut rows = numbers(self.tokens * self.batch * self.width(), seed);
        for row in rows.chunks_exact_mut(self.width()) {
            let keys = self.group * self.heads * self.head_dim;
            row[keys] = 20.0 + 3.0 * row[keys];
        }
        rows
    }
}

/// Adds tokens `from..to` of each sequence, and gives their outputs: (to - from, batch, H D).
fn step(isa: Isa, sizes: &Sizes, kv: &mut QuantizedKv, rows: &[f32], from: usize, to: usize) -> Vec<f32> {
    let (scope, width, batch) = (thread_scope().with_isa(isa), sizes.width(), sizes.batch);
    // In the step, a sequence's rows lie together.
    let of = |sequence: usize, token: usize| &rows[(token * batch + sequence) * width..][..width];
    let rows: Vec<f32> = (0..batch)
        .flat_map(|b| (from..to).flat_map(move |t| (0..width).map(move |i| (b, t, i))))
        .map(|(b, t, i)| of(b, t)[i])
        .collect();
    let count = to - from;
    let runs: Vec<Run> =
        (0..batch).map(|sequence| Run { sequence, position: from, row: sequence * count, count }).collect();
    kv.append(&scope, &runs, &rows, width, sizes.group * sizes.heads * sizes.head_dim);
    let heads = sizes.group * sizes.heads;
    let mut out = vec![f32::NAN; batch * count * heads * sizes.head_dim];
    let attention = QuantizedAttention {
        q: &rows,
        q_stride: width,
        kv,
        runs: &runs,
        group: sizes.group,
        scale: 0.3,
        soft_cap: sizes.soft_cap,
        window: sizes.window,
    };
    attention.compute(&scope, &mut out);
    let by_sequence = out.chunks_exact(heads * sizes.head_dim);
    let all: Vec<&[f32]> = by_sequence.collect();
    (0..count).flat_map(|t| (0..batch).map(move |b| b * count + t)).flat_map(|row| all[row].to_vec()).collect()
}

/// The step of some numbers that share a scale, by the definition.
fn step_of(numbers: &[f64], levels: f64) -> f64 {
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let wanted = (high - low) as f32 / levels as f32;
    let step = f16::from_f32(wanted);
    let above = f16::from_bits(step.to_bits() + u16::from(step.to_f32() < wanted));
    f64::from(above.to_f32())
}

/// What the codes of a number mean.
fn decoded(kv: &QuantizedKv, unit: usize, of: usize, token: usize, channel: usize) -> f64 {
    let (d, (group, t)) = (kv.head_dim, (token / 32, token % 32));
    let head = kv.head(unit);
    // Of a group's rows: values token by token, keys 16 tokens side by side.
    let place = |row: usize| if of == 1 { row * d + channel } else { (row / 16 * d + channel) * 16 + row % 16 };
    let code = match kv.bits {
        KvBits::Eight => head.codes[of][group * 32 * d + place(t)] ^ 128,
        KvBits::Four => head.codes[of][group * 16 * d + place(t % 16)] >> (t / 16 * 4) & 15,
    };
    let (low, step) = match of {
        0 => (head.key_scales[group * 2 * d + channel], head.key_scales[(group * 2 + 1) * d + channel]),
        _ => {
            let part = (group * d.div_ceil(32) + channel / 32) * 64;
            (head.value_scales[part + t], head.value_scales[part + 32 + t])
        }
    };
    f64::from(low.to_f32()) + f64::from(code) * f64::from(step.to_f32())
}

/// Keys, or values, of a head: (tokens, D) as they were, and as codes, which are as near as their step allows.
fn head(sizes: &Sizes, kv: &QuantizedKv, rows: &[f32], sequence: usize, head: usize, of: usize) -> [Vec<Vec<f64>>; 2] {
    let (d, levels) = (sizes.head_dim, if sizes.bits == KvBits::Eight { 255.0 } else { 15.0 });
    let start = (sizes.group * sizes.heads + of * sizes.heads + head) * d;
    let exact: Vec<Vec<f64>> = (0..sizes.tokens)
        .map(|token| {
            let row = &rows[(token * sizes.batch + sequence) * sizes.width() + start..][..d];
            row.iter().map(|&x| f64::from(f16::from_f32(x).to_f32())).collect()
        })
        .collect();
    let mut coded = exact.clone();
    for token in 0..QuantizedKv::coded_before(sizes.tokens - 1) {
        for channel in 0..d {
            let together: Vec<f64> = match of {
                0 => exact[token / 32 * 32..].iter().take(32).map(|row| row[channel]).collect(),
                _ => exact[token][channel / 32 * 32..].iter().take(32).copied().collect(),
            };
            let found = decoded(kv, sequence * sizes.heads + head, of, token, channel);
            let error = (found - exact[token][channel]).abs();
            assert!(error <= step_of(&together, levels) * 0.5001, "{error} of {together:?}");
            coded[token][channel] = found;
        }
    }
    [exact, coded]
}

fn naive(sizes: &Sizes, kv: &QuantizedKv, rows: &[f32]) -> Vec<f64> {
    let (d, width) = (sizes.head_dim, sizes.width());
    let mut out = vec![0.0; sizes.tokens * sizes.batch * sizes.heads * sizes.group * d];
    for sequence in 0..sizes.batch {
        for h in 0..sizes.heads * sizes.group {
            let [k, v] = [0, 1].map(|of| head(sizes, kv, rows, sequence, h / sizes.group, of));
            for position in 0..sizes.tokens {
                let coded = if position < 32 { 0 } else { (position - 32) / 32 * 32 };
                let row = position * sizes.batch + sequence;
                let q = &rows[row * width + h * d..][..d];
                let seen = (position + 1).saturating_sub(sizes.window)..position + 1;
                let of = |kv: &[Vec<Vec<f64>>; 2], token: usize, i: usize| kv[usize::from(token < coded)][token][i];
                let score = |token: usize| {
                    let dot: f64 = (0..d).map(|i| f64::from(q[i]) * of(&k, token, i)).sum();
                    let score = dot * f64::from(0.3_f32);
                    sizes.soft_cap.map(f64::from).map_or(score, |cap| cap * (score / cap).tanh())
                };
                let scores: Vec<f64> = seen.clone().map(score).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let total: f64 = weights.iter().sum();
                for i in 0..d {
                    let sum: f64 = seen.clone().zip(&weights).map(|(token, weight)| weight * of(&v, token, i)).sum();
                    out[(row * sizes.heads * sizes.group + h) * d + i] = sum / total;
                }
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn attention_of_any_shape_and_however_tokens_come(
        sizes in sizes(),
        seed: u32,
        steps in prop::collection::vec(1..=QuantizedKv::MOST, 1..20),
    ) {
        let rows = sizes.rows(seed);
        for isa in Isa::available() {
            let mut by_steps = Vec::new();
            for steps in [&steps[..], &[1]] {
                let (mut kv, mut out, mut from) = (sizes.cache(), Vec::new(), 0);
                for step_len in steps.iter().cycle() {
                    let to = sizes.tokens.min(from + step_len);
                    out.extend(step(isa, &sizes, &mut kv, &rows, from, to));
                    from = to;
                    if from == sizes.tokens {
                        break;
                    }
                }
                by_steps.push((out, kv));
            }
            let (out, kv) = &by_steps[0];
            prop_assert!(*out == by_steps[1].0, "{isa}: not the same to the bit");
            assert_close(out, &naive(&sizes, kv, &rows), 2e-4);
        }
    }

    /// Guesses that were wrong, again and again, leave nothing behind, as long as there are not too many of them.
    #[test]
    fn what_is_replaced_is_as_if_it_had_not_been(
        sizes in sizes(),
        seed: u32,
        cuts in prop::collection::vec((1..=QuantizedKv::MOST, 0..=QuantizedKv::MOST), 1..12),
    ) {
        let isa = *Isa::available().last().unwrap();
        let (rows, wrong) = (sizes.rows(seed), sizes.rows(!seed));
        let (mut kv, mut expected) = (sizes.cache(), sizes.cache());
        let (mut from, mut longest) = (0, 0);
        for (count, guesses) in cuts.into_iter().cycle() {
            let guessed = sizes.tokens.min(from + guesses);
            if guessed > from {
                step(isa, &sizes, &mut kv, &wrong, from, guessed);
                longest = longest.max(guessed);
            }
            prop_assert!(QuantizedKv::can_go_on(longest, from));
            let to = sizes.tokens.min(from + count);
            let found = step(isa, &sizes, &mut kv, &rows, from, to);
            longest = longest.max(to);
            prop_assert!(found == step(isa, &sizes, &mut expected, &rows, from, to));
            from = to;
            if from == sizes.tokens {
                break;
            }
        }
    }
}

#[test]
fn how_far_back_a_cache_can_go_on() {
    for longest in 1..1000 {
        let fewest = QuantizedKv::fewest_to_go_on(longest);
        assert!(fewest <= longest.saturating_sub(QuantizedKv::MOST), "{longest}: {fewest}");
        assert!(QuantizedKv::can_go_on(longest, 0));
        for tokens in 1..=longest {
            assert_eq!(QuantizedKv::can_go_on(longest, tokens), tokens >= fewest, "{tokens} of {longest}");
            // By the ring: it has the last 128 tokens.
            let needed = if tokens < 32 { 0 } else { (tokens - 32) / 32 * 32 };
            assert_eq!(QuantizedKv::can_go_on(longest, tokens), needed + 128 >= longest);
        }
    }
}

#[test]
fn a_sequence_is_copied_with_all_that_it_has() {
    for bits in [KvBits::Four, KvBits::Eight] {
        let sizes = Sizes {
            bits,
            batch: 2,
            heads: 2,
            group: 1,
            head_dim: 5,
            tokens: 200,
            room: 3,
            window: usize::MAX,
            soft_cap: None,
        };
        let isa = *Isa::available().last().unwrap();
        let (rows, mut kv) = (sizes.rows(1), sizes.cache());
        for from in (0..160).step_by(40) {
            step(isa, &sizes, &mut kv, &rows, from, from + 40);
        }
        // Both sequences go on alike, as the second one.
        kv.copy(1, 0, 160);
        let mut alike = rows;
        for row in alike.chunks_exact_mut(2 * sizes.width()) {
            let (first, second) = row.split_at_mut(sizes.width());
            first.copy_from_slice(second);
        }
        let out = step(isa, &sizes, &mut kv, &alike, 160, 200);
        for out in out.chunks_exact(2 * 2 * 5) {
            assert_eq!(out[..10], out[10..]);
        }
    }
}

/// Numbers that no code stands for are seen.
#[test]
fn what_is_not_finite_stays_visible() {
    let sizes = Sizes {
        bits: KvBits::Eight,
        batch: 1,
        heads: 1,
        group: 1,
        head_dim: 4,
        tokens: 120,
        room: 0,
        window: usize::MAX,
        soft_cap: None,
    };
    // Token 15 is computed together with the seven before it.
    for number in [f32::NAN, f32::INFINITY] {
        for of in 1..3 {
            let (mut rows, mut kv) = (sizes.rows(1), sizes.cache());
            rows[15 * sizes.width() + of * 4] = number;
            let isa = *Isa::available().last().unwrap();
            let mut out = step(isa, &sizes, &mut kv, &rows, 0, 60);
            out.extend(step(isa, &sizes, &mut kv, &rows, 60, 120));
            assert!(out[..8 * 4].iter().all(|x| x.is_finite()));
            assert!(out[119 * 4..].iter().any(|x| !x.is_finite()));
        }
    }
}

/// The bytes by hand: 8 groups of 40, 128 recent tokens.
#[test]
fn bytes_of_a_cache() {
    let of = |bits| QuantizedKv::new(bits, 2, 3, 300, 40).unwrap().bytes();
    let (groups, scales) = (8, 2 * 2 * 40 + 2 * 2 * 32 * 2);
    assert_eq!(of(KvBits::Eight), 2 * 3 * (groups * (2 * 32 * 40 + scales) + 2 * 128 * 40 * 2));
    assert_eq!(of(KvBits::Four), 2 * 3 * (groups * (32 * 40 + scales) + 2 * 128 * 40 * 2));
    assert!(QuantizedKv::new(KvBits::Four, 1 << 40, 8, 1 << 20, 128).is_none());
}
