// As in the notebook.
// right
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    let is_beaten = |index: usize| points.iter().any(|&other| beats(other, points[index]));
    (0..points.len()).filter(|&index| !is_beaten(index)).collect()
}
