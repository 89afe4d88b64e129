// With indices, and the sum in double precision.
// right
fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    let mut y = vec![];
    for o in 0..weights.len() / x.len() {
        let mut sum = 0.0_f64;
        for i in 0..x.len() {
            sum += weights[o * x.len() + i] as f64 * x[i] as f64;
        }
        y.push(sum as f32);
    }
    y
}
