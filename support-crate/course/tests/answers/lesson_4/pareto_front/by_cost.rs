// In ascending order of the first number.
// wrong: in the order of the points
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    let mut front: Vec<usize> =
        (0..points.len()).filter(|&i| !points.iter().any(|&other| beats(other, points[i]))).collect();
    front.sort_by(|&a, &b| points[a].0.total_cmp(&points[b].0));
    front
}
