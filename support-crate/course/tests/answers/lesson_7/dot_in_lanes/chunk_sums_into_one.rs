// The products of a chunk are added up at once, into one running sum.
// wrong: one running sum
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    let mut total = 0.0;
    for (w, x) in w.chunks(16).zip(x.chunks(16)) {
        total += w.iter().zip(x).map(|(w, x)| w * x).sum::<f32>();
    }
    total
}
