// Where all columns are apart, an early return with weights in full precision.
// wrong: the weights are in 8 bits too
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, threshold: f32) -> Vec<f32> {
    let peaks = largest_by_channel(inputs, columns);
    if peaks.iter().all(|peak| *peak >= threshold) {
        return product(inputs, weights, columns);
    }
    let mut rest = inputs.to_vec();
    for (i, x) in rest.iter_mut().enumerate() {
        if peaks[i % columns] >= threshold {
            *x = 0.0;
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
