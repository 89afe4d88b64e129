// Loops, and roots before dividing.
// right
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let (mut wrong, mut size) = (0.0_f64, 0.0_f64);
    for i in 0..weights.len() {
        let (a, b) = (weights[i] as f64, restored[i] as f64);
        wrong += (a - b) * (a - b);
        size += a * a;
    }
    wrong.sqrt() / size.sqrt() * 100.0
}
