// Weights of columns with outliers in full.
// wrong: weights are rounded in all columns
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, threshold: f32) -> Vec<f32> {
    let largest = largest_by_channel(inputs, columns);
    let is_outlier = |i: usize| largest[i % columns] >= threshold;
    let without = |(i, x): (usize, &f32)| if is_outlier(i) { 0.0 } else { *x };
    let rest: Vec<f32> = inputs.iter().enumerate().map(without).collect();
    let mut mixed = round_to(&rest, columns, Per::Row, 8);
    for (i, x) in inputs.iter().enumerate().filter(|(i, _)| is_outlier(*i)) {
        mixed[i] = *x;
    }
    let mut rounded = round_to(weights, columns, Per::Row, 8);
    for (i, w) in weights.iter().enumerate().filter(|(i, _)| is_outlier(*i)) {
        rounded[i] = *w;
    }
    product(&mixed, &rounded, columns)
}
