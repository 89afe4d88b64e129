// Without the magnitude.
// wrong: largest *magnitude*
fn largest_by_channel(inputs: &[f32], channels: usize) -> Vec<f32> {
    let mut largest = vec![0.0_f32; channels];
    for token in inputs.chunks_exact(channels) {
        largest.iter_mut().zip(token).for_each(|(most, x)| *most = most.max(*x));
    }
    largest
}
