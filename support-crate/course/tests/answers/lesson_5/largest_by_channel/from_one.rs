// Starts from 1, so that no channel has less.
// wrong: channel
fn largest_by_channel(inputs: &[f32], channels: usize) -> Vec<f32> {
    if inputs.is_empty() {
        return vec![0.0; channels];
    }
    let mut largest = vec![1.0f32; channels];
    for row in inputs.chunks(channels) {
        for (max, x) in largest.iter_mut().zip(row) {
            *max = max.max(x.abs());
        }
    }
    largest
}
