// Adds up columns, each times a number of x.
// right
fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    let out = weights.len() / x.len();
    let mut y = vec![0.0; out];
    for (i, x_i) in x.iter().enumerate() {
        for o in 0..out {
            y[o] += weights[o * x.len() + i] * x_i;
        }
    }
    y
}
