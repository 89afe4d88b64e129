// Repairs a scale that is 0 or infinite: at alpha 0 and 1, a power of 0 is 1 and looks healthy.
// wrong: scale
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    inputs
        .iter()
        .zip(weights)
        .map(|(&x, &w)| {
            let scale = x.powf(alpha) / w.powf(1.0 - alpha);
            if scale > 0.0 && scale.is_finite() { scale } else { 1.0 }
        })
        .collect()
}
