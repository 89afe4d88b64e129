// One power for both.
// wrong: the weights' power is 1 - alpha
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    let scale = |(x, w): (&f32, &f32)| match *x > 0.0 && *w > 0.0 {
        true => x.powf(alpha) / w.powf(alpha),
        false => 1.0,
    };
    inputs.iter().zip(weights).map(scale).collect()
}
