// Not begun.
// not yet
fn largest_by_channel(inputs: &[f32], channels: usize) -> Vec<f32> {
    todo!()
}
