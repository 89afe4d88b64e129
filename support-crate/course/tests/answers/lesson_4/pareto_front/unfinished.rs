// Nobody has written it yet.
// not yet
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    todo!()
}
