//! The scales of AWQ.

use super::site_numbers::{TOKENS, each_site};
use super::{BlockScales, DecoderWeights, Site, SiteNumbers};
use crate::error::Result;
use crate::interrupt;
use crate::model::Loaded;
use crate::quant::AffineInt4;

/// How many powers are tried: multiples of its inverse, from 0 on.
const POWERS: usize = 20;

/// The least power of a mean: no channel is divided by less, before all are divided by one number.
const LEAST: f32 = 1e-4;

/// Finds the scales of all blocks.
///
/// Source: `_search_module_scale` in `auto_scale.py` of mit-han-lab/llm-awq.
pub(super) fn find(loaded: &Loaded, prompts: &[impl AsRef<str>], group_size: usize) -> Result<Vec<BlockScales>> {
    let decoder = DecoderWeights::of(loaded)?;
    for site in Site::of(&decoder.config) {
        AffineInt4::check_rows(site.channel_of_input(&decoder.config).len(), group_size)?;
    }
    each_site(loaded, prompts, "AWQ", TOKENS, &mut |numbers| best(numbers, group_size))
}

/// The scales with the least error.
fn best(numbers: &SiteNumbers, group_size: usize) -> Result<Vec<f32>> {
    let mut best = (f64::INFINITY, vec![1.0; numbers.means.len()]);
    for step in 0..POWERS {
        interrupt::check()?;
        let scales = scales(&numbers.means, step as f32 / POWERS as f32);
        let error = numbers.int4_error(&scales, group_size)?;
        if error < best.0 {
            best = (error, scales);
        }
    }
    Ok(best.1)
}

/// Means to a power, divided so that the largest is the inverse of the smallest.
fn scales(means: &[f32], power: f32) -> Vec<f32> {
    let powers: Vec<f32> = means.iter().map(|mean| mean.powf(power).max(LEAST)).collect();
    let smallest = powers.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = powers.iter().copied().fold(0.0, f32::max);
    let middle = (smallest * largest).sqrt();
    powers.into_iter().map(|power| power / middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_powers_around_one() {
        assert_eq!(scales(&[0.25, 4.0, 1.0], 0.5), [0.5, 2.0, 1.0]);
        assert_eq!(scales(&[0.25, 4.0, 1.0], 0.0), [1.0; 3]);
        assert!(scales(&[0.0, 4.0], 0.5).iter().all(|scale| scale.is_normal()));
    }

    /// One channel of large inputs, whose weights are small beside those of their group.
    #[test]
    fn weights_that_meet_large_inputs_are_protected() {
        let k = 32;
        let weights: Vec<f32> =
            (0..8 * k).map(|i| (i as f32 * 0.77).sin() * if i % k == 5 { 0.1 } else { 1.0 }).collect();
        let inputs: Vec<f32> =
            (0..16 * k).map(|i| (i as f32 * 1.3).cos() * if i % k == 5 { 50.0 } else { 1.0 }).collect();
        let (mut means, mut largest) = (vec![0.0; k], vec![0.0_f32; k]);
        for (i, input) in inputs.iter().enumerate() {
            means[i % k] += input.abs() / 16.0;
            largest[i % k] = largest[i % k].max(input.abs());
        }
        let (site, channel_of_input) = (Site::MlpIn, (0..k).collect());
        let numbers = SiteNumbers { layer: 0, site, channel_of_input, largest, means, inputs, weights };
        let found = best(&numbers, 32).unwrap();
        let others = found.iter().enumerate().filter(|(channel, _)| *channel != 5).map(|(_, scale)| *scale);
        assert!(found[5] > 3.0 * others.fold(0.0, f32::max), "{found:?}");
        let [with, plain] = [found, vec![1.0; k]].map(|scales| numbers.int4_error(&scales, 32).unwrap());
        assert!(with < 0.3 * plain, "{with} {plain}");
        assert!(numbers.largest_weights()[5] <= 0.1 && numbers.largest_weights()[4] > 0.5);
        assert!(numbers.int4_error(&[1.0], 32).unwrap_err().to_string().contains("1 scales for 32 channels"));
        // What a channel without inputs would get.
        assert!(numbers.int4_error(&vec![0.0; k], 32).unwrap_err().to_string().contains("cannot be scaled by 0"));
    }
}
