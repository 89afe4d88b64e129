// With an index.
// right
fn largest_by_channel(inputs: &[f32], channels: usize) -> Vec<f32> {
    let mut out = vec![0f32; channels];
    for i in 0..inputs.len() {
        let c = i % channels;
        if inputs[i].abs() > out[c] {
            out[c] = inputs[i].abs();
        }
    }
    out
}
