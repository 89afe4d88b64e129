// All in 8 bits.
// wrong: columns that reach the threshold are not rounded
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, _threshold: f32) -> Vec<f32> {
    product(&round_to(inputs, columns, Per::Row, 8), &round_to(weights, columns, Per::Row, 8), columns)
}
