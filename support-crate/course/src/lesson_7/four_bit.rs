//! `decode_nf4` and `dot_nf4`.

use rand::Rng;
use rand::rngs::StdRng;

use quantlab::quant::FourBit;

use super::dots::{IF_NAN, numbers};
use super::matrices::BLOCK;
use crate::cases::random;
use crate::lesson_0::trials::{Trial, in_each};
use crate::{Score, Verdict, ask, changed};

/// Codes of `n` weights, all sixteen of them frequent, and a scale for each block, each of another size.
fn packed(rng: &mut StdRng, n: usize) -> (Vec<u8>, Vec<f32>) {
    let codes = (0..n.div_ceil(2)).map(|_| rng.random()).collect();
    let absmax = (0..n.div_ceil(BLOCK)).map(|block| (1.0 + block as f32 % 7.0) * rng.random_range(0.5..0.8)).collect();
    (codes, absmax)
}

/// One way to read the weights; the right one, or one with a mistake.
#[derive(Clone, Copy)]
struct Reading {
    code: fn(&[u8], usize) -> u8,
    /// Which block weight `i`, the `at`-th of those asked for, belongs to.
    block: fn(usize, usize) -> usize,
}

fn high_first(packed: &[u8], i: usize) -> u8 {
    if i.is_multiple_of(2) { packed[i / 2] >> 4 } else { packed[i / 2] & 15 }
}

fn low_first(packed: &[u8], i: usize) -> u8 {
    if i.is_multiple_of(2) { packed[i / 2] & 15 } else { packed[i / 2] >> 4 }
}

const RIGHT: Reading = Reading { code: high_first, block: |i, _| i / BLOCK };

impl Reading {
    fn of(self, packed: &[u8], absmax: &[f32], first: usize, n: usize) -> Vec<f64> {
        let book = FourBit::Nf4.codebook();
        let weight = |at: usize| {
            let i = first + at;
            // What a mistake reaches beyond is nothing that an answer could have given.
            let scale = absmax.get((self.block)(i, at)).copied().unwrap_or(f32::NAN);
            f64::from(book[usize::from((self.code)(packed, i))] * scale)
        };
        (0..n).map(weight).collect()
    }
}

const READINGS: [(Reading, &str); 8] = [
    (
        Reading { code: low_first, ..RIGHT },
        "the first of a byte's two codes is in its upper half: `byte >> 4`, and the second is `byte & 15`",
    ),
    (
        Reading { block: |_, at| at / BLOCK, ..RIGHT },
        "blocks are counted from the beginning of the matrix, not from `first`: weight i belongs to block i / 64",
    ),
    (
        Reading { block: |i, _| i / 2 / BLOCK, ..RIGHT },
        "a block has 64 weights, which are 32 bytes: weight i belongs to block i / 64",
    ),
    (Reading { block: |_, _| 0, ..RIGHT }, "each 64 weights have a scale of their own, and you took the first block's"),
    (
        Reading { block: |i, at| (i - at) / BLOCK, ..RIGHT },
        "a row may begin in one block and end in the next: the block of each weight, not of the first one",
    ),
    (
        Reading { block: |i, at| (i - at) / BLOCK + at / BLOCK, ..RIGHT },
        "a row may begin in the middle of a block, whose scale then ends earlier: weight i belongs to block i / 64",
    ),
    (
        Reading { code: |packed, i| packed[i / 2] >> 4, ..RIGHT },
        "each byte has two codes, and you took the upper one twice",
    ),
    (
        Reading { code: |packed, i| packed[i / 2] & 15, ..RIGHT },
        "each byte has two codes, and you took the lower one twice",
    ),
];

const DECODE_HINTS: [&str; 3] = [
    "In which byte is weight 7 of the matrix, in which half of it, and to which block does it belong?",
    "Weight i is in byte i / 2: in the upper half if i is even, in the lower half if it is odd. Its number is \
     `FourBit::Nf4.codebook()[code] * absmax[i / 64]`. Here i runs from `first`, wherever that lies.",
    "`for (i, out) in (first..).zip(out) { let byte = packed[i / 2]; let code = if i % 2 == 0 { byte >> 4 } else { byte & 15 }; \
     *out = FourBit::Nf4.codebook()[usize::from(code)] * absmax[i / 64]; }`",
];

/// Checks `decode_nf4(packed, absmax, first, out)`.
pub fn check_decode_nf4(yours: fn(&[u8], &[f32], usize, &mut [f32])) -> Score {
    let of = |places: &[(usize, usize)]| -> Verdict {
        let mut rng = random(78);
        let mut trial = |&(first, n): &(usize, usize)| {
            // Now and then the matrix goes on behind what is asked for.
            let (codes, absmax) = packed(&mut rng, first + n + n % 2 * 130);
            let got = changed(vec![0.25_f32; n], |out| yours(&codes, &absmax, first, out))?;
            let read = |reading: Reading| reading.of(&codes, &absmax, first, n);
            let from_first = |i: usize| FourBit::Nf4.codebook()[usize::from(high_first(&codes[first / 2..], i))];
            let parity: Vec<f64> = (0..n).map(|at| f64::from(from_first(at) * absmax[(first + at) / BLOCK])).collect();
            let unscaled = (0..n).zip(read(RIGHT)).map(|(at, w)| w / f64::from(absmax[(first + at) / BLOCK])).collect();
            let mistakes = READINGS.map(|(reading, why)| (read(reading), why)).into_iter().chain([
                (
                    read(Reading { code: if first % 2 == 1 { low_first } else { high_first }, ..RIGHT }),
                    "whether a weight is in the upper half is counted from the beginning of the matrix, not from `first`",
                ),
                (parity, "weight `first` is in the lower half of its byte if `first` is odd"),
                (read(RIGHT).iter().rev().copied().collect(), "the weights are in the order of the bytes"),
                (unscaled, "the number of a code is a part of the largest magnitude: times the block's `absmax`"),
                (RIGHT.of(&codes, &absmax, 0, n), "weights begin at `first`, not at the beginning of the matrix"),
                (vec![0.25; n], "nothing was written into `out`"),
            ]);
            Ok(Trial::new(format!("weights {first} to {}", first + n), &got, read(RIGHT)).mistakes(mistakes))
        };
        in_each(places.iter().map(&mut trial).collect(), IF_NAN)
    };
    Score::new("decode_nf4", DECODE_HINTS)
        .point(
            "two codes of a byte, the first in the upper half",
            of(&[(0, 2), (0, 16), (0, 64), (0, 0), (0, 1), (0, 37)]),
        )
        .point("a scale for each 64 weights", of(&[(64, 64), (128, 192), (0, 640), (640, 64)]))
        .point(
            "rows that begin anywhere: in the middle of a block or of a byte",
            of(&[(96, 96), (32, 64), (100, 100), (63, 2), (1, 64), (77, 333), (127, 1), (2049, 683), (64, 0)]),
        )
}

const DOT_HINTS: [&str; 3] = [
    "How often is the scale of a block needed, if all of its 64 products are multiplied by the same one?",
    "For each block: 32 bytes, 64 inputs and a scale. `look_up(book, &bytes[4 * i..])` gives eight weights without their scale; \
     multiply them by `load(&x[8 * i..])` and add up, in several sums. At the end of the block, `mul_add(all(*scale), sum, \
     total)`.",
    "`for ((bytes, scale), x) in packed.chunks_exact(32).zip(absmax).zip(x.chunks_exact(64)) { let mut sums = [all(0.0); 4]; for \
     i in 0..8 { let weights = look_up(book, &bytes[4 * i..]); sums[i % 4] = mul_add(weights, load(&x[8 * i..]), sums[i % 4]); \
     } for i in 0..4 { totals[i] = mul_add(all(*scale), sums[i], totals[i]); } }`",
];

/// Checks `dot_nf4(packed, absmax, x)`.
pub fn check_dot_nf4(yours: fn(&[u8], &[f32], &[f32]) -> f32) -> Score {
    let of = |blocks: &[usize]| -> Verdict {
        let mut rng = random(79);
        let mut trial = |&blocks: &usize| {
            let n = blocks * BLOCK;
            let (codes, absmax) = packed(&mut rng, n);
            let x = numbers(&mut rng, n);
            let got = ask(|| Ok(yours(&codes, &absmax, &x)))?;
            let dot = |weights: &[f64]| weights.iter().zip(&x).map(|(w, x)| w * f64::from(*x)).sum::<f64>();
            let weights = RIGHT.of(&codes, &absmax, 0, n);
            let plain: Vec<f64> = weights.iter().enumerate().map(|(i, w)| w / f64::from(absmax[i / BLOCK])).collect();
            let without = |of: &dyn Fn(usize) -> bool| {
                let kept: Vec<f64> = weights.iter().enumerate().map(|(i, w)| if of(i) { *w } else { 0.0 }).collect();
                vec![dot(&kept)]
            };
            let readings = READINGS.map(|(reading, why)| (vec![dot(&reading.of(&codes, &absmax, 0, n))], why));
            let mistakes = readings.into_iter().chain([
                (vec![dot(&plain)], "the scales are missing: the sum of each block is multiplied by its own"),
                (without(&|i| i < BLOCK), "only the first block is computed"),
                (without(&|i| i / BLOCK + 1 < blocks), "the last block is missing"),
                (without(&|i| i / 8 % 4 == 0), "only the first vector of sums is returned: add all of them up"),
            ]);
            Ok(Trial::new(format!("a row of {blocks} blocks"), &[got], vec![dot(&weights)]).mistakes(mistakes))
        };
        in_each(blocks.iter().map(&mut trial).collect(), IF_NAN)
    };
    let passes_through = || -> Verdict {
        let mut rng = random(80);
        let (codes, absmax) = packed(&mut rng, 3 * BLOCK);
        let x = numbers(&mut rng, 3 * BLOCK);
        for block in 0..3 {
            let (mut absmax, mut x) = (absmax.clone(), x.clone());
            absmax[block] = f32::NAN;
            let of_scale = ask(|| Ok(yours(&codes, &absmax, &x)))?;
            absmax[block] = 0.0;
            x[BLOCK * block + 63] = f32::NAN;
            let of_input = ask(|| Ok(yours(&codes, &absmax, &x)))?;
            for (what, got) in [("scale", of_scale), ("input", of_input)] {
                if !got.is_nan() {
                    return wrong!("a NaN as {what} of block {block}, and the sum is {got}: it must be NaN");
                }
            }
        }
        Ok(())
    };
    Score::new("dot_nf4", DOT_HINTS)
        .point("one block", of(&[1, 1, 1]))
        .point("any number of blocks, each with its scale", of(&[0, 2, 3, 5, 10, 32, 33]))
        .point("NaN shows in the result", passes_through())
}
