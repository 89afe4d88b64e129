// Sorted by the first number, with the best so far.
// right
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| points[a].partial_cmp(&points[b]).unwrap());
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        let keeps = front.last().is_none_or(|&last| points[index].1 < points[last].1 || points[index] == points[last]);
        if keeps {
            front.push(index);
        }
    }
    front.sort_unstable();
    front
}
