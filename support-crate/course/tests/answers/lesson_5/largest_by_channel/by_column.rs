// Column by column.
// right
fn largest_by_channel(inputs: &[f32], channels: usize) -> Vec<f32> {
    (0..channels).map(|c| inputs.iter().skip(c).step_by(channels).fold(0.0, |m: f32, x| m.max(x.abs()))).collect()
}
