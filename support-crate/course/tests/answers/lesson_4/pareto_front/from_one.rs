// Counts from 1.
// wrong: there is no point
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    (0..points.len()).filter(|&i| !points.iter().any(|&other| beats(other, points[i]))).map(|i| i + 1).collect()
}
