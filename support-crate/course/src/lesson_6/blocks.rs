//! `decode_q4_0`, `encode_q4_0`, `decode_q4_1` and `decode_q4_k`: the blocks of GGUF files, byte by byte.

use quantlab::quant::{encode_ggml, restore_ggml};
use quantlab::source::GgmlType;
use rand::Rng;
use rand::rngs::StdRng;

use super::grid::{float16, float16_bytes, from_float16};
use super::trials::{Close, Trial, in_each, of_length, wide};
use crate::cases::random;
use crate::{Complaint, Score, ask};

type Decode<'a> = dyn Fn(&[u8]) -> Vec<f32> + 'a;

/// What well-known mistakes make of a block.
type Mistake = (fn(&[u8]) -> Vec<f64>, &'static str);

/// Scales from 2^-10 to 2, some of them negative; now and then 0, or one of few digits.
fn scale(rng: &mut StdRng) -> [u8; 2] {
    let (exponent, fraction) = (rng.random_range(5..16_u16), rng.random_range(0..1024_u16));
    let bits = match rng.random_range(0..8) {
        0 => 0,
        1 => fraction,
        _ => exponent << 10 | fraction,
    };
    (bits | u16::from(rng.random_bool(0.3)) << 15).to_le_bytes()
}

fn random_blocks(scales: usize, kind: GgmlType, seed: u64) -> Vec<Vec<u8>> {
    let mut rng = random(seed);
    let block = |_| {
        let mut bytes: Vec<u8> = (0..kind.block_bytes()).map(|_| rng.random()).collect();
        (0..scales).for_each(|at| bytes[2 * at..2 * at + 2].copy_from_slice(&scale(&mut rng)));
        bytes
    };
    (0..12).map(block).collect()
}

fn restored(kind: GgmlType, block: &[u8]) -> Vec<f64> {
    let mut numbers = vec![0.0; kind.block_len()];
    restore_ggml(kind, block, &mut numbers);
    wide(&numbers)
}

/// Blocks, and of each the numbers `from..to`.
fn trials(
    yours: &Decode<'_>,
    kind: GgmlType,
    blocks: &[Vec<u8>],
    (from, to): (usize, usize),
    mistakes: &[Mistake],
) -> Result<Vec<Trial>, Complaint> {
    let part = |all: Vec<f64>| all[from..to].to_vec();
    let trial = |block: &Vec<u8>| {
        let got = of_length(ask(|| Ok(yours(block)))?, kind.block_len())?;
        let name = format!("a block of {}", kind.name());
        let mistakes = mistakes.iter().map(|(of, why)| (part(of(block)), *why)).collect();
        Ok(Trial { what: name, got: part(wide(&got)), expected: part(restored(kind, block)), mistakes })
    };
    blocks.iter().map(trial).collect()
}

fn half(block: &[u8], at: usize) -> f64 {
    from_float16([block[at], block[at + 1]]).into()
}

fn halves_first(bytes: &[u8]) -> Vec<f64> {
    bytes.iter().map(|b| b & 15).chain(bytes.iter().map(|b| b >> 4)).map(f64::from).collect()
}

fn pairs(bytes: &[u8]) -> Vec<f64> {
    bytes.iter().flat_map(|b| [b & 15, b >> 4]).map(f64::from).collect()
}

fn swapped(bytes: &[u8]) -> Vec<f64> {
    bytes.iter().map(|b| b >> 4).chain(bytes.iter().map(|b| b & 15)).map(f64::from).collect()
}

fn each(codes: Vec<f64>, of: impl Fn(f64) -> f64) -> Vec<f64> {
    // As float32 has it.
    codes.into_iter().map(|code| f64::from(of(code) as f32)).collect()
}

fn big_endian(block: &[u8], at: usize) -> f64 {
    from_float16([block[at + 1], block[at]]).into()
}

const Q4_0_MISTAKES: [Mistake; 5] = [
    (|b| each(pairs(&b[2..]), |code| half(b, 0) * (code - 8.0)), NOT_PAIRS),
    (|b| each(swapped(&b[2..]), |code| half(b, 0) * (code - 8.0)), LOW_FIRST),
    (|b| each(halves_first(&b[2..]), |code| half(b, 0) * code), "8 is subtracted from each code"),
    (|b| each(halves_first(&b[2..]), |code| half(b, 0) * (code - 7.0)), "8 is subtracted from each code, not 7"),
    (|b| each(halves_first(&b[2..]), |code| big_endian(b, 0) * (code - 8.0)), LOW_BYTE),
];
const Q4_1_MISTAKES: [Mistake; 6] = [
    (|b| each(pairs(&b[4..]), |code| half(b, 0) * code + half(b, 2)), NOT_PAIRS),
    (|b| each(swapped(&b[4..]), |code| half(b, 0) * code + half(b, 2)), LOW_FIRST),
    (|b| each(halves_first(&b[4..]), |code| half(b, 0) * code), "the minimum is added"),
    (
        |b| each(halves_first(&b[4..]), |code| half(b, 0) * code - half(b, 2)),
        "the minimum of Q4_1 is added, not subtracted",
    ),
    (|b| each(halves_first(&b[4..]), |code| half(b, 2) * code + half(b, 0)), "the scale comes first, then the minimum"),
    (
        |b| each(halves_first(&b[4..]), |code| half(b, 0) * (code - 8.0) + half(b, 2)),
        "nothing is subtracted from codes of Q4_1",
    ),
];
const NOT_PAIRS: &str = "the two codes of a byte are not neighbours: they are half a block apart";
const LOW_FIRST: &str = "the low half of a byte belongs to the first half of the numbers";
const LOW_BYTE: &str = "the lower byte of a float16 number comes first";

/// Of blocks of 32 numbers, one half after the other.
fn by_halves(score: Score, yours: &Decode<'_>, kind: GgmlType, blocks: &[Vec<u8>], mistakes: &[Mistake]) -> Score {
    let of = |part: (usize, usize)| {
        in_each(trials(yours, kind, blocks, part, mistakes), Close::Exactly, |i| number(part.0 + i))
    };
    score.point("the first half of the numbers", of((0, 16))).point("the second half", of((16, 32)))
}

const Q4_0_HINTS: [&str; 3] = [
    "Which of the 18 bytes hold the scale, and which two numbers of the block share byte 2?",
    "`from_float16([block[0], block[1]])` is the scale. The low halves (`byte & 15`) of bytes 2 to 17 are the first 16 codes, \
     their high halves (`byte >> 4`) the other 16. A code stands for (code - 8) times the scale.",
    "`let codes = block[2..].iter().map(|b| b & 15).chain(block[2..].iter().map(|b| b >> 4));`",
];

fn number(i: usize) -> String {
    format!("number {i}")
}

/// Checks `decode_q4_0(block)`.
pub fn check_decode_q4_0(yours: fn(&[u8]) -> Vec<f32>) -> Score {
    let blocks = random_blocks(1, GgmlType::Q4_0, 67);
    by_halves(Score::new("decode_q4_0", Q4_0_HINTS), &yours, GgmlType::Q4_0, &blocks, &Q4_0_MISTAKES)
}

const ENCODE_HINTS: [&str; 3] = [
    "Which number of the block becomes exactly a number of the grid, and which code does it get?",
    "The number of the largest magnitude, with its sign, over -8 is the scale: it gets code 0. A code is number / scale + 8.5, cut \
     to a whole number, and at most 15. Bytes 2 to 17 have codes 0 to 15 in their low halves, 16 to 31 in their high ones.",
    "`let (firsts, seconds) = numbers.split_at(16);`, and byte 2 + i is `code(firsts[i]) | code(seconds[i]) << 4`.",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    #[cfg(test)]
    None,
    Magnitude,
    Last,
    Stored,
    Zeros,
    Seven,
    Sixteen,
    Down,
    Pairs,
    HighFirst,
    Unscaled,
}

const ENCODE_SLIPS: [(Slip, &str); 10] = [
    (Slip::Magnitude, "the sign of the largest number counts: over -8, it gets code 0"),
    (Slip::Seven, "the largest number is divided by -8, not by 7: one code more on its side"),
    (Slip::Sixteen, "no code is above 15: a larger one runs into its neighbour"),
    (Slip::Down, "add 8.5 before you cut: that rounds to the nearest"),
    (Slip::Pairs, NOT_PAIRS),
    (Slip::HighFirst, LOW_FIRST),
    (Slip::Unscaled, "divide by the scale before you add 8.5"),
    (Slip::Last, "of equal magnitudes, the first counts"),
    (Slip::Zeros, "zeros have code 8: for 32 of them, take 0 as the inverse of the scale"),
    (Slip::Stored, "the inverse is that of the scale before it became a float16 number"),
];

/// As `with_largest_at_the_end` has it, in double precision.
fn encoded(numbers: &[f32], slip: Slip) -> Vec<f64> {
    let is_more = |x: f64, most: f64| x.abs() > most.abs() || slip == Slip::Last && x.abs() == most.abs();
    let largest = numbers.iter().map(|x| f64::from(*x)).fold(0.0, |most, x| if is_more(x, most) { x } else { most });
    let scale = match slip {
        Slip::Magnitude => largest.abs() / -8.0,
        Slip::Seven => largest.abs() / 7.0,
        _ => largest / -8.0,
    };
    let code = |x: &f32| -> u8 {
        let by = if slip == Slip::Stored { float16(scale as f32).into() } else { scale };
        let steps = match slip {
            Slip::Unscaled => f64::from(*x),
            _ if by == 0.0 && slip != Slip::Zeros => 0.0,
            _ => f64::from(*x) / by,
        };
        let code = (steps + if slip == Slip::Down { 8.0 } else { 8.5 }) as u8;
        if slip == Slip::Sixteen { code } else { code.min(15) }
    };
    let codes: Vec<u8> = numbers.iter().map(code).collect();
    let byte = |i: usize| match slip {
        Slip::Pairs => codes[2 * i] | codes[2 * i + 1] << 4,
        Slip::HighFirst => codes[i] << 4 | codes[i + 16],
        _ => codes[i] | codes[i + 16] << 4,
    };
    float16_bytes(scale as f32).into_iter().chain((0..16).map(byte)).map(f64::from).collect()
}

/// Zeros, equal magnitudes of either sign, numbers that the scale as a float16 number would move over an edge between two
/// codes, and some that are too small for it.
fn odd_blocks() -> Vec<Vec<f32>> {
    let alike = |sign: f32| (0..32).map(|i| if i % 7 == 3 { 0.5 } else { -0.5 } * sign).collect();
    let edge = |i| if i == 0 { 0.51 } else { ((i % 15) as f32 - 7.5) * 0.9998 * (0.51 / -8.0) };
    let small = (0..32).map(|i| (i as f32 * 0.49 - 8.0) * 1e-9).collect();
    vec![vec![0.0; 32], alike(1.0), alike(-1.0), (0..32).map(edge).collect(), small]
}

/// Checks `encode_q4_0(numbers)`.
pub fn check_encode_q4_0(yours: fn(&[f32]) -> Vec<u8>) -> Score {
    let trials = |(from, to): (usize, usize)| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(70);
        let mut blocks = odd_blocks();
        for (tried, sign) in [1.0, -1.0].repeat(8).into_iter().enumerate() {
            // Far from the edges between two codes.
            let mut steps = || rng.random_range(-7..8) as f32 + rng.random_range(-0.4..0.4);
            let mut numbers: Vec<f32> = (0..32).map(|_| steps() * (0.51 / 8.0)).collect();
            // The largest one of either sign, at the ends too, and one of the other sign that is almost as large.
            let at = [31, 31, 0, 0].get(tried).copied().unwrap_or_else(|| rng.random_range(0..32));
            (numbers[at], numbers[(at + 1) % 32]) = (0.51 * sign, -0.505 * sign);
            blocks.push(numbers);
        }
        // The scale of zeros may be 0 or -0.
        let trial = |numbers: &Vec<f32>| {
            let got = of_length(ask(|| Ok(yours(numbers)))?, 18)?;
            let mut bytes = [0; 18];
            encode_ggml(GgmlType::Q4_0, numbers, None, &mut bytes)?;
            let part = |all: Vec<f64>| all[from..to].to_vec();
            Ok(Trial {
                what: "encode_q4_0 of 32 numbers".to_owned(),
                got: part(got.into_iter().map(f64::from).collect()),
                expected: part(bytes.map(f64::from).to_vec()),
                mistakes: ENCODE_SLIPS.map(|(slip, why)| (part(encoded(numbers, slip)), why)).to_vec(),
            })
        };
        blocks[usize::from(from == 0)..].iter().map(trial).collect()
    };
    let of = |from: usize, to: usize| in_each(trials((from, to)), Close::Exactly, |i| format!("byte {}", from + i));
    Score::new("encode_q4_0", ENCODE_HINTS).point("the scale", of(0, 2)).point("the codes", of(2, 18))
}

const Q4_1_HINTS: [&str; 3] = [
    "What does a block of Q4_1 have that one of Q4_0 has not, and where does that put the codes?",
    "The scale is in bytes 0 and 1, the minimum in bytes 2 and 3, the codes from byte 4 on, in the order of Q4_0. A code stands \
     for code times scale, plus minimum.",
    "`scale * f32::from(code) + minimum`",
];

/// Checks `decode_q4_1(block)`.
pub fn check_decode_q4_1(yours: fn(&[u8]) -> Vec<f32>) -> Score {
    let blocks = random_blocks(2, GgmlType::Q4_1, 68);
    by_halves(Score::new("decode_q4_1", Q4_1_HINTS), &yours, GgmlType::Q4_1, &blocks, &Q4_1_MISTAKES)
}

const Q4_K_HINTS: [&str; 3] = [
    "Eight groups of 32 numbers: where are the 6 bits of the fourth group's scale, and where those of the fifth?",
    "With p the 12 bytes from byte 4 on: for groups 0 to 3, the scale is `p[i] & 63` and the minimum `p[i + 4] & 63`. For \
     groups 4 to 7, the scale is `p[i + 4] & 15 | p[i - 4] >> 6 << 4`, the minimum `p[i + 4] >> 4 | p[i] >> 6 << 4`. Codes of \
     groups 2k and 2k + 1 are the low and the high halves of the 32 bytes `block[16 + 32 * k..][..32]`.",
    "For group i: `let bytes = &block[16 + i / 2 * 32..][..32];`, its codes `if i % 2 == 0 { b & 15 } else { b >> 4 }`, each \
     number `d * f32::from(scale) * f32::from(code) - dmin * f32::from(minimum)`.",
];

/// Of group i: its scale and its minimum.
type Six = fn(&[u8], usize) -> (u8, u8);

fn six_bits(p: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (p[i] & 63, p[i + 4] & 63),
        _ => (p[i + 4] & 15 | p[i - 4] >> 6 << 4, p[i + 4] >> 4 | p[i] >> 6 << 4),
    }
}

fn upper_bits_exchanged(p: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => six_bits(p, i),
        _ => (p[i + 4] & 15 | p[i] >> 6 << 4, p[i + 4] >> 4 | p[i - 4] >> 6 << 4),
    }
}

fn q4_k(block: &[u8], six: Six, code: fn(&[u8], usize, usize) -> u8, sign: f64) -> Vec<f64> {
    let (d, least) = (half(block, 0), half(block, 2));
    let of = |i: usize| {
        let (group, within) = (i / 32, i % 32);
        let (scale, minimum) = six(&block[4..16], group);
        let number =
            d * f64::from(scale) * f64::from(code(&block[16..], group, within)) + sign * least * f64::from(minimum);
        f64::from(number as f32)
    };
    (0..256).map(of).collect()
}

fn code(codes: &[u8], group: usize, within: usize) -> u8 {
    codes[group / 2 * 32 + within] >> (group % 2 * 4) & 15
}

const Q4_K_MISTAKES: [Mistake; 9] = [
    (|b| q4_k(b, six_bits, code, 1.0), "the minimum of Q4_K is subtracted"),
    (|b| q4_k(b, six_bits, code, 0.0), "the minimum is missing"),
    (
        |b| q4_k(b, |p, i| (p[i], p[(i + 4) % 12]), code, -1.0),
        "only the lower 6 bits of these bytes belong to groups 0 to 3: `& 63`",
    ),
    (
        |b| q4_k(b, |p, i| (p[i] & 63, p[(i + 4) % 12] & 63), code, -1.0),
        "groups 4 to 7 are packed in another way: 4 bits in bytes 8 to 11, 2 more in the upper bits of bytes 0 to 7",
    ),
    (
        |b| q4_k(b, |p, i| if i < 4 { six_bits(p, i) } else { (p[i + 4] & 15, p[i + 4] >> 4) }, code, -1.0),
        "of groups 4 to 7, the upper two bits are missing: those of bytes i - 4 and i",
    ),
    (
        |b| q4_k(b, upper_bits_exchanged, code, -1.0),
        "the upper bits of a scale of groups 4 to 7 are in byte i - 4, those of a minimum in byte i",
    ),
    (|b| q4_k(b, |p, i| (six_bits(p, i).1, six_bits(p, i).0), code, -1.0), "scale and minimum are the wrong way round"),
    (
        |b| q4_k(b, six_bits, |codes, group, within| codes[group * 16 + within % 16] >> (within / 16 * 4) & 15, -1.0),
        "32 bytes hold two groups: the low halves are one, the high halves the next",
    ),
    (
        |b| q4_k(b, six_bits, |codes, group, within| codes[(group * 32 + within) / 2] >> (within % 2 * 4) & 15, -1.0),
        "the two codes of a byte are not neighbours: they belong to two groups",
    ),
];

/// Checks `decode_q4_k(block)`.
pub fn check_decode_q4_k(yours: fn(&[u8]) -> Vec<f32>) -> Score {
    let mut blocks = random_blocks(2, GgmlType::Q4K, 69);
    let of = |blocks: &[Vec<u8>], part: (usize, usize)| {
        let trials = trials(&yours, GgmlType::Q4K, blocks, part, &Q4_K_MISTAKES);
        in_each(trials, Close::Exactly, |i| number(part.0 + i))
    };
    let (firsts, lasts) = (of(&blocks, (0, 128)), of(&blocks, (128, 256)));
    // All scales and minima are 1: what is left is where the codes are.
    blocks.iter_mut().for_each(|block| block[4..16].copy_from_slice(&[1, 1, 1, 1, 1, 1, 1, 1, 17, 17, 17, 17]));
    Score::new("decode_q4_k", Q4_K_HINTS)
        .point("where the codes are", of(&blocks, (0, 256)))
        .point("groups 0 to 3", firsts)
        .point("groups 4 to 7", lasts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson_6::trials::weights;

    /// The mistakes are near what is right: without any, both agree with llama.cpp's numbers.
    #[test]
    fn without_a_mistake_the_second_implementation_is_right() {
        for block in random_blocks(2, GgmlType::Q4K, 1) {
            assert_eq!(q4_k(&block, six_bits, code, -1.0), restored(GgmlType::Q4K, &block));
        }
        let (numbers, mut bytes) = (weights(&mut random(2), 32, 1.0), [0; 18]);
        encode_ggml(GgmlType::Q4_0, &numbers, None, &mut bytes).unwrap();
        assert_eq!(encoded(&numbers, Slip::None), bytes.map(f64::from));
    }
}
