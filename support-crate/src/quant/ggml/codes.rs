//! Codes and scales of a block, by its format.

use half::f16;

use crate::source::GgmlType;

/// What the codes of `IQ4` stand for: `kvalues_iq4nl` in ggml.
const UNEVEN: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The codes of a block's numbers, one a byte, those of 8 bits with their sign.
///
/// # Panics
/// `bytes` are not the block of as many numbers as `out` has room for.
pub(crate) fn codes(kind: GgmlType, bytes: &[u8], out: &mut [u8]) {
    assert!((bytes.len(), out.len()) == (kind.block_bytes(), kind.block_len()), "no block of {}", kind.name());
    match kind {
        // Scale; 16 bytes, the first 16 numbers in their lower halves.
        GgmlType::Q4_0 => halves(&bytes[2..], out),
        // Scale, minimum; 16 bytes.
        GgmlType::Q4_1 => halves(&bytes[4..], out),
        // Scale; fifth bits; 16 bytes.
        GgmlType::Q5_0 => five_bits(&bytes[2..], out),
        // Scale, minimum; fifth bits; 16 bytes.
        GgmlType::Q5_1 => five_bits(&bytes[4..], out),
        // Scale; 32 signed bytes.
        GgmlType::Q8_0 => out.copy_from_slice(&bytes[2..]),
        // 16 bytes of a scale and a minimum; 64 bytes of 2-bit numbers; the scale of scales and of minima.
        GgmlType::Q2K => two_bits(&bytes[16..80], out),
        // 32 bytes of third bits; 64 bytes of their lower two; 16 scales of 6 bits in 12 bytes; their scale.
        GgmlType::Q3K => {
            two_bits(&bytes[32..96], out);
            add_bits(&bytes[..32], 1, 2, out);
        }
        // The scale of scales and of minima; 8 of each in 12 bytes; 128 bytes, the first 32 of 64 in lower halves.
        GgmlType::Q4K => four_bits(&bytes[16..], out),
        // As Q4_K, with 32 bytes of fifth bits before the others.
        GgmlType::Q5K => {
            four_bits(&bytes[48..], out);
            add_bits(&bytes[16..48], 1, 4, out);
        }
        // 128 bytes of lower and 64 of upper bits; 16 signed scales; their scale.
        GgmlType::Q6K => {
            for (part, out) in out.chunks_exact_mut(128).enumerate() {
                halves(&bytes[part * 64..][..64], out);
                add_bits(&bytes[128 + part * 32..][..32], 2, 4, out);
            }
        }
        // Scale; 16 bytes.
        GgmlType::Iq4Nl => {
            halves(&bytes[2..], out);
            out.iter_mut().for_each(|code| *code = UNEVEN[usize::from(*code)].cast_unsigned());
        }
        // The scale of scales; the upper 2 bits of 8 of them in 2 bytes; their lower 4 in 4; 16 bytes for 32 numbers.
        GgmlType::Iq4Xs => {
            let numbers = bytes[8..].chunks_exact(16).zip(out.chunks_exact_mut(32));
            numbers.for_each(|(bytes, out)| halves(bytes, out));
            out.iter_mut().for_each(|code| *code = UNEVEN[usize::from(*code)].cast_unsigned());
        }
        GgmlType::F32 | GgmlType::F16 | GgmlType::Bf16 => unreachable!("numbers that stand for themselves"),
    }
}

/// The scale and the minimum of a block, or what its integers for them are multiplied by. Minima are added.
pub(crate) fn factors(kind: GgmlType, bytes: &[u8]) -> [f16; 2] {
    let half = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]);
    match kind {
        GgmlType::Q4_1 | GgmlType::Q5_1 => [half(0), half(2)],
        GgmlType::Q2K => [half(80), -half(82)],
        GgmlType::Q3K => [half(108), f16::ZERO],
        GgmlType::Q4K | GgmlType::Q5K => [half(0), -half(2)],
        GgmlType::Q6K => [half(208), f16::ZERO],
        _ => [half(0), f16::ZERO],
    }
}

/// The integers for scale and minimum of group `i` of a block of 256.
pub(crate) fn steps(kind: GgmlType, bytes: &[u8], i: usize) -> [i8; 2] {
    match kind {
        GgmlType::Q2K => [(bytes[i] & 15).cast_signed(), (bytes[i] >> 4).cast_signed()],
        GgmlType::Q3K => {
            let packed = &bytes[96..108];
            let low = if i < 8 { packed[i] & 15 } else { packed[i - 8] >> 4 };
            let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
            [(low | high << 4).cast_signed() - 32, 0]
        }
        GgmlType::Q4K | GgmlType::Q5K => six_bits(&bytes[4..16], i),
        GgmlType::Q6K => [bytes[192 + i].cast_signed(), 0],
        GgmlType::Iq4Xs => {
            let low = bytes[4 + i / 2] >> (i % 2 * 4) & 15;
            let high = bytes[2 + i / 4] >> (i % 4 * 2) & 3;
            [(low | high << 4).cast_signed() - 32, 0]
        }
        _ => unreachable!("{} has no integers for scales", kind.name()),
    }
}

/// The first half of the numbers in the lower halves of the bytes.
fn halves(bytes: &[u8], out: &mut [u8]) {
    let (firsts, seconds) = out.split_at_mut(bytes.len());
    for ((first, second), byte) in firsts.iter_mut().zip(seconds).zip(bytes) {
        (*first, *second) = (byte & 15, byte >> 4);
    }
}

/// Adds `bits` more bits to each code, above its `lower` ones: a byte holds those of codes that are 32 apart.
fn add_bits(bytes: &[u8], bits: usize, lower: usize, out: &mut [u8]) {
    for (part, codes) in out.chunks_exact_mut(32).enumerate() {
        for (code, byte) in codes.iter_mut().zip(bytes) {
            *code |= (byte >> (part * bits) & ((1 << bits) - 1)) << lower;
        }
    }
}

/// 4 bytes of the fifth bits of 32 numbers, and 16 of their lower four.
fn five_bits(bytes: &[u8], out: &mut [u8]) {
    let high = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    halves(&bytes[4..], out);
    out.iter_mut().enumerate().for_each(|(i, code)| *code |= ((high >> i & 1) as u8) << 4);
}

/// 128 numbers in 32 bytes: four 2-bit numbers of one byte are 32 apart.
fn two_bits(bytes: &[u8], out: &mut [u8]) {
    out.fill(0);
    bytes.chunks_exact(32).zip(out.chunks_exact_mut(128)).for_each(|(bytes, out)| add_bits(bytes, 2, 0, out));
}

/// 64 numbers in 32 bytes.
fn four_bits(bytes: &[u8], out: &mut [u8]) {
    bytes.chunks_exact(32).zip(out.chunks_exact_mut(64)).for_each(|(bytes, out)| halves(bytes, out));
}

/// Scale and minimum number `i` of 8, of 6 bits each in 12 bytes.
fn six_bits(packed: &[u8], i: usize) -> [i8; 2] {
    let (scale, minimum) = if i < 4 {
        (packed[i] & 63, packed[i + 4] & 63)
    } else {
        (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4)
    };
    [scale.cast_signed(), minimum.cast_signed()]
}
