// Equal points beat each other.
// wrong: its twin
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |j: usize, i: usize| j != i && points[j].0 <= points[i].0 && points[j].1 <= points[i].1;
    (0..points.len()).filter(|&i| !(0..points.len()).any(|j| beats(j, i))).collect()
}
