// The threshold is 6, whatever is asked for.
// wrong: threshold 25
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, _threshold: f32) -> Vec<f32> {
    let peaks = largest_by_channel(inputs, columns);
    let mut rest = inputs.to_vec();
    for (i, x) in rest.iter_mut().enumerate() {
        if peaks[i % columns] >= 6.0 {
            *x = 0.0;
        }
    }
    let mut mixed = round_to(&rest, columns, Per::Row, 8);
    for (i, x) in mixed.iter_mut().enumerate() {
        if peaks[i % columns] >= 6.0 {
            *x = inputs[i];
        }
    }
    product(&mixed, &round_to(weights, columns, Per::Row, 8), columns)
}
