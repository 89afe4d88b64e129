//! `round_cache`: keys by channel, values by token; and `head_bytes`, what a quantized cache takes.

use rand::Rng;
use rand::rngs::StdRng;

use quantlab::model::CacheFormat;

use super::trials::{all_within, slips};
use crate::cases::random;
use crate::figure::{Figure, Given, all_right};
use crate::{Complaint, Score, ask};

/// Numbers of a cache that share a lowest number and a step.
pub const GROUP: usize = 32;

/// Along what 32 numbers share a lowest number and a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along {
    /// 32 tokens of a channel.
    Tokens,
    /// 32 channels of a token.
    Channels,
}

const HINTS: [&str; 3] = [
    "Which numbers share a grid: where in (tokens, width), row by row, does the next one of a group stand?",
    "Channel c of token t is number t * width + c. A group along tokens is 32 tokens of one channel, so its numbers are `width` \
     apart; along channels, 32 neighbours of one token. The last group may be shorter. Its step is the largest less the lowest \
     number over 2^bits - 1; where that is 0, the numbers stay as they are.",
    "`let (down, across) = match along { Along::Tokens => (32, 1), Along::Channels => (1, 32) };`, then for each `t0` of \
     `(0..tokens).step_by(down)` and each `c0` of `(0..width).step_by(across)`, the places `t * width + c` for t from t0 to \
     `tokens.min(t0 + down)` and c from c0 to `width.min(c0 + across)`.",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    Right,
    OtherWay,
    WholeLine,
    OneGrid,
    Symmetric,
    StepTooSmall,
    Truncated,
    TailAsItIs,
    AcrossTokens,
    FromZero,
    Zeros,
    /// No mistake, but for numbers in the middle of two codes.
    Up,
    Down,
}

const SLIPS: [(Slip, &str); 10] = [
    (Slip::OtherWay, "along the other direction: `Along::Tokens` is 32 tokens of one channel"),
    (Slip::WholeLine, "a group ends after 32 numbers"),
    (Slip::OneGrid, "each group has a lowest number and a step of its own"),
    (Slip::Symmetric, "the codes count from the lowest number, which need not be the negative of the largest"),
    (Slip::FromZero, "the codes count from the lowest number of the group: 0 need not lie among its numbers"),
    (Slip::StepTooSmall, "between 2^bits numbers lie 2^bits - 1 steps"),
    (Slip::Truncated, "to the nearest code: `round`"),
    (Slip::TailAsItIs, "the last group may have fewer than 32 numbers, and is rounded, too"),
    (Slip::Zeros, "a group of equal numbers stays as it is"),
    (Slip::AcrossTokens, "along channels, a group ends with its token"),
];

fn rounded(x: &[f32], width: usize, along: Along, bits: u32, slip: Slip) -> Vec<f64> {
    let along = match (along, slip) {
        (Along::Tokens, Slip::OtherWay) => Along::Channels,
        (Along::Channels, Slip::OtherWay) => Along::Tokens,
        (along, _) => along,
    };
    let (tokens, most) = (x.len() / width, if slip == Slip::WholeLine { usize::MAX } else { GROUP });
    let line = |i: usize, n: usize, stride: usize, start: usize| -> Vec<usize> {
        (0..n).map(|j| i * start + j * stride).collect()
    };
    let lines: Vec<Vec<usize>> = match (along, slip) {
        (Along::Channels, Slip::AcrossTokens) => vec![(0..x.len()).collect()],
        (Along::Tokens, _) => (0..width).map(|c| line(c, tokens, width, 1)).collect(),
        (Along::Channels, _) => (0..tokens).map(|t| line(t, width, 1, width)).collect(),
    };
    let groups: Vec<&[usize]> = lines.iter().flat_map(|line| line.chunks(most.min(line.len().max(1)))).collect();
    let wide: Vec<f64> = x.iter().copied().map(f64::from).collect();
    let limits = |group: &[usize]| {
        let of = group.iter().map(|&i| wide[i]);
        of.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let all: Vec<usize> = (0..x.len()).collect();
    let mut out = wide.clone();
    for group in groups {
        if slip == Slip::TailAsItIs && group.len() < GROUP {
            continue;
        }
        let (low, high) = limits(if slip == Slip::OneGrid { &all } else { group });
        let (low, high) = match slip {
            Slip::Symmetric => (-high.abs().max(low.abs()), high.abs().max(low.abs())),
            Slip::FromZero => (low.min(0.0), high.max(0.0)),
            _ => (low, high),
        };
        let steps = if slip == Slip::StepTooSmall { 2_f64.powi(bits as i32) } else { 2_f64.powi(bits as i32) - 1.0 };
        let step = (high - low) / steps;
        if slip == Slip::Zeros && step == 0.0 {
            group.iter().for_each(|&i| out[i] = 0.0);
        }
        for &i in group.iter().filter(|_| step > 0.0) {
            let code = (wide[i] - low) / step;
            let code = match slip {
                Slip::Truncated => code.floor(),
                Slip::Up => (code + 3e-4).round(),
                Slip::Down => (code - 3e-4).round(),
                _ => code.round(),
            };
            out[i] = low + code * step;
        }
    }
    out
}

/// (tokens, width) numbers as keys are: channels that lie far from 0, and one that is wide. `spread`: how wide they are.
fn keys(rng: &mut StdRng, tokens: usize, width: usize, spread: f32) -> Vec<f32> {
    let centers: Vec<f32> = (0..width).map(|_| rng.random_range(-3.0..3.0)).collect();
    let scales: Vec<f32> = (0..width).map(|c| spread * if c == width / 2 { 5.0 } else { 0.6 }).collect();
    (0..tokens * width).map(|i| centers[i % width] + scales[i % width] * rng.random_range(-1.0..1.0_f32)).collect()
}

/// Checks `round_cache(numbers, width, along, bits)`.
pub fn check_round_cache(yours: fn(&[f32], usize, Along, u32) -> Vec<f32>) -> Score {
    let trial = |x: &[f32], width: usize, along: Along, bits: u32| {
        let got = ask(|| Ok(yours(x, width, along, bits)))?;
        let (tokens, right) = (x.len() / width, rounded(x, width, along, bits, Slip::Right));
        Ok(Given {
            what: format!("round_cache({tokens} tokens of {width} numbers, Along::{along:?}, {bits} bits)"),
            got: got.into_iter().map(f64::from).collect(),
            expected: right,
            mistakes: slips(&SLIPS, |slip| rounded(x, width, along, bits, slip)),
        })
    };
    // No number near the middle of two codes, where float32 and float64 may round to different ones.
    let clear = |rng: &mut StdRng, tokens, width, spread, along, bits| loop {
        let x = keys(rng, tokens, width, spread);
        let [up, down] = [Slip::Up, Slip::Down].map(|slip| rounded(&x, width, along, bits, slip));
        if up == down {
            return x;
        }
    };
    // With 2 bits, also numbers that lie close together.
    let of = |along: Along, sizes: &[(usize, usize)]| -> Result<Vec<_>, Complaint> {
        let mut rng = random(85);
        let cases = sizes.iter().flat_map(|size| [(2, 1.0), (5, 1.0), (8, 1.0), (2, 2e-3)].map(|case| (*size, case)));
        cases
            .map(|((tokens, width), (bits, spread))| {
                trial(&clear(&mut rng, tokens, width, spread, along, bits), width, along, bits)
            })
            .collect()
    };
    let rest = || -> Result<Vec<_>, Complaint> {
        let mut trials = of(Along::Tokens, &[(33, 3), (5, 40), (1, 6)])?;
        trials.extend(of(Along::Channels, &[(3, 33), (40, 5), (6, 1)])?);
        // A channel, and a token, of equal numbers.
        let mut equal: Vec<f32> =
            (0..64 * 4).map(|i| if i % 4 == 2 { -1.25 } else { 0.125 * (i % 16) as f32 }).collect();
        equal[8..12].fill(0.5);
        for along in [Along::Tokens, Along::Channels] {
            trials.push(trial(&equal, 4, along, 4)?);
        }
        Ok(trials)
    };
    Score::new("round_cache", HINTS)
        .point("32 tokens of a channel", all_within(of(Along::Tokens, &[(64, 3), (96, 5), (32, 64)]), 1e-4, ""))
        .point("32 channels of a token", all_within(of(Along::Channels, &[(3, 64), (5, 96), (64, 32)]), 1e-4, ""))
        .point(
            "groups that are not full, numbers that are all equal",
            all_within(rest(), 1e-4, "a group of equal numbers has a step of 0: it stays as it is"),
        )
}

const BYTES_HINTS: [&str; 3] = [
    "What of keys and values is kept twice for a while, and what is shared by 32 numbers?",
    "Keys and values of a group have 2 * 32 * D codes. Scales are 4 bytes: one for each of the D channels of keys, and for each of \
     the 32 tokens one for every 32 channels of values, begun ones included. The float16 numbers of the last tokens are 2 bytes \
     each, for keys and for values, of at most 128 tokens, and of no more than there are.",
    "With `let groups = tokens.saturating_sub(33) / 32;`: `groups * (2 * 32 * d * bits / 8 + 4 * (d + 32 * d.div_ceil(32))) + \
     2 * 2 * d * tokens.min(128)`",
];

/// Checks `head_bytes(tokens, head_dim, bits)`.
pub fn check_head_bytes(yours: fn(usize, usize, usize) -> usize) -> Score {
    let figure = |(tokens, d, bits): (usize, usize, usize)| -> Result<Figure, Complaint> {
        let groups = tokens.saturating_sub(33) / 32;
        let (codes, scales) = (2 * 32 * d * bits / 8, 4 * (d + 32 * d.div_ceil(32)));
        let recent = 4 * d * tokens.min(128);
        let each = |of_group: usize| groups * of_group + recent;
        let with = |groups: usize| groups * (codes + scales) + recent;
        let mistakes = [
            (each(codes), "scales take room: 4 bytes for each 32 numbers"),
            (groups * (codes + scales), "the last tokens are also kept in float16, 128 of them at most"),
            (groups * (codes + scales) + 4 * d * 128, "there may be fewer than 128 tokens"),
            (
                groups * (codes + scales) + 4 * d * (tokens - 32 * groups),
                "the last 128 tokens are kept in float16, those in groups among them, too",
            ),
            (groups * (codes + scales) + recent / 2, "float16 is 2 bytes, of keys and of values"),
            (each(codes / 2 + scales), "codes are of keys and of values"),
            (each(8 * codes + scales), "a byte has 8 bits"),
            (each(codes + scales / 2), "a scale is a lowest number and a step, 2 bytes each"),
            (
                each(codes + 4 * (d + d.div_ceil(32))),
                "each of the 32 tokens of a group has scales of its own for its values",
            ),
            (each(codes + 4 * (d + 32 * (d / 32))), "channels that do not fill 32 have a scale, too: `div_ceil`"),
            (each(codes + 8 * d), "values have a scale for each token and 32 channels, begun ones included"),
            (with(tokens / 32), "the last 33 to 64 tokens are in no group yet: (tokens - 33) / 32"),
            (with(tokens.div_ceil(32)), "the last 33 to 64 tokens are in no group yet: (tokens - 33) / 32"),
            (with(tokens.saturating_sub(32) / 32), "a group is complete 33 tokens before the end: (tokens - 33) / 32"),
            (
                with(tokens.saturating_sub(64) / 32),
                "not all of the last 64 tokens are without codes: a group is complete 33 tokens before the end, \
                 (tokens - 33) / 32",
            ),
            (
                with(tokens.saturating_sub(128) / 32),
                "128 tokens are kept in float16 too, but all except the last 33 to 64 have codes",
            ),
        ];
        let mistakes = mistakes.map(|(bytes, why)| (bytes as f64, why)).to_vec();
        let got = ask(|| Ok(yours(tokens, d, bits)))? as f64;
        let format = if bits == 8 { CacheFormat::Int8 } else { CacheFormat::Int4 };
        let what = format!("the bytes of {tokens} tokens, {d} channels, {bits} bits");
        Ok(Figure { what, got, expected: format.bytes_of_head(tokens, d), mistakes })
    };
    let of = |cases: &[(usize, usize, usize)]| {
        let figures: Result<Vec<Figure>, Complaint> = cases.iter().copied().map(figure).collect();
        figures.and_then(|figures| all_right(&figures, |a, b| (a - b).abs() < 0.5))
    };
    Score::new("head_bytes", BYTES_HINTS)
        .point("long contexts", of(&[(4096, 64, 4), (4096, 64, 8), (131_072, 128, 4), (1000, 32, 8), (161, 96, 4)]))
        .point("heads of any width", of(&[(4096, 48, 4), (777, 80, 8), (300, 12, 4), (224, 33, 4)]))
        .point(
            "short ones",
            of(&[(0, 64, 4), (1, 64, 8), (33, 64, 4), (64, 48, 8), (65, 64, 4), (127, 64, 8), (97, 32, 4)]),
        )
}
