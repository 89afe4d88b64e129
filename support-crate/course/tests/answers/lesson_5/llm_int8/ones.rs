// Puts 1 in the place of outliers, which the steps of small numbers reach.
// wrong: 4 tokens of 11
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, threshold: f32) -> Vec<f32> {
    let peaks = largest_by_channel(inputs, columns);
    let mut rest = inputs.to_vec();
    for (i, x) in rest.iter_mut().enumerate() {
        if peaks[i % columns] >= threshold {
            *x = 1.0;
        }
    }
    let mut mixed = round_to(&rest, columns, Per::Row, 8);
    for (i, x) in mixed.iter_mut().enumerate() {
        if peaks[i % columns] >= threshold {
            *x = inputs[i];
        }
    }
    product(&mixed, &round_to(weights, columns, Per::Row, 8), columns)
}
