// Not begun.
// not yet
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, threshold: f32) -> Vec<f32> {
    todo!()
}
