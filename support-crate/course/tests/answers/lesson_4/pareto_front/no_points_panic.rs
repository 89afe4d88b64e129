// Takes a first point for granted.
// wrong: panicked
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    let _first = points[0];
    (0..points.len()).filter(|&i| !points.iter().any(|&other| beats(other, points[i]))).collect()
}
