//! The scales of SmoothQuant.

use super::BlockScales;
use super::site_numbers::each_site;
use crate::error::Result;
use crate::model::Loaded;

/// Finds the scales of all blocks.
///
/// Source: `smooth_ln_fcs` in `smooth.py` of mit-han-lab/smoothquant.
pub(super) fn find(loaded: &Loaded, prompts: &[impl AsRef<str>], alpha: f32) -> Result<Vec<BlockScales>> {
    // Single inputs do not matter, and would take memory.
    each_site(loaded, prompts, "SmoothQuant", 1, &mut |numbers| {
        let largest = numbers.largest.iter().zip(numbers.largest_weights());
        Ok(largest.map(|(&input, weight)| smoothing(input, weight, alpha)).collect())
    })
}

/// `max|X|^alpha / max|W|^(1 - alpha)`; 1 where that is not a number of ordinary size, as it is for a channel of zeros.
fn smoothing(input: f32, weight: f32, alpha: f32) -> f32 {
    let scale = input.powf(alpha) / weight.powf(1.0 - alpha);
    if input > 0.0 && weight > 0.0 && (1e-6..1e6).contains(&scale) { scale } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_divides_the_difficulty() {
        assert_eq!(smoothing(64.0, 0.25, 0.5), 16.0);
        assert_eq!(smoothing(64.0, 0.25, 1.0), 64.0);
        assert_eq!(smoothing(64.0, 0.25, 0.0), 4.0);
        for (input, weight) in [(0.0, 1.0), (1.0, 0.0), (1e20, 1e-20), (f32::NAN, 1.0)] {
            assert_eq!(smoothing(input, weight, 0.5), 1.0, "{input} {weight}");
        }
    }
}
