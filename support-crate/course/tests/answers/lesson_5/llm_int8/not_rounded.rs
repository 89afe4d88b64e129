// Inputs as they are.
// wrong: columns below the threshold are rounded
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, _threshold: f32) -> Vec<f32> {
    product(inputs, &round_to(weights, columns, Per::Row, 8), columns)
}
