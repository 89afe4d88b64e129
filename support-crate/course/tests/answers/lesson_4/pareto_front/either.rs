// Better in one number is enough to beat.
// wrong: is missing
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 < b.0 || a.1 < b.1;
    (0..points.len()).filter(|&i| !points.iter().any(|&other| beats(other, points[i]))).collect()
}
