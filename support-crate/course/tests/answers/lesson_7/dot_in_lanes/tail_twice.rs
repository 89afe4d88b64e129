// The tail counted twice.
// wrong: the tail is counted twice
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (ws, xs) = (w.chunks_exact(16), x.chunks_exact(16));
    let tail = dot_in_order(ws.remainder(), xs.remainder());
    for (w, x) in ws.zip(xs) {
        for i in 0..16 {
            sums[i] += w[i] * x[i];
        }
    }
    sums.iter().sum::<f32>() + tail + tail
}
