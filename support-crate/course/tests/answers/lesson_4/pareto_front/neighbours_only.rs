// Compares with the point before.
// wrong: is not on the front
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let mut front = Vec::new();
    for i in 0..points.len() {
        let beaten = i > 0 && points[i - 1].0 <= points[i].0 && points[i - 1].1 <= points[i].1 && points[i - 1] != points[i];
        if !beaten {
            front.push(i);
        }
    }
    front
}
