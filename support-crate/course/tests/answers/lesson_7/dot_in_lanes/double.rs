// In double precision, one sum.
// right
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>() as f32
}
