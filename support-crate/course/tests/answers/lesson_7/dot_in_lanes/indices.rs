// Product i goes into sum i % 16.
// right
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for i in 0..w.len() {
        sums[i % 16] += w[i] * x[i];
    }
    sums.iter().sum()
}
