//! Weights that nobody trained, the same for the same seed.

use quantlab_kernels::thread_scope;

use super::convert::Wanted;

/// Standard deviation of weights before training (`initializer_range` in configs).
const INITIAL_SPREAD: f32 = 0.02;

/// Standard deviation of the weights that attention's output goes through. With `INITIAL_SPREAD`, the mean over all
/// positions outweighs what the last token adds, and every text goes on with one and the same token.
const ATTENTION_OUT_SPREAD: f32 = INITIAL_SPREAD / 32.0;

/// Fills `out` with weights as they are when training starts, except for attention's output: norms that change nothing,
/// biases of 0, and matrices of approximately normally distributed numbers (the sum of four uniform ones, which is
/// quick to make). `out` begins with the tensor's number `start`.
pub(super) fn fill<W: Wanted>(seed: u64, name: &str, start: usize, out: &mut [W]) {
    if name.ends_with(".bias") {
        return out.fill(W::from_f32(0.0));
    }
    if name.contains("ln_") || name.contains("norm") {
        return out.fill(W::from_f32(1.0));
    }
    let seed = name.bytes().fold(seed, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    let is_attention_out = name.ends_with(".attn.c_proj.weight") || name.ends_with(".o_proj.weight");
    let spread = if is_attention_out { ATTENTION_OUT_SPREAD } else { INITIAL_SPREAD };
    // The sum of four uniform 16-bit numbers has this spread around twice their range.
    let scale = spread / (65_536.0 / 3.0_f32.sqrt());
    thread_scope().split_mut(out, 1, 32, &|first, part| {
        for (i, out) in ((start + first) as u64..).zip(part) {
            let bits = split_mix(seed, i);
            let sum = (bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48);
            *out = W::from_f32((sum as f32 - 131_070.0) * scale);
        }
    });
}

/// The number at `index` of a sequence.
///
/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
pub(in crate::model) fn split_mix(seed: u64, index: u64) -> u64 {
    let mut bits = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_weights_have_the_promised_spread_and_repeat() {
        let load = |name: &str| {
            let mut values = vec![0.0_f32; 64 * 512];
            fill(1, name, 0, &mut values);
            values
        };
        let values = load("transformer.wte.weight");
        let n = values.len() as f32;
        let mean = values.iter().sum::<f32>() / n;
        let spread = (values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / n).sqrt();
        assert!(mean.abs() < 5e-4 && (spread - INITIAL_SPREAD).abs() < 5e-4, "{mean} {spread}");
        assert_eq!(values, load("transformer.wte.weight"));
        let mut part = [0.0_f32; 100];
        fill(1, "transformer.wte.weight", 5_000, &mut part);
        assert_eq!(part, values[5_000..5_100]);
        assert_ne!(values, load("transformer.wpe.weight"));
    }
}
