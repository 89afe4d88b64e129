// Chunks that may be short, read as if they were whole.
// wrong: it panicked
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for (w, x) in w.chunks(16).zip(x.chunks(16)) {
        for i in 0..16 {
            sums[i] += w[i] * x[i];
        }
    }
    sums.iter().sum()
}
