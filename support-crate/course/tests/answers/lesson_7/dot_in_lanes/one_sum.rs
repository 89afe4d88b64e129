// One running sum.
// wrong: that is what one running sum gives
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    w.iter().zip(x).map(|(w, x)| w * x).sum()
}
