// Two sums.
// wrong: fewer than four sums
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 2];
    let (ws, xs) = (w.chunks_exact(2), x.chunks_exact(2));
    let tail = dot_in_order(ws.remainder(), xs.remainder());
    for (w, x) in ws.zip(xs) {
        for i in 0..2 {
            sums[i] += w[i] * x[i];
        }
    }
    sums.iter().sum::<f32>() + tail
}
