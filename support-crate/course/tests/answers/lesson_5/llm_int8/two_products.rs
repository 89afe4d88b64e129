// Two products, as in the formula.
// right
fn llm_int8(inputs: &[f32], weights: &[f32], columns: usize, threshold: f32) -> Vec<f32> {
    let most = largest_by_channel(inputs, columns);
    let pick = |apart: bool| -> Vec<f32> {
        inputs.iter().enumerate().map(|(i, &x)| if (most[i % columns] >= threshold) == apart { x } else { 0.0 }).collect()
    };
    let w = round_to(weights, columns, Per::Row, 8);
    let a = product(&pick(true), &w, columns);
    let b = product(&round_to(&pick(false), columns, Per::Row, 8), &w, columns);
    a.iter().zip(&b).map(|(a, b)| a + b).collect()
}
